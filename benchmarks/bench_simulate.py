"""How fast the simulation of continuous batching is: `python benchmarks/bench_simulate.py`. Goal:
50 times real time at 1,000 requests/s."""

from __future__ import annotations

import json
import time

from rightfit.estimation.simulate import simulate
from rightfit.physics.queueing import ReplicaColumns
from rightfit.workload.traces import Lengths, draw_requests

RATE_PER_S = 1000.0
SECONDS = 100
GOAL = 50.0


def main() -> None:
    """Simulate 100 s of 1,000 requests/s on 100 replicas; prints a JSON line."""
    replicas = ReplicaColumns.linear(
        overhead_s=0.008, batch_s=2e-5, cache_token_s=4e-8, prompt_token_s=6e-5, max_batch=256, chunk_tokens=2048, cache_tokens=400_000
    )
    requests = draw_requests(
        int(RATE_PER_S * SECONDS), rate_per_s=RATE_PER_S, inputs=Lengths(512, 1.0, 4, 8000), outputs=Lengths(200, 1.0, 1, 4000)
    )
    started = time.perf_counter()
    found = simulate(replicas, requests, num_replicas=100)
    wall = time.perf_counter() - started
    faster = float(requests.arrival_s[-1]) / wall
    told = {"wall_s": round(wall, 2), "times_real_time": round(faster, 1), "goal": GOAL, "ttft_p99_s": round(found.ttft.p99, 4)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
