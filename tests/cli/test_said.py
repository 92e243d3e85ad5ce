"""What every first screen says, whatever is asked, how wide the screen is and in which language:
the set-up, the amount of work, the place, the way to pay, and of when the price is."""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from answers import planned, wishes

import rightfit
from rightfit.cli.output import View, text_of
from rightfit.cli.plan_view import MOST_NARROW_LINES, short_parts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.voices import voice_of
from rightfit.messages import Lang
from rightfit.search.answer import Option, Plan

WIDTHS = (60, 80, 120)
LANGS: tuple[Lang, ...] = ("en", "zh")

#: Wishes that nobody wrote down, drawn from these; a seed is a wish.
DRAWN: dict[str, list[dict[str, Any]]] = {
    "model": [
        {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune"},
        {"model": "meta-llama/Meta-Llama-3-70B", "task": "finetune", "method": "full"},
        {"model": "meta-llama/Meta-Llama-3-70B", "task": "serve"},
        {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve"},
        {"model": "Qwen/Qwen3-235B-A22B", "task": "serve"},
        {"model": "moonshotai/Kimi-K2-Instruct", "task": "serve"},
        {"model": "deepseek-ai/DeepSeek-V3", "task": "serve"},
        {"model": "1B", "task": "train"},
        {"model": "resnet50", "task": "train"},
        {"model": "yolov8m", "task": "train"},
        {"model": "stabilityai/stable-diffusion-xl-base-1.0", "task": "finetune", "method": "lora"},
        {"model": "stabilityai/stable-diffusion-xl-base-1.0", "task": "serve"},
        {"model": "openai/whisper-large-v3", "task": "serve"},
        {"model": "bge-m3", "task": "serve"},
        {"model": "dlrm", "task": "train"},
        {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "batch", "data": "100ksamples"},
        {"model": "xgboost", "task": "train", "data": "10Mrows", "columns": 50},
        {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "finetune", "method": "dpo"},
    ],
    "market": [{}, {}, {"country": "CN"}, {"currency": "cny"}, {"cloud": "aws,gcp,azure"}, {"purchase": "on-demand"}, {"purchase": "spot"}],
    "aim": [{}, {}, {"objective": "time"}, {"objective": "balanced"}, {"max_nodes": 4}],
}


def drawn(seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    return {name: value for part in DRAWN.values() for name, value in chance.choice(part).items()}


def folded(text: str) -> str:
    """Without what breaking a line puts in, and wide and narrow signs alike."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def screens(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Lang, str]]:
    for lang in LANGS:
        for width in WIDTHS:
            monkeypatch.setenv("COLUMNS", str(width))
            view = View(lang=lang)
            yield width, lang, text_of(short_parts(plan, view), view)


def amounts(option: Option, plan: Plan, lang: Lang) -> Iterator[str]:
    """The numbers without which an answer is to another question."""
    known = option.facts
    if "rate_per_s" in known:
        if plan.workload.task == "batch":
            yield q.count_text(float(known["requests"]), lang)
        else:
            yield q.plain(float(known["rate_per_s"]))
        if plan.workload.users:
            yield f"{plan.workload.users:,}"
        yield from (q.plain(float(known[name]), 6) for name in ("input_tokens", "output_tokens") if known[name])
        yield from (f"{known['one_input'][name]:.0f}" for name in ("height", "width", "denoise_steps") if name in known["one_input"])
    elif "samples_per_epoch" in known:
        yield q.count_text(float(known["samples_per_epoch"]), lang)
        yield from (q.plain(float(known["epochs"])) for _ in range(known["epochs"] != 1.0))
    elif "tokens" in known:
        given = plan.workload.data_samples
        tokens = q.count_text(float(known["tokens"]) / float(known["epochs"]), lang)
        yield q.count_text(given, lang) if given and not option.layout.update else tokens
    elif known.get("rows"):
        yield q.count_text(float(known["rows"]), lang)
    else:
        yield q.data_text(float(known["data_bytes"]))
        yield from (q.count_text(float(count), lang) for count in [plan.workload.data_samples] if count)


def lacking(plan: Plan, width: int, lang: Lang, screen: str) -> Iterator[str]:
    """What a first screen does not say."""
    best, said = plan.options[0], folded(screen)
    text = voice_of(plan).option_text(best, plan.workload, lang)
    if folded(text.setup) not in said:
        yield "the set-up"
    for number in amounts(best, plan, lang):
        if folded(number) not in said:
            yield f"the amount {number}"
    if best.purchase != "owned" and q.is_priced(best):
        yield from (name for name in (q.region_text(best.region, lang), q.purchase_text(best.purchase, lang)) if folded(name) not in said)
        if not re.search(re.escape(best.price_as_of) if best.price_as_of else "$", said.split(folded(text.setup))[0]):
            yield f"the date {best.price_as_of}"
    ranks = [int(line.split()[0]) for line in screen.splitlines() if re.match(r"\d+  \S", line)]
    if ranks != list(range(1, len(ranks) + 1)):
        yield f"ranks in order: {ranks}"


def check(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    if plan.best is None:
        return
    for width, lang, screen in screens(plan, monkeypatch):
        assert not list(lacking(plan, width, lang, screen)), f"{width} {lang}\n{screen}"
        longest = MOST_NARROW_LINES + (6 if width < 80 else 0)
        assert len(screen.splitlines()) <= longest, f"{width} {lang}\n{screen}"


@pytest.mark.parametrize("name", wishes())
def test_a_first_screen_says_what_matters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(planned(name), monkeypatch)


@pytest.mark.parametrize("seed", range(40))
def test_a_first_screen_of_any_wish_says_what_matters(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        plan = rightfit.plan(**drawn(seed))
    except RightfitError:
        return
    check(plan, monkeypatch)


@pytest.mark.parametrize("name", [name for name in wishes() if name.partition("/")[0] in ("language", "samples", "tables")])
def test_a_job_that_costs_more_than_its_time_says_why(name: str) -> None:
    plan = planned(name)
    for option in plan.options:
        if not q.is_priced(option):
            continue
        rent = option.cost.hourly_usd * option.estimate["total_time_s"].mid / 3600.0
        outcome = voice_of(plan).option_text(option, plan.workload, "en").outcome
        assert option.cost.total_usd <= 1.5 * rent + 0.1 or " of it" in outcome or "are billed for" in outcome, outcome


@pytest.mark.parametrize("lang", LANGS)
def test_a_stated_length_is_not_called_assumed(lang: Lang) -> None:
    """Of samples whose length was stated, and of those whose was not."""
    told = {"model": "Qwen2.5-7B", "task": "finetune", "method": "lora", "data": "30ksamples", "epochs": 1}
    view = View(lang=lang)
    stated, silent = (folded(text_of(short_parts(rightfit.plan(**told, **more), view), view)) for more in ({"seq_len": 800}, {}))
    word = {"en": "lengthassumed", "zh": "长度为假定"}[lang]
    assert word not in stated
    assert word in silent


@pytest.mark.parametrize("lang", LANGS)
def test_one_epoch_that_nobody_stated_is_said(lang: Lang) -> None:
    """It decides the price as a number of them would; stated, it says nothing new."""
    told = {"model": "Qwen2.5-7B", "task": "finetune", "method": "lora", "data": "30ksamples"}
    view = View(lang=lang)
    stated, silent = (folded(text_of(short_parts(rightfit.plan(**told, **more), view), view)) for more in ({"epochs": 1}, {}))
    word = {"en": "x1epoch", "zh": "×1遍"}[lang]
    assert word in silent
    assert word not in stated


@pytest.mark.parametrize("lang", LANGS)
def test_a_charge_for_the_trained_model_is_called_its_download(lang: Lang) -> None:
    view = View(lang=lang)
    plan = rightfit.plan(model="DLRM 100 GB tables", task="train", data="1G interactions", epochs=1, cloud="azure")
    text = folded(text_of(short_parts(plan, view), view))
    assert {"en": "ofitdownloadsthetrainedmodelonce,nothingwhereitstayswithAzure", "zh": "下载一次的出网流量费"}[lang] in text
