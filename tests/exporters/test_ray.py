"""Ray itself: it runs the exported program on two nodes of a cluster, and reads the
settings of the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jobs import files, hostile, taken

ray = pytest.importorskip("ray", reason='ray is not installed (pip install "ray[serve]")')
SERVICES = [name for name in taken("ray") if "serveConfigV2" in files("ray", name)["ray.yaml"]]
RUNS = [name for name in taken("ray") if name not in SERVICES]


def run_files(name: str) -> dict[str, str]:
    """The files that a run's pods find in /job."""
    first = next(yaml.safe_load_all(files("ray", name)["ray.yaml"]))
    return dict(first["data"])


@pytest.mark.parametrize("name", RUNS)
def test_the_program_gets_the_plan_s_command(name: str) -> None:
    found = run_files(name)
    settings = json.loads(found["nodes.json"])
    run = next(each for each in yaml.safe_load_all(files("ray", name)["ray.yaml"]) if each["kind"] == "RayJob")
    workers = sum(group["replicas"] for group in run["spec"]["rayClusterSpec"].get("workerGroupSpecs", []))
    assert settings["nodes"] == 1 + workers
    assert set(found) > {"nodes.json", "run_on_nodes.py"}


@pytest.mark.parametrize("name", SERVICES)
def test_the_settings_of_the_service_are_read(name: str) -> None:
    from ray.serve.schema import ServeDeploySchema

    for maker in (files, hostile):
        settings = yaml.safe_load(next(yaml.safe_load_all(maker("ray", name)["ray.yaml"]))["spec"]["serveConfigV2"])
        read = ServeDeploySchema.model_validate(settings) if hasattr(ServeDeploySchema, "model_validate") else ServeDeploySchema(**settings)
        assert read.applications[0].import_path == "ray.serve.llm:build_openai_app"


@pytest.fixture(scope="module")
def cluster() -> object:
    """Two nodes on this machine, each with a processor to give."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80_000_000})
    found.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield found
    found.shutdown()


def start(cluster: object, folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    name = next(name for name in RUNS)
    program = run_files(name)["run_on_nodes.py"]
    (folder / "run_on_nodes.py").write_text(program, encoding="utf-8")
    settings = json.loads(run_files(name)["nodes.json"]) | {
        "nodes": 2,
        "gpus_per_node": 0,
        "setup": [f"echo ready >> {folder}/setup"],
        "command": command,
    }
    (folder / "nodes.json").write_text(json.dumps(settings), encoding="utf-8")
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": ""}  # type: ignore[attr-defined]
    words = [sys.executable, "run_on_nodes.py", "nodes.json"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, env=environment, check=False, timeout=120)


def test_each_node_runs_the_command_with_its_rank(cluster: object, tmp_path: Path) -> None:
    told = 'import sys; open(sys.argv[1] + "/rank" + sys.argv[2], "w").write(" ".join(sys.argv[2:]))'
    found = start(cluster, tmp_path, [sys.executable, "-c", told, str(tmp_path), "{node_rank}", "{num_nodes}", "{head_address}"])
    assert found.returncode == 0, found.stderr[-2000:]
    first, second = ((tmp_path / f"rank{rank}").read_text().split() for rank in range(2))
    assert (first[:2], second[:2]) == (["0", "2"], ["1", "2"])
    assert first[2] == second[2] != "{head_address}"
    assert (tmp_path / "setup").read_text() == "ready\nready\n"


def test_a_failing_node_ends_the_job_with_its_code(cluster: object, tmp_path: Path) -> None:
    assert start(cluster, tmp_path, ["sh", "-c", "[ {node_rank} = 0 ] && exit 7; sleep 60"]).returncode == 7
