"""The rules of thumb, by hand."""

from __future__ import annotations

import pytest

from rightfit.proof.accuracy import rule_predictions, rule_scores, serving_rule_predictions
from rightfit.proof.figures import family


def test_both_rules_by_hand() -> None:
    job = {
        "model": "meta-llama/Llama-2-7b-hf",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "8",
        "dp": "8",
        "zero": "3",
        "strategy": "zero3/fsdp",
        "method": "full",
    }
    job |= {"micro_batch": "1", "seq_len": "2048", "precision": "bf16"}
    memory, time, other = rule_predictions([{**job, "metric": name} for name in ("peak_mem_gib_per_gpu", "tokens_per_s_per_gpu", "mfu")])
    assert memory["predicted"] == pytest.approx(6738415616 * 16 / 8 / 2**30, rel=1e-6)
    assert memory["fits"] == 1
    assert time["predicted"] == pytest.approx(0.4 * 312e12 / (6 * 6738415616), rel=1e-3)
    assert other["predicted"] is None


def test_rules_of_serving_by_hand() -> None:
    run = {"model": "meta-llama/Llama-2-7b-hf", "device": "A100-SXM4-80GB", "engine": "vLLM", "weights_dtype": "fp16", "n_devices": "1"}
    run |= {"tp": "1", "input_tokens": "1000", "output_tokens": "100", "batch_or_concurrency": "1"}
    metrics = ("tpot_ms", "decode_tok_per_s_single", "ttft_ms", "prefill_tok_per_s", "peak_mem_gib", "output_tok_per_s_total")
    said = [answer["predicted"] for answer in serving_rule_predictions([{**run, "metric": name} for name in metrics])]
    params, bandwidth = 6738415616, 2.039e12
    assert said[0] == pytest.approx(params * 2 / bandwidth * 1e3, rel=1e-3)
    assert said[0] * said[1] == pytest.approx(1e3)
    assert said[2] == pytest.approx(1000 * 2 * params / (0.4 * 312e12) * 1e3, rel=1e-3)
    assert said[2] / 1e3 * said[3] == pytest.approx(1000)
    assert said[4] == pytest.approx(1.2 * params * 2 / 2**30, rel=1e-3)
    assert said[5] is None


def test_rules_are_scored_part_by_part() -> None:
    run = {"model": "meta-llama/Llama-2-7b-hf", "device": "A100-SXM4-80GB", "engine": "vLLM", "weights_dtype": "fp16", "source": "a"}
    rows = [{**run, "metric": "tpot_ms", "measured": "6.61"}, {**run, "metric": "peak_mem_gib", "measured": "30"}]
    found = rule_scores(family("serving"), rows)
    assert (found["time per token"].group.rows, found["memory"].group.rows, found["prefill"].group.rows) == (1, 1, 0)
    assert found["time per token"].group.median_ape < 0.01
    assert rule_scores(family("passes"), rows) == {}
