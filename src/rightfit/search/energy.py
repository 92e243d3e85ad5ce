"""Energy and CO2 of the first option: what its servers draw, for how long, in which building, on which grid."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.physics import energy
from rightfit.search.answer import Option, Reason, Section
from rightfit.units import SECONDS_PER_MONTH


@functools.cache
def grids() -> dict[str, dict[str, str]]:
    """Country -> how much CO2 its grid emits, with year and source (facts/data/grid_intensity.csv)."""
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
    """Energy and CO2 of the first option, of the run or of a month of service; nothing where the power of its cards is not known."""
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
    seconds = (time.low80, time.mid, time.high80) if time else (SECONDS_PER_MONTH,) * 3
    power = [_power_w(best, card_w, use * part) for part in (usual["card_use_low"], 1.0, usual["card_use_high"])]
    kwh = [
        float(energy.energy_kwh(np.array([watt]), servers=np.array([best.nodes]), time_s=np.array([second]), pue=np.array([pue]))[0])
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
        energy.server_w(
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
    kilograms = [float(energy.co2_kg(np.array([value]), grams_per_kwh=intensity)[0]) for value in kwh]
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
