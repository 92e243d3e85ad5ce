"""LLM.int8() of bitsandbytes: host and card take turns in every product, which generating shows
(huggingface/optimum-quanto pull request 62) and which training pays for as well."""

from __future__ import annotations

from typing import Any

import pytest

from rightfit.proof.predict import predict

#: Milliseconds a token on one A10G in 16 bits, 8 bits of bitsandbytes and NF4.
GENERATED = {
    "princeton-nlp/Sheared-LLaMA-1.3B": (21, 115, 33),
    "01-ai/Yi-6B": (32, 190, 44),
    "NousResearch/Llama-2-7b-hf": (37, 164, 42),
    "HuggingFaceH4/zephyr-7b-beta": (38, 207, 45),
}


def step_s(**cells: str) -> float:
    (answer,) = predict([{"metric": "step_time_s", "method": "lora", "lora_targets": "q,v", "recompute": "none", **cells}])
    assert not answer["error"], answer["error"]
    return float(answer["predicted"])


@pytest.mark.parametrize("model", list(GENERATED))
def test_a_token_takes_what_was_measured_in_every_width(model: str) -> None:
    wish = {"metric": "tpot_ms", "model": model, "engine": "transformers", "device": "A10G", "date": "2023-12-21"}
    wish |= {"input_tokens": "100", "output_tokens": "100", "batch_or_concurrency": "1"}
    answers = predict([wish | {"weights_dtype": width} for width in ("fp16", "int8-bnb", "nf4")])
    for answer, measured in zip(answers, GENERATED[model], strict=True):
        assert answer["predicted"] == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize("framework", ["peft", "axolotl", "LLaMA-Factory", ""])
@pytest.mark.parametrize(
    ("model", "gpu"), [("huggyllama/llama-7b", "RTX A5000"), ("Qwen/Qwen2.5-1.5B", "A100-SXM-80GB"), ("Qwen/Qwen2.5-14B", "H100-SXM-80GB")]
)
def test_few_tokens_take_more_than_twice_as_long_and_many_hide_it(framework: str, model: str, gpu: str) -> None:
    """Reports say two to three times the step of 16 bits at 256 tokens (bitsandbytes issue 465)."""
    ratios = []
    for batch, length in (("1", "256"), ("4", "1024")):
        cells = {"model": model, "gpu": gpu, "framework": framework, "micro_batch": batch, "seq_len": length}
        ratios.append(step_s(**cells, weights_dtype="int8-bnb") / step_s(**cells, weights_dtype="bf16"))
    assert 1.8 < ratios[0] < 6.0
    assert 1.0 < ratios[1] < ratios[0]


@pytest.mark.parametrize(
    ("cells", "waits"),
    [
        ({"weights_dtype": "int8-bnb"}, True),
        ({"weights_dtype": "int8"}, True),
        ({"weights_dtype": "nf4"}, False),
        ({"weights_dtype": "gptq-int8"}, False),
        ({"weights_dtype": "bf16"}, False),
        ({"weights_dtype": "bf16", "method": "full"}, False),
    ],
)
def test_only_bitsandbytes_in_eight_bits_waits_in_each_product(cells: dict[str, Any], waits: bool) -> None:
    """Recomputation runs every product once more, and so waits once more."""
    job = {"model": "huggyllama/llama-7b", "gpu": "A100-SXM-80GB", "framework": "peft", "micro_batch": "1", "seq_len": "256", **cells}
    more = step_s(**job | {"recompute": "full"}) - step_s(**job)
    plain = step_s(**job | {"weights_dtype": "bf16", "recompute": "full"}) - step_s(**job | {"weights_dtype": "bf16"})
    assert (more > plain + 0.1) == waits  # 224 products of 0.6 ms
