"""A serving plan in words: the choice, its latencies and money, why, advice, refusals. Frames are
those of plan_text, so the faces draw them alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from rightfit.explain import quantities as q
from rightfit.explain import reasons as base
from rightfit.explain.amounts import load_text, request_text
from rightfit.explain.family_text import host_renderer
from rightfit.explain.kv_room import waiting_text
from rightfit.explain.messages import fields_of, has, join, say, say_or, sentences, topic
from rightfit.explain.plan_words import (
    NO_NEAR_MISS,
    OptionText,
    Term,
    blamed,
    given_text,
    headline,
    memory_terms,
    refusal_lines,
    telling,
    terms,
    worded,
)
from rightfit.explain.quantities import is_priced, rent_text
from rightfit.explain.reasons import where_text
from rightfit.messages import Lang
from rightfit.search.answer import Assumption, Option, Plan, Reason, Rejection

if TYPE_CHECKING:
    from rightfit.search.service.options import ServingCost, ServingLayout

# ---- Words of load: saturation, the day, thresholds of a scaler, cold starts, and the simulation's
# percentiles beside the queue model's.

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


# ---- Words of the other ways to pay for a service: fields of their sentences, and the sections
# of a plan as lines.

#: Sections that a short answer leaves to --verbose.
_DETAILS = frozenset({"formats"})
#: Sections that are shown as tables of their own.
_TABLES = ("buy", "bill", "staged", "energy", "memory")


def economics_fields(params: Mapping[str, Any], lang: Lang, *, currency: str) -> dict[str, Any]:
    """Fields that the sentences on APIs and serverless want, from a reason's parameters; texts are
    not formatted again."""
    out: dict[str, Any] = {}
    if "break_even_tokens_per_month" in params:
        out["break_even_tokens"] = q.count_text(float(params["break_even_tokens_per_month"]), lang)
    if "break_even_rate_per_s" in params:
        out["break_even_rate"] = q.plain(float(params["break_even_rate_per_s"]), 2)
    for name in ("input_usd", "output_usd", "full_usd_per_million"):
        if name in params:
            out[name] = q.money_text(float(params[name]), currency)
    if "match" in params:
        plain = {name: str(params[name]) for name in ("provider", "api_model", "as_of")}
        out["price_of"] = say(
            f"serving.api_price_{params['match']}", lang, **plain, input_usd=out["input_usd"], output_usd=out["output_usd"]
        )
    if "parts" in params:
        out["fleet"] = join([f"{where_text(part, lang)} ({part['region']})" for part in params["parts"]], lang)
    if "cold_start_s" in params:
        out |= _serverless_fields(params, lang)
    return out


def _serverless_fields(params: Mapping[str, Any], lang: Lang) -> dict[str, Any]:
    share = float(params["cold_share"])
    known = {"cold_start": q.duration_text(float(params["cold_start_s"]), lang), "as_of": str(params["as_of"])}
    if math.isfinite(share):
        cold = say("serving.cold_known", lang, **known, cold_share=q.percent_text(share))
    else:
        cold = say("serving.cold_unknown", lang, **known)
    return {"cold": cold, "platform": q.provider_text(str(params["provider"]), lang)}


def section_lines(plan: Plan, render: Callable[[Reason], str], *, everything: bool) -> tuple[str, ...]:
    """Every section's statements, in order; those of details only where everything is asked for."""
    elsewhere = (*LOAD_SECTIONS, *_TABLES) if everything else (*LOAD_SECTIONS, *_TABLES, *_DETAILS)
    shown = [section for section in plan.sections if section.name not in elsewhere]
    return tuple(render(reason) for section in shown for reason in section.reasons)


_SHOWN_PERCENTILES = (50, 95, 99)
_NO_NEAR_MISS = NO_NEAR_MISS | {"throughput"}
_NOT_THE_USERS = frozenset({"status", "capability", "layout", "purchase", "host_memory", "host_cpus", "fabric"})
_LATENCIES = ("ttft", "tpot", "latency")


def serving_renderer(lang: Lang, *, currency: str = "usd") -> Callable[[Reason], str]:
    """The function that turns reasons of serving plans into sentences; others are left to
    the general renderer."""

    def render(reason: Reason) -> str:
        key = _variant(reason)
        if reason.key.startswith("assumed_host_"):  # defaults of a classical model's training
            return host_renderer(lang, currency=currency)(reason)
        if not has(key):
            return base.render(reason, lang, currency=currency)
        texts = {
            name: _field(name, value, lang, currency=currency)
            for name, value in {**reason.params, **_derived(reason, lang, currency=currency)}.items()
        }
        if not fields_of(topic("serving")[key.partition(".")[2]][lang]) <= set(texts):
            return base.render(reason, lang, currency=currency)
        return say(key, lang, **texts)

    return render


def _variant(reason: Reason) -> str:
    key = f"serving.{reason.key}"
    if base.is_no_dearer(reason):
        return f"{key}_cheaper"
    return f"{key}_runner_up" if reason.params.get("runner_up") and has(f"{key}_runner_up") else key


def _derived(reason: Reason, lang: Lang, *, currency: str) -> dict[str, Any]:
    params, out = reason.params, {}
    if "metric" in params:
        out["metric_lower"] = say_or(f"serving.metric_lower_{params['metric']}", lang, params["metric"])
    if reason.key in ("serve_limit_decides", "serve_near"):
        out["option"] = params["metric"]
    if "quality" in params:
        out["quality_text"] = say_or(f"serving.quality_{params['quality']}", lang, params["quality"])
    if reason.key.startswith(("serve_api_", "serve_serverless_", "serve_fleet_")):
        out |= economics_fields(params, lang, currency=currency)
    if reason.key.startswith(("serve_saturation", "serve_day", "serve_thresholds")):
        out |= load_fields(params, lang)
    if "replicas" in params:
        out["replicas"] = replicas_text(int(params["replicas"]), lang)
    if reason.key == "why_refused":
        out["gap"] = gap_text(params["criterion"], params["needed"], params["had"], lang, currency=currency)
        out["refusal"] = base.criterion_text(params["criterion"], lang)
        out["nodes"] = q.counted("node", params["nodes"], lang)
    if params.get("price_factor"):
        out["price_cut"] = q.percent_text(1 - params["price_factor"])
    if "instance_type" in params:
        out["where"] = base.where_text(params, lang)
    return out


def _field(name: str, value: Any, lang: Lang, *, currency: str) -> str:
    if name == "metric":
        return say_or(f"serving.metric_{value}", lang, str(value))
    if name == "term":
        return say_or(f"serving.time_{value}", lang, str(value).replace("_", " "))
    if name in ("rate", "most"):
        return q.plain(float(value))
    if name in ("requests", "servers", "had", "devices", "percentile") and isinstance(value, int | float):
        return q.plain(float(value), 4)
    return base.field_text(name, value, lang, currency=currency)


def serving_option_text(option: Option, workload: Any, lang: Lang) -> OptionText:
    """One option in words."""
    return worded(
        option,
        workload,
        lang,
        serving_renderer(lang, currency=workload.currency),
        headline=serving_headline(option, lang, currency=workload.currency),
        outcome=outcome_text(option, workload, lang),
        setup=sentences([serving_setup_text(option, lang), waiting_text(option, workload, lang)], lang),
        speed=latencies_text(option, lang),
        margin=capacity_text(option, lang, currency=workload.currency),
        memory=memory_terms(option, lang),
        time=serving_time_terms(option, lang),
        on_processors=not option.accelerator.name,
    )


def serving_headline(option: Option, lang: Lang, *, currency: str) -> str:
    """What to rent; a server without accelerator is named by its cores and memory."""
    if option.accelerator.name:
        return headline(option, lang, currency=currency)
    cores = q.counted("core", option.vcpus, lang)
    return rent_text(option, f"{cores}, {q.memory_text(option.memory_bytes)}", lang, currency=currency)


def outcome_text(option: Option, workload: Any, lang: Lang) -> str:
    """What is served and what it costs."""
    cost = cast("ServingCost", option.cost)

    def money(value: float | None) -> str:
        return q.money_text(value if value is not None else math.nan, workload.currency)

    if cost.monthly_usd is None:
        time = option.estimate["total_time_s"]
        return say(
            "serving.outcome_batch" if is_priced(option) else "serving.outcome_batch_unpriced",
            lang,
            requests=q.count_text(option.facts["requests"], lang),
            amount=say("amounts.of", lang, amount=each) if (each := request_text(option, lang)) else "",
            time=q.duration_text(time.mid, lang),
            low=q.duration_text(time.low80, lang),
            high=q.duration_text(time.high80, lang),
            cost=money(cost.total_usd),
            per_thousand=money(cost.per_thousand_requests_usd),
        )
    has_tokens = math.isfinite(cost.per_million_tokens_usd)
    fields = {
        "model": workload.model,
        "load": load_text(option, workload, lang),
        "monthly": money(cost.monthly_usd),
        "per_thousand": money(cost.per_thousand_requests_usd),
    }
    if not is_priced(option):
        return say("serving.outcome_unpriced", lang, **fields)
    if has_tokens:
        text = say("serving.outcome", lang, **fields, per_million=money(cost.per_million_tokens_usd))
    else:
        text = say("serving.outcome_forward", lang, **fields)
    always = option.facts.get("always_usd")
    if always is None:
        return text
    owed = "_owed" if always == cost.monthly_usd else ""
    return sentences([text, say(f"serving.outcome_hours{owed}", lang, hours=q.plain(workload.office_hours, 4), always=money(always))], lang)


def serving_setup_text(option: Option, lang: Lang) -> str:
    """Engine, weights, replicas and what each of them is."""
    layout = cast("ServingLayout", option.layout)
    fields = {
        "engine": layout.engine,
        "format": layout.weight_format,
        "replicas": replicas_text(layout.replicas, lang),
        "layout": devices_text(option, lang),
        "max_batch": q.plain(layout.max_batch, 4),
    }
    if "workers" in option.facts:
        known = option.facts
        return say(
            "serving.setup_table",
            lang,
            **fields,
            library=known["library"],
            workers=q.counted("worker_process", known["workers"], lang),
            columns=q.plain(known["columns"]),
        )
    if not layout.kv_format:
        return say("serving.setup_forward", lang, **fields)
    kv = say("serving.kv_16bit", lang) if layout.kv_format == "16-bit" else layout.kv_format
    return say("serving.setup", lang, **fields, kv=kv)


def replicas_text(count: int, lang: Lang) -> str:
    """ "3 replicas"."""
    return say("serving.replicas_one", lang) if count == 1 else say("serving.replicas_many", lang, count=f"{count:,}")


def devices_text(option: Option, lang: Lang) -> str:
    """What one replica takes: "2 cards (tensor parallel)"."""
    layout = cast("ServingLayout", option.layout)
    count = layout.tensor * layout.pipeline
    if layout.attention_data > 1:
        return say("serving.devices_spread", lang, count=layout.attention_data)
    if not option.accelerator.name:
        return say("serving.devices_cpu", lang)
    if layout.slice:
        return say("serving.devices_slice", lang, slice=layout.slice)
    if count == 1:
        return say("serving.devices_one", lang)
    if layout.pipeline == 1:
        return say("serving.devices_tensor", lang, count=count)
    return say("serving.devices_pipeline", lang, count=count, tensor=layout.tensor, pipeline=layout.pipeline)


def latencies_text(option: Option, lang: Lang) -> str:
    """p50, p95 and p99 of each latency; empty for batch jobs."""
    estimate = option.estimate
    if "latency_p50_s" not in estimate:
        return ""

    def triple(name: str) -> str:
        return " / ".join(q.duration_text(estimate[f"{name}_p{share}_s"].mid, lang) for share in _SHOWN_PERCENTILES)

    if "ttft_p50_s" in estimate:
        text = say("serving.latencies", lang, **{name: triple(name) for name in _LATENCIES})
        return sentences([text, simulated_text(option, lang)], lang)
    return say("serving.latencies_forward", lang, latency=triple("latency"))


def capacity_text(option: Option, lang: Lang, *, currency: str) -> str:
    """How much more could come, and the month in every way to pay."""
    most = q.plain(option.estimate["requests_per_s"].mid)
    cost = cast("ServingCost", option.cost)
    if cost.monthly_usd is None:
        return say("serving.capacity_batch", lang, most=most)
    text = say("serving.capacity", lang, most=most, share=q.percent_text(option.facts["utilisation"]))
    if len(cost.by_purchase) < 2 or not is_priced(option):
        return text
    items = [
        say("serving.by_purchase_item", lang, purchase=q.purchase_text(name, lang), price=q.money_text(price, currency))
        for name, price in cost.by_purchase.items()
    ]
    return sentences([text, say("serving.by_purchase", lang, prices=join(items, lang))], lang)


def serving_time_terms(option: Option, lang: Lang) -> tuple[Term, ...]:
    """Time of a decode step (or a pass) by term, largest first."""
    named = lambda name: say_or(f"serving.time_{name}", lang, name.replace("_", " "))  # noqa: E731
    return terms(option.time_terms, lang, lambda value: q.duration_text(value, lang), named=named)


def serving_assumption_text(assumption: Assumption, lang: Lang, currency: str = "usd") -> str:
    """One default that was taken, and why."""
    value = base.field_text(assumption.field, assumption.value, lang)
    if assumption.field in ("ttft", "tpot", "latency"):
        value = q.duration_text(float(assumption.value), lang)
    return base.assumed_text(assumption.field, value, serving_renderer(lang, currency=currency)(assumption.why), lang)


def serving_rejection_lines(rejection: Rejection, lang: Lang, *, currency: str = "usd") -> list[str]:
    """A criterion with how many offers it refused, and its nearest miss with the least change that
    would let it pass."""
    criterion, render = base.criterion_text(rejection.criterion, lang), serving_renderer(lang, currency=currency)
    return refusal_lines(rejection, criterion, render, lang, currency=currency, gap=gap_text, silent=_NO_NEAR_MISS)


def serving_given_text(plan: Plan, lang: Lang) -> str:
    """The headline for given servers that do not do it, and why."""
    if not plan.rejected:
        return say("choice.none", lang)
    first = telling(plan.rejected)
    span = float(plan.unfit.facts["servers_per_replica"]) if plan.unfit is not None else 1.0
    if first.criterion == "max_nodes" and span > float(first.needed):  # memory binds: no load is small enough
        texts = {"had": q.plain(float(first.needed)), "needed": q.plain(span)}
        return say("serving.unfit_replica", lang, where=plan.given, weights=q.memory_text(_weights_bytes(plan.unfit)), **texts)
    gap = gap_text(first.criterion, first.needed, first.had, lang, currency=plan.workload.currency)
    return given_text(plan, first, base.criterion_text(first.criterion, lang), gap, lang)


def _weights_bytes(option: Option | None) -> float:
    """Weights of one replica over all its cards [bytes]."""
    assert option is not None
    return option.memory_terms["weights"] * option.layout.tensor * option.layout.pipeline * getattr(option.layout, "attention_data", 1)


def gap_text(criterion: str, needed: float | str, had: float | str, lang: Lang, *, currency: str) -> str:
    """What a criterion asks for and what there is; latencies as times that can be told apart."""
    if criterion in _LATENCIES and isinstance(needed, float) and isinstance(had, float):
        texts = q.distinct_durations(needed, had, lang)
        return say(f"rejections.gap_{criterion}", lang, needed=texts[0], had=texts[1])
    return base.needed_had_text(criterion, needed, had, lang, currency=currency)


def serving_blame_text(plan: Plan, lang: Lang) -> str:
    """Which criteria together exclude every offer; empty where something is feasible."""
    return blamed([tuple(name for name in group if name not in _NOT_THE_USERS) or group for group in plan.blame], lang)
