"""KEDA: a scaler for the Deployment of target kubernetes, at the requests in flight that
the plan computed."""

from __future__ import annotations

import math
import re
from typing import Any

from rightfit.exports.job import SPOT, Job, OptionPart
from rightfit.exports.kubernetes_words import card_resource, container, files_objects, metadata, pod_spec, replicas_range, selector
from rightfit.exports.model_words import spans_servers
from rightfit.exports.quoting import comment, given, label, to_yaml
from rightfit.exports.registry import Files, Target, most_servers
from rightfit.exports.stack import stack_of, stack_problem
from rightfit.exports.targets import kubernetes
from rightfit.exports.waiting import ready_files
from rightfit.messages import Message

QUERIES = {
    "vllm": "sum(vllm:num_requests_running{{{by}}} + vllm:num_requests_waiting{{{by}}})",
    "sglang": "sum(sglang:num_running_reqs{{{by}}} + sglang:num_queue_reqs{{{by}}})",
    "tgi": "sum(tgi_batch_current_size{{{by}}} + tgi_queue_size{{{by}}})",
}
PROMETHEUS = "http://prometheus-server.monitoring.svc.cluster.local"


def keda_write(job: Job) -> Files:
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
    """What picks the series of the job's pods: Prometheus' own chart makes labels of series from
    those of pods, each sign of theirs that is no letter or digit as "_"."""
    return ", ".join(f'{re.sub(r"[^A-Za-z0-9_]", "_", name)}="{value}"' for name, value in selector(job).items())


def threshold(job: Job) -> float:
    """Requests in flight for each replica: the plan's, which keep its limits."""
    return float(job.section("autoscaling").get("target_in_flight") or max(1.0, float(job.option.facts.get("batch") or 1.0)))


def _keda_refuses(job: Job) -> Message | str:
    if job.option.layout.engine.casefold() not in QUERIES:
        return Message("export.no_count_of_requests", engine=job.option.layout.engine or Message("export.the_engine"))
    return kubernetes.KUBERNETES.problem(job)


KEDA = Target(
    "keda",
    "kubernetes",
    "KEDA scaler at the plan's threshold",
    keda_write,
    _keda_refuses,
    checked_by="its definition's schema, unknown fields refused; the fake API server",
    works=("serve",),
)


# ---- KServe: an InferenceService with the plan's server program as its container, scaled at the
# plan's requests in flight.

GROUP = "serving.kserve.io"
CONTAINER = "kserve-container"  # the name by which KServe knows the container that answers
GRACE_S = 120


def scaling(job: Job) -> tuple[str, dict[str, Any]]:
    """Class of scaler and its fields: by requests in flight where the program counts them, by
    processor load without cards, else none."""
    least, most = replicas_range(job)
    query = QUERIES.get(job.option.layout.engine.casefold())
    limits = {"minReplicas": least, "maxReplicas": most}
    if most == least:
        return "none", limits
    if query:
        metric = {
            "backend": "prometheus",
            "serverAddress": PROMETHEUS,
            "query": query.format(by=f'serving_kserve_io_inferenceservice="{job.name}"'),
        }
        target = {"type": "AverageValue", "averageValue": f"{threshold(job):g}"}
        return "keda", {**limits, "autoScaling": {"metrics": [{"type": "External", "external": {"metric": metric, "target": target}}]}}
    if not job.gpus_per_node:
        return "hpa", {**limits, "scaleMetric": "cpu", "scaleTarget": kubernetes.CPU_TARGET}
    return "none", {"minReplicas": most, "maxReplicas": most}


def service(job: Job) -> dict[str, Any]:
    """The InferenceService. Plain deployments: the ones on Knative allow neither shared memory nor
    a choice of nodes by default."""
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


def kserve_write(job: Job) -> Files:
    """One file of all objects."""
    return {"inference-service.yaml": to_yaml(*files_objects(job), service(job)), **ready_files(job, "inferenceservice")}


KSERVE = Target(
    "kserve",
    "kubernetes",
    "KServe InferenceService scaled at the plan's threshold",
    kserve_write,
    kubernetes.KUBERNETES.own_problem,
    checked_by="its definition's schema, unknown fields refused; the fake API server",
    run="kubectl apply -f inference-service.yaml",
    works=("serve",),
)


# ---- Karpenter: a pool that may rent the plan's server type, and those of its alternatives that
# run the same job, with a ceiling at the plan's count.

CLASSES = {"aws": ("karpenter.k8s.aws", "EC2NodeClass"), "azure": ("karpenter.azure.com", "AKSNodeClass")}
LONGEST_LIFE = "720h"


def types_of(job: Job) -> list[str]:
    """Server types of the pool: the plan's first, then alternatives in the same region that run the
    same layout and are bought the same way."""
    same = [other.instance_type for other in job.alternatives if _runs_the_same(job.option, other)]
    return list(dict.fromkeys([job.option.instance_type, *same]))


def _runs_the_same(option: OptionPart, other: OptionPart) -> bool:
    place = (option.provider, option.region, option.nodes, option.layout, option.accelerator.count_per_node)
    return place == (other.provider, other.region, other.nodes, other.layout, other.accelerator.count_per_node) and (
        (other.purchase == SPOT) == (option.purchase == SPOT)
    )


def pool(job: Job) -> dict[str, Any]:
    """The NodePool. Nodes of a run are not moved while it runs; empty ones are
    given back at once."""
    group, kind = CLASSES[job.option.provider]
    requirements = [
        _one_of("node.kubernetes.io/instance-type", types_of(job)),
        _one_of("karpenter.sh/capacity-type", ["spot" if job.is_spot else "on-demand"]),
        _one_of("topology.kubernetes.io/region", [job.option.region]),
    ]
    taints = [{"key": card_resource(job), "value": "true", "effect": "NoSchedule"}] if job.gpus_per_node else None
    node = given(
        nodeClassRef={"group": group, "kind": kind, "name": job.name},
        requirements=requirements,
        taints=taints,
        expireAfter=LONGEST_LIFE if job.is_service else "Never",
    )
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": metadata(job),
        "spec": {
            "template": {"metadata": {"labels": metadata(job)["labels"]}, "spec": node},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m" if job.is_service else "1m"},
            "limits": karpenter_limits(job),
        },
    }


def karpenter_limits(job: Job) -> dict[str, str]:
    """No more than the plan can need, whatever asks for nodes: a ceiling on the bill."""
    servers = most_servers(job)
    found = {"cpu": str(int(job.option.vcpus * servers))} if job.option.vcpus else {}
    return found | ({card_resource(job): str(job.gpus_per_node * servers)} if job.gpus_per_node else {"nodes": str(servers)})


def node_class(job: Job) -> dict[str, Any]:
    """What a node is made of: image, disk, and on AWS the networks that carry the
    cluster's discovery tag."""
    group, kind = CLASSES[job.option.provider]
    if kind == "AKSNodeClass":
        spec: dict[str, Any] = {"imageFamily": "Ubuntu2204", "osDiskSizeGB": job.disk_gib, "tags": job.labels}
        return {"apiVersion": f"{group}/v1beta1", "kind": kind, "metadata": metadata(job), "spec": spec}
    discovery = [{"tags": {"karpenter.sh/discovery": job.name}}]
    spec = {
        "role": f"KarpenterNodeRole-{job.name}",
        "amiSelectorTerms": [{"alias": "al2023@v20250920"}],
        "subnetSelectorTerms": discovery,
        "securityGroupSelectorTerms": discovery,
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/xvda",
                "ebs": {"volumeSize": f"{job.disk_gib}Gi", "volumeType": "gp3", "encrypted": True, "deleteOnTermination": True},
            }
        ],
        "tags": job.labels,
    }
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata(job), "spec": spec}


def _one_of(key: str, values: list[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [label(value) for value in values]}


def karpenter_write(job: Job) -> Files:
    """The pool and its class."""
    return {"nodepool.yaml": to_yaml(node_class(job), pool(job))}


def _karpenter_refuses(job: Job) -> Message | str:
    if job.option.provider not in CLASSES:
        return Message("export.karpenter", clouds=" and ".join(CLASSES), provider=job.option.provider)
    if job.option.region in ("", "any"):
        return Message("export.no_region")
    return ""


KARPENTER = Target(
    "karpenter",
    "kubernetes",
    "Karpenter pool of the plan's server types, with a ceiling",
    karpenter_write,
    _karpenter_refuses,
    checked_by="its definition's schema, unknown fields refused; the fake API server",
    run="kubectl apply -f nodepool.yaml",
)


# ---- NGINX in front of the servers of a service: spreads requests by requests in flight, streams
# answers, takes no more than the plan's rate.

PORT = 8080
ADDRESSES = "10.60.0."
FIRST_HOST = 10
MOST_BODY_MIB = 32
LONGEST_ANSWER_S = 600
BURST_S = 10.0  # of the rate that may wait rather than be turned away
FAILS_BEFORE_REST = 3
REST_S = 30
LEAST_KEPT = 16


def rate(job: Job) -> float:
    """Requests a second that the plan's servers bear [1/s]: where they saturate,
    else what was wished."""
    most = job.section("saturation").get("all_per_s")
    return float(most or job.wish("rate_per_s") or 0.0)


def upstream(job: Job) -> str:
    """The servers: addresses that the user puts in."""
    port = stack_of(job).port
    lines = [
        f"  server {ADDRESSES}{FIRST_HOST + number}:{port} max_fails={FAILS_BEFORE_REST} fail_timeout={REST_S}s;"
        for number in range(job.num_nodes)
    ]
    kept = max(LEAST_KEPT, min(1024, job.num_nodes * job.option.layout.replicas_per_node * max(1, job.option.layout.max_batch)))
    return "\n".join(["upstream servers {", "  least_conn;", *lines, f"  keepalive {kept};", "}"])


def nginx_limits(job: Job) -> tuple[str, str]:
    """(zone, use) of the limit of requests; empty where the plan knows no rate. NGINX counts whole
    requests a second, or a minute where there are fewer."""
    most = rate(job)
    if most <= 0:
        return "", ""
    words = f"{math.ceil(most)}r/s" if most >= 1 else f"{max(1, math.ceil(60 * most))}r/m"
    burst = max(1, math.ceil(BURST_S * most))
    return (
        f"limit_req_zone $server_name zone=all:1m rate={words};\n",
        f"    limit_req zone=all burst={burst} nodelay;\n    limit_req_status 429;\n",
    )


def nginx_write(job: Job) -> Files:
    """One file for /etc/nginx/conf.d."""
    zone, limit = nginx_limits(job)
    stack = stack_of(job)
    body = f"""# {comment(job.model)}, plan {job.plan_id}: put the addresses of the servers in, then `nginx -t && nginx -s reload`.
# It listens on this machine alone: put TLS (or the cloud's balancer) before it.
{zone}{upstream(job)}

server {{
  listen 127.0.0.1:{PORT};
  server_name {job.name};
  client_max_body_size {MOST_BODY_MIB}m;
  add_header X-Rightfit-Plan {job.plan_id} always;

  location / {{
{limit}    proxy_pass http://servers;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_set_header X-Request-Id $request_id;
    proxy_buffering off;
    proxy_connect_timeout 5s;
    proxy_read_timeout {LONGEST_ANSWER_S}s;
    proxy_next_upstream error timeout http_503;
    proxy_next_upstream_tries 2;
  }}

  location = {stack.health_path} {{
    proxy_pass http://servers;
    access_log off;
  }}
}}
"""
    return {f"{job.name}.conf": body}


def _nginx_refuses(job: Job) -> Message | str:
    return spans_servers(job) or stack_problem(job)


NGINX = Target(
    "nginx",
    "serving",
    "NGINX before the servers of a service",
    nginx_write,
    _nginx_refuses,
    checked_by="nginx -t, and requests through a running nginx",
    works=("serve",),
)
