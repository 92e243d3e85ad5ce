"""Peak host and GPU memory of classical machine learning: runtime, data and its copies, what a row keeps, what the model and its workspace take."""

from __future__ import annotations

import dataclasses

import numpy as np

from rightfit.physics.classical_work import Algorithm, JobColumns, grown_leaves
from rightfit.physics.columns import Array, Columns, column


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryRates(Columns):
    """What a library keeps. `base_bytes` of the process (interpreter, libraries, virtual machine); `input_copies` of the caller's data that live at the peak
    (1 = only the caller's own); `index_bytes` per stored cell of its own format (bins, sorted indices); `row_bytes` per row (gradients, positions, predictions);
    `node_bytes` per tree node; `bin_bytes` per histogram bin; `thread_bytes` per thread; `category_bytes` per row and categorical column;
    `headroom` factor of a collector that lets garbage stand.
    """

    base_bytes: Array = column(2e8)
    input_copies: Array = column(1)
    index_bytes: Array = column(1)
    row_bytes: Array = column(16)
    node_bytes: Array = column(64)
    bin_bytes: Array = column(16)
    thread_bytes: Array = column(0)
    category_bytes: Array = column(0)
    headroom: Array = column(1)


_TREES = (Algorithm.BOOST_HIST, Algorithm.BOOST_EXACT, Algorithm.FOREST_EXACT, Algorithm.FOREST_RANDOM, Algorithm.FOREST_HIST)
_BOOSTING = (Algorithm.BOOST_HIST, Algorithm.BOOST_EXACT)
_BINNED = (Algorithm.BOOST_HIST, Algorithm.FOREST_HIST)
_SPARSE_INDEX_BYTES = 4.0  # compressed rows: a 32-bit column number beside each value
_NEIGHBOUR_BYTES = 12.0  # a 64-bit index and a 32-bit distance
_CHUNK_BYTES = 1e9  # scikit-learn's working memory for pairwise distances: sklearn.set_config(working_memory=1024)
_KERNEL_CACHE_BYTES = 200e6  # SVC(cache_size=200)


def input_bytes(job: JobColumns) -> Array:
    """Bytes of the data as the caller holds them, shape (N,): dense cells, or value and column number per stored cell."""
    dense = job.rows * job.cols * job.element_bytes
    return np.where(job.sparse > 0, job.rows * job.nonzeros * (job.element_bytes + _SPARSE_INDEX_BYTES), dense)


def model_bytes(job: JobColumns, rates: MemoryRates) -> Array:
    """Bytes of the trained model: trees x 2 leaves x bytes of a node and 8 per output; linear models and clusters are columns x outputs."""
    trees = job.trees * np.where(np.isin(job.algorithm, _BOOSTING), job.outputs, 1.0)
    # Forests keep a value per class in every node; two classes are kept as two.
    values = np.where(np.isin(job.algorithm, _BOOSTING), 0.0, 8.0 * np.maximum(job.outputs, 2.0))
    nodes = trees * 2.0 * grown_leaves(job) * (rates.node_bytes + values)
    return np.where(np.isin(job.algorithm, _TREES), nodes, 8.0 * job.cols * np.maximum(job.outputs, job.k))


def workspace_bytes(job: JobColumns, rates: MemoryRates, threads: Array) -> Array:
    """Bytes that live only while it works: histograms of the leaves, distance chunks, kernel cache, neighbour lists, gradients of a network."""
    histograms = np.minimum(grown_leaves(job), 4096.0) * job.total_bins * rates.bin_bytes
    # R x R float64 in chunks of at most the working memory.
    pairs = np.minimum(8.0 * job.queries * job.rows, _CHUNK_BYTES)
    neighbours = job.queries * np.maximum(job.k, 1.0) * _NEIGHBOUR_BYTES
    affinities = job.rows * 91.0 * 2.0 * _NEIGHBOUR_BYTES  # 3 x perplexity 30 + 1 neighbours, kept twice to be symmetric
    edges = job.rows * job.k * 2.0 * 20.0
    squares = job.cols**2 * 8.0 * 3.0
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
        [histograms, pairs + neighbours, 3.0 * neighbours, affinities, edges, np.minimum(8.0 * job.rows**2, _KERNEL_CACHE_BYTES), squares],
        0.0,
    )
    return np.asarray(chosen + threads * rates.thread_bytes, dtype=np.float64)


def memory_terms(job: JobColumns, rates: MemoryRates, *, threads: Array) -> dict[str, Array]:
    """Bytes of every part at the peak, by name; the peak is their sum. Known error: a factor 1.3; garbage-collected libraries 1.6.

    `threads` (N,) at work. The data stand `input_copies` times, the library's own format once: binned cells take `index_bytes` each.
    """
    data = input_bytes(job)
    cells = job.rows * np.where(job.sparse > 0, job.nonzeros, job.cols)
    parts = {
        "runtime": rates.base_bytes,
        "data": data,
        "copies": data * (rates.input_copies - 1.0) * rates.headroom,
        "index": cells * rates.index_bytes * rates.headroom,
        "rows": job.rows * (rates.row_bytes * job.outputs + rates.category_bytes * job.categorical) * rates.headroom,
        "model": model_bytes(job, rates) * rates.headroom,
        "workspace": workspace_bytes(job, rates, threads),
    }
    shape = np.broadcast_shapes(*(value.shape for value in parts.values()))
    return {name: np.broadcast_to(value, shape) for name, value in parts.items()}


def host_peak_bytes(job: JobColumns, rates: MemoryRates, *, threads: Array) -> Array:
    """Peak resident memory of the process [bytes], shape (N,)."""
    return np.asarray(sum(memory_terms(job, rates, threads=threads).values()), dtype=np.float64)


def gpu_peak_bytes(job: JobColumns, *, cell_bytes: Array, row_bytes: Array, base_bytes: Array) -> Array:
    """Peak memory of the GPU [bytes], shape (N,): context, `cell_bytes` per stored cell, `row_bytes` per row and output, trees, histograms (8 bytes a bin,
    two buffers), the pairwise chunk of neighbour searches. Known error: a factor 1.5: allocators round up and sketches come and go."""
    cells = job.rows * np.where(job.sparse > 0, job.nonzeros, job.cols)
    histograms = np.minimum(grown_leaves(job), 4096.0) * job.total_bins * 16.0 * np.isin(job.algorithm, _BINNED)
    pairs = np.where(job.algorithm == Algorithm.KNN_BRUTE, np.minimum(4.0 * job.queries * job.rows, _CHUNK_BYTES), 0.0)
    return np.asarray(base_bytes + cells * cell_bytes + job.rows * row_bytes * job.outputs + histograms + pairs, dtype=np.float64)
