"""Servers as classical machine learning and data preparation see them: processors, RAM, disks, network, and the GPUs that its libraries run
on.

Everything is by server (S,), whatever its price; thousands of servers are a few array operations, because the physics takes columns.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.catalog.offers import ServerTable
from rightfit.estimate.classical_hardware import card_figures, cpu_columns
from rightfit.estimate.data_path import object_rate
from rightfit.estimate.hosts import HostColumns as DiskColumns
from rightfit.estimate.hosts import common_volume
from rightfit.facts.machines import host_processor, processor_words
from rightfit.physics import loading
from rightfit.physics.classical import CpuColumns, GpuColumns
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.classical_wish import usual
from rightfit.search.hosts import hosts_of
from rightfit.search.offers import known_host_bytes

Mask = NDArray[np.bool_]

#: Compute capability from which RAPIDS runs (Volta), and the boosting libraries (Maxwell).
RAPIDS_CAPABILITY, BOOSTING_CAPABILITY = 7.0, 5.0


@dataclass(frozen=True, slots=True)
class HostServers:
    """Servers under one another. `ram_bytes`: what a job may fill; `gpu`: one GPU of each (any figures where there is none); `gpus`: how
    many whole
    ones it has; `capability` of CUDA (0: none); `disk_rate` of its local disks [byte/s]; `store_rate` from an object store [byte/s];
    `usual_network` what so many vCPUs are given where no bandwidth is stated, else no bound [byte/s]."""

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
    """Bytes/s that a server's vCPUs are usually given where nobody states its bandwidth; infinite where somebody does."""
    stated = np.nan_to_num(servers.network_bytes_per_s) > 0
    each = facts.coefficients("preparation")["network_bytes_per_s_per_vcpu"] * np.maximum(np.nan_to_num(servers.vcpus), 1.0)
    return np.where(stated, np.inf, each)


def _gpus(servers: ServerTable) -> tuple[GpuColumns, Array]:
    """One GPU of each server, and its CUDA compute capability; 0 where there is none that these libraries know."""
    known = {name: _gpu(name) for name in set(servers.accelerator_name)}
    table = np.array([known[name] for name in servers.accelerator_name], dtype=np.float64).reshape(-1, 5)
    gpu = GpuColumns(lanes=table[:, 0], flops=table[:, 1], bandwidth=table[:, 2], memory_bytes=table[:, 3], count=np.ones(table.shape[0]))
    return gpu, table[:, 4]


@functools.cache
def _gpu(name: str) -> tuple[float, float, float, float, float]:
    """(multiprocessors x clock, FLOP/s, bandwidth, memory, compute capability); ones and no capability for what is no NVIDIA GPU."""
    record = facts.accelerators().get(name)
    if record is None or record.vendor != "NVIDIA" or min(record.fp32_flops, record.memory_bandwidth) <= 0:
        return 1.0, 1.0, 1.0, 1.0, 0.0
    found = card_figures(record)
    return found.lanes, found.flops, found.bandwidth, found.memory_bytes, float(record.compute_capability)
