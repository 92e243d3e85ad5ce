"""Yuan, or a cloud of mainland China, mean its regions; what has no public
price is said by name."""

from __future__ import annotations

import pytest

import rightfit
from rightfit.explain.reasons import render
from rightfit.explain.sheets import EXTENTS, short_sheet
from rightfit.search.answer import is_makeshift

LORA = {"model": "Qwen/Qwen2.5-7B", "task": "finetune", "method": "lora", "data": "10Mtok"}
KINDS = {
    "language": LORA,
    "samples": {"model": "resnet50", "task": "train", "data": "1Mimages"},
    "serving": {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "rate": "1/s"},
    "passes": {"model": "bert-base-uncased", "task": "serve", "rate": "500/s"},
    "tables": {"model": "random-forest", "task": "train", "data": "11Mrows", "columns": 28},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("meant", [{"currency": "cny"}, {"cloud": "alicloud"}, {"cloud": "volcengine,tencent"}], ids=str)
def test_mainland_regions_come_first(kind: str, meant: dict[str, str]) -> None:
    found = rightfit.plan(**KINDS[kind], **meant, top=3)
    assert found.options
    assert found.options[0].facts["country"] == "CN"


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", [*KINDS, "large"])
def test_the_first_screen_says_that_the_mainland_goes_first_and_what_the_world_costs(kind: str, lang: str) -> None:
    """Also where the text has room for no caution."""
    large = {"model": "deepseek-ai/DeepSeek-R1", "task": "serve", "users": 100, "input_tokens": 2000, "output_tokens": 1000}
    found = rightfit.plan(**KINDS.get(kind, large), currency="cny", top=3)
    reasons = [reason for reason in found.options[0].warnings if reason.key.startswith("mainland_first")]
    for extent in EXTENTS:
        text = "\n".join(part for part in short_sheet(found, lang, extent=extent) if isinstance(part, str))
        assert [render(reason, lang, currency="cny") in text for reason in reasons] == [True] * len(reasons)
    assert reasons or kind != "large"
    dollars = rightfit.plan(**KINDS.get(kind, large), top=1)
    if found.options[0].cost.total_usd > 1.01 * dollars.options[0].cost.total_usd:
        assert reasons


def test_another_place_that_is_named_is_taken() -> None:
    assert rightfit.plan(**LORA, currency="cny", country="US", top=1).options[0].facts["country"] == "US"
    assert rightfit.plan(**LORA, currency="usd", top=1).options[0].facts["country"] != "CN"


@pytest.mark.parametrize("kind", KINDS)
def test_a_wish_that_does_not_mean_it_goes_there_last(kind: str) -> None:
    found = rightfit.plan(**KINDS[kind], top=5)
    inside = [option.facts["country"] == "CN" for option in found.options]
    assert inside == sorted(inside)
    assert [any(reason.key == "inside_mainland" for reason in option.warnings) for option in found.options] == inside


def test_what_is_across_the_border_says_so() -> None:
    plan = rightfit.plan(**LORA, currency="cny", gpu="B200", top=1)  # no mainland cloud has it
    assert "outside_mainland" in {reason.key for reason in plan.options[0].warnings}


@pytest.mark.parametrize(
    ("wish", "card"),
    [
        ({"cloud": "volcengine", "gpu": "H20"}, "H20-96GB"),
        ({"cloud": "huaweicloud", "gpu": "Ascend-910B"}, "Ascend-910B"),
        ({"cloud": "huaweicloud"}, "Ascend-910B"),
    ],
)
def test_what_has_no_public_price_is_said_by_name(wish: dict[str, str], card: str) -> None:
    found = rightfit.plan(**LORA, **wish, top=1)
    said = [reason for reason in found.advice if reason.key == "unpriced"]
    assert card in {reason.params["accelerator"] for reason in said}
    assert not [option for option in found.options if option.accelerator.name == card]


def test_what_has_a_price_is_not_said_to_have_none() -> None:
    found = rightfit.plan(**LORA, cloud="volcengine", top=1)
    assert "A30" not in {reason.params["accelerator"] for reason in found.advice if reason.key == "unpriced"}
    assert not [reason for reason in rightfit.plan(**LORA, top=1).advice if reason.key == "unpriced"]


YUAN = [
    {"model": "Qwen2.5-7B", "method": "grpo", "data": "10ksamples", "completions": "16", "budget": "3000元"},
    {"model": "Qwen2.5-7B", "method": "dpo", "data": "10ksamples", "budget": "3000元"},
    {"model": "Qwen2.5-7B", "method": "full", "data": "30Mtok", "budget": "5000元"},
    {"model": "xgboost", "task": "train", "data": "20Mrows", "columns": "50", "budget": "1000元"},
    {"model": "sdxl", "method": "lora", "data": "2kimages", "budget": "500元"},
    {"model": "resnet50", "task": "train", "data": "imagenet", "budget": "5000元"},
    {"model": "Qwen2.5-7B", "task": "batch", "data": "1Msamples", "budget": "5000元"},
]


@pytest.mark.parametrize("wish", YUAN, ids=str)
def test_whatever_the_job_the_mainland_goes_first_in_yuan_also_where_its_prices_are_old(wish: dict[str, str]) -> None:
    found = rightfit.plan(**wish, top=8)
    home = [one.facts["country"] == "CN" for one in found.options if not is_makeshift(one, found.options[0])]
    assert any(home)
    assert home == sorted(home, reverse=True)
