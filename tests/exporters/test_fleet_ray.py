"""The files of a fleet for Ray: its own validator takes the clusters, and the script runs the jobs
as gangs on nodes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from rightfit.exports.fleets import checked, files_of_fleet

ray = pytest.importorskip("ray", reason="ray is not installed (pip install ray)")

FLEET: dict[str, Any] = json.loads((Path(__file__).parent / "data/fleet.json").read_text("utf-8"))
JOBS = [row for row in FLEET["placements"] if row["kind"] == "job" and row["purchase"] != "owned"]


def wide(servers: int) -> dict[str, Any]:
    """The fleet with one of its jobs on so many servers."""
    job = {**JOBS[0], "servers": servers, "name": "gang \u00e4; rm -rf /"}
    return {**FLEET, "placements": [job, *FLEET["placements"]]}


@pytest.mark.parametrize("fleet", [FLEET, wide(3)], ids=["plan", "gang"])
def test_ray_takes_every_cluster(fleet: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    files = files_of_fleet(checked(fleet), "ray")
    clusters = {path.split("/")[0]: yaml.safe_load(text) for path, text in files.items() if path.endswith("cluster.yaml")}
    assert set(clusters) == {f"aws-{row['region']}" for row in JOBS}
    for name, cluster in clusters.items():
        validate_config(prepare_config(cluster))  # as ray up does: defaults first
        assert cluster["provider"]["region"] == name.removeprefix("aws-")
        kinds = {name: kind for name, kind in cluster["available_node_types"].items() if name != "head"}
        assert cluster["max_workers"] == sum(kind["max_workers"] for kind in kinds.values())
        for row in JOBS:
            if row["region"] == cluster["provider"]["region"]:
                kind = next(kind for kind in kinds.values() if kind["node_config"]["InstanceType"] == row["instance_type"])
                assert kind["resources"]["GPU"] == row["accelerators_per_server"]
                assert ("InstanceMarketOptions" in kind["node_config"]) is (row["purchase"] == "spot")
                assert kind["max_workers"] >= row["servers"]


def test_a_wrong_cluster_is_refused() -> None:
    """The validator can say no."""
    from ray.autoscaler._private.util import validate_config

    files = files_of_fleet(checked(FLEET), "ray")
    cluster = yaml.safe_load(next(text for path, text in files.items() if path.endswith("cluster.yaml")))
    with pytest.raises(Exception, match="max_workers"):
        validate_config({**cluster, "max_workers": "many"})


def test_every_rented_job_is_listed_with_what_its_servers_need() -> None:
    files = files_of_fleet(checked(FLEET), "ray")
    listed = [job for path, text in files.items() if path.endswith("jobs.json") for job in json.loads(text)]
    copies = [row for row in JOBS for _ in range(row["count"])]
    told = Counter((job["job"], job["servers"], job["start"]) for job in listed)
    assert told == Counter((row["name"], row["servers"], row["start"]) for row in copies)
    assert len({job["name"] for job in listed}) == len(listed)


@pytest.fixture(scope="module")
def cluster() -> Any:
    """Three nodes on this machine that pass for the servers of the plan."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80_000_000})
    for _ in range(3):
        found.add_node(num_cpus=1, num_gpus=1, resources={"pool": 1}, object_store_memory=80_000_000)
    yield found
    found.shutdown()


def start(cluster: Any, folder: Path, jobs: list[dict[str, Any]], command: str) -> subprocess.CompletedProcess[str]:
    """The exported script over some jobs."""
    files = files_of_fleet(checked(FLEET), "ray")
    (folder / "run_jobs.py").write_text(next(text for path, text in files.items() if path.endswith("run_jobs.py")), "utf-8")
    (folder / "jobs.json").write_text(json.dumps(jobs), "utf-8")
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    called = [sys.executable, str(folder / "run_jobs.py"), "--now", command]
    return subprocess.run(called, env=environment, capture_output=True, text=True, check=False, timeout=240)


def job(name: str, servers: int, **more: str) -> dict[str, Any]:
    return {"name": name, "start": "2026-12-01T00:00", "servers": servers, "bundle": {"GPU": 1, "pool": 1}, **more}


def test_jobs_run_as_gangs_on_servers_of_their_own(cluster: Any, tmp_path: Path) -> None:
    told = f'echo "$JOB $NODE_RANK $NUM_NODES $MASTER_ADDR" > {tmp_path}/$JOB-$NODE_RANK-$RANDOM; sleep 0.2'
    done = start(cluster, tmp_path, [job("wide", 3), *(job("narrow", 1, command=told) for _ in range(4))], told)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5 of 5 jobs done"
    seen = [path.read_text().split() for path in tmp_path.glob("*-*-*")]
    assert sorted(words[:3] for words in seen if words[0] == "wide") == [["wide", str(rank), "3"] for rank in range(3)]
    assert [words[:3] for words in seen if words[0] == "narrow"] == [["narrow", "0", "1"]] * 4
    assert all(len(words) == 4 for words in seen)


def test_a_job_that_fails_is_told(cluster: Any, tmp_path: Path) -> None:
    done = start(cluster, tmp_path, [job("good", 1), job("bad", 2)], '[ "$JOB$NODE_RANK" != bad1 ]')
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "1 of 2 jobs done"
