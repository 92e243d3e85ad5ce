"""Defaults fit the wish: no service fails on lengths or limits that its user did not say, and
saying one limit leaves the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit.errors import ContradictionError
from rightfit.families.serving.wish import read_token_wish, usual_first_token_s, usual_lengths
from rightfit.search.answer import Plan
from rightfit.workload import Workload


def assumed(plan: Plan) -> dict[str, Any]:
    """The defaults of a plan by field, with the key of their reason."""
    return {one.field: (one.value, one.why.key) for one in plan.assumptions}


@pytest.mark.parametrize("model", ["gpt2", "Salesforce/blip-image-captioning-base"])
def test_usual_lengths_give_way_to_the_models_limit(model: str) -> None:
    plan = rightfit.plan(model=model, task="serve")
    taken = assumed(plan)
    assert plan.best is not None
    assert taken["input_tokens"][1] == "assumed_serve_input_tokens_within"
    assert taken["input_tokens"][0] + taken["output_tokens"][0] <= 1024


def test_lengths_by_hand() -> None:
    assert usual_lengths([None, None], 8192) == [1024, 256]
    assert usual_lengths([None, None], 1024) == [820, 204]
    assert usual_lengths([1000, None], 1024) == [1000, 24]
    assert usual_lengths([None, 500], 1024) == [524, 500]
    assert usual_lengths([None, None], None) == [1024, 256]


def test_lengths_that_were_said_are_never_cut() -> None:
    with pytest.raises(ContradictionError, match="1024"):
        rightfit.plan(model="gpt2", task="serve", input_tokens=1024, output_tokens=256)


def test_the_first_token_may_take_longer_after_a_longer_prompt() -> None:
    limits = [usual_first_token_s(tokens) for tokens in (128, 1024, 9428, 128_000)]
    assert limits[0] == limits[1] == (2.0, False)
    assert limits[2][0] == pytest.approx(6.0, abs=0.4)  # MLPerf's limit for prompts of that length
    assert limits[3][0] > 30
    wish = read_token_wish(Workload(model="meta-llama/Llama-3.1-8B", task="serve", input_tokens=100_000))
    assert wish.limits.ttft_s > 30


@pytest.mark.parametrize(("said", "kept"), [("ttft", "tpot_s"), ("tpot", "ttft_s"), ("latency", "ttft_s"), ("latency", "tpot_s")])
def test_saying_one_limit_does_not_drop_another(said: str, kept: str) -> None:
    plain = read_token_wish(Workload(model="meta-llama/Meta-Llama-3-8B", task="serve"))
    wish = read_token_wish(Workload(model="meta-llama/Meta-Llama-3-8B", task="serve", **{said: "10s"}))
    assert np.isfinite(getattr(wish.limits, kept))
    assert getattr(wish.limits, kept) == getattr(plain.limits, kept)
    assert kept.removesuffix("_s") in {one.field for one in wish.assumptions}


def test_a_batch_has_no_limits() -> None:
    wish = read_token_wish(Workload(model="meta-llama/Meta-Llama-3-8B", task="batch", data="1Mtok"))
    assert not np.isfinite([wish.limits.ttft_s, wish.limits.tpot_s, wish.limits.latency_s]).any()


@pytest.mark.parametrize("model", ["HunyuanVideo", "Qwen/Qwen-Image", "whisper-large-v3", "stabilityai/stable-diffusion-xl-base-1.0"])
def test_images_video_and_speech_have_limits_that_can_be_kept(model: str) -> None:
    plan = rightfit.plan(model=model, task="serve")
    assert plan.best is not None
    assert plan.best.estimate["latency_s"].mid <= assumed(plan)["latency"][0]


def test_a_usual_limit_that_no_server_keeps_is_told_with_the_one_taken() -> None:
    plan = rightfit.plan(model="Qwen/Qwen-Image", task="serve")
    told = next(one for one in plan.assumptions if one.field == "latency")
    if told.why.key == "assumed_serve_latency_wide":
        assert told.value > told.why.params["usual_s"] == 20.0
    said = rightfit.plan(model="HunyuanVideo", task="serve", latency="1s")
    assert said.best is None  # what the user says is never widened
