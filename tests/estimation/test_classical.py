"""Classical machine learning: tasks, processors, GPUs, columns, advice."""

from __future__ import annotations

import numpy as np
import pytest
from tests.classical_tasks import figures_of, named_cards, named_hosts, named_task

from rightfit.errors import InputError
from rightfit.estimation.classical import advice_codes, gpu_support
from rightfit.explain.messages import has
from rightfit.physics.classical import CpuColumns
from rightfit.physics.classical_work import Algorithm


def test_rentable_servers_halve_hyperthreads_but_not_arm() -> None:
    cpu = named_hosts("Intel Xeon 8488C", "AWS Graviton3", "AMD EPYC 9R14", vcpus=[32.0] * 3, memory_bytes=[6.4e10] * 3)
    assert cpu.cores.tolist() == [16.0, 32.0, 32.0]


def test_defaults_are_named() -> None:
    task = named_task("xgboost", rows=1e6, cols=28)
    assert (task.library, task.trees, task.depth, task.leaves) == ("xgboost", 100, 6, 64)
    assert any("trees" in text for text in task.assumptions)
    assert named_task("xgboost", rows=1e6, cols=28, settings="50 trees, depth 4").assumptions == ()


def test_one_hot_is_sparse_for_some_and_native_for_others() -> None:
    data = "8 raw columns (6 categorical): one-hot sparse"
    sparse = named_task("gradient boosting", library="xgboost", rows=1e6, cols=8, settings="100 trees, depth 10", data=data)
    native = named_task("gradient boosting", library="lightgbm", rows=1e6, cols=8, settings="100 trees, depth 10", data=data)
    assert (sparse.cols, sparse.nonzeros, sparse.sparse) == (602, 8, 1)
    assert (native.cols, native.categorical, native.sparse) == (8, 6, 0)


@pytest.mark.parametrize(("rows", "cols"), [(0, 10), (10, 0), (-5, 3), (float("nan"), 3)])
def test_sizes_must_be_positive(rows: float, cols: float) -> None:
    with pytest.raises(InputError, match="at least 1"):
        named_task("xgboost", rows=rows, cols=cols)


def servers() -> CpuColumns:
    gib = 2.0**30
    return named_hosts(*["Intel Xeon 8488C"] * 3, vcpus=[4.0, 16.0, 64.0], memory_bytes=[8.0 * gib, 64.0 * gib, 256.0 * gib])


def test_more_cores_are_faster_and_intervals_hold_the_middle() -> None:
    found = figures_of(named_task("lightgbm", rows=1e7, cols=50, settings="200 trees, 127 leaves"), servers())
    assert (np.diff(found.time_s.mid) < 0).all()
    for figure in (found.time_s, found.peak_ram_bytes):
        assert (figure.low95 <= figure.low80).all()
        assert (figure.low80 <= figure.high80).all()
        assert (figure.high80 <= figure.high95).all()
    # 1e7 x 50 float32 cells are 2 GB and a byte each for the bins: more than 2.5 GB, less
    # than three copies.
    assert (found.peak_ram_bytes.mid > 2.5e9).all()
    assert (found.peak_ram_bytes.mid < 8e9).all()


def test_what_does_not_fit_says_so_and_says_what_helps() -> None:
    found = figures_of(named_task("random forest", library="scikit-learn", rows=1e7, cols=100, settings="100 trees, depth 12"), servers())
    assert found.fits.tolist()[0] is False
    assert found.fits.tolist()[2] is True
    assert {"float32", "memory-optimised"} <= set(found.advice[0])
    assert "memory-optimised" not in found.advice[2]


def test_every_code_of_advice_has_a_reason() -> None:
    huge = named_task("xgboost", rows=1e11, cols=500)
    codes = advice_codes(huge, ram_bytes=1e14, memory_bytes=1e12, time_s=1e6, gpu_fits=False)
    assert {"external-memory", "dask", "spark", "sample", "gpu-out-of-core"} <= set(codes)
    assert all(has(f"host.host_tip_{code.replace('-', '_')}") for code in codes)
    svm = named_task("SVC rbf", library="sklearn", rows=1e6, cols=20)
    assert "approximate-kernel" in advice_codes(svm, ram_bytes=1e9, memory_bytes=1e12, time_s=1e5)
    assert "one-thread" in advice_codes(svm, ram_bytes=1e9, memory_bytes=1e12, time_s=1e5)


def test_gpus_run_what_some_library_runs_on_them() -> None:
    forest = gpu_support(named_task("random forest", library="sklearn", rows=1e6, cols=20))
    assert forest is not None
    assert (forest.library, forest.algorithm) == ("cuml", Algorithm.FOREST_HIST)
    assert gpu_support(named_task("random forest", library="R randomForest", rows=1e6, cols=20)) is None


def test_a_gpu_too_small_does_not_fit() -> None:
    task = named_task("xgboost", rows=1e9, cols=100, settings="10 trees, depth 6")
    cpu = named_hosts(*["Intel Xeon 8488C"] * 2, vcpus=[64.0] * 2, memory_bytes=[4e12] * 2)
    found = figures_of(task, cpu, gpu=named_cards("T4", "B200"))
    # A byte or two for each of 1e11 cells: 16 GB are not enough.
    assert found.gpu_peak_bytes[0] > 1e11
    assert found.fits.tolist()[0] is False
    assert "gpu-out-of-core" in found.advice[0]


def gpu_terms_of(library: str, *, vcpus: float, data: str = "") -> dict[str, float]:
    task = named_task("gradient boosting", library=library, rows=1e7, cols=8, settings="100 trees, depth 6", data=data)
    cpu = named_hosts("Intel Xeon Platinum 8275CL", vcpus=[vcpus], memory_bytes=[1e12])
    found = figures_of(task, cpu, gpu=named_cards("V100-SXM2-16GB"))
    return {name: float(value[0]) for name, value in found.time_terms.items()}


def test_lightgbm_on_a_gpu_waits_for_processors_and_xgboost_hardly() -> None:
    slow, fast = gpu_terms_of("lightgbm", vcpus=4), gpu_terms_of("lightgbm", vcpus=64)
    assert slow["host"] > 2.5 * fast["host"]
    assert slow["host"] > slow["operations"]
    assert gpu_terms_of("xgboost", vcpus=4)["host"] < 0.5 * slow["host"]


def test_catboost_on_a_gpu_sorts_categories() -> None:
    assert gpu_terms_of("catboost", vcpus=16, data="6 categorical")["memory_bus"] > 1.1 * gpu_terms_of("catboost", vcpus=16)["memory_bus"]
