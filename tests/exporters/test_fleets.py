"""The files of a fleet before the programs that read them: SkyPilot's parser and optimizer-free
task model, dstack's models, the schemas of Kueue and Karpenter, and for finance the sums."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crds
import pytest
import yaml

from rightfit.errors import InputError
from rightfit.exports.fleet_files import most_at_once
from rightfit.exports.fleets import FLEET_TARGETS, checked, files_of_fleet
from rightfit.fleets.planning import with_plans

FLEET: dict[str, Any] = json.loads((Path(__file__).parent / "data/fleet.json").read_text("utf-8"))


def documents(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(text) if one]


def test_every_target_writes_something() -> None:
    for name in FLEET_TARGETS:
        assert files_of_fleet(checked(FLEET), name), name


def test_the_purchase_list_adds_up() -> None:
    files = files_of_fleet(FLEET, "purchases")
    rows = list(csv.DictReader(io.StringIO(files["purchases.csv"])))
    assert [row["purchase"] for row in rows] == [row["purchase"] for row in FLEET["purchases"]]
    placed = list(csv.DictReader(io.StringIO(files["placements.csv"])))
    total = sum(float(row["this_plan_usd"]) for row in rows) + sum(float(row["cost_usd"]) for row in placed)
    assert total == pytest.approx(FLEET["cost"]["total_usd"], rel=1e-9)


def test_no_cell_is_a_formula() -> None:
    evil = {**FLEET, "placements": [{**FLEET["placements"][0], "name": "=cmd()"}]}
    assert "\n=cmd" not in files_of_fleet(evil, "purchases")["placements.csv"]


def test_most_at_once_counts_what_overlaps() -> None:
    rows = [
        {"start_h": 0, "end_h": 2, "servers": 2, "count": 1},
        {"start_h": 1, "end_h": 3, "servers": 1, "count": 3},
        {"start_h": 3, "end_h": 4, "servers": 4, "count": 1},
    ]
    assert most_at_once(rows) == 5


@pytest.mark.parametrize("fleet", [lambda: FLEET, lambda: with_plans(FLEET)], ids=["manually", "with plans"])
def test_skypilot_reads_every_job_with_its_servers_in_order(fleet: Callable[[], dict[str, Any]]) -> None:
    sky = pytest.importorskip("sky", reason="SkyPilot is not installed (pip install skypilot)")
    files = files_of_fleet(fleet(), "skypilot")
    jobs = [path for path in files if path.endswith("task.yaml")]
    assert jobs
    for path in jobs:
        values = yaml.safe_load(files[path])
        rented = [row for row in FLEET["placements"] if row["kind"] == "job" and row["purchase"] != "owned"]
        row = next(row for row in rented if re.sub(r"-\d+$", "", row["name"]) == re.sub(r"-\d+$", "", path.partition("/")[0]))
        given = values["resources"].get("ordered", [values["resources"]])
        assert given[0]["instance_type"] == row["instance_type"]
        values.pop("workdir")
        values.pop("file_mounts", None)  # they are mounted in test_skypilot.py
        values["envs"] = {name: value or "s3://mine" for name, value in values.get("envs", {}).items()}
        task = sky.Task.from_yaml_config(values, secrets_overrides=[(name, "x") for name in values.get("secrets", {})])
        asked = list(task.resources)
        assert [one.instance_type for one in asked] == [place["instance_type"] for place in given]
        assert [one.use_spot for one in asked] == [place["use_spot"] for place in given]
        assert task.num_nodes == row["servers"]
        assert all(one.job_recovery["strategy"] == "FAILOVER" for one in asked)


def test_the_submitting_script_is_a_script() -> None:
    files = files_of_fleet(FLEET, "skypilot")
    for path in (path for path in files if path.endswith(".sh")):
        done = subprocess.run(["bash", "-n"], input=files[path], text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    rented = sum(row["count"] for row in FLEET["placements"] if row["kind"] == "job" and row["purchase"] != "owned")
    assert sum(text.count("sky jobs launch") for path, text in files.items() if path.endswith(".sh")) == rented


def test_dstack_reads_every_fleet() -> None:
    configurations = pytest.importorskip(
        "dstack._internal.core.models.configurations", reason="dstack is not installed (pip install dstack)"
    )
    files = files_of_fleet(with_plans(FLEET), "dstack")
    runs = [path for path in files if path.endswith("run.dstack.yml")]
    assert runs
    for path in runs:
        values = yaml.safe_load(files[path])
        assert configurations.DstackConfiguration.model_validate(values).root.fleets
        assert [f"{fleet}.dstack.yml" in files for fleet in values["fleets"]] == [True]
    for text in (text for path, text in files.items() if "/" not in path and path.endswith(".yml")):
        fleet = configurations.DstackConfiguration.model_validate(yaml.safe_load(text)).root
        assert fleet.nodes.min == 0
        assert fleet.nodes.max >= 1
        assert fleet.instance_types[0] in {row["instance_type"] for row in FLEET["placements"]}


@pytest.mark.skipif(crds.FOLDER is None, reason=crds.WHY_SKIPPED)
@pytest.mark.parametrize("target", ["kueue", "karpenter"])
def test_objects_follow_the_operators_definitions(target: str) -> None:
    for text in files_of_fleet(FLEET, target).values():
        for one in documents(text):
            if "." in one["apiVersion"]:
                crds.check(one)
            else:  # of Kubernetes itself
                pytest.importorskip("kubernetes_validate").validate(one, "1.31", strict=True)


def test_queues_share_what_the_plan_has() -> None:
    found = documents(files_of_fleet(FLEET, "kueue")["kueue.yaml"])
    flavours = {one["metadata"]["name"] for one in found if one["kind"] == "ResourceFlavor"}
    queues = [one for one in found if one["kind"] == "ClusterQueue"]
    assert {one["metadata"]["name"] for one in queues} >= {"nlp", "vision"}
    for queue in queues:
        group = queue["spec"]["resourceGroups"][0]
        assert {one["name"] for one in group["flavors"]} == flavours
        cards = [quota["nominalQuota"] for one in group["flavors"] for quota in one["resources"] if quota["name"] == "nvidia.com/gpu"]
        assert sum(cards) > 0
    assert {one["spec"]["clusterQueue"] for one in found if one["kind"] == "LocalQueue"} == {one["metadata"]["name"] for one in queues}


def test_what_is_bought_comes_before_what_is_rented() -> None:
    pools = documents(files_of_fleet(FLEET, "karpenter")["nodepools.yaml"])
    weight = {pool["metadata"]["name"]: pool["spec"]["weight"] for pool in pools}
    bought = [name for name in weight if name.endswith("-reserved")]
    assert len(bought) == len({(row["instance_type"], row["region"]) for row in FLEET["purchases"]})
    assert all(weight[name] > weight[name.removesuffix("-reserved")] for name in bought)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "is not the plan of a fleet"),
        ({"kind": "fleet", "placements": [{}]}, "placement 1 is not whole"),
        ({"kind": "fleet", "placements": 3}, "is not the plan"),
    ],
)
def test_what_is_no_plan_of_a_fleet_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        checked(values)


def test_an_unknown_target_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean skypilot"):
        files_of_fleet(FLEET, "skypilott")
