"""What to do when a job of classical machine learning does not fit or takes too long: codes with the reason of each."""

from __future__ import annotations

from rightfit.estimate.classical import ClassicalTask, gpu_support
from rightfit.facts.constants import constants
from rightfit.physics.classical_work import Algorithm
from rightfit.units import SECONDS_PER_HOUR, TB

_FIGURES = constants("classical_usual")
_MANY_ROWS_SQUARED = _FIGURES["many_rows_squared"]
_LARGEST_SERVER_BYTES = _FIGURES["largest_server_bytes"]
_SQUARED = (Algorithm.KNN_BRUTE, Algorithm.DBSCAN, Algorithm.HDBSCAN, Algorithm.KNN_TREE)
_PARTIAL = (
    Algorithm.LINEAR_ITERATIVE,
    Algorithm.LINEAR_COORDINATE,
    Algorithm.KMEANS,
    Algorithm.PCA,
    Algorithm.RANDOM_SVD,
    Algorithm.ONE_PASS,
)


def _too_large(task: ClassicalTask, ram_bytes: float) -> list[str]:
    """What helps when RAM does not hold the job, the simplest first."""
    found: list[str] = []
    if task.element_bytes > 4:
        found.append("float32")
    if task.algorithm == Algorithm.BOOST_HIST:
        found += ["quantised-once"] + (["external-memory"] if task.library in ("xgboost", "lightgbm") else [])
    if not task.sparse and task.cols > _FIGURES["many_columns"] and task.library in ("sklearn", "other"):
        found.append("sparse")
    if task.algorithm in _PARTIAL:
        found.append("chunked-learning")
    found.append("memory-optimised" if ram_bytes <= _LARGEST_SERVER_BYTES else "dask")
    if ram_bytes > TB:
        found.append("spark" if ram_bytes > _LARGEST_SERVER_BYTES else "dask")
    return [*dict.fromkeys([*found, "sample"])]


def advice_codes(
    task: ClassicalTask, *, ram_bytes: float, memory_bytes: float, gpu_fits: bool = True, time_s: float = 0.0
) -> tuple[str, ...]:
    """Codes of what to do (explain words them) for a task whose peak is `ram_bytes` on a machine of `memory_bytes` [bytes], that takes `time_s` [s] there."""
    from rightfit.estimate.classical_rates import most_threads

    found: list[str] = []
    if memory_bytes and ram_bytes > memory_bytes:
        found += _too_large(task, ram_bytes)
    if not gpu_fits:
        found.append("gpu-out-of-core")
    if task.algorithm == Algorithm.KERNEL_SVM and task.rows > _MANY_ROWS_SQUARED:
        found.append("approximate-kernel")
    if task.algorithm in _SQUARED and task.rows > 10 * _MANY_ROWS_SQUARED:
        found.append("approximate-neighbours")
    if time_s > SECONDS_PER_HOUR:
        if most_threads(task.kind) == 1:
            found.append("one-thread")
        if gpu_support(task) is not None and task.library != "cuml" and gpu_fits:
            found.append("cudf")
    return tuple(dict.fromkeys(found))
