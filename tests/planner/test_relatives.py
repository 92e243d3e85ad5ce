"""A stronger and a cheaper model of the same family."""

from __future__ import annotations

from typing import Any

from rightfit.facts import bundled
from rightfit.planner.plan import family_of, relatives


def names(model: str) -> dict[str, str]:
    return {role: one.name for role, one in relatives(model).items()}


def test_relatives_are_the_next_in_size_of_the_same_generation_and_make() -> None:
    assert names("Qwen/Qwen3-8B") == {"stronger": "Qwen/Qwen3-14B", "cheaper": "Qwen/Qwen3-4B"}
    assert names("nvidia/Llama-3.1-70B-Instruct-FP8") == {"stronger": "meta-llama/Llama-3.1-405B", "cheaper": "meta-llama/Llama-3.1-8B"}
    assert names("Qwen/Qwen3-30B-A3B") == {"stronger": "Qwen/Qwen3-32B", "cheaper": "Qwen/Qwen3-1.7B"}
    assert names("Qwen/Qwen3-VL-8B-Instruct")["stronger"].startswith("Qwen/Qwen3-VL-")
    assert names("google-bert/bert-base-uncased") == {}
    assert names("7B") == {}


def test_no_relative_is_of_another_family_or_on_the_wrong_side() -> None:
    for entry in bundled.index():
        if entry.family != "transformer":
            continue
        own: Any = bundled.load(entry)
        for role, other in relatives(entry.name).items():
            assert family_of(other.name) == family_of(own.name)
            sign = 1 if role == "stronger" else -1
            assert sign * (other.params_total - own.params_total) > 0, (own.name, role, other.name)
            assert sign * (other.params_active - own.params_active) >= 0, (own.name, role, other.name)
