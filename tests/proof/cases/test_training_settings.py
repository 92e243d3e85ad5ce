"""What training stacks hold, by what their words say: widths, copies, the era of a fork."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rightfit import facts
from rightfit.estimation.convert import model_columns
from rightfit.estimation.training_setup import setup_fields
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.columns import Method, ModelColumns, Recompute, SetupColumns
from rightfit.physics.memory_peak import kept_and_working
from rightfit.proof.cases.training import row_settings, split_weights, training_case


def architecture(name: str) -> TransformerArchitecture:
    record = facts.model(name)
    assert isinstance(record, TransformerArchitecture)
    return record


def fields_of(model: TransformerArchitecture, **words: Any) -> dict[str, float]:
    """Fields of SetupColumns that the words of a row mean."""
    return setup_fields(training_case(model, **words))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bf16 (adapters fp32)", ("bf16", "fp32")),
        ("nf4 (adapters bf16)", ("nf4", "bf16")),
        ("fp16, adapters in fp32", ("fp16", "fp32")),
        ("bf16", ("bf16", "")),
        ("fp32", ("fp32", "")),
        ("", ""),
    ],
)
def test_words_of_adapters_are_not_words_of_the_base(text: str, expected: tuple[str, str] | str) -> None:
    assert split_weights(text) == (expected or ("", ""))


@pytest.mark.parametrize("words", ["bf16 (adapters fp32)", "bf16, adapters in fp32", "bf16"])
def test_a_base_of_16_bits_stays_one_beside_wide_adapters(words: str) -> None:
    fields = fields_of(architecture("meta-llama/Llama-3.2-3B"), method="lora", weights_dtype=words, framework="own loop")
    assert (fields["linear_weight_bytes"], fields["adapter_weight_bytes"], fields["autocast"]) == (2.0, 4.0, 0.0)


@pytest.mark.parametrize(
    ("framework", "strategy", "method", "copies"),
    [
        ("HF TRL SFTTrainer + fms-acceleration", "zero3", "lora", "1"),
        ("transformers", "zero3", "qlora", "1"),
        ("transformers+deepspeed", "zero3", "lora", "0"),
        ("ms-swift", "zero3", "lora", "0"),
        ("torchtitan", "zero3", "lora", "0"),
        ("torchtune", "zero3", "lora", "0"),
        ("transformers", "zero3", "full", "0"),
        ("transformers", "ddp", "lora", "0"),
    ],
)
def test_fsdp_of_a_frozen_base_is_not_zero_3(framework: str, strategy: str, method: str, copies: str) -> None:
    assert row_settings(framework=framework, strategy=strategy, method=method)["frozen_copies"] == copies


@pytest.mark.parametrize("name", ["meta-llama/Llama-2-70b-hf", "mistralai/Mistral-7B-v0.1", "meta-llama/Meta-Llama-3-8B"])
def test_what_a_frozen_base_holds_follows_depth_and_width(name: str) -> None:
    """Two bytes for each hidden element of each layer and token, whatever the vocabulary."""
    arch = architecture(name)
    model: ModelColumns = model_columns([arch])
    plain = SetupColumns.of(method=[Method.LORA], recompute=[Recompute.FULL], residual_bytes=[2])
    held = SetupColumns.of(method=[Method.LORA], recompute=[Recompute.FULL], residual_bytes=[2], frozen_input_copies=[1])
    more = kept_and_working(model, held)[0] - kept_and_working(model, plain)[0]
    assert np.allclose(more, 2.0 * arch.hidden_size)


@pytest.mark.parametrize(
    ("flags", "compiled"), [("compile", "1"), ("torch.compile", "1"), ("float8nocompile", "0"), ("packing,compile", "1")]
)
def test_nocompile_is_not_compile(flags: str, compiled: str) -> None:
    assert row_settings(framework="torchtitan", flags=flags).get("compiled", "0") == compiled


@pytest.mark.parametrize("flags", ["optimizer-in-bwd", "optimizer in backward", "packing,optimizer_in_bwd"])
def test_an_optimizer_in_the_backward_pass_keeps_no_gradients(flags: str) -> None:
    model = architecture("meta-llama/Llama-3.2-3B")
    inside = fields_of(model, framework="torchtune", weights_dtype="bf16", flags=flags)
    after = fields_of(model, framework="torchtune", weights_dtype="bf16")
    assert (inside["gradient_bytes"], after["gradient_bytes"]) == (0.0, 2.0)
    assert inside["optimizer_bytes"] == after["optimizer_bytes"]


@pytest.mark.parametrize(
    ("framework", "date", "sequence_parallel"),
    [("Megatron-DeepSpeed", "2022-02", "0"), ("megatron-lm", "2021-05", "0"), ("megatron-lm", "2024-05", "1"), ("megatron-core", "", "1")],
)
def test_sequence_parallelism_needs_a_version_that_has_it(framework: str, date: str, sequence_parallel: str) -> None:
    assert row_settings(framework=framework, method="full", date=date)["sequence_parallel"] == sequence_parallel


@pytest.mark.parametrize(
    ("framework", "strategy", "flags", "upcast"),
    [
        ("own PyTorch trainer", "single", "", "1"),
        ("own PyTorch trainer", "zero3", "", "0"),
        ("own PyTorch trainer", "single", "no fp32 upcast", "0"),
        ("HF TRL SFTTrainer", "single", "", "1"),
        ("HF TRL SFTTrainer", "zero3", "", "0"),
        ("transformers + peft + FSDP (trl)", "zero3", "", "0"),
        ("HF TRL SFTTrainer + fms-acceleration", "zero3", "", "0"),
        ("torchtune", "single", "", "0"),
        ("lit-gpt", "single", "", "0"),
        ("unsloth", "single", "", "0"),
    ],
)
def test_four_bit_bases_are_widened_where_they_can_be(framework: str, strategy: str, flags: str, upcast: str) -> None:
    assert row_settings(framework=framework, method="qlora", strategy=strategy, flags=flags)["kbit_upcast"] == upcast


def test_old_versions_only_by_date() -> None:
    words = {"framework": "HF Trainer", "method": "lora"}
    assert row_settings(**words, date="2023-05")["attention"] == "eager"
    assert row_settings(**words, date="2024-05")["attention"] == "default"
    assert row_settings(**words)["attention"] == "default"
