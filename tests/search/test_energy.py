"""Energy and CO2 of a plan: formulas by hand, sources of the data, and a section in
every kind of plan."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit import facts
from rightfit.explain.reasons import render
from rightfit.physics import money
from rightfit.planner.plan import default_catalog
from rightfit.search.confirm import buildings, grids

KINDS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parents[1] / "data" / "options.toml").read_text(encoding="utf-8"))["kinds"]
OF_EACH_FAMILY = ("language/adapters", "samples/pictures", "serving/service", "passes/text", "tables/trees")


def test_eight_cards_for_a_day() -> None:
    one = np.ones(1)
    watts = money.server_w(
        num_cards=8 * one,
        card_w=700 * one,
        card_use=0.8 * one,
        vcpus=192 * one,
        memory_bytes=2e12 * one,
        vcpu_w=2.1,
        memory_w_per_byte=3.92e-10,
    )
    assert watts[0] == pytest.approx(8 * 560 + 403.2 + 784)
    kwh = money.energy_kwh(watts, servers=one, time_s=86400 * one, pue=1.2 * one)
    assert kwh[0] == pytest.approx(watts[0] * 24 * 1.2 / 1000)
    assert money.co2_kg(kwh, grams_per_kwh=400 * one)[0] == pytest.approx(kwh[0] * 0.4)


def test_every_country_of_the_catalog_has_a_grid_with_source_and_year() -> None:
    missing = {region.country for region in default_catalog().regions() if region.country} - set(grids())
    assert not missing
    for row in (*grids().values(), *buildings().values()):
        assert row["source"]
        assert 2015 <= int(row["year"]) <= 2026
        datetime.date.fromisoformat(row["retrieved"])
    assert all(0 < float(row["g_per_kwh"]) < 1200 for row in grids().values())
    assert all(1.0 < float(row["pue"]) < float(facts.coefficients("energy")["pue"]) for row in buildings().values())


@pytest.mark.parametrize("kind", OF_EACH_FAMILY)
def test_every_kind_of_plan_tells_energy_and_co2(kind: str) -> None:
    plan = rightfit.plan(**KINDS[kind], top=1)
    assert plan.best is not None
    section = next(section for section in plan.sections if section.name == "energy")
    found = section.content
    assert found["period"] == ("month" if KINDS[kind]["task"] == "serve" else "run")
    assert 0 < found["energy_kwh"]["low80"] < found["energy_kwh"]["mid"] < found["energy_kwh"]["high80"]
    seconds = 730 * 3600 if found["period"] == "month" else plan.best.estimate["total_time_s"].mid
    expected = found["server_w"] / 1000 * plan.best.nodes * seconds / 3600 * found["pue"]
    assert found["energy_kwh"]["mid"] == pytest.approx(expected)
    assert found["co2_kg"]["mid"] == pytest.approx(expected * found["grid_g_per_kwh"] / 1000)
    assert (found["card_use"] is None) == (plan.best.accelerator.count_per_node == 0)
    for lang in ("en", "zh"):
        told = [render(reason, lang) for reason in section.reasons]  # type: ignore[arg-type]
        assert len(told) == 2
        assert not [line for line in told if "energy_" in line or "{" in line]


def test_a_cleaner_grid_emits_less_for_the_same_energy() -> None:
    wish = {**KINDS["language/adapters"], "purchase": "on-demand"}
    sweden, india = (rightfit.plan(**{**wish, "gpu": "T4", "country": country}, top=1) for country in ("SE", "IN"))
    north, south = (next(section for section in plan.sections if section.name == "energy").content for plan in (sweden, india))
    assert north["country"] == "SE"
    assert north["co2_kg"]["mid"] / north["energy_kwh"]["mid"] < 0.1 * south["co2_kg"]["mid"] / south["energy_kwh"]["mid"]


def test_verbose_says_it_and_the_short_answer_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    from rightfit.cli.run import run as main

    words = ["plan", "gpt2", "--task", "finetune", "--data", "1Mtok", "--lang", "en"]
    main([*words, "--verbose"])
    assert "CO2 on the grid of" in capsys.readouterr().out
    main(words)
    assert "CO2" not in capsys.readouterr().out
