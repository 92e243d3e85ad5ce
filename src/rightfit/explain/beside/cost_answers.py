"""Answers about money and time: prices, commitments, interruptions, sellers, how long it takes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.explain import quantities as q
from rightfit.explain.beside.in_words import all_ways, cost_of, leading, led_if, offload_words, told_currency, total_usd, usd, way_text
from rightfit.explain.beside.questions import Question, worded
from rightfit.explain.command_text import command_line
from rightfit.explain.decisions import decision_lines
from rightfit.explain.trials import best_of, card_sizes, where_text
from rightfit.messages import Lang
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan

#: A card that costs so many times the cheapest way is near it.
_NEAR = 1.25
#: Sellers of a GPU that are told.
_MANY_SELLERS = 8


def _latency(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """How long one request takes on what leads."""
    best = leading(plan) if plan.workload.task == "serve" else led_if(plan, catalog, task="serve")
    if best is None:
        return worded("latency_none", lang)
    found = best.estimate
    if "ttft_p95_s" in found:
        first, each = (q.duration_text(found[name].mid, lang) for name in ("ttft_p95_s", "tpot_p50_s"))
        return worded("latency_tokens", lang, first=first, tpot=each, way=way_text(best, lang))
    mid, p95 = (q.duration_text(found[name].mid, lang) for name in ("latency_p50_s", "latency_p95_s"))
    return worded("latency", lang, mid=mid, p95=p95, way=way_text(best, lang))


def _buying(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What the servers of the plan cost to buy, compared with renting them."""
    from rightfit.explain.reasons import renderer
    from rightfit.search.ownership import own_section

    section = own_section(plan, catalog)
    if section is None:
        return ""
    render = renderer(lang, currency=told_currency.get())
    return ("" if lang == "zh" else " ").join(render(reason) for reason in section.reasons[:3])


#: Memory of a machine of one's own beside what a job takes: the system, and what else runs there.
_ROOM = 1.5


def _to_buy(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What a machine that is bought must have for the job, by the plan's own need; what buying the
    server of the plan costs is a comparison."""
    best = leading(plan)
    if not best.num_accelerators or not {"peak_memory_bytes", "host_memory_bytes"} <= set(best.estimate):
        return _buying(question, plan, catalog, lang)
    peak = best.estimate["peak_memory_bytes"].high80
    card = next((size for size in card_sizes(catalog) if size >= peak), peak)
    host = 2.0 ** math.ceil(math.log2(_ROOM * best.estimate["host_memory_bytes"].high80 / GIB)) * GIB
    return worded(
        "to_buy", lang, count=q.plain(best.num_accelerators), card=q.memory_text(card), peak=q.memory_text(peak), host=q.memory_text(host)
    )


def _hourly(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What costs least per hour of all that does it."""
    least = min(all_ways(plan, catalog), key=lambda option: (option.cost.hourly_usd, total_usd(option)))
    time = least.estimate.get("total_time_s")
    return worded(
        "hourly",
        lang,
        where=where_text(least),
        hourly=usd(least.cost.hourly_usd),
        count=q.plain(least.num_accelerators),
        card=least.accelerator.name or "CPU",
        time=("，" if lang == "zh" else ", ") + q.duration_text(time.mid, lang) if time else "",
        cost=cost_of(least, lang) + offload_words(least, lang),
    )


#: Pricing models that commit to a year.
_OF_A_YEAR = ("reserved-1y", "savings-plan-1y", "subscription-1y")


def _commitment(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Whether what leads with a commitment of a year costs less than what leads on demand."""
    bound = led_if(plan, catalog, purchase=_OF_A_YEAR)
    free = led_if(plan, catalog, purchase=("on-demand",))
    if bound is None or free is None:
        return worded("commitment_none", lang)
    share = 1.0 - total_usd(bound) / total_usd(free)
    fields = {"where": where_text(bound), "purchase": q.purchase_text(bound.purchase, lang), "cost": cost_of(bound, lang)}
    return worded("commitment" if share > 0.0 else "commitment_not", lang, **fields, share=q.percent_text(share), other=cost_of(free, lang))


def _api(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """The same tokens at an API; where a place is named also at those that do not say where they
    compute."""
    from rightfit.planner.plan import plan as plan_again

    found, is_bound = _api_of(plan), False
    if not found:
        wish = plan.workload.with_changes(country=(), residency=(), region=(), cloud=())
        found, is_bound = _api_of(plan_again(wish, catalog=catalog, top=1)), True
    if not found:
        return worded("api_none", lang)
    share, month = float(found["api_usd"]), plan.workload.task == "serve"
    money = q.money_text(share, told_currency.get())
    api = (f"每月 {money}" if lang == "zh" else f"{money} per month") if month else money
    key = "api_cheaper" if share < total_usd(leading(plan)) else "api_dearer"
    said = worded(key, lang, api=api, own=cost_of(leading(plan), lang), seller=str(found["price"]["provider"]))
    return said + (worded("api_anywhere", lang) if is_bound else "")


def _api_of(plan: Plan) -> Mapping[str, Any]:
    section = next((one for one in plan.sections if one.name == "api"), None)
    return section.content if section is not None and section.content.get("price") else {}


def _time(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """How long it takes on what leads, and on one GPU where that takes several."""
    best = leading(plan)
    told = [_time_text(best, lang)]
    if plan.workload.gpu and best.num_accelerators > 1 and plan.workload.num_gpus is None:
        one = led_if(plan, catalog, num_gpus=1)
        told = [*([_time_text(one, lang)] if one is not None else []), *told]
    told = [one for one in told if one]
    return ("；" if lang == "zh" else "; ").join(told) or worded("unknown", lang)


def _time_text(option: Option, lang: Lang) -> str:
    time = option.estimate.get("total_time_s")
    if not time:
        return ""
    cards = (
        worded("time_cards", lang, count=q.plain(option.num_accelerators), card=option.accelerator.name)
        if option.num_accelerators
        else "CPU "
    )
    return worded("time", lang, time=q.duration_text(time.mid, lang), cards=cards, where=where_text(option), cost=cost_of(option, lang))


def _cost(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    return way_text(leading(plan), lang) + offload_words(leading(plan), lang)


def _which(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    return worded("which", lang, where=where_text(leading(plan)), cost=cost_of(leading(plan), lang))


def _interrupted(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = leading(plan)
    risk = best.facts.get("risk")
    if best.purchase != "spot" or not risk:
        return worded("interrupted_not", lang, purchase=q.purchase_text(best.purchase, lang))
    low, high = (q.percent_text(float(best.facts[name])) for name in ("spot_low", "spot_high"))
    interval = q.duration_text(_interval(best), lang)
    return worded(
        "interrupted", lang, low=low, high=high, chance=q.percent_text(-math.expm1(-float(risk["interruptions"]))), interval=interval
    )


def _interval(option: Option) -> float:
    """How often to save [s]."""
    saved = option.data_path.get("checkpoint") or {}
    return min(float(saved.get("interval_s", math.inf)), float((option.facts.get("risk") or {}).get("interval_s") or math.inf))


def _checkpoint(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    saved = leading(plan).data_path.get("checkpoint")
    if not saved:
        return worded("unknown", lang)
    size, save = q.data_text(float(saved["bytes"])), q.duration_text(float(saved["save_s"]), lang)
    return worded("checkpoint", lang, interval=q.duration_text(_interval(leading(plan)), lang), size=size, save=save)


def _saving(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = leading(plan)
    way = "spot" if best.purchase == "on-demand" else "on-demand"
    other = (best.facts.get("price") or {}).get("otherwise") if way == "on-demand" else None
    if not other:
        return worded("saving_none", lang)
    share = 1.0 - total_usd(best) / float(other["total_usd"])
    purchase = q.purchase_text(other["purchase"], lang)
    return worded(
        "saving",
        lang,
        share=q.percent_text(share),
        cost=cost_of(best, lang),
        other=usd(float(other["total_usd"])),
        purchase=purchase,
    )


def _worth(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = leading(plan)
    other = led_if(plan, catalog, gpu=None)
    if other is None or total_usd(best) <= 1.001 * total_usd(other):
        return worded("worth_best", lang)
    ratio = total_usd(best) / total_usd(other)
    fields = {"where": where_text(best), "cards": best.accelerator.name, "cost": cost_of(best, lang), "ratio": f"{ratio:.3g}"}
    key = "worth_near" if ratio <= _NEAR else "worth_not"
    return worded(key, lang, other_where=where_text(other), card=other.accelerator.name or "CPU", other=cost_of(other, lang), **fields)


def _serverless(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Which is cheaper, the product that is named (else the cheapest) or the server."""
    section = next((section for section in plan.sections if section.name == "serverless"), None)
    if section is None:
        return worded("serverless_none", lang, cost=cost_of(leading(plan), lang))
    offers = section.content["offers"]
    named = [
        one for one in offers if re.search(rf"(?<![a-z]){re.escape(one['product'].split()[0])}(?![a-z])", question.words, re.IGNORECASE)
    ]
    priced = [one for one in named or offers if one["monthly_usd"] is not None]
    unpriced = worded("serverless_unpriced", lang, product=named[0]["product"]) if named and not priced else ""
    best = min(priced or [one for one in offers if one["monthly_usd"] is not None], key=lambda one: float(one["monthly_usd"]))
    key = "serverless_cheaper" if best["monthly_usd"] < total_usd(leading(plan)) else "serverless_dearer"
    fields = {"product": f"{q.provider_text(best['provider'], lang)} {best['product']}", "monthly": usd(float(best["monthly_usd"]))}
    return unpriced + worded(key, lang, cost=cost_of(leading(plan), lang), accelerator=best["accelerator"], **fields)


def _sellers(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Which clouds rent the GPU of the plan, the least price on demand of each."""
    from rightfit.explain.market_questions import clouds_of

    best = leading(plan)
    cards = tuple(dict.fromkeys(card for name in plan.workload.gpu for card in facts.match_accelerators(name))) or (best.accelerator.name,)
    if not best.num_accelerators:
        return worded("unknown", lang)
    found = [worded("seller", lang, cloud=q.provider_text(cloud, lang), price=usd(price)) for cloud, price in clouds_of(cards, catalog)]
    return ("、" if lang == "zh" else ", ").join(found[:_MANY_SELLERS]) or worded("unknown", lang)


def _then(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What serving the trained model costs beside training it, and both."""
    from rightfit.workload.model import Workload

    wishes = {"model": str(plan.workload.model), "task": "serve", "rate": "1/s"}
    served = best_of(Workload(**wishes), catalog)
    if served is None:
        return worded("then_none", lang)
    fields = {"cost": cost_of(leading(plan), lang), "where": where_text(served), "monthly": cost_of(served, lang)}
    return worded("then", lang, total=usd(total_usd(leading(plan)) + total_usd(served)), command=command_line(wishes), **fields)


def _chart(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    return "\n".join(decision_lines(plan, catalog, lang))


#: The answers by the names that data/beside.toml has for them.
COSTS: Mapping[str, Callable[[Question, Plan, Catalog, Lang], str]] = {
    "latency": _latency,
    "interrupted": _interrupted,
    "checkpoint": _checkpoint,
    "saving": _saving,
    "worth": _worth,
    "serverless": _serverless,
    "sellers": _sellers,
    "chart": _chart,
    "which": _which,
    "then": _then,
    "hourly": _hourly,
    "buying": _buying,
    "to_buy": _to_buy,
    "commitment": _commitment,
    "api": _api,
    "time": _time,
    "cost": _cost,
}
