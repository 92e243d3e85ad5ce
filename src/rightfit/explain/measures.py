"""Our own figures for the workload at hand, gathered from an option so that rules of thumb can be held against them."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

from rightfit.records import dataclass
from rightfit.search.answer import Option

_BYTES_PER_16_BIT_WEIGHT = 2
_COMMUNICATION = frozenset({"tensor", "expert", "context", "shard", "data", "offload", "communication"})


@dataclass(frozen=True, slots=True)
class Measures:
    """Figures of one option in base units; NaN where unknown. Sums (`vram_*`, `host_*`, `weights`) are over the whole job."""

    model: str
    task: str
    method: str
    params: float
    weights_bytes: float
    peak_memory_bytes: float
    peak_low80_bytes: float
    peak_high80_bytes: float
    vram_needed_bytes: float
    vram_bytes: float
    num_gpus: float
    least_gpus: float
    nodes: float
    vcpus: float
    vcpus_per_gpu: float
    host_memory_bytes: float
    host_memory_needed_bytes: float
    disk_needed_bytes: float
    data_bytes: float
    read_bytes_per_s: float
    network_bytes_per_s: float
    loading_share: float
    stall_share: float
    loader_cores: float
    communication_share: float
    busy_share: float
    mfu: float
    total_time_s: float
    total_usd: float
    micro_batch: float
    seq_len: float
    spot_saving_fraction: float
    reserved_saving_fraction: float
    purchase: str
    sharding: str
    tensor: float
    bottleneck: str
    has_nvlink: bool


def measures(
    option: Option,
    workload: Any,
    *,
    params: float,
    savings: tuple[float, float] = (math.nan, math.nan),
    has_nvlink: bool = False,
    need_bytes: float = math.nan,
) -> Measures:
    """The figures of `option`.

    `params`: parameters of the model; `savings`: fractions that spot and the deepest commitment save; `need_bytes`: what one copy
    of the job needs at least (the option's own peak over all cards where not given; a large micro-batch fills a card on purpose).
    """
    nodes, num_gpus = float(option.nodes), float(option.num_accelerators)
    peak = option.estimate["peak_memory_bytes"]
    need = peak.mid * num_gpus if math.isnan(need_bytes) else need_bytes
    time_s = _mid(option, "total_time_s")
    data = _data_bytes(option, workload)
    read = data * float(workload.epochs or option.facts.get("epochs") or 1) / time_s if time_s > 0 else math.nan
    loading = float(option.data_path.get("loading_share", math.nan))
    communication = _share(option, _COMMUNICATION)
    return Measures(
        model=str(workload.model),
        task=str(workload.task),
        method=option.layout.method,
        params=params,
        weights_bytes=params * _BYTES_PER_16_BIT_WEIGHT,
        peak_memory_bytes=peak.mid,
        peak_low80_bytes=peak.low80,
        peak_high80_bytes=peak.high80,
        vram_needed_bytes=need,
        vram_bytes=option.accelerator.memory_bytes * num_gpus,
        num_gpus=num_gpus,
        least_gpus=float(math.ceil(need / option.accelerator.memory_bytes)),
        nodes=nodes,
        vcpus=option.vcpus * nodes,
        vcpus_per_gpu=option.vcpus / option.accelerator.count_per_node,
        host_memory_bytes=option.memory_bytes * nodes,
        host_memory_needed_bytes=_mid(option, "host_memory_bytes") * nodes,
        disk_needed_bytes=_mid(option, "disk_bytes"),
        data_bytes=data,
        read_bytes_per_s=read,
        network_bytes_per_s=option.network_gbps * 1e9 / 8,
        loading_share=loading,
        stall_share=float(option.data_path.get("stall_share", math.nan)),
        loader_cores=float(option.data_path.get("needed_cores", math.nan)) * nodes,
        communication_share=communication,
        busy_share=1 - communication - float(option.data_path.get("stall_share", 0.0)),
        mfu=_mid(option, "mfu"),
        total_time_s=time_s,
        total_usd=option.cost.total_usd,
        micro_batch=float(option.layout.micro_batch),
        seq_len=float(workload.seq_len or option.facts.get("seq_len") or math.nan),
        spot_saving_fraction=savings[0],
        reserved_saving_fraction=savings[1],
        purchase=option.purchase,
        sharding=option.layout.sharding,
        tensor=float(option.layout.tensor),
        bottleneck=max(option.time_terms, key=lambda name: option.time_terms[name], default=""),
        has_nvlink=has_nvlink,
    )


def _mid(option: Option, name: str) -> float:
    figure = option.estimate.get(name)
    return figure.mid if figure is not None else math.nan


def _share(option: Option, words: Set[str]) -> float:
    """Share of a step that the terms of these names take."""
    total = sum(option.time_terms.values())
    taken = sum(value for name, value in option.time_terms.items() if name.removesuffix("_s") in words)
    return taken / total if total else math.nan


def _data_bytes(option: Option, workload: Any) -> float:
    """Size of the data: as given, or as the search assumed it."""
    return float(workload.data_bytes or option.facts.get("dataset_bytes") or math.nan)
