"""JobSet: a run on several servers of a Kubernetes cluster, started and started again as a whole."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.kubernetes_words import (
    Places,
    checkpoint_objects,
    container,
    files_objects,
    pod_metadata,
    pod_spec,
    queue_objects,
    queued,
)
from rightfit.export.quoting import given, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.stack import stack_problem
from rightfit.export.waiting import cluster_way, wait_files
from rightfit.messages import Message

API = "jobset.x-k8s.io/v1alpha2"
NODE = "node"
LONGEST_NAME = 63 - len("-node-0-00000-xxxxx")
"""A pod's name holds the job's, that of the set's part, its number and five letters of Kubernetes; a name in DNS has 63 at most."""


def run_set(job: Job) -> dict[str, Any]:
    """One job of a pod a server. A pod that is lost takes the whole run back to its last checkpoint: collectives cannot go on without it."""
    places = Places(head_address=f"{job.name}-{NODE}-0-0.{job.name}")
    pods = {"metadata": pod_metadata(job), "spec": pod_spec(job, main=container(job, places=places), restartPolicy="Never")}
    job_spec = given(
        parallelism=job.num_nodes,
        completions=job.num_nodes,
        completionMode="Indexed",
        backoffLimit=0,
        activeDeadlineSeconds=round(job.stop_after_h * 3600) or None,
        template=pods,
    )
    return {
        "apiVersion": API,
        "kind": "JobSet",
        "metadata": queued(job, pods=job.num_nodes),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": job.name},
            "failurePolicy": {"maxRestarts": 20 if job.is_spot else 3},
            "replicatedJobs": [{"name": NODE, "replicas": 1, "template": {"spec": job_spec}}],
        },
    }


def write(job: Job) -> Files:
    """One file of all objects."""
    objects = (*files_objects(job), *queue_objects(job, pods=job.num_nodes), *checkpoint_objects(job), run_set(job))
    return {"jobset.yaml": to_yaml(*objects), **wait_files(job, cluster_way(job, "jobset"))}


def _refuses(job: Job) -> Message | str:
    if job.task in SERVING_TASKS and job.task != "batch":
        return Message("export.part_runs_to_an_end", task=job.task)
    if len(job.name) > LONGEST_NAME:
        return Message("export.part_name_too_long", word=job.name, most=LONGEST_NAME)
    return stack_problem(job)


TARGET = Target(
    "jobset",
    "kubernetes",
    "JobSet: a run on several servers, restarted as a whole",
    write,
    _refuses,
    checked_by="its definition's schema, unknown fields refused",
    run="kubectl apply -f jobset.yaml",
)
