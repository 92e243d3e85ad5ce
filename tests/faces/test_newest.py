"""Nothing but the answer on standard output, with the newest releases that pyproject.toml allows:
what a user's `pip install` brings.

`scripts/test` runs this in an environment of its own, without constraints.txt. Each command is a
process whose whole output, that of C libraries included, must be one JSON document.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[2]
SERVED = ["7B", "--task", "serve", "--rate", "17/s", "--cloud", "aws"]
TUNED = ["meta-llama/Meta-Llama-3-8B", "--method", "qlora", "--data", "5Mtok"]
FLEET = """
name: lab
start: 2026-12-01
horizon: 1w
jobs:
- {name: tuned, count: 3, deadline: 3d, workload: {model: meta-llama/Meta-Llama-3-8B, method: qlora, data: 50Mtok}}
services:
- {name: chat, workload: {model: 7B, task: serve, rate: 5/s}}
limits: {clouds: "aws,gcp", budget: 50000usd}
"""
COMMANDS = [
    ["plan", *TUNED],
    ["plan", *SERVED],
    ["plan", *SERVED, "--fleet", "mixed"],
    ["plan", "resnet50", "--task", "train", "--data", "1kimages"],
    ["plan", "xgboost", "--data", "1000000x30"],
    ["estimate", *TUNED, "--on", "aws/p4d.24xlarge"],
    ["why", "aws/g5.xlarge", *TUNED],
    ["fleet", "fleet.yaml"],
    ["fit", "RTX-4090"],
    ["check", "g5.xlarge=A10G"],
    ["own", "H100"],
    ["models", "llama"],
    ["servers", "p4d"],
    ["prices", "p4d"],
    ["servers", "--gpu", "H100", "--sort", "usd_per_pflop", "--plot", "value.svg"],
    ["accelerators", "H100"],
    ["datasets"],
    ["providers"],
    ["regions"],
    ["runs", "list"],
    ["catalog", "status"],
    ["catalog", "verify"],
]


def environment(folder: Path) -> dict[str, str]:
    """Of a user who runs it for the first time: nothing is cached, neither by us nor by others."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("RIGHTFIT_", "MPL", "LC_"))}
    places = {"HOME": folder, "XDG_CACHE_HOME": folder / "cache", "XDG_DATA_HOME": folder / "data", "MPLCONFIGDIR": folder / "plots"}
    return {**kept, **{name: str(place) for name, place in places.items()}, "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_output_is_one_document(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(FLEET, "utf-8")
    run = [sys.executable, "-m", "rightfit", *command, "--format", "json"]
    done = subprocess.run(run, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict | list)
    assert "Traceback" not in done.stderr
    assert not re.search(r"Running HiGHS|\w+Warning:", done.stderr), done.stderr


def test_an_assistant_reads_the_protocol_alone(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    asked = {"name": "plan", "arguments": {"model": "7B", "task": "serve", "rate": "17/s", "cloud": ["aws"], "fleet": "mixed", "top": 1}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    run = [sys.executable, "-m", "rightfit", "mcp"]
    with subprocess.Popen(run, env=environment(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        server.stdin.flush()
        answered: dict[int, dict[str, object]] = {}
        while 2 not in answered:
            line = server.stdout.readline()
            assert line, "the server has ended"
            found = json.loads(line)
            answered[found.get("id", 0)] = found
        server.stdin.close()
        assert server.stdout.read() == ""
        assert server.wait(30) == 0
    assert "error" not in answered[2], answered[2]


def test_nothing_here_is_older_than_what_the_other_tests_run_with() -> None:
    """Else this would be run in the environment of the others, and would say nothing new."""
    pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), flags=re.MULTILINE))
    older = []
    for name, pinned in pins.items():
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if Version(installed) < Version(pinned):
            older.append(f"{name} {installed} < {pinned}")
    assert not older
