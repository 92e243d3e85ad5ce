"""A model that was published in few bits is predicted so where a row does not say its weights."""

from __future__ import annotations

import pytest

import rightfit
from rightfit import facts
from rightfit.facts.engines import weight_format

ROW = {"metric": "peak_mem_gib", "engine": "vLLM", "device": "H200-SXM-141GB", "n_devices": "8", "tp": "8", "counter": "allocator"}
ROW |= {"input_tokens": "1000", "output_tokens": "500", "batch_or_concurrency": "8"}
NAMES = [("openai/gpt-oss-120b", "mxfp4"), ("openai/gpt-oss-20b", "mxfp4"), ("gpt-oss-120b", "mxfp4"), ("deepseek-ai/DeepSeek-V3", "fp8")]


@pytest.mark.parametrize(("model", "published"), NAMES)
def test_weights_that_are_not_said_are_those_of_the_checkpoint(model: str, published: str) -> None:
    unsaid, said, wide = rightfit.predict([{**ROW, "model": model, "weights_dtype": text} for text in ("", published, "bf16")])
    assert unsaid["predicted"] == said["predicted"] < 0.8 * wide["predicted"]
    assert f"weights not stated: {published} taken, as published" in unsaid["assumptions"]


def test_one_card_holds_what_is_published_for_one_card() -> None:
    row = {**ROW, "model": "openai/gpt-oss-120b", "device": "H100-SXM-80GB", "n_devices": "1", "tp": "1"}
    (answer,) = rightfit.predict([row])
    assert answer["fits"] == 1
    assert 60.0 < answer["predicted"] < 80.0


def test_every_published_format_is_one_that_is_known() -> None:
    assert all(weight_format(row["format"]) is not None for row in facts.table("published_formats"))
