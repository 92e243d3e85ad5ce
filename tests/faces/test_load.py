"""A short load with locust: two processes carry sixty plans a second, and memory does not grow."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("locust") is None:
    pytest.skip("locust is not installed", allow_module_level=True)

ROOT = Path(__file__).parent.parent.parent


def test_sixty_plans_a_second() -> None:
    command = [sys.executable, str(ROOT / "benchmarks/bench_serve.py"), "--seconds", "10"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    warm, memory = found["warm_ms"], found["memory_mb"]
    assert found["exit_code"] == 0
    assert warm["failures"] == 0
    assert warm["plans_per_s"] >= 60
    assert warm["p99"] < 250
    assert max(memory) < 1.1 * memory[0]
