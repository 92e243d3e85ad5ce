"""Classical machine learning: a typed case, the task that it is with every default filled in, and
many tasks as columns of time and memory."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from rightfit.errors import InputError
from rightfit.estimation.classical_rates import (
    ClassicalKind,
    ClassicalKinds,
    Coefficients,
    classical_rates,
    counts,
    gpu_rates,
    memory_rates,
    rate_column,
)
from rightfit.facts.classical import AlgorithmSettings
from rightfit.facts.tables import constant_group, constants
from rightfit.messages import Message
from rightfit.physics.classical import ClassicalWork, CpuColumns, GpuColumns, classical_terms, gpu_terms, speedup
from rightfit.physics.classical_work import Algorithm, JobColumns, classical_work, gpu_peak_bytes, grown_levels, input_bytes, memory_terms
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.units import INT32_BYTES, SECONDS_PER_HOUR, TB

#: Categories of a column that nobody counted. Flight records, the most used benchmark, have 112 on
#: average; most tables fewer.
USUAL_LEVELS = constants("classical_usual")["usual_levels"]
#: Two sums of 8 bytes in every bin of a histogram.
HISTOGRAM_BYTES = constants("classical_usual")["histogram_bytes"]
_FIGURES = constants("classical_usual")
_USUAL_TREES, _USUAL_DEPTH, _USUAL_BINS, _FOREST_DEPTH, _USUAL_ITERATIONS, _USUAL_K = (
    constant_group("classical_usual", name) for name in ("trees", "depth", "bins", "forest_depth", "iterations", "k")
)
_TREE_ALGORITHMS = (
    Algorithm.BOOST_HIST,
    Algorithm.BOOST_EXACT,
    Algorithm.FOREST_EXACT,
    Algorithm.FOREST_RANDOM,
    Algorithm.FOREST_HIST,
    Algorithm.ISOLATION,
    Algorithm.PREDICT_TREES,
    Algorithm.SHAP,
)
_BOOSTED = (Algorithm.BOOST_HIST, Algorithm.BOOST_EXACT, Algorithm.PREDICT_TREES, Algorithm.SHAP)
_FORESTS = (Algorithm.FOREST_EXACT, Algorithm.FOREST_RANDOM, Algorithm.FOREST_HIST)
#: Libraries that take categories as they are; the others see one column a category.
_NATIVE = {"lightgbm", "catboost", "h2o", "r", "ranger"}
_USUAL_LAYERS = (100.0,)


@dataclass(frozen=True, slots=True)
class TableCase:
    """A job on a table as it is told: the algorithm in its library, rows and columns, and what is
    said of its settings. `filled`: share of cells that hold something, 0 where the table is not
    sparse; `predicts`: a trained model scores the table."""

    algorithm: Algorithm
    library: str
    rows: float
    cols: float
    settings: AlgorithmSettings = AlgorithmSettings()
    filled: float = 0.0
    predicts: bool = False


@dataclass(frozen=True, slots=True)
class ClassicalTask:
    """One job with every default filled in. `cols` as the algorithm sees them; see JobColumns for
    the meaning of the numbers."""

    algorithm: Algorithm
    library: str
    rows: float
    cols: float
    nonzeros: float
    total_bins: float
    trees: float
    outputs: float
    depth: float
    leaves: float
    tried: float
    leaf_wise: float
    iterations: float
    k: float
    weights: float
    queries: float
    element_bytes: float
    sparse: float
    categorical: float
    binary_share: float
    joint_outputs: float
    presorted: float = 0.0
    assumptions: tuple[str, ...] = ()

    @property
    def kind(self) -> ClassicalKind:
        """What rates depend on."""
        return ClassicalKind(self.library, self.algorithm)


def classical_task(case: TableCase) -> ClassicalTask:
    """The job of a case; defaults of the library where nothing is said, each
    named in `assumptions`."""
    for name, value in (("rows", case.rows), ("columns", case.cols)):
        if not (math.isfinite(value) and value >= 1):
            raise InputError(Message("estimate.not_a_count", option=name, value=f"{value:g}"))
    kind = case.algorithm
    if case.predicts and kind in (*_BOOSTED, *_FORESTS) and kind != Algorithm.SHAP:
        kind = Algorithm.PREDICT_TREES
    if kind == Algorithm.PCA and _is_sketched(case):
        kind = Algorithm.RANDOM_SVD
    task = _filled(kind, case.library, case.rows, case.cols, case.settings)
    if not case.filled:
        return task
    # Fuller, a table takes less room with its empty cells than with an index beside each value.
    sparse = case.filled * (task.element_bytes + INT32_BYTES) < task.element_bytes
    return dataclasses.replace(task, nonzeros=task.cols * (case.filled if sparse else 1.0), sparse=float(sparse))


def _is_sketched(case: TableCase) -> bool:
    """Whether principal components come from a randomised sketch: as the solver that is said, else
    as scikit-learn's "auto" chooses since version 1.5 (a covariance matrix where there are ten rows
    a column and at most 1,000 columns, a sketch for few components of tables larger than 500)."""
    if case.settings.solver:
        return case.settings.solver == "sketch"
    rows, cols = case.rows, case.cols
    if case.library not in ("sklearn", "sklearnex") or (cols <= _FIGURES["covariance_columns"] and rows >= 10.0 * cols):
        return False
    return max(rows, cols) > _FIGURES["small_table"] and 0 < case.settings.k < _FIGURES["few_components"] * min(rows, cols)


def _width(kind: Algorithm, library: str, cols: float, words: AlgorithmSettings) -> tuple[float, float, float, float]:
    """Columns as the algorithm sees them, stored cells a row, sparse flag, categorical
    columns left as they are."""
    if words.one_hot == "sparse" and not words.columns and not words.categorical and cols >= 2.0 * USUAL_LEVELS:
        return cols, cols / USUAL_LEVELS + _FIGURES["numeric_beside_coded"], 1.0, 0.0  # so many columns are the coded ones
    categorical = min(words.categorical, cols)
    if words.one_hot and not categorical and not words.columns:
        categorical = round(_FIGURES["categorical_share"] * cols)
    if words.one_hot == "" or (library in _NATIVE and kind in (*_BOOSTED, *_FORESTS)):
        return cols, cols, 0.0, categorical
    wide = words.columns or (cols - categorical + categorical * USUAL_LEVELS)
    if words.one_hot == "dense" and library not in ("spark", "r", "vw"):
        return wide, wide, 0.0, 0.0
    return wide, cols, 1.0, 0.0


def _tree_numbers(kind: Algorithm, library: str, words: AlgorithmSettings, noted: list[str]) -> tuple[float, float, float]:
    """Trees, depth, leaves with the library's defaults."""
    if kind not in _TREE_ALGORITHMS:
        return 0.0, 0.0, 0.0
    trees = words.trees
    if not trees:
        trees = (
            _FIGURES["forest_trees"]
            if kind in _FORESTS or kind == Algorithm.ISOLATION
            else _USUAL_TREES.get(library, _FIGURES["trees_other"])
        )
        if kind == Algorithm.SHAP:
            trees = _FIGURES["explained_trees"]
        noted.append(f"number of trees not stated: {trees:g} taken")
    if kind in _FORESTS:
        return trees, words.depth or _FOREST_DEPTH.get(library, 0.0), words.leaves
    depth = words.depth
    if not depth and not words.leaves:
        depth = (
            0.0
            if library in ("lightgbm", "sklearn") and kind == Algorithm.BOOST_HIST
            else _USUAL_DEPTH.get(library, _FIGURES["depth_other" if kind != Algorithm.BOOST_EXACT else "exact_depth"])
        )
        noted.append("depth of the trees not stated: the library's default taken")
    leaves = words.leaves or (_FIGURES["leaves"] if not depth else 2.0 ** min(depth, _FIGURES["most_levels"]))
    if library == "r" and kind == Algorithm.BOOST_EXACT:
        leaves = depth + 1.0  # gbm's interaction.depth counts splits, not levels
    return trees, depth, leaves


def _layer_weights(cols: float, outputs: float, layers: Sequence[float]) -> float:
    sizes = [cols, *(layers or _USUAL_LAYERS), max(outputs, 1.0)]
    return float(sum(a * b for a, b in itertools.pairwise(sizes)))


def _iterations(kind: Algorithm, rows: float, words: AlgorithmSettings, noted: list[str]) -> float:
    """Iterations as stated or as usual; naming the assumption where they are not
    fixed by the algorithm."""
    if words.iterations or kind.name not in _USUAL_ITERATIONS:
        return words.iterations
    usual = _FIGURES["lasso_iterations"] if words.is_lasso else _USUAL_ITERATIONS[kind.name]
    if kind == Algorithm.UMAP and rows < _FIGURES["umap_small_rows"]:
        usual = _FIGURES["umap_small_epochs"]
    if kind not in (Algorithm.ONE_PASS, Algorithm.KERNEL_SVM, Algorithm.RANDOM_SVD):
        noted.append(f"iterations not stated: {usual:g} taken")
    return usual


def _filled(kind: Algorithm, library: str, rows: float, cols: float, words: AlgorithmSettings) -> ClassicalTask:
    noted: list[str] = []
    wide, nonzeros, sparse, categorical = _width(kind, library, cols, words)
    trees, depth, leaves = _tree_numbers(kind, library, words, noted)
    bins = words.bins or _USUAL_BINS.get(library, _FIGURES["bins_other"])
    numeric = cols - (words.categorical if wide != cols else categorical)
    if sparse and wide == cols:
        numeric = _FIGURES["numeric_beside_coded"]
        noted.append(f"stored cells a row of the one-hot table not stated: {nonzeros:.0f} taken")
    coded = wide - numeric if wide != cols or sparse else 0.0
    total_bins = max(numeric, 0.0) * min(bins, rows) + 2.0 * coded + categorical * min(USUAL_LEVELS, bins)
    iterations = _iterations(kind, rows, words, noted)
    outputs = words.outputs if words.outputs > 2 else 1.0
    if kind not in (*_BOOSTED, *_FORESTS, Algorithm.LINEAR_ITERATIVE, Algorithm.LINEAR_COORDINATE, Algorithm.MLP):
        outputs = 1.0
    tried = (nonzeros if sparse else wide) if kind == Algorithm.BOOST_EXACT or words.max_features == "all" else max(math.sqrt(wide), 1.0)
    k = words.k or _USUAL_K.get(kind.name, _FIGURES["k_other"])
    if kind in (Algorithm.KMEANS, Algorithm.MINIBATCH_KMEANS) and not words.k:
        noted.append(f"clusters not stated: {k:g} taken")
    element_bytes = words.element_bytes or (8.0 if library in ("r", "sklearn", "spark", "other", "dask") else 4.0)
    return ClassicalTask(
        algorithm=kind,
        library=library,
        rows=float(rows),
        cols=wide,
        nonzeros=nonzeros,
        total_bins=total_bins,
        trees=trees,
        outputs=outputs,
        depth=depth,
        leaves=leaves,
        tried=tried,
        leaf_wise=float(library in ("lightgbm",) or (library == "sklearn" and kind == Algorithm.BOOST_HIST)),
        iterations=iterations,
        k=k,
        weights=_layer_weights(wide, outputs, words.layers) if kind == Algorithm.MLP else 0.0,
        queries=float(rows),
        element_bytes=element_bytes,
        sparse=sparse,
        categorical=categorical,
        joint_outputs=float(library == "catboost"),
        presorted=float(library == "xgboost_old"),
        binary_share=min(max(coded / wide, 0.0), 1.0),
        assumptions=tuple(noted),
    )


_FIELDS = tuple(field.name for field in dataclasses.fields(JobColumns))


def job_columns(tasks: Sequence[ClassicalTask]) -> JobColumns:
    """Tasks under one another."""
    return JobColumns(**{name: np.array([float(getattr(task, name)) for task in tasks]) for name in _FIELDS})


def visited(job: JobColumns, kinds: ClassicalKinds, values: Coefficients) -> JobColumns:
    """The job with categories counted as the work that they make: CatBoost tries several statistics
    of each, others one cell."""
    extra = rate_column("category_cells", kinds, values) - 1.0
    return dataclasses.replace(job, nonzeros=job.nonzeros + job.categorical * extra)


_GPU_LIBRARIES = {"xgboost", "lightgbm", "catboost", "h2o_xgboost", "h2o4gpu", "cuml", "thundergbm", "thundersvm", "network", "faiss"}
_CUML = {
    Algorithm.LINEAR_ITERATIVE,
    Algorithm.LINEAR_COORDINATE,
    Algorithm.LINEAR_CLOSED,
    Algorithm.PCA,
    Algorithm.RANDOM_SVD,
    Algorithm.KMEANS,
    Algorithm.KERNEL_SVM,
    Algorithm.KNN_BRUTE,
    Algorithm.DBSCAN,
    Algorithm.HDBSCAN,
    Algorithm.TSNE,
    Algorithm.UMAP,
    Algorithm.FOREST_HIST,
    Algorithm.ONE_PASS,
}
#: What cuML does in another way than scikit-learn.
_CUML_WAY = {
    Algorithm.FOREST_EXACT: Algorithm.FOREST_HIST,
    Algorithm.FOREST_RANDOM: Algorithm.FOREST_HIST,
    Algorithm.KNN_TREE: Algorithm.KNN_BRUTE,
    Algorithm.MINIBATCH_KMEANS: Algorithm.KMEANS,
}


def gpu_support(task: ClassicalTask) -> ClassicalTask | None:
    """The task as a GPU library would run it (cuML for what scikit-learn does), or None
    where no library does."""
    if task.library in _GPU_LIBRARIES:
        return task
    kind = _CUML_WAY.get(task.algorithm, task.algorithm)
    if kind in _CUML and task.library in ("sklearn", "sklearnex", "umap", "hdbscan", "libsvm", "tsne", "other"):
        return dataclasses.replace(task, algorithm=kind, library="cuml", element_bytes=4.0)
    if task.library == "h2o" and task.algorithm == Algorithm.BOOST_HIST:
        return dataclasses.replace(task, library="h2o_xgboost")
    return None


def time_terms(
    job: JobColumns,
    kinds: ClassicalKinds,
    cpu: CpuColumns,
    values: Coefficients,
    *,
    gpu: GpuColumns | None = None,
    on_gpu: Array | None = None,
    age_years: Array | float = 0.0,
) -> dict[str, Array]:
    """Seconds of every part, shape (N,) each; rows of `on_gpu` take the GPU's time. `gpu` must have
    N rows then (any figures where unused).

    `age_years` how much older than the libraries of today the library is: young libraries grew
    faster every year.
    """
    terms = _current_terms(job, kinds, cpu, values, gpu=gpu, on_gpu=on_gpu)
    rate = rate_column("age_rate", kinds, values)
    if on_gpu is not None:
        rate = np.where(on_gpu > 0, rate_column("gpu_age_rate", kinds, values), rate)
    # CatBoost's histograms were fast from the first; its statistics of categories were not.
    aged = np.where((job.joint_outputs > 0) & (job.categorical == 0), 0.0, age_years)
    slower = np.exp(rate * aged)
    return {name: seconds * slower for name, seconds in terms.items()}


def _current_terms(
    job: JobColumns, kinds: ClassicalKinds, cpu: CpuColumns, values: Coefficients, *, gpu: GpuColumns | None, on_gpu: Array | None
) -> dict[str, Array]:
    """Seconds of every part with the libraries of today."""
    cpu = dataclasses.replace(cpu, speed=cpu.speed ** values["core_exponent"])
    work = classical_work(visited(job, kinds, values), counts())
    rates = classical_rates(kinds, values)
    # Statistics of categories are made anew for every tree, by one thread for each column mostly.
    categories = rate_column("category_round_ms", kinds, values) * 1e-3 * job.categorical
    hashed = job.rows * job.categorical * rate_column("category_setup_cells", kinds, values)
    work = dataclasses.replace(work, setup_operations=work.setup_operations + hashed, rounds=_jobs(work.rounds, job, kinds, values))
    terms = classical_terms(work, cpu, dataclasses.replace(rates, round_s=rates.round_s + categories))
    if gpu is None or on_gpu is None:
        return terms
    found = _gpu_terms(work, terms, job, kinds, cpu, gpu, values)
    shape = np.broadcast_shapes(work.operations.shape, cpu.speed.shape)
    zero = np.zeros(shape)
    names = list(dict.fromkeys([*terms, *found]))
    return {name: np.where(on_gpu > 0, found.get(name, zero), terms.get(name, zero)) for name in names}


def _jobs(rounds: Array, job: JobColumns, kinds: ClassicalKinds, values: Coefficients) -> Array:
    """Steps that come one after the other, shape (N,). Spark starts a job for every level: boosting
    has trees x levels of them, a forest levels alone, since all of its trees grow side by side
    (Meng et al. 2016, MLlib; Abuzaid et al. 2016, Yggdrasil)."""
    levels = grown_levels(job, counts())
    by_level = np.select([job.algorithm == Algorithm.BOOST_HIST, job.algorithm == Algorithm.FOREST_HIST], [rounds * levels, levels], rounds)
    return np.where(rate_column("job_levels", kinds, values) > 0.5, by_level, rounds)


def _gpu_terms(
    work: ClassicalWork,
    terms: Mapping[str, Array],
    job: JobColumns,
    kinds: ClassicalKinds,
    cpu: CpuColumns,
    gpu: GpuColumns,
    values: Coefficients,
) -> dict[str, Array]:
    """Seconds of every part on GPUs; what a library leaves to processors takes their time
    (`gpu_host_tree` 1: only histograms are made on the GPU, so processors move the rows and look
    through the histograms, which come back over the host link)."""
    on_host = rate_column("gpu_host_tree", kinds, values)
    rates, links = classical_rates(kinds, values), gpu_rates(kinds, values)
    moves = work.row_operations * rates.row_s / cpu.speed / speedup(cpu, rates)
    back = HISTOGRAM_BYTES * work.split_operations / links.transfer_bandwidth
    share = np.minimum(rate_column("gpu_host_share", kinds, values), 1.0)
    # One thread converts the table where a library hands it to another.
    alone = np.where(rate_column("gpu_setup_serial", kinds, values) > 0.5, speedup(cpu, rates), 1.0)
    host = terms["setup"] * share * alone + on_host * (moves + terms["splits"] + back)
    # Statistics of categories are sorted anew at every level.
    moved = rate_column("gpu_category_bytes", kinds, values) * job.trees * job.rows * job.categorical * grown_levels(job, counts())
    left = dataclasses.replace(
        work,
        row_operations=work.row_operations * (1.0 - on_host),
        split_operations=work.split_operations * (1.0 - on_host),
    )
    return gpu_terms(left, gpu, links, input_bytes=input_bytes(job), host_s=host, sorted_bytes=moved)


def ram_terms(job: JobColumns, kinds: ClassicalKinds, threads: Array, values: Coefficients) -> dict[str, Array]:
    """Bytes of every part of the host's peak, shape (N,) each."""
    rates = memory_rates(kinds, values)
    return memory_terms(job, rates, threads=threads, counts=counts())


def gpu_memory(job: JobColumns, kinds: ClassicalKinds, values: Coefficients) -> Array:
    """Peak memory of the GPU [bytes], shape (N,)."""
    return gpu_peak_bytes(
        job,
        cell_bytes=rate_column("gpu_cell_bytes", kinds, values),
        row_bytes=rate_column("gpu_row_bytes", kinds, values),
        base_bytes=rate_column("gpu_base_mib", kinds, values) * 2.0**20,
        counts=counts(),
    )


def total(terms: Mapping[str, Array]) -> Array:
    """Sum of the parts."""
    return np.asarray(sum(terms.values()), dtype=np.float64)


# ---- What to do when a job of classical machine learning does not fit or takes too long: codes
# with the reason of each.

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
    """Codes of what to do (explain words them) for a task whose peak is `ram_bytes` on a machine of
    `memory_bytes` [bytes], that takes `time_s` [s] there."""
    from rightfit.estimation.classical_rates import most_threads

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
