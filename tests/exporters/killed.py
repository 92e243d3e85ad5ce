"""A training script that is killed on its way (SIGKILL, as a lost server) and started again, beside
one that nobody disturbs."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiny import environment, run

COMMAND = [sys.executable, "train.py", "train.json"]


def alone() -> dict[str, str]:
    """One process that is its own launcher, so that to kill it is to kill all of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def lines(text: str) -> list[dict[str, Any]]:
    """The JSON lines that a script prints."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def losses(text: str) -> dict[int, float]:
    """Loss of each step."""
    return {line["step"]: line["loss"] for line in lines(text) if "loss" in line}


def undisturbed(folder: Path, command: Sequence[str] = COMMAND, output: str = "out") -> dict[int, float]:
    """Losses of a whole run; its output is taken away."""
    found = losses(run(command, folder, further=alone()))
    shutil.rmtree(folder / output)
    return found


def kill_at(folder: Path, step: int, command: Sequence[str] = COMMAND, *, how: int = signal.SIGKILL) -> dict[int, float]:
    """Losses of a run that is killed when it has told of a step."""
    started = subprocess.Popen(
        list(command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(folder, **alone())
    )
    assert started.stdout is not None
    told = ""
    for line in started.stdout:
        told += line
        if f'"step": {step},' in line:
            break
    started.send_signal(how)
    rest, errors = started.communicate(timeout=120)
    assert losses(told), errors[-3000:]
    return losses(told + rest)


def half_copy(output: Path, prefix: str, step: int) -> Path:
    """A checkpoint as a copy leaves it that was cut off: with its mark, one
    file short by a byte."""
    whole = max(output.glob(f"{prefix}*"), key=lambda folder: int(folder.name.removeprefix(prefix)))
    cut = output / f"{prefix}{step}"
    shutil.copytree(whole, cut)
    longest = max((file for file in cut.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
    longest.write_bytes(longest.read_bytes()[:-1])
    return cut
