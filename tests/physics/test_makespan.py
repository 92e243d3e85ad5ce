"""Finite runs: prompts first, a batch that shrinks."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics.columns import Array
from rightfit.physics.waiting import LENGTHS, Run, finite_run, longest, stalled_share


def step_s(batch: Array) -> Array:
    """Ten milliseconds to read the weights, 20 microseconds a sequence."""
    return np.asarray(0.01 + 2e-5 * batch)


def run_of(
    requests: float, *, slots: float = 1e9, varied: float = 0.0, output: float = 200.0, prompt_s: float = 0.01, front_s: float = 0.0
) -> Run:
    return finite_run(
        step_s,
        requests=np.array([requests]),
        slots=np.array([slots]),
        prompt_s=np.array([prompt_s]),
        front_s=np.array([front_s]),
        room=np.array([32.0]),
        output=np.array([output]),
        varied=np.array([varied]),
        most=5.0,
    )


def simulated_s(lengths: Array, slots: int) -> float:
    """Decoding of these answers step by step, each one that ends replaced by
    the next that waits."""
    waiting, running, seconds = list(lengths), np.zeros(0), 0.0
    while waiting or running.size:
        while waiting and running.size < slots:
            running = np.append(running, waiting.pop())
        seconds += float(step_s(np.array(float(running.size))))
        running = running - 1.0
        running = running[running > 0]
    return seconds


def test_answers_of_one_length_end_together() -> None:
    run = run_of(1000)
    assert run.total_s[0] == pytest.approx(10.0 + 199 * 0.03)
    assert run.mean_step_s[0] == pytest.approx(0.03)


def test_full_batches_are_refilled_until_nobody_waits() -> None:
    assert run_of(1000, slots=250).total_s[0] == pytest.approx(10.0 + 4 * 199 * 0.015)


def test_shares_of_an_exponential_law_have_its_mean() -> None:
    assert np.mean(LENGTHS) == pytest.approx(1.0)
    assert np.all(np.diff(LENGTHS) > 0)


@pytest.mark.parametrize(("requests", "slots"), [(1000, 1000), (400, 400), (1000, 256), (64, 64)])
def test_a_shrinking_batch_takes_what_a_simulation_takes(requests: int, slots: int) -> None:
    draws = np.random.default_rng(7)
    lengths = [np.minimum(np.ceil(draws.exponential(199.0, requests)), 995.0) for _ in range(8)]
    true = float(np.mean([simulated_s(one, slots) for one in lengths]))
    run = run_of(requests, slots=slots, varied=1.0)
    assert run.total_s[0] - run.prompts_s[0] == pytest.approx(true, rel=0.12)


def test_varied_answers_take_longer_than_equal_ones_and_see_smaller_batches() -> None:
    varied, equal = run_of(1000, varied=1.0), run_of(1000)
    assert varied.total_s[0] > 1.3 * equal.total_s[0]
    assert varied.mean_step_s[0] < equal.mean_step_s[0]


@pytest.mark.parametrize("requests", [1, 2, 7, 100, 5000])
def test_runs_are_finite_and_grow_with_requests(requests: float) -> None:
    one, more = run_of(requests, varied=1.0, slots=64), run_of(requests + 1, varied=1.0, slots=64)
    assert np.isfinite(one.total_s[0])
    assert 0 < one.total_s[0] <= more.total_s[0] * 1.001


def test_one_token_is_all_prompts() -> None:
    assert run_of(100, output=1.0, front_s=0.005).total_s[0] == pytest.approx(1.5)


def test_the_longest_answer_is_cut_where_data_are() -> None:
    assert longest(np.array([200.0]), np.array([1e6]), varied=np.ones(1), most=5.0)[0] == 1000.0
    assert longest(np.array([200.0]), np.array([1.0]), varied=np.ones(1), most=5.0)[0] == 200.0


def test_short_answers_see_nothing_but_steps_with_prompts() -> None:
    short, long = (stalled_share([np.array([length])], np.array([30.0]))[0] for length in (3.0, 3000.0))
    assert short == pytest.approx(0.95)
    assert long == pytest.approx(0.005)
