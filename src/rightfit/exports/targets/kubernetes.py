"""Plain Kubernetes: a Deployment with Service, scaler, budget and network policy for a service; an
indexed Job with its volume for a run."""

from __future__ import annotations

from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.kubernetes_words import (
    SECURITY,
    Places,
    checkpoint_objects,
    container,
    files_objects,
    labels,
    metadata,
    pod_metadata,
    pod_spec,
    queue_objects,
    queued,
    replicas_range,
    selector,
    weights_objects,
)
from rightfit.exports.model_words import group_problem, servers_of_replica
from rightfit.exports.quoting import given, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import stack_of, stack_problem
from rightfit.exports.waiting import cluster_way, ready_files, wait_files
from rightfit.facts.engine_releases import image_named
from rightfit.messages import Message

WATCHERS = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
"""Where Prometheus stands (keda.PROMETHEUS): it reads the pods' metrics through
the network policy."""
CPU_TARGET = 60  # percent; a processor server at the plan's load is below it


def kubernetes_write(job: Job) -> Files:
    """One file of all objects; for a run without a bucket another one, of the volume and a pod that
    copies to it and from it."""
    objects = service_objects(job) if job.is_service else run_objects(job)
    files = {
        "objects.yaml": to_yaml(*files_objects(job), *objects),
        **wait_files(job, cluster_way(job, "job")),
        **ready_files(job, "deployment"),
    }
    return files if job.is_service or job.settings.bucket else {**files, "files.yaml": to_yaml(*checkpoint_objects(job), copier(job))}


def copier(job: Job) -> dict[str, Any]:
    """A pod that does nothing but hold the volume open for `kubectl cp`, before
    the run and after it."""
    main = {
        "name": "files",
        "image": image_named("busybox"),
        "command": ["sleep", "86400"],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "automountServiceAccountToken": False,
        "securityContext": SECURITY,
        "restartPolicy": "Never",
        "containers": [main],
        "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": job.name}}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata(job, f"{job.name}-files"), "labels": copier_labels(job)},
        "spec": spec,
    }


def copier_labels(job: Job) -> dict[str, str]:
    """Labels of the pod that copies: not those by which the run's own pods are found."""
    return {**labels(job), "app.kubernetes.io/name": f"{job.name}-files"}


def service_objects(job: Job) -> list[dict[str, Any]]:
    """What a service is made of. The scaler by processor load is for servers without cards; with
    cards use the target keda."""
    least, most = replicas_range(job)
    port = stack_of(job).port
    pod = {"metadata": pod_metadata(job), "spec": pod_spec(job, claims=True, terminationGracePeriodSeconds=120)}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": queued(job, pods=least),
        "spec": {
            "replicas": least,
            "selector": {"matchLabels": selector(job)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": updated(job)},
            "template": pod,
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job),
        "spec": {"selector": selector(job), "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(job),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(job)}},
    }
    ports = [{"protocol": "TCP", "port": port}]
    policy = network_policy(job, selector(job), {"from": [{"podSelector": {}}, {"namespaceSelector": WATCHERS}], "ports": ports})
    objects = [*queue_objects(job, pods=least), *weights_objects(job), deployment, service, budget, policy]
    if not job.gpus_per_node and most > least:
        objects.append(processor_scaler(job, least=least, most=most))
    return objects


def network_policy(job: Job, pods: dict[str, str], *ingress: dict[str, Any]) -> dict[str, Any]:
    """Who may reach the pods with these labels, and nobody else."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job),
        "spec": {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"], "ingress": list(ingress)},
    }


def updated(job: Job) -> dict[str, int]:
    """How pods are replaced: with cards one goes before the next comes, as no card is idle beside
    those that the plan rents and a new pod would wait for ever."""
    surge = 0 if job.gpus_per_node else 1
    return {"maxUnavailable": 1 - surge, "maxSurge": surge}


def processor_scaler(job: Job, *, least: int, most: int) -> dict[str, Any]:
    """By processor load, which says how busy a server without cards is."""
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": CPU_TARGET}}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(job),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": job.name},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [metric],
        },
    }


def run_objects(job: Job) -> list[dict[str, Any]]:
    """What a run is made of: a volume for checkpoints, names for its nodes, and the
    Job, one pod a server."""
    heads = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job),
        "spec": {"clusterIP": "None", "selector": selector(job), "publishNotReadyAddresses": True},
    }
    run = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": queued(job, pods=job.num_nodes),
        "spec": given(
            completions=job.num_nodes,
            parallelism=job.num_nodes,
            completionMode="Indexed",
            backoffLimit=20 if job.is_spot else 3,
            activeDeadlineSeconds=round(job.stop_after_h * 3600) or None,
            template={"metadata": pod_metadata(job), "spec": pod_spec(job, restartPolicy="Never", subdomain=job.name)},
        ),
    }
    return [*queue_objects(job, pods=job.num_nodes), *checkpoint_objects(job), heads, run]


def _kubernetes_refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if job.is_service and job.gpus_per_node and layout.tensor * layout.pipeline > job.gpus_per_node:
        return Message("export.replica_spans")
    return stack_problem(job)


KUBERNETES = Target(
    "kubernetes",
    "kubernetes",
    "plain Kubernetes objects",
    kubernetes_write,
    _kubernetes_refuses,
    checked_by="the API's own schemas, strictly",
    run="kubectl apply -f objects.yaml",
)


# ---- JobSet: a run on several servers of a Kubernetes cluster, started and
# started again as a whole.

JOBSET_API = "jobset.x-k8s.io/v1alpha2"
JOBSET_NODE = "node"
LONGEST_NAME = 63 - len("-node-0-00000-xxxxx")
"""A pod's name holds the job's, that of the set's part, its number and five letters of Kubernetes;
a name in DNS has 63 at most."""


def run_set(job: Job) -> dict[str, Any]:
    """One job of a pod a server. A pod that is lost takes the whole run back to its last
    checkpoint: collectives cannot go on without it."""
    places = Places(head_address=f"{job.name}-{JOBSET_NODE}-0-0.{job.name}")
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
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "metadata": queued(job, pods=job.num_nodes),
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": job.name},
            "failurePolicy": {"maxRestarts": 20 if job.is_spot else 3},
            "replicatedJobs": [{"name": JOBSET_NODE, "replicas": 1, "template": {"spec": job_spec}}],
        },
    }


def jobset_write(job: Job) -> Files:
    """One file of all objects."""
    objects = (*files_objects(job), *queue_objects(job, pods=job.num_nodes), *checkpoint_objects(job), run_set(job))
    return {"jobset.yaml": to_yaml(*objects), **wait_files(job, cluster_way(job, "jobset"))}


def _jobset_refuses(job: Job) -> Message | str:
    if len(job.name) > LONGEST_NAME:
        return Message("export.name_too_long", word=job.name, most=LONGEST_NAME)
    return stack_problem(job)


JOBSET = Target(
    "jobset",
    "kubernetes",
    "JobSet: a run on several servers, restarted as a whole",
    jobset_write,
    _jobset_refuses,
    checked_by="its definition's schema, unknown fields refused",
    run="kubectl apply -f jobset.yaml",
    works=("train", "prepare", "batch"),
)


# ---- LeaderWorkerSet: a service whose replicas each span several servers of a Kubernetes
# cluster. The first pod of a group leads, the others join it, and a group that loses one starts
# again as a whole.

LEADERWORKERSET_API = "leaderworkerset.x-k8s.io/v1"
LEADERWORKERSET_PLACES = Places(node_rank="$(LWS_WORKER_INDEX)", head_address="$(LWS_LEADER_ADDRESS)")
"""Variables that LeaderWorkerSet gives to each pod."""
LEADER = {"rightfit.dev/role": "leader"}


def pod(job: Job, *, leads: bool) -> dict[str, Any]:
    """A pod of the group. Requests and their probes go to the leader alone."""
    main = container(job, name="engine", places=LEADERWORKERSET_PLACES)
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
        "apiVersion": LEADERWORKERSET_API,
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
    group_pods = {"leaderworkerset.sigs.k8s.io/name": job.name}
    policy = network_policy(
        job,
        group_pods,
        {"from": [{"podSelector": {"matchLabels": group_pods}}]},
        {"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": "http"}]},
    )
    return [*queue_objects(job, pods=size * replicas), group, service, policy]


def leaderworkerset_write(job: Job) -> Files:
    """One file of all objects."""
    return {"group.yaml": to_yaml(*files_objects(job), *objects(job)), **ready_files(job, "leaderworkerset")}


def _leaderworkerset_refuses(job: Job) -> Message | str:
    if servers_of_replica(job) == 1:
        return Message("export.replica_on_one")
    return group_problem(job) or stack_problem(job)


LEADERWORKERSET = Target(
    "leaderworkerset",
    "kubernetes",
    "LeaderWorkerSet: a service whose replicas span servers",
    leaderworkerset_write,
    _leaderworkerset_refuses,
    checked_by="its definition's schema, unknown fields refused; two nodes of Ray run the script that joins them",
    run="kubectl apply -f group.yaml",
    works=("serve",),
)


# ---- Kubeflow Trainer: a TrainJob with a runtime of its own, so that image, volumes and place are
# the plan's and not the cluster's defaults.

KUBEFLOW_TRAINJOB_API = "trainer.kubeflow.org/v1alpha1"
KUBEFLOW_TRAINJOB_NODE = "node"  # the name by which Trainer knows the container that trains
KUBEFLOW_TRAINJOB_PLACES = Places(node_rank="$(PET_NODE_RANK)", head_address="$(PET_MASTER_ADDR)")
"""Trainer's own variables for torchrun."""


def runtime(job: Job) -> dict[str, Any]:
    """How a node of the run looks."""
    pod = pod_spec(job, main=container(job, name=KUBEFLOW_TRAINJOB_NODE, places=KUBEFLOW_TRAINJOB_PLACES), restartPolicy="Never")
    replicated = {
        "name": KUBEFLOW_TRAINJOB_NODE,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"backoffLimit": 0, "template": {"metadata": pod_metadata(job), "spec": pod}},
        },
    }
    return {
        "apiVersion": KUBEFLOW_TRAINJOB_API,
        "kind": "TrainingRuntime",
        "metadata": metadata(job),
        "spec": {
            "mlPolicy": {"numNodes": job.num_nodes, "torch": {}},
            # A lost node takes the whole run back to its last checkpoint: collectives
            # cannot go on without it.
            "template": {"spec": {"failurePolicy": {"maxRestarts": 20 if job.is_spot else 3}, "replicatedJobs": [replicated]}},
        },
    }


def train_job(job: Job) -> dict[str, Any]:
    """The run on that runtime."""
    return {
        "apiVersion": KUBEFLOW_TRAINJOB_API,
        "kind": "TrainJob",
        "metadata": queued(job, pods=job.num_nodes),
        "spec": given(
            runtimeRef={"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": job.name},
            trainer={"numNodes": job.num_nodes, "numProcPerNode": max(1, job.gpus_per_node)},
            activeDeadlineSeconds=round(job.stop_after_h * 3600) or None,
        ),
    }


def kubeflow_trainjob_write(job: Job) -> Files:
    """One file of all objects."""
    return {
        "trainjob.yaml": to_yaml(
            *files_objects(job), *queue_objects(job, pods=job.num_nodes), *checkpoint_objects(job), runtime(job), train_job(job)
        ),
        **wait_files(job, cluster_way(job, "trainjob")),
    }


KUBEFLOW_TRAINJOB = Target(
    "kubeflow-trainjob",
    "kubernetes",
    "Kubeflow Trainer TrainJob with its runtime",
    kubeflow_trainjob_write,
    stack_problem,
    checked_by="its definition's schema, unknown fields refused; the fake API server",
    run="kubectl apply -f trainjob.yaml",
    works=("train", "prepare"),
)
