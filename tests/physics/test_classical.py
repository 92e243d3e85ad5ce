"""Work, time and memory of classical machine learning against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import facts
from rightfit.physics.classical import (
    ClassicalRates,
    ClassicalWork,
    CpuColumns,
    GpuColumns,
    GpuRates,
    classical_terms,
    gpu_terms,
    speedup,
)
from rightfit.physics.classical_work import (
    Algorithm,
    ClassicalMemoryRates,
    JobColumns,
    classical_work,
    gpu_peak_bytes,
    grown_leaves,
    grown_levels,
    input_bytes,
    memory_terms,
)

COUNTS = facts.coefficients("classical_counts")
QUIET = {"base_s": 0.0, "round_s": 0.0, "barrier_s": 0.0}


def test_speedup_is_amdahls_law() -> None:
    # 10 % serial on 9 cores: 1 / (0.1 + 0.9 / 9) = 5.
    cpu = CpuColumns.of(cores=9, threads=9)
    assert speedup(cpu, ClassicalRates.of(serial=0.1))[0] == pytest.approx(5.0)


def test_a_second_thread_on_a_core_adds_what_it_says() -> None:
    # 4 cores, 8 threads, a quarter more each: 5 equivalent cores.
    cpu = CpuColumns.of(cores=4, threads=8)
    assert speedup(cpu, ClassicalRates.of(serial=0.0, smt_gain=0.25))[0] == pytest.approx(5.0)


def test_a_library_of_one_thread_gains_nothing_from_cores() -> None:
    cpu = CpuColumns.of(cores=[1, 32], threads=[1, 64])
    gain = speedup(cpu, ClassicalRates.of(serial=0.05, max_threads=1))
    assert gain.tolist() == [1.0, 1.0]


def test_operations_take_their_nanoseconds_on_a_core_of_unit_speed() -> None:
    work = ClassicalWork.of(operations=2e9)
    rates = ClassicalRates.of(operation_s=1.5e-9, serial=0.0, **QUIET)
    # 2e9 x 1.5 ns = 3 s; on a core twice as fast and two of them, 0.75 s.
    assert classical_terms(work, CpuColumns.of(), rates)["operations"][0] == pytest.approx(3.0)
    assert classical_terms(work, CpuColumns.of(cores=2, threads=2, speed=2), rates)["operations"][0] == pytest.approx(0.75)


def test_the_memory_bus_bounds_what_cores_cannot_hide() -> None:
    work = ClassicalWork.of(operations=1e9, stream_bytes=4e11)
    terms = classical_terms(work, CpuColumns.of(bandwidth=1e11), ClassicalRates.of(operation_s=1e-9, serial=0.0, **QUIET))
    # 1 s of work under 4 s of traffic: 3 s more.
    assert terms["operations"][0] == pytest.approx(1.0)
    assert terms["memory_bus"][0] == pytest.approx(3.0)


def test_barriers_grow_with_threads_and_more_across_sockets() -> None:
    work = ClassicalWork.of(regions=1000)
    rates = ClassicalRates.of(barrier_s=1e-6, socket_loss=2.0, serial=0.0, base_s=0.0, round_s=0.0)
    one, two = classical_terms(work, CpuColumns.of(cores=[11, 11], threads=[11, 11], sockets=[1, 2]), rates)["barriers"]
    assert one == pytest.approx(0.01)
    assert two == pytest.approx(0.02)


def test_boosting_counts_half_of_the_rows_below_the_root() -> None:
    job = JobColumns.of(algorithm=Algorithm.BOOST_HIST, rows=1e6, cols=10, nonzeros=10, total_bins=2550, trees=100, depth=5, leaves=32)
    work = classical_work(job, COUNTS)
    # cells 100 x 1e6 x 10 x (1 + 4 / 2) = 3e9; moves 100 x 1e6 x 9 = 9e8.
    assert work.operations[0] == pytest.approx(3e9)
    assert work.row_operations[0] == pytest.approx(9e8)
    # 100 trees x 64 nodes x 2550 bins.
    assert work.split_operations[0] == pytest.approx(100 * 64 * 2550)
    assert work.regions[0] == pytest.approx(500)


def test_one_tree_for_all_classes_meets_once() -> None:
    job = JobColumns.of(
        algorithm=Algorithm.BOOST_HIST, rows=1e5, cols=10, nonzeros=10, total_bins=2550, trees=10, outputs=5, depth=6, joint_outputs=[0, 1]
    )
    work = classical_work(job, COUNTS)
    assert work.regions.tolist() == [300.0, 60.0]
    assert work.operations[0] == work.operations[1]


def test_leaf_wise_trees_meet_at_every_leaf() -> None:
    level = JobColumns.of(algorithm=Algorithm.BOOST_HIST, rows=1e6, cols=10, nonzeros=10, total_bins=2550, trees=10, depth=10, leaves=1024)
    leaf = JobColumns.of(
        algorithm=Algorithm.BOOST_HIST, rows=1e6, cols=10, nonzeros=10, total_bins=2550, trees=10, leaves=1024, leaf_wise=1
    )
    assert classical_work(level, COUNTS).regions[0] == pytest.approx(100)
    assert classical_work(leaf, COUNTS).regions[0] == pytest.approx(10240)


def test_leaves_are_limited_by_depth_by_number_and_by_rows() -> None:
    job = JobColumns.of(algorithm=Algorithm.BOOST_HIST, rows=[1e6, 1e6, 1e4], depth=[5, 10, 10], leaves=[0, 31, 0])
    assert grown_leaves(job, COUNTS).tolist() == [32.0, 31.0, 100.0]


def test_forest_of_unlimited_depth_sorts_every_level() -> None:
    job = JobColumns.of(algorithm=Algorithm.FOREST_EXACT, rows=3 * 2**15, cols=16, nonzeros=16, trees=10, tried=4)
    levels = 1.2 * 15  # a third of the rows are leaves: 2^15
    assert grown_levels(job, COUNTS)[0] == pytest.approx(levels)
    depth = np.log2(3 * 2**15)
    assert classical_work(job, COUNTS).operations[0] == pytest.approx(10 * 0.63 * 3 * 2**15 * 4 * (levels * depth - levels**2 / 2))


def test_two_valued_columns_need_no_sorting() -> None:
    job = JobColumns.of(
        algorithm=Algorithm.FOREST_EXACT, rows=1e5, cols=100, nonzeros=100, trees=10, tried=10, depth=8, binary_share=[0, 1]
    )
    plain, binary = classical_work(job, COUNTS).operations
    assert binary == pytest.approx(10 * 0.63 * 1e5 * 10 * 8)
    assert plain > 5 * binary


def test_kmeans_principal_components_and_kernels() -> None:
    kmeans = JobColumns.of(algorithm=Algorithm.KMEANS, rows=1e6, cols=20, k=8, iterations=10)
    # (10 + 2 seeding) x 2 x 1e6 x 20 x 8.
    assert classical_work(kmeans, COUNTS).flops[0] == pytest.approx(12 * 2 * 1e6 * 160)
    pca = JobColumns.of(algorithm=Algorithm.PCA, rows=1e6, cols=100, k=10)
    assert classical_work(pca, COUNTS).flops[0] == pytest.approx(2e10 + 1e7)
    svm = JobColumns.of(algorithm=Algorithm.KERNEL_SVM, rows=1e4, cols=20, iterations=1)
    assert classical_work(svm, COUNTS).operations[0] == pytest.approx(0.5e8 * 30)


def test_each_row_takes_the_formula_of_its_algorithm() -> None:
    job = JobColumns.of(algorithm=[Algorithm.KMEANS, Algorithm.KNN_BRUTE], rows=1e3, cols=10, k=4, iterations=1, queries=1e3)
    work = classical_work(job, COUNTS)
    assert work.flops.tolist() == [pytest.approx(3 * 2 * 1e3 * 40), pytest.approx(2e7)]


def test_every_algorithm_has_finite_positive_work() -> None:
    codes = [float(one) for one in Algorithm]
    job = JobColumns.of(
        algorithm=codes,
        rows=1e4,
        cols=20,
        nonzeros=20,
        total_bins=5000,
        trees=10,
        depth=6,
        leaves=31,
        tried=4,
        iterations=10,
        k=8,
        weights=1e4,
        queries=1e4,
    )
    work = classical_work(job, COUNTS)
    total = work.operations + work.flops
    assert np.isfinite(total).all()
    assert (total > 0).all()


def test_gpu_time_is_updates_latency_and_transfer() -> None:
    work = ClassicalWork.of(operations=1e11, regions=1000)
    rates = GpuRates.of(operations_per_lane=0.5, region_s=1e-3, base_s=0.5, transfer_bandwidth=1e10)
    terms = gpu_terms(work, GpuColumns.of(lanes=1e11), rates, input_bytes=np.array([2e10]), host_s=np.array([0.25]))
    assert {name: float(value[0]) for name, value in terms.items() if value[0]} == pytest.approx(
        {"operations": 2.0, "latency": 1.0, "transfer": 2.0, "host": 0.25, "start": 0.5}
    )


def test_rows_and_sorted_categories_wait_for_the_memory_of_the_gpu() -> None:
    work = ClassicalWork.of(row_operations=1e9)
    rates = GpuRates.of(row_bytes=100)
    terms = gpu_terms(
        work, GpuColumns.of(bandwidth=1e12), rates, input_bytes=np.zeros(1), host_s=np.zeros(1), sorted_bytes=np.array([4e11])
    )
    # 100 GB of rows and 400 GB of categories at 1 TB/s.
    assert terms["memory_bus"].tolist() == pytest.approx([0.5])


def test_two_gpus_halve_the_updates() -> None:
    work = ClassicalWork.of(operations=1e11)
    terms = gpu_terms(
        work, GpuColumns.of(lanes=1e11, count=[1, 2]), GpuRates.of(operations_per_lane=0.5), input_bytes=np.zeros(2), host_s=np.zeros(2)
    )
    assert terms["operations"].tolist() == [2.0, 1.0]


def test_dense_and_sparse_input() -> None:
    job = JobColumns.of(rows=1e6, cols=1000, nonzeros=8, element_bytes=8, sparse=[0, 1])
    # 8 GB dense; 8 stored cells of 8 + 4 bytes: 96 MB.
    assert input_bytes(job).tolist() == [8e9, 96e6]


def test_parts_of_the_peak_of_a_host() -> None:
    job = JobColumns.of(
        algorithm=Algorithm.BOOST_HIST, rows=1e6, cols=10, nonzeros=10, element_bytes=4, trees=10, depth=3, leaves=8, total_bins=2550
    )
    rates = ClassicalMemoryRates.of(
        base_bytes=2e8, input_copies=1.5, index_bytes=1, row_bytes=16, node_bytes=50, bin_bytes=16, thread_bytes=1e6
    )
    parts = memory_terms(job, rates, threads=np.array([4.0]), counts=COUNTS)
    assert float(parts["data"][0]) == 4e7
    assert float(parts["copies"][0]) == 2e7
    assert float(parts["index"][0]) == 1e7
    assert float(parts["rows"][0]) == 1.6e7
    assert float(parts["model"][0]) == 10 * 16 * 50
    assert float(parts["workspace"][0]) == 8 * 2550 * 16 + 4e6


def test_gpu_memory_counts_cells_and_rows() -> None:
    job = JobColumns.of(algorithm=Algorithm.KMEANS, rows=1e6, cols=100, nonzeros=100)
    peak = gpu_peak_bytes(job, cell_bytes=np.array([4.0]), row_bytes=np.array([16.0]), base_bytes=np.array([5e8]), counts=COUNTS)
    assert peak[0] == pytest.approx(5e8 + 4e8 + 1.6e7)
