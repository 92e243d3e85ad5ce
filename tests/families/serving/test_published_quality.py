"""The published score of a quantised form stands beside the general evidence."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit import facts
from rightfit.explain.voices import voice_of
from rightfit.facts import bundled, tables
from rightfit.search.service.stacks import format_rows, published_quality


def test_every_row_is_of_a_known_checkpoint_in_a_known_format_and_near_its_model() -> None:
    rows = tables.table("published_quality")
    assert len({(row["repository"], row["format"]) for row in rows}) == len(rows) >= 15
    for row in rows:
        assert facts.hub_repository(row["repository"], facts.resolve_offline(row["repository"])) == row["repository"]
        assert row["repository"].casefold() in bundled.exact_names()
        assert row["format"] in format_rows()
        assert 0.9 < float(row["score"]) / float(row["score_as_published"]) < 1.02
        assert row["source"]


@pytest.mark.parametrize(("lang", "said"), [("en", "75.44 on OpenLLM 1, 75.66"), ("zh", "得分 75.44")])
def test_a_plan_in_that_format_says_it(lang: Any, said: str) -> None:
    wish: dict[str, Any] = {"task": "serve", "rate": "5/s", "quantization": "fp8", "cloud": "lambda"}
    told = {}
    for model in ("Qwen/Qwen2.5-14B", "Qwen/Qwen2.5-32B"):
        plan = rightfit.plan(model, **wish, top=1)
        told[model] = [voice_of(plan).renderer(lang)(reason) for reason in plan.options[0].warnings]
    assert sum(said in line for line in told["Qwen/Qwen2.5-14B"]) == 1
    assert not any("OpenLLM" in line for line in told["Qwen/Qwen2.5-32B"])
    assert published_quality("Qwen/Qwen2.5-32B", "fp8") == {}
