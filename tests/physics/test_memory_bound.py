"""Memory-bound operators by bytes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.physics.typical import RATES as TYPICAL

from rightfit.physics import operators
from rightfit.physics.columns import DeviceColumns, Dtype, Kind, Method, ModelColumns, SetupColumns

DEVICE = DeviceColumns.of(memory_bandwidth=2e12)
RATES = TYPICAL.replace(bandwidth_fraction=0.5, update_passes=1.0, dequantise_fraction=0.5)
MODEL = ModelColumns.of(
    num_layers=32,
    hidden_size=4096,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    intermediate_size=14336,
    vocab_size=32000,
    params_total=7.24e9,
)


def test_adamw_update_moves_by_hand() -> None:
    """bf16 weights and gradients, fp32 states and master: 2x2 + 2x8 + 2x4 + 2x2 bytes a
    parameter at 1 TB/s."""
    setup = SetupColumns.of(gradient_bytes=2, optimizer_bytes=8, master_bytes=4, other_weight_bytes=2)
    assert operators.update_s(setup, DEVICE, RATES, trained_params=np.array([1e9]))[0] == pytest.approx(32e9 / 1e12)


def test_dequantisation_reads_packed_and_writes_16_bit() -> None:
    setup = SetupColumns.of(quantized=1, linear_weight_bytes=0.5)
    assert operators.dequantise_s(MODEL, setup, DEVICE, RATES)[0] == pytest.approx(7.24e9 * 2.5 / (2e12 * 0.5 * 0.5))
    assert operators.dequantise_s(MODEL, setup.replace(dequantise_bytes=22), DEVICE, RATES)[0] == pytest.approx(7.24e9 * 22 / 5e11)
    assert operators.dequantise_s(MODEL, SetupColumns.of(), DEVICE, RATES)[0] == 0


def test_loss_bytes_per_logit() -> None:
    rates = RATES.replace(loss_bytes=50)
    assert operators.loss_s(MODEL, SetupColumns.of(), DEVICE, rates, tokens=np.array([1000.0]))[0] == pytest.approx(
        1000 * 32000 * 50 / 1e12
    )


def test_eager_norms_cost_more_than_fused() -> None:
    tokens = np.array([8192.0])
    fused = operators.layers_forward_s(MODEL, SetupColumns.of(), DEVICE, RATES.replace(norm_passes=2), tokens=tokens)
    eager = operators.layers_forward_s(MODEL, SetupColumns.of(), DEVICE, RATES.replace(norm_passes=15), tokens=tokens)
    assert eager[0] - fused[0] == pytest.approx(13 * 2 * 32 * 4096 * 8192 * 2 / 1e12)


def test_sequence_parallel_shards_norms() -> None:
    tokens = np.array([8192.0])
    plain = operators.token_bytes(MODEL, SetupColumns.of(tensor=8), RATES)
    sharded = operators.token_bytes(MODEL, SetupColumns.of(tensor=8, sequence_parallel=1), RATES)
    whole = operators.token_bytes(MODEL, SetupColumns.of(), RATES)
    assert sharded[0] == pytest.approx(whole[0] / 8)
    assert sharded[0] < plain[0] < whole[0]
    assert tokens[0] > 0


def test_weight_cast_only_under_autocast() -> None:
    setup = SetupColumns.of(autocast=1, other_weight_bytes=4, compute_dtype=Dtype.BF16)
    assert operators.weight_cast_s(MODEL, setup, DEVICE, RATES)[0] == pytest.approx(7.24e9 * 6 / 1e12)
    assert operators.weight_cast_s(MODEL, setup.replace(autocast=0), DEVICE, RATES)[0] == 0


def test_accumulation_needs_several_micro_batches_and_whole_gradients() -> None:
    params = np.array([1e9])
    setup = SetupColumns.of(grad_accum=4, gradient_bytes=4)
    assert operators.accumulate_s(setup, DEVICE, RATES.replace(accumulate_passes=3), trained_params=params)[0] == pytest.approx(12e9 / 1e12)
    assert operators.accumulate_s(setup.replace(grad_accum=1), DEVICE, RATES, trained_params=params)[0] == 0
    assert operators.accumulate_s(setup.replace(shard_stage=3), DEVICE, RATES, trained_params=params)[0] == 0


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        (SetupColumns.of(), 7.24e9),
        (SetupColumns.of(method=Method.LORA, adapter_params=1e7), 1e7),
        (SetupColumns.of(trainable_params=3e8), 3e8),
        (SetupColumns.of(method=Method.FREEZE, trainable_params=7.24e8), 7.24e8),
    ],
)
def test_trained_parameters(setup: SetupColumns, expected: float) -> None:
    assert operators.trained_params(MODEL, setup)[0] == pytest.approx(expected)


def test_encoders_use_dropout() -> None:
    assert operators.uses_dropout(ModelColumns.of(kind=Kind.ENCODER), SetupColumns.of())[0] == 1
    assert operators.uses_dropout(MODEL, SetupColumns.of())[0] == 0
