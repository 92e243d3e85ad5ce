"""Time of dense matrix products: a roofline whose compute roof knows tiles, waves, depth, power and software.

A product C[m, n] = A[m, k] B[k, n] is cut into tiles that the multiprocessors take in waves; the last wave is partly idle (Kirk & Hwu;
NVIDIA "Matrix multiplication background user's guide"), each tile pays a fixed depth for filling and draining its pipeline, and a shallow
grid is split along k. Known error: 5-10 % on large shapes (the library's kernel choice is not modelled), 20-30 % on grids of a few tiles.

Source: NVIDIA, Matrix Multiplication Background User's Guide; docs/decisions/speed-time-physics.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, DeviceColumns, Dtype, SetupColumns
from rightfit.physics.rates import RateColumns
from rightfit.units import FP32_BYTES

#: Tile shapes that vendor libraries offer (NVIDIA's guide): rows, columns.
TILES = ((128.0, 256.0), (128.0, 128.0), (64.0, 64.0))


def dtype_bytes(dtype: Array) -> Array:
    """Bytes of one operand element: 4 for fp32 and tf32, 1 for fp8, else 2.

    `dtype` [code] -> [bytes/element].
    """
    return np.where(dtype <= Dtype.TF32, FP32_BYTES, np.where(dtype == Dtype.FP8, 1.0, 2.0))


def effective_dtype(device: DeviceColumns, dtype: Array) -> Array:
    """The arithmetic that really runs where the device lacks the one asked for: fp8 -> bf16 -> fp16 -> fp32, tf32 -> fp32.

    `dtype` [code] -> [code].
    """
    has = [device.fp32_flops > 0, device.tf32_flops > 0, device.fp16_flops > 0, device.bf16_flops > 0, device.fp8_flops > 0]
    out = np.where((dtype == Dtype.FP8) & ~has[4], float(Dtype.BF16), dtype)
    # bf16 without hardware support is emulated through fp32 units.
    out = np.where(
        (out == Dtype.BF16) & ~has[3], np.where(has[2] & (device.compute_capability == 0), float(Dtype.FP16), float(Dtype.FP32)), out
    )
    out = np.where((out == Dtype.FP16) & ~has[2], np.where(has[3], float(Dtype.BF16), float(Dtype.FP32)), out)
    out = np.where((out == Dtype.TF32) & ~has[1], float(Dtype.FP32), out)
    return np.where((out == Dtype.FP32) & ~has[0], np.where(has[3], float(Dtype.BF16), float(Dtype.FP16)), out)


def sustained_flops(setup: SetupColumns, device: DeviceColumns, rates: RateColumns) -> Array:
    """Rate of an endless product in the setup's arithmetic -> [FLOP/s].

    min(fraction x peak, power / energy per FLOP) x software quality. Energy per FLOP is of 16-bit tensor arithmetic; tf32 takes twice, fp8
    half, fp32 vector units `fp32_energy_ratio` times.
    """
    dtype = effective_dtype(device, setup.compute_dtype)
    peak = device.peak_flops(dtype)
    fraction = np.where(dtype == Dtype.FP32, rates.vector_fraction, rates.gemm_fraction)
    wide = np.where(dtype == Dtype.FP32, rates.fp32_energy_ratio, np.where(dtype == Dtype.TF32, 2.0, 1.0))
    energy = rates.joules_per_flop * np.where(dtype == Dtype.FP8, 0.5, wide)
    with np.errstate(divide="ignore", invalid="ignore"):
        power_rate = np.where((energy > 0) & (device.tdp_w > 0), device.tdp_w / energy, np.inf)
    reachable = fraction * peak
    # A soft minimum: close to its power limit a card already lowers its clock.
    smooth = (reachable**-4.0 + power_rate**-4.0) ** -0.25
    # fp32 products are so slow that software makes no difference to them.
    return np.asarray(smooth * np.where(dtype == Dtype.FP32, 1.0, rates.gemm_quality))


def multiprocessors(device: DeviceColumns, rates: RateColumns) -> Array:
    """Number of parallel tile units -> [1]."""
    return np.where(device.num_sms > 0, device.num_sms, rates.default_multiprocessors)


def gemm_s(
    m: Array,
    n: Array,
    k: Array,
    *,
    flops: Array,
    bandwidth: Array,
    num_sms: Array,
    ramp_k: Array,
    element_bytes: Array,
    tile_reuse: tuple[Array, Array, Array],
    split_depth: Array,
) -> Array:
    """Seconds of one product, any broadcastable shapes.

    `m`, `n`, `k` [elements], `flops` [FLOP/s] sustained of an endless product, `bandwidth` [bytes/s] achieved, `num_sms` [1] tile units,
    `ramp_k` [elements] of depth lost per tile, `element_bytes` [bytes/element] of all three matrices, `tile_reuse` [1] the share of
    the full rate that each tile's data reuse allows, `split_depth` [elements] of each part of a product that is split -> [s].
    max(compute, traffic), compute = best tile of waves x tile flops x (k + ramp) / (rate per unit).
    """
    best: Array | None = None
    per_unit = flops / num_sms
    for (rows, columns), reuse in zip(TILES, tile_reuse, strict=True):
        tiles = np.ceil(m / rows) * np.ceil(n / columns)
        splits = np.clip(np.floor(num_sms / np.maximum(tiles, 1.0)), 1.0, np.maximum(k / split_depth, 1.0))
        waves = np.ceil(tiles * splits / num_sms)
        seconds = waves * (2.0 * rows * columns / reuse) * (k / splits + ramp_k) / per_unit
        best = seconds if best is None else np.minimum(best, seconds)
    assert best is not None
    traffic = (m * k + k * n + m * n) * element_bytes / bandwidth
    return np.where((m > 0) & (n > 0) & (k > 0), np.maximum(best, traffic), 0.0)
