"""Time of one forward pass of a model that does not generate token by token: vision, encoders, diffusion denoisers, speech encoders.

A pass is a chain of layers. The device works through matrix products (bounded by arithmetic) and element-wise traffic (bounded by memory
bandwidth); each layer also costs a fixed time on the device, and the host must enqueue it. Whichever of host and device is slower sets
the pace. Nothing here knows models or engines: callers give work and rates.

Source: Williams et al. 2009 (roofline); docs/decisions/forward-passes.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, Columns, column
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class ForwardColumns(Columns):
    """Work of one forward pass over `items` inputs that run together on one device.

    `macs` multiply-adds of matrix products and `activations` elements written by the weighted layers, both per item; `score_macs` those of
    attention scores per item; `weights` parameters read once a pass; `layers` weighted layers in sequence.
    """

    items: Array = column(1, "items")
    macs: Array = column(0, "MAC")
    score_macs: Array = column(0, "MAC")
    activations: Array = column(0, "elements")
    weights: Array = column(0, "parameters")
    layers: Array = column(1, "layers")


@dataclass(frozen=True, slots=True)
class ForwardRates(Columns):
    """What device and engine make of the work.

    `flops` sustained arithmetic [FLOP/s]; `score_flops` that of attention scores; `bandwidth` [bytes/s]; `activation_bytes` and
    `weight_bytes` per element; `passes` how often an activation crosses the memory bus; `fill_elements` output elements that one layer must
    have to fill the device; `cache_bytes` of activations that one layer hands to the next without the memory bus; `layer_s` fixed device
    time and `launch_s` host time per layer; `call_s` host time per pass; `mixing` the exponent by which arithmetic and traffic overlap (1 =
    none, infinity = full), `host_sharpness` that by which the slower
    of host and device takes over.
    """

    flops: Array = column(1, "FLOP/s")
    score_flops: Array = column(1, "FLOP/s")
    bandwidth: Array = column(1, "bytes/s")
    activation_bytes: Array = column(2, "bytes/element")
    weight_bytes: Array = column(2, "bytes/parameter")
    passes: Array = column(1, "1")
    fill_elements: Array = column(0, "elements")
    cache_bytes: Array = column(0, "bytes")
    layer_s: Array = column(0, "s")
    launch_s: Array = column(0, "s")
    call_s: Array = column(0, "s")
    mixing: Array = column(1, "1")
    host_sharpness: Array = column(1, "1")


def filled_fraction(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Share of the device that the layers of a small batch keep busy, 0-1 -> [1].

    u = n / (n + f) with n the output elements of a mean layer [elements] and f `fill_elements`: the tail of half-filled waves of thread
    blocks (NVIDIA, Matrix Multiplication Background, "wave quantisation"), smoothed because layers differ.
    """
    elements = work.items * work.activations / np.maximum(work.layers, 1.0)
    return elements / np.maximum(elements + rates.fill_elements, 1e-9)


def matrix_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds of the matrix products of one pass: 2 FLOP per multiply-add over the sustained rate of a device so filled -> [s]."""
    products = 2.0 * work.items * (work.macs / rates.flops + work.score_macs / rates.score_flops)
    return products / np.maximum(filled_fraction(work, rates), 1e-6)


def missed_fraction(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Share of activations that do not stay in the last-level cache from one layer to the next, 0-1: x / (x + c) -> [1].

    x are the bytes of a mean layer [bytes], c `cache_bytes`; smooth because layers differ in size. With no cache all miss.
    """
    layer_bytes = work.items * work.activations / np.maximum(work.layers, 1.0) * rates.activation_bytes
    return np.where(rates.cache_bytes > 0, layer_bytes / np.maximum(layer_bytes + rates.cache_bytes, 1.0), 1.0)


def traffic_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds of memory traffic of one pass: activations that miss the cache as often as they cross the bus, weights once -> [s]."""
    moved = work.items * work.activations * rates.passes * rates.activation_bytes * missed_fraction(work, rates)
    return (moved + work.weights * rates.weight_bytes) / rates.bandwidth


def device_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds that the device works on one pass: (matrix^m + traffic^m)^(1/m) + layers x fixed time -> [s].

    The exponent m stands for the mix of layers: were all alike, the roofline would take the larger of the two (m = infinity); with some
    bound by arithmetic and some by traffic the sum of maxima lies between the maximum and the sum.
    """
    matrix, traffic = matrix_s(work, rates), traffic_s(work, rates)
    larger = np.maximum(np.maximum(matrix, traffic), 1e-15)
    mixed = larger * ((matrix / larger) ** rates.mixing + (traffic / larger) ** rates.mixing) ** (1.0 / rates.mixing)
    return mixed + work.layers * rates.layer_s


def host_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds that the host needs to enqueue one pass -> [s]."""
    return rates.call_s + work.layers * rates.launch_s


def forward_s(work: ForwardColumns, rates: ForwardRates) -> Array:
    """Seconds of one pass: host and device run side by side and the slower one counts -> [s]."""
    device, host = device_s(work, rates), host_s(work, rates)
    larger = np.maximum(device, host)
    return larger * ((device / larger) ** rates.host_sharpness + (host / larger) ** rates.host_sharpness) ** (1.0 / rates.host_sharpness)


def sustained_flops(peak_flops: Array, tdp_w: Array, flops_per_watt: Array) -> Array:
    """Arithmetic that a card holds under load: its peak or what its power budget pays for, whichever is less.

    `peak_flops` [FLOP/s], `tdp_w` [W] (0 = unknown, no limit), `flops_per_watt` [FLOP/J] of the dtype on that silicon -> [FLOP/s].
    A T4 (65 TFLOP/s in 70 W) and an L4 (121 in 72 W) are bound by power, a V100 is not.
    """
    powered = np.where(tdp_w > 0, tdp_w * flops_per_watt, np.inf)
    ratio = peak_flops / np.maximum(powered, 1.0)
    return peak_flops / (1.0 + ratio**3) ** (1.0 / 3.0)
