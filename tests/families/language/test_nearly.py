"""Jobs that nothing is listed for: what would do all the same is said. A predicted peak that fits
without the probability that plans ask for, a stack that splits the model, engines over servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rightfit
from rightfit.explain.plan_words import nothing_text
from rightfit.explain.reasons import render
from rightfit.exports import find_target, job_of, plan_document
from rightfit.messages import Lang
from rightfit.search.answer import Plan, Reason

LANGS: tuple[Lang, ...] = ("en", "zh")
BOX = {"method": "full", "num_gpus": 8, "task": "finetune", "data": "50k samples", "offload": "none", "seq_len": 2048}
#: Jobs whose middle fits a server and whose upper end does not, and some whose middle does not fit.
NEARLY: list[tuple[str, str, dict[str, Any]]] = [
    ("meta-llama/Llama-2-13b-hf", "A100-40GB", {"sharding": "zero3", "seq_len": 4096}),
    ("mistralai/Mistral-Nemo-Base-2407", "A100-40GB", {}),
    ("meta-llama/Llama-2-13b-hf", "A100-80GB", {"num_gpus": 4, "seq_len": 4096}),
    ("Qwen/Qwen2.5-7B", "A100-40GB", {"num_gpus": 4}),
    ("Qwen/Qwen2.5-7B", "A100-40GB", {"method": "dpo"}),
]
FAR: list[tuple[str, str, dict[str, Any]]] = [
    ("meta-llama/Meta-Llama-3-70B", "A100-40GB", {"sharding": "zero3"}),
    ("Qwen/Qwen2.5-32B", "A100-80GB", {}),
]


def planned(model: str, gpu: str, more: dict[str, Any]) -> Plan:
    return rightfit.plan(**{"model": model, "gpu": gpu, **BOX, **more}, top=1)


def advice(plan: Plan, key: str) -> Reason | None:
    return next((reason for reason in plan.advice if reason.key == key), None)


@pytest.mark.parametrize(("model", "gpu", "more"), NEARLY)
def test_a_peak_that_fits_without_the_wanted_probability_is_said(model: str, gpu: str, more: dict[str, Any]) -> None:
    plan = planned(model, gpu, more)
    found = advice(plan, "likely_fits")
    assert plan.best is None
    assert found is not None
    assert plan.advice.index(found) <= 1
    assert 0.5 <= found.params["probability"] < 0.9
    assert 0.5 * found.params["limit_bytes"] < found.params["peak_bytes"] <= found.params["limit_bytes"]
    refused = next(one for one in plan.rejected if one.criterion == "gpu_memory")
    assert float(refused.needed) > found.params["limit_bytes"]
    for lang in LANGS:
        text = render(found, lang)
        assert "{" not in text
        assert "90%" in text
    server = f"{found.params['provider']}/{found.params['instance_type']}"
    told = rightfit.estimate(on=server, nodes=found.params["nodes"], **{"model": model, **BOX, **more, "num_gpus": None})
    assert told.unfit is not None
    assert told.unfit.estimate["peak_memory_bytes"].mid == pytest.approx(found.params["peak_bytes"], rel=0.02)
    assert "probably fits" in nothing_text(told, "en")


@pytest.mark.parametrize(("model", "gpu", "more"), FAR)
def test_what_is_far_too_large_gets_no_hope(model: str, gpu: str, more: dict[str, Any]) -> None:
    plan = planned(model, gpu, more)
    assert plan.best is None
    assert advice(plan, "likely_fits") is None


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3", "meta-llama/Llama-3.1-405B", "Qwen/Qwen3-235B-A22B"])
@pytest.mark.parametrize("method", ["grpo", "full"])
def test_models_larger_than_a_server_are_tuned_on_many(model: str, method: str) -> None:
    """Planned, or the stack that would do is named with what it costs."""
    plan = rightfit.plan(model=model, gpu="H100", num_gpus=512, method=method, task="finetune", data="10k samples", top=1)
    splits = advice(plan, "framework")
    assert plan.best is not None or splits is not None
    if plan.best is None:
        assert splits is not None
        again = rightfit.plan(
            model=model,
            gpu="H100",
            num_gpus=512,
            method=method,
            task="finetune",
            data="10k samples",
            top=1,
            framework=splits.params["framework"],
        )
        assert again.best is not None
        assert again.best.cost.total_usd == pytest.approx(splits.params["total_usd"], rel=0.01)
        assert advice(again, "framework") is None
        assert all("{" not in render(splits, lang) for lang in LANGS)
    else:
        # a month of 512 GPUs for ten thousand samples would be absurd
        assert plan.best.estimate["total_time_s"].mid < 5 * 86_400
    if plan.best is not None and method == "grpo":  # what writes the run's files says that its engine stays within a server
        refused = find_target("trl").problem(job_of(plan_document(json.loads(plan.to_json()))))
        assert "verl" in str(refused)
