"""A set-up whose memory may not do is offered only where no smaller batch surely fits."""

from __future__ import annotations

import random
from typing import Any

import pytest
from answers import planned, wishes

import rightfit
from rightfit.errors import RightfitError
from rightfit.search.answer import Option, Plan

#: The margin of the search stands a little over the 95 % that are promised.
SURE, SURELY = 0.95, 0.96
#: A sure set-up that takes longer than this is no answer to a tight one.
LONGER = 1.9
MODELS: list[dict[str, Any]] = [
    {"model": "meta-llama/Meta-Llama-3-8B", "method": "lora"},
    {"model": "meta-llama/Meta-Llama-3-8B", "method": "qlora"},
    {"model": "Qwen/Qwen2.5-14B", "method": "qlora"},
    {"model": "meta-llama/Llama-3.2-1B", "method": "full"},
    {"model": "bert-base-uncased", "method": "full"},
    {"model": "resnet50", "task": "train"},
    {"model": "yolov8m", "task": "train"},
    {"model": "vit_base_patch16_224", "task": "train"},
]


def drawn(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    wish = {"task": "finetune", **chance.choice(MODELS)}
    gpu = chance.choice([None, "A100", "L4", "A10G", "H100", "T4", "L40S"])
    amount = "200kimages" if wish["task"] == "train" else "20Mtok"
    return {**wish, "data": amount, "max_nodes": 2, **({"gpu": gpu} if gpu else {})}


def smaller_would_do(option: Option, wish: dict[str, Any]) -> bool:
    """Whether half the micro-batch on the same servers surely fits and takes hardly longer."""
    if option.layout.micro_batch <= 1:
        return False
    server = f"{option.provider}/{option.instance_type}"
    given = {name: value for name, value in wish.items() if name not in ("gpu", "cloud", "max_nodes", "micro_batch")}
    half = rightfit.estimate(**given, on=server, nodes=option.nodes, micro_batch=option.layout.micro_batch // 2).best
    if half is None or half.facts["fit_probability"] < SURELY:
        return False
    return bool(half.facts["run_s"] < LONGER * option.facts["run_s"])


def check(plan: Plan, wish: dict[str, Any]) -> None:
    for option in plan.options[:5]:
        if option.facts["fit_probability"] < SURE:
            assert not smaller_would_do(option, wish), (option.instance_type, option.layout, option.facts["fit_probability"])


@pytest.mark.parametrize(
    "name", [name for name, wish in wishes().items() if name.startswith(("language/", "samples/")) and "micro_batch" not in wish]
)
def test_no_line_is_tight_where_a_smaller_batch_would_do(name: str) -> None:
    check(planned(name), wishes()[name])


@pytest.mark.parametrize("seed", range(30))
def test_no_line_of_any_wish_is_tight_where_a_smaller_batch_would_do(seed: int) -> None:
    wish = drawn(seed)
    try:
        plan = rightfit.plan(**wish)
    except RightfitError:
        return
    check(plan, wish)
