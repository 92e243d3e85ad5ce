"""Services of language models behind the gateways of others: llm-d's Helm charts, and NVIDIA
Dynamo's operator. Both find the replica for each request by themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.kubernetes_words import (
    SECURITY,
    container,
    environment,
    labels,
    metadata,
    one_replica,
    placement,
    queue_of,
    replicas_range,
    resources,
    selector,
    shared_gib,
    volumes_of,
    weights_volumes,
)
from rightfit.exports.kubernetes_words import WEIGHTS as WEIGHTS_FOLDER
from rightfit.exports.model_words import PORT, hub_id, image_of, servers_of_replica, spans_servers, wrong_engine
from rightfit.exports.quoting import given, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import stack_of, stack_problem
from rightfit.exports.targets import clusters, kubernetes, llm_servers
from rightfit.exports.waiting import ready_files
from rightfit.facts.engine_releases import image_named
from rightfit.messages import Message

GRACE_S = 120


def _problem(job: Job, most: int) -> Message | str:
    """What both refuse: other tasks and engines, queues that their objects are not told of, and
    names that leave no room for what they put behind them."""
    if not job.gpus_per_node:
        return Message("export.needs_cards")
    if queue_of(job)[0]:
        return Message("export.no_queue")
    if len(job.name) > most:
        return Message("export.name_too_long", word=job.name, most=most)
    return wrong_engine(job, "vLLM", carries=llm_servers.CARRIES) or stack_problem(job)


# ---- llm-d: values of its chart of model servers, and of the chart of the pool by which a gateway
# finds them (Gateway API Inference Extension).

MODELSERVICE = ("llm-d-modelservice", "v0.4.12", "https://llm-d-incubation.github.io/llm-d-modelservice/")
"""Chart, version and place: Chart.yaml of llm-d-incubation/llm-d-modelservice@3051935e."""
POOL = ("oci://registry.k8s.io/gateway-api-inference-extension/charts/inferencepool", "v1.5.0")
"""Chart and version: kubernetes-sigs/gateway-api-inference-extension, tag v1.5.0."""
ACCELERATORS = {"NVIDIA": "nvidia", "AMD": "amd"}
"""Vendor -> what the chart calls its cards."""
LONGEST_RELEASE = 55
"""The chart cuts longer names off, and wait and delete would ask for another one."""
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
GATEWAYS = {"gcp": "gke"}
"""Cloud whose own gateway the pool's chart sets up; "none" leaves it to the cluster."""


def pool_labels(job: Job) -> dict[str, str]:
    """By these the pool finds the pods."""
    return {"llm-d.ai/inference-serving": "true", "llm-d.ai/model": job.name, **selector(job), "rightfit.dev/plan": job.plan_id}


def llm_d_container(job: Job) -> dict[str, Any]:
    """The plan's server as the chart takes it: fields that it passes on stand under extraConfig."""
    main = container(job, name="vllm")
    own = {name: main[name] for name in ("name", "image", "command", "env", "ports", "resources", "volumeMounts")}
    more = {name: main[name] for name in ("securityContext", *PROBES)}
    return {**own, "modelCommand": "custom", "mountModelVolume": False, "extraConfig": more}


def llm_d_values(job: Job) -> dict[str, Any]:
    """Values of the chart: decoding servers that also read the prompt, without a proxy before
    them."""
    least, _ = replicas_range(job)
    place = placement(job)
    decode = given(
        create=True,
        replicas=least,
        strategy={"type": "RollingUpdate", "rollingUpdate": kubernetes.updated(job)},
        terminationGracePeriodSeconds=GRACE_S,
        parallelism={"tensor": job.option.layout.tensor},
        containers=[llm_d_container(job)],
        volumes=volumes_of(job),
        extraConfig={"automountServiceAccountToken": False, "securityContext": SECURITY},
        nodeSelector=place.get("nodeSelector"),
        tolerations=place.get("tolerations"),
    )
    return {
        "fullnameOverride": job.name,
        "multinode": False,
        "modelArtifacts": {"name": hub_id(job), "uri": f"hf://{hub_id(job)}", "labels": pool_labels(job)},
        "accelerator": {"type": ACCELERATORS[str(job.option.facts.get("vendor") or "NVIDIA")]},
        "routing": {"servicePort": PORT, "proxy": {"enabled": False}},
        "decode": decode,
        "prefill": {"create": False},
    }


def pool_values(job: Job) -> dict[str, Any]:
    """Values of the pool's chart, whose picker sends each request to a replica."""
    return {
        "inferencePool": {"targetPorts": [{"number": PORT}], "modelServerType": "vllm", "modelServers": {"matchLabels": pool_labels(job)}},
        "provider": {"name": GATEWAYS.get(job.option.provider, "none")},
    }


def llm_d_commands(job: Job) -> tuple[str, ...]:
    """What puts both charts into the cluster; typed again they change what differs."""
    chart, version, place = MODELSERVICE
    return (
        f"helm upgrade --install {job.name}-pool {POOL[0]} --version {POOL[1]} -f pool.yaml",
        f"helm upgrade --install {job.name} {chart} --repo {place} --version {version} -f values.yaml",
    )


def llm_d_write(job: Job) -> Files:
    """The values of both charts."""
    return {
        "values.yaml": to_yaml(llm_d_values(job)),
        "pool.yaml": to_yaml(pool_values(job)),
        **ready_files(job, "deployment", f"{job.name}-decode"),
    }


def _llm_d_refuses(job: Job) -> Message | str:
    return _problem(job, LONGEST_RELEASE) or spans_servers(job)


LLM_D = Target(
    "llm-d",
    "kubernetes",
    "llm-d: values of its charts of model servers and their pool",
    llm_d_write,
    _llm_d_refuses,
    checked_by="the chart's own schema of values, and the names that its templates read",
    works=("serve",),
)


# ---- Dynamo: a graph of a front that reads requests and workers that are vLLM inside Dynamo's own
# runtime; a worker may span servers.

DYNAMO_PROGRAM = "dynamo"
DYNAMO_VLLM = "0.31.0"
"""The vLLM in its image: METADATA of the wheel ai-dynamo 1.6.0."""
DYNAMO_API = "nvidia.com/v1beta1"
MAIN = "main"  # the name by which the operator knows the container that works
LONGEST_GRAPH = 63 - len("-frontend-00000000-xxxxxxxxxx-xxxxx")
OF_THE_SERVER = ("--host", "--port", "--data-parallel-size")
"""Words of `vllm serve` that the worker has not: the front answers, and a replica is a worker."""


def worker_arguments(job: Job) -> list[str]:
    """The engine's words, which the worker reads as `vllm serve` does."""
    model, *words = llm_servers.vllm_arguments(one_replica(job))
    found = ["--model", model]
    while words:
        word = words.pop(0)
        if word in OF_THE_SERVER:
            words.pop(0)
        else:
            found.append(word)
    return found


def _main(job: Job, **more: Any) -> dict[str, Any]:
    """A container of the graph. Its runtime asks for no key: a network policy
    says who comes in."""
    stack = dataclasses.replace(stack_of(one_replica(job)), secrets=("HF_TOKEN",))
    return given(
        name=MAIN,
        image=image_of(DYNAMO_PROGRAM, job),
        env=environment(job, stack),
        volumeMounts=[{"name": "weights", "mountPath": WEIGHTS_FOLDER}],
        securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        **more,
    )


def component(job: Job, role: str, replicas: int, main: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One part of the graph."""
    place = placement(job) if role == "worker" else {}
    room = {
        "name": "room",
        "image": image_named("busybox"),
        "command": ["chmod", "1777", WEIGHTS_FOLDER],  # the image's own user is not root, and the node's folder is root's
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
        "volumeMounts": main["volumeMounts"],
        "securityContext": {**main["securityContext"], "runAsUser": 0},
    }
    spec = {
        "automountServiceAccountToken": True,  # parts find each other through the cluster's interface
        "securityContext": SECURITY,
        "terminationGracePeriodSeconds": GRACE_S,
        "initContainers": [room],
        "containers": [main],
        "volumes": weights_volumes(job),
        **place,
    }
    about = {"labels": {**labels(job), "rightfit.dev/role": role}}
    return given(name=role, type=role, replicas=replicas, podTemplate={"metadata": about, "spec": spec}, **more)


def dynamo_objects(job: Job) -> list[dict[str, Any]]:
    """The graph, and who may come in: its front has no key of its own."""
    least, _ = replicas_range(job)
    servers = servers_of_replica(job)
    memory = f"{clusters.HEAD_GIB}Gi"
    front = _main(job, resources={"requests": {"cpu": "2", "memory": memory}, "limits": {"memory": memory}})
    engine = _main(job, command=["python3", "-m", "dynamo.vllm"], args=worker_arguments(job), resources=resources(job))
    spread = {"multinode": {"nodeCount": servers}} if servers > 1 else {}
    graph = {
        "apiVersion": DYNAMO_API,
        "kind": "DynamoGraphDeployment",
        "metadata": metadata(job),
        "spec": {
            "backendFramework": "vllm",
            "components": [
                component(job, "frontend", 1, front),
                component(job, "worker", least, engine, sharedMemorySize=f"{shared_gib(job)}Gi", **spread),
            ],
        },
    }
    return [
        graph,
        kubernetes.network_policy(job, selector(job), {"from": [{"podSelector": {}}, {"namespaceSelector": kubernetes.WATCHERS}]}),
    ]


def dynamo_write(job: Job) -> Files:
    """One file of all objects."""
    return {"dynamo.yaml": to_yaml(*dynamo_objects(job)), **ready_files(job, "dynamographdeployment")}


def _dynamo_refuses(job: Job) -> Message | str:
    return _problem(job, LONGEST_GRAPH) or clusters.held_problem(job, DYNAMO_PROGRAM, within=DYNAMO_VLLM)


DYNAMO = Target(
    "dynamo",
    "kubernetes",
    "NVIDIA Dynamo: a front and vLLM workers, also over servers",
    dynamo_write,
    _dynamo_refuses,
    checked_by="the fields of its definition, pods by the API's schema",
    run="kubectl apply -f dynamo.yaml",
    works=("serve",),
)
