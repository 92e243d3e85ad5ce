"""`rightfit plan --alternatives`: a stronger and a cheaper model beside the asked one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rightfit import facts


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_plan_shows_both_with_licence_and_context(run: Any, lang: str) -> None:
    wish = ("plan", "Qwen/Qwen3-8B", "--task", "serve", "--rate", "5/s", "--alternatives", "--lang", lang)
    told = run(*wish).out
    for name in ("Qwen/Qwen3-14B", "Qwen/Qwen3-4B"):
        model: Any = facts.model(name)
        assert name in told
        assert f"{model.max_position:,}" in told
    assert told.count("Apache-2.0") == 2
    found = json.loads(run(*wish, "-f", "json").out)["alternatives"]
    assert [one["role"] for one in found] == ["stronger", "cheaper"]
    hourly = {one["role"]: one["plan"]["options"][0]["cost"]["monthly_usd"] for one in found}
    assert hourly["cheaper"] <= hourly["stronger"]


def test_a_model_without_sizes_says_so(run: Any) -> None:
    told = run("plan", "google-bert/bert-base-uncased", "--task", "finetune", "--data", "10ksamples", "--alternatives").out
    assert "No larger or smaller model in the" in told
