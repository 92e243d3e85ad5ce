"""How many elementary operations each algorithm of classical machine learning does: rows, columns, trees, iterations in; work out.

References by function. All arrays broadcast; `kind` chooses the formula row by row.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum

import numpy as np

from rightfit.physics.classical import ClassicalWork
from rightfit.physics.columns import Array, Columns, column


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


@dataclasses.dataclass(frozen=True, slots=True)
class JobColumns(Columns):
    """One job. `rows` and `cols` as the algorithm sees them (one-hot columns counted), `nonzeros` cells of a row that are stored and visited,
    `total_bins` histogram bins of all columns, `binary_share` of columns that are one-hot; `trees` boosting rounds or trees, `outputs` trees a round (classes), `depth`, `leaves` limits (0 = none),
    `tried` columns tried at a split, `leaf_wise` 1 = the best leaf is split next, `iterations` passes or epochs, `k` clusters, components or neighbours,
    `weights` of a network, `queries` rows looked up, `element_bytes` of the stored input, `sparse` 1 = stored as (value, column) pairs,
    `joint_outputs` 1 = one tree serves all classes.
    """

    algorithm: Array = column(0)
    rows: Array = column(0)
    cols: Array = column(0)
    nonzeros: Array = column(0)
    total_bins: Array = column(0)
    trees: Array = column(0)
    outputs: Array = column(1)
    depth: Array = column(0)
    leaves: Array = column(0)
    tried: Array = column(0)
    leaf_wise: Array = column(0)
    iterations: Array = column(0)
    k: Array = column(0)
    weights: Array = column(0)
    queries: Array = column(0)
    element_bytes: Array = column(4)
    sparse: Array = column(0)
    categorical: Array = column(0)
    binary_share: Array = column(0)
    joint_outputs: Array = column(0)


def _log2(values: Array) -> Array:
    return np.log2(np.maximum(values, 2.0))


def grown_leaves(job: JobColumns) -> Array:
    """Leaves of one tree, shape (N,): the least of 2^depth, the limit on leaves, and what the rows can fill.

    Boosted trees stop at about 100 rows a leaf (a hessian of at least 1 and a gain above 0 are asked for); forests split until a leaf is pure, which
    noisy labels let go on to about a third of the rows.
    """
    forest = np.isin(job.algorithm, (Algorithm.FOREST_EXACT, Algorithm.FOREST_RANDOM, Algorithm.FOREST_HIST))
    by_depth = np.where(job.depth > 0, np.exp2(np.minimum(job.depth, 40.0)), np.inf)
    by_limit = np.where(job.leaves > 0, job.leaves, np.inf)
    # A trained model's trees do not depend on the rows that it is asked about.
    asked = np.isin(job.algorithm, (Algorithm.PREDICT_TREES, Algorithm.SHAP))
    by_rows = np.where(asked, np.inf, np.maximum(job.rows / np.where(forest, 3.0, 100.0), 2.0))
    by_depth = np.where(asked & ~np.isfinite(by_depth) & ~np.isfinite(by_limit), job.rows, by_depth)
    return np.minimum(np.minimum(by_depth, by_limit), by_rows)


def grown_levels(job: JobColumns) -> Array:
    """Mean depth of a row's leaf, shape (N,): log2(leaves), a fifth more where trees grow leaf by leaf or to purity, never above the limit."""
    uneven = np.where((job.leaf_wise > 0) | np.isin(job.algorithm, (Algorithm.FOREST_EXACT, Algorithm.FOREST_RANDOM)), 1.2, 1.0)
    levels = uneven * _log2(grown_leaves(job))
    return np.where(job.depth > 0, np.minimum(levels, job.depth), levels)


def boosting_work(job: JobColumns) -> ClassicalWork:
    """Histogram boosting: XGBoost hist, LightGBM, CatBoost, sklearn HistGradientBoosting (Chen and Guestrin 2016; Ke et al. 2017).

    Every level adds each row's stored cells to histograms; the larger sibling is the parent minus the smaller one, so below the root half of the
    rows: trees x rows x nonzeros x (1 + (levels - 1) / 2). Moving rows and gradients is trees x rows x (levels + 4). A split looks
    through the bins of every node: trees x 2 leaves x bins. Binning once: rows x nonzeros x log2(bins of a column).
    """
    trees, leaves, levels = job.trees * job.outputs, grown_leaves(job), grown_levels(job)
    cells = trees * job.rows * job.nonzeros * (1.0 + 0.5 * (levels - 1.0))
    moves = trees * job.rows * (levels + 4.0)
    grown = np.where(job.joint_outputs > 0, job.trees, trees)  # one tree for all classes, its leaves hold a vector
    bins_of_column = job.total_bins / np.maximum(job.cols, 1.0)
    return ClassicalWork(
        operations=cells,
        row_operations=moves,
        setup_operations=job.rows * job.nonzeros * _log2(bins_of_column),
        split_operations=trees * 2.0 * leaves * job.total_bins,
        regions=grown * np.where(job.leaf_wise > 0, leaves, levels),
        stream_bytes=trees * job.rows * levels * (job.nonzeros + 16.0),
        rounds=grown,
    )


def exact_tree_work(job: JobColumns) -> ClassicalWork:
    """Trees that sort each tried column at each node: CART forests and exact boosting (Breiman 2001; Louppe 2014, table 5.1).

    A node of n rows costs tried x n log2 n, so a tree over rows R and levels L costs tried x R x (L log2 R - L^2 / 2). Bagged trees see 63 % distinct
    rows. Two-valued columns sort in one pass (R x L), and extremely randomised trees do not sort at all (Geurts et al. 2006).
    """
    levels, depth_log = grown_levels(job), _log2(job.rows)
    sorting = np.maximum(levels * depth_log - 0.5 * levels**2, levels)
    bagged = np.where(job.algorithm == Algorithm.BOOST_EXACT, 1.0, 0.63)
    sorted_columns = job.binary_share * levels + (1.0 - job.binary_share) * sorting
    per_row = np.where(job.algorithm == Algorithm.FOREST_RANDOM, levels, sorted_columns)
    trees = job.trees * np.where(job.algorithm == Algorithm.BOOST_EXACT, job.outputs, 1.0)
    return ClassicalWork(
        operations=trees * bagged * job.rows * job.tried * per_row,
        setup_operations=job.rows * job.nonzeros,
        regions=np.where(job.algorithm == Algorithm.BOOST_EXACT, trees * levels, trees),
        rounds=trees,
    )


def binned_forest_work(job: JobColumns) -> ClassicalWork:
    """Forests on histograms (H2O, Spark, cuML): per level each row adds its tried columns; every node looks through the bins of its tried columns."""
    levels, leaves = grown_levels(job), grown_leaves(job)
    bins_of_column = job.total_bins / np.maximum(job.cols, 1.0)
    return ClassicalWork(
        operations=job.trees * job.rows * (job.tried + 2.0) * levels,
        setup_operations=job.rows * job.nonzeros * _log2(bins_of_column),
        split_operations=job.trees * 2.0 * leaves * job.tried * bins_of_column,
        regions=job.trees * levels,
        rounds=job.trees,
    )


def isolation_work(job: JobColumns) -> ClassicalWork:
    """Isolation forest (Liu et al. 2008): trees over 256 rows cost nothing; every row then walks 8 levels of every tree for its score."""
    return ClassicalWork(operations=job.trees * job.rows * 8.0, setup_operations=job.rows * job.nonzeros, rounds=job.trees)


def linear_work(job: JobColumns) -> ClassicalWork:
    """Gradient and coordinate methods: iterations x rows x stored cells x outputs, twice for gradient methods (product and its transpose).

    The data cross the memory bus once or twice per iteration and are hardly reused, so bandwidth bounds it (Bottou, Curtis and Nocedal 2018).
    """
    twice = np.where(job.algorithm == Algorithm.LINEAR_ITERATIVE, 2.0, 1.0)
    cells = twice * job.iterations * job.rows * job.nonzeros * job.outputs
    stored = job.element_bytes + 8.0 * job.sparse
    return ClassicalWork(
        operations=cells,
        setup_operations=job.rows * job.nonzeros,
        stream_bytes=cells / job.outputs * stored,
        regions=job.iterations * 2.0,
        rounds=job.iterations,
    )


def closed_work(job: JobColumns) -> ClassicalWork:
    """Normal equations and principal components: 2 R C^2 for the product, about 10 C^3 for the eigenvectors (Golub and Van Loan, ch. 8).

    Least squares through the singular values costs about 4 R C^2 + 10 C^3. Randomised: 2 R C (k + 10) per pass, `iterations` passes (Halko et al. 2011).
    """
    square = np.where(job.algorithm == Algorithm.PCA, 2.0, 4.0) * job.rows * job.cols**2 + 10.0 * job.cols**3
    sketch = 2.0 * job.rows * job.cols * (job.k + 10.0) * job.iterations
    flops = np.where(job.algorithm == Algorithm.RANDOM_SVD, sketch, square)
    passes = np.where(job.algorithm == Algorithm.RANDOM_SVD, job.iterations, 1.0)
    return ClassicalWork(
        flops=flops, setup_operations=job.rows * job.cols, stream_bytes=passes * job.rows * job.cols * job.element_bytes, regions=passes
    )


def kmeans_work(job: JobColumns) -> ClassicalWork:
    """Lloyd's iterations: 2 R C k FLOP for the distances and R k comparisons each (Lloyd 1982); seeding adds k-means++ passes of R C k (Arthur 2007)."""
    mini = job.algorithm == Algorithm.MINIBATCH_KMEANS
    seen = np.where(mini, np.minimum(job.iterations * 1024.0, 100.0 * job.rows), job.iterations * job.rows)
    return ClassicalWork(
        flops=2.0 * (seen + 2.0 * np.where(mini, 3072.0, job.rows)) * job.cols * job.k,
        operations=seen * job.k + np.where(mini, job.rows * job.k, 0.0),
        setup_operations=job.rows * job.cols,
        regions=job.iterations,
        rounds=job.iterations,
    )


def kernel_svm_work(job: JobColumns) -> ClassicalWork:
    """LIBSVM's sequential minimal optimisation: between R^2 and R^3 kernel values of C products (Chang and Lin 2011, section 4.2); R^2 / 2 with a cache.

    10 operations a value stand for the exponential and the update of the gradient.
    """
    return ClassicalWork(operations=0.5 * job.rows**2 * (job.cols + 10.0) * job.iterations, setup_operations=job.rows * job.cols)


_BLOCK_SHARE = 0.1
_TREE_LEAF_ROWS = 30.0  # rows of a leaf of a k-d tree; scikit-learn's default


def visited_rows(job: JobColumns) -> Array:
    """Rows that one query of a k-d tree looks at, shape (N,): a leaf of 30 times 1.6 per dimension, all of them in the end.

    The visited leaves grow exponentially with the dimension (Friedman, Bentley and Finkel 1977); beyond 15 dimensions brute force wins, and
    density clustering then compares whole blocks, a tenth of the cost of as many single visits.
    """
    leaves = np.exp2(np.minimum(0.7 * job.cols, 40.0))
    most = job.rows * np.where(job.algorithm == Algorithm.DBSCAN, _BLOCK_SHARE, 1.0)
    return np.minimum(most, _TREE_LEAF_ROWS * (leaves + _log2(job.rows / _TREE_LEAF_ROWS)))


def neighbours_work(job: JobColumns) -> ClassicalWork:
    """Nearest neighbours: brute force 2 Q R C FLOP and Q R comparisons; trees Q x visited rows x C; density clustering queries every row."""
    brute = job.algorithm == Algorithm.KNN_BRUTE
    tree_operations = job.queries * visited_rows(job) * job.cols + job.rows * _log2(job.rows) * job.cols
    density = job.rows * _log2(job.rows) ** 2 * job.cols * job.k
    operations = np.select([brute, job.algorithm == Algorithm.HDBSCAN], [job.queries * job.rows, density], tree_operations)
    return ClassicalWork(
        operations=operations, flops=np.where(brute, 2.0 * job.queries * job.rows * job.cols, 0.0), setup_operations=job.rows * job.cols
    )


def embedding_work(job: JobColumns) -> ClassicalWork:
    """t-SNE with Barnes-Hut: iterations x R log2 R cells (van der Maaten 2014); UMAP: R x k edges x epochs x 6 samples after a graph of
    R log2 R x k x C (McInnes et al. 2018; Dong et al. 2011)."""
    log = _log2(job.rows)
    tsne = job.iterations * job.rows * log * 10.0
    umap = job.iterations * job.rows * job.k * 6.0 + job.rows * log * job.k * job.cols
    return ClassicalWork(operations=np.where(job.algorithm == Algorithm.TSNE, tsne, umap), regions=job.iterations, rounds=job.iterations)


def one_pass_work(job: JobColumns) -> ClassicalWork:
    """Naive Bayes, scaling: every cell a few times; bound by the memory bus."""
    cells = job.rows * job.nonzeros * np.maximum(job.iterations, 1.0)
    return ClassicalWork(operations=cells, stream_bytes=2.0 * cells * job.element_bytes)


def network_work(job: JobColumns) -> ClassicalWork:
    """Small dense network: 6 FLOP a weight, row and epoch (2 forward, 4 backward); a step per batch of 200 rows or so."""
    steps = job.iterations * job.rows / 200.0
    return ClassicalWork(flops=6.0 * job.weights * job.rows * job.iterations, regions=steps, rounds=steps)


def prediction_work(job: JobColumns) -> ClassicalWork:
    """Trees: rows x trees x levels steps. Shapley values: rows x trees x leaves x levels^2 (Lundberg et al. 2018, algorithm 2).

    CatBoost first tabulates every leaf against every leaf of a tree, trees x leaves^2 x levels, and then looks rows up (counted as splits here).
    """
    trees, levels, leaves = job.trees * job.outputs, grown_levels(job), grown_leaves(job)
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


def classical_work(job: JobColumns) -> ClassicalWork:
    """Work of every job, each by the formula of its algorithm, shape (N,) per field."""
    names = [field.name for field in dataclasses.fields(ClassicalWork)]
    totals = {name: np.zeros(job.num_rows) for name in names}
    for formula, algorithms in _FORMULAS:
        chosen = np.isin(np.broadcast_to(job.algorithm, job.num_rows), algorithms)
        if chosen.any():
            found = formula(job)
            for name in names:
                totals[name] = np.where(chosen, np.broadcast_to(getattr(found, name), job.num_rows), totals[name])
    return ClassicalWork(**totals)
