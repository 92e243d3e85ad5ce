"""Classical machine learning: words, tasks, processors, GPUs, columns, rows of the measured table, advice."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from rightfit.errors import InputError
from rightfit.estimate.classical import classical_task, cpu_columns, gpu_columns, gpu_support
from rightfit.estimate.classical_advice import ADVICE, advice_codes
from rightfit.estimate.classical_figures import classical_columns
from rightfit.estimate.classical_hardware import gpu_figures, row_processor
from rightfit.estimate.classical_words import algorithm_of, library_of, settings_of
from rightfit.physics.classical_work import Algorithm
from rightfit.proof.classical_cases import classical_cases
from rightfit.proof.predict import predict

TRUTH = Path(__file__).parents[2] / "validation/truth/classical_ml.csv.gz"
ROW = {
    "id": "t-1",
    "metric": "train_time_s",
    "library": "xgboost",
    "algorithm": "gradient boosting",
    "rows": "1000000",
    "cols": "28",
    "settings": "100 trees, depth 8",
    "hardware": "AWS c5.9xlarge",
    "cores": "36",
    "gpu": "",
    "notes": "",
}


def truth_rows() -> list[dict[str, str]]:
    with gzip.open(TRUTH, "rt", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    ("text", "library"),
    [
        ("xgboost 0.80 hist", "xgboost"),
        ("xgboost (2015)", "xgboost_old"),
        ("h2o-xgboost", "h2o_xgboost"),
        ("LightGBM 2.2.1", "lightgbm"),
        ("scikit-learn 1.4", "sklearn"),
        ("RAPIDS cuML 24.02", "cuml"),
        ("Spark MLlib 2.4.2 GBT", "spark"),
        ("R glm", "r"),
        ("daal4py / scikit-learn-intelex", "sklearnex"),
        ("something new", "other"),
    ],
)
def test_libraries_by_their_words(text: str, library: str) -> None:
    assert library_of(text) == library


@pytest.mark.parametrize(
    ("text", "library", "algorithm"),
    [
        ("gradient boosting", "xgboost", Algorithm.BOOST_HIST),
        ("gradient boosting", "sklearn", Algorithm.BOOST_EXACT),
        ("HistGradientBoostingClassifier", "sklearn", Algorithm.BOOST_HIST),
        ("random forest", "sklearn", Algorithm.FOREST_EXACT),
        ("random forest", "cuml", Algorithm.FOREST_HIST),
        ("SVC rbf", "sklearn", Algorithm.KERNEL_SVM),
        ("LinearSVC", "sklearn", Algorithm.LINEAR_COORDINATE),
        ("KMeans", "cuml", Algorithm.KMEANS),
        ("TruncatedSVD", "sklearn", Algorithm.RANDOM_SVD),
        ("PCA", "sklearn", Algorithm.PCA),
        ("k-nearest neighbours (kd tree)", "sklearn", Algorithm.KNN_TREE),
        ("LinearRegression", "sklearn", Algorithm.LINEAR_CLOSED),
        ("GaussianNB", "sklearn", Algorithm.ONE_PASS),
        ("RandomForestClassifier", "sklearn", Algorithm.FOREST_EXACT),
        ("HDBSCAN", "hdbscan", Algorithm.HDBSCAN),
        ("t-SNE", "cuml", Algorithm.TSNE),
        ("SHAP values of a boosted model", "catboost", Algorithm.SHAP),
    ],
)
def test_algorithms_by_their_words(text: str, library: str, algorithm: Algorithm) -> None:
    assert algorithm_of(text, library) == algorithm


def test_settings_in_both_styles() -> None:
    plain = settings_of("500 trees, depth 8, 128 bins", "", "gradient boosting")
    assert (plain.trees, plain.depth, plain.bins) == (500, 8, 128)
    code = settings_of("n_estimators=500, max_depth=8, max_bin=63, num_leaves=255", "", "gradient boosting")
    assert (code.trees, code.depth, code.bins, code.leaves) == (500, 8, 63, 255)
    assert settings_of("n_clusters=20, max_iter=300", "", "k-means")[4:6] == (300, 20)
    assert settings_of("", "39 columns (26 categorical)", "boosting").categorical == 26


@pytest.mark.parametrize(
    ("hardware", "cores", "pinning", "expected"),
    [
        ("AWS c3.8xlarge (32 vCPU, 60 GB)", 32, "", ("Intel Xeon Ivy Bridge", 16, 32)),
        ("AWS r4.8xlarge (16 physical cores)", 16, "", ("Intel Xeon Broadwell", 16, 16)),
        (
            "AWS c5.metal (2x Xeon Platinum 8275CL, 24 cores each)",
            48,
            "both threads",
            ("Intel Xeon Cascade Lake", 24, 48),
        ),
        ("AWS c7a.metal-48xl (2x EPYC 9R14, 96 cores each)", 192, "everything", ("AMD EPYC Genoa (Zen 4)", 192, 192)),
        ("Core i7-6800K (12 threads)", 12, "", ("Intel Core, 6th to 11th generation", 6, 12)),
    ],
)
def test_processors_of_rows(hardware: str, cores: float, pinning: str, expected: tuple[str, float, float]) -> None:
    row, physical, threads, _ = row_processor(hardware, cores, pinning)
    assert (row["name"], physical, threads) == expected


def test_rentable_servers_halve_hyperthreads_but_not_arm() -> None:
    cpu = cpu_columns(
        ["Intel Xeon 8488C", "AWS Graviton3", "AMD EPYC 9R14"], vcpus=np.array([32.0, 32.0, 32.0]), memory_bytes=np.full(3, 6.4e10)
    )
    assert cpu.cores.tolist() == [16.0, 32.0, 32.0]


def test_gpus_by_name_and_count() -> None:
    one, two = gpu_figures("GTX 1080"), gpu_figures("2x GTX 1080")
    assert one is not None
    assert two is not None
    assert (one[4], two[4]) == (1.0, 2.0)
    assert one[0] == pytest.approx(20 * 1.73e9)
    a100 = gpu_figures("A100-SXM4-40GB")
    assert a100 is not None
    # 108 multiprocessors at 1.41 GHz.
    assert a100[0] == pytest.approx(108 * 1.41e9, rel=0.01)
    assert gpu_figures("Zork 9000") is None


def test_defaults_are_named() -> None:
    task = classical_task("xgboost", rows=1e6, cols=28)
    assert (task.library, task.trees, task.depth, task.leaves) == ("xgboost", 100, 6, 64)
    assert any("trees" in text for text in task.assumptions)
    assert classical_task("xgboost", rows=1e6, cols=28, settings="50 trees, depth 4").assumptions == ()


def test_one_hot_is_sparse_for_some_and_native_for_others() -> None:
    data = "8 raw columns (6 categorical): one-hot sparse"
    sparse = classical_task("gradient boosting", library="xgboost", rows=1e6, cols=8, settings="100 trees, depth 10", data=data)
    native = classical_task("gradient boosting", library="lightgbm", rows=1e6, cols=8, settings="100 trees, depth 10", data=data)
    assert (sparse.cols, sparse.nonzeros, sparse.sparse) == (602, 8, 1)
    assert (native.cols, native.categorical, native.sparse) == (8, 6, 0)


@pytest.mark.parametrize(("rows", "cols"), [(0, 10), (10, 0), (-5, 3), (float("nan"), 3)])
def test_sizes_must_be_positive(rows: float, cols: float) -> None:
    with pytest.raises(InputError, match="at least 1"):
        classical_task("xgboost", rows=rows, cols=cols)


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(InputError, match="not known; known are"):
        classical_task("frobnication", rows=10, cols=10)


def servers() -> object:
    return cpu_columns(["Intel Xeon 8488C"] * 3, vcpus=np.array([4.0, 16.0, 64.0]), memory_bytes=np.array([8.0, 64.0, 256.0]) * 2.0**30)


def test_more_cores_are_faster_and_intervals_hold_the_middle() -> None:
    found = classical_columns(classical_task("lightgbm", rows=1e7, cols=50, settings="200 trees, 127 leaves"), servers())  # type: ignore[arg-type]
    assert (np.diff(found.time_s.mid) < 0).all()
    for figure in (found.time_s, found.peak_ram_bytes):
        assert (figure.low95 <= figure.low80).all()
        assert (figure.low80 <= figure.high80).all()
        assert (figure.high80 <= figure.high95).all()
    # 1e7 x 50 float32 cells are 2 GB and a byte each for the bins: more than 2.5 GB, less than three copies.
    assert (found.peak_ram_bytes.mid > 2.5e9).all()
    assert (found.peak_ram_bytes.mid < 8e9).all()


def test_what_does_not_fit_says_so_and_says_what_helps() -> None:
    found = classical_columns(
        classical_task("random forest", library="scikit-learn", rows=1e7, cols=100, settings="100 trees, depth 12"), servers()
    )  # type: ignore[arg-type]
    assert found.fits.tolist()[0] is False
    assert found.fits.tolist()[2] is True
    assert {"float32", "memory-optimised"} <= set(found.advice[0])
    assert "memory-optimised" not in found.advice[2]


def test_every_code_of_advice_has_a_reason() -> None:
    huge = classical_task("xgboost", rows=1e11, cols=500)
    codes = advice_codes(huge, ram_bytes=1e14, memory_bytes=1e12, time_s=1e6, gpu_fits=False)
    assert {"external-memory", "dask", "spark", "sample", "gpu-out-of-core"} <= set(codes)
    assert set(codes) <= set(ADVICE)
    svm = classical_task("SVC rbf", library="sklearn", rows=1e6, cols=20)
    assert "approximate-kernel" in advice_codes(svm, ram_bytes=1e9, memory_bytes=1e12, time_s=1e5)
    assert "one-thread" in advice_codes(svm, ram_bytes=1e9, memory_bytes=1e12, time_s=1e5)


def test_gpus_run_what_some_library_runs_on_them() -> None:
    forest = gpu_support(classical_task("random forest", library="sklearn", rows=1e6, cols=20))
    assert forest is not None
    assert (forest.library, forest.algorithm) == ("cuml", Algorithm.FOREST_HIST)
    assert gpu_support(classical_task("random forest", library="R randomForest", rows=1e6, cols=20)) is None
    with pytest.raises(InputError, match="no GPU library"):
        classical_columns(classical_task("random forest", library="R", rows=1e6, cols=20), servers(), gpu=gpu_columns(["T4"] * 3))  # type: ignore[arg-type]


def test_a_gpu_too_small_does_not_fit() -> None:
    task = classical_task("xgboost", rows=1e9, cols=100, settings="10 trees, depth 6")
    cpu = cpu_columns(["Intel Xeon 8488C"] * 2, vcpus=np.array([64.0, 64.0]), memory_bytes=np.full(2, 4e12))
    found = classical_columns(task, cpu, gpu=gpu_columns(["T4", "B200"]))
    # A byte or two for each of 1e11 cells: 16 GB are not enough.
    assert found.gpu_peak_bytes[0] > 1e11
    assert found.fits.tolist()[0] is False
    assert "gpu-out-of-core" in found.advice[0]


def test_every_row_of_the_table_is_answered() -> None:
    rows = truth_rows()
    answers = predict(rows)
    assert [answer["error"] for answer in answers if answer["error"]] == []
    ratios = np.array([answer["predicted"] / float(row["measured"]) for row, answer in zip(rows, answers, strict=True)])
    metrics = np.array([row["metric"] for row in rows])
    assert np.exp(np.median(np.abs(np.log(ratios[metrics == "train_time_s"])))) < 1.6
    assert np.exp(np.median(np.abs(np.log(ratios[metrics == "peak_ram_gib"])))) < 1.6


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"rows": ""}, "rows is missing"),
        ({"cols": "none"}, "cols is missing"),
        ({"gpu": "Zork 9000"}, "is not known"),
        ({"metric": "joules"}, "the metrics are train_time_s"),
        ({"metric": ""}, "must name its metric"),
        ({"algorithm": "frobnication", "library": "nothing"}, "is not known"),
        ({"library": "R randomForest", "algorithm": "random forest", "gpu": "T4"}, "no GPU library"),
    ],
)
def test_rows_that_cannot_be_told_say_why(cells: dict[str, str], says: str) -> None:
    answer = predict([ROW | cells])[0]
    assert answer["predicted"] is None
    assert says in answer["error"]


def test_numbers_as_people_write_them() -> None:
    plain, short = predict([ROW, ROW | {"rows": "1M"}])
    assert plain["predicted"] == short["predicted"]


def test_a_source_of_whole_gigabytes_prints_one_for_less() -> None:
    exact, rounded = predict([ROW | {"metric": "peak_ram_gib"}, ROW | {"metric": "peak_ram_gib", "rounded_to_gib": "1"}])
    assert exact["predicted"] < 1.0
    assert rounded["predicted"] == 1.0


def test_memory_on_top_of_the_data_leaves_the_data_out() -> None:
    whole, growth = predict(
        [
            ROW | {"metric": "peak_ram_gib", "rows": "1e8"},
            ROW | {"metric": "peak_ram_gib", "rows": "1e8", "counter": "added"},
        ]
    )
    # 1e8 x 28 float32 cells = 10.4 GiB.
    assert whole["predicted"] - growth["predicted"] > 10.4


def test_memory_of_a_row_with_a_gpu_is_that_of_the_gpu() -> None:
    cases = classical_cases([ROW | {"metric": "peak_ram_gib", "gpu": "V100-SXM2-16GB"}])
    assert cases.card_memory.tolist() == [1.0]


def gpu_terms_of(library: str, *, vcpus: float, data: str = "") -> dict[str, float]:
    task = classical_task("gradient boosting", library=library, rows=1e7, cols=8, settings="100 trees, depth 6", data=data)
    cpu = cpu_columns(["Intel Xeon Platinum 8275CL"], vcpus=np.array([vcpus]), memory_bytes=np.array([1e12]))
    found = classical_columns(task, cpu, gpu=gpu_columns(["V100-SXM2-16GB"]))
    return {name: float(value[0]) for name, value in found.time_terms.items()}


def test_lightgbm_on_a_gpu_waits_for_processors_and_xgboost_hardly() -> None:
    slow, fast = gpu_terms_of("lightgbm", vcpus=4), gpu_terms_of("lightgbm", vcpus=64)
    assert slow["host"] > 2.5 * fast["host"]
    assert slow["host"] > slow["operations"]
    assert gpu_terms_of("xgboost", vcpus=4)["host"] < 0.5 * slow["host"]


def test_catboost_on_a_gpu_sorts_categories() -> None:
    assert gpu_terms_of("catboost", vcpus=16, data="6 categorical")["memory_bus"] > 1.1 * gpu_terms_of("catboost", vcpus=16)["memory_bus"]


def test_boosting_of_an_older_year_is_slower_and_other_algorithms_are_not() -> None:
    boosting = {"metric": "train_time_s", "library": "lightgbm", "algorithm": "gradient boosting", "settings": "100 trees, 31 leaves"}
    now, unknown, old = predict([ROW | boosting | {"date": date} for date in ("2025", "", "2019-06")])
    assert now["predicted"] == unknown["predicted"]
    assert old["predicted"] > 1.2 * now["predicted"]
    linear = {"metric": "train_time_s", "library": "scikit-learn", "algorithm": "logistic regression", "settings": ""}
    today, former = predict([ROW | linear | {"date": date} for date in ("2025", "2019")])
    assert former["predicted"] == pytest.approx(today["predicted"], rel=1e-3)


def test_catboost_ages_with_its_categories_only() -> None:
    numbers = {
        "metric": "train_time_s",
        "library": "catboost",
        "algorithm": "gradient boosting",
        "settings": "100 trees, depth 6",
        "notes": "",
    }
    ratios = []
    for settings in ("100 trees, depth 6", "100 trees, depth 6, 6 categorical"):
        now, old = predict([ROW | numbers | {"settings": settings, "date": date} for date in ("2025", "2019")])
        ratios.append(old["predicted"] / now["predicted"])
    assert ratios[0] == pytest.approx(1.0)
    assert ratios[1] > 1.3
