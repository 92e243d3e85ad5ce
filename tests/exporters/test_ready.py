"""ready.sh asks a fake API server through the real kubectl: it ends when the service is ready, and
when a pod of it fails, whichever comes first."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import job

from rightfit.exports import find_target
from rightfit.exports.recipes import SERVICE_FILES
from rightfit.exports.waiting import BROKEN_PODS, SERVICE_READY

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

GROUPS = {
    "deployment": ("apps/v1", "deployments"),
    "inferenceservice": ("serving.kserve.io/v1beta1", "inferenceservices"),
    "leaderworkerset": ("leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "rayservice": ("ray.io/v1", "rayservices"),
    "dynamographdeployment": ("nvidia.com/v1beta1", "dynamographdeployments"),
}
KINDS = {
    "pod": "Pod",
    "deployment": "Deployment",
    "inferenceservice": "InferenceService",
    "leaderworkerset": "LeaderWorkerSet",
    "rayservice": "RayService",
    "dynamographdeployment": "DynamoGraphDeployment",
}
PLANS = {"leaderworkerset": "chat-two-servers-aws"}
TARGETS = [*SERVICE_FILES, "llm-d"]


class Cluster:
    """What its objects say at each look: the last of a list stays."""

    def __init__(self) -> None:
        self.conditions: list[dict[str, str]] = [{}]
        self.reasons: list[list[str]] = [[]]
        self.asked: list[str] = []

    def answer(self, path: str) -> dict[str, Any] | None:
        place, _, query = path.partition("?")
        if place == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if place == "/apis":
            versions = [{"groupVersion": group, "version": group.partition("/")[2]} for group, _ in GROUPS.values()]
            named = [{"name": each["groupVersion"].partition("/")[0], "versions": [each], "preferredVersion": each} for each in versions]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": named}
        for kind, (group, plural) in {**GROUPS, "pod": ("v1", "pods")}.items():
            root = f"/api/{group}" if group == "v1" else f"/apis/{group}"
            if place == root:
                row = {"name": plural, "singularName": kind, "namespaced": True, "kind": KINDS[kind], "verbs": ["get", "list"]}
                return {"kind": "APIResourceList", "groupVersion": group, "resources": [row]}
            if place.startswith(f"{root}/namespaces/default/{plural}"):
                self.asked.append(f"{place}?{query}")
                return self.pods() if kind == "pod" else self.object(kind, group, place.rpartition("/")[2])
        return None

    def object(self, kind: str, group: str, name: str) -> dict[str, Any]:
        said = self.conditions.pop(0) if len(self.conditions) > 1 else self.conditions[0]
        conditions = [{"type": name, "status": state} for name, state in said.items()]
        return {"kind": KINDS[kind], "apiVersion": group, "metadata": {"name": name}, "status": {"conditions": conditions}}

    def pods(self) -> dict[str, Any]:
        said = self.reasons.pop(0) if len(self.reasons) > 1 else self.reasons[0]
        statuses = [{"name": "engine", "state": {"waiting": {"reason": reason}}} for reason in said]
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "engine-0"}, "status": {"containerStatuses": statuses}}
        return {"kind": "PodList", "apiVersion": "v1", "items": [pod]}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = found.answer(self.path)
            body = json.dumps(said or {"kind": "Status", "status": "Failure", "code": 404}).encode()
            self.send_response(200 if said else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = {"name": "fake", "context": {"cluster": "fake", "user": "nobody"}}
    settings = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [context],
        "current-context": "fake",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(settings), encoding="utf-8")
    yield found
    server.shutdown()
    server.server_close()


def waited(target: str, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    found = find_target(target).files(job(PLANS.get(target, "chat-8b-aws")))
    (folder / "ready.sh").write_text(found["ready.sh"], encoding="utf-8")
    environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder), "EVERY_S": "0", "LIMIT_S": "20", **settings}
    return subprocess.run(["sh", "ready.sh"], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize("target", TARGETS)
def test_it_waits_until_the_service_is_ready(target: str, cluster: Cluster, tmp_path: Path) -> None:
    kind = SERVICE_FILES[target][1] if target in SERVICE_FILES else "deployment"
    cluster.conditions = [{}, {SERVICE_READY[kind]: "False"}, {"Progressing": "True", SERVICE_READY[kind]: "True"}]
    cluster.reasons = [["ContainerCreating"]]
    done = waited(target, tmp_path)
    assert (done.returncode, done.stdout) == (0, "the service is ready\n"), done.stderr
    assert len([path for path in cluster.asked if "/pods" in path]) == 2
    assert all("labelSelector=rightfit.dev%2Fplan%3D" in path for path in cluster.asked if "/pods" in path)


@pytest.mark.parametrize("reason", BROKEN_PODS)
def test_a_pod_that_fails_ends_the_wait_at_once_and_one_bad_look_does_not(reason: str, cluster: Cluster, tmp_path: Path) -> None:
    cluster.reasons = [[reason], ["ContainerCreating"], [reason]]
    done = waited("kubernetes", tmp_path)
    assert done.returncode == 1
    assert f"a pod fails: engine-0 {reason}" in done.stderr
    assert len([path for path in cluster.asked if "/pods" in path]) == 5


def test_a_quota_that_is_full_and_a_time_that_is_over_end_it(cluster: Cluster, tmp_path: Path) -> None:
    cluster.conditions = [{"Available": "False", "ReplicaFailure": "True"}]
    assert waited("kubernetes", tmp_path).returncode == 1
    cluster.conditions = [{"Available": "False"}]
    assert waited("kubernetes", tmp_path, LIMIT_S="0").returncode == 4
