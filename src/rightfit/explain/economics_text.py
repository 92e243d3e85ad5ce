"""Words of the other ways to pay for a service: fields of their sentences, and the sections of a plan as lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain.load_text import LOAD_SECTIONS
from rightfit.explain.messages import Lang, join, say
from rightfit.explain.reasons import where_text
from rightfit.search.answer import Plan, Reason

#: Sections that a short answer leaves to --verbose.
_DETAILS = frozenset({"formats"})
#: Sections that are shown as tables of their own.
_TABLES = ("buy", "bill", "staged", "energy", "memory")


def economics_fields(params: Mapping[str, Any], lang: Lang, *, currency: str) -> dict[str, Any]:
    """Fields that the sentences on APIs and serverless want, from a reason's parameters; texts are not formatted again."""
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
