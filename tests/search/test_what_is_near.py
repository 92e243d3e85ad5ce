"""What lies beside the first line is said: much faster for a little more money, a limit missed by
little, half the price that is seldom free."""

from __future__ import annotations

from typing import Any

import pytest
from tests.search.test_sense import asked, wishes

import rightfit
from rightfit import facts
from rightfit.cli.output import View, text_of
from rightfit.cli.plan_view import short_parts
from rightfit.search.answer import Option

NEAR: list[dict[str, Any]] = [
    {"model": "openai/whisper-large-v3", "task": "serve", "users": 20, "latency": "2s", "audio_length": "12s"},
    {
        "model": "meta-llama/Llama-3.1-70B-Instruct",
        "task": "serve",
        "rate": "4/s",
        "ttft": "800ms",
        "tpot": "40ms",
        "purchase": "on-demand",
    },
    {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "rate": "5/s", "tpot": "25ms"},
]


def waited_s(option: Option) -> float:
    figure = option.estimate.get("total_time_s") or option.estimate.get("latency_s")
    return figure.mid if figure else float("inf")


def said(plan: rightfit.Plan, lang: str) -> str:
    view = View(lang=lang)
    return text_of(short_parts(plan, view), view)


def is_alike(one: Option, best: Option) -> bool:
    """Whether nothing but money and time speaks for or against an option."""
    marks = [
        (o.purchase == "spot", o.nodes, facts.accelerators()[o.accelerator.name].vendor if o.accelerator.name else "", o.facts.get("arch"))
        for o in (one, best)
    ]
    return marks[0] == marks[1] and not one.facts["price_is_beyond"] and not one.facts["is_estimate"]


@pytest.mark.parametrize("wish", [*wishes(30), *wishes(12, seed=9)], ids=lambda wish: "-".join(str(value) for value in wish.values()))
def test_half_the_time_for_a_tenth_more_is_named(wish: dict[str, Any]) -> None:
    plan = asked(wish)
    if not plan.options:
        return
    best, serves = plan.options[0], plan.workload.task == "serve"
    near = [
        one
        for one in (*plan.options[1:], *(() if serves else plan.pareto))
        if is_alike(one, best)
        and best.cost.total_usd <= one.cost.total_usd <= 1.1 * best.cost.total_usd
        and waited_s(one) <= 0.4 * waited_s(best)
        and waited_s(best) - waited_s(one) >= (1.0 if serves else 1800.0)
    ]
    told = [section for section in plan.sections if section.name == "quicker"]
    assert bool(told) >= bool(near)
    for section in told:
        assert section.content["times"] >= 2.0
        assert 0.0 <= section.content["more_share"] <= 0.5
        for lang in ("en", "zh"):
            assert section.content["instance_type"] in said(plan, lang)


@pytest.mark.parametrize("wish", NEAR, ids=lambda wish: wish["model"])
def test_a_near_miss_is_named_and_holds_where_its_limit_is_raised(wish: dict[str, Any]) -> None:
    plan = rightfit.plan(**wish, top=3)
    usual = facts.coefficients("planning")
    for section in (section for section in plan.sections if section.name == "near"):
        for told in section.content["near"]:
            assert told["limit_s"] < told["value_s"] <= told["limit_s"] * (1.0 + usual["near_share"]) * 1.01
            assert told["monthly_usd"] <= (1.0 - usual["near_saves"]) * plan.options[0].cost.total_usd
            raised = rightfit.plan(**{**wish, told["metric"]: f"{told['value_s'] * 1.01:.6g}s"}, top=1)
            assert raised.options[0].cost.total_usd <= told["monthly_usd"] * 1.1 + 50.0
        assert section.content["near"][0]["instance_type"] in said(plan, "en")


def test_at_least_one_near_miss_is_found() -> None:
    assert any(section.name == "near" for section in rightfit.plan(**NEAR[0], top=3).sections)


@pytest.mark.parametrize(
    "wish",
    [
        {"model": "llama-3-8b", "task": "train", "data": "10Btokens", "deadline": "14d"},
        {"model": "1B", "task": "train", "data": "20Btokens", "deadline": "10d"},
        {"model": "resnet50", "task": "train", "data": "imagenet", "epochs": 90, "deadline": "5d"},
    ],
    ids=lambda wish: wish["model"],
)
def test_of_a_deadline_what_takes_twice_as_long_saves_a_tenth_and_a_later_one_costs_no_more(wish: dict[str, Any]) -> None:
    usual = facts.coefficients("planning")
    plan = rightfit.plan(**wish, top=8)
    best, patience_s = plan.options[0], max(usual["patience_s"], usual["patience_share"] * plan.workload.deadline_s)
    for one in (*plan.options[1:], *plan.pareto):
        if is_alike(one, best) and waited_s(best) > 2.0 * max(waited_s(one), patience_s):
            assert one.cost.total_usd > best.cost.total_usd * (1.0 + usual["equal_share"]) * 0.999, one.instance_type
    later = rightfit.plan(**{**wish, "deadline": f"{int(wish['deadline'][:-1]) * 2}d"}, top=1)
    assert later.options[0].cost.total_usd <= best.cost.total_usd * (1.0 + usual["equal_share"]) + 1.0


@pytest.mark.parametrize("latency", ["500ms", "1s", "2s"])
def test_who_states_how_soon_speaks_in_pieces_short_enough(latency: str) -> None:
    plan = rightfit.plan("openai/whisper-medium", task="serve", users=10, latency=latency, top=1)
    assert plan.options, latency
    window = {one.field: one.value for one in plan.assumptions}["request"]
    assert window == pytest.approx(6.0 * plan.workload.latency_s)


def test_a_service_that_quantizes_nothing_takes_the_weights_as_published() -> None:
    plain, none = (
        rightfit.plan("deepseek-ai/DeepSeek-R1", task="serve", users=20, top=1, **more) for more in ({}, {"quantization": "none"})
    )
    assert plain.options[0].instance_type == none.options[0].instance_type
    assert none.options[0].layout.weight_format == plain.options[0].layout.weight_format == "fp8"
