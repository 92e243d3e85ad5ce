"""Each job of a fleet is exported with what an export of its own plan writes: command, set-up,
data; queues hold processors and memory beside cards."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from answers import stored

from rightfit.exports import ExportSettings, Files, files_of
from rightfit.exports.fleet_files import slug
from rightfit.exports.fleet_jobs import FleetJob, bases_of, fleet_jobs
from rightfit.exports.fleets import files_of_fleet
from rightfit.exports.stack import stack_of
from rightfit.fleets.planning import with_plans

RECORDED = Path(__file__).parents[1] / "exporters" / "data" / "fleet.json"


@functools.cache
def fleet() -> dict[str, Any]:
    """The recorded fleet with the plans of its jobs."""
    values: dict[str, Any] = stored("fleet with plans", lambda: with_plans(json.loads(RECORDED.read_text("utf-8"))))
    return values


@functools.cache
def jobs() -> tuple[FleetJob, ...]:
    return fleet_jobs(fleet())


@functools.cache
def files(target: str) -> Files:
    return files_of_fleet(fleet(), target)


def test_every_job_has_the_plan_of_its_servers() -> None:
    placed = [row for row in fleet()["placements"] if row["kind"] == "job"]
    assert len(jobs()) == sum(row["count"] for row in placed) == len({one.name for one in jobs()})
    for one in jobs():
        assert one.job is not None, one.name
        option = one.job.option
        assert (option.instance_type, option.nodes) == (one.row["instance_type"], one.row["servers"])
        assert option.region == one.row["region"]


@pytest.mark.parametrize("target", ["skypilot", "slurm", "dstack", "kueue"])
def test_a_job_s_folder_is_what_the_export_of_its_plan_writes(target: str) -> None:
    """But for the servers, which the fleet's plan orders, and the runs, which its queue begins."""
    single = {"kueue": "kubernetes"}.get(target, target)
    bundled = [one for one in jobs() if f"{one.name}/check.sh" in files(target)]
    assert len(bundled) >= {"skypilot": 3, "dstack": 3}.get(target, len(jobs()))
    for one in bundled:
        assert one.job is not None
        whole = files_of(one.job, single)
        folder = {
            path.removeprefix(f"{one.name}/{single}/"): text
            for path, text in files(target).items()
            if path.startswith(f"{one.name}/{single}/")
        }
        for path, text in stack_of(one.job).files.items():
            if target != "kueue":  # there they are objects of the cluster
                assert folder[path] == text == whole[path]
        changed = {"task.yaml", "objects.yaml", "run.dstack.yml", "wait.sh", "fleet.dstack.yml"}
        assert {path for path in whole if path not in changed} <= set(folder)
        assert "COMMAND" not in "".join(folder.values())


def test_skypilot_runs_the_plan_s_command_on_the_fleet_s_servers() -> None:
    for one in jobs():
        if one.row["purchase"] == "owned":
            continue
        task = yaml.safe_load(files("skypilot")[f"{one.name}/skypilot/task.yaml"])
        assert one.job is not None
        single = yaml.safe_load(files_of(one.job, "skypilot")["task.yaml"])
        assert {name: task[name] for name in ("run", "setup", "file_mounts", "envs", "secrets")} == {
            name: single[name] for name in ("run", "setup", "file_mounts", "envs", "secrets")
        }
        given = task["resources"].get("ordered", [task["resources"]])
        assert given[0]["instance_type"] == one.row["instance_type"]
        assert task["resources"]["disk_size"] == one.job.disk_gib
        start = files("skypilot")[f"{one.name}/skypilot/start.sh"]
        assert re.search(rf"sky jobs launch .*--name {one.name} .*--secret HF_TOKEN", start)
        assert "../data" in start


def test_settings_reach_the_jobs() -> None:
    found = files_of_fleet(fleet(), "slurm", ExportSettings(data_path="/data/mine", stop_after_h=3.0))
    told = [json.loads(text) for path, text in found.items() if path.endswith("train.json")]
    assert told
    assert {one["data"] for one in told} == {"/data/mine"}


def test_a_job_without_a_plan_says_why() -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))
    for target in ("skypilot", "slurm"):
        found = files_of_fleet(recorded, target)
        scripts = [text for path, text in found.items() if path.endswith("/run.sh")]
        assert scripts
        assert all("COMMAND" in text and "which is not written here: no plan" in text for text in scripts)


def test_ray_has_a_command_for_every_job_and_its_files_on_every_node() -> None:
    found = files("ray")
    listed = [job for path, text in found.items() if path.endswith("jobs.json") for job in json.loads(text)]
    assert listed
    for job in listed:
        assert "torchrun" in job["command"] or "train.py" in job["command"]
        assert "aws s3 sync" in job["command"]
        assert any(path.endswith(f"jobs/{job['name']}/ray/requirements.txt") for path in found)
        done = subprocess.run(["bash", "-n"], input=job["command"], text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert all("file_mounts" in yaml.safe_load(text) for path, text in found.items() if path.endswith("cluster.yaml"))


def test_queues_hold_what_the_jobs_ask_for() -> None:
    """A job whose request is over the quota of its flavour would wait for ever."""
    rows = [{**row, "memory_bytes_per_server": _memory(row)} for row in fleet()["placements"]]
    found = files_of_fleet({**fleet(), "placements": rows}, "kueue")
    documents = list(yaml.safe_load_all(found["kueue.yaml"]))
    queues = {one["metadata"]["name"]: one["spec"]["resourceGroups"][0] for one in documents if one["kind"] == "ClusterQueue"}
    assert {one["metadata"]["name"] for one in documents if one["kind"] == "Namespace"} == set(queues)
    for one in fleet_jobs({**fleet(), "placements": rows}):
        objects = list(yaml.safe_load_all(found[f"{one.name}/kubernetes/objects.yaml"]))
        [run] = [item for item in objects if item["kind"] == "Job"]
        team = slug(one.row["team"] or "all")
        assert run["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == team
        assert queues[team]["coveredResources"][:2] == ["cpu", "memory"]
        asked = run["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
        most = dict.fromkeys(asked, 0.0)
        for flavour in queues[team]["flavors"]:
            for quota in flavour["resources"]:
                if quota["name"] in most:
                    most[quota["name"]] = max(most[quota["name"]], _number(quota["nominalQuota"]))
        assert {name for name in asked if name in queues[team]["coveredResources"]} == set(asked)
        assert all(most[name] >= _number(value) for name, value in asked.items()), (one.name, most, asked)


def _memory(row: dict[str, Any]) -> float:
    return float(row["plan"]["options"][0]["memory_bytes"]) if "plan" in row else 64e9


def _number(value: Any) -> float:
    return float(str(value).removesuffix("Gi"))


def test_names_of_jobs_are_names_of_resources() -> None:
    named = bases_of([{"name": name} for name in ("8b run!", "8b run?", "ä", "x" * 60, "x" * 59)])
    assert len(set(named.values())) == 5
    for name in named.values():
        ExportSettings(name=name)


@pytest.mark.parametrize("target", ["skypilot", "dstack", "kueue", "slurm"])
def test_scripts_are_scripts(target: str) -> None:
    for path, text in files(target).items():
        if path.endswith(".sh"):
            done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
            assert done.returncode == 0, (path, done.stderr)


def test_one_that_cannot_be_started_keeps_no_other_back(tmp_path: Path) -> None:
    rented = [one for one in jobs() if one.row["purchase"] != "owned"]
    lost = rented[0].name
    for path, text in files("skypilot").items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sky").write_text(
        f'#!/bin/sh\necho "$PWD $*" >> {tmp_path}/calls\ncase "$*" in *"--name {lost} "*) exit 1 ;; esac\n'
    )
    (tmp_path / "bin" / "aws").write_text('#!/bin/sh\ncase "$*" in *account*) echo 1 ;; esac\n')
    for name in ("sleep", "sky", "aws"):
        (tmp_path / "bin" / name).touch()
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "HOME": str(tmp_path), "RIGHTFIT_BUCKET": "s3://mine"}
    done = subprocess.run(["bash", "submit.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, f"not started: {lost}" in done.stderr) == (1, True), done.stderr
    assert len((tmp_path / "calls").read_text().splitlines()) == len(rented)
