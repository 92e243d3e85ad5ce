"""Step time end to end: sane everywhere, close to published figures, fast."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import facts
from rightfit.estimation import training
from rightfit.estimation.convert import default_links, device_columns, model_columns
from rightfit.estimation.training import rate_columns
from rightfit.facts.trainers import software, software_class, software_names
from rightfit.physics.columns import Dtype, SetupColumns
from rightfit.proof.cases.training import training_cases


def tokens_per_s(**row: str) -> float:
    cases = training_cases([{"metric": "tokens_per_s_per_gpu", **row}])
    assert not cases.refused
    step = training.step_columns(cases.model, cases.setup, cases.device, cases.links)
    return float((cases.setup.tokens_per_step / (step.step_s * cases.setup.num_gpus))[0])


LLAMA = {
    "model": "meta-llama/Llama-2-7b-hf",
    "method": "full",
    "precision": "bf16",
    "gpu": "A100-SXM-80GB",
    "seq_len": "4096",
    "attention": "flash",
}


@pytest.mark.parametrize(
    ("row", "published"),
    [
        # torchtitan docs/performance.md, Llama-2-13B, 64 A100, selective recomputation
        (
            LLAMA
            | {
                "model": "meta-llama/Llama-2-13b-hf",
                "n_gpus": "64",
                "strategy": "zero3/fsdp",
                "zero": "3",
                "micro_batch": "2",
                "recompute": "selective",
                "framework": "torchtitan",
            },
            1914,
        ),
        # llm-foundry scripts/train/benchmarking, MPT-7B, 8 A100-40GB class row at 2,048 tokens
        (
            {
                "model": "mosaicml/mpt-7b",
                "method": "full",
                "precision": "bf16",
                "gpu": "A100-SXM-40GB",
                "n_gpus": "32",
                "strategy": "zero3/fsdp",
                "zero": "3",
                "micro_batch": "18",
                "seq_len": "2048",
                "recompute": "full",
                "attention": "flash",
                "framework": "llm-foundry(composer)",
            },
            3725,
        ),
        # NeMo 24.07, Llama-2-7B, 8 H100, FP8
        (
            LLAMA
            | {
                "gpu": "H100-SXM-80GB",
                "precision": "fp8",
                "n_gpus": "8",
                "strategy": "ddp",
                "zero": "1",
                "micro_batch": "1",
                "global_batch": "128",
                "framework": "nemo-megatron",
            },
            16934,
        ),
    ],
)
def test_published_throughput(row: dict[str, str], published: float) -> None:
    assert tokens_per_s(**row) == pytest.approx(published, rel=0.2)


def test_terms_add_up_and_mfu_is_sane() -> None:
    cases = training_cases([LLAMA | {"n_gpus": "8", "strategy": "zero3/fsdp", "zero": "3", "micro_batch": "2", "framework": "torchtitan"}])
    step = training.step_columns(cases.model, cases.setup, cases.device, cases.links)
    assert sum(float(value[0]) for value in step.terms.values()) == pytest.approx(float(step.step_s[0]))
    assert 0.3 < step.mfu(cases.setup, cases.device)[0] < 0.7


def test_every_accelerator_gets_a_finite_time() -> None:
    """A small encoder in every card's best arithmetic: finite, positive, below peak."""
    cards = [card for card in facts.accelerators().values() if max(card.fp32_flops, card.bf16_flops, card.fp16_flops) > 0]
    device = device_columns(cards)
    model = model_columns([facts.model("google-bert/bert-base-uncased")])
    dtype = np.where(device.bf16_flops > 0, Dtype.BF16, np.where(device.fp16_flops > 0, Dtype.FP16, Dtype.FP32))
    setup = SetupColumns.of(micro_batch=16, seq_len=512, compute_dtype=dtype, optimizer_bytes=8)
    links = default_links([card.name for card in cards], num_gpus=[1], gpus_per_node=[8])
    step = training.step_columns(model, setup, device, links)
    assert np.all(np.isfinite(step.step_s))
    assert np.all(step.step_s > 0)
    assert np.all(step.mfu(setup, device) < 1.0)


def test_faster_cards_are_faster() -> None:
    order = ["T4", "A10", "A100-SXM-80GB", "H100-SXM-80GB", "B200-SXM-180GB"]
    rates = [
        tokens_per_s(**(LLAMA | {"gpu": gpu, "precision": "fp16", "method": "lora", "micro_batch": "4", "framework": "peft"}))
        for gpu in order
    ]
    assert rates == sorted(rates)


def test_unsloth_beats_plain_transformers() -> None:
    row = LLAMA | {"method": "qlora", "weights_dtype": "nf4", "micro_batch": "4", "seq_len": "1024"}
    assert tokens_per_s(**row, framework="unsloth") > 1.1 * tokens_per_s(**row, framework="transformers")


@pytest.mark.parametrize(
    ("framework", "flags", "name"),
    [
        ("", "", "native"),
        ("llm-foundry(composer)", "", "native"),
        ("HF TRL SFTTrainer", "", "eager"),
        ("transformers+peft(+deepspeed)", "", "eager"),
        ("transformers+peft(+deepspeed)", "deepspeed", "deepspeed"),
        ("llama-factory", "unsloth,flash-attn-2", "unsloth"),
        ("torchtitan", "compile,float8", "compiled"),
        ("megatron-deepspeed", "", "vendor"),
        ("pytorch NGC DLE O2 apex", "", "classic"),
    ],
)
def test_class_of_software(framework: str, flags: str, name: str) -> None:
    assert software_names()[software_class(framework, flags)] == name


def test_words_that_only_time_reads() -> None:
    words = software("prime-rl", "RL trainer step, FA3", weights="gptq-int4")
    assert (words.attention_version, words.weight_sync, words.dequantise_bytes) == (3, True, 16)
    assert software("", "autogptq-triton", weights="gptq-int4").dequantise_bytes == pytest.approx(2.6)


def test_old_megatron_has_no_flash_attention() -> None:
    cases = training_cases([LLAMA | {"framework": "megatron-deepspeed", "attention": ""}])
    assert cases.setup.attention[0] == 0


def test_rates_are_shares_where_they_must_be() -> None:
    cases = training_cases([LLAMA, LLAMA | {"gpu": "MI300X"}, LLAMA | {"gpu": "TPU-v5p"}])
    rates = rate_columns(cases.setup, cases.device)
    for name in ("bandwidth_fraction", "overlap", "switch_fraction", "inter_fraction", "flash_forward"):
        assert np.all((getattr(rates, name) > 0) & (getattr(rates, name) <= 1)), name


def test_long_tables_equal_short_ones() -> None:
    """Tables are worked on in chunks; the last one is shorter."""
    cases = training_cases([LLAMA | {"micro_batch": "2"}])
    batches = np.resize([1.0, 2.0, 4.0, 8.0, 16.0], 20001)
    long = training.step_columns(cases.model, cases.setup.replace(micro_batch=batches), cases.device, cases.links)
    short = training.step_columns(cases.model, cases.setup.replace(micro_batch=batches[:5]), cases.device, cases.links)
    assert long.step_s.shape == (20001,)
    assert long.step_s == pytest.approx(np.resize(short.step_s, 20001))
    assert long.terms["gemm_s"] == pytest.approx(np.resize(short.terms["gemm_s"], 20001))
