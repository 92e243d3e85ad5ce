"""SkyPilot itself on local prices: run in a process of its own, because SkyPilot looks at its
folder when it is imported. Reads a request (JSON) from the standard input, {"tasks":
{name: task}}, and writes {name: {"chosen": [cloud, region, instance_type, use_spot, hourly],
"service": ..., "recovery": ..., "stored": ...}}. What a task has null among its variables is given
with it, as at a launch."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from sky_stores import Stores

CLOUDS = ["aws", "azure", "gcp", "verda", "cudo", "nebius", "lambda", "runpod"]
ASKS_ITS_CLOUD = ("gcp", "azure")
"""Clouds whose dry run asks the cloud itself (zones, quotas, images): SkyPilot's choice is all that
is looked at there."""
ASKED: list[str] = []


def enable() -> None:
    """Every cloud of the local prices counts as set up."""
    from sky import check, global_user_state
    from sky.clouds import cloud

    for kind in (cloud.CloudCapability.COMPUTE, cloud.CloudCapability.STORAGE):
        global_user_state.set_enabled_clouds(CLOUDS, kind, "default")
    # Without this SkyPilot thinks that its settings changed, and asks the clouds themselves.
    global_user_state.set_allowed_clouds(check._get_workspace_allowed_clouds("default"), "default")


def parsed(values: dict[str, Any]) -> Any:
    """The task, as SkyPilot reads it each time anew: a storage is connected to once."""
    import sky

    return sky.Task.from_yaml_config(json.loads(json.dumps(values)), secrets_overrides=[(name, "x") for name in values.get("secrets", {})])


def buckets(task: Any) -> list[str]:
    """Addresses of the buckets that a task mounts, whatever way it names them."""
    cloud = str(next(iter(task.resources)).cloud).lower()
    own = {"gcp": "gs://", "azure": "https://sky.blob.core.windows.net/"}.get(cloud, "s3://")
    return [whole(store.source) if store.source else own + store.name for store in task.storage_mounts.values()]


def whole(source: str) -> str:
    """The bucket's part of an address."""
    return "/".join(source.split("/")[: 4 if source.startswith("https") else 3])


def stored(values: dict[str, Any], stores: Stores) -> dict[str, str]:
    """What SkyPilot says to the task's buckets where they are ours, a stranger's, and not there:
    the folders and what is mounted there, or the error."""
    found = {}
    for state, owner in (("ours", False), ("strange", True), ("missing", None)):
        task = parsed(values)
        addresses = buckets(task) if owner is not None else []
        for address in addresses:
            stores.make(address, is_strange=bool(owner))
        try:
            task.sync_storage_mounts()
            found[state] = ", ".join(sorted(mounted(path, store) for path, store in task.storage_mounts.items()))
        except Exception as error:
            found[state] = f"{type(error).__name__}: {error}"
        for address in addresses:
            stores.take(address)
    return found


def refused(address: str) -> bool:
    """Whether SkyPilot's own checks of an address refuse it for a mount, before
    any cloud is asked."""
    from sky import exceptions
    from sky.data import data_utils, storage

    kinds = {"s3": storage.S3Store, "gs": storage.GcsStore, "https": storage.AzureBlobStore}
    try:
        found = storage.Storage(source=address, mode=storage.StorageMode.MOUNT_CACHED)
        found._validate_storage_spec(None)
        kinds[address.partition("://")[0]].validate_name(found.name)
    except exceptions.StorageSpecError:
        return True
    return address.startswith("https") and not data_utils.is_az_container_endpoint(address)


def mounted(path: str, storage: Any) -> str:
    """Folder and bucket in SkyPilot's own command."""
    [store] = storage.stores.values()
    found = re.search(r"rclone mount (\S+) (\S+)", store.mount_cached_command(path))
    return " ".join(found.groups()) if found else "nothing is mounted"


def answer(values: dict[str, Any], stores: Stores) -> dict[str, Any]:
    """What SkyPilot makes of one task."""
    import sky
    from sky import execution
    from sky.serve import serve_utils
    from sky.utils import common

    task = parsed(values)
    with sky.Dag() as dag:
        dag.add(task)
    try:
        sky.Optimizer.optimize(dag, minimize=common.OptimizeTarget.COST, quiet=True)
    except sky.exceptions.ResourcesUnavailableError:
        return {"chosen": None}
    best = task.best_resources
    # The fast network asks the cloud how many adapters a server has.
    dry = {**values, "resources": {name: value for name, value in values["resources"].items() if name != "network_tier"}}
    dry_task = parsed(dry)
    for address in buckets(dry_task):
        stores.make(address, is_strange=False)
    if "run" in values and str(best.cloud).lower() not in ASKS_ITS_CLOUD:
        execution.launch(dry_task, cluster_name="rightfit", dryrun=True)
    for address in buckets(dry_task):
        stores.take(address)
    price = best.instance_type and best.cloud.instance_type_to_hourly_cost(best.instance_type, best.use_spot, best.region, best.zone)
    service = task.service
    if service:
        serve_utils.validate_service_task(parsed(values), pool=False)
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
    words |= {"host_controllers": "controllers"}
    found = {}
    for name in registry.CLOUD_REGISTRY:
        features = registry.CLOUD_REGISTRY[name]._unsupported_features_for_resources(sky.Resources()) if name in ASKED else {}
        found[name] = sorted(words[feature.value] for feature in features if feature.value in words)
    return found


def opt_in() -> list[str]:
    """Regions of Amazon whose buckets SkyPilot does not mount."""
    from sky.data import storage

    return list(storage.S3Store._CUSTOM_ENDPOINT_REGIONS)


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    enable()
    ASKED.extend(request["clouds"])
    stores = Stores()
    answers: dict[str, Any] = {name: answer(task, stores) for name, task in request["tasks"].items()}
    answers["stored"] = {name: stored(task, stores) for name, task in request["stored"].items()}
    answers["forms"] = {name: stored(task, stores)["ours"] for name, task in request["forms"].items()}
    answers["addresses"] = {address: refused(address) for address in request["addresses"]}
    answers["lacks"] = lacking()
    answers["opt_in"] = opt_in()
    print("ANSWER " + json.dumps(answers, default=str))


if __name__ == "__main__":
    main()
