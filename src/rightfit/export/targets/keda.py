"""KEDA: a scaler for the Deployment of target kubernetes, at the requests in flight that the plan computed."""

from __future__ import annotations

import re

from rightfit.export.job import Job
from rightfit.export.kubernetes_words import metadata, replicas_range, selector
from rightfit.export.quoting import to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.targets import kubernetes
from rightfit.messages import Message

QUERIES = {
    "vllm": "sum(vllm:num_requests_running{{{by}}} + vllm:num_requests_waiting{{{by}}})",
    "sglang": "sum(sglang:num_running_reqs{{{by}}} + sglang:num_queue_reqs{{{by}}})",
    "tgi": "sum(tgi_batch_current_size{{{by}}} + tgi_queue_size{{{by}}})",
}
PROMETHEUS = "http://prometheus-server.monitoring.svc.cluster.local"


def write(job: Job) -> Files:
    """One ScaledObject."""
    day = job.section("autoscaling")
    least, most = replicas_range(job)
    query = QUERIES[job.option.layout.engine.casefold()].format(by=series_of(job))
    trigger = {
        "type": "prometheus",
        "metadata": {"serverAddress": PROMETHEUS, "query": query, "threshold": f"{threshold(job):g}"},
    }
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata(job),
        "spec": {
            "scaleTargetRef": {"name": job.name},
            "minReplicaCount": least,
            "maxReplicaCount": max(most, least + 1),
            "pollingInterval": round(float(day.get("polling_s") or 30)),
            "cooldownPeriod": round(float(day.get("cooldown_s") or 600)),
            "triggers": [trigger],
        },
    }
    return {"scaled-object.yaml": to_yaml(scaled)}


def series_of(job: Job) -> str:
    """What picks the series of the job's pods: Prometheus' own chart makes labels of series from those of pods, each sign of theirs that is no letter
    or digit as "_"."""
    return ", ".join(f'{re.sub(r"[^A-Za-z0-9_]", "_", name)}="{value}"' for name, value in selector(job).items())


def threshold(job: Job) -> float:
    """Requests in flight for each replica: the plan's, which keep its limits."""
    return float(job.section("autoscaling").get("target_in_flight") or max(1.0, float(job.option.facts.get("batch") or 1.0)))


def _refuses(job: Job) -> Message | str:
    if not job.is_service:
        return Message("export.part_only_services_scaled")
    if job.option.layout.engine.casefold() not in QUERIES:
        return Message("export.part_no_count_of_requests", engine=job.option.layout.engine or Message("export.the_engine"))
    return kubernetes.TARGET.refuses(job)


TARGET = Target(
    "keda",
    "kubernetes",
    "KEDA scaler at the plan's threshold",
    write,
    _refuses,
    checked_by="its definition's schema, unknown fields refused; the fake API server",
)
