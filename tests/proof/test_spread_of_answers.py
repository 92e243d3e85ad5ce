"""Whether answers differ in length is told, or doubted; digits of lengths tell nothing."""

from __future__ import annotations

import itertools

import pytest

from rightfit.proof.predict import predict

BURST = {
    "metric": "output_tok_per_s_total",
    "model": "meta-llama/Meta-Llama-3-8B",
    "weights_dtype": "bf16",
    "engine": "vLLM",
    "device": "A100-SXM-80GB",
    "request_rate": "inf",
    "num_requests": "1000",
    "input_tokens": "257",
    "output_tokens": "258",
}


@pytest.mark.parametrize("column", ["input_tokens", "output_tokens"])
@pytest.mark.parametrize("start", [120, 250, 500, 1000, 2040])
@pytest.mark.parametrize("metric", ["output_tok_per_s_total", "tpot_ms", "req_per_s"])
def test_one_token_more_changes_little(column: str, start: int, metric: str) -> None:
    answers = predict([BURST | {"metric": metric, column: str(length)} for length in range(start, start + 16)])
    values = [answer["predicted"] for answer in answers]
    assert all(abs(later / earlier - 1.0) < 0.03 for earlier, later in itertools.pairwise(values))


@pytest.mark.parametrize("told", [{"output_spread": "varied"}, {"dataset": "sharegpt"}, {"max_tokens": "2048"}])
def test_a_spread_that_is_told_slows_the_end_of_a_run(told: dict[str, str]) -> None:
    equal, varied = predict([BURST | {"output_spread": "fixed"}, BURST | told])
    assert varied["predicted"] < 0.95 * equal["predicted"]
    assert "spread of the answers" not in equal["assumptions"] + varied["assumptions"]


def test_a_spread_that_nobody_tells_is_doubted() -> None:
    unsaid, equal = predict([BURST, BURST | {"output_spread": "fixed"}])
    assert unsaid["predicted"] == equal["predicted"]
    assert "spread of the answers not stated (output_spread)" in unsaid["assumptions"]
    assert unsaid["high80"] / unsaid["low80"] > equal["high80"] / equal["low80"]
