"""Grafana: a dashboard of the cards and of the job, with the plan's own predictions as lines across the curves."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import Job
from rightfit.export.operations import MIB, floor_of_utilisation, has_profiling, memory_limit_bytes, most_usd_per_h
from rightfit.export.quoting import comment, to_json
from rightfit.export.registry import Files, Target
from rightfit.export.targets import keda, prometheus
from rightfit.records import dataclass

WIDTH, HEIGHT = 12, 8
SCHEMA = 41
SOURCE = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Curve:
    """One panel: a query, the unit in which Grafana shows it, and the plan's figures as lines of a colour."""

    title: str
    query: str
    unit: str
    lines: tuple[tuple[str, float], ...] = ()
    legend: str = "card {{gpu}}"


def curves(job: Job) -> list[Curve]:
    """What is worth seeing, in order."""
    found = [*([] if job.is_service else _of_run(job)), *_of_cards(job), *(_of_service(job) if job.is_service else [])]
    return [curve for curve in found if curve.query]


def _of_cards(job: Job) -> list[Curve]:
    def query(metric: str) -> str:
        return prometheus.of_plan(job, metric)

    peak = job.option.estimate.get("peak_memory_bytes")
    memory = (("green", peak.mid / MIB), ("red", memory_limit_bytes(job) / MIB)) if peak else ()
    floor = floor_of_utilisation(job)
    return [
        Curve("Memory of the cards", query("DCGM_FI_DEV_FB_USED"), "mbytes", memory),
        Curve("Busy share", prometheus.busy_share(job), "percentunit", (("orange", floor),) if floor else ()),
        Curve("Tensor units at work", query("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE") if has_profiling(job) else "", "percentunit", _mfu(job)),
        Curve("Temperature", query("DCGM_FI_DEV_GPU_TEMP"), "celsius", (("red", float(prometheus.TOO_HOT_C)),)),
        Curve("Power", query("DCGM_FI_DEV_POWER_USAGE"), "watt"),
        Curve(
            "Cost of an hour",
            prometheus.cost_rate(job),
            "currencyUSD",
            (("green", job.option.cost.hourly_usd), ("red", most_usd_per_h(job))),
            "now",
        ),
    ]


def _of_run(job: Job) -> list[Curve]:
    """The run beside its plan, as `rightfit watch --plan plan.json --listen` shows it."""
    step, whole, cost = job.option.estimate.get("step_s"), job.option.estimate.get("total_time_s"), job.option.cost.total_usd
    steps = (("green", step.low95), ("green", step.mid), ("red", step.high95)) if step else ()
    budget = (("green", cost),) if cost else ()
    return [
        Curve("Step time", prometheus.of_plan(job, "rightfit_step_seconds") if step else "", "s", steps, "measured"),
        Curve("Time left", _bound(job, "rightfit_left_seconds"), "s", (("green", whole.mid),) if whole else (), "left"),
        Curve("Cost at completion", _bound(job, "rightfit_cost_usd"), "currencyUSD", budget, "rent"),
        Curve("Findings", f"{prometheus.of_plan(job, 'rightfit_finding')} > 0", "short", (), "{{code}}"),
    ]


def _bound(job: Job, metric: str) -> str:
    return prometheus.of_plan(job, metric)[:-1] + ',bound="mid"}'


def _mfu(job: Job) -> tuple[tuple[str, float], ...]:
    share = job.option.estimate.get("mfu")
    return (("green", share.mid),) if share else ()


def _of_service(job: Job) -> list[Curve]:
    in_flight = keda.QUERIES.get(job.option.layout.engine.casefold(), "").format(by=f'app="{job.name}"')
    estimate, limit = job.option.estimate, job.wish("ttft_s")
    first = [("green", figure.mid)] if (figure := estimate.get("ttft_p95_s")) else []
    first += [("red", float(limit))] if limit else []
    replicas = max(1, job.option.layout.replicas)
    return [
        Curve("First token, 95th percentile", prometheus.first_token(job), "s", tuple(first), "p95"),
        Curve("Requests in flight", in_flight, "short", (("orange", keda.threshold(job) * replicas),), "all replicas"),
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


def write(job: Job) -> Files:
    """One dashboard."""
    return {"dashboard.json": to_json(dashboard(job))}


TARGET = Target(
    "grafana",
    "operations",
    "Grafana dashboard with the plan's predictions as lines",
    write,
    prometheus.refuses,
    checked_by="Grafana's own builder library; every query run on a real Prometheus",
    run='curl --user "$GRAFANA_USER:$GRAFANA_PASSWORD" --json "{\\"dashboard\\": $(cat dashboard.json)}" "$GRAFANA_URL/api/dashboards/db"',
)
