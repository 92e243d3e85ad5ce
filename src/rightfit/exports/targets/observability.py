"""Prometheus: what to scrape, what to record, and alerts at the plan's own figures."""

from __future__ import annotations

from importlib import resources
from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.quoting import comment, to_json, to_yaml
from rightfit.exports.registry import (
    MIB,
    Files,
    Target,
    floor_of_utilisation,
    has_profiling,
    memory_limit_bytes,
    most_usd_per_h,
    usd_per_gpu_h,
)
from rightfit.exports.targets import kubernetes_addons
from rightfit.messages import Message
from rightfit.records import dataclass

TOO_HOT_C = 88
WATCH_PORT = 9410  # of `rightfit watch --listen 9410` beside the run
HELD_SHARE = 0.5  # of the predicted memory: a card that holds less has no job on it
COST = "rightfit:cost_usd_per_hour"
FIRST_TOKEN = {
    "vllm": "vllm:time_to_first_token_seconds_bucket",
    "sglang": "sglang:time_to_first_token_seconds_bucket",
}


def prometheus_write(job: Job) -> Files:
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
    """The share of time that cards are busy, now or on average over a while: of their engines, or
    by the driver where that is not counted."""
    metric = of_plan(job, "DCGM_FI_PROF_GR_ENGINE_ACTIVE" if has_profiling(job) else "DCGM_FI_DEV_GPU_UTIL")
    share = f"avg_over_time({metric}[{over}])" if over else metric
    return share if has_profiling(job) else f"{share} / 100"


def cost_rate(job: Job) -> str:
    """What an hour costs now: the cards that answer, at the plan's price."""
    return f"count({of_plan(job, 'DCGM_FI_DEV_GPU_TEMP')}) * {usd_per_gpu_h(job):.6g}"


def first_token(job: Job) -> str:
    """The 95th percentile of the time to the first token; "" where the program
    does not publish it."""
    metric = FIRST_TOKEN.get(job.option.layout.engine.casefold())
    return f"histogram_quantile(0.95, sum by (le) (rate({of_plan(job, metric)}[5m])))" if metric and job.is_service else ""


def rules(job: Job) -> list[dict[str, Any]]:
    """The cost as a series, and alerts, each with the figure that it compares with."""
    return [
        {"record": COST, "expr": cost_rate(job)},
        *_prometheus_of_cards(job),
        *_of_use(job),
        *_prometheus_of_service(job),
        *_prometheus_of_run(job),
    ]


def _prometheus_of_run(job: Job) -> list[dict[str, Any]]:
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


def _prometheus_of_cards(job: Job) -> list[dict[str, Any]]:
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
    """Idle cards with a job's memory wait for something, mostly data; idle cards without are
    rented for nothing."""
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


def _prometheus_of_service(job: Job) -> list[dict[str, Any]]:
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
        return Message("export.no_accelerator")
    return "" if vendor == "NVIDIA" else Message("export.exporter_names", vendor=vendor)


PROMETHEUS = Target(
    "prometheus",
    "operations",
    "Prometheus scrape and alerts at the plan's figures",
    prometheus_write,
    refuses,
    checked_by="promtool, rule by rule; a real Prometheus on a stand-in for the cards' exporter",
    run="prometheus --config.file=prometheus.yml --web.listen-address=127.0.0.1:9090",
)


# ---- Grafana: a dashboard of the cards and of the job, with the plan's own predictions as lines
# across the curves.

WIDTH, HEIGHT = 12, 8
SCHEMA = 41
SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Curve:
    """One panel: a query, the unit in which Grafana shows it, and the plan's figures as
    lines of a colour."""

    title: str
    query: str
    unit: str
    lines: tuple[tuple[str, float], ...] = ()
    legend: str = "card {{gpu}}"


def curves(job: Job) -> list[Curve]:
    """What is worth seeing, in order."""
    found = [
        *([] if job.is_service else _grafana_of_run(job)),
        *_grafana_of_cards(job),
        *(_grafana_of_service(job) if job.is_service else []),
    ]
    return [curve for curve in found if curve.query]


def _grafana_of_cards(job: Job) -> list[Curve]:
    def query(metric: str) -> str:
        return of_plan(job, metric)

    peak = job.option.estimate.get("peak_memory_bytes")
    memory = (("green", peak.mid / MIB), ("red", memory_limit_bytes(job) / MIB)) if peak else ()
    floor = floor_of_utilisation(job)
    return [
        Curve("Memory of the cards", query("DCGM_FI_DEV_FB_USED"), "mbytes", memory),
        Curve("Busy share", busy_share(job), "percentunit", (("orange", floor),) if floor else ()),
        Curve("Tensor units at work", query("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") if has_profiling(job) else "", "percentunit", _mfu(job)),
        Curve("Temperature", query("DCGM_FI_DEV_GPU_TEMP"), "celsius", (("red", float(TOO_HOT_C)),)),
        Curve("Power", query("DCGM_FI_DEV_POWER_USAGE"), "watt"),
        Curve(
            "Cost of an hour",
            cost_rate(job),
            "currencyUSD",
            (("green", job.option.cost.hourly_usd), ("red", most_usd_per_h(job))),
            "now",
        ),
    ]


def _grafana_of_run(job: Job) -> list[Curve]:
    """The run beside its plan, as `rightfit watch --plan plan.json --listen` shows it."""
    step, whole, cost = job.option.estimate.get("step_s"), job.option.estimate.get("total_time_s"), job.option.cost.total_usd
    steps = (("green", step.low95), ("green", step.mid), ("red", step.high95)) if step else ()
    budget = (("green", cost),) if cost else ()
    return [
        Curve("Step time", of_plan(job, "rightfit_step_seconds") if step else "", "s", steps, "measured"),
        Curve("Time left", _bound(job, "rightfit_left_seconds"), "s", (("green", whole.mid),) if whole else (), "left"),
        Curve("Cost at completion", _bound(job, "rightfit_cost_usd"), "currencyUSD", budget, "rent"),
        Curve("Findings", f"{of_plan(job, 'rightfit_finding')} > 0", "short", (), "{{code}}"),
    ]


def _bound(job: Job, metric: str) -> str:
    return of_plan(job, metric)[:-1] + ',bound="mid"}'


def _mfu(job: Job) -> tuple[tuple[str, float], ...]:
    share = job.option.estimate.get("mfu")
    return (("green", share.mid),) if share else ()


def _grafana_of_service(job: Job) -> list[Curve]:
    in_flight = kubernetes_addons.QUERIES.get(job.option.layout.engine.casefold(), "").format(by=f'app="{job.name}"')
    estimate, limit = job.option.estimate, job.wish("ttft_s")
    first = [("green", figure.mid)] if (figure := estimate.get("ttft_p95_s")) else []
    first += [("red", float(limit))] if limit else []
    replicas = max(1, job.option.layout.replicas)
    return [
        Curve("First token, 95th percentile", first_token(job), "s", tuple(first), "p95"),
        Curve("Requests in flight", in_flight, "short", (("orange", kubernetes_addons.threshold(job) * replicas),), "all replicas"),
    ]


def panel(number: int, curve: Curve) -> dict[str, Any]:
    """A time series with its lines; the first step has no value, as Grafana wants it."""
    steps: list[dict[str, Any]] = [{"color": "transparent", "value": None}]
    steps += [{"color": color, "value": value} for color, value in sorted(curve.lines, key=lambda line: line[1])]
    custom = {"thresholdsStyle": {"mode": "line" if curve.lines else "off"}}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": curve.title,
        "datasource": SOURCE,
        "gridPos": {"x": WIDTH * (number % 2), "y": 4 + HEIGHT * (number // 2), "w": WIDTH, "h": HEIGHT},
        "targets": [{"refId": "A", "datasource": SOURCE, "expr": curve.query, "legendFormat": curve.legend}],
        "fieldConfig": {
            "defaults": {"unit": curve.unit, "custom": custom, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def about(job: Job) -> dict[str, Any]:
    """What the lines mean, as a panel of text."""
    option = job.option
    words = f"{comment(job.model)} on {option.nodes} x {comment(option.instance_type)}: green is the plan's prediction, red and orange its limits. Plan {job.plan_id}."
    return {
        "id": 100,
        "type": "text",
        "title": "Plan",
        "gridPos": {"x": 0, "y": 0, "w": 2 * WIDTH, "h": 4},
        "options": {"mode": "markdown", "content": words.replace("<", "&lt;").replace("[", "\\[").replace("`", "'")},
    }


def dashboard(job: Job) -> dict[str, Any]:
    """The dashboard, with the Prometheus to read as a choice at its top."""
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus", "hide": 0}
    return {
        "uid": f"rightfit-{job.plan_id}",
        "title": f"{job.name} ({job.plan_id})",
        "tags": ["rightfit", job.plan_id],
        "schemaVersion": SCHEMA,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": [about(job), *[panel(number, curve) for number, curve in enumerate(curves(job))]],
    }


def grafana_write(job: Job) -> Files:
    """One dashboard."""
    return {"dashboard.json": to_json(dashboard(job))}


GRAFANA = Target(
    "grafana",
    "operations",
    "Grafana dashboard with the plan's predictions as lines",
    grafana_write,
    refuses,
    checked_by="Grafana's own builder library; every query run on a real Prometheus",
    run='curl --user "$GRAFANA_USER:$GRAFANA_PASSWORD" --json "{\\"dashboard\\": $(cat dashboard.json)}" "$GRAFANA_URL/api/dashboards/db"',
)


# ---- MLflow: a run that carries the plan as tags, parameters and predicted metrics, so that what
# happens stands beside what was foretold.

VERSION = "3.17.2"


def settings(job: Job) -> dict[str, Any]:
    """What plan.json holds: names of MLflow allow letters, digits, "_", "-",
    ".", " ", ":" and "/"."""
    option = job.option
    tags = {
        **job.labels,
        "rightfit.provider": option.provider,
        "rightfit.region": option.region,
        "rightfit.instance_type": option.instance_type,
        "rightfit.purchase": option.purchase,
        "rightfit.task": job.task,
        "rightfit.model": job.model,
    }
    layout = {f"layout.{name}": value for name, value in option.layout.model_dump().items() if value not in ("", 0)}
    wishes = {f"workload.{name}": value for name, value in job.workload.items() if isinstance(value, str | int | float) and value != ""}
    metrics = {
        f"predicted/{name}/{end}": getattr(figure, end) for name, figure in option.estimate.items() for end in ("mid", "low80", "high80")
    }
    metrics |= {f"predicted/{name}": float(value) for name, value in option.cost.model_dump().items() if value is not None}
    return {"experiment": job.name, "run": f"{job.name}-{job.plan_id}", "tags": tags, "params": {**layout, **wishes}, "metrics": metrics}


def mlflow_write(job: Job) -> Files:
    """The program and what it logs."""
    program = resources.files("rightfit.exports").joinpath("scripts/start_mlflow_run.py").read_text(encoding="utf-8")
    return {"plan.json": to_json(settings(job)), "start_mlflow_run.py": program, "requirements.txt": f"mlflow-skinny=={VERSION}\n"}


MLFLOW = Target(
    "mlflow",
    "operations",
    "MLflow run with the plan as tags and predicted metrics",
    mlflow_write,
    checked_by="MLflow itself: the run is made in a store of files and read back",
    run='eval "$(python start_mlflow_run.py plan.json)"   # then start the job: it finds MLFLOW_RUN_ID',
)
