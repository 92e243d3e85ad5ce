"""Adapters by version and stack: experts that 4-bit loading leaves in 16 bits, and what DoRA
costs beside LoRA."""

from __future__ import annotations

import pytest

from rightfit.proof.predict import predict

MIXTURE = {"metric": "peak_mem_gib_per_gpu", "method": "qlora", "gpu": "H100-SXM-80GB", "micro_batch": "1", "seq_len": "2048"}
OLD_CLASS, NEW_CLASS = "mistralai/Mixtral-8x7B-v0.1", "google/gemma-4-26B-A4B"
DENSE = {"model": "meta-llama/Meta-Llama-3-8B", "gpu": "A100-SXM-80GB", "micro_batch": "1", "seq_len": "1024", "lora_targets": "all"}


@pytest.mark.parametrize("framework", ["unsloth", "transformers + peft", "axolotl", "LLaMA-Factory", ""])
def test_experts_of_a_class_since_transformers_5_stay_in_sixteen_bits(framework: str) -> None:
    """gemma-4-26B-A4B: 49.0 GiB were measured at 8,192 tokens; packed it would hold 20."""
    fused, unfused = predict(
        [MIXTURE | {"model": NEW_CLASS, "framework": framework, "extra_flags": flags} for flags in ("", "unfused experts")]
    )
    assert fused["predicted"] > 42
    assert unfused["predicted"] < fused["predicted"] - 25


@pytest.mark.parametrize("framework", ["torchtune", "megatron"])
def test_stacks_of_their_own_pack_them(framework: str) -> None:
    row = MIXTURE | {"model": NEW_CLASS, "framework": framework}
    own, packed = predict([row, row | {"extra_flags": "unfused experts"}])
    assert own["predicted"] == packed["predicted"]


def test_the_version_decides_for_older_classes() -> None:
    cases = ({}, {"date": "2024-06"}, {"date": "2026-06"}, {"release": "5.2"}, {"release": "4.57", "date": "2026-06"})
    usual, old, late, stated, kept = (
        answer["predicted"] for answer in predict([MIXTURE | {"model": OLD_CLASS, "framework": "peft", **more} for more in cases])
    )
    assert usual == pytest.approx(old, rel=0.1)
    assert kept == pytest.approx(usual)
    assert late == pytest.approx(stated)
    assert late > 2.5 * usual


def test_a_dense_model_is_as_large_in_every_version() -> None:
    first, second = predict([MIXTURE | DENSE | {"framework": "peft", "release": release} for release in ("4.50", "5.1")])
    assert first["predicted"] == second["predicted"]


@pytest.mark.parametrize("flags", ["", "adapter_dropout=0.05"])
def test_dora_takes_norms_of_whole_matrices(flags: str) -> None:
    """PEFT takes the norm of every adapted matrix in each pass and multiplies the base
    twice: 5.5 s a step were measured where LoRA took 2.7."""
    rows = [DENSE | {"framework": "peft", "method": method, "extra_flags": flags} for method in ("lora", "dora")]
    lora, dora = predict([row | {"metric": "step_time_s"} for row in rows])
    assert dora["predicted"] > 1.6 * lora["predicted"]
    small, large = predict([row | {"metric": "peak_mem_gib_per_gpu"} for row in rows])
    assert large["predicted"] > small["predicted"]


@pytest.mark.parametrize("framework", ["peft", "LLaMA-Factory", "axolotl", ""])
@pytest.mark.parametrize("weights", ["int8", "int8-bnb", "8bit", "gptq-int8"])
@pytest.mark.parametrize("metric", ["step_time_s", "tokens_per_s_per_gpu", "mfu"])
def test_a_step_that_was_never_measured_is_doubted(framework: str, weights: str, metric: str) -> None:
    """Bases of 8 bits: no table has a step, and what users report is up to seven times as long."""
    rows = [
        DENSE | {"framework": framework, "method": "lora", "metric": metric, "weights_dtype": name} for name in (weights, "nf4", "bf16")
    ]
    eight, four, sixteen = predict(rows)
    width = [answer["high95"] / answer["low95"] for answer in (eight, four, sixteen)]
    assert width[0] > width[1] ** 1.4
    assert ["8-bit base" in answer["assumptions"] for answer in (eight, four, sixteen)] == [True, False, False]
    (memory,) = predict([rows[0] | {"metric": "peak_mem_gib_per_gpu"}])
    assert "8-bit base" not in memory["assumptions"]
