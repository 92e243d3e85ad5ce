"""Time, memory and disk of preparing data: cores work at a rate of bytes a second, disks read and write, some operations must hold all the data."""

from __future__ import annotations

import dataclasses

import numpy as np

from rightfit.physics.columns import Array, Columns, column


@dataclasses.dataclass(frozen=True, slots=True)
class PreparationWork(Columns):
    """One operation. `input_bytes` as stored and read; `worked_bytes` the bytes that the rate counts (stored for files, in memory for tables);
    `output_bytes` written; `held_bytes` of data that must be in memory together (0 = it streams); `passes` over the data.
    """

    input_bytes: Array = column(0)
    worked_bytes: Array = column(0)
    output_bytes: Array = column(0)
    held_bytes: Array = column(0)
    passes: Array = column(1)


@dataclasses.dataclass(frozen=True, slots=True)
class PreparationRates(Columns):
    """What a library makes of a core: `core_rate` [bytes/s] of a Skylake core at 3 GHz, `serial` share that one thread does, `max_threads` (0 = all),
    `ram_factor` peak bytes per held byte, `thread_bytes` buffers of a thread, `base_bytes` of the process, `spills` 1 = writes what does not fit to disk,
    `spill_passes` extra times that spilled data are written and read, `smt_gain` what a second thread adds to a core.
    """

    core_rate: Array = column(1e8)
    serial: Array = column(0.02)
    max_threads: Array = column(0)
    ram_factor: Array = column(2)
    thread_bytes: Array = column(1e8)
    base_bytes: Array = column(2e8)
    spills: Array = column(0)
    spill_passes: Array = column(1)
    smt_gain: Array = column(0.25)


@dataclasses.dataclass(frozen=True, slots=True)
class HostColumns(Columns):
    """The machine: physical `cores`, hardware `threads`, `speed` against a Skylake core at 3 GHz, `memory_bytes`, rates of its disk [bytes/s] (0 = no limit)."""

    cores: Array = column(1)
    threads: Array = column(1)
    speed: Array = column(1)
    memory_bytes: Array = column(0)
    read_rate: Array = column(0)
    write_rate: Array = column(0)


def working_cores(host: HostColumns, rates: PreparationRates) -> Array:
    """Cores' worth of work at once, shape (N,): Amdahl over physical cores, a second thread on a core adding `smt_gain`."""
    threads = np.where(rates.max_threads > 0, np.minimum(host.threads, rates.max_threads), host.threads)
    cores = np.minimum(host.cores, threads)
    worth = cores * (1.0 + rates.smt_gain * np.clip(threads / cores - 1.0, 0.0, 1.0))
    return 1.0 / (rates.serial + (1.0 - rates.serial) / worth)


def peak_ram_bytes(work: PreparationWork, rates: PreparationRates, host: HostColumns) -> Array:
    """Memory that the operation wants [bytes], shape (N,): process, buffers of threads, and the held data times the library's factor."""
    threads = np.where(rates.max_threads > 0, np.minimum(host.threads, rates.max_threads), host.threads)
    return rates.base_bytes + threads * rates.thread_bytes + work.held_bytes * rates.ram_factor


def spilled_bytes(work: PreparationWork, rates: PreparationRates, host: HostColumns) -> Array:
    """Bytes that go through the disk because memory does not hold them, shape (N,); 0 where the library cannot spill (it fails instead)."""
    over = np.maximum(peak_ram_bytes(work, rates, host) - host.memory_bytes, 0.0)
    return np.where((rates.spills > 0) & (host.memory_bytes > 0), np.minimum(over, work.held_bytes), 0.0)


def preparation_terms(work: PreparationWork, rates: PreparationRates, host: HostColumns) -> dict[str, Array]:
    """Seconds of computing, reading and writing [s], each as if alone; they overlap, so the time is the largest (`preparation_s`).

    Spilled data are written and read `spill_passes` times more. Known error: a factor 2: text and tables differ in their columns.
    """
    spilled = spilled_bytes(work, rates, host) * rates.spill_passes
    compute = work.worked_bytes * work.passes / (rates.core_rate * host.speed * working_cores(host, rates))
    with np.errstate(divide="ignore", invalid="ignore"):
        read = np.where(host.read_rate > 0, (work.input_bytes * work.passes + spilled) / host.read_rate, 0.0)
        write = np.where(host.write_rate > 0, (work.output_bytes + spilled) / host.write_rate, 0.0)
    return {"compute": np.asarray(compute), "read": read, "write": write}


def preparation_s(work: PreparationWork, rates: PreparationRates, host: HostColumns) -> Array:
    """Seconds of one operation, shape (N,): computing overlaps with the disk, reads and writes share it."""
    terms = preparation_terms(work, rates, host)
    return np.maximum(terms["compute"], terms["read"] + terms["write"])
