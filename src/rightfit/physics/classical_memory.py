"""Peak host and GPU memory of classical machine learning: runtime, data and copies, rows, model and workspace.

Source: accounting of what libraries keep; docs/decisions/classical-ml.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.classical_work import Algorithm, Counts, JobColumns, grown_leaves
from rightfit.physics.columns import Array, Columns, column
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES, FP64_BYTES, INT32_BYTES, INT64_BYTES


@dataclass(frozen=True, slots=True)
class ClassicalMemoryRates(Columns):
    """What a library keeps. `base_bytes` of the process (interpreter, libraries, virtual machine); `input_copies` of the caller's data that
    live at the peak (1 = only the caller's own); `index_bytes` per stored cell of its own format (bins, sorted indices); `row_bytes` per
    row (gradients, positions, predictions); `node_bytes` per tree node; `bin_bytes` per histogram bin; `thread_bytes` per thread;
    `category_bytes` per row and categorical column; `headroom` factor of a collector that lets garbage stand.
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
    """Bytes of the data as the caller holds them: dense cells, or value and column number per stored cell -> [bytes]."""
    dense = job.rows * job.cols * job.element_bytes
    return np.where(job.sparse > 0, job.rows * job.nonzeros * (job.element_bytes + INT32_BYTES), dense)


def model_bytes(job: JobColumns, rates: ClassicalMemoryRates, counts: Counts) -> Array:
    """Bytes of the trained model: trees x 2 leaves x bytes of a node and 8 per output; linear models and clusters are columns x outputs.

    `counts` [coefficients] -> [bytes].
    """
    trees = job.trees * np.where(np.isin(job.algorithm, _BOOSTING), job.outputs, 1.0)
    # Forests keep a value per class in every node; two classes are kept as two.
    values = np.where(np.isin(job.algorithm, _BOOSTING), 0.0, FP64_BYTES * np.maximum(job.outputs, 2.0))
    nodes = trees * 2.0 * grown_leaves(job, counts) * (rates.node_bytes + values)
    return np.where(np.isin(job.algorithm, _TREES), nodes, FP64_BYTES * job.cols * np.maximum(job.outputs, job.k))


def workspace_bytes(job: JobColumns, rates: ClassicalMemoryRates, threads: Array, counts: Counts) -> Array:
    """Bytes that live only while it works: histograms of the leaves, distance chunks, kernel cache, neighbour lists, gradients of a
    network.

    `threads` [threads], `counts` [coefficients] -> [bytes].
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
    """Bytes of every part at the peak, by name; the peak is their sum. Known error: a factor 1.3; garbage-collected libraries 1.6.

    `threads` [threads], `counts` [coefficients] -> [bytes] by part.
    The data stand `input_copies` times, the library's own format once: binned cells take `index_bytes` each.
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

    `cell_bytes` [bytes] per stored cell, `row_bytes` [bytes] per row and output, `base_bytes` [bytes] of the context, `counts`
    [coefficients] -> [bytes]: these with trees, histograms (8 bytes a bin, two buffers) and the pairwise chunk of neighbour searches.
    Known error: a factor 1.5: allocators round up and sketches come and go.
    """
    cells = job.rows * np.where(job.sparse > 0, job.nonzeros, job.cols)
    histograms = (
        np.minimum(grown_leaves(job, counts), counts["most_leaves"]) * job.total_bins * (2.0 * FP64_BYTES) * np.isin(job.algorithm, _BINNED)
    )
    pairs = np.where(job.algorithm == Algorithm.KNN_BRUTE, np.minimum(FP32_BYTES * job.queries * job.rows, counts["chunk_bytes"]), 0.0)
    return np.asarray(base_bytes + cells * cell_bytes + job.rows * row_bytes * job.outputs + histograms + pairs, dtype=np.float64)
