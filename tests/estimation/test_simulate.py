"""The simulation of continuous batching against a plain step-by-step one, by hand,
and its properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.physics.typical import linear_replicas

from rightfit.errors import QuantityError
from rightfit.estimation.simulate import simulate, simulate_closed
from rightfit.physics.queueing import ReplicaColumns
from rightfit.workload.traces import Lengths, Requests, draw_requests

LINEAR = linear_replicas(overhead_s=0.01, batch_s=1e-4, cache_token_s=1e-7, prompt_token_s=5e-5, max_batch=64, chunk_tokens=2048)


def step_by_step(replicas: ReplicaColumns, requests: Requests) -> tuple[np.ndarray, np.ndarray]:
    """The same rules, one step at a time, written without regard to speed; the cache never
    fills (reserve 1)."""
    overhead, batch_s = replicas.table_s[0, 0], replicas.table_s[0, 1] - replicas.table_s[0, 0]
    waiting = list(range(len(requests)))
    prompts: list[list[int]] = []
    running: dict[int, int] = {}
    first, finish = np.full(len(requests), np.nan), np.full(len(requests), np.nan)
    clock, capacity = 0.0, float(replicas.cache_tokens[0]) or math.inf
    need = requests.input_tokens + requests.output_tokens
    while waiting or prompts or running:
        if not prompts and not running:
            clock = max(clock, requests.arrival_s[waiting[0]])
        budget = max(replicas.chunk_tokens[0] - len(running), 1)
        pieces = []
        for prompt in prompts:
            piece = min(prompt[1], budget)
            if piece > 0:
                pieces.append((prompt, piece))
                budget -= piece
        while waiting and budget > 0 and len(running) + len(prompts) < replicas.max_batch[0] and requests.arrival_s[waiting[0]] <= clock:
            held = sum(need[request] for request in running) + sum(need[prompt[0]] for prompt in prompts)
            if held + need[waiting[0]] > capacity:
                break
            prompt = [waiting.pop(0), 0]
            prompt[1] = int(requests.input_tokens[prompt[0]])
            prompts.append(prompt)
            pieces.append((prompt, min(prompt[1], int(budget))))
            budget -= pieces[-1][1]
        cached = sum(requests.input_tokens[request] + requests.output_tokens[request] - left for request, left in running.items())
        step = overhead + batch_s * len(running) + replicas.prompt_s[0, 1] * sum(piece for _, piece in pieces)
        clock += step + replicas.cache_token_s[0] * cached
        for request in list(running):
            running[request] -= 1
            if running[request] == 0:
                finish[request] = clock
                del running[request]
        for prompt, piece in pieces:
            prompt[1] -= piece
            if prompt[1] == 0:
                prompts.remove(prompt)
                first[prompt[0]] = clock
                if requests.output_tokens[prompt[0]] == 1:
                    finish[prompt[0]] = clock
                else:
                    running[prompt[0]] = int(requests.output_tokens[prompt[0]]) - 1
    return first, finish


@pytest.mark.parametrize(
    ("limits", "rate"),
    [
        ({}, 3.0),
        ({}, 15.0),
        ({"max_batch": 6.0}, 4.0),
        ({"chunk_tokens": 128.0}, 8.0),
        ({"cache_tokens": 4000.0}, 6.0),
        ({"cache_tokens": 0.0}, 200.0),
    ],
)
def test_jumps_equal_single_steps(limits: dict[str, float], rate: float) -> None:
    values = {
        "overhead_s": 0.01,
        "batch_s": 1e-4,
        "cache_token_s": 1e-7,
        "prompt_token_s": 5e-5,
        "max_batch": 64.0,
        "chunk_tokens": 2048.0,
    } | limits
    replicas = linear_replicas(**values)
    requests = draw_requests(300, rate_per_s=rate, inputs=Lengths(300, 1.0, 1, 2000), outputs=Lengths(60, 1.0, 1, 400), seed=3)
    first, finish = step_by_step(replicas, requests)
    found = simulate(replicas, requests, warm_up=0.0)
    assert found.ttft_s == pytest.approx(first - requests.arrival_s, abs=1e-9)
    assert found.latency_s == pytest.approx(finish - requests.arrival_s, abs=1e-9)


def test_one_request_by_hand() -> None:
    requests = Requests(np.array([5.0]), np.array([1000]), np.array([3]))
    found = simulate(LINEAR, requests, warm_up=0.0)
    assert found.ttft_s[0] == pytest.approx(0.01 + 1000 * 5e-5)
    assert found.latency_s[0] == pytest.approx(0.06 + 2 * (0.01 + 1e-4) + 1e-7 * (1001 + 1002))
    assert found.tpot_s[0] == pytest.approx((found.latency_s[0] - 0.06) / 2)


def test_long_prompt_is_cut_into_pieces() -> None:
    replicas = linear_replicas(overhead_s=0.01, prompt_token_s=1e-5, prompt_pair_s=1e-9, chunk_tokens=512)
    found = simulate(replicas, Requests(np.zeros(1), np.array([1300]), np.array([1])), warm_up=0.0)
    assert found.ttft_s[0] == pytest.approx(3 * 0.01 + 1300 * 1e-5 + 1e-9 * 1300**2 / 2)


def test_request_overhead_is_added_once() -> None:
    replicas = linear_replicas(overhead_s=0.01, request_s=0.02)
    found = simulate(replicas, Requests(np.zeros(1), np.array([10]), np.array([2])), warm_up=0.0)
    assert (found.ttft_s[0], found.latency_s[0]) == (pytest.approx(0.03), pytest.approx(0.04))


def test_full_cache_evicts_the_youngest_and_all_finish() -> None:
    replicas = linear_replicas(overhead_s=0.01, cache_tokens=1000, cache_reserve=0.0)
    requests = Requests(np.zeros(4), np.full(4, 200), np.full(4, 300))
    found = simulate(replicas, requests, warm_up=0.0)
    assert found.evictions > 0
    assert np.isfinite(found.latency_s).all()
    kept = simulate(linear_replicas(overhead_s=0.01, cache_tokens=1000, cache_reserve=1.0), requests, warm_up=0.0)
    assert kept.evictions == 0
    assert kept.ttft_s.max() > found.ttft_s.max()


def test_same_seed_same_answer_and_another_seed_another() -> None:
    lengths = {"inputs": Lengths(200, 0.5), "outputs": Lengths(50, 0.5)}
    runs = [simulate(LINEAR, draw_requests(500, rate_per_s=5, seed=seed, **lengths)).ttft.p99 for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_saturation_is_seen() -> None:
    lengths = {"inputs": Lengths(200), "outputs": Lengths(100)}
    replicas = linear_replicas(overhead_s=0.01, max_batch=8)  # 8 sequences of 100 steps of 10 ms: 8 requests/s at most
    assert not simulate(replicas, draw_requests(2000, rate_per_s=6, **lengths)).saturated
    beyond = simulate(replicas, draw_requests(2000, rate_per_s=12, **lengths))
    assert beyond.saturated
    assert beyond.requests_per_s == pytest.approx(8.0, rel=0.02)


def test_little_law() -> None:
    requests = draw_requests(20_000, rate_per_s=8, inputs=Lengths(100), outputs=Lengths(50, 0.5), seed=5)
    found = simulate(LINEAR, requests)
    in_system = found.requests_per_s * found.latency.mean
    assert found.mean_batch * found.busy == pytest.approx(in_system - found.requests_per_s * found.ttft.mean, rel=0.06)


def test_bursts_wait_longer_than_poisson() -> None:
    lengths = {"inputs": Lengths(400), "outputs": Lengths(40)}
    poisson, bursty = (simulate(LINEAR, draw_requests(5000, rate_per_s=15, variation=variation, **lengths)) for variation in (1.0, 4.0))
    assert bursty.ttft.p99 > 1.3 * poisson.ttft.p99


def test_closed_loop_keeps_its_users_busy() -> None:
    replicas = linear_replicas(overhead_s=0.01)
    requests = Requests(np.zeros(400), np.full(400, 10), np.full(400, 20))
    found = simulate_closed(replicas, requests, users=4)
    assert found.latency.p50 == pytest.approx(0.2)
    assert found.requests_per_s == pytest.approx(4 / 0.2, rel=0.03)


def test_fleet_answers_all() -> None:
    requests = draw_requests(4000, rate_per_s=60, inputs=Lengths(300, 1.0), outputs=Lengths(60, 1.0), seed=2)
    found = simulate(LINEAR, requests, num_replicas=5, warm_up=0.0)
    assert found.ttft_s.size == 4000
    assert (found.latency_s >= found.ttft_s).all()
    assert not found.saturated


def test_refusals() -> None:
    small = linear_replicas(overhead_s=0.01, cache_tokens=100)
    with pytest.raises(QuantityError, match="request 1 needs 150 tokens"):
        simulate(small, Requests(np.zeros(1), np.array([100]), np.array([50])))
