"""What nvidia-smi counts beside the allocator: less on a card of few multiprocessors."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.proof.predict import predict

CARDS = ("T4", "L4", "RTX-3090", "A10G", "V100-SXM-16GB", "A100-SXM-40GB", "H100-SXM-80GB")


@pytest.mark.parametrize("framework", ["peft", "axolotl", "LLaMA-Factory", ""])
@pytest.mark.parametrize("method", ["lora", "qlora", "full"])
@pytest.mark.parametrize("model", ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B"])
def test_a_card_of_few_multiprocessors_loses_less_to_the_driver(framework: str, method: str, model: str) -> None:
    job = {"metric": "peak_mem_gib_per_gpu", "mem_kind": "nvidia-smi", "model": model, "method": method, "framework": framework}
    answers = predict([job | {"gpu": gpu, "precision": "fp16", "micro_batch": "1", "seq_len": "512"} for gpu in CARDS])
    shares = {gpu: round(answer["terms"]["context"] * answer["predicted"], 3) for gpu, answer in zip(CARDS, answers, strict=True)}
    sizes = {gpu: facts.accelerators()[gpu].num_sms for gpu in CARDS}
    ordered = sorted(CARDS, key=lambda gpu: sizes[gpu] or 0)
    assert [shares[gpu] for gpu in ordered] == sorted(shares.values())
    assert shares["T4"] < 0.5 * shares["A100-SXM-40GB"]  # 0.24 GiB measured where 0.84 were said


def test_the_allocator_counts_none_of_it() -> None:
    job = {
        "metric": "peak_mem_gib_per_gpu",
        "model": "Qwen/Qwen2.5-0.5B",
        "method": "lora",
        "gpu": "T4",
        "micro_batch": "1",
        "seq_len": "512",
    }
    allocated, driver = predict([job | {"mem_kind": kind} for kind in ("allocated", "nvidia-smi")])
    assert allocated["terms"]["context"] == 0.0
    assert 0.2 < driver["terms"]["context"] * driver["predicted"] < 0.4
