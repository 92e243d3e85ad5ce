"""The data path of a training run on every server at once: where the data lie, how fast they come,
and how long accelerators wait for them.

Data are copied to the server first (to its memory, its local disks or a network volume) or streamed
from the object store while the run goes on. After that an epoch takes the longer of computing and
loading, and loading is the slower of reading and preparing. Every result grows with the compute
time of the run, so the fastest setup of a server stays the one to take.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.facts.machines import core_named
from rightfit.physics import loading
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.units import GB, MB

# ---- What servers bring to the data path: cores and their speed, memory, disks and volumes.

NETWORK_KINDS = ("block", "file")
LEVELS_MB_PER_S = (250.0, 500.0, 750.0, 1000.0, 1200.0, 2000.0, 2400.0, 4000.0)


@dataclass(frozen=True, slots=True)
class DiskVolume:
    """A kind of disk as facts/data/volumes.csv describes it; rates in byte/s and 1/s,
    prices in USD a month."""

    name: str
    kind: str
    base_bytes_per_s: float
    bytes_per_s_per_byte: float
    most_bytes_per_s: float
    provisioned_bytes_per_s: float
    requests_per_s: float
    requests_per_s_per_byte: float
    most_requests_per_s: float
    least_bytes: float
    usd_per_gb_month: float
    usd_per_mb_per_s_month: float
    price_key: str
    source: str


@functools.cache
def volumes() -> dict[str, tuple[DiskVolume, ...]]:
    """Volumes by provider, the one that is mounted by default first; "*" holds what every server
    has and the volume of clouds not described."""
    found: dict[str, list[DiskVolume]] = {}
    for row in facts.table("volumes"):
        found.setdefault(row["provider"], []).append(_volume(row))
    return {provider: tuple(kinds) for provider, kinds in found.items()}


def _volume(row: dict[str, str]) -> DiskVolume:
    return DiskVolume(
        name=row["volume"],
        kind=row["kind"],
        base_bytes_per_s=float(row["base_mb_per_s"]) * MB,
        bytes_per_s_per_byte=float(row["mb_per_s_per_gb"]) * MB / GB,
        most_bytes_per_s=float(row["max_mb_per_s"]) * MB,
        provisioned_bytes_per_s=float(row["provisioned_mb_per_s"]) * MB,
        requests_per_s=float(row["base_iops"]),
        requests_per_s_per_byte=float(row["iops_per_gb"]) / GB,
        most_requests_per_s=float(row["max_iops"]),
        least_bytes=float(row["least_gb"]) * GB,
        usd_per_gb_month=float(row["usd_per_gb_month"]),
        usd_per_mb_per_s_month=float(row["usd_per_mb_per_s_month"]),
        price_key=row["price_key"],
        source=row["source"],
    )


def network_volumes(provider: str) -> tuple[DiskVolume, ...]:
    """The volumes that a provider's servers mount, the default first."""
    own = tuple(volume for volume in volumes().get(provider, ()) if volume.kind in NETWORK_KINDS)
    return own or tuple(volume for volume in volumes()["*"] if volume.kind in NETWORK_KINDS)


def common_volume(kind: str) -> DiskVolume:
    """What every provider has: local, object, ram."""
    return next(volume for volume in volumes()["*"] if volume.kind == kind)


@dataclass(frozen=True, slots=True)
class VolumeStep:
    """One way to buy a volume of a given size: what it reads, and its price over that of the
    provider's default volume of the same size."""

    volume: DiskVolume
    bytes_per_s: float
    requests_per_s: float
    usd_per_month: float
    price_factor: float


@functools.lru_cache(maxsize=256)
def volume_steps(provider: str, size_bytes: float, name: str = "") -> tuple[VolumeStep, ...]:
    """Ways to buy a volume of `size_bytes`, cheapest first, each faster than the one before; only
    `name` where the provider has it."""
    kinds = network_volumes(provider)
    named = tuple(volume for volume in kinds if volume.name == name)
    usual = size_bytes / GB * kinds[0].usd_per_gb_month
    steps = [step for volume in named or kinds for step in _steps_of(volume, size_bytes, usual)]
    steps.sort(key=lambda step: (step.usd_per_month, -step.bytes_per_s))
    kept: list[VolumeStep] = []
    for step in steps:
        if not kept or step.bytes_per_s > kept[-1].bytes_per_s:
            kept.append(step)
    return tuple(kept)


def _steps_of(volume: DiskVolume, size_bytes: float, usual_usd: float) -> list[VolumeStep]:
    size = max(size_bytes, volume.least_bytes)
    included = min(volume.base_bytes_per_s + volume.bytes_per_s_per_byte * size, volume.most_bytes_per_s)
    requests = min(volume.requests_per_s + volume.requests_per_s_per_byte * size, volume.most_requests_per_s)
    bought = [level * MB for level in LEVELS_MB_PER_S if included < level * MB <= volume.provisioned_bytes_per_s]
    steps = []
    for rate in ([included] if included > 0 else []) + bought:
        usd = size / GB * volume.usd_per_gb_month + max(rate - included, 0.0) / MB * volume.usd_per_mb_per_s_month
        steps.append(VolumeStep(volume, rate, requests, usd, usd / usual_usd if usual_usd else 1.0))
    return steps


@dataclass(frozen=True, slots=True)
class HostColumns:
    """Servers, one row each: NaN where unknown. `provider_code` points into `providers`; `vcpus`:
    usual ones of so many accelerators where the seller states none."""

    providers: tuple[str, ...]
    provider_code: NDArray[np.intp]
    vcpus: Array
    memory_bytes: Array
    local_nvme_bytes: Array
    network_bytes_per_s: Array
    accelerators: Array
    core_speed: Array
    threads_per_core: Array

    def __len__(self) -> int:
        return int(self.vcpus.shape[0])


def usual_vcpus(accelerators: Array) -> Array:
    """vCPUs taken for a server whose seller states none, by its number of accelerators: few rather
    than many, so that silence never wins."""
    return np.asarray(facts.coefficients("loading")["usual_vcpus_per_accelerator"] * accelerators)


def host_columns(
    *,
    provider: Sequence[str],
    instance_type: Sequence[str],
    cpu_model: Sequence[str],
    arch: Sequence[str],
    vcpus: Array,
    memory_bytes: Array,
    local_nvme_bytes: Array,
    network_bytes_per_s: Array,
    accelerators: Array,
) -> HostColumns:
    """Servers as the catalog lists them; the processor follows from its name, else from the server
    type's, else it is a usual one."""
    providers = tuple(dict.fromkeys(provider))
    code = {name: number for number, name in enumerate(providers)}
    words = zip(cpu_model, instance_type, arch, strict=True)
    cards = np.maximum(np.nan_to_num(accelerators), 1.0)
    cores = [core_named(model if model else f"{kind} {'arm64' if machine == 'arm64' else ''}") for model, kind, machine in words]
    return HostColumns(
        providers=providers,
        provider_code=np.array([code[name] for name in provider], dtype=np.intp),
        vcpus=np.where(np.nan_to_num(vcpus) > 0, vcpus, usual_vcpus(cards)),
        memory_bytes=memory_bytes,
        local_nvme_bytes=np.nan_to_num(local_nvme_bytes),
        network_bytes_per_s=np.where(np.nan_to_num(network_bytes_per_s) > 0, network_bytes_per_s, np.inf),
        accelerators=cards,
        core_speed=np.array([core.speed for core in cores]),
        threads_per_core=np.array([core.threads for core in cores]),
    )


Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

NEVER = -1
ANYWHERE = ("", "local", "stream", "memory")


class Staging(enum.IntEnum):
    """Where training reads from."""

    VOLUME = 0
    LOCAL = 1
    MEMORY = 2
    STREAM = 3


@dataclass(frozen=True, slots=True)
class DataLoad:
    """What has to be loaded. Bytes and samples are of one epoch; `core_s` [s x GHz] prepares one
    sample on one core of speed 1.

    `reads_per_sample`: requests to storage for one sample. `storage`: volume asked for ("stream",
    "local", "memory" or a volume's name;
    empty: chosen).
    `workers`: loader processes for each accelerator (0: as many as there are cores).
    """

    dataset_bytes: float
    samples: float
    epochs: float
    core_s: float
    reads_per_sample: float
    weights_bytes: float = 0.0
    decode: str = "tokenized"
    storage: str = ""
    workers: int = 0

    @property
    def node_bytes(self) -> float:
        """What one server keeps: the model to start from and the data."""
        return self.weights_bytes + self.dataset_bytes


@dataclass(frozen=True, slots=True)
class DataPath:
    """The data path by (server, node count), shape (S, J).

    `run_s`: compute and waiting together; `staging_s`: before the first step. `staging`: a Staging
    code. `step`: position in volume_steps of the provider, -1 where no network volume is read.
    `stored_bytes`: on volumes of all nodes; `price_factor`: of the volume over the default one.
    `first_s`, `later_s`: seconds to load one epoch. `read_s`, `prepare_s`: what a later epoch
    spends reading and preparing.
    """

    run_s: Array
    staging_s: Array
    staging: Index
    step: Index
    stored_bytes: Array
    price_factor: Array
    first_s: Array
    later_s: Array
    read_s: Array
    prepare_s: Array
    compute_s: Array
    disk_bytes_per_s: Array
    cores: Array
    cached: Array


def object_rate(hosts: HostColumns) -> Array:
    """What each server gets from an object store of its region [byte/s], shape (S,)."""
    usual, store = facts.coefficients("loading"), common_volume("object")
    rate = min(usual["object_bytes_per_s_per_connection"] * usual["object_connections"], store.most_bytes_per_s)
    return np.minimum(rate, hosts.network_bytes_per_s)


def loader_cores(load: DataLoad, hosts: HostColumns) -> Array:
    """Cores that prepare data on each server, shape (S, 1): what its training processes leave, or
    what the wanted workers keep busy."""
    usual = facts.coefficients("loading")
    taken = usual["host_cores_per_accelerator"] * hosts.accelerators
    free = np.maximum(hosts.vcpus - taken * hosts.threads_per_core, np.minimum(1.0, hosts.vcpus))
    workers = np.minimum(load.workers * hosts.accelerators, free) if load.workers else free
    return loading.usable_cores(workers, vcpus=free, threads_per_core=hosts.threads_per_core, sibling_share=usual["sibling_share"])[:, None]


def free_memory(hosts: HostColumns, needed_bytes: Array) -> Array:
    """Memory that may hold data [byte], shape (S, J): a part of what the job leaves; none where the
    server's memory is unknown."""
    left = np.nan_to_num(hosts.memory_bytes)[:, None] - np.where(np.isfinite(needed_bytes), needed_bytes, 0.0)
    return np.asarray(np.maximum(left, 0.0) * facts.coefficients("loading")["free_memory_share"])


def choose_volumes(load: DataLoad, hosts: HostColumns, needed_bytes_per_s: Array) -> tuple[Index, Array, Array, Array]:
    """For every (server, node count) the cheapest volume that reads as fast as needed, else the
    fastest: its step, bytes/s, requests/s, price factor."""
    shape = needed_bytes_per_s.shape
    chosen = np.zeros(shape, dtype=np.intp)
    rate, requests, factor = np.empty(shape), np.empty(shape), np.empty(shape)
    for code, provider in enumerate(hosts.providers):
        rows = np.flatnonzero(hosts.provider_code == code)
        steps = volume_steps(provider, load.node_bytes, load.storage)
        rates = np.array([step.bytes_per_s for step in steps])
        pick = np.minimum(np.searchsorted(rates, needed_bytes_per_s[rows] * (1 - 1e-12)), len(steps) - 1)
        chosen[rows] = pick
        for out, values in ((rate, rates), (requests, _of(steps, "requests_per_s")), (factor, _of(steps, "price_factor"))):
            out[rows] = values[pick]
    return chosen, np.minimum(rate, hosts.network_bytes_per_s[:, None]), requests, factor


def _of(steps: tuple[VolumeStep, ...], name: str) -> Array:
    return np.array([getattr(step, name) for step in steps])


def data_path(load: DataLoad, hosts: HostColumns, *, run_s: Array, nodes: Array, needed_memory_bytes: Array) -> DataPath:
    """The data path of a run of `run_s` seconds of pure computing, shape (S, J), on `nodes` servers
    (J,), that needs `needed_memory_bytes` (S, J or 1)."""
    usual = facts.coefficients("loading")
    runs = np.isfinite(run_s)
    compute = np.where(runs, run_s, 0.0)
    share_bytes = load.dataset_bytes / nodes[None, :]
    free = free_memory(hosts, needed_memory_bytes)
    cached = loading.cached_share(np.array([[load.dataset_bytes]]), free_memory_bytes=free)
    cores = loader_cores(load, hosts)
    prepare = load.samples * load.core_s / nodes[None, :] / (hosts.core_speed[:, None] * cores)
    uncached = np.broadcast_to((1.0 - cached) * share_bytes, run_s.shape)
    allowed_s = np.maximum(compute / load.epochs, prepare) / (1.0 - usual["least_stall_share"])
    step, rate, requests, factor = choose_volumes(load, hosts, uncached / np.maximum(allowed_s, 1e-9))
    local_rate = common_volume("local")
    nvme = np.where(load.storage in ANYWHERE, hosts.local_nvme_bytes, 0.0)[:, None]  # a volume asked for by name is rented beside the disks
    has_local = nvme >= max(load.node_bytes, 1.0)
    disk = np.where(has_local, _local_rate(hosts)[:, None], rate)
    served = np.where(has_local, local_rate.most_requests_per_s, requests)
    reads = load.reads_per_sample * load.samples / nodes[None, :] * (1.0 - cached)
    read = loading.read_s(uncached, requests=reads, bytes_per_s=disk, requests_per_s=served)
    from_store = object_rate(hosts)[:, None]
    copy_s = load.dataset_bytes / np.where(cached >= 1.0, from_store, np.minimum(from_store, disk))
    later = np.maximum(read, prepare)
    copied_s = loading.epochs_s(compute, epochs=np.array(load.epochs), first_loading_s=later, later_loading_s=later)
    first_stream = np.maximum(share_bytes / from_store, prepare)
    later_stream = np.where(nodes[None, :] == 1, later, first_stream)
    streamed_s = loading.epochs_s(compute, epochs=np.array(load.epochs), first_loading_s=first_stream, later_loading_s=later_stream)
    stream = copy_s + copied_s > (1.0 + usual["streaming_gain"]) * streamed_s
    if load.storage:
        stream = np.full(run_s.shape, load.storage == "stream")
    in_memory = ~stream & (load.dataset_bytes <= usual["ram_disk_share"] * free) & ~has_local & (load.storage in ("", "memory"))
    in_memory |= ~stream & (cached >= 1.0) & (load.storage == "memory")
    staging = np.select([stream, in_memory, has_local & ~stream], [Staging.STREAM, Staging.MEMORY, Staging.LOCAL], Staging.VOLUME)
    keeps = np.where(in_memory | (stream & ((nodes[None, :] > 1) | (load.epochs <= 1.0))), 0.0, load.dataset_bytes)
    node_bytes = load.weights_bytes + keeps
    on_volume = np.where(nvme >= node_bytes, 0.0, node_bytes) * nodes[None, :]
    return DataPath(
        run_s=np.where(runs, np.where(stream, streamed_s, copied_s), np.inf),
        staging_s=np.where(stream, 0.0, copy_s),
        staging=staging.astype(np.intp),
        step=np.where(on_volume > 0, step, NEVER),
        stored_bytes=on_volume,
        price_factor=factor,
        first_s=np.where(stream, first_stream, later),
        later_s=np.where(stream, later_stream, later),
        read_s=np.where(stream & (nodes[None, :] > 1), share_bytes / from_store, read),
        prepare_s=np.broadcast_to(prepare, run_s.shape),
        compute_s=run_s,
        disk_bytes_per_s=disk,
        cores=np.broadcast_to(cores, run_s.shape),
        cached=np.broadcast_to(cached, run_s.shape),
    )


def _local_rate(hosts: HostColumns) -> Array:
    volume, size = common_volume("local"), hosts.local_nvme_bytes
    return loading.volume_bytes_per_s(
        size,
        base=np.array(volume.base_bytes_per_s),
        per_byte=np.array(volume.bytes_per_s_per_byte),
        most=np.array(volume.most_bytes_per_s),
        link=np.array(np.inf),
    )
