"""How many elementary operations each algorithm of classical machine learning does: rows, columns,
trees, iterations in; work out.

All arrays broadcast; `algorithm` chooses the formula row by row. `counts` are
facts/data/coefficients/classical_counts.toml.

Source: the papers that each function names; docs/decisions/classical-ml.md.

Peak host and GPU memory of classical machine learning: runtime, data and copies, rows,
model and workspace.

Source: accounting of what libraries keep; docs/decisions/classical-ml.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from rightfit.physics.classical import ClassicalWork
from rightfit.physics.columns import Array, Columns, column
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES, FP64_BYTES, INT32_BYTES, INT64_BYTES

Counts = Mapping[str, float]
MOST_LEVELS = 40.0  # beyond 2^40 leaves a tree is only known to be larger than any data


class Algorithm(IntEnum):
    """Families whose work has one formula."""

    BOOST_HIST = 0
    BOOST_EXACT = 1
    FOREST_EXACT = 2
    FOREST_RANDOM = 3
    FOREST_HIST = 4
    ISOLATION = 5
    LINEAR_ITERATIVE = 6
    LINEAR_COORDINATE = 7
    LINEAR_CLOSED = 8
    PCA = 9
    RANDOM_SVD = 10
    KMEANS = 11
    KERNEL_SVM = 12
    KNN_BRUTE = 13
    KNN_TREE = 14
    DBSCAN = 15
    HDBSCAN = 16
    TSNE = 17
    UMAP = 18
    ONE_PASS = 19
    MLP = 20
    PREDICT_TREES = 21
    SHAP = 22
    MINIBATCH_KMEANS = 23


@dataclass(frozen=True, slots=True)
class JobColumns(Columns):
    """One job. `rows` and `cols` as the algorithm sees them (one-hot columns counted), `nonzeros`
    cells of a row that are stored and visited, `total_bins` histogram bins of all columns,
    `binary_share` of columns that are one-hot; `trees` boosting rounds or trees, `outputs` trees a
    round (classes), `depth`, `leaves` limits (0 = none), `tried` columns tried at a split,
    `leaf_wise` 1 = the best leaf is split next, `iterations` passes or epochs, `k` clusters,
    components or neighbours, `weights` of a network, `queries` rows looked up, `element_bytes` of
    the stored input, `sparse` 1 = stored as (value, column) pairs, `joint_outputs` 1 = one tree
    serves all classes, `presorted` 1 = columns are sorted once, before the first tree.
    """

    algorithm: Array = column(0, "code")
    rows: Array = column(0, "rows")
    cols: Array = column(0, "columns")
    nonzeros: Array = column(0, "columns")
    total_bins: Array = column(0, "bins")
    trees: Array = column(0, "trees")
    outputs: Array = column(1, "trees")
    depth: Array = column(0, "levels")
    leaves: Array = column(0, "leaves")
    tried: Array = column(0, "columns")
    leaf_wise: Array = column(0, "flag")
    iterations: Array = column(0, "1")
    k: Array = column(0, "1")
    weights: Array = column(0, "parameters")
    queries: Array = column(0, "rows")
    element_bytes: Array = column(4, "bytes/element")
    sparse: Array = column(0, "flag")
    categorical: Array = column(0, "columns")
    binary_share: Array = column(0, "1")
    joint_outputs: Array = column(0, "flag")
    presorted: Array = column(0, "flag")


def _log2(values: Array) -> Array:
    return np.log2(np.maximum(values, 2.0))


def grown_leaves(job: JobColumns, counts: Counts) -> Array:
    """Leaves of one tree: the least of 2^depth, the limit on leaves, and what the rows can fill.

    `counts` [coefficients] -> [leaves].
    Boosted trees stop at about 100 rows a leaf (a hessian of at least 1 and a gain above 0 are
    asked for); forests split until a leaf is pure, which noisy labels let go on to about a third
    of the rows.
    """
    forest = np.isin(job.algorithm, (Algorithm.FOREST_EXACT, Algorithm.FOREST_RANDOM, Algorithm.FOREST_HIST))
    by_depth = np.where(job.depth > 0, np.exp2(np.minimum(job.depth, MOST_LEVELS)), np.inf)
    by_limit = np.where(job.leaves > 0, job.leaves, np.inf)
    # A trained model's trees do not depend on the rows that it is asked about.
    asked = np.isin(job.algorithm, (Algorithm.PREDICT_TREES, Algorithm.SHAP))
    by_rows = np.where(asked, np.inf, np.maximum(job.rows / np.where(forest, counts["pure_leaf_rows"], counts["boosted_leaf_rows"]), 2.0))
    by_depth = np.where(asked & ~np.isfinite(by_depth) & ~np.isfinite(by_limit), job.rows, by_depth)
    return np.minimum(np.minimum(by_depth, by_limit), by_rows)


def grown_levels(job: JobColumns, counts: Counts) -> Array:
    """Mean depth of a row's leaf: log2(leaves), a fifth more where trees grow leaf by leaf or to
    purity, never above the limit.

    `counts` [coefficients] -> [levels].
    """
    uneven = np.where(
        (job.leaf_wise > 0) | np.isin(job.algorithm, (Algorithm.FOREST_EXACT, Algorithm.FOREST_RANDOM)), counts["uneven_levels"], 1.0
    )
    levels = uneven * _log2(grown_leaves(job, counts))
    return np.where(job.depth > 0, np.minimum(levels, job.depth), levels)


def boosting_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Histogram boosting: XGBoost hist, LightGBM, CatBoost, sklearn HistGradientBoosting (Chen and
    Guestrin 2016; Ke et al. 2017).

    `counts` [coefficients].
    Every level adds each row's stored cells to histograms; the larger sibling is the parent minus
    the smaller one, so below the root half of the rows: trees x rows x nonzeros x (1 +
    (levels - 1) / 2). Moving rows and gradients is trees x rows x (levels + 4). A split looks
    through the bins of every node: trees x 2 leaves x bins. Binning once: rows x nonzeros x
    log2(bins of a column).
    """
    trees, leaves, levels = job.trees * job.outputs, grown_leaves(job, counts), grown_levels(job, counts)
    cells = trees * job.rows * job.nonzeros * (1.0 + 0.5 * (levels - 1.0))
    moves = trees * job.rows * (levels + counts["gradient_moves"])
    grown = np.where(job.joint_outputs > 0, job.trees, trees)  # one tree for all classes, its leaves hold a vector
    bins_of_column = job.total_bins / np.maximum(job.cols, 1.0)
    return ClassicalWork(
        operations=cells,
        row_operations=moves,
        setup_operations=job.rows * job.nonzeros * _log2(bins_of_column),
        split_operations=trees * 2.0 * leaves * job.total_bins,
        regions=grown * np.where(job.leaf_wise > 0, leaves, levels),
        stream_bytes=trees * job.rows * levels * (job.nonzeros + counts["gradient_bytes"]),
        rounds=grown,
    )


def gather_cost(job: JobColumns, counts: Counts) -> Array:
    """Cost of reading a row's gradient and node out of order, in reads that hit the cache: 1 + m
    max(0, 1 - cache / all gradients).

    `counts` [coefficients] -> [1].
    m = `missed_gathers`; all gradients take rows x `gather_bytes`.
    """
    held = np.minimum(counts["last_cache_bytes"] / (job.rows * counts["gather_bytes"]), 1.0)
    return 1.0 + counts["missed_gathers"] * (1.0 - held)


def exact_tree_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Trees that sort each tried column at each node: CART forests and exact boosting (Breiman
    2001; Louppe 2014, table 5.1).

    `counts` [coefficients].
    A node of n rows costs tried x n log2 n, so a tree over rows R and levels L costs tried x R x (L
    log2 R - L^2 / 2). Bagged trees see 63 % distinct rows. Two-valued columns sort in one pass (R x
    L), and extremely randomised trees do not sort at all (Geurts et al. 2006). XGBoost sorts every
    column once and walks them at every level (Chen and Guestrin 2016, section 4.1): R x stored
    cells x L, each with a gather of its row's gradient, which waits for the memory where all
    gradients outgrow the cache.
    """
    presorted = job.presorted > 0
    levels, depth_log = grown_levels(job, counts), _log2(job.rows)
    sorting = np.maximum(levels * depth_log - 0.5 * levels**2, levels)
    bagged = np.where(job.algorithm == Algorithm.BOOST_EXACT, 1.0, counts["bagged_share"])
    sorted_columns = job.binary_share * levels + (1.0 - job.binary_share) * sorting
    per_row = np.where(job.algorithm == Algorithm.FOREST_RANDOM, levels, sorted_columns)
    trees = job.trees * np.where(job.algorithm == Algorithm.BOOST_EXACT, job.outputs, 1.0)
    walked = job.nonzeros * levels * gather_cost(job, counts)
    return ClassicalWork(
        operations=trees * bagged * job.rows * np.where(presorted, walked, job.tried * per_row),
        row_operations=np.where(presorted, trees * job.rows * levels, 0.0),
        setup_operations=job.rows * job.nonzeros * np.where(presorted, depth_log, 1.0),
        regions=np.where(job.algorithm == Algorithm.BOOST_EXACT, trees * levels, trees),
        rounds=trees,
    )


def binned_forest_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Forests on histograms (H2O, Spark, cuML): per level each row adds its tried columns; every
    node looks through the bins of its tried columns.

    `counts` [coefficients].
    """
    levels, leaves = grown_levels(job, counts), grown_leaves(job, counts)
    bins_of_column = job.total_bins / np.maximum(job.cols, 1.0)
    return ClassicalWork(
        operations=job.trees * job.rows * (job.tried + 2.0) * levels,
        setup_operations=job.rows * job.nonzeros * _log2(bins_of_column),
        split_operations=job.trees * 2.0 * leaves * job.tried * bins_of_column,
        regions=job.trees * levels,
        rounds=job.trees,
    )


def isolation_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Isolation forest (Liu et al. 2008): trees over 256 rows cost nothing; every row then walks 8
    levels of every tree for its score.

    `counts` [coefficients].
    """
    return ClassicalWork(
        operations=job.trees * job.rows * counts["isolation_levels"], setup_operations=job.rows * job.nonzeros, rounds=job.trees
    )


def linear_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Gradient and coordinate methods: iterations x rows x stored cells x outputs, twice for
    gradient methods (product and its transpose).

    `counts` [coefficients].
    The data cross the memory bus once or twice per iteration and are hardly reused, so bandwidth
    bounds it (Bottou, Curtis and Nocedal 2018).
    """
    twice = np.where(job.algorithm == Algorithm.LINEAR_ITERATIVE, 2.0, 1.0)
    cells = twice * job.iterations * job.rows * job.nonzeros * job.outputs
    stored = job.element_bytes + INT64_BYTES * job.sparse
    return ClassicalWork(
        operations=cells,
        setup_operations=job.rows * job.nonzeros,
        stream_bytes=cells / job.outputs * stored,
        regions=job.iterations * 2.0,
        rounds=job.iterations,
    )


def closed_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Normal equations and principal components: 2 R C^2 for the product, about 10 C^3 for the
    eigenvectors (Golub and Van Loan, ch. 8).

    `counts` [coefficients].
    Where columns outnumber rows the two change places: there are no more singular values than rows.
    Least squares through the singular values costs about 4 R C^2 + 10 C^3. Randomised: 2 R C
    (k + 10) per pass, `iterations` passes (Halko et al. 2011).
    """
    narrow, long = np.minimum(job.rows, job.cols), np.maximum(job.rows, job.cols)
    square = np.where(job.algorithm == Algorithm.PCA, 2.0, counts["least_squares_flops"]) * long * narrow**2
    square = square + counts["eigen_flops"] * narrow**3
    stored = np.where(job.sparse > 0, job.nonzeros, job.cols)
    sketch = 2.0 * job.rows * stored * (job.k + counts["oversamples"]) * job.iterations
    flops = np.where(job.algorithm == Algorithm.RANDOM_SVD, sketch, square)
    passes = np.where(job.algorithm == Algorithm.RANDOM_SVD, job.iterations, 1.0)
    return ClassicalWork(
        flops=flops, setup_operations=job.rows * stored, stream_bytes=passes * job.rows * stored * job.element_bytes, regions=passes
    )


def kmeans_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Lloyd's iterations: 2 R C k FLOP for the distances and R k comparisons each (Lloyd 1982);
    seeding adds k-means++ passes of R C k (Arthur 2007).

    `counts` [coefficients].
    """
    mini = job.algorithm == Algorithm.MINIBATCH_KMEANS
    seen = np.where(
        mini, np.minimum(job.iterations * counts["minibatch_rows"], counts["minibatch_passes"] * job.rows), job.iterations * job.rows
    )
    return ClassicalWork(
        flops=2.0 * (seen + 2.0 * np.where(mini, counts["minibatch_start_rows"], job.rows)) * job.cols * job.k,
        operations=seen * job.k + np.where(mini, job.rows * job.k, 0.0),
        setup_operations=job.rows * job.cols,
        regions=job.iterations,
        rounds=job.iterations,
    )


def kernel_svm_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """LIBSVM's sequential minimal optimisation: between R^2 and R^3 kernel values of C products
    (Chang and Lin 2011, section 4.2); R^2 / 2 with a cache.

    `counts` [coefficients].
    10 operations a value stand for the exponential and the update of the gradient.
    """
    return ClassicalWork(
        operations=0.5 * job.rows**2 * (job.cols + counts["kernel_operations"]) * job.iterations, setup_operations=job.rows * job.cols
    )


def visited_rows(job: JobColumns, counts: Counts) -> Array:
    """Rows that one query of a k-d tree looks at: a leaf of 30 times 1.6 per dimension, all
    of them in the end.

    `counts` [coefficients] -> [rows].
    The visited leaves grow exponentially with the dimension (Friedman, Bentley and Finkel 1977);
    beyond 15 dimensions brute force wins, and density clustering then compares whole blocks, a
    tenth of the cost of as many single visits.
    """
    leaves = np.exp2(np.minimum(counts["branching"] * job.cols, MOST_LEVELS))
    most = job.rows * np.where(job.algorithm == Algorithm.DBSCAN, counts["block_share"], 1.0)
    in_leaf = counts["tree_leaf_rows"]
    return np.minimum(most, in_leaf * (leaves + _log2(job.rows / in_leaf)))


def neighbours_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Nearest neighbours: brute force 2 Q R C FLOP and Q R comparisons; trees Q x visited rows x C;
    density clustering queries every row.

    `counts` [coefficients].
    """
    brute = job.algorithm == Algorithm.KNN_BRUTE
    tree_operations = job.queries * visited_rows(job, counts) * job.cols + job.rows * _log2(job.rows) * job.cols
    density = job.rows * _log2(job.rows) ** 2 * job.cols * job.k
    operations = np.select([brute, job.algorithm == Algorithm.HDBSCAN], [job.queries * job.rows, density], tree_operations)
    return ClassicalWork(
        operations=operations, flops=np.where(brute, 2.0 * job.queries * job.rows * job.cols, 0.0), setup_operations=job.rows * job.cols
    )


def embedding_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """t-SNE with Barnes-Hut: iterations x R log2 R cells (van der Maaten 2014); UMAP: R x k edges x
    epochs x 6 samples after a graph of R log2 R x k x C (McInnes et al. 2018; Dong et al. 2011).

    `counts` [coefficients].
    """
    log = _log2(job.rows)
    tsne = job.iterations * job.rows * log * counts["tsne_operations"]
    umap = job.iterations * job.rows * job.k * counts["umap_samples"] + job.rows * log * job.k * job.cols
    return ClassicalWork(operations=np.where(job.algorithm == Algorithm.TSNE, tsne, umap), regions=job.iterations, rounds=job.iterations)


def one_pass_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Naive Bayes, scaling: every cell a few times; bound by the memory bus.

    `counts` [coefficients].
    """
    cells = job.rows * job.nonzeros * np.maximum(job.iterations, 1.0)
    return ClassicalWork(operations=cells, stream_bytes=2.0 * cells * job.element_bytes)


def network_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Small dense network: 6 FLOP a weight, row and epoch (2 forward, 4 backward); a step per batch
    of 200 rows or so.

    `counts` [coefficients].
    """
    steps = job.iterations * job.rows / counts["network_batch_rows"]
    return ClassicalWork(flops=6.0 * job.weights * job.rows * job.iterations, regions=steps, rounds=steps)


def prediction_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Trees: rows x trees x levels steps. Shapley values: rows x trees x leaves x levels^2
    (Lundberg et al. 2018, algorithm 2).

    `counts` [coefficients].
    CatBoost first tabulates every leaf against every leaf of a tree, trees x leaves^2 x levels, and
    then looks rows up (counted as splits here).
    """
    trees, levels, leaves = job.trees * job.outputs, grown_levels(job, counts), grown_leaves(job, counts)
    is_shap = job.algorithm == Algorithm.SHAP
    walk, shapley = job.rows * trees * levels, job.rows * trees * leaves * levels**2
    tabulated = np.where(is_shap, trees * leaves**2 * levels, 0.0)
    return ClassicalWork(operations=np.where(is_shap, shapley, walk), setup_operations=job.rows * job.cols, split_operations=tabulated)


_FORMULAS = (
    (boosting_work, (Algorithm.BOOST_HIST,)),
    (exact_tree_work, (Algorithm.BOOST_EXACT, Algorithm.FOREST_EXACT, Algorithm.FOREST_RANDOM)),
    (binned_forest_work, (Algorithm.FOREST_HIST,)),
    (isolation_work, (Algorithm.ISOLATION,)),
    (linear_work, (Algorithm.LINEAR_ITERATIVE, Algorithm.LINEAR_COORDINATE)),
    (closed_work, (Algorithm.LINEAR_CLOSED, Algorithm.PCA, Algorithm.RANDOM_SVD)),
    (kmeans_work, (Algorithm.KMEANS, Algorithm.MINIBATCH_KMEANS)),
    (kernel_svm_work, (Algorithm.KERNEL_SVM,)),
    (neighbours_work, (Algorithm.KNN_BRUTE, Algorithm.KNN_TREE, Algorithm.DBSCAN, Algorithm.HDBSCAN)),
    (embedding_work, (Algorithm.TSNE, Algorithm.UMAP)),
    (one_pass_work, (Algorithm.ONE_PASS,)),
    (network_work, (Algorithm.MLP,)),
    (prediction_work, (Algorithm.PREDICT_TREES, Algorithm.SHAP)),
)


def classical_work(job: JobColumns, counts: Counts) -> ClassicalWork:
    """Work of every job, each by the formula of its algorithm, shape (N,) per field.

    `counts` [coefficients].
    """
    names = [field.name for field in dataclasses.fields(ClassicalWork)]
    totals = {name: np.zeros(job.num_rows) for name in names}
    for formula, algorithms in _FORMULAS:
        chosen = np.isin(np.broadcast_to(job.algorithm, job.num_rows), algorithms)
        if chosen.any():
            found = formula(job, counts)
            for name in names:
                totals[name] = np.where(chosen, np.broadcast_to(getattr(found, name), job.num_rows), totals[name])
    return ClassicalWork(**totals)


@dataclass(frozen=True, slots=True)
class ClassicalMemoryRates(Columns):
    """What a library keeps. `base_bytes` of the process (interpreter, libraries, virtual machine);
    `input_copies` of the caller's data that live at the peak (1 = only the caller's own);
    `index_bytes` per stored cell of its own format (bins, sorted indices); `row_bytes` per row
    (gradients, positions, predictions); `node_bytes` per tree node; `bin_bytes` per histogram bin;
    `thread_bytes` per thread; `category_bytes` per row and categorical column; `headroom` factor of
    a collector that lets garbage stand.
    """

    base_bytes: Array = column(0, "bytes")
    input_copies: Array = column(1, "1")
    index_bytes: Array = column(1, "bytes/element")
    row_bytes: Array = column(0, "bytes/row")
    node_bytes: Array = column(0, "bytes/node")
    bin_bytes: Array = column(0, "bytes/bin")
    thread_bytes: Array = column(0, "bytes")
    category_bytes: Array = column(0, "bytes/row")
    headroom: Array = column(1, "1")


_TREES = (Algorithm.BOOST_HIST, Algorithm.BOOST_EXACT, Algorithm.FOREST_EXACT, Algorithm.FOREST_RANDOM, Algorithm.FOREST_HIST)
_BOOSTING = (Algorithm.BOOST_HIST, Algorithm.BOOST_EXACT)
_BINNED = (Algorithm.BOOST_HIST, Algorithm.FOREST_HIST)


def input_bytes(job: JobColumns) -> Array:
    """Bytes of the data as the caller holds them: dense cells, or value and column number per
    stored cell -> [bytes].

    Source: accounting of what libraries keep; docs/decisions/classical-ml.md.
    """
    dense = job.rows * job.cols * job.element_bytes
    return np.where(job.sparse > 0, job.rows * job.nonzeros * (job.element_bytes + INT32_BYTES), dense)


def model_bytes(job: JobColumns, rates: ClassicalMemoryRates, counts: Counts) -> Array:
    """Bytes of the trained model: trees x 2 leaves x bytes of a node and 8 per output; linear
    models and clusters are columns x outputs.

    `counts` [coefficients] -> [bytes].

    Source: accounting of what libraries keep; docs/decisions/classical-ml.md.
    """
    trees = job.trees * np.where(np.isin(job.algorithm, _BOOSTING), job.outputs, 1.0)
    # Forests keep a value per class in every node; two classes are kept as two.
    values = np.where(np.isin(job.algorithm, _BOOSTING), 0.0, FP64_BYTES * np.maximum(job.outputs, 2.0))
    nodes = trees * 2.0 * grown_leaves(job, counts) * (rates.node_bytes + values)
    return np.where(np.isin(job.algorithm, _TREES), nodes, FP64_BYTES * job.cols * np.maximum(job.outputs, job.k))


def workspace_bytes(job: JobColumns, rates: ClassicalMemoryRates, threads: Array, counts: Counts) -> Array:
    """Bytes that live only while it works: histograms of the leaves, distance chunks, kernel cache,
    neighbour lists, gradients of a network.

    `threads` [threads], `counts` [coefficients] -> [bytes].

    Source: accounting of what libraries keep; docs/decisions/classical-ml.md.
    """
    histograms = np.minimum(grown_leaves(job, counts), counts["most_leaves"]) * job.total_bins * rates.bin_bytes
    # R x R float64 in chunks of at most the working memory.
    pairs = np.minimum(FP64_BYTES * job.queries * job.rows, counts["chunk_bytes"])
    neighbour = INT64_BYTES + FP32_BYTES  # an index and a distance
    neighbours = job.queries * np.maximum(job.k, 1.0) * neighbour
    affinities = job.rows * counts["tsne_neighbours"] * 2.0 * neighbour  # kept twice to be symmetric
    edges = job.rows * job.k * 2.0 * counts["umap_edge_bytes"]
    squares = job.cols**2 * FP64_BYTES * 3.0
    algorithm = job.algorithm
    chosen = np.select(
        [
            np.isin(algorithm, _BINNED),
            algorithm == Algorithm.KNN_BRUTE,
            np.isin(algorithm, (Algorithm.KNN_TREE, Algorithm.DBSCAN, Algorithm.HDBSCAN)),
            algorithm == Algorithm.TSNE,
            algorithm == Algorithm.UMAP,
            algorithm == Algorithm.KERNEL_SVM,
            np.isin(algorithm, (Algorithm.PCA, Algorithm.LINEAR_CLOSED, Algorithm.RANDOM_SVD)),
        ],
        [
            histograms,
            pairs + neighbours,
            counts["neighbour_copies"] * neighbours,
            affinities,
            edges,
            np.minimum(FP64_BYTES * job.rows**2, counts["kernel_cache_bytes"]),
            squares,
        ],
        0.0,
    )
    return np.asarray(chosen + threads * rates.thread_bytes, dtype=np.float64)


def memory_terms(job: JobColumns, rates: ClassicalMemoryRates, *, threads: Array, counts: Counts) -> dict[str, Array]:
    """Bytes of every part at the peak, by name; the peak is their sum. Known error: a factor 1.3;
    garbage-collected libraries 1.6.

    `threads` [threads], `counts` [coefficients] -> [bytes] by part.
    The data stand `input_copies` times, the library's own format once: binned cells take
    `index_bytes` each.

    Source: accounting of what libraries keep; docs/decisions/classical-ml.md.
    """
    data = input_bytes(job)
    cells = job.rows * np.where(job.sparse > 0, job.nonzeros, job.cols)
    parts = {
        "runtime": rates.base_bytes,
        "data": data,
        "copies": data * (rates.input_copies - 1.0) * rates.headroom,
        "index": cells * rates.index_bytes * rates.headroom,
        "rows": job.rows * (rates.row_bytes * job.outputs + rates.category_bytes * job.categorical) * rates.headroom,
        "model": model_bytes(job, rates, counts) * rates.headroom,
        "workspace": workspace_bytes(job, rates, threads, counts),
    }
    shape = np.broadcast_shapes(*(value.shape for value in parts.values()))
    return {name: np.broadcast_to(value, shape) for name, value in parts.items()}


def gpu_peak_bytes(job: JobColumns, *, cell_bytes: Array, row_bytes: Array, base_bytes: Array, counts: Counts) -> Array:
    """Peak memory of the GPU.

    `cell_bytes` [bytes] per stored cell, `row_bytes` [bytes] per row and output, `base_bytes`
    [bytes] of the context, `counts` [coefficients] -> [bytes]: these with trees, histograms (8
    bytes a bin, two buffers) and the pairwise chunk of neighbour searches. Known error: a factor
    1.5: allocators round up and sketches come and go.

    Source: accounting of what libraries keep; docs/decisions/classical-ml.md.
    """
    cells = job.rows * np.where(job.sparse > 0, job.nonzeros, job.cols)
    histograms = (
        np.minimum(grown_leaves(job, counts), counts["most_leaves"]) * job.total_bins * (2.0 * FP64_BYTES) * np.isin(job.algorithm, _BINNED)
    )
    pairs = np.where(job.algorithm == Algorithm.KNN_BRUTE, np.minimum(FP32_BYTES * job.queries * job.rows, counts["chunk_bytes"]), 0.0)
    return np.asarray(base_bytes + cells * cell_bytes + job.rows * row_bytes * job.outputs + histograms + pairs, dtype=np.float64)
