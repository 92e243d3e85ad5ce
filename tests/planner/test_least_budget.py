"""What a refused service is told to allow is the least of all ways to do it: other sellers and
weights of fewer bits among them, where nobody said which."""

from __future__ import annotations

import pytest

import rightfit

WISHES = [
    {"model": "7B", "avoid": "aws,azure"},
    {"model": "Qwen/Qwen2.5-7B-Instruct"},
    {"model": "7B", "sellers": "all", "quantization": "none"},
]


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_the_budget_that_would_do_is_the_least_that_does(wish: dict[str, str]) -> None:
    def at(usd: float) -> rightfit.Plan:
        return rightfit.plan(**wish, task="serve", budget=f"{usd:.2f}usd")  # type: ignore[arg-type]

    refused = at(20.0)
    assert not refused.options
    [least] = [reason.params["budget_usd"] for reason in refused.advice if reason.key == "change_budget"]
    assert at(least * 1.01).options
    assert not at(least * 0.9).options


def test_another_sellers_offer_is_taken_where_only_it_keeps_the_budget() -> None:
    """And it is said, as where nothing but the seller refuses."""
    plan = rightfit.plan("7B", task="serve", budget="200usd", avoid="aws,azure")
    assert plan.best is not None
    assert plan.best.provider not in ("aws", "azure")
    assert plan.best.cost.total_usd <= 200.0
    assert ("sellers", "all") in [(one.field, one.value) for one in plan.assumptions]
