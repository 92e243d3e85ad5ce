"""LeaderWorkerSet: a service whose replicas each span several servers of a Kubernetes cluster. The first pod of a group leads, the others join it,
and a group that loses one starts again as a whole."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import Job
from rightfit.export.kubernetes_words import (
    Places,
    container,
    files_objects,
    metadata,
    pod_metadata,
    pod_spec,
    queue_objects,
    queued,
    replicas_range,
)
from rightfit.export.quoting import to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import group_problem, servers_of_replica
from rightfit.export.stack import stack_problem
from rightfit.messages import Message

API = "leaderworkerset.x-k8s.io/v1"
PLACES = Places(node_rank="$(LWS_WORKER_INDEX)", head_address="$(LWS_LEADER_ADDRESS)")
"""Variables that LeaderWorkerSet gives to each pod."""
LEADER = {"rightfit.dev/role": "leader"}


def pod(job: Job, *, leads: bool) -> dict[str, Any]:
    """A pod of the group. Requests and their probes go to the leader alone."""
    main = container(job, name="engine", places=PLACES)
    if not leads:
        main = {key: value for key, value in main.items() if key != "ports" and not key.endswith("Probe")}
    about = pod_metadata(job)
    return {
        "metadata": {**about, "labels": {**about["labels"], **(LEADER if leads else {})}},
        "spec": pod_spec(job, main=main, terminationGracePeriodSeconds=120),
    }


def objects(job: Job) -> list[dict[str, Any]]:
    """The groups, the way to their leaders, and who may take it."""
    replicas, _ = replicas_range(job)
    size = servers_of_replica(job)
    group = {
        "apiVersion": API,
        "kind": "LeaderWorkerSet",
        "metadata": queued(job, pods=size * replicas),
        "spec": {
            "replicas": replicas,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": size,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": pod(job, leads=True),
                "workerTemplate": pod(job, leads=False),
            },
        },
    }
    leaders = {"leaderworkerset.sigs.k8s.io/name": job.name, **LEADER}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, f"{job.name}-leaders"),
        "spec": {"selector": leaders, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }
    # Collectives use ports of their choice among the pods of the job.
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job),
        "spec": {
            "podSelector": {"matchLabels": {"leaderworkerset.sigs.k8s.io/name": job.name}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": {"leaderworkerset.sigs.k8s.io/name": job.name}}}]},
                {"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": "http"}]},
            ],
        },
    }
    return [*queue_objects(job, pods=size * replicas), group, service, policy]


def write(job: Job) -> Files:
    """One file of all objects."""
    return {"group.yaml": to_yaml(*files_objects(job), *objects(job))}


def _refuses(job: Job) -> Message | str:
    if not job.is_service:
        return Message("export.part_task_it_serves", task=job.task)
    if servers_of_replica(job) == 1:
        return Message("export.part_replica_on_one")
    return group_problem(job) or stack_problem(job)


TARGET = Target(
    "leaderworkerset",
    "kubernetes",
    "LeaderWorkerSet: a service whose replicas span servers",
    write,
    _refuses,
    checked_by="its definition's schema, unknown fields refused; two nodes of Ray run the script that joins them",
    run="kubectl apply -f group.yaml",
)
