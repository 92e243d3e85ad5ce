"""The charts of the posts, drawn for a job: each has one branch of its own lit, and its thresholds
are those of the job."""

from __future__ import annotations

from typing import Any

import pytest

from rightfit import api
from rightfit.explain.decisions import decision_lines
from rightfit.explain.quantities import memory_text
from rightfit.explain.questions import question_lookup
from rightfit.explain.trials import need_on_one_card
from rightfit.planner.plan import default_catalog

JOBS: list[tuple[dict[str, Any], set[str]]] = [
    ({"model": "Qwen/Qwen2.5-7B", "method": "lora", "data": "20ksamples"}, {"training", "GPU", "LoRA", "one GPU"}),
    ({"model": "Qwen/Qwen2.5-7B", "method": "qlora", "data": "20ksamples"}, {"training", "GPU", "QLoRA", "one GPU"}),
    ({"model": "bert-base-uncased", "task": "serve", "rate": "5/s"}, {"answering", "CPU"}),
    ({"model": "xgboost", "data": "1Mrows x 20cols"}, {"training", "CPU"}),
    ({"model": "13B", "method": "full", "data": "50Mtok"}, {"training", "full", "several GPUs"}),
]


@pytest.mark.parametrize(("wishes", "branches"), JOBS)
def test_the_branch_of_the_job_is_lit_in_each_chart(wishes: dict[str, Any], branches: set[str]) -> None:
    plan = api.plan(**wishes)
    lines = decision_lines(plan, default_catalog(), "en")
    charts = [line for line in lines[1:] if not line.startswith(" ")]
    lit = [line for line in lines if line.strip().startswith("->")]
    assert len(lit) == len(charts)
    for word in branches:
        assert any(word in line for line in lit), (word, lit)
    assert len(lines) == len(decision_lines(plan, default_catalog(), "zh"))


def test_what_each_way_to_fine_tune_takes_is_worked_out_for_the_job() -> None:
    plan = api.plan(model="Qwen/Qwen2.5-7B", method="lora", data="20ksamples")
    need = memory_text(need_on_one_card(plan.workload, catalog=default_catalog()))
    assert any("LoRA" in line and need in line for line in decision_lines(plan, default_catalog(), "en"))


@pytest.mark.parametrize("sentence", ["给我一个选型流程图", "draw me a decision tree", "选型流程图"])
def test_the_charts_are_drawn_without_a_job_too(sentence: str) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert "->" in found.explanation_zh
