"""Services of one pass: replicas that share one queue need no more servers than queues apart."""

from __future__ import annotations

import pytest

import rightfit
from rightfit.explain.serving_text import serving_renderer
from rightfit.physics import batch_queue
from rightfit.search.service import options, sizing


@pytest.mark.parametrize(
    ("model", "rate", "latency"),
    [
        ("black-forest-labs/FLUX.1-dev", "1/s", "20s"),
        ("openai/whisper-large-v3", "20/s", "2s"),  # of clips of 30 s
        ("stabilityai/stable-diffusion-xl-base-1.0", "3/s", "8s"),
    ],
)
def test_many_replicas_share_their_queue(model: str, rate: str, latency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = {"audio_length": "30s"} if "whisper" in model else {}
    shared = rightfit.plan(model, task="serve", rate=rate, latency=latency, gpu="L40S", top=1, **clips).best
    assert shared is not None
    limit_s = float(latency.removesuffix("s"))
    assert shared.estimate["latency_p95_s"].mid <= limit_s * 1.001
    assert shared.facts["utilisation"] <= 0.95
    replicas = shared.layout.data
    assert shared.facts["replica_rate_per_s"] * replicas >= float(rate.removesuffix("/s")) * (1.0 - 1e-9)
    assert any(reason.key == "serve_one_queue" for reason in shared.why)
    monkeypatch.setattr(batch_queue, "pooled_servers", lambda *_, most, **__: most)
    monkeypatch.setattr(sizing, "pooled_s", lambda _wish, alone, *_, **__: alone * float("inf"))
    monkeypatch.setattr(options, "pooled_s", lambda _wish, alone, *_, **__: alone * float("inf"))
    apart = rightfit.plan(model, task="serve", rate=rate, latency=latency, gpu="L40S", top=1, **clips).best
    assert apart is None or apart.layout.data > replicas


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_is_said_how_requests_must_be_routed(lang: str) -> None:
    plan = rightfit.plan("black-forest-labs/FLUX.1-dev", task="serve", rate="1/s", latency="20s", gpu="L40S", top=1)
    assert plan.best is not None
    said = [serving_renderer(lang)(reason) for reason in plan.best.why if reason.key == "serve_one_queue"]
    assert len(said) == 1
    assert ("least-requests" if lang == "en" else "最少连接") in said[0]


def test_one_replica_has_no_queue_to_share() -> None:
    best = rightfit.plan("BAAI/bge-large-en-v1.5", task="serve", rate="1/s", latency="1s", top=1).best
    assert best is not None
    assert best.layout.data == 1
    assert best.facts["latency_law"] == "quick"
