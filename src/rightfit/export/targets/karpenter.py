"""Karpenter: a pool that may rent the plan's server type, and those of its alternatives that run the same job, with a ceiling at the plan's
count."""

from __future__ import annotations

from typing import Any

from rightfit.export.document import OptionPart
from rightfit.export.job import SPOT, Job
from rightfit.export.kubernetes_words import card_resource, metadata
from rightfit.export.operations import most_servers
from rightfit.export.quoting import given, label, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.messages import Message

CLASSES = {"aws": ("karpenter.k8s.aws", "EC2NodeClass"), "azure": ("karpenter.azure.com", "AKSNodeClass")}
LONGEST_LIFE = "720h"


def types_of(job: Job) -> list[str]:
    """Server types of the pool: the plan's first, then alternatives in the same region that run the same layout and are bought the same
    way."""
    same = [other.instance_type for other in job.alternatives if _runs_the_same(job.option, other)]
    return list(dict.fromkeys([job.option.instance_type, *same]))


def _runs_the_same(option: OptionPart, other: OptionPart) -> bool:
    place = (option.provider, option.region, option.nodes, option.layout, option.accelerator.count_per_node)
    return place == (other.provider, other.region, other.nodes, other.layout, other.accelerator.count_per_node) and (
        (other.purchase == SPOT) == (option.purchase == SPOT)
    )


def pool(job: Job) -> dict[str, Any]:
    """The NodePool. Nodes of a run are not moved while it runs; empty ones are given back at once."""
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
            "limits": limits(job),
        },
    }


def limits(job: Job) -> dict[str, str]:
    """No more than the plan can need, whatever asks for nodes: a ceiling on the bill."""
    servers = most_servers(job)
    found = {"cpu": str(int(job.option.vcpus * servers))} if job.option.vcpus else {}
    return found | ({card_resource(job): str(job.gpus_per_node * servers)} if job.gpus_per_node else {"nodes": str(servers)})


def node_class(job: Job) -> dict[str, Any]:
    """What a node is made of: image, disk, and on AWS the networks that carry the cluster's discovery tag."""
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


def write(job: Job) -> Files:
    """The pool and its class."""
    return {"nodepool.yaml": to_yaml(node_class(job), pool(job))}


def _refuses(job: Job) -> Message | str:
    if job.option.provider not in CLASSES:
        return Message("export.part_karpenter", clouds=" and ".join(CLASSES), provider=job.option.provider)
    if job.option.region in ("", "any"):
        return Message("export.part_no_region")
    return ""


TARGET = Target(
    "karpenter",
    "kubernetes",
    "Karpenter pool of the plan's server types, with a ceiling",
    write,
    _refuses,
    checked_by="its definition's schema, unknown fields refused; the fake API server",
    run="kubectl apply -f nodepool.yaml",
)
