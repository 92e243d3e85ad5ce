"""Answers that are figures of the plan: tokens of a cache, the first token alone and of many at
once, one method against another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.in_words import leading, led_if
from rightfit.explain.beside.questions import Question, worded
from rightfit.explain.kv_room import has_cache, kv_text
from rightfit.explain.messages import sentences
from rightfit.explain.trials import where_text
from rightfit.messages import Lang
from rightfit.units import parse_count
from rightfit.workload.ask import grammar

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan

_LENGTH = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?\s?[kK])(?![A-Za-z])")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def lengths_in(text: str) -> list[float]:
    """Lengths in tokens that a text names, "32k"; the powers of two that are meant by them."""
    return [float(round(parse_count(found[1].replace(" ", "")) / 1000) * 1024) for found in _LENGTH.finditer(text)]


_ANSWERS = ("serve", "batch")


def _kv(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Tokens of the cache of what leads, and how many requests of each length asked about."""
    best = leading(plan) if plan.workload.task in _ANSWERS else led_if(plan, catalog, task="serve")
    if best is None or not has_cache(best):
        return worded("latency_none", lang)
    text = kv_text(best, lang, lengths=lengths_in(question.words))
    requests = q.counted("request", best.layout.max_batch, lang)  # type: ignore[attr-defined]
    return text if lengths_in(question.words) else sentences([text, worded("kv_requests", lang, requests=requests)], lang)


def alone_on(option: Option, workload: Any, catalog: Catalog) -> Option | None:
    """The same service on the same server for one user."""
    from rightfit.planner.given import estimate_one

    server = f"{option.provider}/{option.instance_type}"
    changes = {"users": 1, "rate": None, "think": None, "max_nodes": None, "num_gpus": None, "gpu": None}
    layout = {"tensor_parallel": option.layout.tensor} if option.layout.tensor > 1 else {}
    try:
        return estimate_one(workload.with_changes(**changes, **layout), on=server, catalog=catalog).best
    except RightfitError:
        return None


def _first_token(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """The first token of one request that is alone, and of so many that come together: their
    prompts are worked through one after the other."""
    best = leading(plan) if plan.workload.task == "serve" else led_if(plan, catalog, task="serve")
    alone = best and alone_on(best, plan.workload, catalog)
    if alone is None or "ttft_p50_s" not in alone.estimate:
        return worded("latency_none", lang)
    first = alone.estimate["ttft_p50_s"].mid
    counts = [int(found[0]) for found in _NUMBER.finditer(question.words) if int(found[0]) > 1]
    fields = {
        "first": q.duration_text(first, lang),
        "tokens": f"{alone.facts['input_tokens']:,.0f}",
        "where": where_text(alone),
    }
    if not counts:
        return worded("first_alone", lang, **fields)
    count = counts[-1]
    waits = {"count": f"{count:,}", "mean": q.duration_text(first * (count + 1) / 2, lang), "last": q.duration_text(first * count, lang)}
    return worded("first_many", lang, **fields, **waits)


def _methods(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Time and memory of the planned method and of the one that it is held against, on the same
    GPUs."""
    best, own = leading(plan), str(plan.workload.method or "")
    named = [value for value, pattern in grammar.METHODS.items() if pattern.search(question.words)]
    other = next((value for value in named if value != own), "")
    if not other or own not in named:
        return ""
    same: dict[str, Any] = {"gpu": best.accelerator.name, "num_gpus": best.num_accelerators, "method": other}
    rented = led_if(plan, catalog, **{**same, "method": own})
    beside = led_if(plan, catalog, **same)
    if rented is None or beside is None:
        return ""
    time, memory = ([one.estimate[name].mid for one in (rented, beside)] for name in ("total_time_s", "peak_memory_bytes"))
    return worded(
        "methods",
        lang,
        own=q.method_text(own, lang),
        other=q.method_text(other, lang),
        ratio=f"{time[0] / time[1]:.2f}",
        time=q.duration_text(time[0], lang),
        other_time=q.duration_text(time[1], lang),
        memory=q.memory_text(memory[0]),
        other_memory=q.memory_text(memory[1]),
        where=where_text(rented),
    )


FIGURES: Mapping[str, Callable[[Question, Plan, Catalog, Lang], str]] = {"kv": _kv, "first_token": _first_token, "methods": _methods}
