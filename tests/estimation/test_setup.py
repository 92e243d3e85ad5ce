"""A training job becomes numbers of SetupColumns."""

from __future__ import annotations

from typing import Any

import pytest

from rightfit import facts
from rightfit.estimation.training_setup import setup_fields
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.columns import AttentionKernel, Dtype, Loss, MemoryCounter, Method, Recompute, SetupColumns
from rightfit.proof.cases.training import training_case


def decoder(name: str) -> TransformerArchitecture:
    record = facts.model(name)
    assert isinstance(record, TransformerArchitecture)
    return record


def llama() -> TransformerArchitecture:
    return decoder("meta-llama/Meta-Llama-3-8B")


def fields_of(model: TransformerArchitecture, **words: Any) -> dict[str, float]:
    """Fields of SetupColumns that the words of a row mean."""
    return setup_fields(training_case(model, **words))


def state_bytes(fields: dict[str, float]) -> float:
    return sum(fields[name] for name in ("linear_weight_bytes", "gradient_bytes", "accumulation_bytes", "master_bytes", "optimizer_bytes"))


def test_full_training_defaults_to_16_bytes_a_parameter() -> None:
    fields = fields_of(llama())
    assert state_bytes(fields) == 16.0
    assert fields["trainable_params"] == 8_030_261_248
    assert fields["compute_dtype"] == Dtype.BF16


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"weights_dtype": "bf16", "framework": "HF Trainer"}, 8.0),
        ({"weights_dtype": "fp32", "precision": "bf16"}, 16.0),
        ({"framework": "megatron-core"}, 18.0),
        ({"framework": "torchtitan", "strategy": "zero3"}, 16.0),
        ({"framework": "HF Trainer"}, 16.0),
        ({"weights_dtype": "bf16", "optimizer": "adamw_8bit", "framework": "HF Trainer"}, 2 + 2 + 2 * 1.015625),
        ({"framework": "Megatron-DeepSpeed", "strategy": "megatron", "weights_dtype": "fp16+fp32 master"}, 18.0),
        ({"framework": "Megatron-DeepSpeed", "strategy": "megatron", "weights_dtype": "bf16+fp32 master"}, 20.0),
        ({"framework": "DeepSpeed", "strategy": "zero1", "flags": "fp32-grad-accum"}, 20.0),
        ({"optimizer": "sgd"}, 8.0),
        ({"optimizer": "lion"}, 12.0),
        ({"optimizer": "lomo", "weights_dtype": "bf16"}, 2.0),
        ({"optimizer": "paged_adamw_32bit"}, 8.0),
    ],
)
def test_bytes_of_full_training_by_stack(words: dict[str, str], expected: float) -> None:
    assert state_bytes(fields_of(llama(), **words)) == pytest.approx(expected)


@pytest.mark.parametrize(("method", "kept"), [("full", 2.0), ("qlora", 4.0)])
def test_a_capped_head_keeps_its_tanh_in_the_width_of_the_logits(method: str, kept: float) -> None:
    """Gemma 2 divides, squashes and multiplies its logits; with what is not quantised widened to
    fp32 they are fp32 from the start."""
    capped, plain = (
        fields_of(decoder(name), method=method, framework="transformers+peft")["logit_bytes"]
        for name in ("google/gemma-2-9b", "google/gemma-7b")
    )
    assert capped - plain == kept


def test_every_field_belongs_to_setup_columns() -> None:
    for method in ("full", "lora", "qlora", "dora", "ptuning", "prefix", "freeze", "galore"):
        SetupColumns.of(**fields_of(llama(), method=method))


def test_qlora_packs_the_linear_layers() -> None:
    fields = fields_of(llama(), method="qlora", framework="transformers+peft")
    assert fields["linear_weight_bytes"] == pytest.approx(0.5 + 1 / 64 + 4 / (64 * 256))
    assert fields["other_weight_bytes"] == 4.0  # prepare_model_for_kbit_training
    assert fields["residual_bytes"] == 4.0
    assert fields["quantized"] == fields["keeps_linear_inputs"] == 1.0
    assert fields_of(llama(), method="qlora", framework="unsloth")["other_weight_bytes"] == 2.0


def test_gptq_is_not_taken_for_nf4() -> None:
    fields = fields_of(llama(), method="qlora", weights_dtype="gptq-int4")
    assert fields["linear_weight_bytes"] == 0.52
    assert fields["keeps_linear_inputs"] == 0.0


def test_lora_counts_its_adapter() -> None:
    fields = fields_of(llama(), method="lora", lora_rank=16, lora_targets="q,k,v,o")
    assert fields["method"] == Method.LORA
    assert fields["adapter_params"] == 32 * 16 * ((4096 + 4096) + 2 * (4096 + 1024) + (4096 + 4096))
    assert fields["trainable_params"] == fields["adapter_params"]
    assert fields["adapter_modules"] == 32 * 4


def test_trained_embeddings_keep_the_width_of_the_base() -> None:
    plain = fields_of(llama(), method="lora", lora_targets="q,v")
    wide = fields_of(llama(), method="lora", lora_targets="q,v+wte+lm_head trainable")
    assert wide["adapter_params"] - plain["adapter_params"] == 2 * 525_336_576
    assert plain["adapter_weight_bytes"] == 4.0
    assert wide["adapter_weight_bytes"] == pytest.approx(2.0, abs=0.02)


def test_kernels_follow_the_card_and_the_words() -> None:
    flash = fields_of(llama(), attention="flash")
    assert flash["attention"] == AttentionKernel.FLASH
    assert fields_of(llama(), attention="flash", supports_flash=False)["attention"] == AttentionKernel.SDPA
    assert fields_of(llama(), attention="eager")["attention"] == AttentionKernel.EAGER
    assert fields_of(llama(), recompute="full")["recompute"] == Recompute.FULL
    assert fields_of(llama(), framework="axolotl", flags="packing+chunked-ce(CCE)")["loss"] == Loss.FUSED
    assert fields_of(llama(), flags="accelerated-peft-bnb")["loss"] == Loss.STANDARD  # "cce" inside a word is not cut cross-entropy


def test_a_card_without_bf16_computes_in_fp16() -> None:
    assert fields_of(llama(), supports_bf16=False)["compute_dtype"] == Dtype.FP16


def test_counter_of_the_framework() -> None:
    assert fields_of(llama(), framework="internevo")["memory_counter"] == MemoryCounter.DRIVER
    assert fields_of(llama())["memory_counter"] == MemoryCounter.RESERVED


def test_prefix_and_frozen_layers() -> None:
    prefix = fields_of(llama(), method="ptuning", flags="num_virtual_tokens=64")
    assert prefix["adapter_params"] == 64 * 32 * 2 * 1024  # keys and values of 8 heads of 128
    projected = fields_of(llama(), method="ptuning", flags="pre_seq_len 16, prefix projection")
    assert projected["adapter_params"] == 16 * 4096 + 4096**2 + 4096 * 32 * 2048
    frozen = fields_of(llama(), method="freeze", flags="last 8 layers trained")
    assert frozen["trainable_params"] == pytest.approx(6_979_588_096 / 4)


def test_every_target_that_adds_a_matrix_adds_its_parameters() -> None:
    model = decoder("meta-llama/Llama-3.1-8B")
    names = ("q,v", "q,v,mlp", "q,v,mlp,head", "q,v,head")
    count = {name: fields_of(model, method="lora", lora_rank=16, lora_targets=name)["adapter_params"] for name in names}
    assert count["q,v"] < count["q,v,mlp"] < count["q,v,mlp,head"]
    assert count["q,v,head"] - count["q,v"] == 16 * (4096 + 128256)


def test_capped_scores_are_computed_step_by_step_where_nothing_else_is_asked_for() -> None:
    capped, plain = decoder("google/gemma-2-9b"), decoder("google/gemma-7b")
    assert fields_of(capped, framework="transformers", date="2025-01")["attention"] == AttentionKernel.EAGER
    assert fields_of(capped, framework="transformers", date="2025-01", attention="flash")["attention"] == AttentionKernel.FLASH
    assert fields_of(plain, framework="transformers", date="2025-01")["attention"] == AttentionKernel.SDPA
