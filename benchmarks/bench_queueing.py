"""Check the analytic queue model against the simulation on random loads: `python benchmarks/bench_queueing.py [--loads 200] [--requests 40000]`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from rightfit.estimate.loads import load_columns
from rightfit.estimate.simulate import simulate
from rightfit.physics import queueing, waiting
from rightfit.physics.replicas import ReplicaColumns
from rightfit.workload.traces import Lengths, draw_requests

COLUMNS = (
    "load",
    "tokens",
    "slots",
    "waits",
    "p50",
    "p95",
    "p99",
    "sim p50",
    "sim p95",
    "sim p99",
    "tpot50",
    "e2e50",
    "e2e95",
    "capacity",
    "again",
)


def random_replica(dice: np.random.Generator) -> tuple[ReplicaColumns, Lengths, Lengths]:
    """An engine and its requests: steps of 5 to 30 ms, prompts of 64 to 4,000 tokens, outputs of 16 to 800, limits on slots, tokens and cache."""
    chunk = float(dice.choice([512, 2048, 8192, 16384]))
    inputs = Lengths(float(np.exp(dice.uniform(np.log(64), np.log(4000)))), float(dice.choice([0.0, 0.5, 1.0, 1.5])), 4, 32_000)
    outputs = Lengths(float(np.exp(dice.uniform(np.log(16), np.log(800)))), float(dice.choice([0.0, 0.5, 1.0])), 1, 8_000)
    replicas = ReplicaColumns.linear(
        overhead_s=np.exp(dice.uniform(np.log(0.005), np.log(0.03))),
        batch_s=np.exp(dice.uniform(np.log(1e-5), np.log(2e-4))),
        cache_token_s=np.exp(dice.uniform(np.log(1e-8), np.log(1e-7))),
        prompt_token_s=np.exp(dice.uniform(np.log(1e-5), np.log(1.5e-4))),
        prompt_pair_s=float(dice.choice([0.0, 1e-9])),
        max_batch=float(dice.choice([32, 64, 128, 256])),
        chunk_tokens=chunk,
        cache_tokens=float(dice.choice([0, 150_000, 500_000, 2_000_000])),
        cache_reserve=1.0,
    )
    return replicas, inputs, outputs


def cases(loads: int, *, requests: int, seed: int) -> Iterator[tuple[float, ...]]:
    """Analytic and simulated percentiles of `loads` random cases between 5 and 90 % of capacity."""
    dice = np.random.default_rng(seed)
    for number in range(loads):
        replicas, inputs, outputs = random_replica(dice)
        share = float(dice.uniform(0.05, 0.90))
        capacity = queueing.capacity_per_s(replicas, load_columns(1.0, inputs=inputs, outputs=outputs))[0]
        rate = share * capacity
        found = waiting.latency(replicas, load_columns(rate, inputs=inputs, outputs=outputs))
        drawn = draw_requests(requests, rate_per_s=rate, inputs=inputs, outputs=outputs, seed=1000 + number)
        seen = simulate(replicas, drawn)
        again = simulate(replicas, draw_requests(requests, rate_per_s=rate, inputs=inputs, outputs=outputs, seed=5000 + number)).ttft
        noise = max(abs(again.p50 / seen.ttft.p50 - 1.0), abs(again.p95 / seen.ttft.p95 - 1.0), abs(again.p99 / seen.ttft.p99 - 1.0))
        first = [found.ttft_s[0, place] / value - 1.0 for place, value in enumerate((seen.ttft.p50, seen.ttft.p95, seen.ttft.p99))]
        limits = queueing.most_entering(replicas, load_columns(1.0, inputs=inputs, outputs=outputs))[0]
        tokens = float(replicas.chunk_tokens[0]) / limits / (inputs.mean + outputs.mean)
        yield (
            share, tokens, found.steady.slots[0], found.waits[0], *first, seen.ttft.p50, seen.ttft.p95, seen.ttft.p99,
            found.tpot_s[0, 0] / seen.tpot.p50 - 1.0, found.latency_s[0, 0] / seen.latency.p50 - 1.0, found.latency_s[0, 1] / seen.latency.p95 - 1.0, capacity, noise,
        )  # fmt: skip


def main() -> None:
    """Print each case's error and the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=200)
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()
    found = []
    for number, case in enumerate(cases(options.loads, requests=options.requests, seed=options.seed)):
        found.append(case)
        if options.each:
            print(number, " ".join(f"{name}={value:.3g}" for name, value in zip(COLUMNS, case, strict=True)), flush=True)
    table = np.array(found)
    for place, name in ((4, "TTFT p50"), (5, "TTFT p95"), (6, "TTFT p99"), (10, "TPOT p50"), (11, "latency p50"), (12, "latency p95")):
        error = np.abs(table[:, place])
        print(
            f"{name}: within 10 % in {np.mean(error <= 0.10):.1%}, median {np.median(error):.1%}, P90 {np.quantile(error, 0.9):.1%}, worst {error.max():.1%}, bias {np.median(table[:, place]):+.1%}"
        )
    inside = (np.abs(table[:, 4:7]) <= 0.10).all(axis=1)
    waits = table[:, 3] > 0.01
    print(
        f"slots rarely taken ({(~waits).sum()} loads): {inside[~waits].mean():.1%}; over 1 % wait for a slot ({waits.sum()} loads): {inside[waits].mean() if waits.any() else 1.0:.1%}"
    )
    print(f"the simulation with another seed within 10 % of itself: {np.mean(table[:, 14] <= 0.10):.1%}")
    print(f"all three TTFT percentiles within 10 %: {inside.mean():.1%} of {len(found)} loads, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
