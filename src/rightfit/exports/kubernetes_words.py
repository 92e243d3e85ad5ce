"""Pieces of Kubernetes objects that several targets share."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

from rightfit.exports.buckets import bucket_volume
from rightfit.exports.job import GIB, Job
from rightfit.exports.model_words import longest_start_s, servers_of_replica
from rightfit.exports.quoting import given, label, shell
from rightfit.exports.stack import ExportStack, installs, launched, stack_of
from rightfit.facts.tables import table
from rightfit.records import dataclass

RESOURCES = {
    "AMD": "amd.com/gpu",
    "Intel": "gpu.intel.com/i915",
    "AWS": "aws.amazon.com/neuron",
    "Google": "google.com/tpu",
    "Huawei": "huawei.com/Ascend910",
}
NVIDIA = "nvidia.com/gpu"
MOST_SHARED_GIB = 8
CLUSTER_SELLERS = (
    *("aws", "azure", "gcp", "alicloud", "tencent", "huawei", "volcengine", "baidu", "oci", "ibm"),
    *("digitalocean", "vultr", "linode", "scaleway", "ovh", "civo", "coreweave"),
)
"""Sellers with a Kubernetes of their own, whose nodes are labelled with the
type of their server under the name that the market has. Crusoe and Nebius have one too, but
plans name their servers otherwise."""
EFA = "vpc.amazonaws.com/efa"
SECURITY = {"seccompProfile": {"type": "RuntimeDefault"}}
"""Of every pod: the runtime's own list of system calls. Not runAsNonRoot: images of engines and
trainers keep caches and packages in root's home."""
SHARE_FOR_PODS = 0.9  # of a node's processors and memory; the rest is for the system and its daemons


def labels(job: Job) -> dict[str, str]:
    """On every object."""
    return {"app.kubernetes.io/name": job.name, "app.kubernetes.io/managed-by": "rightfit", "rightfit.dev/plan": job.plan_id}


def selector(job: Job) -> dict[str, str]:
    """What finds the pods again."""
    return {"app.kubernetes.io/name": job.name}


def card_resource(job: Job) -> str:
    """The name under which a node offers its accelerators."""
    return RESOURCES.get(str(job.option.facts.get("vendor") or ""), NVIDIA)


def gpus_of_replica(job: Job) -> int:
    """Accelerators of one pod: those of a replica of a service (on each of its servers), those of
    a server for a run."""
    layout = job.option.layout
    return min(layout.tensor * layout.pipeline, job.gpus_per_node) if job.is_service and job.gpus_per_node else job.gpus_per_node


def resources(job: Job) -> dict[str, Any]:
    """Requests and limits of a pod: its share of the server that the plan rents."""
    share = SHARE_FOR_PODS * (gpus_of_replica(job) / job.gpus_per_node if job.gpus_per_node else 1.0)
    wanted: dict[str, Any] = {}
    if job.option.vcpus:
        wanted["cpu"] = str(max(1, int(job.option.vcpus * share)))
    if job.option.memory_bytes:
        wanted["memory"] = f"{max(1, int(job.option.memory_bytes * share / GIB))}Gi"
    cards = {card_resource(job): str(gpus_of_replica(job))} if gpus_of_replica(job) else {}
    if adapters := efa_adapters(job):
        cards[EFA] = str(adapters)
    return {"requests": {**wanted, **cards}, "limits": {**({"memory": wanted["memory"]} if "memory" in wanted else {}), **cards}}


def efa_adapters(job: Job) -> int:
    """Elastic Fabric Adapters of a pod: those of the server, where a run on several counts on
    them; 0 elsewhere."""
    if job.is_service or job.num_nodes == 1 or str(job.option.facts.get("rdma") or "") != "efa":
        return 0
    return next((int(row["interfaces"]) for row in table("efa_interfaces") if job.option.instance_type == row["instance_type"]), 1)


def placement(job: Job) -> dict[str, Any]:
    """Onto nodes of the plan's server type, past the taint that keeps others off cards."""
    name = label(job.option.instance_type)
    if job.option.provider not in CLUSTER_SELLERS:  # no cluster's nodes bear its server types: they are picked by their cards alone
        name = ""
    if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", name):
        return {}
    tolerations = [{"key": card_resource(job), "operator": "Exists", "effect": "NoSchedule"}] if job.gpus_per_node else []
    return given(nodeSelector={"node.kubernetes.io/instance-type": name}, tolerations=tolerations or None)


WEIGHTS = "/weights"
NODE_FOLDER = "/var/lib/rightfit/weights"
CACHES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE")
"""Variables by which programs are told where fetched weights lie: huggingface_hub's, that of
releases and servers before it, and llama.cpp's."""


def keeps_weights(job: Job) -> bool:
    """Whether weights come from the hub, and are kept between the starts of a pod."""
    return "HF_TOKEN" in stack_of(job).secrets


def has_claim(job: Job) -> bool:
    """Whether weights have a volume of their own: of a service with one pod, which goes before the
    next comes. Several pods share what lies on their node's disk, whatever volumes the cluster
    has."""
    return job.is_service and bool(job.gpus_per_node) and replicas_range(job)[1] == 1 and servers_of_replica(job) == 1


def weights_volumes(job: Job, *, claims: bool = False) -> list[dict[str, Any]]:
    """Where fetched weights lie: on the node's disk, or with `claims` in the volume that the job
    has for them."""
    if not keeps_weights(job):
        return []
    if claims and has_claim(job):
        return [{"name": "weights", "persistentVolumeClaim": {"claimName": f"{job.name}-weights"}}]
    return [{"name": "weights", "hostPath": {"path": NODE_FOLDER, "type": "DirectoryOrCreate"}}]


def weights_objects(job: Job) -> list[dict[str, Any]]:
    """The claim of a volume for weights, where they have one."""
    if not keeps_weights(job) or not has_claim(job):
        return []
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": f"{job.disk_gib}Gi"}}}
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata(job, f"{job.name}-weights"), "spec": spec}]


def environment(job: Job, stack: ExportStack) -> list[dict[str, Any]]:
    """Plain settings by value, secrets by reference to a Secret of the job's name."""
    kept = dict.fromkeys(CACHES, WEIGHTS) if keeps_weights(job) else {}
    plain = [{"name": name, "value": value} for name, value in {**kept, **stack.environment}.items()]
    secret = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": job.name, "key": name, "optional": name == "HF_TOKEN"}}}
        for name in stack.secrets
    ]
    return [*plain, *secret]


def one_replica(job: Job) -> Job:
    """The job of one pod: a server's replicas are pods of their own here."""
    layout = job.option.layout.model_copy(update={"replicas_per_node": 1})
    return dataclasses.replace(job, option=job.option.model_copy(update={"layout": layout})) if job.is_service else job


@dataclass(frozen=True, slots=True)
class Places:
    """How a pod learns which node of the run it is: words in which Kubernetes puts
    its own variables."""

    node_rank: str = "$(JOB_COMPLETION_INDEX)"
    head_address: str = ""


def command_of(job: Job, stack: ExportStack, places: Places) -> list[str]:
    """The stack's command with what its image lacks before it. "$" is doubled: alone it would begin
    a variable of Kubernetes."""
    words = tuple(word.replace("$", "$$") for word in stack.command)
    if missing := installs(stack):
        words = ("sh", "-c", " && ".join([*missing, f"exec {shell(words)}"]))
    head = places.head_address or f"{job.name}-0.{job.name}"
    together = servers_of_replica(job) if job.is_service else job.num_nodes
    return list(launched(words, node_rank=places.node_rank, num_nodes=str(together), head_address=head))


def container(job: Job, *, name: str = "main", places: Places | None = None) -> dict[str, Any]:
    """The stack in a container."""
    stack = stack_of(one_replica(job))
    probes = {}
    if stack.port:
        check = {"httpGet": {"path": stack.health_path, "port": "http"}}
        probes = {
            "startupProbe": {**check, "periodSeconds": 10, "failureThreshold": math.ceil(longest_start_s(job) / 10)},
            "readinessProbe": {**check, "periodSeconds": 5},
            "livenessProbe": {**check, "periodSeconds": 20, "failureThreshold": 3},
        }
    mounts = [{"name": "memory", "mountPath": "/dev/shm"}]  # noqa: S108  shared memory that loaders and collectives use
    mounts += [{"name": "files", "mountPath": "/job"}] if stack.files else []
    mounts += [] if job.is_service else [{"name": "checkpoints", "mountPath": "/checkpoints"}]
    mounts += [{"name": "weights", "mountPath": WEIGHTS}] if keeps_weights(job) else []
    return given(
        name=name,
        image=stack.image,
        command=command_of(job, stack, places or Places()),
        workingDir="/job" if stack.files else None,
        env=environment(job, stack) or None,
        ports=[{"name": "http", "containerPort": stack.port}] if stack.port else None,
        resources=resources(job),
        volumeMounts=mounts,
        securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        **probes,
    )


def shared_gib(job: Job) -> int:
    """Shared memory, which counts as the pod's own: a third of it at most."""
    whole = (job.option.memory_bytes or 0.0) * SHARE_FOR_PODS / GIB
    return max(1, min(MOST_SHARED_GIB, int(whole / 3)))


def volumes_of(job: Job, *, claims: bool = False) -> list[dict[str, Any]]:
    """Shared memory, the stack's files, and where checkpoints and weights go."""
    stack = stack_of(job)
    volumes: list[dict[str, Any]] = [{"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shared_gib(job)}Gi"}}]
    if stack.files:
        volumes.append({"name": "files", "configMap": {"name": job.name}})
    if not job.is_service:
        volumes.append({"name": "checkpoints", "persistentVolumeClaim": {"claimName": job.name}})
    return [*volumes, *weights_volumes(job, claims=claims)]


def pod_spec(job: Job, *, main: dict[str, Any] | None = None, claims: bool = False, **more: Any) -> dict[str, Any]:
    """A pod with the container, its volumes and its place."""
    return {
        "automountServiceAccountToken": False,
        "securityContext": SECURITY,
        "containers": [main or container(job)],
        "volumes": volumes_of(job, claims=claims),
        **placement(job),
        **({"schedulerName": "volcano"} if queue_of(job)[0] == "volcano" else {}),
        **more,
    }


def pod_metadata(job: Job) -> dict[str, Any]:
    """Labels of a pod, and the mark by which a cluster of Google lets it mount a bucket."""
    notes: dict[str, str] = {}
    if not job.is_service and job.settings.bucket.startswith("gs://"):
        notes["gke-gcsfuse/volumes"] = "true"
    if job.is_service and (port := stack_of(job).port):  # by these the chart of Prometheus finds what to read
        notes |= {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": "/metrics"}
    if queue_of(job)[0] == "volcano":
        notes[POD_GROUP] = job.name
    return given(labels=labels(job), annotations=notes or None)


POD_GROUP = "scheduling.k8s.io/group-name"
"""The annotation by which Volcano knows the pods that must start together."""


def queue_of(job: Job) -> tuple[str, str]:
    """(kueue or volcano, queue) where the job waits in a queue of its cluster; empty where
    it starts at once."""
    kind, _, name = job.settings.queue.partition("/")
    return kind, name


def queued(job: Job, *, pods: int) -> dict[str, Any]:
    """Name and labels of what Kueue holds back until its queue has room for all of it."""
    kind, name = queue_of(job)
    found = metadata(job)
    return {**found, "labels": {**found["labels"], "kueue.x-k8s.io/queue-name": name}} if kind == "kueue" and pods else found


def queue_objects(job: Job, *, pods: int) -> list[dict[str, Any]]:
    """Volcano's group: pods of its queue that start together or not at all."""
    kind, name = queue_of(job)
    spec = {"minMember": pods, "queue": name}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata(job), "spec": spec}
    return [group] if kind == "volcano" else []


def files_objects(job: Job) -> list[dict[str, Any]]:
    """The stack's files as an object, where it has any."""
    stack = stack_of(job)
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(job), "data": dict(stack.files)}] if stack.files else []


def checkpoint_objects(job: Job) -> list[dict[str, Any]]:
    """Where checkpoints go: the bucket of the settings through its cloud's driver, else a volume of
    the cluster's own kind."""
    size = {"requests": {"storage": f"{job.disk_gib}Gi"}}
    if job.settings.bucket:
        shape = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": metadata(job),
            "spec": {**shape, "capacity": size["requests"], "persistentVolumeReclaimPolicy": "Retain", **bucket_volume(job)},
        }
        claim_of_bucket = {**shape, "volumeName": job.name, "resources": size}
        return [volume, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata(job), "spec": claim_of_bucket}]
    modes = ["ReadWriteMany" if job.num_nodes > 1 else "ReadWriteOnce"]
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata(job),
            "spec": {"accessModes": modes, "resources": size},
        }
    ]


def metadata(job: Job, name: str = "") -> dict[str, Any]:
    """Name and labels."""
    return {"name": name or job.name, "labels": labels(job)}


def replicas_range(job: Job) -> tuple[int, int]:
    """Fewest and most replicas: those of the plan's day where it has a daily profile,
    else the plan's count."""
    day = job.section("autoscaling")
    planned = max(1, job.option.layout.replicas)
    least, most = (int(float(day.get(name) or planned)) for name in ("min_replicas", "max_replicas"))
    return max(1, least), max(least, most, 1)
