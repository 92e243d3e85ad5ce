"""The jobs of a fleet before Slurm itself: its controller reads nodes and partitions, and its
sbatch takes every job of the script. Needs Slurm on the PATH, or its packages unpacked in a folder
that RIGHTFIT_SLURM names."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rightfit.exports.fleets import files_of_fleet

FLEET: dict[str, Any] = json.loads((Path(__file__).parent / "data/fleet.json").read_text("utf-8"))
JOBS = [row for row in FLEET["placements"] if row["kind"] == "job"]
UNPACKED = os.environ.get("RIGHTFIT_SLURM")
LIBRARIES = "usr/lib/x86_64-linux-gnu"
PORT = 16817


def program(name: str) -> str | None:
    """A program of Slurm; Debian's has the ending -wlm."""
    if UNPACKED is None:
        return shutil.which(name)
    paths = (Path(UNPACKED) / folder / f"{name}{end}" for folder in ("usr/sbin", "usr/bin") for end in ("", "-wlm"))
    return next((str(path) for path in paths if path.is_file()), None)


CONTROLLER, SBATCH = program("slurmctld"), program("sbatch")
real = pytest.mark.skipif(CONTROLLER is None or SBATCH is None, reason="no Slurm (apt-get install slurm-wlm, or RIGHTFIT_SLURM)")


def chained() -> dict[str, Any]:
    """The fleet with a job that waits for two others, one of which stands on
    some cards of a host."""
    found = copy.deepcopy(FLEET)
    rows = [row for row in found["placements"] if row["kind"] == "job"]
    rows[0] |= {
        "cards": [[0, 1]] * rows[0]["count"],
        "host_cards": 8,
        "purchase": "owned",
        "owned": "own 8xH100",
        "accelerator": "H100-SXM-80GB",
    }
    last = max(rows, key=lambda row: row["start"])
    last["after"] = [row["name"] for row in rows if row["name"] != last["name"]][:2]
    return found


def lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_every_job_is_submitted_once_in_the_order_of_starts() -> None:
    files = files_of_fleet(FLEET, "slurm")
    submitted = lines(files["submit.sh"], "submit ")
    assert len(submitted) == sum(row["count"] for row in JOBS)
    begins = [line.split("--begin=")[1].split()[0] for line in submitted]
    assert begins == sorted(begins)
    for line in submitted:
        assert f"{line.split()[2]}/slurm/run.sh" in files
        assert f"{line.split()[2]}/workload.yaml" in files
    assert all("--requeue" in line for line in submitted if "-spot " in line)


def test_limits_of_a_team_are_the_most_that_the_plan_gives_it_at_once() -> None:
    text = files_of_fleet(FLEET, "slurm")["qos.sh"]
    for team in {row["team"] for row in JOBS if row["team"]}:
        mine = [row for row in JOBS if row["team"] == team]
        line = next(line for line in text.splitlines() if line.startswith(f"sacctmgr -i add qos {team} "))
        nodes = int(line.split("node=")[1].split(",")[0])
        points = [row["start_h"] for row in mine]
        most = max(sum(row["servers"] * row["count"] for row in mine if row["start_h"] <= at < row["end_h"]) for at in points)
        assert nodes == most


def test_a_job_waits_for_those_that_the_plan_names() -> None:
    found = chained()
    files = files_of_fleet(found, "slurm")
    last = next(row for row in found["placements"] if row.get("after"))
    (line, *_) = [line for line in lines(files["submit.sh"], "submit ") if "--dependency" in line]
    assert line.count("${ids[") == 2
    for name in last["after"]:
        assert f"${{ids[{name}]}}" in line
    assert "Gres=gpu:h100-sxm-80gb:8" in files["fleet.conf"]
    assert "--gpus-per-node=h100-sxm-80gb:2" in files["submit.sh"]


@pytest.mark.parametrize("make", [lambda: FLEET, chained])
def test_scripts_are_scripts_and_call_what_they_say(make: Any, tmp_path: Path) -> None:
    """The real shell runs both with stand-ins that write down how they were called."""
    files = files_of_fleet(make(), "slurm")
    write(tmp_path, files)
    stand_ins = tmp_path / "bin"
    stand_ins.mkdir()
    for name in ("sbatch", "sacctmgr"):
        (stand_ins / name).write_text(f'#!/bin/bash\necho "$@" >> {tmp_path}/{name}.calls\nwc -l < {tmp_path}/{name}.calls\n')
        (stand_ins / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{stand_ins}:{os.environ['PATH']}"}
    for script in ("qos.sh", "submit.sh"):
        done = subprocess.run(["bash", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    calls = (tmp_path / "sbatch.calls").read_text().splitlines()
    assert len(calls) == len(lines(files["submit.sh"], "submit "))
    assert all("--dependency=afterok:" in call for call in calls if "--dependency" in call)
    if make is chained:
        dependency = next(call for call in calls if "--dependency" in call).split("--dependency=afterok:")[1].split()[0]
        assert all(part.isdigit() for part in dependency.split(":"))
        assert len(dependency.split(":")) >= 2


def write(folder: Path, files: Any) -> None:
    for path, text in dict(files).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A controller with the nodes and partitions of a fleet; what it needs to be asked."""
    write(tmp_path, files_of_fleet(chained(), "slurm"))
    conf = (tmp_path / "fleet.conf").read_text()
    teams = {team for line in lines(conf, "PartitionName") for team in line.split("AllowQos=")[1].split()[0].split(",")}
    assert teams
    # without a database there is no QOS; owned nodes of State=FUTURE are not yet there
    (tmp_path / "fleet.conf").write_text(
        "\n".join(
            line.partition(" AllowQos=")[0] + " State=UP" if line.startswith("Part") else line.replace("FUTURE", "CLOUD")
            for line in conf.splitlines()
        )
        + "\n"
    )
    (tmp_path / "state").mkdir()
    plugins = f"PluginDir={UNPACKED}/{LIBRARIES}/slurm-wlm\n" if UNPACKED else ""
    (tmp_path / "slurm.conf").write_text(
        f"ClusterName=fleet\nSlurmctldHost=localhost\nSlurmUser=root\nAuthType=auth/none\nCredType=cred/none\n{plugins}SlurmctldPort={PORT}\n"
        f"StateSaveLocation={tmp_path}/state\nSlurmctldPidFile={tmp_path}/pid\nProctrackType=proctrack/pgid\nMpiDefault=none\nSelectType=select/cons_tres\n"
        "SelectTypeParameters=CR_CPU\nSuspendProgram=/bin/true\nResumeProgram=/bin/true\nSuspendTime=60\nPrivateData=cloud\nInclude fleet.conf\n"
    )
    environment = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf"), "TZ": "UTC", "HERE": str(tmp_path)}
    if UNPACKED:
        environment["LD_LIBRARY_PATH"] = f"{UNPACKED}/{LIBRARIES}:{UNPACKED}/{LIBRARIES}/slurm-wlm"
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen([str(CONTROLLER), "-D", "-c"], env=environment, stdout=log, stderr=log, cwd=tmp_path) as running,
    ):
        try:
            for _ in range(100):
                if running.poll() is not None:
                    pytest.fail((tmp_path / "log").read_text()[-2000:])
                if subprocess.run([str(program("sinfo"))], env=environment, capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.2)
            else:
                pytest.fail((tmp_path / "log").read_text()[-2000:])
            yield environment
        finally:
            running.terminate()


@real
def test_the_controller_reads_nodes_and_partitions_and_sbatch_takes_every_job(cluster: dict[str, str]) -> None:
    folder, found = Path(cluster["HERE"]), chained()
    told = subprocess.run([str(program("sinfo")), "-h", "-o", "%R %D %G"], env=cluster, capture_output=True, text=True, check=True).stdout
    wanted = {line.split("=")[1].split()[0] for line in lines(files_of_fleet(found, "slurm")["fleet.conf"], "PartitionName")}
    assert {line.split()[0] for line in told.splitlines()} == wanted
    wrapper = folder / "bin" / "sbatch"
    wrapper.parent.mkdir()
    # times are moved to the future of this machine; there are no accounts without a database, and
    # no cards that a node has not reported
    wrapper.write_text(
        f'#!/bin/bash\nwords=()\nfor word in "$@"; do case $word in --account=*|--qos=*|--deadline=*|--gpus-per-node=*) ;; --begin=*) words+=(--begin=now+1hour) ;; *) words+=("$word") ;; esac; done\nexec {SBATCH} "${{words[@]}}"\n'
    )
    wrapper.chmod(0o755)
    done = subprocess.run(
        ["bash", "submit.sh"],
        cwd=folder,
        env={**cluster, "PATH": f"{wrapper.parent}:{cluster['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    queue = subprocess.run(
        [str(program("squeue")), "-h", "-o", "%j|%P|%D|%E|%r"], env=cluster, capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split("|") for line in queue.splitlines()]
    jobs = [row for row in found["placements"] if row["kind"] == "job"]
    assert len(rows) == sum(row["count"] for row in jobs)
    assert sorted(int(row[2]) for row in rows) == sorted(row["servers"] for row in jobs for _ in range(row["count"]))
    assert any("afterok" in row[3] for row in rows)
