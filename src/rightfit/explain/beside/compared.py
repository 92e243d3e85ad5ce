"""Ways between which a wish asks to choose, held against each other: a row each, and the choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.choices import Way
from rightfit.explain.beside.in_words import cost_of, total_usd, usd
from rightfit.explain.beside.questions import worded
from rightfit.explain.trials import where_text
from rightfit.market.sellers import DEFAULT_TIER
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option


def peak_bytes(option: Option) -> float:
    """Memory that it takes of each card [bytes]."""
    return float(option.estimate["peak_memory_bytes"].mid) if "peak_memory_bytes" in option.estimate else math.inf


def duration_s(option: Option) -> float:
    """How long it takes [s]; what a service costs, which ends at no time."""
    time = option.estimate.get("total_time_s")
    return float(time.mid) if time else total_usd(option)


def _both(option: Option) -> float:
    """Cost and time in one, as plans with this objective are ranked."""
    import numpy as np

    from rightfit.search.rank import scores

    return float(scores("balanced", total_usd=np.array([total_usd(option)]), total_s=np.array([duration_s(option)]))[0])


OBJECTIVES: Mapping[str, Callable[[Any], float]] = {"cost": total_usd, "time": duration_s, "balanced": _both}


def currency_of(ways: Sequence[Way]) -> str:
    from rightfit.workload.model import Workload

    try:
        return Workload(**{name: value for name, value in ways[0].wishes.items() if name != "have"}).currency
    except RightfitError:
        return "usd"


def time_ratio(ways: Sequence[Way], lang: Lang) -> str:
    """How many times as long one way takes as another, the quickest first."""
    timed = sorted((duration_s(way.option), way.name) for way in ways if way.option is not None)
    (least, quick), (most, slow) = timed[0], timed[-1]
    times = {"quick_time": q.duration_text(least, lang), "slow_time": q.duration_text(most, lang)}
    return worded("time_ratio", lang, quick=quick, slow=slow, ratio=f"{most / least:.2g}", **times)


def told_alike(ways: list[Way], catalog: Catalog) -> list[Way]:
    """Ways under the same sellers and one pricing model: where one is only at sellers that plans
    leave out by themselves, all are planned at every seller; where one leads on spot and another,
    as cheap jobs do, on demand, all on demand, else on spot. Otherwise these are compared."""
    tiers = {way.option.facts["seller_tier"] > DEFAULT_TIER for way in ways if way.option is not None and way.option.purchase != "owned"}
    if len(tiers) > 1 and not any(way.wishes.get(name) for way in ways for name in ("sellers", "cloud")):
        ways = _under(ways, catalog, sellers="all") or ways
    paid = {way.option.purchase for way in ways if way.option is not None}
    if paid != {"on-demand", "spot"} or any(way.wishes.get("purchase") for way in ways):
        return ways
    return _under(ways, catalog, purchase="on-demand") or _under(ways, catalog, purchase="spot") or ways


def _under(ways: list[Way], catalog: Catalog, **told: str) -> list[Way]:
    """All ways with an option told; [] where one that could be done cannot be then."""
    alike = [way.under(told, catalog) for way in ways]
    return alike if all(one.option is not None for one, way in zip(alike, ways, strict=True) if way.option is not None) else []


def compared_lines(ways: Sequence[Way], measure: Callable[[Option], float], why: Sequence[Mapping[Lang, str]], lang: Lang) -> list[str]:
    """The choice, then a row for each way, the one with least cost or memory first; `why`: what
    excludes each that cannot be done."""
    names = (" 还是 " if lang == "zh" else " or ").join(way.name for way in ways)
    costs = [measure(way.option) for way in ways if way.option is not None]
    by_measure: Mapping[Callable[[Option], float], str] = {
        peak_bytes: "compared_memory_choice",
        duration_s: "compared_time_choice",
        _both: "compared_both_choice",
    }
    key = by_measure.get(measure, "compared_choice" if len(costs) == 2 else "compared_first_choice")
    better = ways[0].name
    if len(costs) < 2:
        choice = worded("compared_only" if costs else "compared_none", lang, better=better)
    elif costs[0] >= 0.995 * costs[1]:
        choice = worded("compared_same", lang, better=better)
    else:
        saved = usd(costs[1] - costs[0]) if measure is total_usd else ""
        choice = worded(key, lang, better=better, ratio=q.percent_text(costs[0] / costs[1]), saved=saved)
    return [
        worded("compared_head", lang, names=names, choice=choice),
        *(_way_row(way, lang, why=told.get(lang, "")) for way, told in zip(ways, why, strict=True)),
    ]


def _way_row(way: Way, lang: Lang, *, why: str) -> str:
    option, command = way.option, f"`{way.command}`"
    if option is None:
        return worded("compared_row_none", lang, name=way.name, why=why, command=command)
    time, peak = (option.estimate.get(key) for key in ("total_time_s", "peak_memory_bytes"))
    count = option.num_accelerators
    fields = {
        "cards": worded("compared_cards", lang, count=q.plain(count), card=option.accelerator.name) if count else "",
        "time": worded("compared_time", lang, time=q.duration_text(time.mid, lang)) if time else "",
        "memory": worded("compared_memory", lang, memory=q.memory_text(peak.mid)) if peak and option.num_accelerators else "",
    }
    is_own = option.purchase == "owned"
    where = (
        worded("own_machine", lang)
        if is_own
        else worded("compared_where", lang, where=where_text(option), purchase=q.purchase_text(option.purchase, lang))
    )
    return worded("compared_row", lang, name=way.name, where=where, cost=cost_of(option, lang), command=command, **fields)
