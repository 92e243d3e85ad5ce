"""The batch script of Slurm: what it asks for is the job's, not that of a cloud's server, and a run
that its time ends waits in the queue again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from typical_plans import plan_values

from rightfit.exports import find_target, job_of, plan_document
from rightfit.exports.recipes import recipe_of
from rightfit.exports.targets.clusters import cpus, memory_gib
from rightfit.exports.training_words import workers

PLANS = ("qlora-8b", "lora-8b-aws", "full-70b", "resnet-gcp", "batch-8b-tencent", "chat-8b", "xgboost-train-aws")


def script(name: str) -> str:
    return find_target("slurm").files(job_of(plan_document(plan_values(name))))["job.sbatch"]


@pytest.mark.parametrize("name", PLANS)
def test_the_script_asks_for_what_the_job_needs(name: str) -> None:
    job, text = job_of(plan_document(plan_values(name))), script(name)
    told = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", text, re.MULTILINE))
    if job.gpus_per_node:
        assert int(told["cpus-per-task"]) == job.gpus_per_node * (workers(job) + 2)
        assert "SBATCH_GPUS_PER_NODE=KIND" in text
    needed = job.option.estimate["host_memory_bytes"].high80
    assert needed < int(told["mem"].removesuffix("G")) * 2**30 < max(1.5 * needed, 16e9)
    assert 'srun ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"}' in text
    hours = sum(int(part) * unit for part, unit in zip(re.split(r"[-:]", told["time"])[::-1], (1 / 3600, 1 / 60, 1, 24), strict=False))
    assert hours >= job.stop_after_h + (0 if job.is_service else 1 / 3)
    assert cpus(job)
    assert memory_gib(job)


PROGRAM = """#!/bin/sh
[ ! -e %(box)s/kept ] || exit 0
trap 'touch %(box)s/kept; exit 143' TERM
touch %(box)s/begun
while :; do sleep 0.05; done
"""


def test_a_run_that_its_time_ends_is_queued_again_with_its_checkpoint(tmp_path: Path) -> None:
    name, tools = "xgboost-train-aws", tmp_path / "tools"
    tools.mkdir()
    for path, text in (
        ("srun", PROGRAM % {"box": tmp_path}),
        ("scontrol", f'#!/bin/sh\n[ "$1" = requeue ] && echo "$2" > {tmp_path}/queued\necho n\n'),
    ):
        (tools / path).write_text(text)
        (tools / path).chmod(0o755)
    (tmp_path / "from").mkdir()
    (tmp_path / "job.sbatch").write_text(script(name))
    words = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n", "VIRTUAL_ENV": "v", "RIGHTFIT_CHECKPOINTS": str(tmp_path / "shared")}
    further = {**os.environ, **words, "SLURM_SUBMIT_DIR": str(tmp_path / "from"), "PATH": f"{tools}:{os.environ['PATH']}"}
    begun = subprocess.Popen(["bash", "job.sbatch"], cwd=tmp_path, env=further)
    while not (tmp_path / "begun").exists():
        assert begun.poll() is None
        time.sleep(0.05)
    begun.send_signal(signal.SIGUSR1)
    assert begun.wait(timeout=30) == 143
    assert (tmp_path / "kept").exists()
    assert (tmp_path / "queued").read_text() == "7\n"
    assert subprocess.run(["bash", "job.sbatch"], cwd=tmp_path, env=further, check=False, timeout=60).returncode == 0
    (tmp_path / "kept").unlink()
    (tmp_path / "queued").unlink()
    (tmp_path / "begun").unlink()
    last = subprocess.Popen(["bash", "job.sbatch"], cwd=tmp_path, env={**further, "SLURM_RESTART_COUNT": "3"})
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)
    last.send_signal(signal.SIGUSR1)
    assert last.wait(timeout=30) == 143
    assert not (tmp_path / "queued").exists(), "not for ever"


def test_the_result_is_taken_of_a_job_that_succeeded() -> None:
    recipe = recipe_of(job_of(plan_document(plan_values("lora-8b-aws"))), "slurm")
    assert recipe.start[-1].endswith("&& touch succeeded")
    assert recipe.result[0] == "if [ -e succeeded ]; then"
