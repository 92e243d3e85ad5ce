"""Hours of use that are stated are the month that is priced, ranked, held against the budget and
compared with an API."""

from typing import Any

import pytest

import rightfit
from rightfit.explain.sheets import Choice, plan_sheet
from rightfit.search.answer import Plan
from rightfit.units import HOURS_PER_MONTH

HOURS = 176
SERVICES: list[dict[str, Any]] = [
    {"model": "Qwen/Qwen2.5-7B-Instruct", "users": 30, "input_tokens": 800, "output_tokens": 300, "tpot": "50ms"},
    {"model": "BAAI/bge-reranker-v2-m3", "rate": "20/s", "input_tokens": 512, "latency": "200ms"},
    {"model": "meta-llama/Llama-3.3-70B-Instruct", "rate": "1/s", "purchase": "reserved-1y"},
    {"model": "openai/whisper-medium", "rate": "1/s"},
    {"model": "lightgbm", "rate": "100/s", "columns": 60, "trees": 500},
]


def served(wish: dict[str, Any], **more: Any) -> Plan:
    return rightfit.plan(**wish, task="serve", top=3, **more)


@pytest.mark.parametrize("wish", SERVICES, ids=lambda wish: wish["model"])
def test_the_month_is_the_hours_of_use_that_are_stated(wish: dict[str, Any]) -> None:
    found = served(wish, office_hours=HOURS)
    assert found.options
    for option in found.options:
        hours = option.cost.terms["servers_usd"] / (option.facts["always_usd"] - option.cost.total_usd + option.cost.terms["servers_usd"])
        owed = option.facts["billing_minimum_s"] >= HOURS_PER_MONTH * 3600
        assert hours == pytest.approx(1.0 if owed else HOURS / HOURS_PER_MONTH)
        assert option.cost.monthly_usd == option.cost.total_usd
    best = found.options[0]
    bill = next(section for section in found.sections if section.name == "bill").content
    assert sum(line["usd"] for line in bill["lines"] if not line["beside"]) == pytest.approx(best.cost.total_usd, rel=0.01)
    assert bill["month"]["office_usd"] == pytest.approx(best.cost.total_usd, rel=0.01)
    assert bill["month"]["month_usd"] == pytest.approx(best.facts["always_usd"], rel=0.01)
    for lang in ("en", "zh"):
        choice = next(part for part in plan_sheet(found, lang) if isinstance(part, Choice))
        assert f"{HOURS}" in " ".join(choice.lines)


@pytest.mark.parametrize("wish", SERVICES, ids=lambda wish: wish["model"])
def test_all_hours_of_a_month_are_what_is_taken_without_them(wish: dict[str, Any]) -> None:
    plain, stated = served(wish).options[0], served(wish, office_hours=HOURS_PER_MONTH).options[0]
    assert stated.cost.total_usd == pytest.approx(plain.cost.total_usd)
    assert plain.facts["always_usd"] is None


def test_a_budget_is_held_against_the_hours_of_use() -> None:
    chat = SERVICES[0]
    assert not served(chat, budget="300usd").options
    best = served(chat, budget="300usd", office_hours=HOURS).options[0]
    assert best.cost.total_usd < 300


def test_an_api_is_compared_over_the_same_hours() -> None:
    chat = SERVICES[0]
    always, stated = (
        next(section.reasons[0].params for section in plan.sections if section.name == "api")
        for plan in (served(chat), served(chat, office_hours=HOURS))
    )
    assert stated["api_usd"] == pytest.approx(always["api_usd"] * HOURS / HOURS_PER_MONTH, rel=0.05)
    assert stated["full_usd_per_million"] == pytest.approx(always["full_usd_per_million"], rel=0.1)
