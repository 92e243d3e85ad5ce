"""Clients that ask for plans, each a workload of workloads.json drawn at random. Run by
benchmarks/bench_serve.py.

RIGHTFIT_LOAD_PER_S: questions a second of one client, which come at random as those of people do
(clients that keep time would all ask at the same moment, again and again), else one after the other
without a pause. RIGHTFIT_LOAD_NEW: share of questions never asked before.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from pathlib import Path

from locust import FastHttpUser, task

WORKLOADS = json.loads((Path(__file__).parent / "workloads.json").read_text(encoding="utf-8"))

PER_S, NEW = (float(os.environ.get(f"RIGHTFIT_LOAD_{name}", "0")) for name in ("PER_S", "NEW"))


def question() -> dict[str, object]:
    """A workload; with luck one that nobody has asked for: another amount of data or another rate,
    or other hours a month."""
    chosen = dict(random.choice(WORKLOADS))
    if random.random() < NEW:
        name = "rate" if "rate" in chosen else "data"
        amount = re.match(r"[0-9.]+", str(chosen.get(name, "")))
        if amount and random.random() < 0.5:
            chosen[name] = f"{float(amount[0]) * random.uniform(0.5, 2):.6g}{chosen[name][amount.end() :]}"
        else:
            chosen["office_hours"] = round(random.uniform(1, 700), 3)
    return chosen


class Planner(FastHttpUser):
    """One client."""

    def on_start(self) -> None:
        """The first question is due at random too."""
        self.due_s = time.monotonic()
        time.sleep(self.wait_time())

    def wait_time(self) -> float:
        """Seconds to the next question, which is due at an exponential time after the one before
        was due; at once where an answer took longer."""
        if not PER_S:
            return 0.0
        self.due_s += random.expovariate(PER_S)
        return max(self.due_s - time.monotonic(), 0.0)

    @task
    def plan(self) -> None:
        """One plan."""
        with self.client.post("/api/v1/plan", json=question(), name="plan", catch_response=True) as answer:
            if answer.status_code != 200 or not answer.text.startswith('{"schema_version"'):
                answer.failure(f"status {answer.status_code}")
