"""The smallest trial that would confirm a plan, in every family: less than the job, on the chosen
server, with what to expect and decide."""

from __future__ import annotations

import functools
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.explain.reasons import render
from rightfit.explain.voices import plan_document
from rightfit.search.answer import Plan

KINDS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parents[1] / "data" / "options.toml").read_text(encoding="utf-8"))["kinds"]
TRIAL = ("staged_trial_", "staged_commands", "staged_expect_", "staged_decide_", "staged_up")


@functools.cache
def staged(kind: str) -> Plan:
    return rightfit.plan(**KINDS[kind], top=3, staged=True)


def section_of(plan: Plan) -> Any:
    return next(section for section in plan.sections if section.name == "staged")


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_is_small_and_on_the_chosen_server(kind: str) -> None:
    plan, content = staged(kind), section_of(staged(kind)).content
    best, trial = plan.best, content["trial"]
    assert best is not None
    assert (trial["provider"], trial["instance_type"]) == (best.provider, best.instance_type)
    assert 1 <= trial["nodes"] <= best.nodes
    assert 0 < trial["measured_s"] < trial["total_s"]
    assert 0 < trial["usd"] <= best.cost.total_usd * 1.05 + 0.02
    assert 0 < trial["data_share"] <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_expected_figures_and_the_decision_belong_together(kind: str) -> None:
    content = section_of(staged(kind)).content
    metric, limit = content["decide"]["metric"], content["decide"]["limit"]
    expected = content["expected"][metric]
    assert expected["low80"] <= expected["mid"] <= expected["high80"]
    assert limit >= expected["mid"] if metric == "step_s" else limit <= expected["high80"]
    assert content["step_up"]["total_usd"] == staged(kind).options[0].cost.total_usd


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_is_said_in_words(kind: str, lang: Any) -> None:
    reasons = section_of(staged(kind)).reasons
    assert all(any(reason.key.startswith(name) for reason in reasons) for name in TRIAL)
    texts = [render(reason, lang) for reason in reasons]
    assert not any("{" in text or "nan" in text or text.startswith("staged") for text in texts), texts
    assert plan_document(staged(kind), lang)["sections"]["staged"]["trial"]["commands"]


@pytest.mark.parametrize("data", ["20000 samples", "10 万条"])
def test_a_command_of_a_trial_can_be_copied(data: str) -> None:
    plan = rightfit.plan(model="Qwen2.5-7B", method="lora", data=data, top=1, staged=True)
    commands = [shlex.split(line) for line in section_of(plan).content["trial"]["commands"]]
    assert data in [words[words.index("--data") + 1] for words in commands if "--data" in words]


def test_a_job_of_many_servers_is_tried_on_few() -> None:
    plan = rightfit.plan(
        model="meta-llama/Meta-Llama-3-8B",
        task="finetune",
        method="lora",
        data="3Btok",
        objective="time",
        max_nodes=4,
        gpu="A100",
        cloud="aws",
        staged=True,
    )
    assert plan.best is not None
    trial = section_of(plan).content["trial"]
    assert plan.best.nodes > 1
    assert trial["nodes"] == 1
    assert trial["usd"] < 0.2 * plan.best.cost.total_usd


def test_a_subscription_is_tried_by_the_hour() -> None:
    plan = rightfit.plan(model="resnet50", task="serve", cloud="alicloud", purchase="subscription-1m", staged=True)
    assert section_of(plan).content["trial"]["usd"] < 0.2 * plan.options[0].cost.total_usd


def test_nothing_to_rent_has_no_trial() -> None:
    assert not rightfit.plan(model="7B", data="5Mtok", budget="0.01usd", staged=True).sections
