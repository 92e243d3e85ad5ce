"""Objects of operators against the schemas of their definitions, made strict. The definitions are
the operators' own files, in a folder that RIGHTFIT_CRDS names:

ray.io_rayjobs.yaml, ray.io_rayservices.yaml            ray-project/kuberay@feeaf72fa,
                                                        ray-operator/config/crd/bases
karpenter.sh_nodepools.yaml                             kubernetes-sigs/karpenter@226646810,
                                                        pkg/apis/crds
karpenter.k8s.aws_ec2nodeclasses.yaml                   aws/karpenter-provider-aws@1d927085d,
                                                        pkg/apis/crds
karpenter.azure.com_aksnodeclasses.yaml                 Azure/karpenter-provider-azure,
                                                        pkg/apis/crds
serving.kserve.io_inferenceservices.yaml                kserve/kserve@aaac4e294, config/crd/full
trainer.kubeflow.org_{trainjobs,trainingruntimes}.yaml  kubeflow/trainer@8c0f5059b,
                                                        manifests/base/crds
leaderworkerset.x-k8s.io_leaderworkersets.yaml          kubernetes-sigs/lws@060ab4d,
                                                        config/crd/bases
jobset.x-k8s.io_jobsets.yaml                            kubernetes-sigs/jobset@08dfbdfd,
                                                        config/components/crd/bases
scheduling.volcano.sh_podgroups.yaml                    volcano-sh/volcano@ed72c7c81,
                                                        config/crd/volcano/bases
kueue.x-k8s.io_{resourceflavors,clusterqueues,localqueues,cohorts}.yaml
        kubernetes-sigs/kueue@ff69552e7, config/components/crd/bases
keda.sh_scaledobjects.yaml                              kedacore/keda@8b4f083ca, config/crd/bases
llm-d-modelservice.values.schema.json
        llm-d-incubation/llm-d-modelservice@3051935e, charts/llm-d-modelservice/values.schema.json
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(os.environ["RIGHTFIT_CRDS"]) if os.environ.get("RIGHTFIT_CRDS") else None
WHY_SKIPPED = "RIGHTFIT_CRDS names no folder with the operators' definitions (see tests/exporters/crds.py for their sources)"


@functools.cache
def definitions() -> dict[tuple[str, str], dict[str, Any]]:
    """(apiVersion, kind) -> strict schema."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("*.yaml")) if FOLDER else ():
        spec = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def strict(schema: Any) -> Any:
    """Objects take no key that their definition lacks; what may be a number or a text says so."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: strict(value) for key, value in schema.items()}
    if found.get("x-kubernetes-int-or-string") is True:
        return {key: value for key, value in found.items() if key not in ("type", "anyOf", "pattern")} | {"type": ["integer", "string"]}
    open_ended = found.get("x-kubernetes-preserve-unknown-fields") is True or "additionalProperties" in found
    if isinstance(found.get("properties"), dict) and not open_ended:
        found["additionalProperties"] = False
    return found


def check(value: dict[str, Any]) -> None:
    """ValidationError where the object is not of its kind; KeyError where the kind is
    not in the folder."""
    import jsonschema

    jsonschema.Draft202012Validator(definitions()[value["apiVersion"], value["kind"]]).validate(value)
