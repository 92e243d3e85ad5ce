"""What a job takes on every server: time, RAM, GPU memory, disks, by (server, number of servers);
terms that add up to each."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.classical import gpu_memory, job_columns, ram_terms, time_terms, total
from rightfit.estimation.classical_rates import ClassicalKinds, card_figures, coefficients, cpu_columns
from rightfit.estimation.data_path import HostColumns as DiskColumns
from rightfit.estimation.data_path import common_volume, object_rate, volume_steps
from rightfit.estimation.figures import PROBABILITIES, classical_interval_group, group_interval
from rightfit.facts.machines import host_processor, processor_words
from rightfit.families.tables.wish import PREPARE, SCORE, TableRequest
from rightfit.market.offers import ServerTable
from rightfit.physics import loading
from rightfit.physics.classical import CpuColumns, GpuColumns
from rightfit.physics.columns import Array
from rightfit.physics.loading import PreparationHosts, PreparationRates, PreparationWork, peak_ram_bytes, preparation_terms, spilled_bytes
from rightfit.records import dataclass
from rightfit.search.classical_wish import usual
from rightfit.search.offers import hosts_of, known_host_bytes

if TYPE_CHECKING:
    from rightfit.estimation.classical import ClassicalTask


# ---- Servers as classical machine learning and data preparation see them: processors, RAM, disks,
# network, and the GPUs that its libraries run on.
#
# Everything is by server (S,), whatever its price; thousands of servers are a few array operations,
# because the physics takes columns.

Mask = NDArray[np.bool_]

#: Compute capability from which RAPIDS runs (Volta), and the boosting libraries (Maxwell).
RAPIDS_CAPABILITY, BOOSTING_CAPABILITY = 7.0, 5.0


@dataclass(frozen=True, slots=True)
class HostServers:
    """Servers under one another. `ram_bytes`: what a job may fill; `gpu`: one GPU of each
    (any figures where there is none); `gpus`: how many whole ones it has; `capability` of
    CUDA (0: none); `disk_rate` of its local disks [byte/s]; `store_rate` from an object store
    [byte/s]; `usual_network` what so many vCPUs are given where no bandwidth is stated, else
    no bound [byte/s]."""

    cpu: CpuColumns
    gpu: GpuColumns
    gpus: Array
    capability: Array
    ram_bytes: Array
    local_bytes: Array
    disk_rate: Array
    store_rate: Array
    usual_network: Array
    is_burstable: Mask
    has_cpus: Mask
    has_card: Mask
    disks: DiskColumns

    def __len__(self) -> int:
        return int(self.ram_bytes.shape[0])


@functools.lru_cache(maxsize=8)
def host_servers(servers: ServerTable) -> HostServers:
    """The servers of a market; a table is hashed by identity, so the last few are remembered."""
    told = zip(servers.provider, servers.cpu_model, servers.instance_type, servers.arch, strict=True)
    processors = [host_processor(processor_words(*row)) for row in told]
    vcpus = np.nan_to_num(servers.vcpus)
    memory = known_host_bytes(servers)
    cpu = cpu_columns(processors, vcpus=np.maximum(vcpus, 1.0), memory_bytes=memory)
    gpu, capability = _gpus(servers)
    disks = hosts_of(servers)
    local = common_volume("local")
    whole = np.where(servers.num_accelerators == np.floor(servers.num_accelerators), servers.num_accelerators, 0.0)
    rate = loading.volume_bytes_per_s(
        disks.local_nvme_bytes,
        base=np.array(local.base_bytes_per_s),
        per_byte=np.array(local.bytes_per_s_per_byte),
        most=np.array(local.most_bytes_per_s),
        link=np.array(np.inf),
    )
    return HostServers(
        cpu=cpu,
        gpu=gpu,
        gpus=np.where(capability > 0, whole, 0.0),
        capability=capability,
        ram_bytes=np.maximum(memory - usual()["system_bytes"], 0.0),
        local_bytes=disks.local_nvme_bytes,
        disk_rate=rate,
        store_rate=object_rate(disks),
        usual_network=_usual_network(servers),
        is_burstable=np.array([category == "burstable" for category in servers.category], dtype=np.bool_),
        has_cpus=vcpus >= 1.0,
        has_card=servers.num_accelerators > 0,
        disks=disks,
    )


def _usual_network(servers: ServerTable) -> Array:
    """Bytes/s that a server's vCPUs are usually given where nobody states its bandwidth; infinite
    where somebody does."""
    stated = np.nan_to_num(servers.network_bytes_per_s) > 0
    each = facts.coefficients("preparation")["network_bytes_per_s_per_vcpu"] * np.maximum(np.nan_to_num(servers.vcpus), 1.0)
    return np.where(stated, np.inf, each)


def _gpus(servers: ServerTable) -> tuple[GpuColumns, Array]:
    """One GPU of each server, and its CUDA compute capability; 0 where there is none that
    these libraries know."""
    known = {name: _gpu(name) for name in set(servers.accelerator_name)}
    table = np.array([known[name] for name in servers.accelerator_name], dtype=np.float64).reshape(-1, 5)
    gpu = GpuColumns(lanes=table[:, 0], flops=table[:, 1], bandwidth=table[:, 2], memory_bytes=table[:, 3], count=np.ones(table.shape[0]))
    return gpu, table[:, 4]


@functools.cache
def _gpu(name: str) -> tuple[float, float, float, float, float]:
    """(multiprocessors x clock, FLOP/s, bandwidth, memory, compute capability); ones and no
    capability for what is no NVIDIA GPU."""
    record = facts.accelerators().get(name)
    if record is None or record.vendor != "NVIDIA" or min(record.fp32_flops, record.memory_bandwidth) <= 0:
        return 1.0, 1.0, 1.0, 1.0, 0.0
    found = card_figures(record)
    return found.lanes, found.flops, found.bandwidth, found.memory_bytes, float(record.compute_capability)


STREAMED = ("", "stream")
KEPT_IN_RAM = ("stream", "memory")
RAPIDS = ("cuml",)


@dataclass(frozen=True, slots=True)
class HostWork:
    """By (server, number of servers), shape (S, J), where nothing else is said.

    `work_s`: work, as if it fitted; `fits`: whether it does; `ram_bytes` the expected peak,
    `ram_needed_bytes` with the margin; `card_bytes`, `card_needed_bytes` and `card_capacity_bytes`
    (S,) of GPU memory, `cards` (S,) GPUs in use; `stored_bytes` on rented volumes of all servers,
    `price_factor` of theirs, `staging_s`; `spilled_bytes`; `disk_bytes` that each server keeps, on
    whatever disk.
    """

    work_s: Array
    fits: Mask
    ram_bytes: Array
    ram_needed_bytes: Array
    card_bytes: Array
    card_needed_bytes: Array
    card_capacity_bytes: Array
    cards: Array
    on_gpu: Mask
    missing: tuple[str, ...]
    stored_bytes: Array
    price_factor: Array
    staging_s: Array
    spilled_bytes: Array
    disk_bytes: Array
    time_terms: Mapping[str, Array]
    memory_terms: Mapping[str, Array]

    @property
    def run_s(self) -> Array:
        """Seconds of work, infinite where it does not fit."""
        return np.where(self.fits, self.work_s, np.inf)

    @property
    def able(self) -> Mask:
        """Servers that can run the job at all."""
        return np.array([not reason for reason in self.missing], dtype=np.bool_)

    @property
    def fits_card(self) -> Mask:
        """Whether GPU memory holds it; true where no GPU works."""
        return ~self.on_gpu | (self.card_needed_bytes <= self.card_capacity_bytes)


def upper(group: str, mid: Array, doubts: float) -> Array:
    """Upper end of the 80 % interval: what must be there for a certainty of 90 %."""
    return group_interval(group, mid, doubts=np.full(1, doubts)).high80


def surely_needed(group: str, mid: Array, doubts: float) -> Array:
    """What must be there for a fit to be sure, by the law of `probability_within`."""
    one = group_interval(group, np.ones(1), doubts=np.full(1, doubts))
    ends = np.log([one.high80[0], one.high95[0]])
    return np.asarray(mid * np.exp(np.interp(facts.coefficients("planning")["memory_told_probability"], PROBABILITIES[2:], ends)))


def probability_within(group: str, mid: float, limit: float, doubts: float) -> float:
    """Probability that a figure stays within a limit; between the stored quantiles linear in the
    logarithm, exponential tails beyond."""
    if not (mid > 0 and limit > 0):
        return 0.0
    one = group_interval(group, np.ones(1), doubts=np.full(1, doubts))
    quantiles = np.log(np.concatenate([one.low95, one.low80, one.high80, one.high95]))
    z, p = float(np.log(limit / mid)), np.array(PROBABILITIES)
    if z < quantiles[0]:
        rate = np.log(p[1] / p[0]) / max(quantiles[1] - quantiles[0], 1e-9)
        return float(p[0] * np.exp(rate * (z - quantiles[0])))
    if z > quantiles[-1]:
        rate = np.log((1 - p[-2]) / (1 - p[-1])) / max(quantiles[-1] - quantiles[-2], 1e-9)
        return float(1.0 - (1 - p[-1]) * np.exp(-rate * (z - quantiles[-1])))
    return float(np.interp(z, [*quantiles[:2], 0.0, *quantiles[2:]], [*p[:2], 0.5, *p[2:]]))


def time_group(wish: TableRequest, *, on_gpu: bool) -> str:
    """Group of intervals of the job's time."""
    if wish.job == PREPARE:
        return "prepare"
    return classical_interval_group("predict_time_s" if wish.job == SCORE else "train_time_s", gpu=on_gpu)


def memory_group(wish: TableRequest) -> str:
    """Group of intervals of the job's RAM."""
    library = wish.preparation.library if wish.preparation else wish.task.library
    return classical_interval_group("peak_ram_gib", gpu=False, library=library)


# ---- classical machine learning


def classical_work(wish: TableRequest, servers: HostServers, *, any_server: bool) -> HostWork:
    """One algorithm on every server: on its GPU where a library runs there, else
    on its processors."""
    count = len(servers)
    on_gpu = gpu_users(wish, servers)
    missing = _missing(wish, servers, on_gpu, any_server=any_server)
    seconds: dict[str, Array] = {"start": np.zeros(count)}
    memory: dict[str, Array] = {"runtime": np.zeros(count)}
    card = np.zeros(count)
    cards = np.zeros(count)
    for task, rows in ((wish.on_cpu, ~on_gpu), (wish.on_gpu, on_gpu)):
        if task is None or not rows.any():
            continue
        job, kinds, values = job_columns([task]), ClassicalKinds([task.kind]), coefficients()
        gpu = None
        if rows is on_gpu:
            card = np.where(on_gpu, gpu_memory(job, kinds, values), 0.0)
            one = servers.gpu.memory_bytes
            cards = np.where(on_gpu, np.where(upper("memory", card, wish.doubts) <= one, 1.0, np.maximum(servers.gpus, 1.0)), 0.0)
            gpu = servers.gpu.replace(count=np.maximum(cards, 1.0))
        flags = None if gpu is None else np.ones(count)
        _fill(seconds, time_terms(job, kinds, servers.cpu, values, gpu=gpu, on_gpu=flags), rows)
        _fill(memory, ram_terms(job, kinds, servers.cpu.threads, values), rows)
    ram = total(memory)
    needed = upper(memory_group(wish), ram, wish.doubts)
    card_needed = upper("memory", card, wish.doubts)
    capacity = servers.gpu.memory_bytes * np.maximum(cards, 1.0)
    able = np.array([not reason for reason in missing], dtype=np.bool_)
    fits = able & (needed <= servers.ram_bytes) & (~on_gpu | (card_needed <= capacity))
    storage = wish.workload.storage or ""
    stored, factor, rate = volumes_of(servers, np.full(count, wish.data_bytes), storage, kept=KEPT_IN_RAM)
    kept = np.broadcast_to(memory.get("model", np.zeros(1)), (count,)) + (wish.data_bytes if storage not in KEPT_IN_RAM else 0.0)
    staging = wish.data_bytes / np.minimum(servers.store_rate, np.where(stored > 0, rate, np.inf))
    return HostWork(
        work_s=total(seconds)[:, None],
        fits=np.asarray(fits, dtype=np.bool_)[:, None],
        ram_bytes=ram[:, None],
        ram_needed_bytes=needed[:, None],
        card_bytes=card,
        card_needed_bytes=card_needed,
        card_capacity_bytes=capacity,
        cards=cards,
        on_gpu=on_gpu,
        missing=missing,
        stored_bytes=stored[:, None],
        price_factor=factor[:, None],
        staging_s=staging[:, None],
        spilled_bytes=np.zeros((count, 1)),
        disk_bytes=kept[:, None],
        time_terms={name: value[:, None] for name, value in seconds.items()},
        memory_terms={name: value[:, None] for name, value in memory.items()},
    )


def _fill(into: dict[str, Array], terms: Mapping[str, Array], rows: Mask) -> None:
    """Write the rows of one kind of server into terms of all."""
    for name, value in terms.items():
        into[name] = np.where(rows, np.broadcast_to(value, rows.shape), into.get(name, np.zeros(rows.shape)))


def gpu_users(wish: TableRequest, servers: HostServers) -> Mask:
    """Servers whose GPU does the work."""
    if wish.on_gpu is None:
        return np.zeros(len(servers), dtype=np.bool_)
    return np.asarray((servers.gpus > 0) & (servers.capability >= least_capability(wish.on_gpu)))


def least_capability(task: ClassicalTask) -> float:
    """CUDA compute capability from which the library runs."""
    return RAPIDS_CAPABILITY if task.library in RAPIDS else BOOSTING_CAPABILITY


def _missing(wish: TableRequest, servers: HostServers, on_gpu: Mask, *, any_server: bool) -> tuple[str, ...]:
    """What each server lacks to run the job; empty where nothing."""
    lacks = np.full(len(servers), "", dtype=object)
    if wish.job != PREPARE and wish.on_cpu is None:
        lacks[~on_gpu] = "gpu_library"
    elif wish.workload.gpu and wish.job != PREPARE:
        lacks[~on_gpu & servers.has_card] = "gpu_library"
    if not any_server:
        lacks[servers.is_burstable] = "burstable"
    lacks[~servers.has_cpus] = "processors"
    return tuple(lacks.tolist())


# ---- data preparation


def is_divisible(wish: TableRequest) -> bool:
    """Whether several servers can share the operation: files and documents pass one by one, or
    Spark spreads what must be held."""
    task = wish.preparation
    return task is not None and (task.held_bytes == 0 or task.library == "spark")


def preparation_work(wish: TableRequest, servers: HostServers, nodes: Array, *, any_server: bool) -> HostWork:
    """One operation on every server and number of servers, each taking its share of the data."""
    parts = [_preparation_part(wish, servers, float(count)) for count in nodes]
    missing = _missing(wish, servers, np.zeros(len(servers), dtype=np.bool_), any_server=any_server)
    able = np.array([not reason for reason in missing], dtype=np.bool_)[:, None]
    stacked = {name: np.stack([part[name] for part in parts], axis=1) for name in parts[0]}
    zero = np.zeros(len(servers))
    return HostWork(
        work_s=stacked["work"] + stacked["disk"],
        fits=np.asarray(able & (stacked["fits"] > 0)),
        ram_bytes=stacked["ram"],
        ram_needed_bytes=stacked["needed"],
        card_bytes=zero,
        card_needed_bytes=zero,
        card_capacity_bytes=zero,
        cards=zero,
        on_gpu=np.zeros(len(servers), dtype=np.bool_),
        missing=missing,
        stored_bytes=stacked["stored"] * nodes[None, :],
        price_factor=stacked["factor"],
        staging_s=stacked["staging"],
        spilled_bytes=stacked["spilled"],
        disk_bytes=stacked["size"],
        time_terms={name: stacked[name] for name in ("work", "disk")},
        memory_terms={name: stacked[name] for name in ("runtime", "threads", "data")},
    )


def _preparation_part(wish: TableRequest, servers: HostServers, nodes: float) -> dict[str, Array]:
    """One server's share of an operation, (S,) each."""
    work, rates = shares(wish, nodes)
    rates = rates.replace(moved_core_rate=np.array([facts.coefficients("preparation")["moved_core_rate"]]))
    cpu, storage = servers.cpu, wish.workload.storage or ""
    store_rate = np.minimum(servers.store_rate, servers.usual_network)
    host = PreparationHosts(
        cores=cpu.cores,
        threads=_workers(cpu.threads, wish.workload.workers),
        speed=cpu.speed,
        memory_bytes=servers.ram_bytes,
        read_rate=store_rate,
        write_rate=store_rate,
    )
    shape = (len(servers),)
    spilled = np.broadcast_to(spilled_bytes(work, rates, host), shape)
    copied = storage not in STREAMED and storage != "memory"
    kept = work.input_bytes + work.output_bytes if copied else np.zeros(1)
    size = np.broadcast_to(spilled + kept, shape)
    stored, factor, rate = volumes_of(servers, size, storage, kept=())
    slow = np.where(size > 0, np.minimum(store_rate, rate), store_rate)
    host = host.replace(read_rate=np.where(copied, rate, slow), write_rate=np.where(copied, rate, slow))
    terms = preparation_terms(work, rates, host)
    wanted = np.broadcast_to(peak_ram_bytes(work, rates, host), shape) - spilled
    needed = upper(memory_group(wish), wanted, wish.doubts)
    threads = np.broadcast_to(peak_ram_bytes(work.replace(held_bytes=np.zeros(1)), rates, host) - rates.base_bytes, shape)
    least = upper(memory_group(wish), threads + rates.base_bytes, wish.doubts)  # what cannot go through the disk
    spills = (spilled > 0) & (least <= servers.ram_bytes)
    fits = (needed <= servers.ram_bytes) | spills
    filled = facts.coefficients("preparation")["spill_share"] * servers.ram_bytes
    peak = np.where(spills, np.minimum(wanted, np.maximum(filled, least)), wanted)  # a library that spills fills what it is given
    compute = np.broadcast_to(terms["compute"], shape)
    return {
        "work": compute,
        "disk": np.maximum(np.broadcast_to(terms["read"] + terms["write"], shape) - compute, 0.0),
        "ram": peak,
        "needed": np.where(spills, np.minimum(needed, servers.ram_bytes), np.where(spilled > 0, least, needed)),
        "spilled": spilled,
        "runtime": np.broadcast_to(np.minimum(rates.base_bytes, peak), shape),
        "threads": np.minimum(threads, np.maximum(peak - rates.base_bytes, 0.0)),
        "data": np.maximum(peak - rates.base_bytes - threads, 0.0),
        "stored": stored,
        "size": size,
        "factor": factor,
        "staging": np.broadcast_to(kept / np.minimum(store_rate, rate), shape),
        "fits": fits.astype(np.float64),
    }


def shares(wish: TableRequest, nodes: float) -> tuple[PreparationWork, PreparationRates]:
    """Work of one of so many servers, and what the library makes of a core."""
    from rightfit.estimation.preparation import rates_of, work_of

    task = wish.preparation
    assert task is not None
    names = ("input_bytes", "worked_bytes", "output_bytes", "held_bytes")
    part = dataclasses.replace(task, **{name: getattr(task, name) / nodes for name in names})
    return work_of(part), rates_of(part)


def _workers(threads: Array, asked: int | None) -> Array:
    return threads if asked is None else np.minimum(threads, float(asked))


# ---- disks


def volumes_of(servers: HostServers, size_bytes: Array, storage: str, *, kept: tuple[str, ...]) -> tuple[Array, Array, Array]:
    """Bytes on rented volumes, their price over that of the default volume, and the rate of
    whatever disk is used, (S,) each.

    Local disks that are large enough come first unless a volume is asked for by name; `kept`: words
    of `storage` that need no disk.
    """
    count = len(servers)
    if storage in kept or not (size_bytes > 0).any():
        return np.zeros(count), np.ones(count), np.full(count, np.inf)
    local = (servers.local_bytes >= size_bytes) & (storage in ("", "local", "stream"))
    factor, rate = np.ones(count), np.empty(count)
    largest = float(size_bytes.max())
    for code, provider in enumerate(servers.disks.providers):
        rows = servers.disks.provider_code == code
        step = _step(provider, largest, storage)
        factor[rows], rate[rows] = step
    rate = np.where(local, servers.disk_rate, np.minimum(rate, servers.disks.network_bytes_per_s))
    return np.where(local | (size_bytes <= 0), 0.0, size_bytes), np.where(local, 1.0, factor), rate


@functools.lru_cache(maxsize=1024)
def _step(provider: str, size_bytes: float, storage: str) -> tuple[float, float]:
    """Price factor and rate of the volume asked for, else of the cheapest of a provider."""
    steps = volume_steps(provider, size_bytes, storage)
    return steps[0].price_factor, steps[0].bytes_per_s
