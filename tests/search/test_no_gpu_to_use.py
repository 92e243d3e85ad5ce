"""A job each night is a batch, and whoever has no GPU is not told to use one."""

from __future__ import annotations

import pytest

import rightfit
from rightfit.workload.ask import understand


@pytest.mark.parametrize("night", ["a nightly job", "a batch job"])
@pytest.mark.parametrize("model", ["Llama-3.1-8B", "Qwen2.5-7B-Instruct"])
def test_a_job_each_night_is_a_batch(model: str, night: str) -> None:
    wishes = understand(f"Run {model} on CPU only for {night} of 2,000 short emails, no GPU quota on our Azure").wishes
    assert wishes["task"] == "batch"
    found = rightfit.plan(**wishes)
    assert found.best is not None
    assert not found.best.accelerator.name


def test_a_night_of_tuning_is_tuning() -> None:
    assert understand("a nightly job that fine-tunes Llama-3.1-8B with LoRA on 2,000 emails").wishes["task"] == "finetune"


@pytest.mark.parametrize("model", ["Llama-3.1-8B", "SDXL"])
def test_no_gpu_is_advised_where_there_is_none(model: str) -> None:
    found = rightfit.plan(model, gpu="none", cloud="azure", task="finetune")
    assert not [one for one in found.advice if one.params.get("criterion") == "gpu"]


def test_an_own_server_of_some_hours_takes_their_electricity() -> None:
    few, all_hours = (rightfit.plan("SDXL", task="serve", rate="0.1/s", gpu="L40S", office_hours=hours, top=1) for hours in ("120", "700"))
    from rightfit.planner.plan import default_catalog
    from rightfit.search.ownership import own_section

    jobs = [section.content["job"] for plan in (few, all_hours) if (section := own_section(plan, default_catalog()))]
    assert jobs[0]["busy_h"] == pytest.approx(120.0)
    assert jobs[0]["own_usd"] < jobs[1]["own_usd"]
