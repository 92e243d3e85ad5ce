"""Latencies of services of one pass follow the load."""

from __future__ import annotations

import pytest

import rightfit


def triple(rate: str) -> list[float]:
    best = rightfit.plan(
        model="stable-diffusion-1.5", task="serve", rate=rate, latency="30s", gpu="L40S", max_nodes=1, denoise_steps=30
    ).best
    assert best is not None
    assert best.layout.replicas == 1
    return [best.estimate[f"latency_p{share}_s"].mid for share in (50, 95, 99)]


def test_a_service_that_is_hardly_used_answers_in_one_pass() -> None:
    p50, p95, p99 = triple("0.001/s")
    assert p95 == pytest.approx(p50)
    assert p99 == pytest.approx(p50)


def test_the_tail_grows_with_the_load() -> None:
    quiet, busy = triple("0.1/s"), triple("1.2/s")
    assert busy[1] / busy[0] > 1.5
    assert all(more > less for more, less in zip(busy, quiet, strict=True))


def test_a_limit_that_one_pass_keeps_is_not_refused() -> None:
    free = rightfit.plan(model="openai/whisper-large-v3", task="serve", rate="0.01/s", latency="60s").best
    assert free is not None
    alone_s = free.estimate["latency_p50_s"].mid
    limited = rightfit.plan(model="openai/whisper-large-v3", task="serve", rate="0.01/s", latency=f"{1.05 * alone_s * 1000:.0f}ms").best
    assert limited is not None
    assert limited.estimate["latency_p95_s"].mid <= 1.05 * alone_s
