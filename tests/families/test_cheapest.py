"""The headline of a plan and the options below it never contradict each other, in any family."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import rightfit
from rightfit.explain.messages import has
from rightfit.explain.voices import voice_of
from rightfit.families import registry
from rightfit.messages import Lang

MARKETS: tuple[dict[str, str], ...] = ({}, {"sellers": "all"}, {"country": "CN"}, {"cloud": "alicloud"}, {"purchase": "on-demand"})


def _plan(family: str, market: dict[str, str]) -> Any:
    wish = importlib.import_module(f"rightfit.families.{family}.match").EXAMPLE
    return rightfit.plan(**{**wish, **market}, top=8)


@pytest.mark.parametrize("family", registry.names())
@pytest.mark.parametrize("market", MARKETS, ids=str)
def test_cheapest_is_said_only_of_what_is(family: str, market: dict[str, str]) -> None:
    plan = _plan(family, market)
    if plan.best is None:
        pytest.skip("nothing is offered there")
    headline = plan.best.why[0]
    assert "cheapest" in headline.key
    first, cheaper = plan.best.cost.total_usd, [one for one in plan.options if one.cost.total_usd < plan.best.cost.total_usd]
    assert headline.key.endswith("_below") == bool(cheaper)
    if "runner_up_usd" in headline.params:
        assert (headline.params["runner_up_usd"] < first) == bool(cheaper)
    langs: tuple[Lang, ...] = ("en", "zh")
    for lang in langs:
        text = voice_of(plan).renderer(lang)(headline)
        assert ("The cheapest" in text or "最低" in text) != bool(cheaper), text
    if cheaper:
        assert has(f"reasons.below_{headline.params['below_cause']}")


def test_the_walk_meets_a_cheaper_option_below() -> None:
    """So that the test above cannot pass by never meeting one: an old price of a Chinese cloud
    stands below a fresh one."""
    keys = {_plan(family, {"cloud": "alicloud"}).best.why[0].key for family in registry.names()}
    assert "cheapest_below" in keys
