"""Columns of latencies and limits that batch prediction computes: percentile, prefix_share,
slo_ttft_ms, slo_tpot_ms."""

from __future__ import annotations

import math

import pytest

from rightfit.proof.cases.serving import quantile_of
from rightfit.proof.predict import predict

CASE = {
    "model": "meta-llama/Llama-3.1-8B",
    "device": "H100-SXM-80GB",
    "engine": "vLLM",
    "engine_version": "0.9.0",
    "weights_dtype": "bf16",
    "input_tokens": "1024",
    "output_tokens": "256",
}
LOADS = {
    "closed": {"batch_or_concurrency": "64"},
    "open": {"request_rate": "8"},
    "burst": {"arrival": "burst", "num_requests": "1000"},
}


def _value(**cells: str) -> float:
    (answer,) = predict([CASE | cells])
    assert answer["predicted"], answer["error"]
    return float(answer["predicted"])


@pytest.mark.parametrize(
    ("words", "level"), [("p50", 0.5), ("P99", 0.99), ("99th", 0.99), ("95", 0.95), ("p99.9", 0.999), ("median", 0.5), ("90%", 0.9)]
)
def test_words_of_percentiles(words: str, level: float) -> None:
    assert quantile_of(words) == pytest.approx(level)


@pytest.mark.parametrize("words", ["", "mean", "avg", "max", "p", "stddev", "per request"])
def test_other_words_mean_the_mean(words: str) -> None:
    assert quantile_of(words) == 0.0


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
@pytest.mark.parametrize("metric", ["ttft_ms", "latency_ms"])
def test_first_tokens_grow_with_the_percentile(load: dict[str, str], metric: str) -> None:
    found = [_value(metric=metric, percentile=name, **load) for name in ("p50", "p90", "p95", "p99")]
    assert found == sorted(found)
    assert found[0] < found[-1]
    assert found[0] <= _value(metric=metric, **load) < found[-1]


@pytest.mark.parametrize("load", ["closed", "open"])
def test_time_per_token_grows_with_the_percentile(load: str) -> None:
    assert _value(metric="tpot_ms", percentile="p50", **LOADS[load]) <= _value(metric="tpot_ms", percentile="p99", **LOADS[load])


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_rates_know_no_percentile(load: dict[str, str]) -> None:
    assert _value(metric="req_per_s", percentile="p99", **load) == _value(metric="req_per_s", **load)


def test_a_prefix_in_the_cache_makes_prompts_shorter_and_no_answer_slower() -> None:
    first = [_value(metric="ttft_ms", batch_or_concurrency="1", input_tokens="16384", prefix_share=share) for share in ("0", "0.5", "0.9")]
    assert first[0] > 1.5 * first[1] > 1.5 * first[2]
    token = [_value(metric="decode_tok_per_s_single", input_tokens="16384", prefix_share=share) for share in ("0", "0.9")]
    assert token[0] == pytest.approx(token[1])


def test_a_limit_of_the_token_bounds_the_load_that_the_engine_takes() -> None:
    free = {"batch_or_concurrency": "max", "metric": "output_tok_per_s_total"}
    unbound, loose, tight = (_value(**free, slo_tpot_ms=limit) for limit in ("", "1000", "12"))
    assert tight < loose == pytest.approx(unbound)
    assert _value(batch_or_concurrency="max", metric="tpot_ms", slo_tpot_ms="12") == pytest.approx(12.0, rel=0.02)


def test_a_limit_of_the_first_token_bounds_the_rate() -> None:
    free = {"batch_or_concurrency": "max", "metric": "req_per_s"}
    unbound, loose, tight = (_value(**free, slo_ttft_ms=limit) for limit in ("", "60000", "90"))
    assert tight < loose <= unbound


def test_columns_that_are_computed_are_no_longer_said_to_be_left_out() -> None:
    told = {"percentile": "p99", "prefix_share": "0.5", "slo_ttft_ms": "500", "slo_tpot_ms": "50"}
    (answer,) = predict([CASE | {"metric": "ttft_ms", "request_rate": "2"} | told])
    assert "not taken in" not in answer["assumptions"]
    assert "the mean is predicted" not in answer["assumptions"]
    (answer,) = predict([CASE | {"metric": "ttft_ms", "request_rate": "2", "percentile": "worst"}])
    assert "percentile 'worst': the mean is predicted" in answer["assumptions"]


def test_a_rate_beyond_what_is_kept_up_with_is_said() -> None:
    slow, fast = predict([CASE | {"metric": "ttft_ms", "request_rate": rate} for rate in ("1", "1000")])
    assert "kept up with" not in slow["assumptions"]
    assert "kept up with" in fast["assumptions"]


@pytest.mark.parametrize("rate", ["20", "50", "100", "1000"])
def test_an_open_load_whose_latency_was_measured_is_kept_up_with(rate: str) -> None:
    first, token = (_value(metric=metric, request_rate=rate) for metric in ("ttft_ms", "tpot_ms"))
    assert math.isfinite(first)
    assert first < 10_000
    assert token < 1_000


def test_the_first_token_of_an_open_load_knows_that_others_are_answered() -> None:
    # Who asks for the first token of a service under load need not say how long answers are for
    # them to take its time.
    short = {name: cell for name, cell in CASE.items() if name != "output_tokens"}
    (unsaid,) = predict([short | {"metric": "ttft_ms", "request_rate": "20"}])
    (one,) = predict([CASE | {"metric": "ttft_ms", "request_rate": "20", "output_tokens": "1"}])
    assert unsaid["predicted"] > one["predicted"]
    assert "output length not stated" in unsaid["assumptions"]
