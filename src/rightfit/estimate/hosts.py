"""What servers bring to the data path: cores and their speed, memory, disks and volumes."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.facts.machines import core_named
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.units import GB, MB

NETWORK_KINDS = ("block", "file")
LEVELS_MB_PER_S = (250.0, 500.0, 750.0, 1000.0, 1200.0, 2000.0, 2400.0, 4000.0)


@dataclass(frozen=True, slots=True)
class DiskVolume:
    """A kind of disk as facts/data/volumes.csv describes it; rates in byte/s and 1/s, prices in USD a month."""

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
    """Volumes by provider, the one that is mounted by default first; "*" holds what every server has and the volume of clouds not
    described."""
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


def volume_names() -> tuple[str, ...]:
    """Every volume that can be asked for by name."""
    return tuple(dict.fromkeys(volume.name for kinds in volumes().values() for volume in kinds))


@dataclass(frozen=True, slots=True)
class VolumeStep:
    """One way to buy a volume of a given size: what it reads, and its price over that of the provider's default volume of the same size."""

    volume: DiskVolume
    bytes_per_s: float
    requests_per_s: float
    usd_per_month: float
    price_factor: float


@functools.lru_cache(maxsize=256)
def volume_steps(provider: str, size_bytes: float, name: str = "") -> tuple[VolumeStep, ...]:
    """Ways to buy a volume of `size_bytes`, cheapest first, each faster than the one before; only `name` where the provider has it."""
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
    """Servers, one row each: NaN where unknown. `provider_code` points into `providers`; `vcpus`: usual ones of so many accelerators where
    the seller states none."""

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
    """vCPUs taken for a server whose seller states none, by its number of accelerators: few rather than many, so that silence never wins."""
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
    """Servers as the catalog lists them; the processor follows from its name, else from the server type's, else it is a usual one."""
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
