"""Forward passes: hand-worked figures and what must hold for any work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.physics.typical import shapes_of

from rightfit.physics.passes import (
    ForwardColumns,
    ForwardRates,
    device_s,
    filled_fraction,
    forward_s,
    host_s,
    matrix_s,
    missed_fraction,
    sustained_flops,
    traffic_s,
)

# ResNet-50, 64 images: 4.11 GMAC and 11.11 M activations an image, 25.56 M parameters, 53 layers.
RESNET = ForwardColumns.of(items=64, macs=4.11e9, activations=11.11e6, weights=25.56e6, layers=53)
RATES = ForwardRates.of(
    **shapes_of(ForwardRates), flops=100e12, score_flops=50e12, bandwidth=1e12, activation_bytes=2, weight_bytes=2, passes=4, mixing=2.0
)


def test_matrix_seconds_are_two_flop_a_multiply_add_over_the_rate() -> None:
    assert matrix_s(RESNET, RATES)[0] == pytest.approx(64 * 2 * 4.11e9 / 100e12)
    scored = RESNET.replace(score_macs=1e9)
    assert matrix_s(scored, RATES)[0] == pytest.approx(64 * 2 * (4.11e9 / 100e12 + 1e9 / 50e12))


def test_traffic_counts_every_crossing_and_the_weights_once() -> None:
    assert traffic_s(RESNET, RATES)[0] == pytest.approx((64 * 11.11e6 * 4 * 2 + 25.56e6 * 2) / 1e12)


def test_cache_keeps_half_of_what_is_as_large_as_itself() -> None:
    layer_bytes = 64 * 11.11e6 / 53 * 2
    cached = RATES.replace(cache_bytes=layer_bytes)
    assert missed_fraction(RESNET, cached)[0] == pytest.approx(0.5)
    assert missed_fraction(RESNET, RATES)[0] == 1.0
    assert traffic_s(RESNET, cached)[0] == pytest.approx((64 * 11.11e6 * 4 * 2 / 2 + 25.56e6 * 2) / 1e12)


def test_fill_is_half_where_a_layer_has_as_many_elements_as_needed() -> None:
    filling = RATES.replace(fill_elements=11.11e6 / 53)
    assert filled_fraction(RESNET.replace(items=1), filling)[0] == pytest.approx(0.5)
    assert filled_fraction(RESNET, filling)[0] == pytest.approx(64 / 65)
    assert filled_fraction(RESNET, RATES)[0] == 1.0


def test_device_mixes_between_the_larger_and_the_sum() -> None:
    matrix, traffic = matrix_s(RESNET, RATES)[0], traffic_s(RESNET, RATES)[0]
    assert device_s(RESNET, RATES)[0] == pytest.approx(np.hypot(matrix, traffic))
    assert device_s(RESNET, RATES.replace(mixing=1.0))[0] == pytest.approx(matrix + traffic)
    assert device_s(RESNET, RATES.replace(layer_s=1e-5))[0] == pytest.approx(np.hypot(matrix, traffic) + 53e-5)


def test_slow_host_sets_the_pace_of_one_image() -> None:
    eager = RATES.replace(launch_s=1e-4, call_s=1e-3)
    assert host_s(RESNET, eager)[0] == pytest.approx(6.3e-3)
    one = forward_s(RESNET.replace(items=1), eager)[0]
    assert one == pytest.approx(6.3e-3, rel=1e-3)
    assert forward_s(RESNET.replace(items=8), eager)[0] == pytest.approx(one, rel=1e-3)
    assert forward_s(RESNET.replace(items=4096), eager)[0] == pytest.approx(device_s(RESNET.replace(items=4096), eager)[0], rel=1e-3)


def test_power_binds_a_t4_and_not_a_v100() -> None:
    t4 = sustained_flops(np.array([65e12]), np.array([70.0]), np.array([0.45e12]))
    v100 = sustained_flops(np.array([125e12]), np.array([300.0]), np.array([0.45e12]))
    assert t4[0] == pytest.approx(65e12 / (1 + (65 / 31.5) ** 3) ** (1 / 3))
    assert t4[0] < 0.5 * 65e12
    assert v100[0] > 0.7 * 125e12
    assert sustained_flops(np.array([1e12]), np.array([0.0]), np.array([1e9]))[0] == 1e12


@given(
    items=st.floats(1, 4096),
    macs=st.floats(1e6, 1e13),
    activations=st.floats(1e3, 1e9),
    weights=st.floats(1e5, 1e11),
    layers=st.floats(1, 2000),
)
def test_a_larger_batch_takes_longer_but_not_longer_an_input(
    items: float, macs: float, activations: float, weights: float, layers: float
) -> None:
    work = ForwardColumns.of(items=items, macs=macs, activations=activations, weights=weights, layers=layers)
    rates = RATES.replace(fill_elements=1e6, launch_s=2e-5, call_s=1e-4, layer_s=1e-6, cache_bytes=0)
    once, twice = forward_s(work, rates)[0], forward_s(work.replace(items=2 * items), rates)[0]
    assert once <= twice * (1 + 1e-9)
    assert twice <= 2 * once * (1 + 1e-9)


@given(speed=st.floats(1.0, 100.0))
def test_a_faster_device_is_never_slower(speed: float) -> None:
    slow = RATES.replace(fill_elements=1e5, layer_s=1e-6)
    fast = slow.replace(flops=slow.flops * speed, bandwidth=slow.bandwidth * speed, score_flops=slow.score_flops * speed)
    assert forward_s(RESNET, fast)[0] <= forward_s(RESNET, slow)[0] * (1 + 1e-12)


def test_columns_and_single_cases_agree() -> None:
    batch = ForwardColumns.of(items=[1, 8, 64], macs=4.11e9, activations=11.11e6, weights=25.56e6, layers=53)
    alone = [forward_s(RESNET.replace(items=n), RATES)[0] for n in (1, 8, 64)]
    assert forward_s(batch, RATES) == pytest.approx(alone)
