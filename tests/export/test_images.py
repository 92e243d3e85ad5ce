"""Every image that exported files name is in a table, with date and source, and is one for the card
of the plan."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from typical_plans import plan_values

import rightfit.exports
from rightfit.exports import job_of, plan_document
from rightfit.exports.model_words import image_of
from rightfit.exports.stack import stack_of, stack_problem
from rightfit.facts.devices import builds
from rightfit.facts.engine_releases import image_for, images, releases, runs_on
from rightfit.facts.tables import table

HOSTS = ("ghcr.io/", "nvcr.io/", "rayproject/", "docker.io/", "quay.io/")
IMAGE = re.compile(r"(?:[a-z0-9.-]+/)*[a-z0-9.-]+:(?:[a-z]{1,12}-?)?v?\d+\.[\w.-]+")
NAMES = sorted({row["name"] for row in table("images")})


def test_every_image_has_a_whole_tag_a_date_and_a_source() -> None:
    rows = table("images")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row["as_of"]) and row["source"] for row in rows)
    assert all(re.fullmatch(r"[a-z0-9./-]+:[\w.-]+", row["image"]) and "latest" not in row["image"] for row in rows)
    assert all(row["version"] in row["image"] for row in rows)
    assert all((row["vendor"] == "") == (row["serves"] == "") for row in rows)


def test_no_program_names_an_image_of_its_own() -> None:
    """A tag that stands in code has neither date nor source."""
    named = {}
    for path in Path(rightfit.exports.__file__).parent.rglob("*.py"):
        if path.parent.name == "scripts":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if IMAGE.fullmatch(text) or (text.startswith(HOSTS) and ":" in text):
                named[path.name, text] = node.lineno
    assert not named


@pytest.mark.parametrize("name", NAMES)
def test_the_image_is_of_the_card(name: str) -> None:
    for one in images(name):
        for card in ("H100-SXM-80GB", "MI300X", "GH200-96GB", "V100-SXM2-16GB", ""):
            found = image_for(name, card)
            assert found is None or found.vendor == {"": "", "MI300X": "AMD"}.get(card, "NVIDIA")
        assert one.version == images(name)[0].version


@pytest.mark.parametrize(
    ("card", "kind"), [("H100-SXM-80GB", "server-cuda"), ("MI300X", "server-rocm"), ("MI355X", ""), ("GH200-96GB", "")]
)
def test_a_plan_of_llama_cpp_has_the_image_of_its_card(card: str, kind: str) -> None:
    values = plan_values("chat-8b-llama-cpp")
    first = {**values["options"][0], "accelerator": {**values["options"][0]["accelerator"], "name": card}}
    job = job_of(plan_document({**values, "options": [first]}))
    assert kind in image_of("llama.cpp", job)
    assert bool(kind) == bool(image_of("llama.cpp", job)) == (not stack_problem(job))


def test_what_plans_start_from_is_in_the_tables() -> None:
    recorded = {row["image"] for row in table("images")} | {one.image for one in releases()} | {build.image for build in builds()}
    for name in (
        "chat-8b-tgi",
        "chat-8b-tensorrt-llm",
        "chat-8b-llama-cpp",
        "bert-service-azure",
        "pretrain-8b-megatron",
        "xgboost-service-aws",
    ):
        job = job_of(plan_document(plan_values(name)))
        if not stack_problem(job):
            assert stack_of(job).image.removeprefix("m.daocloud.io/") in recorded, name


def test_a_card_without_kernels_has_no_image() -> None:
    from rightfit.facts.devices import accelerator

    assert image_for("tensorrt-llm", "V100-SXM2-16GB") is None
    assert image_for("tensorrt-llm", "GH200-96GB") is not None
    assert image_for("tgi", "GH200-96GB") is None
    assert image_for("llama.cpp", "MI355X") is None
    assert not runs_on(images("ray")[0], accelerator("MI300X"))


@pytest.mark.parametrize("name", ["xgboost-train-aws", "xgboost-score-aws", "xgboost-service-aws"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_lightgbm_has_an_image_with_the_system_s_openmp(name: str, library: str) -> None:
    """Its wheel links libgomp.so.1 and brings none; slim images of Python have none."""
    values = plan_values(name)
    first = values["options"][0]
    layout = {**first["layout"], "library": library, "device": "cpu"}
    job = job_of(plan_document({**values, "workload": {**values["workload"], "model": library}, "options": [{**first, "layout": layout}]}))
    assert not job.gpus_per_node
    assert ("slim" in stack_of(job).image) == (library != "lightgbm")
