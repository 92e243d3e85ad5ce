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


def test_the_example_names_the_first_token() -> None:
    [reason] = [one for one in rightfit.plan(task="serve", **REFUSED[0]).advice if one.key == "serve_wait_assumed"]
    assert reason.params["option"] == "ttft"
    assert reason.params["monthly_usd"] > 0


def test_a_limit_that_was_stated_is_not_called_assumed() -> None:
    found = rightfit.plan(task="serve", **REFUSED[0], ttft="2s", tpot="100ms", latency="60s")
    assert not [reason for reason in found.advice if reason.key == "serve_wait_assumed"]
