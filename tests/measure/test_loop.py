"""Staged plans close the loop: the plan names the trial, the trial is measured, and its record says
rent, change or stop."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rightfit.cli.run import run as run_cli

WISH = [
    "gpt2",  # so small that a card can do its steps as fast as the loop below sleeps
    "--method",
    "lora",
    "--seq-len",
    "128",
    "--data",
    "2000Mtok",
    "--cloud",
    "aws",
    "--purchase",
    "on-demand",
]


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run_cli([*words, "--format", "json", "-q"]) == 0
    return json.loads(capsys.readouterr().out)


def trial(project: Path, card: str, *loop: object) -> None:
    """The trial of a loop that stands for the job, on a card that the user names, since
    there is none here."""
    command = ["--", sys.executable, "train.py", *map(str, loop)]
    assert run_cli(["probe", "--plan", "plan.json", "--set", f"gpu={card}", "--set", "n_gpus=1", "--out", "run.json", "-q", *command]) == 0


def test_from_the_question_to_the_second_server(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = answer(capsys, "plan", *WISH, "--staged")
    (project / "plan.json").write_text(json.dumps(plan))
    staged = plan["sections"]["staged"]
    assert staged["trial"]["commands"][-1] == "rightfit resize run.json --data 2000Mtok"
    card = plan["options"][0]["accelerator"]["name"]

    trial(project, card, 60, 0.004, 0.004, 1)  # half of each step waits for data
    capsys.readouterr()
    first = answer(capsys, "resize", "run.json", *WISH[5:])
    assert (first["verdict"], first["bottleneck"]) == ("change", "input")
    assert first["options"]

    trial(project, card, 60, 0.0, 0.010, 1)  # the loader is mended
    capsys.readouterr()
    second = answer(capsys, "resize", "run.json", *WISH[5:])
    assert second["bottleneck"] != "input"
    assert second["verdict"] in ("keep", "test", "stop")
    measured = [option["estimate"]["step_s"]["source"] for option in second["options"]]
    assert set(measured) <= {"calibrated", "measured"}

    sharper = answer(capsys, "plan", *WISH, "--runs", "run.json")
    width = [found["options"][0]["cost"]["total"] for found in (plan, sharper)]
    assert width[1]["source"] in ("calibrated", "measured")
    assert sharper["sections"]["own_runs"]["runs"]
