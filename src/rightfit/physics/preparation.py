"""Time, memory and disk of preparing data: cores work at a byte rate, disks read and write, some operations hold all data.

Source: Amdahl 1967; accounting; docs/decisions/classical-ml.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, Columns, column
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class PreparationWork(Columns):
    """One operation. `input_bytes` as stored and read; `worked_bytes` the bytes that the rate counts (stored for files, in memory for
    tables); `output_bytes` written; `held_bytes` of data that must be in memory together (0 = it streams); `passes` over the data.
    """

    input_bytes: Array = column(0, "bytes")
    worked_bytes: Array = column(0, "bytes")
    output_bytes: Array = column(0, "bytes")
    held_bytes: Array = column(0, "bytes")
    passes: Array = column(1, "1")


@dataclass(frozen=True, slots=True)
class PreparationRates(Columns):
    """What a library makes of a core: `core_rate` [bytes/s] of a Skylake core at 3 GHz, `serial` share that one thread does, `max_threads`
    (0 = all), `ram_factor` peak bytes per held byte, `thread_bytes` buffers of a thread, `base_bytes` of the process, `spills` 1 = writes
    what does not fit to disk, `spill_passes` extra times that spilled data are written and read, `smt_gain` what a second thread adds to a
    core, `moved_core_rate` bytes that a core at 3 GHz moves over an encrypted network while it does nothing else (0 = data lie on a local disk).
    """

    core_rate: Array = column(1, "bytes/s")
    serial: Array = column(0, "1")
    max_threads: Array = column(0, "threads")
    ram_factor: Array = column(2, "1")
    thread_bytes: Array = column(0, "bytes")
    base_bytes: Array = column(0, "bytes")
    spills: Array = column(0, "flag")
    spill_passes: Array = column(1, "1")
    smt_gain: Array = column(0, "1")
    moved_core_rate: Array = column(0, "bytes/s")


@dataclass(frozen=True, slots=True)
class PreparationHosts(Columns):
    """The machine: physical `cores`, hardware `threads`, `speed` against a Skylake core at 3 GHz, `memory_bytes`, rates of its disk
    [bytes/s] (0 = no limit).
    """

    cores: Array = column(1, "cores")
    threads: Array = column(1, "threads")
    speed: Array = column(1, "1")
    memory_bytes: Array = column(0, "bytes")
    read_rate: Array = column(0, "bytes/s")
    write_rate: Array = column(0, "bytes/s")


def working_cores(host: PreparationHosts, rates: PreparationRates) -> Array:
    """Cores' worth of work at once: Amdahl over physical cores, a second thread on a core adding `smt_gain` -> [cores]."""
    threads = np.where(rates.max_threads > 0, np.minimum(host.threads, rates.max_threads), host.threads)
    cores = np.minimum(host.cores, threads)
    worth = cores * (1.0 + rates.smt_gain * np.clip(threads / cores - 1.0, 0.0, 1.0))
    return 1.0 / (rates.serial + (1.0 - rates.serial) / worth)


def peak_ram_bytes(work: PreparationWork, rates: PreparationRates, host: PreparationHosts) -> Array:
    """Memory that the operation wants: process, buffers of threads, and the held data times the library's factor -> [bytes]."""
    threads = np.where(rates.max_threads > 0, np.minimum(host.threads, rates.max_threads), host.threads)
    return rates.base_bytes + threads * rates.thread_bytes + work.held_bytes * rates.ram_factor


def spilled_bytes(work: PreparationWork, rates: PreparationRates, host: PreparationHosts) -> Array:
    """Bytes that go through the disk because memory does not hold them; 0 where the library cannot spill (it fails instead).

    -> [bytes].
    """
    over = np.maximum(peak_ram_bytes(work, rates, host) - host.memory_bytes, 0.0)
    return np.where((rates.spills > 0) & (host.memory_bytes > 0), np.minimum(over, work.held_bytes), 0.0)


def preparation_terms(work: PreparationWork, rates: PreparationRates, host: PreparationHosts) -> dict[str, Array]:
    """Seconds of computing, reading and writing, each as if alone; computing overlaps with the disk,
    which reading and writing share.

    Spilled data are written and read `spill_passes` times more. Known error: a factor 2: text and tables differ in their columns.

    -> [s] by part.
    """
    spilled = spilled_bytes(work, rates, host) * rates.spill_passes
    cores = host.speed * working_cores(host, rates)
    compute = work.worked_bytes * work.passes / (rates.core_rate * cores)
    moved = work.input_bytes * work.passes + work.output_bytes
    compute = compute + np.where(rates.moved_core_rate > 0, moved / (np.maximum(rates.moved_core_rate, 1.0) * cores), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        read = np.where(host.read_rate > 0, (work.input_bytes * work.passes + spilled) / host.read_rate, 0.0)
        write = np.where(host.write_rate > 0, (work.output_bytes + spilled) / host.write_rate, 0.0)
    return {"compute": np.asarray(compute), "read": read, "write": write}
