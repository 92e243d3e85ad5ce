"""Matrix products: roofline, tiles, power."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.physics.typical import RATES as TYPICAL

from rightfit.physics import operators
from rightfit.physics.columns import DeviceColumns, Dtype, SetupColumns

A100 = DeviceColumns.of(
    memory_bandwidth=2.039e12,
    fp32_flops=19.5e12,
    tf32_flops=156e12,
    fp16_flops=312e12,
    bf16_flops=312e12,
    num_sms=108,
    tdp_w=400,
    compute_capability=8.0,
)
T4 = DeviceColumns.of(memory_bandwidth=320e9, fp32_flops=8.1e12, fp16_flops=64.8e12, num_sms=40, tdp_w=70, compute_capability=7.5)


def seconds(m: float, n: float, k: float, **changes: float) -> float:
    shapes = {"tile_reuse": (np.ones(1), TYPICAL.square_tile_reuse, TYPICAL.small_tile_reuse), "split_depth": TYPICAL.split_depth}
    values = {"flops": 250e12, "bandwidth": 1.7e12, "num_sms": 108.0, "ramp_k": 128.0, "element_bytes": 2.0} | changes
    rates: dict[str, Any] = {name: np.array([value]) for name, value in values.items()}
    return float(operators.gemm_s(np.array([m]), np.array([n]), np.array([k]), **rates, **shapes)[0])


def test_large_square_comes_near_the_sustained_rate() -> None:
    assert 2 * 16384.0**3 / seconds(16384, 16384, 16384) == pytest.approx(250e12, rel=0.05)


def test_thin_product_is_bound_by_memory() -> None:
    """A LoRA matrix of rank 8: reading x dominates."""
    assert seconds(8192, 8, 4096) == pytest.approx((8192 * 4096 + 4096 * 8 + 8192 * 8) * 2 / 1.7e12, rel=0.3)


def test_one_tile_more_than_a_wave_costs_a_second_wave() -> None:
    full_wave = seconds(128 * 108, 256, 4096, ramp_k=0.0)
    assert seconds(128 * 109, 256, 4096, ramp_k=0.0) > 1.2 * full_wave


def test_depth_ramp() -> None:
    """k / (k + ramp): a product of depth 128 with a ramp of 128 runs at half rate."""
    shallow = seconds(65536, 16384, 128)
    assert 2 * 65536 * 16384 * 128 / shallow == pytest.approx(125e12, rel=0.06)


def test_small_grid_is_split_along_k() -> None:
    """Weight gradient of a small layer: 16 tiles would use 16 of 108 units without splitting."""
    assert seconds(512, 1024, 16384) < 0.3 * (2 * 128 * 256 * 16384) / (250e12 / 108)


def test_zero_size_takes_no_time() -> None:
    assert seconds(0, 4096, 4096) == 0
    assert seconds(4096, 4096, 0) == 0


@pytest.mark.parametrize("field", ["m", "n", "k"])
def test_more_work_never_takes_less_time(field: str) -> None:
    base = {"m": 4096.0, "n": 4096.0, "k": 4096.0}
    previous = 0.0
    for scale in (1, 2, 4, 8):
        now = seconds(**(base | {field: base[field] * scale}))
        assert now >= previous
        previous = now


@pytest.mark.parametrize(
    ("device", "asked", "expected"),
    [
        (A100, Dtype.FP8, Dtype.BF16),
        (A100, Dtype.BF16, Dtype.BF16),
        (T4, Dtype.BF16, Dtype.FP32),
        (T4, Dtype.FP16, Dtype.FP16),
        (T4, Dtype.TF32, Dtype.FP32),
        (DeviceColumns.of(bf16_flops=275e12), Dtype.FP32, Dtype.BF16),
        (DeviceColumns.of(fp32_flops=11e12, compute_capability=6.1), Dtype.FP16, Dtype.FP32),
    ],
)
def test_arithmetic_that_a_card_lacks(device: DeviceColumns, asked: Dtype, expected: Dtype) -> None:
    assert operators.effective_dtype(device, np.array([float(asked)]))[0] == expected


def test_power_limits_a_small_card() -> None:
    """70 W at 2.2 pJ a FLOP is 31.8 TFLOP/s, below 0.8 x 64.8."""
    rates = TYPICAL.replace(gemm_fraction=0.8, joules_per_flop=2.2e-12, gemm_quality=1.0)
    sustained = operators.sustained_flops(SetupColumns.of(compute_dtype=Dtype.FP16), T4, rates)[0]
    assert 28e12 < sustained < 31.8e12
    unlimited = operators.sustained_flops(SetupColumns.of(compute_dtype=Dtype.FP16), T4, rates.replace(joules_per_flop=0))[0]
    assert unlimited == pytest.approx(0.8 * 64.8e12)


def test_software_quality_does_not_touch_fp32() -> None:
    rates = TYPICAL.replace(vector_fraction=0.9, gemm_quality=0.5)
    assert operators.sustained_flops(SetupColumns.of(compute_dtype=Dtype.FP32), A100, rates)[0] == pytest.approx(0.9 * 19.5e12)
