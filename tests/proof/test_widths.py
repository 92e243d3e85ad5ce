"""Batch prediction under the law of intervals: unknown names widen as empty cells do, and the
verdict follows the probability."""

from __future__ import annotations

import pytest

from rightfit.estimation.intervals import interval_law
from rightfit.proof.predict import answered, predict

CASES = {
    "training memory": {
        "metric": "peak_mem_gib_per_gpu",
        "model": "meta-llama/Meta-Llama-3-8B",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "1",
        "method": "qlora",
        "micro_batch": "4",
        "seq_len": "2048",
        "precision": "bf16",
    },
    "training speed": {
        "metric": "tokens_per_s_per_gpu",
        "model": "meta-llama/Meta-Llama-3-8B",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "1",
        "method": "full",
        "micro_batch": "4",
        "seq_len": "2048",
        "precision": "bf16",
    },
    "serving": {
        "metric": "tpot_ms",
        "model": "meta-llama/Meta-Llama-3-8B",
        "device": "A100-SXM-80GB",
        "n_devices": "1",
        "input_tokens": "128",
        "output_tokens": "128",
        "batch_or_concurrency": "8",
        "weights_dtype": "fp16",
        "engine": "",
    },
    "forward passes": {
        "metric": "images_per_s",
        "model": "resnet50",
        "device": "A100-SXM-80GB",
        "n_devices": "1",
        "batch_or_concurrency": "8",
        "weights_dtype": "fp16",
        "engine": "",
    },
    "samples": {
        "metric": "images_per_s_total",
        "task": "classification",
        "model": "resnet50",
        "gpu": "V100-SXM2-16GB",
        "n_gpus": "1",
        "batch_per_gpu": "64",
        "image_size": "224",
        "precision": "fp32",
    },
    "classical": {
        "metric": "train_time_s",
        "algorithm": "gradient boosting",
        "rows": "1000000",
        "cols": "28",
        "settings": "100 trees, depth 6",
        "cores": "16",
        "hardware": "c5.4xlarge",
        "library": "",
    },
}
KNOWN = {
    "training memory": ("framework", "HF Transformers"),
    "training speed": ("framework", "HF Transformers"),
    "serving": ("engine", "vLLM"),
    "forward passes": ("engine", "PyTorch"),
    "samples": ("framework", "PyTorch"),
    "classical": ("library", "xgboost"),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_name_that_nobody_knows_widens_as_an_empty_cell_does(kind: str) -> None:
    column, known = KNOWN[kind]
    empty, unknown, named = predict([{**CASES[kind], column: text} for text in ("", "zzqq stack", known)])
    assert [answer["error"] for answer in (empty, unknown, named)] == ["", "", ""]
    widths = [answer["high95"] / answer["low95"] for answer in (empty, unknown, named)]
    assert widths[1] == pytest.approx(widths[0], rel=1e-4)
    assert "zzqq stack' is not known" in unknown["assumptions"]
    assert "not known: as if none" not in named["assumptions"]


@pytest.mark.parametrize("kind", ["serving", "forward passes", "samples", "classical"])
def test_named_software_is_narrower_than_none(kind: str) -> None:
    column, known = KNOWN[kind]
    empty, named = predict([{**CASES[kind], column: text} for text in ("", known)])
    assert named["high95"] / named["low95"] < empty["high95"] / empty["low95"]


def test_the_verdict_is_the_probability_against_its_threshold() -> None:
    models = (
        "Qwen/Qwen2.5-0.5B",
        "meta-llama/Llama-3.1-405B",
        "meta-llama/Meta-Llama-3-8B",
        "Qwen/Qwen2.5-32B",
        "meta-llama/Meta-Llama-3-70B",
    )
    cards = ("RTX-4090", "A100-SXM-40GB", "A100-SXM-80GB", "H200-SXM")
    jobs = [{**CASES["training memory"], "model": model, "gpu": card} for model in models for card in cards]
    answers = predict(jobs)
    risk = interval_law().most_risk("memory-adapter")
    for answer in answers:
        assert 0.0 <= answer["p_fits"] <= 1.0
        assert answer["fits"] == int(1.0 - answer["p_fits"] < risk)
        assert answer["fits95"] <= answer["fits"]
    chances = [answer["p_fits"] for answer in answers]
    assert max(chances) > 0.9 > 0.1 > min(chances)


def test_a_case_without_a_card_has_no_verdict() -> None:
    answer = predict([{**CASES["training memory"], "gpu": ""}])[0]
    assert (answer["fits"], answer["p_fits"]) == (None, None)


def test_what_the_law_reads_is_not_in_the_answer() -> None:
    assert answered([CASES["serving"]])[1][0]["regime"]["group"] == "serving-tpot"
    assert "regime" not in predict([CASES["serving"]])[0]
