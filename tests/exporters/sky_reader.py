"""SkyPilot itself on local prices: run in a process of its own, because SkyPilot looks at its folder when it is imported. Reads a request
(JSON) from the
standard input, {"tasks": {name: task}}, and writes {name: {"chosen": [cloud, region, instance_type, use_spot, hourly], "service": ...,
"recovery": ...}}."""

from __future__ import annotations

import json
import sys
from typing import Any

CLOUDS = ["aws", "azure", "gcp", "verda", "cudo", "nebius", "lambda", "runpod"]
ASKS_ITS_CLOUD = ("gcp", "azure")
"""Clouds whose dry run asks the cloud itself (zones, quotas, images): SkyPilot's choice is all that is looked at there."""
ASKED: list[str] = []


def enable() -> None:
    """Every cloud of the local prices counts as set up."""
    from sky import check, global_user_state
    from sky.clouds import cloud

    for kind in (cloud.CloudCapability.COMPUTE, cloud.CloudCapability.STORAGE):
        global_user_state.set_enabled_clouds(CLOUDS, kind, "default")
    # Without this SkyPilot thinks that its settings changed, and asks the clouds themselves.
    global_user_state.set_allowed_clouds(check._get_workspace_allowed_clouds("default"), "default")


def answer(values: dict[str, Any]) -> dict[str, Any]:
    """What SkyPilot makes of one task."""
    import sky
    from sky import execution
    from sky.utils import common

    values = dict(values)
    if "envs" in values:  # what is null is given at launch
        values["envs"] = {name: "s3://given/at-launch" if value is None else value for name, value in values["envs"].items()}
    task = sky.Task.from_yaml_config(dict(values), secrets_overrides=[(name, "x") for name in values.get("secrets", {})])
    with sky.Dag() as dag:
        dag.add(task)
    try:
        sky.Optimizer.optimize(dag, minimize=common.OptimizeTarget.COST, quiet=True)
    except sky.exceptions.ResourcesUnavailableError:
        return {"chosen": None}
    best = task.best_resources
    # The dry run would make buckets; without them it asks no cloud for anything.
    dry = {name: value for name, value in values.items() if name != "file_mounts"}
    # So does the fast network: how many adapters a server has.
    dry["resources"] = {name: value for name, value in dry["resources"].items() if name != "network_tier"}
    dry_task = sky.Task.from_yaml_config(dry, secrets_overrides=[(name, "x") for name in values.get("secrets", {})])
    if "run" in values and str(best.cloud).lower() not in ASKS_ITS_CLOUD:
        execution.launch(dry_task, cluster_name="rightfit", dryrun=True)
    price = best.instance_type and best.cloud.instance_type_to_hourly_cost(best.instance_type, best.use_spot, best.region, best.zone)
    service = task.service
    return {
        "chosen": [str(best.cloud).lower(), best.region, best.instance_type, best.use_spot, price],
        "recovery": best.job_recovery,
        "nodes": task.num_nodes,
        "mounts": {path: store.mode.value for path, store in task.storage_mounts.items()},
        "service": service and [service.min_replicas, service.max_replicas, service.target_qps_per_replica, service.readiness_path],
    }


def lacking() -> dict[str, list[str]]:
    """What SkyPilot says that it cannot do on each cloud, in the words of our own table."""
    import sky
    from sky.utils import registry

    words = {"storage_mounting": "mount", "multi-node": "nodes", "open_ports": "ports", "autodown": "stop", "spot_instance": "spot"}
    found = {}
    for name in registry.CLOUD_REGISTRY:
        features = registry.CLOUD_REGISTRY[name]._unsupported_features_for_resources(sky.Resources()) if name in ASKED else {}
        found[name] = sorted(words[feature.value] for feature in features if feature.value in words)
    return found


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    enable()
    ASKED.extend(request["clouds"])
    answers: dict[str, Any] = {name: answer(task) for name, task in request["tasks"].items()}
    answers["lacks"] = lacking()
    print("ANSWER " + json.dumps(answers, default=str))


if __name__ == "__main__":
    main()
