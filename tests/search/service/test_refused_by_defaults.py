"""A limit that nobody stated and that keeps a service from being had is named, with what does it
without the limit."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit.explain.sheets import short_sheet

SEVENTY = {"model": "Qwen2.5-72B-Instruct-AWQ", "users": 32, "input_tokens": 2000, "output_tokens": 500, "think": "0s"}
REFUSED: list[dict[str, Any]] = [
    {**SEVENTY, "gpu": "A100 80GB", "num_gpus": 2},
    {**SEVENTY, "gpu": "A100 80GB", "num_gpus": 1},
    {**SEVENTY, "gpu": "L40S", "max_nodes": 1, "num_gpus": 2},
    {
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "users": 60,
        "input_tokens": 4000,
        "output_tokens": 300,
        "think": "0s",
        "gpu": "L4",
        "num_gpus": 1,
    },
]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("wish", REFUSED, ids=lambda wish: f"{wish['model']}-{wish['gpu']}-{wish['num_gpus']}")
def test_an_assumed_limit_that_decides_is_among_the_reasons(wish: dict[str, Any], lang: str) -> None:
    found = rightfit.plan(task="serve", **wish)
    named = [reason for reason in found.advice if reason.key in ("serve_wait_assumed", "serve_change_assumed")]
    longer = rightfit.plan(task="serve", **wish, ttft="15s", top=1)
    assert found.options or named or not longer.options
    for reason in named:
        limit = {reason.params["option"]: f"{reason.params['limit_s']:g}s"}
        assert rightfit.plan(task="serve", **wish, **limit, top=1).options  # what is promised holds
        assert any(f"--{reason.params['option']}" in " ".join(part.lines) for part in short_sheet(found, lang) if hasattr(part, "lines"))


def test_an_assumed_limit_twice_as_long_is_planned_for_and_said() -> None:
    found = rightfit.plan(task="serve", **REFUSED[0])
    [told] = [one for one in found.assumptions if one.why.key == "assumed_serve_wait"]
    assert found.options
    assert told.field == "ttft"
    assert told.value > told.why.params["usual_s"]
    assert "--ttft" in "\n".join(map(str, short_sheet(found, "en")))


def test_what_keeps_every_limit_by_the_queue_is_not_refused_by_the_quick_law() -> None:
    wish = {"model": "Qwen3-32B", "country": "CN", "ttft": "1s", "budget": "20000 yuan/month", "users": 50}
    found = rightfit.plan(task="serve", **wish)
    first = found.options[0]
    assert first.estimate["tpot_p95_s"].mid < 0.2
    assert first.estimate["ttft_p95_s"].mid < 1.0
    assert not [one for one in found.assumptions if one.why.key == "assumed_serve_wait"]


def test_whoever_may_wait_longer_asks_as_often() -> None:
    wish = {"model": "Qwen/Qwen2.5-7B-Instruct", "users": 100}
    usual, longer = (rightfit.plan(task="serve", **wish, tpot=tpot, top=1) for tpot in ("200ms", "800ms"))
    rates = [plan.options[0].facts["rate_per_s"] for plan in (usual, longer)]
    assert rates[0] == rates[1]


def test_a_limit_that_was_stated_is_not_called_assumed() -> None:
    found = rightfit.plan(task="serve", **REFUSED[0], ttft="2s", tpot="100ms", latency="60s")
    assert not [reason for reason in found.advice if reason.key == "serve_wait_assumed"]
