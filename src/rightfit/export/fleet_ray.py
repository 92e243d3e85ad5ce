"""The jobs of a fleet on Ray: a cluster of AWS for each region, whose kinds of nodes are the plan's servers, and jobs as placement groups."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from rightfit.export.fleet_parts import Files, Row, in_place, most_at_once, pools_of, slug
from rightfit.export.quoting import to_yaml

IDLE_MINUTES, HEAD = 5, "m7i.xlarge"


def ray(found: Row) -> Files:
    """For each region: cluster.yaml, jobs.json, and run_jobs.py, which starts every job as a gang at its time."""
    jobs = {**found, "placements": [row for row in found["placements"] if row["kind"] == "job"]}
    regions: dict[str, dict[str, tuple[tuple[str, bool], list[Row]]]] = {}
    for (provider, instance, region, spot), rows in pools_of(jobs).items():
        if provider == "aws" and in_place(region):
            name = slug(instance + ("-spot" if spot else ""))
            regions.setdefault(region, {})[name] = ((instance, spot), rows)
    files: dict[str, str] = {}
    for region, pools in regions.items():
        files[f"aws-{region}/cluster.yaml"] = f"# ray up aws-{region}/cluster.yaml\n" + to_yaml(_cluster(found, region, pools))
        listed = sorted((_job(row, name) for name, (_, rows) in pools.items() for row in rows), key=lambda job: (job["start"], job["name"]))
        files[f"aws-{region}/jobs.json"] = json.dumps(listed, indent=2, ensure_ascii=False) + "\n"
        files[f"aws-{region}/run_jobs.py"] = resources.files("rightfit.export.scripts").joinpath("run_ray_jobs.py").read_text("utf-8")
    return files


def _cluster(found: Row, region: str, pools: Any) -> dict[str, Any]:
    kinds = {
        name: {
            "node_config": {"InstanceType": instance, **({"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {})},
            "resources": {**_cards(rows[0]), name: 1},
            "min_workers": 0,
            "max_workers": most_at_once(rows),
        }
        for name, ((instance, spot), rows) in pools.items()
    }
    head = {"node_config": {"InstanceType": HEAD}, "resources": {"CPU": 0}, "min_workers": 0, "max_workers": 0}
    return {
        "cluster_name": slug(f"{found['name']}-{region}"),
        "max_workers": sum(kind["max_workers"] for kind in kinds.values()),
        "idle_timeout_minutes": IDLE_MINUTES,
        "provider": {"type": "aws", "region": region},
        "auth": {"ssh_user": "ubuntu"},
        "head_node_type": "head",
        "available_node_types": {"head": head, **kinds},
    }


def _cards(row: Row) -> dict[str, int]:
    cards = int(row["accelerators_per_server"]) if row["accelerator"] else 0
    return {"GPU": cards} if cards else {}


def _job(row: Row, pool: str) -> dict[str, Any]:
    """A job as the script reads it: each of its servers is a bundle that takes a whole node of its pool."""
    return {
        "name": row["name"],
        "start": row["start"],
        "count": row["count"],
        "servers": row["servers"],
        "bundle": {**_cards(row), pool: 1},
    }
