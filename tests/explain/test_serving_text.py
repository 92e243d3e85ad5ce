"""Serving plans in words, English and Chinese."""

from __future__ import annotations

import re

import pytest

import rightfit
from rightfit.explain.messages import fields_of, topic
from rightfit.explain.serving_text import serving_renderer
from rightfit.explain.voices import plan_text
from rightfit.messages import LANGS, Lang
from rightfit.search.answer import Plan, Reason

_HAN = re.compile(r"[一-鿿]")
WISHES = {
    "chat": ("meta-llama/Meta-Llama-3-8B", {"task": "serve", "rate": "10/s", "ttft": "300ms", "tpot": "30ms", "cloud": "aws"}),
    "free": ("meta-llama/Meta-Llama-3-8B", {"task": "serve", "rate": "10/s", "quantization": "any"}),
    "impossible": ("meta-llama/Meta-Llama-3-70B", {"task": "serve", "rate": "1/s", "tpot": "1ms", "ttft": "5ms", "latency": "10ms"}),
    "classifier": ("bert-base-uncased", {"task": "serve", "rate": "5/s", "latency": "150ms"}),
    "corpus": ("meta-llama/Meta-Llama-3-8B", {"task": "batch", "data": "1Msamples", "deadline": "24h"}),
    "images": ("SDXL", {"task": "batch", "data": "10kimages", "deadline": "1h", "budget": "1usd"}),
}


@pytest.fixture(scope="module", params=list(WISHES))
def plan(request: pytest.FixtureRequest) -> Plan:
    model, wishes = WISHES[request.param]
    return rightfit.plan(model, **wishes, top=3)


@pytest.mark.parametrize("lang", LANGS)
def test_everything_is_said_in_the_language(plan: Plan, lang: Lang) -> None:
    text = plan_text(plan, lang)
    best = text.best
    lines = [text.headline, text.blame, *text.advice, *text.assumptions, *text.rejected]
    lines += [best.outcome, best.setup, best.margin, *best.why, *best.warnings] if best else []
    spoken = [line for line in lines if line]
    assert spoken
    for line in spoken:
        assert "serve_" not in line
        assert "{" not in line
        assert bool(_HAN.search(line)) == (lang == "zh"), line


def test_both_languages_name_the_same_fields() -> None:
    for key, entry in topic("serving").items():
        assert fields_of(entry["en"]) == fields_of(entry["zh"]), key


def test_chat_says_money_by_request_and_by_token() -> None:
    model, wishes = WISHES["chat"]
    best = plan_text(rightfit.plan(model, **wishes, top=1), "en").best
    assert best is not None
    assert re.search(r"\$[\d,.]+ per month: \$[\d.]+ per 1,000 requests, \$[\d.]+ per million tokens", best.outcome)
    assert "p50 / p95 / p99" in best.speed
    assert "on demand" in best.margin


def test_bound_names_memory_bandwidth() -> None:
    reason = Reason(
        "serve_bound_tpot",
        {"limit_s": 0.001, "least_s": 0.0093, "bound_s": 0.0022, "accelerator": "B300", "devices": 8, "engine": "vLLM"},
    )
    text = serving_renderer("en")(reason)
    assert "No server reaches 1 ms per output token" in text
    assert "2.2 ms" in text
    assert "显存带宽" in serving_renderer("zh")(reason)


def test_a_limit_that_no_pass_keeps_names_the_soonest_answer() -> None:
    plan = rightfit.plan("random-forest", task="serve", data="1Mrows x 30cols", rate="50/s", latency="0.01ms")
    bound = next(reason for reason in plan.advice if reason.key == "serve_bound_pass")
    assert bound.params["least_s"] > bound.params["limit_s"]
    assert "No server answers a request in 0.01 ms: the fastest, FastAPI on " in serving_renderer("en")(bound)
    assert "最快的" in serving_renderer("zh")(bound)


def test_one_replica_is_singular() -> None:
    render = serving_renderer("en")
    one = Reason("serve_replicas", {"replicas": 1, "rate": 5.0, "share": 0.5, "most": 10.0})
    assert render(one).startswith("1 replica: 5 requests/s is 50%")
    assert render(Reason(one.key, {**one.params, "replicas": 3})).startswith("3 replicas")
