"""Check the analytic queue model against the simulation on random loads: `python
benchmarks/bench_queueing.py [--loads 200] [--requests 40000] [--long]`; long: prompts of 8,000 to
128,000 tokens, which take longer than their answers.

The reference is the mean of two runs of the simulation with different seeds; how far they are from
one another is printed too, since no model can be nearer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rightfit.estimation.serving_steps import load_columns
from rightfit.estimation.simulate import simulate
from rightfit.physics import queueing, waiting
from rightfit.physics.queueing import ReplicaColumns
from rightfit.workload.traces import Lengths, draw_requests

Array = NDArray[np.float64]

FIGURES = tuple(f"{name} p{share}" for name in ("TTFT", "TPOT", "latency") for share in (50, 95, 99))
COLUMNS = ("load", "tokens", "slots", "waits", *FIGURES, *(f"{name} of the runs" for name in FIGURES))


def random_replica(dice: np.random.Generator, *, long: bool = False) -> tuple[ReplicaColumns, Lengths, Lengths]:
    """An engine and its requests: steps of 5 to 30 ms, prompts of 64 to 4,000 tokens (`long`: 8,000
    to 128,000), outputs of 16 to 800, limits on slots, tokens and cache."""
    chunk = float(dice.choice([512, 2048, 8192, 16384]))
    least, most = (8000, 128_000) if long else (64, 4000)
    inputs = Lengths(float(np.exp(dice.uniform(np.log(least), np.log(most)))), float(dice.choice([0.0, 0.5, 1.0, 1.5])), 4, 8 * most)
    outputs = Lengths(float(np.exp(dice.uniform(np.log(16), np.log(800)))), float(dice.choice([0.0, 0.5, 1.0])), 1, 8_000)
    replicas = ReplicaColumns.linear(
        overhead_s=np.exp(dice.uniform(np.log(0.005), np.log(0.03))),
        batch_s=np.exp(dice.uniform(np.log(1e-5), np.log(2e-4))),
        cache_token_s=np.exp(dice.uniform(np.log(1e-8), np.log(1e-7))),
        prompt_token_s=np.exp(dice.uniform(np.log(1e-5), np.log(1.5e-4))),
        prompt_pair_s=float(dice.choice([0.0, 1e-9])),
        max_batch=float(dice.choice([32, 64, 128, 256])),
        chunk_tokens=chunk,
        cache_tokens=float(dice.choice([0, 150_000, 500_000, 2_000_000])) if not long else float(dice.choice([0, 2_000_000, 8_000_000])),
        cache_reserve=1.0,
    )
    return replicas, inputs, outputs


def percentiles(replicas: ReplicaColumns, inputs: Lengths, outputs: Lengths, *, rate: float, requests: int, seed: int) -> Array:
    """The nine figures of one run of the simulation [s]."""
    seen = simulate(replicas, draw_requests(requests, rate_per_s=rate, inputs=inputs, outputs=outputs, seed=seed))
    return np.array([getattr(part, f"p{share}") for part in (seen.ttft, seen.tpot, seen.latency) for share in (50, 95, 99)])


def cases(loads: int, *, requests: int, seed: int, long: bool = False) -> Iterator[tuple[float, ...]]:
    """Relative errors of the model, and of the two runs of the simulation to one another, of
    `loads` random cases between 5 and 90 % of capacity."""
    dice = np.random.default_rng(seed)
    for number in range(loads):
        replicas, inputs, outputs = random_replica(dice, long=long)
        share = float(dice.uniform(0.05, 0.90))
        capacity = queueing.capacity_per_s(replicas, load_columns(1.0, inputs=inputs, outputs=outputs))[0]
        rate = share * capacity
        found = waiting.latency(replicas, load_columns(rate, inputs=inputs, outputs=outputs))
        runs = [percentiles(replicas, inputs, outputs, rate=rate, requests=requests, seed=start + number) for start in (1000, 5000)]
        model = np.concatenate([found.ttft_s[0], found.tpot_s[0], found.latency_s[0]])
        entering = queueing.most_entering(replicas, load_columns(1.0, inputs=inputs, outputs=outputs))[0]
        tokens = float(replicas.chunk_tokens[0]) / entering / (inputs.mean + outputs.mean)
        with np.errstate(invalid="ignore", divide="ignore"):
            errors = model / (0.5 * (runs[0] + runs[1])) - 1.0
        yield (share, tokens, found.steady.slots[0], found.waits[0], *errors, *(runs[1] / runs[0] - 1.0))


def within(errors: Array) -> Array:
    """Which are within 10 %."""
    return np.abs(errors) <= 0.10


def main() -> None:
    """Print each case's error and the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=200)
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    started = time.perf_counter()
    found = []
    for number, case in enumerate(cases(options.loads, requests=options.requests, seed=options.seed, long=options.long)):
        found.append(case)
        if options.each:
            print(number, " ".join(f"{name}={value:.3g}" for name, value in zip(COLUMNS, case, strict=True)), flush=True)
    table = np.array(found)
    errors, runs = table[:, 4:13], table[:, 13:]
    for place, name in enumerate(FIGURES):
        error = np.abs(errors[:, place])
        print(
            f"{name}: within 10 % in {within(error).mean():.1%}, median {np.median(error):.1%}, P90 {np.quantile(error, 0.9):.1%}, "
            f"worst {error.max():.1%}, bias {np.median(errors[:, place]):+.1%}; one run of the other {within(runs[:, place]).mean():.1%}"
        )
    inside = within(errors[:, :3]).all(axis=1)
    waits, full = table[:, 3] > 0.01, (table[:, 1] < 1.5) & (table[:, 3] <= 0.01)
    for name, rows in (("over 1 % wait for a slot", waits), ("tokens of a step bind", full), ("the rest", ~waits & ~full)):
        print(f"{name} ({rows.sum()} loads): all three of TTFT {inside[rows].mean() if rows.any() else 1.0:.1%}")
    print(f"the simulation with another seed within 10 % of itself: {within(runs[:, :3]).all(axis=1).mean():.1%}")
    print(f"all three TTFT percentiles within 10 %: {inside.mean():.1%} of {len(found)} loads, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
