"""Words become numbers of SetupColumns."""

from __future__ import annotations

import difflib

import pytest

from rightfit import facts
from rightfit.estimate.setup import conventions, parse_targets, resolve_setup
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.columns import AttentionKernel, Dtype, Loss, MemoryCounter, Method, Recompute, SetupColumns


def decoder(name: str) -> TransformerArchitecture:
    record = facts.model(name)
    assert isinstance(record, TransformerArchitecture)
    return record


def llama() -> TransformerArchitecture:
    return decoder("meta-llama/Meta-Llama-3-8B")


def state_bytes(fields: dict[str, float]) -> float:
    return sum(fields[name] for name in ("linear_weight_bytes", "gradient_bytes", "accumulation_bytes", "master_bytes", "optimizer_bytes"))


def test_full_training_defaults_to_16_bytes_a_parameter() -> None:
    fields = resolve_setup(llama())
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
    assert state_bytes(resolve_setup(llama(), **words)) == pytest.approx(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(("method", "kept"), [("full", 2.0), ("qlora", 4.0)])
def test_a_capped_head_keeps_its_tanh_in_the_width_of_the_logits(method: str, kept: float) -> None:
    """Gemma 2 divides, squashes and multiplies its logits; with what is not quantised widened to fp32 they are fp32 from the start."""
    capped, plain = (
        resolve_setup(decoder(name), method=method, framework="transformers+peft")["logit_bytes"]
        for name in ("google/gemma-2-9b", "google/gemma-7b")
    )
    assert capped - plain == kept


def test_every_field_belongs_to_setup_columns() -> None:
    for method in ("full", "lora", "qlora", "dora", "ptuning", "prefix", "freeze", "galore"):
        SetupColumns.of(**resolve_setup(llama(), method=method))


def test_qlora_packs_the_linear_layers() -> None:
    fields = resolve_setup(llama(), method="qlora", framework="transformers+peft")
    assert fields["linear_weight_bytes"] == pytest.approx(0.5 + 1 / 64 + 4 / (64 * 256))
    assert fields["other_weight_bytes"] == 4.0  # prepare_model_for_kbit_training
    assert fields["residual_bytes"] == 4.0
    assert fields["quantized"] == fields["keeps_linear_inputs"] == 1.0
    assert resolve_setup(llama(), method="qlora", framework="unsloth")["other_weight_bytes"] == 2.0


def test_gptq_is_not_taken_for_nf4() -> None:
    fields = resolve_setup(llama(), method="qlora", weights_dtype="gptq-int4")
    assert fields["linear_weight_bytes"] == 0.52
    assert fields["keeps_linear_inputs"] == 0.0


def test_lora_counts_its_adapter() -> None:
    fields = resolve_setup(llama(), method="lora", lora_rank=16, lora_targets="q,k,v,o")
    assert fields["method"] == Method.LORA
    assert fields["adapter_params"] == 32 * 16 * ((4096 + 4096) + 2 * (4096 + 1024) + (4096 + 4096))
    assert fields["trainable_params"] == fields["adapter_params"]
    assert fields["adapter_modules"] == 32 * 4


def test_trained_embeddings_keep_the_width_of_the_base() -> None:
    plain = resolve_setup(llama(), method="lora", lora_targets="q,v")
    wide = resolve_setup(llama(), method="lora", lora_targets="q,v+wte+lm_head trainable")
    assert wide["adapter_params"] - plain["adapter_params"] == 2 * 525_336_576
    assert plain["adapter_weight_bytes"] == 4.0
    assert wide["adapter_weight_bytes"] == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("q,v", (1, 1, 0, 0, 0)),
        ("q,k,v,o", (1, 2, 1, 0, 0)),
        ("q_proj+k_proj+v_proj+o_proj", (1, 2, 1, 0, 0)),
        ("all-linear", (1, 2, 1, 2, 1)),
        ("ALL (all linear)", (1, 2, 1, 2, 1)),
        ("c_attn,c_proj,w1,w2", (1, 2, 1, 2, 1)),
        ("DEFAULT(c_attn/qkv)", (1, 2, 0, 0, 0)),
        ("query_key_value,dense,dense_h_to_4h,dense_4h_to_h", (1, 2, 1, 1, 1)),
        ("W_pack", (1, 2, 0, 0, 0)),
        (r"model.layers.[\d]+.(mlp|self_attn).(up|down|gate|q|k|v|o)_proj", (1, 2, 1, 2, 1)),
        ("", (1, 1, 0, 0, 0)),
    ],
)
def test_targets(text: str, expected: tuple[int, ...]) -> None:
    found = parse_targets(text)
    assert (found.query, found.key_value, found.output, found.up, found.down) == expected


def test_kernels_follow_the_card_and_the_words() -> None:
    flash = resolve_setup(llama(), attention="flash")
    assert flash["attention"] == AttentionKernel.FLASH
    assert resolve_setup(llama(), attention="flash", supports_flash=False)["attention"] == AttentionKernel.SDPA
    assert resolve_setup(llama(), attention="eager")["attention"] == AttentionKernel.EAGER
    assert resolve_setup(llama(), recompute="full")["recompute"] == Recompute.FULL
    assert resolve_setup(llama(), framework="axolotl", flags="packing+chunked-ce(CCE)")["loss"] == Loss.FUSED
    assert resolve_setup(llama(), flags="accelerated-peft-bnb")["loss"] == Loss.STANDARD  # "cce" inside a word is not cut cross-entropy


def test_a_card_without_bf16_computes_in_fp16() -> None:
    assert resolve_setup(llama(), supports_bf16=False)["compute_dtype"] == Dtype.FP16


def test_old_versions_only_by_date() -> None:
    words = {"framework": "HF Trainer", "method": "lora"}
    assert conventions(**words, date="2023-05")["attention"] == "eager"
    assert conventions(**words, date="2024-05")["attention"] == "default"
    assert conventions(**words)["attention"] == "default"


def test_counter_of_the_framework() -> None:
    assert resolve_setup(llama(), framework="internevo")["memory_counter"] == MemoryCounter.DRIVER
    assert resolve_setup(llama())["memory_counter"] == MemoryCounter.RESERVED


def test_every_rule_names_its_source() -> None:
    for table in ("frameworks", "optimizers", "quantizations", "dtypes", "accelerator_variants"):
        assert all(row["source"].strip() for row in facts.table(table)), table


# Settings of frameworks.csv that have no usual value in its first row: absent means that nothing is known or that it is not so.
OPTIONAL_SETTINGS = frozenset({"weights", "nf4", "loss", "compiled"})
METHOD_WORDS = frozenset({"full", "lora", "qlora", "dora", "ptuning", "prefix", "freeze"})


@pytest.mark.parametrize("row", facts.table("frameworks")[1:], ids=lambda row: row["source"][:40])
def test_every_habit_of_a_framework_is_one_that_is_read(row: dict[str, str]) -> None:
    """A setting under a wrong name, or for a method that there is not, would be without effect."""
    known = {pair.split("=", 1)[0] for pair in facts.table("frameworks")[0]["set"].split(";")} | OPTIONAL_SETTINGS
    known |= {found["name"] for found in facts.table("quantizations")}  # how the framework stores such weights
    name = row["framework"] or row["flags"] or row["source"][:40]
    for pair in row["set"].split(";"):
        key, sign, value = pair.partition("=")
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        assert sign, f"frameworks.csv: {name}: {pair!r} is not name=value; several are parted by ';'"
        assert value or key == "attention_forced", f"frameworks.csv: {name}: {key} has no value"
        assert key in known, f"frameworks.csv: {name}: nothing reads the setting {key!r}{hint}"
    strange = set(filter(None, row["method"].split("|"))) - METHOD_WORDS
    assert not strange, f"frameworks.csv: {name}: no method is called {', '.join(strange)}"
    for column in ("framework", "flags", "strategy", "weights", "model", "optimizer"):
        assert row[column] == row[column].lower(), f"frameworks.csv: {name}: {column} is compared in small letters"
    assert row["source"].strip(), f"frameworks.csv: {name} has no source"


def test_prefix_and_frozen_layers() -> None:
    prefix = resolve_setup(llama(), method="ptuning", flags="num_virtual_tokens=64")
    assert prefix["adapter_params"] == 64 * 32 * 2 * 1024  # keys and values of 8 heads of 128
    projected = resolve_setup(llama(), method="ptuning", flags="pre_seq_len 16, prefix projection")
    assert projected["adapter_params"] == 16 * 4096 + 4096**2 + 4096 * 32 * 2048
    frozen = resolve_setup(llama(), method="freeze", flags="last 8 layers trained")
    assert frozen["trainable_params"] == pytest.approx(6_979_588_096 / 4)


def test_blocks_and_the_head_are_targets() -> None:
    assert parse_targets("mlp") == parse_targets("gate,up,down") == parse_targets("ffn")
    assert parse_targets("q,v,o,mlp") == parse_targets("q,v,o,gate,up,down")
    path = parse_targets(r"model.layers.[\d]+.(mlp|self_attn).(q|k|v|o)_proj")
    assert path.query == path.output == 1.0
    assert parse_targets("head").head == parse_targets("q,v,head").head == parse_targets("all+output").head == 1.0
    assert parse_targets("q,k,v,o").head == parse_targets("all").head == parse_targets("c_attn,w1 + wte+lm_head trainable").head == 0.0


def test_every_target_that_adds_a_matrix_adds_its_parameters() -> None:
    model = decoder("meta-llama/Llama-3.1-8B")
    names = ("q,v", "q,v,mlp", "q,v,mlp,head", "q,v,head")
    count = {name: resolve_setup(model, method="lora", lora_rank=16, lora_targets=name)["adapter_params"] for name in names}
    assert count["q,v"] < count["q,v,mlp"] < count["q,v,mlp,head"]
    assert count["q,v,head"] - count["q,v"] == 16 * (4096 + 128256)


def test_capped_scores_are_computed_step_by_step_where_nothing_else_is_asked_for() -> None:
    capped, plain = decoder("google/gemma-2-9b"), decoder("google/gemma-7b")
    assert resolve_setup(capped, framework="transformers", date="2025-01")["attention"] == AttentionKernel.EAGER
    assert resolve_setup(capped, framework="transformers", date="2025-01", attention="flash")["attention"] == AttentionKernel.FLASH
    assert resolve_setup(plain, framework="transformers", date="2025-01")["attention"] == AttentionKernel.SDPA
