"""Measured rows become cases, or are refused with a reason."""

from __future__ import annotations

import pytest

from rightfit.estimation.training import memory_columns
from rightfit.physics.columns import AttentionKernel, MemoryCounter, Method, Recompute
from rightfit.proof.cases.training import training_cases

ROW = {
    "id": "M1598",
    "metric": "peak_mem_gib_per_gpu",
    "model": "mistralai/Mistral-7B-v0.1",
    "method": "lora",
    "lora_rank": "16",
    "lora_targets": "q,k,v,o",
    "weights_dtype": "bf16",
    "precision": "bf16",
    "optimizer": "adamw",
    "framework": "HF TRL SFTTrainer + fms-acceleration",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "strategy": "single",
    "micro_batch": "8",
    "grad_accum": "1",
    "seq_len": "4096",
    "recompute": "full",
    "attention": "flash",
    "mem_kind": "allocated",
    "date": "2024-09",
}


def test_a_complete_row() -> None:
    cases = training_cases([ROW])
    setup = cases.setup
    assert cases.refused == {}
    assert cases.index.tolist() == [0]
    assert cases.assumptions == ((),)
    assert (setup.method[0], setup.micro_batch[0], setup.seq_len[0]) == (Method.LORA, 8, 4096)
    assert (setup.recompute[0], setup.attention[0]) == (Recompute.FULL, AttentionKernel.FLASH)
    assert setup.memory_counter[0] == MemoryCounter.ALLOCATED
    memory = memory_columns(cases.model, setup, cases.device)
    assert memory.peak_bytes[0] / 2**30 == pytest.approx(34.127, rel=0.005)  # as measured


def test_an_empty_cell_takes_the_default_and_says_so() -> None:
    cases = training_cases([{"model": "meta-llama/Meta-Llama-3-8B"}])
    assert cases.refused == {}
    taken = " ".join(cases.assumptions[0])
    for word in ("gpu", "method", "precision", "optimizer", "micro-batch", "sequence length", "number of GPUs"):
        assert word in taken, word
    assert cases.gpu_names == ("",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": ""}, "neither a model nor its dimensions"),
        ({"model": "no-such/model-xyz"}, "unknown model"),
        ({"gpu": "GTX-9999-Ultra"}, "unknown accelerator"),
        ({"seq_len": "many"}, "not a number"),
        ({"seq_len": "-5"}, "not a sensible number"),
        ({"micro_batch": "inf"}, "not a sensible number"),
    ],
)
def test_refusals_name_the_reason(change: dict[str, str], reason: str) -> None:
    cases = training_cases([ROW, ROW | change])
    assert cases.index.tolist() == [0]
    assert reason in cases.refused[1]


def test_dimensions_stand_in_for_an_unknown_model() -> None:
    row = ROW | {"model": "inhouse/gpt", "n_layers": "24", "hidden": "2048", "heads": "16", "ffn": "8192", "vocab": "50304", "mlp": "gelu"}
    cases = training_cases([row])
    assert cases.refused == {}
    assert cases.model.params_total[0] == pytest.approx(1.41e9, rel=0.02)


def test_a_parameter_count_stands_in_for_dimensions() -> None:
    cases = training_cases([ROW | {"model": "inhouse/7b", "params": "7000000000"}])
    assert cases.refused == {}
    assert "typical shape" in cases.assumptions[0][0]


def test_truncated_models_keep_their_other_dimensions() -> None:
    cases = training_cases([ROW | {"model": "meta-llama/Meta-Llama-3-70B@12L", "n_layers": "12", "method": "full", "lora_rank": ""}])
    assert cases.model.num_layers[0] == 12
    assert cases.model.hidden_size[0] == 8192
    assert cases.model.params_total[0] == pytest.approx(2 * 128256 * 8192 + 12 * 855_654_400, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"n_gpus": "8", "strategy": "zero3/fsdp"}, {"data": 8, "shard_stage": 3, "shard_degree": 8}),
        ({"n_gpus": "8", "strategy": "ddp"}, {"data": 8, "shard_stage": 0, "shard_degree": 1}),
        ({"n_gpus": "16", "strategy": "megatron", "tp": "4", "pp": "2"}, {"data": 2, "tensor": 4, "pipeline": 2}),
        ({"n_gpus": "", "parallel": "tp2 pp2 dp4 zero1"}, {"data": 4, "tensor": 2, "pipeline": 2, "shard_stage": 1}),
        ({"n_gpus": "4", "strategy": "naive-mp"}, {"data": 1, "pipeline": 4, "naive_pipeline": 1}),
        ({"n_gpus": "8", "sp": "8"}, {"data": 1, "context": 8}),
        ({"n_gpus": "8", "extra_flags": "sequence_parallel_size=4"}, {"data": 2, "context": 4}),
        ({"n_gpus": "8", "cp": "4", "zero": "3"}, {"data": 2, "context": 4, "shard_degree": 8}),
        ({"offload": "cpu", "n_gpus": "4", "zero": "3", "method": "full"}, {"offload_optimizer": 1, "offload_params": 0}),
        ({"offload": "cpu", "n_gpus": "4", "zero": "3"}, {"offload_params": 1}),
        ({"offload": "activations-cpu"}, {"offload_activations": 1, "offload_optimizer": 0}),
        ({"micro_batch": "", "global_batch": "64", "n_gpus": "8", "strategy": "ddp", "grad_accum": "2"}, {"micro_batch": 4}),
    ],
)
def test_layout(change: dict[str, str], expected: dict[str, float]) -> None:
    cases = training_cases([ROW | change])
    assert cases.refused == {}
    assert {name: float(getattr(cases.setup, name)[0]) for name in expected} == expected


def test_loose_and_unlisted_accelerators() -> None:
    cases = training_cases([ROW | {"gpu": "H100-96GB-HBM2e"}, ROW | {"gpu": "Titan-RTX"}, ROW | {"gpu": "A100", "gpu_mem_gib": "40"}])
    assert cases.refused == {}
    assert cases.device.memory_bytes.tolist() == [96 * 2**30, 24 * 2**30, 40 * 2**30]


def test_nothing_at_all() -> None:
    cases = training_cases([])
    assert cases.index.size == 0
    assert cases.setup.num_rows == 1  # defaults
    assert cases.model.num_rows == 0


def test_ten_thousand_rows_are_read_at_once() -> None:
    rows = [ROW | {"micro_batch": str(1 + i % 32), "seq_len": str(512 * (1 + i % 16)), "id": str(i)} for i in range(10_000)]
    cases = training_cases(rows)
    memory = memory_columns(cases.model, cases.setup, cases.device)
    assert memory.peak_bytes.shape == (10_000,)
