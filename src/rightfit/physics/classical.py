"""Time of classical machine learning: work by algorithm on processors and GPUs, how threads share
it, what never gets shared.

A job is a few kinds of elementary operations (physics/classical_work.py counts them); a core does
each kind at a rate that belongs to the library. Threads divide what can be divided (Amdahl 1967),
meet at barriers, share the memory bus and lose when they sit on two sockets. Nothing here knows
libraries: callers give work and rates.

Source: Amdahl 1967, Williams et al. 2009 (roofline); docs/decisions/classical-ml.md.

What a request to a classical model costs a core, and what a worker process holds.

Source: accounting; docs/decisions/classical-ml.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, Columns, column
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class ClassicalWork(Columns):
    """Elementary operations of one job.

    `operations` random-access operations (histogram updates, tree steps, distance tests) and
    `flops` dense arithmetic [FLOP] divide over threads; `row_operations` move a row between nodes,
    with its gradient and position; `setup_operations` (binning, sorting once, copies) too;
    `split_operations` look through histograms; `regions` are parallel sections with a barrier at
    their end; `stream_bytes` [bytes] cross the memory bus in all; `rounds` steps that come one
    after the other.
    """

    operations: Array = column(0, "operations")
    row_operations: Array = column(0, "operations")
    flops: Array = column(0, "FLOP")
    setup_operations: Array = column(0, "operations")
    split_operations: Array = column(0, "operations")
    regions: Array = column(0, "1")
    stream_bytes: Array = column(0, "bytes")
    rounds: Array = column(1, "1")


@dataclass(frozen=True, slots=True)
class CpuColumns(Columns):
    """Processors that work on the job. `cores` physical cores in use, `threads` at work on them,
    `sockets` they lie on; `speed` work of one core against a Skylake core at 3 GHz [1]; `flops`
    fp32 arithmetic of one core [FLOP/s]; `bandwidth` memory rate of the sockets in use [bytes/s];
    `memory_bytes` of the machine.
    """

    cores: Array = column(1, "cores")
    threads: Array = column(1, "threads")
    sockets: Array = column(1, "1")
    speed: Array = column(1, "1")
    flops: Array = column(1, "FLOP/s")
    bandwidth: Array = column(1, "bytes/s")
    memory_bytes: Array = column(0, "bytes")


@dataclass(frozen=True, slots=True)
class ClassicalRates(Columns):
    """What a library makes of a core. `operation_s` per random-access operation on a core of speed
    1 [s]; `row_s`, `setup_s`, `split_s` likewise; `flop_fraction` of a core's fp32 peak; `base_s`
    fixed time of a call [s]; `round_s` host time per round [s]; `serial` fraction of the work that
    one thread does; `barrier_s` per region and thread [s]; `max_threads` that the library uses (0 =
    all); `socket_loss` how much dearer a barrier is across sockets; `smt_gain` what a second thread
    adds to a core.
    """

    operation_s: Array = column(0, "s")
    row_s: Array = column(0, "s")
    setup_s: Array = column(0, "s")
    split_s: Array = column(0, "s")
    flop_fraction: Array = column(1, "1")
    base_s: Array = column(0, "s")
    round_s: Array = column(0, "s")
    serial: Array = column(0, "1")
    barrier_s: Array = column(0, "s")
    max_threads: Array = column(0, "threads")
    socket_loss: Array = column(1, "1")
    smt_gain: Array = column(0, "1")


def used_threads(cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """Threads at work: those of the machine or the most that the library uses -> [threads]."""
    return np.where(rates.max_threads > 0, np.minimum(cpu.threads, rates.max_threads), cpu.threads)


def equivalent_cores(cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """Cores that would do the same divisible work: physical cores in use, each worth 1 + g when a
    second thread sits on it -> [cores].

    g = `smt_gain`. Cores on a second socket reach half of the data over the link between the
    sockets; that costs in barriers, not here.
    """
    threads = used_threads(cpu, rates)
    cores = np.minimum(cpu.cores, threads)
    doubled = np.clip(threads / np.maximum(cores, 1.0) - 1.0, 0.0, 1.0)
    return cores * (1.0 + rates.smt_gain * doubled)


def speedup(cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """How much faster than one core: 1 / (s + (1 - s) / n), Amdahl 1967, s = `serial`, n =
    equivalent cores -> [1]."""
    cores = np.maximum(equivalent_cores(cpu, rates), 1e-9)
    return 1.0 / (rates.serial + (1.0 - rates.serial) / cores)


def barrier_s(work: ClassicalWork, cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """Seconds spent opening and closing parallel sections: sections x cost per thread x (threads -
    1), dearer across sockets -> [s]."""
    threads = used_threads(cpu, rates)
    across = np.where((cpu.sockets > 1) & (threads > 1), rates.socket_loss, 1.0)
    return work.regions * rates.barrier_s * np.maximum(threads - 1.0, 0.0) * across / cpu.speed


def classical_terms(work: ClassicalWork, cpu: CpuColumns, rates: ClassicalRates) -> dict[str, Array]:
    """Seconds of every part of a job on processors, by name; their sum is the time. Known error: a
    factor 1.5 between data sets of one size.

    Each operation takes operation_s / speed on one core, and where rows move too (boosted trees)
    all threads share the cells; arithmetic runs at a fraction of the cores' peak; neither can be
    faster than the bytes that it moves over the bus (roofline, Williams 2009).

    -> [s] by part.
    """
    gain = speedup(cpu, rates)
    # Cells of trees lie in columns and blocks that threads share evenly; what one thread does alone
    # is between the rows and the nodes.
    cells = np.where(work.row_operations > 0, np.maximum(equivalent_cores(cpu, rates), 1e-9), gain)
    scans = work.operations * rates.operation_s / cpu.speed / cells + work.row_operations * rates.row_s / cpu.speed / gain
    arithmetic = work.flops / (cpu.flops * rates.flop_fraction) / gain
    bus = work.stream_bytes / cpu.bandwidth
    busy = scans + arithmetic
    return {
        "operations": busy,
        "memory_bus": np.maximum(bus - busy, 0.0),
        "setup": work.setup_operations * rates.setup_s / cpu.speed / gain,
        "splits": work.split_operations * rates.split_s / cpu.speed / gain,
        "barriers": barrier_s(work, cpu, rates),
        "rounds": work.rounds * rates.round_s / cpu.speed,
        "start": rates.base_s / cpu.speed,
    }


@dataclass(frozen=True, slots=True)
class GpuColumns(Columns):
    """A GPU as these algorithms see it: `lanes` multiprocessors x clock [1/s], `flops` fp32
    [FLOP/s], `bandwidth` [bytes/s], `memory_bytes`, `count`.
    """

    lanes: Array = column(1, "1/s")
    flops: Array = column(1, "FLOP/s")
    bandwidth: Array = column(1, "bytes/s")
    memory_bytes: Array = column(0, "bytes")
    count: Array = column(1, "GPUs")


@dataclass(frozen=True, slots=True)
class GpuRates(Columns):
    """What a library makes of a GPU. `operations_per_lane` random-access operations per
    multiprocessor and cycle; `row_bytes` that a row's move between nodes takes from memory [bytes];
    `flop_fraction` of the peak; `region_s` latency of a level of a tree or an iteration [s];
    `base_s` context and transfers' fixed part [s]; `host_share` part of the job's setup that a
    processor core does; `transfer_bandwidth` [bytes/s].
    """

    operations_per_lane: Array = column(1, "operations")
    row_bytes: Array = column(0, "bytes")
    flop_fraction: Array = column(1, "1")
    region_s: Array = column(0, "s")
    base_s: Array = column(0, "s")
    transfer_bandwidth: Array = column(1, "bytes/s")


def gpu_terms(
    work: ClassicalWork, gpu: GpuColumns, rates: GpuRates, *, input_bytes: Array, host_s: Array, sorted_bytes: Array | float = 0.0
) -> dict[str, Array]:
    """Seconds of every part of a job on GPUs.

    `input_bytes` [bytes] cross the host link once, `host_s` [s] is what the processor does alone
    (binning, categories), `sorted_bytes` [bytes] move while categories are sorted -> [s] by part.
    Histogram updates are atomics in shared memory, so their rate goes with multiprocessors x clock,
    not with bandwidth; levels come one after the other. Rows that move to their node gather
    gradient, position and bin from scattered addresses, so they wait for the memory.
    Source: Mitchell and Frank 2017, Accelerating the XGBoost algorithm using GPU computing. Known
    error: a factor 1.5.
    """
    operations = (work.operations + work.split_operations) / (rates.operations_per_lane * gpu.lanes * gpu.count)
    moves = (work.row_operations * rates.row_bytes + sorted_bytes) / (gpu.bandwidth * gpu.count)
    arithmetic = work.flops / (rates.flop_fraction * gpu.flops * gpu.count)
    bus = work.stream_bytes / (gpu.bandwidth * gpu.count)
    busy = operations + arithmetic
    return {
        "operations": busy,
        "memory_bus": np.maximum(bus - busy, moves),
        "latency": work.regions * rates.region_s,
        "transfer": input_bytes / rates.transfer_bandwidth,
        "host": np.broadcast_to(host_s, busy.shape),
        "start": np.broadcast_to(rates.base_s, busy.shape),
    }


def request_core_s(
    *,
    web_s: Array,
    cell_s: Array,
    cols: Array,
    call_s: Array,
    tree_s: Array,
    trees: Array,
    operations: Array,
    operation_s: Array,
    stream_bytes: Array,
    core_bandwidth: Array,
    speed: Array,
) -> Array:
    """Core seconds of a request for one row.

    `web_s` [s] of HTTP, routing and the answer, `cell_s` [s] to read and check one number of the
    request, `cols` [columns] in it, `call_s` [s] of the library's own call, `tree_s` [s] to call
    one of the `trees` [trees], `operations` [operations] of a row (trees x levels, columns x
    outputs, ...), `operation_s` [s] of one, `stream_bytes` [bytes] of the model that every request
    reads from memory (0 where caches hold it), `core_bandwidth` [bytes/s] a core's share of the
    memory rate, `speed` [1] of a core, relative to the one that the seconds are of -> [s].

        t = (web + cols x cell + call + trees x tree) / speed + max(operations x operation / speed,
            stream / bandwidth)

    Source: linear as measured (validation/measured_classical_service.csv). Known error: a model
    that falls out of the processor's caches takes longer than its operations say, up to twice for
    forests of some hundred MiB.
    """
    fixed_s = (web_s + cell_s * cols + call_s + tree_s * trees) / speed
    return fixed_s + np.maximum(operations * operation_s / speed, stream_bytes / core_bandwidth)


def pass_s(core_s: Array, *, waiting: Array, workers: Array) -> Array:
    """Seconds until `waiting` requests are answered by `workers` processes that each
    take one at a time.

    `core_s` [s], `waiting` [requests, (B,)], `workers` [1] -> [s, (N, B)]: core_s x max(1,
    waiting / workers).

    Source: accounting; docs/decisions/classical-ml.md.
    """
    return core_s * np.maximum(waiting / workers, 1.0)


def worker_bytes(*, runtime_bytes: Array, model_bytes: Array, workers: Array) -> Array:
    """Memory of all workers: each has the interpreter with its libraries, and a copy of the model.

    `runtime_bytes`, `model_bytes` [bytes], `workers` [1] -> [bytes].

    Source: accounting; docs/decisions/classical-ml.md.
    """
    return workers * (runtime_bytes + model_bytes)
