"""So many cards, and what may not be: every option keeps to both, and a refusal says them."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit.errors import InputError
from rightfit.planner.plan import default_catalog

TRAINED = {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "lora", "data": "20Mtok"}
SERVED = {"model": "meta-llama/Meta-Llama-3-8B", "task": "serve", "rate": "5/s"}
WORKED_OFF = {"model": "meta-llama/Meta-Llama-3-8B", "task": "batch", "data": "100ksamples"}
PICTURES = {"model": "resnet50", "task": "train", "data": "imagenet-1k", "epochs": "1"}


def cards_of(option: Any) -> float:
    return float(option.num_accelerators)


@pytest.mark.parametrize("wish", [TRAINED, WORKED_OFF, PICTURES], ids=["trained", "worked off", "pictures"])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_every_option_has_so_many_cards(wish: dict[str, str], count: int) -> None:
    plan = rightfit.plan(**wish, num_gpus=count, top=10)
    assert plan.options
    assert {cards_of(option) for option in plan.options} == {float(count)}
    assert rightfit.plan(**wish, gpu=f"{count}xA100", top=1).workload.num_gpus == count


def test_a_service_has_so_many_cards() -> None:
    plan = rightfit.plan(**SERVED, num_gpus=2, top=10)
    assert {cards_of(option) for option in plan.options} == {2.0}


@pytest.mark.parametrize("wish", [TRAINED, SERVED, PICTURES], ids=["trained", "served", "pictures"])
def test_what_may_not_be_is_not(wish: dict[str, str]) -> None:
    first = rightfit.plan(**wish, top=10)
    best = first.best
    assert best is not None
    for avoid in (best.provider, best.accelerator.name):
        found = rightfit.plan(**wish, avoid=avoid, top=10)
        assert found.options
        assert avoid not in {name for option in found.options for name in (option.provider, option.accelerator.name)}


def test_countries_may_be_ruled_out() -> None:
    catalog = default_catalog()
    found = rightfit.plan(**TRAINED, avoid="US,DE", cloud="aws", top=10, catalog=catalog)
    assert found.options
    assert not {catalog.region(option.provider, option.region).country for option in found.options} & {"US", "DE"}


def test_what_may_not_be_has_a_name() -> None:
    with pytest.raises(InputError, match="unknown cloud"):
        rightfit.plan(**TRAINED, avoid="no-such-thing")


@pytest.mark.parametrize(("gpu", "least", "most"), [("24GB", 22, 26), ("80GB", 74, 86), ("80GB+", 74, 1000)])
def test_cards_by_their_memory(gpu: str, least: int, most: int) -> None:
    plan = rightfit.plan(**TRAINED, gpu=gpu, top=10)
    assert plan.options
    assert all(least <= option.accelerator.memory_bytes / 2**30 <= most for option in plan.options)
