"""Words of load: saturation, the day, thresholds of a scaler, cold starts, and the simulation's percentiles beside the queue model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang, say
from rightfit.search.answer import Option, Plan, Reason

LOAD_SECTIONS = ("saturation", "autoscaling")
_SHARES = (50, 95, 99)
_RATES = ("replica_per_s", "all_per_s", "overload_per_s", "grows_per_s", "replica_rate_per_s")
_COUNTS = ("min_replicas", "max_replicas", "min_servers", "max_servers", "target_in_flight", "target_waiting")


def load_fields(params: Mapping[str, Any], lang: Lang) -> dict[str, str]:
    """Fields whose names would be read as other units."""
    out = {name: q.plain(float(params[name])) for name in _RATES if name in params}
    out |= {name: f"{params[name]:,.0f}" for name in _COUNTS if name in params}
    if "headroom" in params:
        out["headroom"] = q.percent_text(float(params["headroom"]))
    if "count" in params:
        out["replicas"] = (
            say("serving.replicas_one", lang)
            if params["count"] == 1
            else say("serving.replicas_many", lang, count=f"{params['count']:,.0f}")
        )
    return out


def load_lines(plan: Plan, render: Callable[[Reason], str]) -> tuple[str, ...]:
    """What the plan says of load, in order."""
    return tuple(render(reason) for section in plan.sections if section.name in LOAD_SECTIONS for reason in section.reasons)


def simulated_text(option: Option, lang: Lang) -> str:
    """The simulation's percentiles and how they came about; empty where nothing was simulated."""
    known = option.facts.get("simulated")
    if not known:
        return ""
    if "error" in known:
        return say("serving.simulated_not", lang, why=known["error"])
    figures = {name: simulated_triple(known, name, lang) for name in ("ttft", "tpot", "latency")}
    text = say(f"serving.simulated_{known['arrivals']}", lang, **figures, requests=f"{known['requests']:,}", seed=known["seed"])
    return text + (" " if lang == "en" else "") + say("serving.simulated_grows", lang) if known["saturated"] else text


def simulated_triple(figures: Mapping[str, Any], name: str, lang: Lang) -> str:
    """p50 / p95 / p99 of one latency."""
    return " / ".join(q.duration_text(float(figures[f"{name}_p{share}_s"]), lang) for share in _SHARES)


def analytic_triple(option: Option, name: str, lang: Lang) -> str:
    """The same by the queue model."""
    return " / ".join(q.duration_text(option.estimate[f"{name}_p{share}_s"].mid, lang) for share in _SHARES)
