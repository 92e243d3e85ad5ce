"""Deadlines and budgets hold at the probability asked for, in every family of jobs; certainty has a
price that is told."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit.errors import InputError
from rightfit.estimation.figures import Figure, probability_of, value_at
from rightfit.search.answer import Plan
from rightfit.search.sense import as_good_as

#: Small wishes of every family, none of them with a limit.
KINDS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parents[1] / "data" / "options.toml").read_text(encoding="utf-8"))["kinds"]
JOBS = [name for name, wish in KINDS.items() if wish.get("task") != "serve"]


@functools.cache
def planned(name: str) -> Plan:
    return rightfit.plan(**KINDS[name], top=5)


@functools.cache
def in_haste(name: str, confidence: float) -> Plan:
    """The wish with a deadline that its best option keeps with an even chance."""
    return rightfit.plan(**KINDS[name], deadline=even_deadline(name), confidence=confidence, top=5)


def even_deadline(name: str) -> str:
    best = planned(name).best
    assert best is not None
    return f"{best.estimate['total_time_s'].mid * 1.001:.3f}s"


@pytest.mark.parametrize("name", JOBS)
def test_a_deadline_holds_at_the_probability_asked_for(name: str) -> None:
    for confidence in (90.0, 97.0):
        for option in in_haste(name, confidence).options:
            assert option.probability["deadline"] >= confidence / 100.0 - 2e-3, (option.provider, option.instance_type)


@pytest.mark.parametrize("name", JOBS)
def test_without_confidence_the_even_chance_leads(name: str) -> None:
    """Or one that is as good in money and far surer, where the sums are small."""
    best, patient = in_haste(name, 50.0).best, planned(name).best
    assert best is not None
    assert patient is not None
    usd, least = best.cost.total_usd, patient.cost.total_usd
    is_surer = best.probability["deadline"] >= 0.9
    assert usd <= least * 1.02 or (is_surer and as_good_as(np.array(usd), least, task="finetune"))


@pytest.mark.parametrize("name", KINDS)
def test_a_budget_holds_at_the_probability_asked_for(name: str) -> None:
    best = planned(name).best
    assert best is not None
    month = "/month" if KINDS[name].get("task") == "serve" else ""
    plan = rightfit.plan(**KINDS[name], budget=f"{max(best.cost.total_usd * 1.05, 0.01):.4f}usd{month}", top=5)
    for option in plan.options:
        assert option.probability["budget"] >= 0.9 - 2e-3
        assert option.probability["deadline"] is None


def test_what_is_refused_says_what_it_may_take_at_that_probability() -> None:
    wish: dict[str, Any] = {"model": "7B", "method": "qlora", "data": "500Mtok", "deadline": "5h", "cloud": "aws"}
    needed = {c: next(one for one in rightfit.plan(**wish, confidence=c).rejected if one.criterion == "deadline") for c in (50, 99)}
    assert needed[99].count >= needed[50].count


def test_certainty_has_a_price() -> None:
    plans = [in_haste(name, 50.0) for name in JOBS]
    told = [reason for plan in plans for reason in plan.advice if reason.key == "certainty"]
    assert told
    for reason in told:
        assert 0 < reason.params["more_share"] <= 0.25
        assert reason.params["probability"] < reason.params["certain_probability"]


def test_the_usual_confidence_is_an_assumption_where_something_is_to_hold() -> None:
    plain = rightfit.plan(model="7B", method="qlora", data="5Mtok")
    limited = rightfit.plan(model="7B", method="qlora", data="5Mtok", deadline="24h")
    assert [any(one.field == "confidence" for one in plan.assumptions) for plan in (plain, limited)] == [False, True]


@pytest.mark.parametrize("wish", [{"data": "5Mtok"}, {"task": "serve"}])
def test_confidence_in_nothing_is_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="confidence: of what") as error:
        rightfit.plan(model="7B", confidence=95, **wish)
    assert error.value.field == "confidence"


def test_probability_and_value_of_a_figure_are_inverse() -> None:
    figure = Figure(100.0, low80=80.0, high80=130.0, low95=70.0, high95=160.0)
    for probability in (0.02, 0.1, 0.5, 0.9, 0.95, 0.99):
        assert probability_of(figure, value_at(figure, probability)) == pytest.approx(probability, abs=1e-3)
    assert probability_of(Figure(5.0, 5.0, 5.0, 5.0, 5.0), 5.0) == 1.0
    assert probability_of(Figure(5.0, 5.0, 5.0, 5.0, 5.0), 4.9) == 0.0
