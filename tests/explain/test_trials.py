"""What one copy of a job needs: the job's alone, whatever was wished beside it, and worked out
once for a catalog."""

from __future__ import annotations

import math
from typing import Any

import pytest

import rightfit
from rightfit.explain import trials
from rightfit.planner import given
from rightfit.planner.plan import default_catalog
from rightfit.workload import Workload

JOBS: dict[str, dict[str, Any]] = {
    "qlora": {"model": "7B", "method": "qlora", "data": "5Mtok"},
    "full": {"model": "google-bert/bert-base-uncased", "method": "full", "data": "100ksamples"},
    "assumed": {"model": "google-bert/bert-base-uncased", "data": "100ksamples"},
    "from the start": {"model": "gpt2", "task": "train", "data": "1Btok"},
    "data set": {"model": "meta-llama/Llama-3.2-1B", "method": "lora", "data": "alpaca"},
    "pictures": {"model": "timm/resnet50", "task": "train", "data": "imagenet", "epochs": 3},
    "speech": {"model": "openai/whisper-small", "task": "finetune", "data": "10ksamples"},
}
BESIDE: dict[str, dict[str, Any]] = {
    "time": {"deadline": "2d"},
    "money": {"budget": "$300", "objective": "time"},
    "place": {"cloud": "aws", "purchase": "spot"},
    "currency": {"currency": "cny"},
    "servers": {"max_nodes": 1, "office_hours": 40},
    "card": {"gpu": "H100"},
}


def bare_need(wish: dict[str, Any]) -> float:
    """Worked out anew, by the frame and not by what is kept."""
    changes = {"micro_batch": 1, "recompute": "full", "offload": "none", "sharding": "none", "tensor_parallel": 1, "pipeline_parallel": 1}
    option = given.figures_of_one(Workload(**wish).with_changes(**changes), on=trials.REFERENCE_SERVER, catalog=default_catalog())
    assert option is not None
    return option.estimate["peak_memory_bytes"].mid


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_job_needs_the_same_memory_whatever_is_wished_beside_it(job: dict[str, Any]) -> None:
    need = bare_need(job)
    assert trials.need_on_one_card(Workload(**job)) == need > 0
    for more in BESIDE.values():
        assert trials.need_on_one_card(Workload(**job, **more)) == need
    for by in (0.01, 100.0):
        wish = Workload(**job)
        amounts = {name: by * value for name in trials._AMOUNTS if (value := getattr(wish, name)) is not None}
        assert trials.need_on_one_card(wish.settled(**amounts)) == need


def test_a_need_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = given.figures_of_one
    monkeypatch.setattr(given, "figures_of_one", lambda *args, **named: asked.append(1) or real(*args, **named))
    trials._needs.clear()
    for data, budget in (("5Mtok", "$10"), ("7Mtok", "$10"), ("7Mtok", "$20")):
        trials.need_on_one_card(Workload(model="7B", method="qlora", data=data, budget=budget))
    assert len(asked) == 1
    trials.need_on_one_card(Workload(model="7B", method="qlora", data="5Mtok", seq_len=512))
    assert len(asked) == 2


def test_what_is_no_network_has_no_need() -> None:
    assert math.isnan(trials.need_on_one_card(rightfit.plan("xgboost", data="1Mrows x 28cols").workload))
