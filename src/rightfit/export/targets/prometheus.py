"""Prometheus: what to scrape, what to record, and alerts at the plan's own figures."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import Job
from rightfit.export.operations import MIB, floor_of_utilisation, has_profiling, memory_limit_bytes, most_usd_per_h, usd_per_gpu_h
from rightfit.export.quoting import to_yaml
from rightfit.export.registry import Files, Target
from rightfit.messages import Message

TOO_HOT_C = 88
WATCH_PORT = 9410  # of `rightfit watch --listen 9410` beside the run
HELD_SHARE = 0.5  # of the predicted memory: a card that holds less has no job on it
COST = "rightfit:cost_usd_per_hour"
FIRST_TOKEN = {
    "vllm": "vllm:time_to_first_token_seconds_bucket",
    "sglang": "sglang:time_to_first_token_seconds_bucket",
}


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
    jobs.append({"job_name": "run", "static_configs": [{"targets": [f"localhost:{WATCH_PORT}"], "labels": _labels(job)}]})
    return {"global": {"scrape_interval": "15s"}, "rule_files": ["alerts.yml"], "scrape_configs": jobs}


def _labels(job: Job) -> dict[str, str]:
    """Label names have no hyphens there."""
    return {name.replace("-", "_"): value for name, value in job.labels.items()} | {"app": job.name}


def of_plan(job: Job, metric: str) -> str:
    """A metric of this plan's servers only."""
    return f'{metric}{{rightfit_plan="{job.plan_id}"}}'


def busy_share(job: Job, *, over: str = "") -> str:
    """The share of time that cards are busy, now or on average over a while: of their engines, or by the driver where that is not counted."""
    metric = of_plan(job, "DCGM_FI_PROF_GR_ENGINE_ACTIVE" if has_profiling(job) else "DCGM_FI_DEV_GPU_UTIL")
    share = f"avg_over_time({metric}[{over}])" if over else metric
    return share if has_profiling(job) else f"{share} / 100"


def cost_rate(job: Job) -> str:
    """What an hour costs now: the cards that answer, at the plan's price."""
    return f"count({of_plan(job, 'DCGM_FI_DEV_GPU_TEMP')}) * {usd_per_gpu_h(job):.6g}"


def first_token(job: Job) -> str:
    """The 95th percentile of the time to the first token; "" where the program does not publish it."""
    metric = FIRST_TOKEN.get(job.option.layout.engine.casefold())
    return f"histogram_quantile(0.95, sum by (le) (rate({of_plan(job, metric)}[5m])))" if metric and job.is_service else ""


def rules(job: Job) -> list[dict[str, Any]]:
    """The cost as a series, and alerts, each with the figure that it compares with."""
    return [{"record": COST, "expr": cost_rate(job)}, *_of_cards(job), *_of_use(job), *_of_service(job), *_of_run(job)]


def _of_run(job: Job) -> list[dict[str, Any]]:
    """What `rightfit watch --plan plan.json --listen` says of the run, beside the plan."""
    step = job.option.estimate.get("step_s")
    finding = of_plan(job, "rightfit_finding")
    stalled = f'{finding[:-1]},code=~"stall|no_steps"}} == 1'
    found = [
        _rule("MemoryLeak", f'{finding[:-1]},code="leak"}} == 1', "10m", "memory grows all the time: a larger server only dies later"),
    ]
    if not job.is_service:
        found.append(_rule("RunStalled", stalled, "1m", "no step for longer than any pause so far: look at the log of every rank"))
    if step is not None and not job.is_service:
        text = f"steps are slower than the plan's 95 % interval: over {step.high95:.3g} s"
        found.append(_rule("StepsSlow", f"{of_plan(job, 'rightfit_step_seconds')} > {step.high95:.6g}", "10m", text))
    return found


def _of_cards(job: Job) -> list[dict[str, Any]]:
    limit = memory_limit_bytes(job) / MIB
    found = [
        _rule("GpuHot", f"{of_plan(job, 'DCGM_FI_DEV_GPU_TEMP')} > {TOO_HOT_C}", "5m", f"a card is over {TOO_HOT_C} degrees"),
        _rule("GpuErrors", f"increase({of_plan(job, 'DCGM_FI_DEV_XID_ERRORS')}[10m]) > 0", "0m", "the driver reports an error of a card"),
    ]
    if limit:
        text = f"a card uses more than the plan's upper limit of {limit:,.0f} MiB"
        found.append(_rule("GpuMemoryHigh", f"{of_plan(job, 'DCGM_FI_DEV_FB_USED')} > {limit:.0f}", "1m", text))
    if not job.is_service:
        text = f"fewer than the plan's {job.num_gpus} cards answer: a server is lost"
        found.append(_rule("GpuLost", f"count({of_plan(job, 'DCGM_FI_DEV_GPU_TEMP')}) < {job.num_gpus}", "3m", text))
    allowed = most_usd_per_h(job)
    text = f"more is rented than the plan holds: over {allowed:.2f} USD an hour"
    found.append(_rule("CostRateHigh", f"{COST} > {allowed:.6g}", "10m", text))
    return found


def _of_use(job: Job) -> list[dict[str, Any]]:
    """Idle cards with a job's memory wait for something, mostly data; idle cards without are rented for nothing."""
    floor = floor_of_utilisation(job)
    peak = job.option.estimate.get("peak_memory_bytes")
    if not floor or peak is None:
        return []
    busy = f"{busy_share(job, over='15m')} < {floor:.2f}"
    held, half = of_plan(job, "DCGM_FI_DEV_FB_USED"), f"{HELD_SHARE * peak.mid / MIB:.0f}"
    stall = f"the cards hold the job but are busy less than {floor:.0%} of the time; the plan expects more: look at data loading"
    if job.is_service:
        stall = f"the cards are busy less than {floor:.0%} of the time; the plan expects more: rent less"
    return [
        _rule("ServiceIdle" if job.is_service else "DataStall", f"{busy} and {held} >= {half}", "15m", stall),
        _rule("GpuIdle", f"{busy} and {held} < {half}", "15m", "a card is rented and nothing runs on it"),
    ]


def _of_service(job: Job) -> list[dict[str, Any]]:
    allowed = job.wish("ttft_s")
    query = first_token(job)
    if not (allowed and query):
        return []
    return [
        _rule("FirstTokenLate", f"{query} > {float(allowed):g}", "5m", f"the first token comes later than the {float(allowed):g} s allowed")
    ]


def _rule(name: str, expression: str, lasts: str, summary: str) -> dict[str, Any]:
    return {"alert": name, "expr": expression, "for": lasts, "labels": {"severity": "warning"}, "annotations": {"summary": summary}}


def refuses(job: Job) -> Message | str:
    """Why the exporter of NVIDIA's cards has nothing to say ("" if it has)."""
    vendor = str(job.option.facts.get("vendor") or "NVIDIA")
    if not job.gpus_per_node:
        return Message("export.part_no_accelerator")
    return "" if vendor == "NVIDIA" else Message("export.part_exporter_names", vendor=vendor)


TARGET = Target(
    "prometheus",
    "operations",
    "Prometheus scrape and alerts at the plan's figures",
    write,
    refuses,
    checked_by="promtool, rule by rule; a real Prometheus on a stand-in for the cards' exporter",
    run="prometheus --config.file=prometheus.yml --web.listen-address=127.0.0.1:9090",
)
