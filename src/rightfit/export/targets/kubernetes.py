"""Plain Kubernetes: a Deployment with Service, scaler, budget and network policy for a service; an indexed Job with its volume for a
run."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import Job
from rightfit.export.kubernetes_words import (
    SECURITY,
    checkpoint_objects,
    files_objects,
    labels,
    metadata,
    pod_metadata,
    pod_spec,
    queue_objects,
    queued,
    replicas_range,
    selector,
)
from rightfit.export.quoting import given, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.stack import stack_of, stack_problem
from rightfit.export.waiting import cluster_way, wait_files
from rightfit.messages import Message

WATCHERS = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
"""Where Prometheus stands (keda.PROMETHEUS): it reads the pods' metrics through the network policy."""
COPIER_IMAGE = "busybox:1.37.0"  # has tar, which kubectl cp asks for
CPU_TARGET = 60  # percent; a processor server at the plan's load is below it


def write(job: Job) -> Files:
    """One file of all objects; for a run without a bucket another one, of the volume and a pod that copies to it and from it."""
    objects = service_objects(job) if job.is_service else run_objects(job)
    files = {"objects.yaml": to_yaml(*files_objects(job), *objects), **wait_files(job, cluster_way(job, "job"))}
    return files if job.is_service or job.settings.bucket else {**files, "files.yaml": to_yaml(*checkpoint_objects(job), copier(job))}


def copier(job: Job) -> dict[str, Any]:
    """A pod that does nothing but hold the volume open for `kubectl cp`, before the run and after it."""
    main = {
        "name": "files",
        "image": COPIER_IMAGE,
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
    """What a service is made of. The scaler by processor load is for servers without cards; with cards use the target keda."""
    least, most = replicas_range(job)
    port = stack_of(job).port
    pod = {"metadata": pod_metadata(job), "spec": pod_spec(job, terminationGracePeriodSeconds=120)}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": queued(job, pods=least),
        "spec": {
            "replicas": least,
            "selector": {"matchLabels": selector(job)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
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
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job),
        "spec": {
            "podSelector": {"matchLabels": selector(job)},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {}}, {"namespaceSelector": WATCHERS}], "ports": [{"protocol": "TCP", "port": port}]}],
        },
    }
    objects = [*queue_objects(job, pods=least), deployment, service, budget, policy]
    if not job.gpus_per_node and most > least:
        objects.append(processor_scaler(job, least=least, most=most))
    return objects


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
    """What a run is made of: a volume for checkpoints, names for its nodes, and the Job, one pod a server."""
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


def _refuses(job: Job) -> Message | str:
    layout = job.option.layout
    if job.is_service and job.gpus_per_node and layout.tensor * layout.pipeline > job.gpus_per_node:
        return Message("export.part_replica_spans")
    return stack_problem(job)


TARGET = Target(
    "kubernetes",
    "kubernetes",
    "plain Kubernetes objects",
    write,
    _refuses,
    checked_by="the API's own schemas, strictly",
    run="kubectl apply -f objects.yaml",
)
