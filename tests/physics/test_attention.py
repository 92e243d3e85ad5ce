"""Attention core: kernels, pairs, limits."""

from __future__ import annotations

import pytest
from tests.physics.typical import RATES as TYPICAL

from rightfit.physics.columns import AttentionKernel, DeviceColumns, Dtype, ModelColumns, SetupColumns
from rightfit.physics.operators import attention_s, uses_fused_kernel

A100 = DeviceColumns.of(
    memory_bandwidth=2.039e12, fp32_flops=19.5e12, fp16_flops=312e12, bf16_flops=312e12, num_sms=108, compute_capability=8.0
)
LLAMA = ModelColumns.of(num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128)
RATES = TYPICAL.replace(flash_forward=0.6, flash_backward=0.5, eager_attention=0.4, softmax_passes=6)


def flash(**changes: float) -> SetupColumns:
    return SetupColumns.of(**({"seq_len": 8192.0, "attention": float(AttentionKernel.FLASH)} | changes))


def test_fused_forward_by_hand() -> None:
    """4 s^2 h / 2 per layer at 0.6 of 312 TFLOP/s, with the ramp of short sequences."""
    times = attention_s(LLAMA, flash(), A100, RATES)
    flops = 32 * 4 * 4096 * 8192 * 8193 / 2
    assert times.forward_s[0] == pytest.approx(flops / (0.6 * 312e12 * 8192 / (8192 + 256)), rel=1e-6)


def test_backward_recomputes_scores() -> None:
    times = attention_s(LLAMA, flash(), A100, RATES)
    assert times.backward_s[0] / times.forward_s[0] == pytest.approx(2.5 * 0.6 / 0.5)


def test_unfused_is_slower_and_grows_with_the_square() -> None:
    eager = attention_s(LLAMA, flash(attention=AttentionKernel.EAGER), A100, RATES)
    fused = attention_s(LLAMA, flash(), A100, RATES)
    assert eager.forward_s[0] > 3 * fused.forward_s[0]
    double = attention_s(LLAMA, flash(attention=AttentionKernel.EAGER, seq_len=16384), A100, RATES)
    assert double.forward_s[0] == pytest.approx(4 * eager.forward_s[0])


def test_sliding_window_is_linear_in_length() -> None:
    windowed = LLAMA.replace(num_sliding_layers=32, sliding_window=1024)
    short, long = (attention_s(windowed, flash(seq_len=s), A100, RATES).forward_s[0] for s in (32768, 65536))
    assert long / short == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize(("axis", "factor"), [("tensor", 4), ("context", 4)])
def test_split_over_ranks(axis: str, factor: float) -> None:
    whole = attention_s(LLAMA, flash(), A100, RATES).forward_s[0]
    assert attention_s(LLAMA, flash(**{axis: factor}), A100, RATES).forward_s[0] == pytest.approx(whole / factor)


@pytest.mark.parametrize(
    ("capability", "dtype", "expected"),
    [(8.0, Dtype.BF16, 1), (7.5, Dtype.FP16, 1), (6.1, Dtype.FP16, 0), (8.0, Dtype.FP32, 0), (0.0, Dtype.BF16, 1)],
)
def test_where_fused_kernels_run(capability: float, dtype: Dtype, expected: float) -> None:
    device = A100.replace(compute_capability=capability)
    assert uses_fused_kernel(flash(compute_dtype=dtype), device)[0] == expected
