"""Prometheus: what to scrape, and alerts at the plan's own figures."""

from __future__ import annotations

from typing import Any

from rightfit.export.document import FigurePart
from rightfit.export.job import Job
from rightfit.export.quoting import to_yaml
from rightfit.export.registry import Files, Target

IDLE_SHARE = 0.5  # of the low end of the predicted utilisation
TOO_HOT_C = 88
FULL_SHARE = 0.97  # of the card's memory: beyond it the next allocation may fail
MIB = 1024**2


def write(job: Job) -> Files:
    """prometheus.yml and alerts.yml."""
    return {"prometheus.yml": to_yaml(scrape(job)), "alerts.yml": to_yaml({"groups": [{"name": job.name, "rules": rules(job)}]})}


def scrape(job: Job) -> dict[str, Any]:
    """The exporter of the cards and the job's own port, on addresses that the user fills in."""
    jobs: list[dict[str, Any]] = [{"job_name": "dcgm", "static_configs": [{"targets": ["localhost:9400"], "labels": _labels(job)}]}]
    if job.is_service:
        jobs.append(
            {"job_name": "service", "metrics_path": "/metrics", "static_configs": [{"targets": ["localhost:8000"], "labels": _labels(job)}]}
        )
    return {"global": {"scrape_interval": "15s"}, "rule_files": ["alerts.yml"], "scrape_configs": jobs}


def _labels(job: Job) -> dict[str, str]:
    """Label names have no hyphens there."""
    return {name.replace("-", "_"): value for name, value in job.labels.items()} | {"app": job.name}


def rules(job: Job) -> list[dict[str, Any]]:
    """Alerts, each with the figure that it compares with."""
    found = [
        _rule("GpuHot", f"DCGM_FI_DEV_GPU_TEMP > {TOO_HOT_C}", "5m", f"a card is over {TOO_HOT_C} degrees"),
        _rule("GpuErrors", "increase(DCGM_FI_DEV_XID_ERRORS[10m]) > 0", "0m", "the driver reports an error of a card"),
    ]
    estimate = job.option.estimate
    if peak := estimate.get("peak_memory_bytes"):
        found.append(_memory(peak, most_bytes=job.option.accelerator.memory_bytes))
    if busy := floor_of_utilisation(job):
        text = f"the cards are busy less than {busy:.0%} of the time; the plan expects more: look at data loading, or rent less"
        found.append(_rule("GpuIdle", f"avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE[15m]) < {busy:.2f}", "15m", text))
    if job.is_service and (first := job.wish("ttft_s")) and job.option.layout.engine == "vLLM":
        query = f"histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > {float(first):g}"
        found.append(_rule("FirstTokenLate", query, "5m", f"the first token comes later than the {float(first):g} s allowed"))
    return found


def _memory(peak: FigurePart, *, most_bytes: float) -> dict[str, Any]:
    """Memory above what the plan holds possible, or nearly all of the card."""
    limit = min(peak.high95, FULL_SHARE * most_bytes) / MIB
    return _rule(
        "GpuMemoryHigh", f"DCGM_FI_DEV_FB_USED > {limit:.0f}", "1m", f"a card uses more than the plan's upper limit of {limit:,.0f} MiB"
    )


def floor_of_utilisation(job: Job) -> float:
    """Below this share of busy time something is wrong; 0 where the plan predicts no utilisation."""
    load = job.option.facts.get("utilisation")
    if job.is_service:
        return IDLE_SHARE * min(1.0, float(load)) if load else 0.0
    return IDLE_SHARE if job.gpus_per_node else 0.0


def _rule(name: str, expression: str, lasts: str, summary: str) -> dict[str, Any]:
    return {"alert": name, "expr": expression, "for": lasts, "labels": {"severity": "warning"}, "annotations": {"summary": summary}}


def _refuses(job: Job) -> str:
    vendor = str(job.option.facts.get("vendor") or "NVIDIA")
    if not job.gpus_per_node:
        return "the server has no accelerator to watch"
    return "" if vendor == "NVIDIA" else f"the exporter of {vendor} cards has other names"


TARGET = Target(
    "prometheus",
    "operations",
    "Prometheus scrape and alerts at the plan's figures",
    write,
    _refuses,
    checked_by="our own tests of its form",
)
