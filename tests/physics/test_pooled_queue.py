"""Servers with one queue, held to a simulation that plays every request."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics.batch_queue import pooled_latency_s, pooled_servers
from rightfit.physics.columns import Array

SHARES = np.array([0.5, 0.95, 0.99])


def simulated(servers: int, load: float, *, requests: int, seed: int) -> Array:
    """Latencies, in units of the service, of Poisson arrivals: each starts when it comes or when
    the one that is so many servers before it ends."""
    arrivals = np.random.default_rng(seed).exponential(1.0 / (load * servers), requests // servers * servers).cumsum()
    turns = np.arange(arrivals.shape[0] // servers)[:, None]
    started = np.maximum.accumulate(arrivals.reshape(-1, servers) - turns) + turns
    return np.quantile((started.ravel() - arrivals + 1.0)[requests // 20 :], SHARES)


@pytest.mark.parametrize("load", [0.01, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("servers", [2, 3, 4, 8, 16, 48])
def test_percentiles_are_those_of_a_simulation(servers: int, load: float) -> None:
    runs = [simulated(servers, load, requests=1_500_000 if load > 0.75 else 50_000, seed=seed * 1000 + servers) for seed in (1, 2)]
    found = pooled_latency_s(np.array([3.0]), np.array([load * servers / 3.0]), np.array([float(servers)]), shares=SHARES)[0]
    assert found / 3.0 == pytest.approx(np.mean(runs, axis=0), rel=0.1)


def test_more_than_is_served_waits_for_ever() -> None:
    assert np.isinf(pooled_latency_s(np.array([2.0]), np.array([2.0]), np.array([4.0]), shares=SHARES)).all()


@pytest.mark.parametrize(("service_s", "rate", "limit_s"), [(10.0, 2.0, 15.0), (10.0, 2.0, 11.0), (4.0, 0.5, 5.0), (0.2, 100.0, 0.3)])
def test_the_fewest_servers_keep_the_limit_and_one_less_does_not(service_s: float, rate: float, limit_s: float) -> None:
    alone, most = np.array([service_s]), np.array([1000.0])
    needed = pooled_servers(alone, rate, share=0.95, limit_s=limit_s, utilisation=0.95, most=most)
    latency = [float(pooled_latency_s(alone, np.array([rate]), needed - less, shares=np.array([0.95]))[0, 0]) for less in (0.0, 1.0)]
    assert latency[0] <= limit_s
    assert latency[1] > limit_s or rate * service_s > 0.95 * (needed[0] - 1.0)
    assert pooled_servers(alone, rate, share=0.95, limit_s=limit_s, utilisation=0.95, most=needed) == needed
