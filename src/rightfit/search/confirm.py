"""The options that lead, worked out in full: how surely each fits and keeps deadline and budget,
and none shown that turns out less sure than was asked for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimation.figures import probability_of, value_at
from rightfit.physics import money
from rightfit.search.answer import Assumption, Option, Reason, Section
from rightfit.search.constraints import Filters
from rightfit.search.rank import Ranking, Row
from rightfit.units import HOURS_PER_MONTH, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from rightfit.search.constraints import SearchResult
    from rightfit.search.family import Family


#: How often the leading rows are worked out anew before what is left is shown as it is.
ROUNDS = 8
Build = Callable[[Any, Sequence[Row], int], tuple[Option, ...]]


def with_probability(option: Option, wanted: Filters) -> Option:
    """An option with the probabilities (0 to 1) that it fits and keeps deadline and budget; None
    where nothing was asked or is known."""
    return dataclasses.replace(
        option, probability={"fits": fits(option), "deadline": in_time(option, wanted), "budget": in_budget(option, wanted)}
    )


def fits(option: Option) -> float | None:
    """Probability that the memory holds the job."""
    known, peak = option.facts.get("fit_probability"), option.estimate.get("peak_memory_bytes")
    if known is not None or peak is None or not option.facts.get("capacity_bytes"):
        return None if known is None else float(known)
    return probability_of(peak, float(option.facts["capacity_bytes"]))


def in_time(option: Option, wanted: Filters) -> float | None:
    """Probability that the job ends by the deadline."""
    if wanted.deadline_s is None:
        return None
    known = option.facts.get("deadline_probability")
    return float(known) if known is not None else probability_of(option.estimate["total_time_s"], wanted.deadline_s)


def in_budget(option: Option, wanted: Filters) -> float | None:
    """Probability that the bill (of a job with a budget by the month: of its worst month) stays
    within the budget."""
    if wanted.budget_usd is None:
        return None
    is_capped = wanted.budget_per_month and "total_time_s" in option.estimate
    worst = money.worst_month_usd(np.array([np.inf]), hourly_usd=np.array([option.cost.hourly_usd]))[0]
    return 1.0 if is_capped and worst <= wanted.budget_usd else probability_of(option.cost.total, wanted.budget_usd)


def options_of(family: Family[Any], found: SearchResult, rows: Sequence[Row], num_full: int) -> tuple[Option, ...]:
    """Rows as options with their probabilities, and the fields of the wish that nobody stated."""
    assumed = tuple(one.field for one in family.assumptions(found))
    built = (with_probability(option, found.filters) for option in family.options(found, rows, num_full))
    return tuple(dataclasses.replace(option, facts={**option.facts, "assumed": assumed}) for option in built)


def confirmed(family: Family[Any], found: Any, top: int) -> tuple[Any, Ranking]:
    """The search and its ranking when every row of the top holds at the wanted probability: rows
    that do not, worked out in full, are held back and the ranking is made anew."""
    found, ranking = family.confirm(found, top)
    for _ in range(ROUNDS if found.filters.is_limited and "total_usd" in family.told(found) else 0):
        short = list(_short(family, found, ranking.top))
        if not short:
            break
        for cell, criterion, had in short:
            hold_back(found, cell, criterion, had)
        found, ranking = family.confirm(dataclasses.replace(found, bits=found.failures.bits()), top)
    return found, ranking


def _short(family: Family[Any], found: SearchResult, rows: Sequence[Row]) -> Any:
    """The rows that miss a limit at the wanted probability: cell, criterion, and what they have."""
    for row, option in zip(rows, options_of(family, found, rows, len(rows)), strict=True):
        figures = {"deadline": option.estimate.get("total_time_s"), "budget": option.cost.total}
        for criterion, figure in figures.items():
            chance = option.probability[criterion]
            if chance is not None and figure is not None and chance < found.filters.confidence - 1e-3:
                yield (row.offer, row.node), criterion, value_at(figure, found.filters.confidence)


def hold_back(found: SearchResult, cell: tuple[int, int], criterion: str, had: float) -> None:
    """Let a row fail a limit, in place: with what it has at the wanted probability, and never
    less than is needed."""
    failures = found.failures
    fails = np.array(np.broadcast_to(failures.fails[criterion], failures.shape))
    values = np.array(np.broadcast_to(failures.had[criterion], failures.shape))
    needed = float(np.broadcast_to(failures.needed[criterion], failures.shape)[cell])
    fails[cell], values[cell] = True, max(had, values[cell], needed * (1.0 + 1e-6))
    failures.fails[criterion], failures.had[criterion] = fails, values


def assumed_confidence(found: SearchResult) -> tuple[Assumption, ...]:
    """The usual probability, where a limit was given and none was named for it."""
    if not found.filters.is_limited or found.workload.confidence:
        return ()
    value = f"{found.filters.confidence * 100:g} %"
    return (Assumption("confidence", value, Reason("assumed_confidence", {"value": value})),)


def dearer_but_certain(found: SearchResult, best: Option | None) -> tuple[Reason, ...]:
    """What certainty costs: the best row that keeps every limit almost surely, where the choice
    does not and little more buys it."""
    usual = facts.coefficients("planning")
    sure, told = found.failures.sure, usual["certainty_told"]
    asked = [chance for name, chance in best.probability.items() if name != "fits" and chance is not None] if best else []
    if best is None or sure is None or not asked or 1.0 - min(asked) < 2.0 * (1.0 - told):  # the doubt is at least halved
        return ()
    holds = found.bits == 0
    wanted = found.filters
    if wanted.deadline_s is not None:
        holds &= sure.time_s(told) <= wanted.deadline_s
    if wanted.budget_usd is not None:
        holds &= sure.usd(told) <= wanted.budget_usd
    from rightfit.search.advice import cheapest_of, effect_of

    at = cheapest_of(found, holds)
    if at is None or not best.cost.total_usd < found.bill.total_usd[at] <= usual["certainty_worth"] * best.cost.total_usd:
        return ()
    more = float(found.bill.total_usd[at]) / best.cost.total_usd - 1.0
    return (
        Reason("certainty", {**effect_of(found, at, best), "probability": min(asked), "more_share": more, "certain_probability": told}),
    )


# ---- Energy and CO2 of the first option: what its servers draw, for how long, in which
# building, on which grid.


@functools.cache
def grids() -> dict[str, dict[str, str]]:
    """Country -> how much CO2 its grid emits, with year and source
    (facts/data/grid_intensity.csv)."""
    return {row["country"]: row for row in facts.table("grid_intensity")}


@functools.cache
def buildings() -> dict[str, dict[str, str]]:
    """Seller -> PUE that it publishes, with year and source (facts/data/power_usage.csv)."""
    return {row["provider"]: row for row in facts.table("power_usage")}


def board_w(name: str) -> float:
    """Board power of an accelerator [W]; 0 where its maker does not say, NaN never."""
    try:
        return float(facts.accelerator(name).tdp_w) if name else 0.0
    except RightfitError:
        return 0.0


def energy_sections(options: Sequence[Option]) -> tuple[Section, ...]:
    """Energy and CO2 of the first option, of the run or of a month of service; nothing where the
    power of its cards is not known."""
    if not options:
        return ()
    best = options[0]
    cards = best.accelerator.count_per_node
    card_w = board_w(best.accelerator.name) if cards else 0.0
    if cards and not card_w:
        return ()
    usual, time = facts.coefficients("energy"), best.estimate.get("total_time_s")
    use = usual["card_use_train" if best.time_terms and "step_s" in best.estimate else "card_use_serve"]
    building = buildings().get(best.provider)
    pue = float(building["pue"]) if building else usual["pue"]
    seconds = (time.low80, time.mid, time.high80) if time else (best.facts.get("month_h", HOURS_PER_MONTH) * SECONDS_PER_HOUR,) * 3
    power = [_power_w(best, card_w, use * part) for part in (usual["card_use_low"], 1.0, usual["card_use_high"])]
    kwh = [
        float(money.energy_kwh(np.array([watt]), servers=np.array([best.nodes]), time_s=np.array([second]), pue=np.array([pue]))[0])
        for watt, second in zip(power, seconds, strict=True)
    ]
    period = "run" if time else "month"
    content: dict[str, Any] = {
        "period": period,
        "server_w": power[1],
        "card_w": card_w,
        "card_use": use if cards else None,
        "pue": pue,
        "pue_source": building["source"] if building else str(facts.coefficient_entries("energy")["pue"]["source"]),
        "energy_kwh": _figure(kwh),
        **_emissions(best, kwh),
    }
    return (Section("energy", content, _reasons(content)),)


def _power_w(option: Option, card_w: float, use: float) -> float:
    usual = facts.coefficients("energy")
    known = [value if value == value else 0.0 for value in (option.vcpus, option.memory_bytes)]
    vcpus, memory = (np.array([value]) for value in known)
    return float(
        money.server_w(
            num_cards=np.array([option.accelerator.count_per_node]),
            card_w=np.array([card_w]),
            card_use=np.array([min(use, 1.0)]),
            vcpus=vcpus,
            memory_bytes=memory,
            vcpu_w=usual["vcpu_w"],
            memory_w_per_byte=usual["memory_w_per_byte"],
        )[0]
    )


def _figure(values: Sequence[float]) -> dict[str, float]:
    return {"low80": values[0], "mid": values[1], "high80": values[2]}


def _emissions(option: Option, kwh: Sequence[float]) -> dict[str, Any]:
    """CO2 by the country's grid; its name and year; all None where the country is not known."""
    country = str(option.facts.get("country") or "")
    grid = grids().get(country)
    if grid is None:
        return {"country": country, "grid_g_per_kwh": None, "grid_year": None, "grid_source": None, "co2_kg": None}
    intensity = np.array([float(grid["g_per_kwh"])])
    kilograms = [float(money.co2_kg(np.array([value]), grams_per_kwh=intensity)[0]) for value in kwh]
    return {
        "country": country,
        "grid_g_per_kwh": float(intensity[0]),
        "grid_year": int(grid["year"]),
        "grid_source": grid["source"],
        "co2_kg": _figure(kilograms),
    }


def _reasons(content: Mapping[str, Any]) -> tuple[Reason, ...]:
    kwh, kilograms = content["energy_kwh"], content["co2_kg"]
    told = {
        "kwh": kwh["mid"],
        "kwh_low": kwh["low80"],
        "kwh_high": kwh["high80"],
        "server_w": content["server_w"],
        "pue": content["pue"],
        "country": content["country"] or "unknown",
    }
    if kilograms is None:
        return (Reason(f"energy_{content['period']}", told), Reason("energy_no_grid", told))
    told |= {"kg": kilograms["mid"], "kg_low": kilograms["low80"], "kg_high": kilograms["high80"]}
    told |= {"grams": content["grid_g_per_kwh"], "year": str(content["grid_year"])}
    return (Reason(f"energy_{content['period']}", told), Reason("energy_co2", told))
