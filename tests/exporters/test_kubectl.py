"""The real kubectl creates every exported object on a fake API server, reads it back as it was
written, and is refused a second time."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import files, hostile, taken

kmock = pytest.importorskip("kmock", reason="kmock is not installed (pip install kmock==0.8)")
KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
TARGETS = {
    "kubernetes": "objects.yaml",
    "keda": "scaled-object.yaml",
    "kubeflow-trainjob": "trainjob.yaml",
    "kserve": "inference-service.yaml",
    "karpenter": "nodepool.yaml",
    "ray": "ray.yaml",
}
CLUSTER_WIDE = ("PersistentVolume", "NodePool", "EC2NodeClass", "AKSNodeClass")
PLURALS = {"NetworkPolicy": "networkpolicies", "EC2NodeClass": "ec2nodeclasses", "AKSNodeClass": "aksnodeclasses"}


def plural(kind: str) -> str:
    return PLURALS.get(kind, kind.lower() + "s")


async def kubectl(folder: Path, url: str, *words: str) -> tuple[int, str]:
    environment = {**os.environ, "KUBECONFIG": "/dev/null", "HOME": str(folder), "NO_PROXY": "*"}
    started = await asyncio.create_subprocess_exec(
        str(KUBECTL), "--server", url, *words, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await started.communicate()
    return started.returncode or 0, said.decode()


def cluster_entry(each: dict[str, Any]) -> dict[str, Any]:
    """How a list of resources names the kind of an object."""
    return {"name": plural(each["kind"]), "kind": each["kind"], "singularName": each["kind"].lower(), "verbs": ["get", "create"]}


async def created(folder: Path, found: list[dict[str, Any]]) -> None:
    """Create, compare, create again (refused)."""
    async with kmock.KubernetesEmulator() as cluster, kmock.Server(cluster) as server:
        for each in found:
            where = f"{each['apiVersion']}/{plural(each['kind'])}"
            verbs = {"get", "list", "create", "delete", "patch", "update", "watch"}
            info = {"kind": each["kind"], "singular": each["kind"].lower(), "verbs": verbs, "namespaced": each["kind"] not in CLUSTER_WIDE}
            cluster.resources[where] = info
        core = [{**cluster_entry(each), "namespaced": each["kind"] not in CLUSTER_WIDE} for each in found if each["apiVersion"] == "v1"]
        # The fake's own list of the core group calls it "/v1", which kubectl does not take.
        cluster["/api/v1"] << {"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "v1", "resources": core}
        url = str(server.url).rstrip("/")
        code, said = await kubectl(folder, url, "create", "--validate=false", "-f", "objects.yaml")
        assert code == 0, said
        assert said.count(" created") == len(found)
        for each in found:
            code, said = await kubectl(folder, url, "get", plural(each["kind"]), each["metadata"]["name"], "-o", "json")
            assert code == 0, said
            kept = json.loads(said)
            assert kept["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "rightfit"
            assert {key: kept[key] for key in each if key != "metadata"} == {key: each[key] for key in each if key != "metadata"}
        code, said = await kubectl(folder, url, "create", "--validate=false", "-f", "objects.yaml")
        assert (code, "AlreadyExists" in said or "already exists" in said) == (1, True), said


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("maker", [files, hostile])
def test_kubectl_takes_every_object(target: str, maker: Callable[..., Any], tmp_path: Path) -> None:
    for name in (taken(target)[0], taken(target)[-1]):
        text = maker(target, name)[TARGETS[target]]
        (tmp_path / "objects.yaml").write_text(text, encoding="utf-8")
        asyncio.run(created(tmp_path, list(yaml.safe_load_all(text))))
