"""What somebody measured of a planned option, as a run record: the plan's document says what ran and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightfit.measure.readers.item import figure, number, words
from rightfit.measure.record import Run, Source, sealed
from rightfit.units import GIB

#: Figures of an option's estimate -> metric of a record, and what one base unit is of its unit.
METRICS = {
    "step_s": ("step_time_s", 1.0),
    "samples_per_s": ("samples_per_s", 1.0),
    "tokens_per_s": ("tokens_per_s_per_gpu", 1.0),
    "peak_memory_bytes": ("peak_mem_gib_per_gpu", 1 / GIB),
    "ttft_s": ("ttft_ms", 1e3),
    "tpot_s": ("tpot_ms", 1e3),
    "requests_per_s": ("req_per_s", 1.0),
    "latency_s": ("latency_ms", 1e3),
}


def run_of_measurement(
    document: Mapping[str, Any], *, option: int, name: str, value: float, started: str = "", where: str = ""
) -> Run | None:
    """The record of a figure of option `option` of a plan's document; None where the figure is none of a run's metrics."""
    chosen = next((found for found in document.get("options", []) if found.get("rank") == option), None)
    if chosen is None or name not in METRICS:
        return None
    metric, scale = METRICS[name]
    is_service = document.get("workload", {}).get("task") in ("serve", "batch")
    metric = "output_tok_per_s_total" if is_service and name == "tokens_per_s" else metric
    cards = (number(chosen.get("nodes")) or 1.0) * (number(chosen.get("accelerator", {}).get("count_per_node")) or 1.0)
    scale = scale / cards if metric == "tokens_per_s_per_gpu" else scale
    counter = {"statistic": "max"} if name == "peak_memory_bytes" else {}
    server = {part: chosen.get(part) for part in ("provider", "instance_type", "region", "purchase", "nodes")}
    setup = _service(document, chosen) if is_service else _training(document, chosen, cards)
    source = Source(kind="measurement", tool="rightfit", path_or_url=where)
    return sealed(Run(source=source, started=started, setup=setup, server=server, measured=figure(metric, value, scale=scale, **counter)))


def training_of(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Set-up and server of an option of a training plan, for a record of what was measured there."""
    cards = (number(chosen.get("nodes")) or 1.0) * (number((chosen.get("accelerator") or {}).get("count_per_node")) or 0.0)
    server = {part: chosen.get(part) for part in ("provider", "instance_type", "region", "purchase", "nodes")}
    return _training(document, chosen, cards or None), server


def service_of(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Set-up and server of an option of a service's plan, for a record of what was measured there."""
    return _service(document, chosen), {part: chosen.get(part) for part in ("provider", "instance_type", "region", "purchase", "nodes")}


def _training(document: Mapping[str, Any], chosen: Mapping[str, Any], cards: float | None) -> dict[str, str]:
    workload, layout = document.get("workload", {}), chosen.get("layout", {})
    length = chosen.get("facts", {}).get("seq_len") or workload.get("seq_len")
    parallel = {
        short: layout.get(name)
        for short, name in (("dp", "data"), ("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert"))
    }
    return words(
        model=workload.get("model"),
        method=layout.get("method") or workload.get("method"),
        framework=workload.get("framework"),
        precision=layout.get("precision"),
        gpu=chosen.get("accelerator", {}).get("name"),
        n_gpus=cards,
        micro_batch=layout.get("micro_batch"),
        grad_accum=layout.get("grad_accum"),
        seq_len=length,
        recompute=layout.get("recompute"),
        **parallel,
    )


def _service(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, str]:
    workload, layout = document.get("workload", {}), chosen.get("layout", {})
    return words(
        model=workload.get("model"),
        engine=layout.get("engine"),
        weights_dtype=layout.get("weight_format"),
        device=chosen.get("accelerator", {}).get("name"),
        n_devices=(number(layout.get("tensor")) or 1.0) * (number(layout.get("pipeline")) or 1.0),
        input_tokens=workload.get("input_tokens"),
        output_tokens=workload.get("output_tokens"),
    )
