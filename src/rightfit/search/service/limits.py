"""Limits of latency that nobody stated and that decide which servers are rented: what would be
without them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.rank import first_row
from rightfit.search.service.found import ServingResult
from rightfit.search.service.grid import capacity
from rightfit.search.service.options import build_serving_options
from rightfit.search.service.refine import refined
from rightfit.search.service.sizing import rejudged, size
from rightfit.search.service.wish import LATENCY_LIMITS, Limits

#: What is saved by at least this share without a limit was decided by it.
DECIDES = 0.1


def limits_section(search_result: ServingResult, options: tuple[Option, ...]) -> Section | None:
    """Each assumed limit without which the service would cost a tenth less, with what would be
    rented then; None where none decides."""
    if not options or search_result.wish.is_batch:
        return None
    found = tuple(_deciding(search_result, options[0].cost.total_usd))
    return Section("limits", {"limits": [dict(one.params) for one in found]}, found) if found else None


def near_section(search_result: ServingResult, options: tuple[Option, ...]) -> Section | None:
    """What misses one stated limit of latency by little and saves clearly, the cheapest first; None
    where nothing does."""
    if not options or search_result.wish.is_batch:
        return None
    found = sorted(_near(search_result, options[0]), key=lambda one: float(one.params["monthly_usd"]))
    return Section("near", {"near": [dict(one.params) for one in found]}, tuple(found)) if found else None


def _near(search_result: ServingResult, best: Option) -> Iterator[Reason]:
    wish, usual = search_result.wish, facts.coefficients("planning")
    most_usd = (1.0 - usual["near_saves"]) * best.cost.total_usd
    follows = wish.modality == "audio" and not wish.workload.audio_length_s  # pieces grow with the limit: nothing is near
    for name in () if follows else LATENCY_LIMITS:
        limit_s = getattr(wish.workload, f"{name}_s")
        if limit_s is None:
            continue
        near = relaxed(search_result, name, limit_s * (1.0 + usual["near_share"]))
        if _first_usd(near) > most_usd:
            continue
        near, ranking = refined(near, top=1)
        option = build_serving_options(near, ranking.top[:1])[0] if ranking.top else None
        had = option.estimate.get(f"{name}_s") if option else None
        if option and had and option.cost.total_usd <= most_usd:
            told: dict[str, Any] = {one: getattr(option, one) for one in ("provider", "instance_type", "nodes")}
            told |= {"monthly_usd": option.cost.total_usd, "saving_usd": best.cost.total_usd - option.cost.total_usd}
            yield Reason("serve_near", {"metric": name, "limit_s": limit_s, "value_s": had.mid, **told})


def _deciding(search_result: ServingResult, best_usd: float) -> Iterator[Reason]:
    wish = search_result.wish
    for name in LATENCY_LIMITS:
        limit = getattr(wish.limits, f"{name}_s")
        if getattr(wish.workload, f"{name}_s") is None and np.isfinite(limit):
            without = relaxed(search_result, name)
            if _first_usd(without) > (1.0 - DECIDES) * best_usd:
                continue
            without, ranking = refined(without, top=1)  # by the law that the options are held to
            if not ranking.top:
                continue
            row = ranking.top[0]
            place = np.array([row.offer]), np.array([row.node])
            if float(without.bill.total_usd[row.offer, row.node]) <= (1.0 - DECIDES) * best_usd:
                offer = without.market.offers.row(row.offer)
                told: dict[str, Any] = {one: offer[one] for one in ("provider", "instance_type")}
                told["nodes"] = int(without.num_servers(*place)[0])
                usd = float(without.bill.total_usd[row.offer, row.node])
                yield Reason("serve_limit_decides", {"metric": name, "limit_s": limit, "monthly_usd": usd, **told})


def _first_usd(search_result: ServingResult) -> float:
    """What the first row counts as [USD]; infinite where there is none, or where it is not known
    how long requests would take."""
    able = search_result.bits == 0
    row = first_row(search_result, able) if np.isfinite(search_result.bill.total_s[able]).all() else None
    return float("inf") if row is None else float(search_result.bill.total_usd[row.offer, row.node])


def relaxed(search_result: ServingResult, name: str, limit_s: float = float("inf")) -> ServingResult:
    """The search without one limit of latency, or with a longer one, sized, priced and judged
    again."""
    changed: dict[str, float] = {f"{name}_s": limit_s}
    wish = dataclasses.replace(search_result.wish, limits=dataclasses.replace(search_result.wish.limits, **changed))
    return _sized(dataclasses.replace(search_result, wish=wish), wish.limits)


#: So many times the limits the quick law may exceed for the queue model to be asked, where it
#: refuses all.
GENEROUS = 2.0


def second_look(search_result: ServingResult) -> ServingResult:
    """The search in which nothing keeps the limits of latency by the quick law, with what keeps
    them by the queue model; the same where nothing does, or something does already."""
    wish = search_result.wish
    if (search_result.bits == 0).any() or wish.is_batch or not wish.generates or not wish.rate_per_s or wish.load is None:
        return search_result
    wider: dict[str, float] = {f"{name}_s": GENEROUS * getattr(wish.limits, f"{name}_s") for name in LATENCY_LIMITS}
    generous = _sized(search_result, dataclasses.replace(wish.limits, **wider))
    if not (generous.bits == 0).any():
        return search_result
    sure, ranking = refined(generous, top=1)
    is_sure = [sure.candidate(row.offer, row.node) in sure.confirmed.kept for row in ranking.top]
    return sure if any(is_sure) else search_result


def _sized(search_result: ServingResult, limits: Limits) -> ServingResult:
    """The search sized by the quick law for some limits, priced and judged by its own."""
    wish, space = search_result.wish, search_result.space
    able = capacity(search_result.grid, limits)
    able = dataclasses.replace(able, rate_per_s=able.rate_per_s * space.fits, users=able.users * space.fits)
    parts = (search_result.fleet, space, search_result.grid, able, search_result.column)
    return rejudged(search_result, size(wish, *parts, num_columns=len(search_result.formats)), able=able)
