"""SkyPilot itself reads every exported task: parser, optimizer on our own prices, and the dry run of a launch. One process for all
(sky_reader.py)."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import sky_catalog
import yaml
from jobs import files, hostile, job, taken

import rightfit
from rightfit.export.seller_names import skypilot_name
from rightfit.export.serving_words import servers_of_replica
from rightfit.export.targets.skypilot import CLOUDS, LACKS
from rightfit.facts.tables import table

pytestmark = pytest.mark.skipif(importlib.util.find_spec("sky") is None, reason="skypilot is not installed (pip install skypilot==0.14.1)")
RANKED = (("L40S", "L40S", 1), ("H100-SXM-80GB", "H100", 1), ("A100-SXM-80GB", "A100-80GB", 1), ("L4", "L4", 1))
"""Accelerator, SkyPilot's name of it, and how many of one server: the two rankings of providers are compared."""
RANKED_CLOUDS = ("aws", "gcp", "lambda", "nebius", "runpod")


def tasks() -> dict[str, dict[str, Any]]:
    """What SkyPilot is asked: the exports, those with hostile names, and the cheapest server of each provider for fixed accelerators."""
    found = {}
    for name in taken("skypilot"):
        for maker in (files, hostile):
            found[f"{maker.__name__} {name}"] = yaml.safe_load(maker("skypilot", name)["task.yaml"])
    pods = {row["accelerator"]: row["skypilot"] for row in table("runpod_cards")}
    for accelerator, card, count in RANKED:
        for cloud in RANKED_CLOUDS:
            name = pods[accelerator] if cloud == "runpod" else card
            found[f"rank {card} {count} {cloud}"] = {"resources": {"infra": cloud, "accelerators": f"{name}:{count}"}}
    for task in found.values():
        task.pop("workdir", None)
    return found


@functools.cache
def answers() -> dict[str, Any]:
    """SkyPilot's answers to all of them."""
    with tempfile.TemporaryDirectory() as home:
        sky_catalog.write(Path(home))
        environment = {**os.environ, "HOME": home, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
        if not shutil.which("rsync"):  # asked for its version before anything, and a dry run copies nothing
            stand_in = Path(home) / "bin" / "rsync"
            stand_in.parent.mkdir()
            stand_in.write_text("#!/bin/sh\n")
            stand_in.chmod(0o755)
            environment["PATH"] = os.pathsep.join((str(stand_in.parent), environment["PATH"]))
        request = json.dumps({"tasks": tasks(), "clouds": sorted(CLOUDS.values())})
        reader = [sys.executable, str(Path(__file__).with_name("sky_reader.py"))]
        found = subprocess.run(reader, input=request, capture_output=True, text=True, env=environment, check=False, timeout=500)
        [line] = [line for line in found.stdout.splitlines() if line.startswith("ANSWER ")] or [found.stdout[-3000:] + found.stderr[-3000:]]
    assert line.startswith("ANSWER "), line
    values: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
    return values


@pytest.mark.parametrize("name", taken("skypilot"))
def test_tasks_are_parsed_chosen_and_launched_dry(name: str) -> None:
    """SkyPilot chooses the plan's server, by its own optimizer; the dry run went through, or there would be no answer."""
    planned = job(name)
    for maker in ("files", "hostile"):
        found = answers()[f"{maker} {name}"]
        cloud, _region, instance_type, is_spot, _price = found["chosen"]
        assert (cloud, instance_type, is_spot) == (CLOUDS[planned.option.provider], skypilot_name(planned.option), planned.is_spot)
        assert found["nodes"] == (servers_of_replica(planned) if planned.is_service else planned.num_nodes)
        assert bool(found["recovery"]) == (planned.is_spot and not planned.is_service)
        assert set(found["mounts"].values()) <= {"MOUNT_CACHED"}
        assert bool(found["service"]) == planned.is_service
        if planned.is_service:
            assert found["service"][0] == planned.num_nodes // servers_of_replica(planned)


@pytest.mark.parametrize(("accelerator", "card", "count"), RANKED)
def test_the_ranking_of_providers_is_ours(accelerator: str, card: str, count: int) -> None:
    """For fixed accelerators SkyPilot's optimizer, on the same prices, puts the providers in the order of our plan."""
    theirs = {cloud: answers()[f"rank {card} {count} {cloud}"]["chosen"] for cloud in RANKED_CLOUDS}
    prices = {cloud: float(found[4]) for cloud, found in theirs.items() if found}
    ours: dict[str, float] = {}
    for provider in prices:
        plan = rightfit.plan(
            "bert-base-uncased",
            task="finetune",
            data="100ksamples",
            seq_len=128,
            gpu=accelerator,
            max_nodes=1,
            cloud=provider,
            purchase="on-demand",
            top=10,
        )
        found = [option for option in plan.to_dict()["options"] if option["accelerator"]["count_per_node"] == count]
        ours[provider] = min(option["cost"]["hourly_usd"] for option in found)
    assert len(prices) >= 2
    assert sorted(prices, key=prices.__getitem__) == sorted(ours, key=ours.__getitem__)
    assert ours == pytest.approx(prices, rel=1e-6)


def test_what_it_cannot_do_is_its_own_table() -> None:
    theirs = answers()["lacks"]
    assert {cloud: sorted(LACKS.get(cloud, set())) for cloud in CLOUDS.values()} == {cloud: theirs[cloud] for cloud in CLOUDS.values()}


def test_the_schema_would_find_a_wrong_key() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from sky.utils import schemas

    task = yaml.safe_load(files("skypilot", "qlora-8b")["task.yaml"])
    jsonschema.validate(task, schemas.get_task_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**task, "runn": "x"}, schemas.get_task_schema())
