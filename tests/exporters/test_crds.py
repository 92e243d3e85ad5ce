"""What is written for operators (KEDA, Trainer, KServe, Karpenter, Ray) against the schemas of
their own definitions, unknown fields refused."""

from __future__ import annotations

import copy
from typing import Any

import crds
import pytest
import yaml
from jobs import files, hostile, taken

jsonschema = pytest.importorskip("jsonschema")
pytestmark = pytest.mark.skipif(crds.FOLDER is None, reason=crds.WHY_SKIPPED)
TARGETS = {
    "keda": "scaled-object.yaml",
    "kubeflow-trainjob": "trainjob.yaml",
    "kserve": "inference-service.yaml",
    "karpenter": "nodepool.yaml",
    "ray": "ray.yaml",
}
CORE = ("v1", "batch/v1", "apps/v1", "autoscaling/v2", "policy/v1", "networking.k8s.io/v1")
CASES = [(target, name) for target in TARGETS for name in taken(target)]


def objects(target: str, found: Any) -> list[dict[str, Any]]:
    """The objects of operators in a target's file."""
    return [each for each in yaml.safe_load_all(found[TARGETS[target]]) if each["apiVersion"] not in CORE]


@pytest.mark.parametrize(("target", "name"), CASES)
def test_objects_are_of_their_kind(target: str, name: str) -> None:
    for maker in (files, hostile):
        found = objects(target, maker(target, name))
        assert found
        for each in found:
            crds.check(each)


@pytest.mark.parametrize(
    ("target", "name", "path"),
    [
        ("keda", "chat-8b", ("spec",)),
        ("kubeflow-trainjob", "qlora-8b", ("spec", "template", "spec", "replicatedJobs", 0, "template", "spec", "template", "spec")),
        ("kserve", "chat-8b", ("spec", "predictor", "containers", 0)),
        ("karpenter", "lora-8b-aws", ("spec",)),
        ("ray", "full-70b", ("spec", "rayClusterSpec", "headGroupSpec")),
    ],
)
def test_a_wrong_key_would_be_found(target: str, name: str, path: tuple[Any, ...]) -> None:
    first = copy.deepcopy(objects(target, files(target, name))[0])
    place: Any = first
    for step in path:
        place = place[step]
    place["nosuchkey"] = 1
    with pytest.raises(jsonschema.ValidationError, match="nosuchkey"):
        crds.check(first)
