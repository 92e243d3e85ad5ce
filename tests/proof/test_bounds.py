"""No interval reaches what physics forbids: less memory than the weights that lie there, more
arithmetic or traffic than the data sheet has."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from rightfit import facts
from rightfit.proof.case_columns import certain_weights
from rightfit.proof.predict import predict
from rightfit.units import GIB

MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B", "meta-llama/Llama-3.1-8B", "google/gemma-2-2b", "meta-llama/Llama-3.1-70B")
#: Parameters counted from dimensions are within this share of a checkpoint's.
CERTAIN = 0.97


def _parameters(model: str) -> float:
    return float(facts.model(model, network=False).params_total)


def _trained(**told: str) -> dict[str, str]:
    return {
        "metric": "peak_mem_gib_per_gpu",
        "gpu": "H100-SXM-80GB",
        "n_gpus": "1",
        "micro_batch": "1",
        "seq_len": "512",
        "precision": "bf16",
        **told,
    }


@pytest.mark.parametrize("model", MODELS)
def test_memory_never_falls_below_the_weights(model: str) -> None:
    """The lower ends of both intervals, training and serving, whatever the stack, as far as the
    case tells where weights lie."""
    told = [("lora", "bf16", 2.0), ("full", "bf16", 2.0), ("full", "", 2.0), ("qlora", "", 0.5), ("lora", "", 0.5), ("lora", "fp32", 4.0)]
    cases = [
        _trained(model=model, method=method, weights_dtype=dtype, framework=stack)
        for (method, dtype, _), stack in itertools.product(told, ("", "trl", "own"))
    ]
    least = [width for (_, _, width), _ in itertools.product(told, range(3))]
    served = [("bf16", 2.0), ("fp8", 1.0), ("int4", 0.5), ("", 0.5)]
    cases_served = [
        {"metric": "peak_mem_gib", "model": model, "weights_dtype": dtype, "engine": "transformers", "device": "H100-SXM-80GB"}
        for dtype, _ in served
    ]
    answers = [*predict(cases), *predict(cases_served)]
    body = _parameters(model) - _embedding(model)
    for answer, width in zip(answers, [*least, *(width for _, width in served)], strict=True):
        assert not answer["error"]
        assert answer["low95"] >= CERTAIN * width * body / GIB * 0.999, answer
        assert answer["low95"] <= answer["low80"] <= answer["predicted"] <= answer["high80"] <= answer["high95"]


def _embedding(model: str) -> float:
    record: Any = facts.model(model, network=False)
    return float(record.vocab_size * record.hidden_size * 2)


def test_weights_that_may_lie_elsewhere_are_no_floor() -> None:
    """Several GPUs whose layout is not told may share the weights, and offloaded ones lie in
    host memory."""
    held = [certain_weights(row, 8.0, narrowest=1.0, devices=8.0) for row in ({}, {"strategy": "ddp"}, {"tp": "2"})]
    assert held == pytest.approx([CERTAIN, 8.0 * CERTAIN, 8.0 * CERTAIN])
    away = predict([_trained(model=MODELS[1], method="full", strategy="zero3", n_gpus="8", offload="params+optimizer")])[0]
    assert away["low95"] < CERTAIN * 2.0 * _parameters(MODELS[1]) / 8.0 / GIB


@pytest.mark.parametrize("gpu", ["A100-SXM-80GB", "H100-SXM-80GB", "RTX-4090", "L4"])
def test_no_step_is_faster_than_the_peak(gpu: str) -> None:
    rates = [
        {**_trained(model=model, method=method, gpu=gpu), "metric": "mfu", "seq_len": "4096", "micro_batch": "8"}
        for model in MODELS
        for method in ("full", "lora")
    ]
    times = [{**case, "metric": "step_time_s"} for case in rates]
    for rate, time in zip(predict(rates), predict(times), strict=True):
        assert rate["high95"] <= max(1.0, rate["predicted"]) * 1.0001
        assert time["low95"] >= time["predicted"] * min(rate["predicted"], 1.0) * 0.999


@pytest.mark.parametrize("device", ["A100-SXM-80GB", "H100-SXM-80GB", "RTX-4090"])
def test_no_token_is_faster_than_the_weights_are_read(device: str) -> None:
    """Time per token, decode rate, first token: by the data sheet's bandwidth and arithmetic,
    but not where a draft proposes tokens."""
    card = facts.accelerator(device)
    for model, (dtype, width) in itertools.product(MODELS[:4], (("bf16", 2.0), ("int4-awq", 0.5))):
        case = {"model": model, "weights_dtype": dtype, "device": device, "n_devices": "1", "input_tokens": "512", "output_tokens": "128"}
        step, rate, first = predict([{**case, "metric": metric} for metric in ("tpot_ms", "decode_tok_per_s_single", "ttft_ms")])
        body = _parameters(model) - _embedding(model)
        assert step["low95"] >= width * body / card.memory_bandwidth * 1e3 * 0.98
        assert rate["high95"] <= card.memory_bandwidth / (width * body) * 1.02
        fastest = max(card.bf16_flops, card.fp8_flops, card.int8_ops, card.fp4_flops)
        assert first["low95"] >= 2.0 * body * 512 / fastest * 1e3 * 0.98
        (drafted,) = predict([{**case, "metric": "tpot_ms", "draft": "eagle"}])
        assert drafted["error"] or drafted["low95"] <= step["low95"]


def test_the_doubt_is_of_what_lies_beside_the_weights() -> None:
    """The more of a job's memory are its weights, the surer the sum, whatever else is told."""
    cases = [
        _trained(model=MODELS[2], method="lora", weights_dtype="bf16", framework="trl", optimizer="adamw", seq_len=length)
        for length in ("256", "2048", "16384")
    ]
    answers = predict(cases)
    shares = [answer["terms"]["weights"] for answer in answers]
    widths = [answer["high80"] / answer["predicted"] for answer in answers]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 2.0 * shares[-1]
    assert widths == sorted(widths)
    assert widths[-1] > 1.2 * widths[0]
