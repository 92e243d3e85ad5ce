"""Work on several servers at once: replicas that span servers (LeaderWorkerSet, SkyPilot, Ray),
sets of jobs, and queues. Ray itself joins two nodes by the exported script."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import crds
import pytest
import yaml
from jobs import files, job, taken

from rightfit.errors import InputError
from rightfit.exports import ExportSettings, find_target
from rightfit.exports.model_words import servers_of_replica
from rightfit.exports.stack import stack_of

PLAN = "chat-two-servers-aws"
FILES = {"leaderworkerset": "group.yaml", "jobset": "jobset.yaml", "kubernetes": "objects.yaml", "kubeflow-trainjob": "trainjob.yaml"}


def objects(target: str, name: str, **settings: str) -> dict[str, dict[str, Any]]:
    found = yaml.safe_load_all(files(target, name, **settings)[FILES.get(target, f"{target}.yaml")])
    return {each["kind"]: each for each in found}


def test_a_replica_of_two_servers_has_its_forms() -> None:
    """The layout's cards, processes and servers are those of the plan in each of them."""
    given, layout = job(PLAN), job(PLAN).option.layout
    servers = servers_of_replica(given)
    assert servers == layout.tensor * layout.pipeline // given.gpus_per_node == 2
    group = objects("leaderworkerset", PLAN)["LeaderWorkerSet"]["spec"]
    assert group["leaderWorkerTemplate"]["size"] * group["replicas"] == given.num_nodes
    pods = [group["leaderWorkerTemplate"][f"{role}Template"]["spec"]["containers"][0] for role in ("leader", "worker")]
    assert [pod["resources"]["limits"]["nvidia.com/gpu"] for pod in pods] == [str(given.gpus_per_node)] * 2
    assert "readinessProbe" in pods[0]
    assert "readinessProbe" not in pods[1]
    assert pods[0]["command"][:5] == ["sh", "serve_group.sh", "$(LWS_WORKER_INDEX)", "2", "$(LWS_LEADER_ADDRESS)"]
    service = objects("leaderworkerset", PLAN)["Service"]["spec"]["selector"]
    assert (
        service.items()
        <= {
            **group["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]["labels"],
            "leaderworkerset.sigs.k8s.io/name": given.name,
        }.items()
    )
    task = yaml.safe_load(files("skypilot", PLAN)["task.yaml"])
    assert task["num_nodes"] == 2
    assert task["service"]["replica_policy"]["min_replicas"] == layout.replicas
    assert '"$SKYPILOT_NODE_RANK"' in task["run"]
    assert "serve_group.sh" in files("skypilot", PLAN)
    ray = next(each for each in yaml.safe_load_all(files("ray", PLAN)["ray.yaml"]))
    worker = ray["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]
    assert worker["replicas"] == given.num_nodes
    assert f"tensor_parallel_size: {layout.tensor}" in ray["spec"]["serveConfigV2"]


@pytest.mark.parametrize("target", ["kubernetes", "keda", "cloud-init", "slurm", "nginx", "terraform-aws"])
def test_what_starts_single_servers_says_who_starts_groups(target: str) -> None:
    problem = find_target(target).problem(job(PLAN))
    assert problem, target


def test_one_server_needs_no_group() -> None:
    assert stack_of(job("chat-8b-aws")).files == {}
    with pytest.raises(InputError, match="use kubernetes"):
        files("leaderworkerset", "chat-8b-aws")


@pytest.mark.skipif(crds.FOLDER is None, reason=crds.WHY_SKIPPED)
@pytest.mark.parametrize(("target", "name"), [("leaderworkerset", PLAN), *(("jobset", name) for name in taken("jobset"))])
@pytest.mark.parametrize("queue", ["", "kueue/team-a", "volcano/team-a"])
def test_objects_are_of_their_kind(target: str, name: str, queue: str) -> None:
    for each in objects(target, name, queue=queue).values():
        if not each["apiVersion"].startswith(("v1", "networking")):
            crds.check(each)


@pytest.mark.parametrize("name", taken("jobset"))
def test_a_set_has_a_pod_a_server_and_its_head_s_name(name: str) -> None:
    given, found = job(name), objects("jobset", name)["JobSet"]["spec"]
    spec = found["replicatedJobs"][0]["template"]["spec"]
    assert spec["parallelism"] == spec["completions"] == given.num_nodes
    words = " ".join(spec["template"]["spec"]["containers"][0]["command"])
    if given.num_nodes > 1 and "{head" in " ".join(stack_of(given).command):
        assert f"{given.name}-node-0-0.{given.name}" in words
    assert "{" not in words.replace("${", "")


@pytest.mark.parametrize("target", ["kubernetes", "jobset", "kubeflow-trainjob"])
def test_a_queue_holds_what_starts_the_pods(target: str) -> None:
    waiting = {"kubernetes": "Job", "jobset": "JobSet", "kubeflow-trainjob": "TrainJob"}[target]
    kueue = objects(target, "full-70b", queue="kueue/team-a")
    assert kueue[waiting]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert sum("kueue.x-k8s.io/queue-name" in str(each) for each in kueue.values()) == 1
    volcano = objects(target, "full-70b", queue="volcano/team-a")
    assert volcano["PodGroup"]["spec"] == {"minMember": job("full-70b").num_nodes, "queue": "team-a"}
    text = files(target, "full-70b", queue="volcano/team-a")[FILES[target]]
    assert "schedulerName: volcano" in text
    assert f"scheduling.k8s.io/group-name: {job('full-70b').name}" in text
    assert "queue" not in files(target, "full-70b")[FILES[target]].replace("queue_", "")
    with pytest.raises(InputError, match="kueue/NAME or volcano/NAME"):
        ExportSettings(queue="slurm/x")


def test_ray_joins_the_servers_before_the_server_starts(tmp_path: Path) -> None:
    """Two nodes on this machine, by the script itself: the command starts when both are there; a
    rank that comes first waits for the head."""
    pytest.importorskip("ray")
    psutil = pytest.importorskip("psutil")
    (tmp_path / "serve_group.sh").write_text(stack_of(job(PLAN)).files["serve_group.sh"], encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    count = "import ray; ray.init(address='auto', log_to_driver=False); print('servers', sum(node['Alive'] for node in ray.nodes()))"
    words = {"RIGHTFIT_RAY_PORT": port, "RIGHTFIT_JOIN_S": "120", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": f"/tmp/r{os.getpid()}"}
    env = {**os.environ, **words, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    begun, before = time.time(), set(psutil.pids())

    def start(rank: int, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "serve_group.sh", str(rank), "2", "127.0.0.1", *command],
            cwd=tmp_path,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    worker = start(1)
    try:
        time.sleep(3)
        assert worker.poll() is None
        head = start(0, sys.executable, "-c", count)
        said, _ = head.communicate(timeout=240)
        if head.returncode and ("raylet because it is dead" in said or "timed out during startup" in said):
            pytest.skip("Ray's own node process died or did not come up in its 30 s: two nodes of Ray cannot be had on this machine")
        assert head.returncode == 0, said[-2000:]
        assert "servers 2" in said
    finally:
        for pid in set(psutil.pids()) - before:  # those of this test alone: new, and of its folder
            try:
                process = psutil.Process(pid)
                if process.create_time() >= begun and words["RAY_TMPDIR"] in " ".join(process.cmdline()):
                    os.kill(pid, signal.SIGKILL)
            except (psutil.Error, ProcessLookupError):
                continue
        worker.kill()
        worker.wait()
        shutil.rmtree(words["RAY_TMPDIR"], ignore_errors=True)
