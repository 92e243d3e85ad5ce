"""Memory of whole jobs, against hand-worked and measured figures."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.estimation.convert import device_columns, model_columns
from rightfit.estimation.training import MemoryColumns, memory_columns
from rightfit.estimation.training_setup import setup_fields
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.columns import MemoryCounter, SetupColumns
from rightfit.physics.memory_peak import Phase
from rightfit.proof.cases.training import training_case

GIB = 2.0**30


def memory(model: str, gpu: str, layout: dict[str, float], **words: str) -> MemoryColumns:
    record = facts.model(model)
    assert isinstance(record, TransformerArchitecture)
    fields = setup_fields(training_case(record, **words)) | layout  # type: ignore[arg-type]
    return memory_columns(model_columns([record]), SetupColumns.of(**fields), device_columns([facts.accelerator(gpu)]))


def test_full_fine_tuning_of_8b_does_not_fit_one_40_gb_card_nor_two_3090s() -> None:
    single = memory("meta-llama/Meta-Llama-3-8B", "A100-SXM-40GB", {"seq_len": 2048}, recompute="full", attention="flash")
    assert not single.fits[0]
    pair = {"seq_len": 2048, "data": 2, "shard_stage": 3, "shard_degree": 2}
    assert not memory("meta-llama/Meta-Llama-3-8B", "RTX-3090", pair, recompute="full", strategy="zero3").fits[0]
    eight = {"seq_len": 2048, "data": 8, "shard_stage": 3, "shard_degree": 8}
    assert memory("meta-llama/Meta-Llama-3-8B", "A100-SXM-40GB", eight, recompute="full", strategy="zero3", attention="flash").fits[0]


def test_qlora_of_8b_fits_a_24_gb_card() -> None:
    answer = memory("meta-llama/Meta-Llama-3-8B", "RTX-4090", {"seq_len": 2048}, method="qlora", recompute="full", attention="flash")
    assert answer.fits[0]
    assert 6 * GIB < answer.peak_bytes[0] < 20 * GIB


def test_qlora_of_70b_fits_one_80_gb_card_but_not_a_24_gb_one() -> None:
    layout = {"seq_len": 1024}
    assert memory("meta-llama/Llama-2-70b-hf", "A100-SXM-80GB", layout, method="qlora", recompute="full", attention="flash").fits[0]
    assert not memory("meta-llama/Llama-2-70b-hf", "RTX-4090", layout, method="qlora", recompute="full", attention="flash").fits[0]


@pytest.mark.parametrize(
    ("layout", "words", "measured"),
    [
        # SimuMax, Llama-3-70B with 12 layers on 8 B200 in Megatron-Core, allocated GiB
        ({"tensor": 8, "seq_len": 4096, "shard_stage": 1, "grad_accum": 4, "sequence_parallel": 1}, {}, 28.29),
        (
            {"tensor": 4, "data": 2, "shard_degree": 2, "seq_len": 4096, "shard_stage": 1, "grad_accum": 4, "sequence_parallel": 1},
            {},
            39.07,
        ),
    ],
)
def test_megatron_on_b200_as_measured(layout: dict[str, float], words: dict[str, str], measured: float) -> None:
    record = facts.model("meta-llama/Meta-Llama-3-70B")
    assert isinstance(record, TransformerArchitecture)
    case = training_case(record, framework="megatron-core+TE", flags="fused-ce", attention="flash", strategy="megatron", **words)  # type: ignore[misc]
    fields = setup_fields(case)
    setup = SetupColumns.of(**(fields | layout | {"memory_counter": MemoryCounter.ALLOCATED}))
    columns = model_columns([record]).replace(num_layers=12, params_total=2 * 128256 * 8192 + 12 * 855_654_400 + 8192)
    answer = memory_columns(columns, setup, device_columns([facts.accelerator("B200-SXM-180GB")]))
    assert answer.peak_bytes[0] / GIB == pytest.approx(measured, rel=0.03)


def test_what_is_answered() -> None:
    answer = memory(
        "meta-llama/Meta-Llama-3-8B", "H100-SXM-80GB", {"seq_len": 2048, "data": 8, "shard_stage": 3, "shard_degree": 8}, recompute="full"
    )
    assert sum(float(term[0]) for term in answer.terms.values()) == pytest.approx(answer.peak_bytes[0])
    assert int(answer.phase[0]) in set(Phase)
    assert answer.required_bytes[0] > 16 * 8.03e9 / 8
    assert answer.checkpoint_bytes[0] == pytest.approx(14 * 8_030_261_248)
    assert answer.disk_bytes[0] > 2 * answer.checkpoint_bytes[0]
    assert answer.host_bytes[0] > 2 * 8.03e9


def test_allocated_reserved_and_driver_are_ordered() -> None:
    peaks = []
    for counter in MemoryCounter:
        layout = {"seq_len": 2048.0, "data": 2.0, "memory_counter": float(counter)}
        peaks.append(float(memory("Qwen/Qwen2.5-7B", "A100-SXM-80GB", layout, method="lora", recompute="full").peak_bytes[0]))
    assert peaks[0] < peaks[1] < peaks[2]
