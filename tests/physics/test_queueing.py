"""Mean values and percentiles of a replica: limits by hand, and against the simulation."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from statistics import NormalDist
from types import ModuleType

import numpy as np
import pytest
from loaded import load_module
from tests.physics.typical import linear_replicas

from rightfit.estimation.serving_steps import length_atoms, load_columns
from rightfit.estimation.simulate import simulate
from rightfit.physics import queueing, waiting
from rightfit.physics.queueing import ATOM_WEIGHTS, LoadColumns, ReplicaColumns, step_s
from rightfit.workload.traces import Lengths, draw_requests

FLAT = linear_replicas(overhead_s=0.01, max_batch=8)


def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "bench_queueing.py"
    return load_module(path)


def test_step_by_hand() -> None:
    replicas = linear_replicas(overhead_s=0.01, batch_s=2e-4, cache_token_s=1e-7, prompt_token_s=5e-5, prompt_pair_s=1e-9)
    time = step_s(
        replicas,
        sequences=np.array([[10.0]]),
        cached=np.array([[5000.0]]),
        prompt_tokens=np.array([[100.0]]),
        prompt_pairs=np.array([[5000.0]]),
    )
    assert time[0, 0] == pytest.approx(0.01 + 0.002 + 0.0005 + 0.005 + 0.000005)


def test_tables_between_and_beyond_their_points() -> None:
    one = np.ones(1)
    replicas = ReplicaColumns(
        table_tokens=np.array([0.0, 100.0, 200.0]),
        table_s=np.array([[1.0, 1.0, 3.0]]),
        prompt_tokens=np.array([0.0, 10.0]),
        prompt_s=np.array([[4.0, 5.0]]),
        stall=0.5 * one,
        empty_s=1.0 * one,
        **dict.fromkeys(("cache_token_s", "prompt_pair_s", "request_s", "chunk_tokens", "cache_tokens"), 0 * one),
        max_batch=8 * one,
        cache_reserve=one,
    )
    assert replicas.sequences_s(np.array([[50.0, 150.0, 300.0]]))[0].tolist() == [1.0, 2.0, 5.0]
    assert replicas.prompts_s(np.array([[0.0, 5.0, 20.0]]))[0].tolist() == [0.0, 4.5, 6.0]
    sequences, prompts = np.array([[0.0, 150.0, 150.0]]), np.array([[10.0, 10.0, 0.0]])
    step = step_s(replicas, sequences=sequences, cached=0 * sequences, prompt_tokens=prompts, prompt_pairs=0 * prompts)
    assert step[0].tolist() == [5.0, 4.5, 2.0]  # alone: no step of sequences; beside others: half of it


def test_mean_of_pieces_is_that_of_a_poisson_number() -> None:
    replicas = dataclasses.replace(
        linear_replicas(overhead_s=0.01), prompt_tokens=np.array([0.0, 1.0]), prompt_s=np.array([[0.02, 0.02 + 1e-5]])
    )
    drawn = np.random.default_rng(1).poisson(0.7, 400_000)
    expected = replicas.prompts_s(drawn[None] * 300.0).mean()
    tokens, piece = np.array([[0.7 * 300.0]]), np.array([[300.0]])
    assert replicas.pieces(piece).mean_s(tokens, alone=tokens < 0)[0, 0] == pytest.approx(expected, rel=0.01)
    some = replicas.prompts_s(drawn[None, drawn > 0] * 300.0).mean()
    assert replicas.pieces(piece).mean_s(tokens, alone=tokens > 0)[0, 0] == pytest.approx(some, rel=0.01)


def test_atoms_keep_the_mean_and_nearly_the_variance() -> None:
    law = Lengths(1000, 1.0, 1, 100_000)
    atoms = length_atoms(law)
    assert atoms @ ATOM_WEIGHTS == pytest.approx(1000, rel=0.01)
    assert atoms**2 @ ATOM_WEIGHTS == pytest.approx(2e6, rel=0.03)


def test_capacity_by_slots_tokens_and_cache() -> None:
    slots = queueing.capacity_per_s(FLAT, LoadColumns.of(1.0, input_tokens=10.0, output_tokens=100.0))
    assert slots[0] == pytest.approx(8.0)  # 8 sequences, 1 + 99 steps of 10 ms
    tokens = queueing.capacity_per_s(
        linear_replicas(overhead_s=0.01, chunk_tokens=550), LoadColumns.of(1.0, input_tokens=1000.0, output_tokens=101.0)
    )
    assert tokens[0] == pytest.approx(550 / 1100 / 0.01)
    cache = linear_replicas(overhead_s=0.01, cache_tokens=8500)
    assert queueing.slots(cache, LoadColumns.of(1.0, input_tokens=900.0, output_tokens=100.0))[0] == pytest.approx(8.0)


def test_capacity_against_the_simulation() -> None:
    replicas = linear_replicas(overhead_s=0.01, batch_s=1e-4, prompt_token_s=5e-5, max_batch=16)
    load = load_columns(1.0, inputs=Lengths(400, 0.5), outputs=Lengths(60, 0.5))
    capacity = float(queueing.capacity_per_s(replicas, load)[0])
    beyond = simulate(replicas, draw_requests(6000, rate_per_s=1.5 * capacity, inputs=Lengths(400, 0.5), outputs=Lengths(60, 0.5), seed=1))
    assert beyond.saturated
    assert beyond.requests_per_s == pytest.approx(capacity, rel=0.03)


def test_steady_state_is_a_fixed_point_and_little_holds() -> None:
    replicas = linear_replicas(overhead_s=0.01, batch_s=1e-4, cache_token_s=1e-8, prompt_token_s=5e-5)
    load = load_columns([1.0, 5.0, 20.0], inputs=Lengths(300, 1.0), outputs=Lengths(100, 0.5))
    means = queueing.steady(replicas.take(np.zeros(3, dtype=np.intp)), load)
    assert means.batch == pytest.approx(load.rate_per_s * load.mean_decoded * means.step_s, rel=1e-6)
    assert (np.diff(means.tpot_s) > 0).all()
    assert not means.saturated.any()


def test_beyond_saturation_is_infinite() -> None:
    found = waiting.latency(FLAT, LoadColumns.of(9.0, input_tokens=10.0, output_tokens=100.0))
    assert found.steady.saturated.all()
    assert np.isinf(found.ttft_s).all()


@pytest.mark.parametrize(("inputs", "outputs", "chunk_tokens"), [(1000, 200, 8192), (1000, 150, 512), (6000, 60, 8192)])
def test_hardly_any_load_is_that_of_the_simulation(inputs: int, outputs: int, chunk_tokens: int) -> None:
    replicas = linear_replicas(overhead_s=0.012, batch_s=1e-4, prompt_token_s=3e-5, prompt_pair_s=1e-9, chunk_tokens=chunk_tokens)
    laws = {"inputs": Lengths(inputs, 0.5), "outputs": Lengths(outputs, 0.5)}
    rate = 0.01 * float(queueing.capacity_per_s(replicas, load_columns(1.0, **laws))[0])
    found = waiting.latency(replicas, load_columns(rate, **laws))
    runs = [simulate(replicas, draw_requests(4000, rate_per_s=rate, seed=seed, **laws)) for seed in (1, 2)]
    for model, name in ((found.ttft_s, "ttft"), (found.tpot_s, "tpot"), (found.latency_s, "latency")):
        seen = np.mean([[getattr(getattr(run, name), share) for share in ("p50", "p95", "p99")] for run in runs], axis=0)
        assert model[0] == pytest.approx(seen, rel=0.1), name


def test_lonely_request_waits_for_nothing() -> None:
    replicas = linear_replicas(overhead_s=0.01, batch_s=1e-4, prompt_token_s=5e-5, request_s=0.005)
    found = waiting.latency(replicas, LoadColumns.of(1e-4, input_tokens=1000.0, output_tokens=101.0))
    assert found.ttft_s[0] == pytest.approx(0.065, rel=0.01)
    assert found.tpot_s[0] == pytest.approx(0.0101, rel=0.01)
    assert found.latency_s[0] == pytest.approx(0.065 + 1.01, rel=0.01)


def test_more_load_never_waits_less() -> None:
    replicas = linear_replicas(overhead_s=0.01, batch_s=1e-4, prompt_token_s=5e-5, max_batch=64)
    capacity = queueing.capacity_per_s(replicas, load_columns(1.0, inputs=Lengths(300, 1.0), outputs=Lengths(100, 0.5)))[0]
    rates = capacity * np.array([0.1, 0.3, 0.5, 0.7, 0.85])
    found = waiting.latency(
        replicas.take(np.zeros(5, dtype=np.intp)), load_columns(rates, inputs=Lengths(300, 1.0), outputs=Lengths(100, 0.5))
    )
    assert (np.diff(found.ttft_s, axis=0) > 0).all()
    assert (np.diff(found.latency_s, axis=0) > 0).all()
    assert (np.diff(found.ttft_s, axis=1) > 0).all()


def test_prompts_only() -> None:
    """One output token: nothing decodes, a plain M/G/1 in bulk."""
    replicas = linear_replicas(overhead_s=0.004, prompt_token_s=2e-5)
    inputs, outputs = Lengths(300, 0.5), Lengths(1)
    found = waiting.latency(replicas, load_columns(40.0, inputs=inputs, outputs=outputs))
    seen = simulate(replicas, draw_requests(30_000, rate_per_s=40.0, inputs=inputs, outputs=outputs, seed=2))
    assert found.ttft_s[0] == pytest.approx([seen.ttft.p50, seen.ttft.p95, seen.ttft.p99], rel=0.1)
    assert found.latency_s[0] == pytest.approx(found.ttft_s[0], rel=0.02)


def check_against_simulation(loads: int, requests: int) -> np.ndarray:
    """Errors of p50, p95, p99 of TTFT, TPOT and whole latency against the mean of two runs."""
    table = np.array(list(bench().cases(loads, requests=requests, seed=1)))
    return np.abs(table[:, 4:13])


def test_percentiles_against_the_simulation() -> None:
    errors = check_against_simulation(12, 8000)
    first, others = errors[:, :3], errors[:, 3:]
    assert (np.median(first, axis=0) < [0.02, 0.04, 0.06]).all()
    assert ((first < 0.10).mean(axis=0) >= [0.9, 0.75, 0.6]).all()
    assert (np.median(others, axis=0) < 0.06).all()


def test_short_answers_behind_long_prompts() -> None:
    """Prompts that came while a request's own held up the replica are done beside its answer: TPOT
    is far above the mean step."""
    replicas = linear_replicas(overhead_s=0.012, batch_s=1e-4, prompt_token_s=8e-5, max_batch=128)
    inputs, outputs = Lengths(4000), Lengths(60)
    rate = 0.6 * float(queueing.capacity_per_s(replicas, load_columns(1.0, inputs=inputs, outputs=outputs))[0])
    found = waiting.latency(replicas, load_columns(rate, inputs=inputs, outputs=outputs))
    seen = simulate(replicas, draw_requests(20_000, rate_per_s=rate, inputs=inputs, outputs=outputs, seed=3))
    assert found.tpot_s[0, 1] == pytest.approx(seen.tpot.p95, rel=0.1)
    assert found.latency_s[0] == pytest.approx([seen.latency.p50, seen.latency.p95, seen.latency.p99], rel=0.1)
    assert seen.tpot.p95 > 2.0 * found.steady.tpot_s[0]


@pytest.mark.parametrize("chunk_tokens", [512, 8192])
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_prompts_that_take_longer_than_their_answers_wait_for_one_another(chunk_tokens: int, share: float) -> None:
    replicas = linear_replicas(overhead_s=0.012, batch_s=1e-4, prompt_token_s=1e-4, chunk_tokens=chunk_tokens, max_batch=128)
    inputs, outputs = Lengths(100_000), Lengths(100)
    rate = share * float(queueing.capacity_per_s(replicas, load_columns(1.0, inputs=inputs, outputs=outputs))[0])
    found = waiting.latency(replicas, load_columns(rate, inputs=inputs, outputs=outputs))
    runs = [simulate(replicas, draw_requests(10_000, rate_per_s=rate, inputs=inputs, outputs=outputs, seed=seed)) for seed in (1, 2)]
    seen = np.mean([[run.ttft.p50, run.ttft.p95, run.ttft.p99] for run in runs], axis=0)
    assert found.ttft_s[0] == pytest.approx(seen, rel=0.2)
    assert seen[1] > 1.5 * seen[0]


def test_scores_are_the_means_of_their_slices() -> None:
    density = [math.exp(-(NormalDist().inv_cdf(edge) ** 2) / 2) if 0 < edge < 1 else 0.0 for edge in waiting.SCORE_EDGES]
    means = -np.diff(density) / math.sqrt(2 * math.pi) / waiting.SCORE_MASSES
    assert means == pytest.approx(waiting.SCORES, abs=1e-4)


@pytest.mark.parametrize("chunk_tokens", [512, 8192])
@pytest.mark.parametrize("answer", [30, 300])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_an_answer_meets_no_long_prompt_or_the_head_of_one(chunk_tokens: int, answer: int, share: float) -> None:
    """Prompts are few, so that many answers meet none; one that is behind a prompt ends before the
    prompt does, whose first tokens attend to little."""
    replicas = linear_replicas(
        overhead_s=0.012, batch_s=1e-4, prompt_token_s=1e-4, prompt_pair_s=1e-9, chunk_tokens=chunk_tokens, max_batch=128
    )
    inputs, outputs = Lengths(40_000), Lengths(answer)
    rate = share * float(queueing.capacity_per_s(replicas, load_columns(1.0, inputs=inputs, outputs=outputs))[0])
    found = waiting.latency(replicas, load_columns(rate, inputs=inputs, outputs=outputs)).tpot_s[0]
    seen = simulate(replicas, draw_requests(3000, rate_per_s=rate, inputs=inputs, outputs=outputs, seed=1)).tpot
    assert found[0] == pytest.approx(seen.p50, rel=0.1)
    assert found[1:] == pytest.approx([seen.p95, seen.p99], rel=0.25)
    if answer * chunk_tokens < inputs.mean:
        assert found[2] == pytest.approx(seen.p99, rel=0.05)


def test_sequences_follow_the_backlog_of_prompts() -> None:
    """A step of 512 tokens that the prompts fill: while they wait, more sequences than the mean
    decode beside them."""
    replicas = linear_replicas(overhead_s=0.01, batch_s=1e-4, prompt_token_s=3e-5, chunk_tokens=512, max_batch=256)
    inputs, outputs = Lengths(1000, 0.5), Lengths(150, 0.5)
    rate = 0.8 * float(queueing.capacity_per_s(replicas, load_columns(1.0, inputs=inputs, outputs=outputs))[0])
    found = waiting.latency(replicas, load_columns(rate, inputs=inputs, outputs=outputs))
    seen = simulate(replicas, draw_requests(60_000, rate_per_s=rate, inputs=inputs, outputs=outputs, seed=3))
    assert found.ttft_s[0] == pytest.approx([seen.ttft.p50, seen.ttft.p95, seen.ttft.p99], rel=0.1)
