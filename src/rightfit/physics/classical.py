"""Time of classical machine learning: work by algorithm on processors and GPUs, how threads share it, what never gets shared.

A job is a few kinds of elementary operations (physics/classical_work.py counts them); a core does each kind at a rate that belongs to
the library. Threads divide what can be divided (Amdahl 1967), meet at barriers, share the memory bus and lose when they sit on two sockets.
Nothing here knows libraries: callers give work and rates.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from rightfit.physics.columns import Array, Columns, column


@dataclasses.dataclass(frozen=True, slots=True)
class ClassicalWork(Columns):
    """Elementary operations of one job.

    `operations` random-access operations (histogram updates, tree steps, distance tests) and `flops` dense arithmetic [FLOP] divide over threads;
    `row_operations` move a row between nodes, with its gradient and position;
    `setup_operations` (binning, sorting once, copies) too; `split_operations` look through histograms; `regions` are parallel sections with a
    barrier at their end; `stream_bytes` [bytes] cross the memory bus in all; `rounds` steps that come one after the other.
    """

    operations: Array = column(0)
    row_operations: Array = column(0)
    flops: Array = column(0)
    setup_operations: Array = column(0)
    split_operations: Array = column(0)
    regions: Array = column(0)
    stream_bytes: Array = column(0)
    rounds: Array = column(1)


@dataclasses.dataclass(frozen=True, slots=True)
class CpuColumns(Columns):
    """Processors that work on the job. `cores` physical cores in use, `threads` at work on them, `sockets` they lie on; `speed` work of one core
    against a Skylake core at 3 GHz [1]; `flops` fp32 arithmetic of one core [FLOP/s]; `bandwidth` memory rate of the sockets in use [bytes/s];
    `memory_bytes` of the machine.
    """

    cores: Array = column(1)
    threads: Array = column(1)
    sockets: Array = column(1)
    speed: Array = column(1)
    flops: Array = column(1e11)
    bandwidth: Array = column(1e11)
    memory_bytes: Array = column(0)


@dataclasses.dataclass(frozen=True, slots=True)
class ClassicalRates(Columns):
    """What a library makes of a core. `operation_s` per random-access operation on a core of speed 1 [s]; `row_s`, `setup_s`, `split_s` likewise;
    `flop_fraction` of a core's fp32 peak; `base_s` fixed time of a call [s]; `round_s` host time per round [s]; `serial` fraction of the work that one
    thread does; `barrier_s` per region and thread [s]; `max_threads` that the library uses (0 = all); `socket_loss` how much dearer a barrier
    is across sockets; `smt_gain` what a second thread adds to a core.
    """

    operation_s: Array = column(1e-9)
    row_s: Array = column(1e-9)
    setup_s: Array = column(1e-9)
    split_s: Array = column(1e-9)
    flop_fraction: Array = column(0.3)
    base_s: Array = column(0)
    round_s: Array = column(0)
    serial: Array = column(0.05)
    barrier_s: Array = column(0)
    max_threads: Array = column(0)
    socket_loss: Array = column(1)
    smt_gain: Array = column(0.25)


def used_threads(cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """Threads at work, shape (N,): those of the machine or the most that the library uses."""
    return np.where(rates.max_threads > 0, np.minimum(cpu.threads, rates.max_threads), cpu.threads)


def equivalent_cores(cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """Cores that would do the same divisible work, shape (N,): physical cores in use, each worth 1 + g when a second thread sits on it.

    g = `smt_gain`. Cores on a second socket reach half of the data over the link between the sockets; that costs in barriers, not here.
    """
    threads = used_threads(cpu, rates)
    cores = np.minimum(cpu.cores, threads)
    doubled = np.clip(threads / np.maximum(cores, 1.0) - 1.0, 0.0, 1.0)
    return cores * (1.0 + rates.smt_gain * doubled)


def speedup(cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """How much faster than one core, shape (N,): 1 / (s + (1 - s) / n), Amdahl 1967, s = `serial`, n = equivalent cores."""
    cores = np.maximum(equivalent_cores(cpu, rates), 1e-9)
    return 1.0 / (rates.serial + (1.0 - rates.serial) / cores)


def barrier_s(work: ClassicalWork, cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """Seconds spent opening and closing parallel sections, shape (N,): sections x cost per thread x (threads - 1), dearer across sockets."""
    threads = used_threads(cpu, rates)
    across = np.where((cpu.sockets > 1) & (threads > 1), rates.socket_loss, 1.0)
    return work.regions * rates.barrier_s * np.maximum(threads - 1.0, 0.0) * across / cpu.speed


def classical_terms(work: ClassicalWork, cpu: CpuColumns, rates: ClassicalRates) -> dict[str, Array]:
    """Seconds of every part of a job on processors [s], by name; their sum is the time. Known error: a factor 1.5 between data sets of one size.

    Each operation takes operation_s / speed on one core; arithmetic runs at a fraction of the cores' peak; neither can be faster than the bytes
    that it moves over the bus (roofline, Williams 2009).
    """
    gain = speedup(cpu, rates)
    scans = (work.operations * rates.operation_s + work.row_operations * rates.row_s) / cpu.speed / gain
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


def classical_s(work: ClassicalWork, cpu: CpuColumns, rates: ClassicalRates) -> Array:
    """Seconds of a job on processors, shape (N,): the sum of its parts."""
    return np.asarray(sum(classical_terms(work, cpu, rates).values()), dtype=np.float64)


@dataclasses.dataclass(frozen=True, slots=True)
class GpuColumns(Columns):
    """A GPU as these algorithms see it: `lanes` multiprocessors x clock [1/s], `flops` fp32 [FLOP/s], `bandwidth` [bytes/s], `memory_bytes`, `count`."""

    lanes: Array = column(1e11)
    flops: Array = column(1e13)
    bandwidth: Array = column(1e12)
    memory_bytes: Array = column(0)
    count: Array = column(1)


@dataclasses.dataclass(frozen=True, slots=True)
class GpuRates(Columns):
    """What a library makes of a GPU. `operations_per_lane` random-access operations per multiprocessor and cycle; `row_bytes` that a row's move between nodes takes from memory [bytes]; `flop_fraction` of the peak;
    `region_s` latency of a level of a tree or an iteration [s]; `base_s` context and transfers' fixed part [s]; `host_share` part of the job's setup
    that a processor core does; `transfer_bandwidth` [bytes/s].
    """

    operations_per_lane: Array = column(0.1)
    row_bytes: Array = column(80)
    flop_fraction: Array = column(0.3)
    region_s: Array = column(1e-4)
    base_s: Array = column(0.5)
    transfer_bandwidth: Array = column(1e10)


def gpu_terms(
    work: ClassicalWork, gpu: GpuColumns, rates: GpuRates, *, input_bytes: Array, host_s: Array, sorted_bytes: Array | float = 0.0
) -> dict[str, Array]:
    """Seconds of every part of a job on GPUs [s]. Histogram updates are atomics in shared memory, so their rate goes with multiprocessors x clock,
    not with bandwidth (Mitchell and Frank 2017, Accelerating the XGBoost algorithm using GPU computing); levels come one after the other.

    Rows that move to their node gather gradient, position and bin from scattered addresses, so they wait for the memory.

    `sorted_bytes` (N,) move while categories are sorted; `input_bytes` (N,) cross the host link once; `host_s` (N,) is what the processor does alone (binning, categories). Known error: a factor 1.5.
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
