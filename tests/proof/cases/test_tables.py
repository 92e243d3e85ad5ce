"""Rows of the measured table of classical machine learning: machines, cards, what is predicted
and what is refused."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from rightfit.proof.cases.tables import classical_cases, gpu_figures, host_of
from rightfit.proof.predict import predict

TRUTH = Path(__file__).parents[3] / "validation/truth/classical_ml.csv.gz"
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
    host = host_of(hardware, cores, pinning)
    assert (host.processor.name, host.cores, host.threads) == expected


def test_gpus_by_name_and_count() -> None:
    one, two = gpu_figures("GTX 1080"), gpu_figures("2x GTX 1080")
    assert one is not None
    assert two is not None
    assert (one.count, two.count) == (1.0, 2.0)
    assert one.lanes == pytest.approx(20 * 1.73e9)
    a100 = gpu_figures("A100-SXM4-40GB")
    assert a100 is not None
    # 108 multiprocessors at 1.41 GHz.
    assert a100.lanes == pytest.approx(108 * 1.41e9, rel=0.01)
    assert gpu_figures("Zork 9000") is None


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
        ({"algorithm": "frobnication", "library": "nothing"}, "unknown algorithm"),
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
