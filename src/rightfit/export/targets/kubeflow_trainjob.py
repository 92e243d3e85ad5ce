"""Kubeflow Trainer: a TrainJob with a runtime of its own, so that image, volumes and place are the plan's and not the cluster's
defaults."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import SERVING_TASKS, Job
from rightfit.export.kubernetes_words import (
    Places,
    checkpoint_objects,
    container,
    files_objects,
    metadata,
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

API = "trainer.kubeflow.org/v1alpha1"
NODE = "node"  # the name by which Trainer knows the container that trains
PLACES = Places(node_rank="$(PET_NODE_RANK)", head_address="$(PET_MASTER_ADDR)")
"""Trainer's own variables for torchrun."""


def runtime(job: Job) -> dict[str, Any]:
    """How a node of the run looks."""
    pod = pod_spec(job, main=container(job, name=NODE, places=PLACES), restartPolicy="Never")
    replicated = {
        "name": NODE,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": {"metadata": pod_metadata(job), "spec": pod}},
        },
    }
    return {
        "apiVersion": API,
        "kind": "TrainingRuntime",
        "metadata": metadata(job),
        "spec": {
            "mlPolicy": {"numNodes": job.num_nodes, "torch": {}},
            # A lost node takes the whole run back to its last checkpoint: collectives cannot go on without it.
            "template": {"spec": {"failurePolicy": {"maxRestarts": 20 if job.is_spot else 3}, "replicatedJobs": [replicated]}},
        },
    }


def train_job(job: Job) -> dict[str, Any]:
    """The run on that runtime."""
    return {
        "apiVersion": API,
        "kind": "TrainJob",
        "metadata": queued(job, pods=job.num_nodes),
        "spec": given(
            runtimeRef={"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": job.name},
            trainer={"numNodes": job.num_nodes, "numProcPerNode": max(1, job.gpus_per_node)},
            activeDeadlineSeconds=round(job.stop_after_h * 3600) or None,
        ),
    }


def write(job: Job) -> Files:
    """One file of all objects."""
    return {
        "trainjob.yaml": to_yaml(
            *files_objects(job), *queue_objects(job, pods=job.num_nodes), *checkpoint_objects(job), runtime(job), train_job(job)
        ),
        **wait_files(job, cluster_way(job, "trainjob")),
    }


def _refuses(job: Job) -> Message | str:
    if job.task in SERVING_TASKS:
        return Message("export.part_task_it_trains", task=job.task)
    return stack_problem(job)


TARGET = Target(
    "kubeflow-trainjob",
    "kubernetes",
    "Kubeflow Trainer TrainJob with its runtime",
    write,
    _refuses,
    checked_by="its definition's schema, unknown fields refused; the fake API server",
    run="kubectl apply -f trainjob.yaml",
)
