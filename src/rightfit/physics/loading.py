"""Time to feed the step: bytes read from storage and samples prepared by the host, both
overlapped with the step.

Exposed time is what remains when loading is slower than computing. Text costs next to nothing;
images and audio must be decoded. A path has four stages that work at the same time, so its rate is
that of the slowest: storage, decoding on cores, handing over to the training process (a copy of
every decoded byte), and a decoder on the accelerator where there is one.

Source: accounting; docs/decisions/data-path.md.

Time, memory and disk of preparing data: cores work at a byte rate, disks read and write, some
operations hold all data.

Source: Amdahl 1967; accounting; docs/decisions/classical-ml.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, Columns, column
from rightfit.records import dataclass


def loading_s(*, samples: Array, bytes_per_sample: Array, storage_bytes_per_s: Array, samples_per_core_s: Array, cores: Array) -> Array:
    """Seconds to load the samples of one step on one node: the slower of reading and preparing;
    rates of 0 mean no limit.

    `samples` [samples], `bytes_per_sample` [bytes/sample], `storage_bytes_per_s` [bytes/s],
    `samples_per_core_s` [samples/s], `cores` [cores] -> [s].
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        reading = np.where(storage_bytes_per_s > 0, samples * bytes_per_sample / storage_bytes_per_s, 0.0)
        preparing = np.where(samples_per_core_s * cores > 0, samples / (samples_per_core_s * cores), 0.0)
    return np.maximum(reading, preparing)


def stall_share(*, loading_s: Array, compute_s: Array) -> Array:
    """Share of the wall time that accelerators wait for data: exposed / (compute + exposed); 0
    where nothing runs.

    `loading_s`, `compute_s` [s] of the same work, loaders running ahead -> [1]. A share under 0.2
    is the usual rule.
    """
    wall = np.maximum(loading_s, compute_s)
    return np.divide(wall - compute_s, wall, out=np.zeros(np.broadcast(loading_s, compute_s).shape), where=np.isfinite(wall) & (wall > 0))


def jpeg_decode_s(pixels: Array, *, file_bytes: Array, s_per_pixel: float, s_per_byte: float, core_speed: Array) -> Array:
    """Seconds to decode one JPEG file on one core.

    `pixels` [pixels] of the whole picture, `file_bytes` [bytes], `s_per_pixel` [s] of inverse
    transform, upsampling and colour, which go by pixels, `s_per_byte` [s] of entropy decoding,
    which goes by bytes, `core_speed` [1] of the core against the reference core -> [s]. t = (pixels
    a + bytes b) / speed. Source: the stages of ITU-T T.81 (1992); coefficients measured
    (validation/measure/decode_rates.py). Known error: progressive files take about twice as long;
    photographs of other content change b by about a tenth.
    """
    return np.asarray((pixels * s_per_pixel + file_bytes * s_per_byte) / core_speed, dtype=np.float64)


def usable_cores(workers: Array, *, vcpus: Array, threads_per_core: Array, sibling_share: float) -> Array:
    """Whole cores that `workers` busy processes or threads keep at work on a server.

    `workers` [threads], `vcpus` [threads] of the hardware (0: unknown, one core for each
    worker), `threads_per_core` [threads], `sibling_share` [1] of a core that a second thread on
    a busy one adds -> [cores]. Workers fill cores first: min(w, v / t) + sibling_share x (min(w,
    v) - min(w, v / t)).
    Known error: real schedulers place two threads on one core before all are taken; up to a
    fifth at half load.
    """
    known = np.where(vcpus > 0, vcpus, np.inf)
    busy = np.minimum(workers, known)
    whole = np.minimum(workers, known / threads_per_core)
    return np.asarray(whole + sibling_share * (busy - whole), dtype=np.float64)


def slowest(*rates: Array, sharpness: float) -> Array:
    """Rate of stages that run at the same time: (sum r^-p)^(-1/p), a little under the least because
    stages wait for each other.

    `rates` [1/s], infinite where a stage sets no limit, `sharpness` [1], p: 1 would be one stage
    after the other, infinite a perfect overlap -> [1/s].
    """
    stacked = np.stack(np.broadcast_arrays(*(np.asarray(rate, dtype=np.float64) for rate in rates)))
    with np.errstate(divide="ignore"):
        return np.asarray(np.sum(stacked**-sharpness, axis=0) ** (-1.0 / sharpness), dtype=np.float64)


def volume_bytes_per_s(size_bytes: Array, *, base: Array, per_byte: Array, most: Array, link: Array) -> Array:
    """What a volume of a given size reads in a second: min(base + per_byte x size, most), and no
    more than the server's `link`.

    `size_bytes` [bytes], `base` [bytes/s], `per_byte` [1/s], `most` [bytes/s], `link` [bytes/s],
    infinite for disks inside the server -> [bytes/s].
    Source: the documentation of the providers' volumes (src/rightfit/facts/data/volumes.csv). Known
    error: credits that let small volumes burst are left out.
    """
    return np.asarray(np.minimum(np.minimum(base + per_byte * size_bytes, most), link), dtype=np.float64)


def cached_share(dataset_bytes: Array, *, free_memory_bytes: Array) -> Array:
    """Share of a data set that the page cache still holds when an epoch begins:
    min(1, free / data).

    `dataset_bytes`, `free_memory_bytes` [bytes] -> [1]. Holds for reading in random order; files
    read in one fixed order through a cache that is too small are evicted just before they are
    needed, and nothing is left of them.
    """
    share = np.divide(
        free_memory_bytes, dataset_bytes, out=np.ones(np.broadcast(dataset_bytes, free_memory_bytes).shape), where=dataset_bytes > 0
    )
    return np.clip(share, 0.0, 1.0)


def read_s(num_bytes: Array, *, requests: Array, bytes_per_s: Array, requests_per_s: Array) -> Array:
    """Seconds to read `num_bytes` in `requests` reads: the slower of the byte rate and the request
    rate; rates of 0 mean no limit.

    `num_bytes` [bytes], `requests` [requests], `bytes_per_s` [bytes/s], `requests_per_s`
    [requests/s] -> [s].
    """
    shape = np.broadcast(num_bytes, requests, bytes_per_s, requests_per_s).shape
    by_bytes = np.divide(num_bytes, bytes_per_s, out=np.zeros(shape), where=bytes_per_s > 0)
    by_requests = np.divide(requests, requests_per_s, out=np.zeros(shape), where=requests_per_s > 0)
    return np.asarray(np.maximum(by_bytes, by_requests), dtype=np.float64)


def epochs_s(compute_s: Array, *, epochs: Array, first_loading_s: Array, later_loading_s: Array) -> Array:
    """Wall time of all epochs: each takes the longer of computing and loading.

    `compute_s` [s] of all epochs, `epochs` [1] > 0, a part of one counts as such,
    `first_loading_s`, `later_loading_s` [s] to load one whole epoch, the first time and with
    whatever the server keeps -> [s]. max(c f, L1 f) + max(c r, L2 r) with c = compute / epochs, f =
    min(1, epochs), r = epochs - f. It grows with `compute_s`.
    """
    each, first = compute_s / epochs, np.minimum(1.0, epochs)
    return np.asarray(first * np.maximum(each, first_loading_s) + (epochs - first) * np.maximum(each, later_loading_s), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PreparationWork(Columns):
    """One operation. `input_bytes` as stored and read; `worked_bytes` the bytes that the rate
    counts (stored for files, in memory for tables); `output_bytes` written; `held_bytes` of data
    that must be in memory together (0 = it streams); `passes` over the data.
    """

    input_bytes: Array = column(0, "bytes")
    worked_bytes: Array = column(0, "bytes")
    output_bytes: Array = column(0, "bytes")
    held_bytes: Array = column(0, "bytes")
    passes: Array = column(1, "1")


@dataclass(frozen=True, slots=True)
class PreparationRates(Columns):
    """What a library makes of a core: `core_rate` [bytes/s] of a Skylake core at 3 GHz, `serial`
    share that one thread does, `max_threads` (0 = all), `ram_factor` peak bytes per held byte,
    `thread_bytes` buffers of a thread, `base_bytes` of the process, `spills` 1 = writes what does
    not fit to disk, `spill_passes` extra times that spilled data are written and read, `smt_gain`
    what a second thread adds to a core, `moved_core_rate` bytes that a core at 3 GHz moves over an
    encrypted network while it does nothing else (0 = data lie on a local disk).
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
    """The machine: physical `cores`, hardware `threads`, `speed` against a Skylake core at 3 GHz,
    `memory_bytes`, rates of its disk [bytes/s] (0 = no limit).
    """

    cores: Array = column(1, "cores")
    threads: Array = column(1, "threads")
    speed: Array = column(1, "1")
    memory_bytes: Array = column(0, "bytes")
    read_rate: Array = column(0, "bytes/s")
    write_rate: Array = column(0, "bytes/s")


def working_cores(host: PreparationHosts, rates: PreparationRates) -> Array:
    """Cores' worth of work at once: Amdahl over physical cores, a second thread on a core adding
    `smt_gain` -> [cores].

    Source: Amdahl 1967; accounting; docs/decisions/classical-ml.md.
    """
    threads = np.where(rates.max_threads > 0, np.minimum(host.threads, rates.max_threads), host.threads)
    cores = np.minimum(host.cores, threads)
    worth = cores * (1.0 + rates.smt_gain * np.clip(threads / cores - 1.0, 0.0, 1.0))
    return 1.0 / (rates.serial + (1.0 - rates.serial) / worth)


def peak_ram_bytes(work: PreparationWork, rates: PreparationRates, host: PreparationHosts) -> Array:
    """Memory that the operation wants: process, buffers of threads, and the held data times the
    library's factor -> [bytes].

    Source: Amdahl 1967; accounting; docs/decisions/classical-ml.md.
    """
    threads = np.where(rates.max_threads > 0, np.minimum(host.threads, rates.max_threads), host.threads)
    return rates.base_bytes + threads * rates.thread_bytes + work.held_bytes * rates.ram_factor


def spilled_bytes(work: PreparationWork, rates: PreparationRates, host: PreparationHosts) -> Array:
    """Bytes that go through the disk because memory does not hold them; 0 where the library cannot
    spill (it fails instead).

    -> [bytes].

    Source: Amdahl 1967; accounting; docs/decisions/classical-ml.md.
    """
    over = np.maximum(peak_ram_bytes(work, rates, host) - host.memory_bytes, 0.0)
    return np.where((rates.spills > 0) & (host.memory_bytes > 0), np.minimum(over, work.held_bytes), 0.0)


def preparation_terms(work: PreparationWork, rates: PreparationRates, host: PreparationHosts) -> dict[str, Array]:
    """Seconds of computing, reading and writing, each as if alone; computing overlaps with the
    disk, which reading and writing share.

    Spilled data are written and read `spill_passes` times more. Known error: a factor 2: text and
    tables differ in their columns.

    -> [s] by part.

    Source: Amdahl 1967; accounting; docs/decisions/classical-ml.md.
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
