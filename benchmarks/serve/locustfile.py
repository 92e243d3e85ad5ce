"""Clients that ask for plans, one after the other without a pause, each a workload of workloads.json drawn at random. Run by benchmarks/bench_serve.py."""

from __future__ import annotations

import json
import random
from pathlib import Path

from locust import FastHttpUser, constant, task

WORKLOADS = json.loads((Path(__file__).parent / "workloads.json").read_text(encoding="utf-8"))


class Planner(FastHttpUser):
    """One client."""

    wait_time = constant(0)

    @task
    def plan(self) -> None:
        """One plan."""
        with self.client.post("/api/v1/plan", json=random.choice(WORKLOADS), name="plan", catch_response=True) as answer:
            if answer.status_code != 200 or not answer.text.startswith('{"schema_version"'):
                answer.failure(f"status {answer.status_code}")
