"""Sparse and compressed attention: cost and cache of long contexts, as they were counted."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.proof.predict import predict

SERVED = {"weights_dtype": "fp8", "engine": "vLLM", "device": "H200-SXM-141GB", "n_devices": "8", "tp": "8", "output_tokens": "500"}


def bundled() -> list[dict[str, str]]:
    found = []
    for row in facts.table("attention_kinds"):
        try:
            facts.model(row["model"], network=False)
        except RightfitError:
            continue
        found.append(dict(row))
    return found


@pytest.mark.parametrize("row", bundled(), ids=lambda row: row["model"])
def test_every_counted_cache_is_the_one_that_is_predicted(row: dict[str, str]) -> None:
    """The cache of a token, far beyond every window: that which was counted, with the keys of its
    indexers."""
    case = SERVED | {
        "model": row["model"],
        "metric": "peak_mem_gib",
        "batch_or_concurrency": "1",
        "weights_dtype": "bf16",
        "kv_dtype": "bf16",
    }
    case |= {"engine": "transformers", "counter": "allocator", "counter_scope": "sum", "tp": "", "engine_version": "5.0"}
    small, large = predict([case | {"input_tokens": tokens} for tokens in ("100000", "200000")])
    counted = float(row["cache_bytes"]) + float(row["index_bytes"] or 0)
    grown = (large["predicted"] * large["terms"]["kv_cache"] - small["predicted"] * small["terms"]["kv_cache"]) * 2**30
    assert grown == pytest.approx(100_000 * counted, rel=0.25)


@pytest.mark.parametrize("metric", ["ttft_ms", "tpot_ms"])
def test_long_contexts_of_sparse_attention_cost_less_than_of_dense(metric: str) -> None:
    def growth(model: str) -> float:
        row = SERVED | {"metric": metric, "batch_or_concurrency": "1", "model": model}
        short, long = predict([row | {"input_tokens": tokens} for tokens in ("10000", "150000")])
        return float(long["predicted"] - short["predicted"])

    assert growth("deepseek-ai/DeepSeek-V3.2") < 0.8 * growth("deepseek-ai/DeepSeek-V3")


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro", "zai-org/GLM-5", "MiniMaxAI/MiniMax-M3"])
def test_three_hundred_thousand_tokens_are_served(model: str) -> None:
    row = SERVED | {"model": model, "metric": "ttft_ms", "batch_or_concurrency": "1", "device": "B300-SXM-288GB"}
    short, long = predict([row | {"input_tokens": tokens} for tokens in ("30000", "300000")])
    assert long["error"] == ""
    assert 5.0 * short["predicted"] < long["predicted"] < 100.0 * short["predicted"]
