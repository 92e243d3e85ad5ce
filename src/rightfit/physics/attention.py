"""Time of the attention core: softmax(Q K^T) V, forward and backward, for unfused and fused kernels.

Fused kernels (FlashAttention 1-3, cuDNN, memory-efficient) are compute bound: time = FLOPs of the needed pairs / (fraction x peak), the
fraction falling for short sequences and small heads; their backward recomputes the scores, 2.5 x the forward FLOPs (Dao 2023). Unfused
attention runs batched products over the full square and moves the score matrix through memory several times.

Source: Dao et al. 2022 (FlashAttention), Dao 2023 (FlashAttention-2); docs/decisions/speed-time-physics.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, AttentionKernel, AttentionKind, DeviceColumns, Dtype, Kind, ModelColumns, SetupColumns
from rightfit.physics.flops import attention_layers, attention_pairs, attention_width
from rightfit.physics.gemm import dtype_bytes, effective_dtype
from rightfit.physics.memory_bound import uses_dropout
from rightfit.physics.rates import RateColumns
from rightfit.records import dataclass

_FLASH_BACKWARD_FLOPS = 2.5  # five products instead of two: the scores are computed again
_EAGER_BACKWARD_FLOPS = 2.0


@dataclass(frozen=True, slots=True)
class AttentionTimes:
    """Seconds of one micro-batch, all layers of the model, one GPU of the tensor and context group.

    Units: `forward_s`, `backward_s` [s].
    """

    forward_s: Array
    backward_s: Array


def uses_fused_kernel(setup: SetupColumns, device: DeviceColumns) -> Array:
    """1 where a fused kernel really runs: it needs 16-bit arithmetic, and FLASH on NVIDIA compute capability 7.5 or newer -> [flag]."""
    half = effective_dtype(device, setup.compute_dtype) >= Dtype.FP16
    capable = (device.compute_capability == 0) | (device.compute_capability >= 7.0)
    return np.where((setup.attention != AttentionKernel.EAGER) & half & capable, 1.0, 0.0)


def _pairs(model: ModelColumns, setup: SetupColumns, *, exact: bool) -> Array:
    """Pairs of one micro-batch over all layers and one context rank, shape (N,)."""
    full, sliding, _ = attention_layers(model)
    seq_len = setup.real_length
    of_full, of_sliding = attention_pairs(model, seq_len, exact=exact)
    if not exact:
        of_sliding = of_full
    cross = np.where(model.kind == Kind.ENCODER_DECODER, model.num_decoder_layers * seq_len * seq_len, 0.0)
    share = setup.segment_share if exact else 1.0
    return setup.micro_batch * share * (full * of_full + sliding * of_sliding + cross) / setup.context


def _fused(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> tuple[Array, Array]:
    flops = 2.0 * attention_width(model) / setup.tensor * _pairs(model, setup, exact=True)
    peak = device.peak_flops(np.maximum(np.minimum(effective_dtype(device, setup.compute_dtype), Dtype.BF16), Dtype.FP16))
    head = np.where(model.attention_kind == AttentionKind.MLA, rates.reference_head, np.maximum(model.head_dim, 1.0))
    # Half-size heads halve the work per exponential; the fraction is quoted for heads of the reference.
    head_factor = np.minimum(1.0, (head / rates.reference_head) ** rates.head_exponent)
    local = setup.real_length
    ramp = local / (local + 2.0 * rates.attention_tile_rows)
    rate = np.maximum(peak * head_factor * ramp, 1.0)
    return flops / (rate * rates.flash_forward), _FLASH_BACKWARD_FLOPS * flops / (rate * rates.flash_backward)


def _eager(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> tuple[Array, Array]:
    pairs = _pairs(model, setup, exact=False) / setup.tensor
    flops = 2.0 * attention_width(model) * pairs
    dtype = effective_dtype(device, setup.compute_dtype)
    peak = np.maximum(device.peak_flops(dtype), 1.0)
    head_factor = np.minimum(1.0, (np.maximum(model.head_dim, 1.0) / rates.reference_head) ** 0.5)
    products = flops / (peak * head_factor * np.where(dtype <= Dtype.FP32, rates.vector_fraction, rates.eager_attention))
    scores = pairs * model.num_heads * dtype_bytes(dtype) / (device.memory_bandwidth * rates.bandwidth_fraction)
    dropout = 1.0 + rates.score_dropout_passes * uses_dropout(model, setup)
    forward = products + scores * rates.softmax_passes * dropout
    return forward, _EAGER_BACKWARD_FLOPS * products + scores * (rates.softmax_passes + 2.0) * dropout


def attention_s(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> AttentionTimes:
    """Forward and backward seconds of the attention core."""
    fused = uses_fused_kernel(setup, device) > 0
    flash_forward, flash_backward = _fused(model, setup, device, rates)
    eager_forward, eager_backward = _eager(model, setup, device, rates)
    return AttentionTimes(np.where(fused, flash_forward, eager_forward), np.where(fused, flash_backward, eager_backward))
