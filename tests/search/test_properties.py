"""What holds of the answer to any wish: random ones of every family, the same each time."""

from __future__ import annotations

import functools
import random
import re
from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit.errors import RightfitError
from rightfit.explain.sheets import Choice, short_sheet
from rightfit.search.answer import Option, Plan
from rightfit.search.sense import as_good_as

Wish = dict[str, Any]

LANGUAGE = ["llama-3-8b", "Qwen/Qwen2.5-7B", "llama3-70b", "mistralai/Mixtral-8x7B-v0.1", "gpt2", "t5-base", "1B"]
SERVED = ["llama-3-8b", "Qwen/Qwen2.5-32B-Instruct", "llama3-70b", "Qwen/Qwen2.5-0.5B-Instruct", "deepseek-ai/DeepSeek-V2-Lite"]
#: Options of a wish of each family, with the amounts of work ascending, each twice the one before.
KINDS: list[dict[str, list[Any]]] = [
    {"model": LANGUAGE, "task": ["finetune"], "method": ["lora", "qlora", "full"], "data": ["{}Mtokens"], "amount": [2, 16, 128]},
    {"model": ["1B", "gpt2", "llama-3-8b"], "task": ["train"], "data": ["{}Btokens"], "amount": [1, 8]},
    {"model": ["bert-base-uncased", "roberta-large"], "task": ["finetune"], "data": ["{}ksamples"], "amount": [10, 400]},
    {"model": ["resnet50", "vit-b-16", "yolov8m", "sdxl"], "task": ["train", "finetune"], "data": ["{}kimages"], "amount": [4, 200]},
    {
        "model": ["xgboost", "random-forest", "lightgbm", "k-means"],
        "task": ["train"],
        "columns": [20, 60],
        "data": ["{}krows"],
        "amount": [200, 9000],
    },
    {"model": SERVED, "task": ["serve"], "rate": ["{}/s"], "amount": [0.25, 2, 12]},
    {
        "model": ["bert-base-uncased", "resnet50", "sdxl", "xgboost"],
        "task": ["serve"],
        "columns": [30],
        "rate": ["{}/s"],
        "amount": [0.5, 40],
    },
    {"model": ["llama-3-8b", "Qwen/Qwen2.5-7B-Instruct"], "task": ["batch"], "data": ["{}Mtokens"], "amount": [50, 800]},
    {"model": ["bert-base-chinese"], "task": ["prepare"], "operation": ["tokenize"], "data": ["{}GB"], "amount": [10, 200]},
]
MORE: dict[str, list[Any]] = {
    "cloud": ["aws", "azure", "gcp", "lambda", "alicloud", "aws,gcp"],
    "country": ["de", "us", "jp"],
    "purchase": ["spot", "on-demand"],
    "max_nodes": [1, 2],
    "gpu": ["H100", "A100", "L4"],
}


def wishes(number: int, *, seed: int = 2032) -> list[tuple[Wish, str, float]]:
    """(wish without its amount of work, the option that holds it, the amount)."""
    draw, found = random.Random(seed), []
    for _ in range(number):
        kind = draw.choice(KINDS)
        wish = {name: draw.choice(values) for name, values in kind.items()}
        if wish["model"] != "xgboost" and wish["task"] == "serve":
            wish.pop("columns", None)
        wish |= {
            name: draw.choice(values) for name, values in MORE.items() if draw.random() < 0.2 and not ("columns" in wish and name == "gpu")
        }
        amount = wish.pop("amount")
        found.append((wish, "rate" if "rate" in wish else "data", amount))
    return found


def told(case: tuple[Wish, str, float]) -> str:
    wish, name, amount = case
    return "-".join(str(value) for value in {**wish, name: wish[name].format(amount)}.values())


@functools.lru_cache(maxsize=4)
def _asked(items: tuple[tuple[str, Any], ...]) -> Plan | None:
    try:
        return rightfit.plan(**dict(items), top=8)
    except RightfitError:
        return None


def asked(wish: Wish) -> Plan | None:
    """The plan; None where the wish contradicts itself."""
    return _asked(tuple(wish.items()))


def with_amount(case: tuple[Wish, str, float], factor: float = 1.0) -> Wish:
    wish, name, amount = case
    return {**wish, name: wish[name].format(f"{amount * factor:g}")}


def seconds_of(option: Option) -> float | None:
    figure = option.estimate.get("total_time_s") or option.estimate.get("latency_s")
    return figure.mid if figure else None


def is_certain(option: Option) -> bool:
    """Whether its price is asked today."""
    return not (option.facts["price_is_beyond"] or option.facts["is_estimate"])


#: What Arm and several servers count for beyond their cost.
COUNTED = 1.25 / 0.85

CASES = wishes(500)


@pytest.mark.parametrize("case", CASES, ids=told)
def test_what_holds_of_every_answer(case: tuple[Wish, str, float]) -> None:
    plan = asked(with_amount(case))
    if plan is None or plan.best is None:
        return
    best, *others = plan.options
    # The first is beaten by none below it in what is shown, and by none on the front.
    for other in (*others, *plan.pareto):
        mine, its = seconds_of(best), seconds_of(other)
        if mine is not None and its is not None:
            assert not (other.cost.total_usd < best.cost.total_usd * (1 - 1e-9) and its <= mine * (1 + 1e-9)), other.instance_type
    assert [option.rank for option in plan.options] == list(range(1, len(plan.options) + 1))
    # The first line has place, date and way to pay; those after it the work and the set-up.
    for lang, setup in (("en", "Setup: "), ("zh", "配置：")):
        choice = next(part for part in short_sheet(plan, lang) if isinstance(part, Choice))
        said = " ".join((choice.headline, *choice.lines))
        assert best.instance_type in choice.headline
        assert best.region in choice.headline or best.facts["is_any_place"] or best.region in ("any", "global", "eu")
        assert re.search(r"\d{4}-\d\d-\d\d", choice.headline)
        assert setup in said
        assert re.search(r"[$¥€]", said)
    # What may not fit leads nothing that surely fits at a cost which is as good.
    sure = best.probability["fits"]
    if plan.workload.objective == "cost" and sure is not None and sure < 0.95 - 1e-6 and is_certain(best):
        for other in others:
            fits = other.probability["fits"]
            worse = not is_certain(other) or other.to_dict()["arch"] == "aarch64" or other.nodes > 1 or other.facts["country"] == "CN"
            assert (
                worse
                or fits is None
                or fits < 0.95
                or not as_good_as(np.array(other.cost.total_usd), best.cost.total_usd, task=plan.workload.task)
            ), other.instance_type


@pytest.mark.parametrize("case", CASES[::2], ids=told)
def test_half_the_work_costs_no_more(case: tuple[Wish, str, float]) -> None:
    whole, half = asked(with_amount(case)), asked(with_amount(case, 0.5))
    if whole is None or whole.best is None or not is_certain(whole.best):
        return
    assert half is not None
    assert half.best is not None
    assert as_good_as(np.array(half.best.cost.total_usd), whole.best.cost.total_usd * COUNTED, task=whole.workload.task)


@pytest.mark.parametrize("case", CASES[1::2], ids=told)
def test_what_is_relaxed_costs_no_more(case: tuple[Wish, str, float]) -> None:
    """A deadline, then a later one; each option that narrows the choice left out."""
    wish = with_amount(case)
    free = asked(wish)
    if free is None or free.best is None or not is_certain(free.best):
        return
    seconds = seconds_of(free.best)
    if wish["task"] != "serve" and seconds is not None:
        soon, late = (asked({**wish, "deadline": f"{seconds * factor / 3600:.4f}h"}) for factor in (1.5, 6.0))
        if soon is not None and soon.best is not None and is_certain(soon.best):
            assert late is not None
            assert late.best is not None
            assert as_good_as(np.array(late.best.cost.total_usd), soon.best.cost.total_usd * COUNTED, task=wish["task"])
    names = set(wish) & {"cloud", "country", "purchase", "max_nodes", "gpu"}
    if wish["task"] == "serve":  # spot is for those who ask for it: without a word a service is not on it
        names -= {"purchase"}
    for name in names:
        wider = asked({key: value for key, value in wish.items() if key != name})
        assert wider is not None
        assert wider.best is not None, name
        home = free.best.facts["country"] == "CN" and wider.best.facts["country"] != "CN"
        usd = free.best.cost.total_usd * COUNTED
        assert home or as_good_as(np.array(wider.best.cost.total_usd), usd, task=wish["task"]), name


@pytest.mark.parametrize("case", [case for case in CASES if case[0]["task"] != "serve"][::5], ids=told)
def test_two_currencies_give_one_plan(case: tuple[Wish, str, float]) -> None:
    wish = with_amount(case)
    free = asked(wish)
    if free is None or free.best is None:
        return
    from rightfit.facts import table

    rate = next(float(row["units_per_usd"]) for row in table("currencies") if row["currency"] == "eur")
    usd = round(free.best.cost.total_usd * 3 + 1, 2)
    plans = [asked({**wish, "budget": text}) for text in (f"{usd:.2f}usd", f"{usd * rate:.6f}eur")]
    first = [plan.best and (plan.best.instance_type, plan.best.region, plan.best.purchase, plan.best.nodes) for plan in plans if plan]
    assert len(first) == 2
    assert first[0] == first[1]
