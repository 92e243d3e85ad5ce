"""Plain Kubernetes: a Deployment with Service, scaler, budget and network policy for a service; an indexed Job with its volume for a run."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import Job
from rightfit.export.kubernetes_words import checkpoint_objects, files_objects, metadata, pod_metadata, pod_spec, replicas_range, selector
from rightfit.export.quoting import given, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.stack import stack_of, stack_problem

CPU_TARGET = 60  # percent; a processor server at the plan's load is below it


def write(job: Job) -> Files:
    """One file of all objects."""
    objects = service_objects(job) if job.is_service else run_objects(job)
    return {"objects.yaml": to_yaml(*files_objects(job), *objects)}


def service_objects(job: Job) -> list[dict[str, Any]]:
    """What a service is made of. The scaler by processor load is for servers without cards; with cards use the target keda."""
    least, most = replicas_range(job)
    port = stack_of(job).port
    pod = {"metadata": pod_metadata(job), "spec": pod_spec(job, terminationGracePeriodSeconds=120)}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(job),
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
            "ingress": [{"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": port}]}],
        },
    }
    objects = [deployment, service, budget, policy]
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
        "metadata": metadata(job),
        "spec": given(
            completions=job.num_nodes,
            parallelism=job.num_nodes,
            completionMode="Indexed",
            backoffLimit=20 if job.is_spot else 3,
            activeDeadlineSeconds=round(job.stop_after_h * 3600) or None,
            template={"metadata": pod_metadata(job), "spec": pod_spec(job, restartPolicy="Never", subdomain=job.name)},
        ),
    }
    return [*checkpoint_objects(job), heads, run]


def _refuses(job: Job) -> str:
    layout = job.option.layout
    if job.is_service and job.gpus_per_node and layout.tensor * layout.pipeline > job.gpus_per_node:
        return "a replica spans several servers"
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
