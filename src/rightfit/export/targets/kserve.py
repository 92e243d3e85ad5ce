"""KServe: an InferenceService with the plan's server program as its container, scaled at the plan's requests in flight."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import Job
from rightfit.export.kubernetes_words import container, files_objects, metadata, pod_spec, replicas_range
from rightfit.export.quoting import given, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.targets import keda, kubernetes
from rightfit.messages import Message

GROUP = "serving.kserve.io"
CONTAINER = "kserve-container"  # the name by which KServe knows the container that answers
GRACE_S = 120


def scaling(job: Job) -> tuple[str, dict[str, Any]]:
    """Class of scaler and its fields: by requests in flight where the program counts them, by processor load without cards, else none."""
    least, most = replicas_range(job)
    query = keda.QUERIES.get(job.option.layout.engine.casefold())
    limits = {"minReplicas": least, "maxReplicas": most}
    if most == least:
        return "none", limits
    if query:
        metric = {
            "backend": "prometheus",
            "serverAddress": keda.PROMETHEUS,
            "query": query.format(by=f'serving_kserve_io_inferenceservice="{job.name}"'),
        }
        target = {"type": "AverageValue", "averageValue": f"{keda.threshold(job):g}"}
        return "keda", {**limits, "autoScaling": {"metrics": [{"type": "External", "external": {"metric": metric, "target": target}}]}}
    if not job.gpus_per_node:
        return "hpa", {**limits, "scaleMetric": "cpu", "scaleTarget": kubernetes.CPU_TARGET}
    return "none", {"minReplicas": most, "maxReplicas": most}


def service(job: Job) -> dict[str, Any]:
    """The InferenceService. Plain deployments: the ones on Knative allow neither shared memory nor a choice of nodes by default."""
    scaler, limits = scaling(job)
    about = metadata(job)
    marks = {f"{GROUP}/deploymentMode": "Standard", f"{GROUP}/autoscalerClass": scaler}
    predictor = given(
        **limits,
        timeout=600,
        labels=about["labels"],
        **pod_spec(job, main=container(job, name=CONTAINER), terminationGracePeriodSeconds=GRACE_S),
    )
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "InferenceService",
        "metadata": {**about, "annotations": marks},
        "spec": {"predictor": predictor},
    }


def write(job: Job) -> Files:
    """One file of all objects."""
    return {"inference-service.yaml": to_yaml(*files_objects(job), service(job))}


def _refuses(job: Job) -> Message | str:
    if not job.is_service:
        return Message("export.part_it_serves")
    return kubernetes.TARGET.refuses(job)


TARGET = Target(
    "kserve",
    "kubernetes",
    "KServe InferenceService scaled at the plan's threshold",
    write,
    _refuses,
    checked_by="its definition's schema, unknown fields refused; the fake API server",
    run="kubectl apply -f inference-service.yaml",
)
