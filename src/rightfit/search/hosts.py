"""What each server of a market brings to the data path: processors, RAM, local disks, network."""

from __future__ import annotations

import functools

from rightfit.catalog.offers import ServerTable
from rightfit.estimate.hosts import HostColumns, host_columns
from rightfit.search.offers import known_host_bytes


@functools.lru_cache(maxsize=8)
def hosts_of(servers: ServerTable) -> HostColumns:
    """What each server brings to the data path."""
    return host_columns(
        provider=servers.provider,
        instance_type=servers.instance_type,
        cpu_model=servers.cpu_model,
        arch=servers.arch,
        vcpus=servers.vcpus,
        memory_bytes=known_host_bytes(servers),
        local_nvme_bytes=servers.local_nvme_bytes,
        network_bytes_per_s=servers.network_bytes_per_s,
        accelerators=servers.num_accelerators,
    )
