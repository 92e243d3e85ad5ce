"""What visitors type does not stay in memory: many questions that nobody asked before make no store
without a bound grow."""

from __future__ import annotations

import functools
import gc
import random
import sys
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import rightfit

MANY = 16
#: A question of each kind of task, with the options that take numbers; {} stands for one that
#: nobody gave before.
KINDS: dict[str, dict[str, str]] = {
    "tuning": {"model": "7B", "method": "lora", "data": "{}Mtok", "budget": "9{}usd"},
    "training": {"model": "gpt2", "task": "train", "data": "1{}Mtok", "deadline": "{}d", "epochs": "1.{}"},
    "service": {"model": "8B", "task": "serve", "rate": "1.{}/s", "budget": "9{}usd/month", "latency": "2{}s"},
    "service on processors": {"model": "Qwen/Qwen2.5-0.5B", "task": "serve", "rate": "0.{}/s", "ttft": "5.{}s", "tpot": "5{}ms", "budget": "9{}usd/month"},
    "batch": {"model": "7B", "task": "batch", "data": "1{}ksamples", "budget": "99{}usd"},
    "passes": {"model": "resnet50", "task": "serve", "rate": "10{}/s", "latency": "1{}ms"},
    "images": {"model": "resnet50", "task": "train", "data": "1{}kimages", "budget": "9{}usd"},
    "tables": {"model": "xgboost", "data": "1{}krows", "columns": "{}", "trees": "2{}", "budget": "9{}usd"},
    "service of tables": {"model": "xgboost", "task": "serve", "columns": "30", "rate": "2{}/s", "budget": "9{}usd/month"},
    "data": {"task": "prepare", "operation": "tokenize", "data": "1{}GB", "deadline": "1.{}d"},
}  # fmt: skip


def asked(kind: Mapping[str, str], dice: random.Random) -> dict[str, Any]:
    return {name: value.format(dice.randint(10, 99)) for name, value in kind.items()}


def stores() -> Iterator[tuple[str, int]]:
    """Everything of ours that can grow: results of functions that are kept without a bound, and
    containers of modules with what is in them."""
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("rightfit") and one.cache_info().maxsize is None:
            yield f"{one.__module__}.{one.__qualname__}", one.cache_info().currsize
    for name, module in list(sys.modules.items()):
        for attribute, value in vars(module).items() if name.startswith("rightfit") else ():
            if isinstance(value, (dict, list, set, weakref.WeakKeyDictionary)) and not attribute.startswith("__"):
                inner = value.values() if isinstance(value, (dict, weakref.WeakKeyDictionary)) else value
                yield f"{name}.{attribute}", len(value) + sum(len(one) for one in list(inner) if isinstance(one, (dict, list, set)))


@pytest.mark.parametrize("kind", KINDS)
def test_new_questions_fill_no_store_without_a_bound(kind: str) -> None:
    dice = random.Random(kind)
    for _ in range(2):
        rightfit.plan(**asked(KINDS[kind], dice)).to_json()
    before = dict(stores())
    for _ in range(MANY):
        rightfit.plan(**asked(KINDS[kind], dice)).to_json()
    grown = {name: size - before.get(name, 0) for name, size in stores() if size - before.get(name, 0) >= MANY // 2}
    assert not grown
