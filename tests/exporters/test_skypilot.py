"""SkyPilot itself reads every exported task: parser, optimizer on our own prices, the dry run of a
launch with its bucket, and what it says to buckets that are ours, a stranger's or not there. One
process for all (sky_reader.py)."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import importlib.util
import json
import os
import re
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
from typical_plans import FURTHER, OTHER_KINDS, WISHES

import rightfit
from rightfit.exports import Job, find_target, job_of, plan_document, skypilot_words
from rightfit.exports.buckets import BUCKET, SCHEMES, bucket_of, place_of, whole
from rightfit.exports.model_words import servers_of_replica
from rightfit.exports.recipes import sky_commands
from rightfit.exports.skypilot_words import CLOUDS, LACKS, MOUNTED, skypilot_name
from rightfit.exports.targets.skypilot import PSEUDO_REGIONS
from rightfit.facts.tables import table

pytestmark = pytest.mark.skipif(importlib.util.find_spec("sky") is None, reason="skypilot is not installed (pip install skypilot==0.14.1)")
RANKED = (("L40S", "L40S", 1), ("H100-SXM-80GB", "H100", 1), ("A100-SXM-80GB", "A100-80GB", 1), ("L4", "L4", 1))
"""Accelerator, SkyPilot's name of it, and how many of one server: the two rankings of
providers are compared."""
RANKED_CLOUDS = ("aws", "gcp", "lambda", "nebius", "runpod")


BUCKETS = {
    "s3": ("s3://mine", "s3://mine/runs", "s3://mine/runs/of.us/", "s3://my.own-bucket/a_b"),
    "gs": ("gs://mine", "gs://mine/runs", "gs://my_own.bucket/a/b/"),
    "https": ("https://mine.blob.core.windows.net/box", "https://mine.blob.core.windows.net/box/runs/of.us"),
}
"""Buckets that a user may name, alone and with folders in them."""
NAMES = (
    *("ab", "abc", "a" * 63, "a" * 64, "a" * 200, "a" * 60 + ".b", "a" * 64 + ".b", "b." + "a" * 64),
    *("a.b", "a..b", "a.-b", "a_b", "a--b", "-ab", "ab-", "Abc", "1.2.3.4", "1.2.3"),
    *("xn--a", "xn-a", "mine-s3alias", "s3alias-mine", "mine--ol-s3"),
    *("google-x", "goog-x", "a-g00gle", "a-go0gle", "agoogler"),
)
ADDRESSES = (
    *(f"{begin}{name}" for begin in ("s3://", "gs://", "https://mine.blob.core.windows.net/") for name in NAMES),
    *(
        "https://mine.blob.core.windows.net",
        "https://example.com/box",
        "https://Mine.blob.core.windows.net/box",
        "https://m.blob.core.windows.net/box",
    ),
    *("oss://mine", "s3://", "gs://", "cos://mine"),
)
"""Names at the edge of what clouds allow."""
FORMS = {
    form: {"resources": {"infra": "aws"}, "file_mounts": {MOUNTED: {**words, "mode": "MOUNT_CACHED"}}}
    for form, words in {"name": {"name": "made-by-hand"}, "folder": {"source": "s3://mine/runs"}, "whole": {"source": "s3://mine"}}.items()
}
"""The ways to name a bucket that a user made."""


def of_lambda() -> Job:
    """A run on a cloud that mounts buckets, has none of its own, and hosts no controller."""
    wish = {**WISHES["lora-8b-aws"], "cloud": "lambda", "purchase": "on-demand"}
    return job_of(plan_document(rightfit.plan(**wish).to_dict()))


def launched(task: dict[str, Any], found: Job, bucket: str) -> dict[str, Any]:
    """The task with the variables that `rightfit launch` gives it where
    RIGHTFIT_BUCKET says `bucket`."""
    environment = {BUCKET: bucket, **dict.fromkeys(skypilot_words.secrets(found), "x")}
    words = sky_commands(found, dry_run=False, environment=environment)[-1]
    named = [words[number + 1] for number, word in enumerate(words) if word == "--env"]
    told = {word.partition("=")[0]: word.partition("=")[2] if "=" in word else environment[word] for word in named}
    return {**task, "envs": {**task["envs"], **told}} if told else task


def bucket_for(found: Job, number: int = 0) -> str:
    """One of the user's buckets in the words of the plan's cloud, or of S3 where the
    job itself copies."""
    known = BUCKETS["s3" if skypilot_words.copies(found) else SCHEMES.get(found.option.provider, "s3")]
    return known[number % len(known)]


def tasks() -> dict[str, dict[str, Any]]:
    """What SkyPilot is asked: the exports, those with hostile names, and the cheapest server of
    each provider for fixed accelerators."""
    found = {}
    for name in taken("skypilot"):
        for maker in (files, hostile):
            found[f"{maker.__name__} {name}"] = launched(
                yaml.safe_load(maker("skypilot", name)["task.yaml"]), job(name), bucket_for(job(name), 1)
            )
    pods = {row["accelerator"]: row["skypilot"] for row in table("runpod_cards")}
    for accelerator, card, count in RANKED:
        for cloud in RANKED_CLOUDS:
            name = pods[accelerator] if cloud == "runpod" else card
            found[f"rank {card} {count} {cloud}"] = {"resources": {"infra": cloud, "accelerators": f"{name}:{count}"}}
    return {name: {key: value for key, value in task.items() if key != "workdir"} for name, task in found.items()}


@functools.cache
def mounting() -> dict[str, tuple[dict[str, Any], str]]:
    """Every run of all the plans for which SkyPilot mounts a bucket, as it is launched: named by
    nobody, at the launch, and at the export, with and without a folder -> the task, and where the
    job keeps what it makes."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    plans = {name: job(name) for name in (*WISHES, *FURTHER, *OTHER_KINDS)} | {"lora-8b-lambda": of_lambda()}
    target = find_target("skypilot")
    for name, plain in plans.items():
        if target.problem(plain) or not skypilot_words.mounts(plain):
            continue
        addresses = [address for known in BUCKETS.values() for address in known]
        for address in ("", *addresses):
            exported = dataclasses.replace(plain, settings=dataclasses.replace(plain.settings, bucket=address))
            task = launched(yaml.safe_load(target.files(exported)["task.yaml"]), exported, bucket_for(plain))
            told = f"{bucket_for(plain)}/{place_of(plain)}" if skypilot_words.bucket_is_told(exported) else ""
            kept = told or skypilot_words.kept_address(exported)
            found[f"{name} exported {address}"] = (task, kept)
        if skypilot_words.bucket_is_told(plain):
            for address in BUCKETS[SCHEMES.get(plain.option.provider, "s3")]:
                task = launched(yaml.safe_load(target.files(plain)["task.yaml"]), plain, address)
                found[f"{name} launched {address}"] = (task, f"{address.rstrip('/')}/{place_of(plain)}")
    return found


@functools.cache
def answers() -> dict[str, Any]:
    """SkyPilot's answers to all of them."""
    said = asked()
    assert said.startswith("ANSWER "), said
    values: dict[str, Any] = json.loads(said.removeprefix("ANSWER "))
    return values


@functools.cache
def asked() -> str:
    """What its process says: the answers, or the end of what went wrong."""
    with tempfile.TemporaryDirectory() as home:
        sky_catalog.write(Path(home))
        environment = {**os.environ, "HOME": home, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
        if not shutil.which("rsync"):  # asked for its version before anything, and a dry run copies nothing
            stand_in = Path(home) / "bin" / "rsync"
            stand_in.parent.mkdir()
            stand_in.write_text("#!/bin/sh\n")
            stand_in.chmod(0o755)
            environment["PATH"] = os.pathsep.join((str(stand_in.parent), environment["PATH"]))
        stored = {
            name: {key: task[key] for key in ("resources", "envs", "file_mounts") if key in task} for name, (task, _) in mounting().items()
        }
        for task in stored.values():  # one place of the server is enough to know its cloud
            places = task["resources"].get("ordered", [task["resources"]])
            task["resources"] = {"infra": places[0]["infra"]}
        wanted = {"tasks": tasks(), "clouds": sorted(CLOUDS.values()), "stored": stored, "addresses": ADDRESSES, "forms": FORMS}
        request = json.dumps(wanted)
        reader = [sys.executable, str(Path(__file__).with_name("sky_reader.py"))]
        found = subprocess.run(reader, input=request, capture_output=True, text=True, env=environment, check=False, timeout=1800)
    return next((line for line in found.stdout.splitlines() if line.startswith("ANSWER ")), found.stdout[-3000:] + found.stderr[-3000:])


@pytest.mark.parametrize("name", taken("skypilot"))
def test_tasks_are_parsed_chosen_and_launched_dry(name: str) -> None:
    """SkyPilot chooses the plan's server in the plan's region, by its own optimizer; the dry run
    went through, or there would be no answer. A service has passed its own check too."""
    planned = job(name)
    region = planned.option.region
    for maker in ("files", "hostile"):
        found = answers()[f"{maker} {name}"]
        cloud, chosen, instance_type, is_spot, _price = found["chosen"]
        assert region in (chosen, *PSEUDO_REGIONS)
        assert (cloud, instance_type, is_spot) == (CLOUDS[planned.option.provider], skypilot_name(planned.option), planned.is_spot)
        assert found["nodes"] == (servers_of_replica(planned) if planned.is_service else planned.num_nodes)
        assert bool(found["recovery"]) == (planned.is_spot and not planned.is_service)
        assert found["mounts"] == ({MOUNTED: "MOUNT_CACHED"} if skypilot_words.mounts(planned) else {})
        assert bool(found["service"]) == planned.is_service
        if planned.is_service:
            assert found["service"][0] == planned.num_nodes // servers_of_replica(planned)


@pytest.mark.parametrize(("accelerator", "card", "count"), RANKED)
def test_the_ranking_of_providers_is_ours(accelerator: str, card: str, count: int) -> None:
    """For fixed accelerators SkyPilot's optimizer, on the same prices, puts the providers in the
    order of our plan."""
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


def test_every_run_mounts_the_bucket_that_is_ours_and_works_in_its_own_folder() -> None:
    """SkyPilot's own Task.sync_storage_mounts, and its own command of the mount: a bucket that was
    made before it, by the user or by the exported line, is mounted whole; the job's set-up leads
    /checkpoints to the plan's folder in it, which is where the README brings the data and looks
    for the result."""
    faults = []
    for name, (task, kept) in mounting().items():
        address = whole(bucket_of(kept))
        said, wanted = answers()["stored"][name]["ours"], f":{bucket_of(kept).name} {MOUNTED}"
        if not said.endswith(wanted) or f"{address}/" not in f"{kept}/":
            faults.append(f"{name}: {said}")
        lines = [line for line in task["setup"].splitlines() if MOUNTED in line or "/checkpoints" in line]
        script = "\n".join(lines).replace("sudo ln -sfnT", "echo").replace("mkdir -p", "true")
        environment = {"PATH": os.environ["PATH"], **{key: str(value) for key, value in task.get("envs", {}).items()}}
        led = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, check=False, env=environment)
        place, _, link = led.stdout.strip().partition(" ")
        if (os.path.normpath(place), link) != (f"{MOUNTED}{kept.removeprefix(address)}", "/checkpoints"):
            faults.append(f"{name}: {led.stdout}{led.stderr}, not {kept}")
    assert len(mounting()) > 100
    assert not faults, "\n".join(faults)


def test_a_bucket_that_is_a_stranger_s_or_not_there_ends_before_a_server_is_rented() -> None:
    found = answers()["stored"]
    endings = {(state, said.partition(":")[0]) for states in found.values() for state, said in states.items() if state != "ours"}
    assert endings == {("strange", "StorageBucketGetError"), ("missing", "StorageBucketGetError")}


def test_the_reader_would_find_a_bucket_that_skypilot_refuses() -> None:
    """Both forms that it refuses are among its own answers: a name for a bucket that it did not
    make, and a folder behind the bucket."""
    theirs = answers()["addresses"]
    assert theirs["s3://mine-s3alias"]
    assert not theirs["s3://abc"]
    assert answers()["forms"]["name"].startswith("StorageSpecError: Attempted to mount a non-sky managed bucket")
    assert answers()["forms"]["folder"].startswith("StorageModeError: MOUNT mode does not support mounting specific files")
    assert answers()["forms"]["whole"].endswith(f":mine {MOUNTED}")


def test_addresses_that_it_takes_are_ours() -> None:
    """A name that a cloud would refuse ends at the export, in one line, and not at the launch."""
    assert {address: bool(skypilot_words.address_problem(address)) for address in ADDRESSES} == answers()["addresses"]


def test_what_it_cannot_do_is_its_own_table() -> None:
    theirs = answers()["lacks"]
    ours = {
        cloud: LACKS.get(cloud, set()) | ({"controllers"} if cloud in skypilot_words.NO_CONTROLLER else set()) for cloud in CLOUDS.values()
    }
    assert {cloud: sorted(words) for cloud, words in ours.items()} == {cloud: theirs[cloud] for cloud in CLOUDS.values()}
    assert sorted(skypilot_words.S3_OPT_IN) == sorted(answers()["opt_in"])


@functools.cache
def extras() -> dict[str, set[str]]:
    """SkyPilot's extras as its own package names them, each with the programs that it brings."""
    found: dict[str, set[str]] = {}
    for line in importlib.metadata.requires("skypilot") or ():
        if extra := re.search(r"extra == ['\"]([\w-]+)['\"]", line):
            found.setdefault(extra[1], set()).add(re.split(r"[ <>=!;\[]", line)[0])
    return found


@pytest.mark.parametrize("name", [*taken("skypilot"), "lora-8b-lambda"])
def test_the_install_line_names_extras_that_are_there(name: str) -> None:
    found = of_lambda() if name == "lora-8b-lambda" else job(name)
    words = re.findall(r"skypilot\[([\w,-]+)\]==([\d.]+)", skypilot_words.install(found))
    [(listed, version)] = words
    assert version == importlib.metadata.version("skypilot")
    # Clouds that need no packages of their own have an extra all the same.
    assert set(listed.split(",")) <= set(extras()) | set(importlib.metadata.metadata("skypilot").get_all("Provides-Extra") or ())
    if not found.is_service and bucket_for(found).startswith("s3"):
        assert "awscli" in set().union(*(extras().get(extra, set()) for extra in listed.split(",")))


def test_the_schema_would_find_a_wrong_key() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from sky.utils import schemas

    task = yaml.safe_load(files("skypilot", "qlora-8b")["task.yaml"])
    jsonschema.validate(task, schemas.get_task_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**task, "runn": "x"}, schemas.get_task_schema())
