"""Clients that ask for plans, each a workload of workloads.json drawn at random. Run by benchmarks/bench_serve.py.

RIGHTFIT_LOAD_PER_S: questions a second of one client, else one after the other without a pause. RIGHTFIT_LOAD_NEW: share of questions never
asked before.
"""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

from locust import FastHttpUser, constant, constant_throughput, task

WORKLOADS = json.loads((Path(__file__).parent / "workloads.json").read_text(encoding="utf-8"))

PER_S, NEW = (float(os.environ.get(f"RIGHTFIT_LOAD_{name}", "0")) for name in ("PER_S", "NEW"))


def question() -> dict[str, object]:
    """A workload; with luck one that nobody has asked for: another amount of data, or other hours a month."""
    chosen = dict(random.choice(WORKLOADS))
    if random.random() < NEW:
        amount = re.match(r"[0-9.]+", str(chosen.get("data", "")))
        if amount and random.random() < 0.5:
            chosen["data"] = f"{float(amount[0]) * random.uniform(0.5, 2):.6g}{chosen['data'][amount.end() :]}"
        else:
            chosen["office_hours"] = round(random.uniform(1, 700), 3)
    return chosen


class Planner(FastHttpUser):
    """One client."""

    wait_time = constant_throughput(PER_S) if PER_S else constant(0)

    @task
    def plan(self) -> None:
        """One plan."""
        with self.client.post("/api/v1/plan", json=question(), name="plan", catch_response=True) as answer:
            if answer.status_code != 200 or not answer.text.startswith('{"schema_version"'):
                answer.failure(f"status {answer.status_code}")
