"""Weights that a pod fetches are there when it starts again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from typical_plans import FURTHER, OTHER_KINDS, WISHES, plan_values

from rightfit.exports import Job, all_targets, find_target, job_of, plan_document
from rightfit.exports.kubernetes_words import CACHES, WEIGHTS
from rightfit.exports.stack import stack_of

PLANS = (*WISHES, *FURTHER, *OTHER_KINDS)


def job(name: str) -> Job:
    return job_of(plan_document(plan_values(name)))


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """Every pod within an object."""
    if isinstance(value, dict):
        if "containers" in value and "volumes" in value:
            yield value
        for inner in value.values():
            yield from pods(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from pods(inner)


def objects(target: str, given: Job) -> list[dict[str, Any]]:
    texts = (text for path, text in find_target(target).files(given).items() if path.endswith(".yaml"))
    return [one for text in texts for one in yaml.safe_load_all(text) if isinstance(one, dict)]


@pytest.mark.parametrize("name", PLANS)
def test_every_pod_that_fetches_weights_keeps_them(name: str) -> None:
    """On its node, or in a claim of its own that is made as well; what is mounted is there."""
    given = job(name)
    for target in all_targets().values():
        if target.group != "kubernetes" or target.problem(given) or target.name in ("karpenter", "keda"):
            continue
        found = objects(target.name, given)
        claims = {one["metadata"]["name"] for one in found if one.get("kind") == "PersistentVolumeClaim"}
        fetching = 0
        for pod in pods(found):
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            for volume in volumes.values():
                assert "persistentVolumeClaim" not in volume or volume["persistentVolumeClaim"]["claimName"] in claims
            for container in pod["containers"]:
                mounts = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", ())}
                assert set(mounts.values()) <= set(volumes), target.name
                told = {one["name"]: one.get("value") for one in container.get("env", ())}
                if "HF_TOKEN" in told:
                    fetching += 1
                    assert {told[cache] for cache in CACHES} == {WEIGHTS}
                    assert {"hostPath", "persistentVolumeClaim"} & set(volumes[mounts[WEIGHTS]]), target.name
        assert bool(fetching) == ("HF_TOKEN" in stack_of(given).secrets), target.name


def test_a_service_of_one_pod_has_a_volume_for_its_weights() -> None:
    given = job("chat-8b-aws")
    [claim] = [one for one in objects("kubernetes", given) if one["kind"] == "PersistentVolumeClaim"]
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": f"{given.disk_gib}Gi"}}}
    many = job("chat-8b-day")
    assert not [one for one in objects("kubernetes", many) if one["kind"] == "PersistentVolumeClaim"]
