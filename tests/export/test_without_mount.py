"""Ways that run in no container have no folder /checkpoints: what their programs are given and read
lies in the folder that the user names, or beside the export."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from typical_plans import FURTHER, OTHER_KINDS, STARTED, WISHES, plan_values

from rightfit.exports import Job, all_targets, job_of, plan_document
from rightfit.exports.stack import stack_of

MOUNTED = re.compile(r"(?<![\w./-])/checkpoints(?![\w.-])")
WAYS = ("slurm", "checkpoint-sync", "spot-recovery", *(name for name, target in all_targets().items() if target.group == "training"))
PROGRAMS = (
    "torchrun",
    "accelerate",
    "deepspeed",
    "axolotl",
    "llamafactory-cli",
    "swift",
    "python",
    "python3",
    "env",
    "wget",
    "tar",
    "awk",
    "rm",
    "hf",
)
SHOWN = """#!/bin/sh
[ "${0##*/}" != rm ] || exit 0
printf '%s\\n' "$0" "$@" >> "$SEEN"
grep -rn --include=*.json --include=*.y*ml --include=*.toml --include=*.sh "" . >> "$SEEN"
"""


def started(folder: Path, script: Path, **environment: str) -> str:
    """What the programs of a script are given, and the files that they find."""
    tools, seen = folder / "bin", folder / "seen"
    tools.mkdir()
    for program in PROGRAMS:
        (tools / program).write_text(SHOWN)
    (tools / "scontrol").write_text("#!/bin/sh\necho node1\n")
    (tools / "srun").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    words = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "SEEN": str(seen),
        "HEAD_ADDRESS": "h",
        "SLURM_JOB_NODELIST": "n",
        "SLURM_NODEID": "0",
    }
    words |= {"SLURM_NNODES": "1", "VIRTUAL_ENV": "/an/environment", "SLURM_SUBMIT_DIR": str(script.parent), **environment}
    done = subprocess.run(["bash", str(script)], capture_output=True, text=True, env=words, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return seen.read_text()


def mounts_of(job: Job, folder: Path) -> list[str]:
    """Lines of a way without a mount that name the folder of a container all the same."""
    found = []
    for target in map(all_targets().__getitem__, WAYS):
        if target.problem(job):
            continue
        place = folder / target.name / "bundle" / target.name
        (place.parent / "data").mkdir(parents=True)
        (place.parent / "data" / "rows.jsonl").write_text('{"text": "a"}\n')
        for path, text in target.files(job).items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(text)
        for script in sorted({*place.glob("*.sh"), *place.glob("*.sbatch")}):
            lines = [line for line in script.read_text().splitlines() if "s|" not in line]  # the line that renames it elsewhere
            if target.group == "training" or target.name == "slurm":
                (folder / target.name / script.stem).mkdir()
                shared = {"RIGHTFIT_CHECKPOINTS": str(folder / target.name / "shared")} if target.name == "slurm" else {}
                seen = started(folder / target.name / script.stem, script, **shared).splitlines()
                where = shared.get("RIGHTFIT_CHECKPOINTS", str(place.parent))
                assert any(where in line for line in seen), f"{target.name}/{script.name}: nothing is read from, or kept in, {where}"
                lines += [line for line in seen if "s|" not in line]
            found += [f"{target.name}/{script.name}: {line}" for line in lines if MOUNTED.search(line)]
    return found


@pytest.mark.parametrize("name", [*WISHES, *FURTHER, *OTHER_KINDS, *STARTED])
def test_what_runs_in_no_container_reads_and_keeps_nothing_in_one_s_folder(name: str, tmp_path: Path) -> None:
    job = job_of(plan_document(plan_values(name)))
    if not job.is_service:
        assert mounts_of(job, tmp_path) == []


def test_the_walk_finds_a_folder_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(plan_document(plan_values("vision")))
    monkeypatch.setattr("rightfit.exports.targets.clusters.WITHOUT_MOUNT", {})
    assert any("--data-dir /checkpoints/data" in line for line in mounts_of(job, tmp_path))
    assert "/checkpoints" in " ".join(stack_of(job).command)
