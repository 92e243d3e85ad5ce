"""What to do when a job of classical machine learning does not fit or takes too long: codes with the reason of each."""

from __future__ import annotations

from rightfit.estimate.classical import ClassicalTask, gpu_support
from rightfit.facts.constants import constants
from rightfit.physics.classical_work import Algorithm
from rightfit.units import SECONDS_PER_HOUR, TB

#: code -> why it is said; data for whoever composes the words for users.
ADVICE = {
    "external-memory": "XGBoost and LightGBM read batches from disk (QuantileDMatrix with an iterator, two_round): RAM then holds the binned cells of one batch",
    "quantised-once": "a histogram library keeps a byte a cell; load in pieces into its own data set and drop the frame: the peak falls to about a quarter",
    "float32": "the data stand as 64-bit floats: half of the RAM buys no accuracy for these algorithms",
    "sparse": "one-hot columns held dense are zeros mostly: as a sparse matrix they take 8 to 12 bytes a non-zero cell",
    "memory-optimised": "one machine with 8 GiB or more a vCPU holds it; simpler and cheaper than a cluster",
    "dask": "rows are more than one machine holds: Dask splits frame and training (xgboost.dask, lightgbm.dask) over machines with Python all the way",
    "spark": "the data are beyond a terabyte or lie in a Spark warehouse: prepare there, train with XGBoost4J or sample first",
    "ray": "many models or a search over settings: Ray runs one training a core; one model does not get faster",
    "cudf": "the table fits the GPU's memory: cuDF and cuML keep it there from reading to training",
    "chunked-learning": "partial_fit (SGDClassifier, MiniBatchKMeans, IncrementalPCA) learns from pieces that fit",
    "approximate-kernel": "a kernel machine grows with rows squared: Nystroem features with a linear model, or a boosted model, above some ten thousand rows",
    "approximate-neighbours": "all pairs grow with rows squared: an approximate index (FAISS, HNSW, pynndescent) costs rows x log rows",
    "sample": "learning curves of trees flatten: a tenth of the rows first tells whether the rest pays",
    "gpu-out-of-core": "the GPU is too small: XGBoost's external memory on GPU streams pages over PCIe or NVLink-C2C; else more GPUs or processors",
    "one-thread": "this solver uses one thread: a fast core beats many cores; more servers only help a search over settings",
}
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
    """Codes of ADVICE for a task whose peak is `ram_bytes` on a machine of `memory_bytes` [bytes], that takes `time_s` [s] there."""
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
