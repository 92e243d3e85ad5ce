"""Replicas, thresholds, cold starts, scale to zero, spot mixes and APIs, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightfit.physics import scaling as sc
from rightfit.workload.traces import hourly_rates


def one(value: float) -> np.ndarray:
    return np.array([value])


def test_replicas_by_hand() -> None:
    count = sc.replicas_for_rate(np.array([25.0, 3.2, 0.01]), capacity_per_s=one(4.0), headroom=one(0.2), spare=np.array([0.0, 0.0, 1.0]))
    assert count.tolist() == [8.0, 1.0, 2.0]


@given(st.floats(0.01, 1e5), st.floats(0.1, 100), st.floats(0, 0.9))
def test_replicas_carry_the_rate_and_one_less_does_not(rate: float, capacity: float, headroom: float) -> None:
    count = sc.replicas_for_rate(one(rate), capacity_per_s=one(capacity), headroom=one(headroom), spare=one(0))
    of_one = capacity * (1.0 - headroom)
    assert count[0] * of_one >= rate * (1 - 1e-6)
    if count[0] > 1:
        assert (count[0] - 1) * of_one < rate


def test_replicas_of_a_day() -> None:
    rates = np.array([[1.0] * 12 + [9.0] * 12])
    counts = sc.daily_replicas(rates, capacity_per_s=one(2.0), headroom=one(0.0), spare=one(0.0))
    assert counts[0, 0] == 1
    assert counts[0, -1] == 5


def test_cold_start_by_hand() -> None:
    start = sc.cold_start(
        weights_bytes=one(16e9), weights_bytes_per_s=one(1e9), device_bytes_per_s=one(20e9), image_bytes=one(10e9), image_bytes_per_s=one(0.5e9),
        unpack_bytes_per_s=one(0.2e9), provision_s=one(60.0), warm_up_s=one(30.0),
    )  # fmt: skip
    assert (start.image_s[0], start.weights_s[0]) == (pytest.approx(70.0), pytest.approx(16.0))
    assert start.total_s[0] == pytest.approx(176.0)


def test_autoscale_by_hand() -> None:
    rates = np.array([[12.0] * 12 + [48.0] * 12])
    found = sc.autoscale(
        rates, capacity_per_s=one(4.0), latency_s=one(5.0), headroom=one(0.3), spare=one(0.0), cold_start_s=one(90.0), reaction_s=one(30.0),
        least_cooldown_s=one(300.0), cooldown_starts=one(10.0), least_target=np.array([0.5]),
    )  # fmt: skip
    assert found.target_load[0] == pytest.approx(0.63)
    assert (found.min_replicas[0], found.max_replicas[0]) == (np.ceil(12 / 2.52), np.ceil(48 / 2.52))
    assert found.target_in_flight[0] == np.floor(0.63 * 20)
    assert found.cooldown_s[0] == 900.0


def test_longer_cold_start_scales_earlier() -> None:
    rates = np.repeat(hourly_rates("office", peak_per_s=50.0)[None, :], 3, axis=0)
    arguments = {"capacity_per_s": one(3.0), "latency_s": one(4.0), "headroom": one(0.2), "spare": one(0.0), "reaction_s": one(30.0)}
    found = sc.autoscale(
        rates,
        cold_start_s=np.array([10.0, 300.0, 1200.0]),
        least_cooldown_s=one(300.0),
        cooldown_starts=one(10.0),
        least_target=np.array([0.5]),
        **arguments,
    )
    assert (np.diff(found.target_load) < 0).all()
    assert (np.diff(found.max_replicas) >= 0).all()


def test_awake_share_against_simulation() -> None:
    rate, idle, start, busy = 1 / 400.0, 300.0, 40.0, 2.0
    dice = np.random.default_rng(4)
    awake, clock, end = 0.0, 0.0, 0.0
    cold = 0
    gaps = dice.exponential(1 / rate, 100_000)
    for gap in gaps:
        clock += gap
        if clock >= end:
            cold += 1
            awake += start + busy + idle
            end = clock + start + busy + idle
        elif clock + busy + idle > end:
            awake += clock + busy + idle - end
            end = clock + busy + idle
    share = sc.awake_share(one(rate), busy_s=one(busy), idle_before_sleep_s=one(idle), cold_start_s=one(start))[0]
    assert share == pytest.approx(awake / clock, rel=0.05)
    met = sc.cold_share(one(rate), busy_s=one(busy), idle_before_sleep_s=one(idle), cold_start_s=one(start))[0]
    assert met == pytest.approx(cold / gaps.size * (1 + rate * start), rel=0.08)


def test_serverless_break_even_by_hand() -> None:
    rate = sc.serverless_break_even_per_s(
        server_usd_per_h=one(1.2), busy_s=one(2.0), price_usd_per_s=one(0.0005), request_usd=one(0.0), concurrency=one(1.0)
    )
    assert rate[0] == pytest.approx(1 / 3)
    month = sc.serverless_usd_per_month(
        rate,
        busy_s=one(2.0),
        price_usd_per_s=one(0.0005),
        request_usd=one(0.0),
        idle_before_sleep_s=one(0.0),
        cold_start_s=one(0.0),
        concurrency=one(1.0),
    )
    assert month[0] == pytest.approx(1.2 * 730)


def test_scale_to_zero_break_even() -> None:
    arguments = {"busy_s": one(2.0), "idle_before_sleep_s": one(300.0), "cold_start_s": one(60.0)}
    rate = sc.scale_to_zero_break_even_per_s(server_usd_per_h=one(1.8), price_usd_per_s=one(0.001), **arguments)
    assert sc.awake_share(rate, **arguments)[0] == pytest.approx(0.5)
    dear = sc.scale_to_zero_break_even_per_s(server_usd_per_h=one(5.0), price_usd_per_s=one(0.001), **arguments)
    assert np.isinf(dear[0])


def test_spot_mix_by_hand() -> None:
    mix = sc.spot_mix(
        one(4),
        on_demand_usd_per_h=one(3.0),
        spot_usd_per_h=one(1.0),
        interruptions_per_h=one(1 / 99),
        restore_h=one(1.0),
        most_shortfall=one(0.01),
    )
    assert (mix.on_demand[0], mix.spot[0], mix.usd_per_h[0]) == (0, 5, 5.0)
    assert mix.shortfall_probability[0] == pytest.approx(1 - 0.99**5 - 5 * 0.99**4 * 0.01)
    strict = sc.spot_mix(
        one(4),
        on_demand_usd_per_h=one(3.0),
        spot_usd_per_h=one(2.9),
        interruptions_per_h=one(1.0),
        restore_h=one(1.0),
        most_shortfall=one(1e-9),
    )
    assert (strict.on_demand[0], strict.spot[0]) == (4, 0)


def test_binomial_below() -> None:
    assert sc.binomial_below(2, 0.5, 1) == pytest.approx(0.25)
    assert sc.binomial_below(3, 0.9, 4) == pytest.approx(1.0)
    assert sc.binomial_below(3, 1.0, 3) == 0.0


def test_api_break_even_by_hand() -> None:
    prices = {"input_tokens": one(1000), "output_tokens": one(250), "input_usd_per_million": one(0.5), "output_usd_per_million": one(1.5)}
    found = sc.api_break_even(replica_usd_per_h=one(2.0), replica_requests_per_s=one(4.0), **prices)
    assert found.tokens_per_month[0] == pytest.approx(1460 / 0.000875 * 1250)
    assert found.share_of_replica[0] == pytest.approx(0.635 / 4, rel=1e-3)
    assert found.full_usd_per_million[0] == pytest.approx(1460 / (4 * 730 * 3600 * 1250) * 1e6)
    never = sc.api_break_even(replica_usd_per_h=one(2.0), replica_requests_per_s=one(0.5), **prices)
    assert np.isinf(never.tokens_per_month[0])
