"""The queue of a server that works in batches, held to a simulation that plays every request."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics.batch_queue import latency_s
from rightfit.physics.columns import Array

SHARES = np.array([0.5, 0.95, 0.99])
#: Seconds of a pass with b inputs, and the most that a pass takes: no gain of batches, all gain,
#: and between.
SERVICES = {
    "one at a time": (lambda b: 0.3 * b, 1),
    "linear in small batches": (lambda b: 0.05 + 0.25 * b, 8),
    "flat": (lambda b: 0.02 + 0.0001 * b, 64),
    "half a fixed part": (lambda b: 1.0 + 0.2 * b, 32),
    "bends": (lambda b: 0.01 + 0.002 * max(b - 16, 0) + 0.0002 * b, 128),
    "small cap": (lambda b: 0.5 + 0.1 * b, 4),
}
LOADS = (0.01, 0.05, 0.2, 0.5, 0.8, 0.9, 0.95)


def simulated(service_s: Array, rate_per_s: float, *, requests: int, seed: int) -> Array:
    """Latencies of requests with Poisson arrivals at a server that takes what has gathered."""
    arrivals = np.random.default_rng(seed).exponential(1.0 / rate_per_s, requests).cumsum()
    most, done, now, out = service_s.shape[0], 0, 0.0, np.empty(requests)
    while done < requests:
        now = max(now, float(arrivals[done]))
        batch = min(int(np.searchsorted(arrivals, now, side="right")) - done, most)
        now += float(service_s[batch - 1])
        out[done : done + batch] = now - arrivals[done : done + batch]
        done += batch
    return np.quantile(out[requests // 20 :], SHARES)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("name", SERVICES)
def test_percentiles_are_those_of_a_simulation(name: str, load: float) -> None:
    law, most = SERVICES[name]
    service = np.array([law(batch) for batch in range(1, most + 1)])
    service = service[: int(np.argmax(np.arange(1, most + 1) / service)) + 1]
    rate = load * float((np.arange(1, service.shape[0] + 1) / service).max())
    runs = [simulated(service, rate, requests=120_000 if load > 0.85 else 40_000, seed=seed) for seed in (1, 2, 3)]
    found = latency_s(service[None, :], np.array([rate]), shares=SHARES)[0]
    assert found == pytest.approx(np.mean(runs, axis=0), rel=0.1), np.mean(runs, axis=0)


def test_without_load_a_request_takes_its_own_pass() -> None:
    service = np.array([[0.4, 0.5, np.inf], [2.0, np.inf, np.inf]])
    assert latency_s(service, np.zeros(2), shares=SHARES) == pytest.approx(np.array([[0.4] * 3, [2.0] * 3]))
    assert latency_s(service, np.full(2, 1e-6), shares=SHARES) == pytest.approx(np.array([[0.4] * 3, [2.0] * 3]), rel=1e-3)


def test_more_than_is_served_waits_for_ever() -> None:
    service = np.array([[0.5, 0.6], [np.inf, np.inf]])
    assert np.isinf(latency_s(service, np.array([3.4, 1.0]), shares=SHARES)).all()


def test_more_load_never_answers_sooner() -> None:
    service = np.array([[0.1 + 0.02 * batch for batch in range(1, 65)]])
    rates = np.linspace(0.1, 45.0, 40)
    found = latency_s(np.repeat(service, rates.shape[0], axis=0), rates, shares=SHARES)
    assert (np.diff(found, axis=0) >= -0.005 * found[:-1]).all()
