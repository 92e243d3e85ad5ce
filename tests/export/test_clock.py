"""The time of a managed job counts from its first start, however often it is started again: the
exported lines are run by the shell, with a stand-in for `timeout` that says what it was given."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest
import yaml
from typical_plans import plan_values

from rightfit.exports import Job, find_target, job_of, plan_document

SAID = '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\necho "limit $1"\n'


def spot(name: str) -> Job:
    found = job_of(plan_document(plan_values(name)))
    return dataclasses.replace(found, option=found.option.model_copy(update={"purchase": "spot"}))


def started(job: Job, folder: Path, task: str) -> subprocess.CompletedProcess[str]:
    run = yaml.safe_load(find_target("skypilot").files(job)["task.yaml"])["run"]
    assert run.count("(\nbegun=") == 1
    begin = run.index("(\nbegun=")
    text = run[begin : run.index("\n)", begin) + 2].replace("/checkpoints/", f"{folder}/kept/")
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "SKYPILOT_TASK_ID": task}
    return subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("name", ["lora-8b-aws", "qlora-8b", "bert-azure", "whisper-train-aws", "xgboost-train-aws"])
def test_a_start_gets_what_is_left_of_the_run(name: str, tmp_path: Path) -> None:
    job = spot(name)
    whole = round(job.stop_after_h * 3600)
    (tmp_path / "kept").mkdir()
    (tmp_path / "timeout").write_text(SAID)
    (tmp_path / "timeout").chmod(0o755)

    def limit(task: str) -> int:
        done = started(job, tmp_path, task)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.split()[1])

    assert whole - 5 <= limit("sky-managed-1/a b") <= whole
    [clock] = (tmp_path / "kept").iterdir()
    clock.write_text(str(int(clock.read_text()) - whole // 2))
    assert limit("sky-managed-1/a b") <= whole - whole // 2  # a lost server, and it goes on
    assert limit("sky-managed-2") >= whole - 5  # another run has its own time
    clock.write_text(str(int(clock.read_text()) - whole))
    over = started(job, tmp_path, "sky-managed-1/a b")
    assert (over.returncode, over.stdout) == (124, "")
    assert "time of this run is over" in over.stderr


def test_a_run_that_is_not_started_again_has_its_limit_as_it_was() -> None:
    found = job_of(plan_document(plan_values("full-8b-gcp")))
    assert not found.is_spot
    run = yaml.safe_load(find_target("skypilot").files(found)["task.yaml"])["run"]
    assert "begun" not in run
    assert f" {round(found.stop_after_h * 3600)} " in run
