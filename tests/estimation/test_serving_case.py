"""Engines, formats and families of devices as fields of ServeColumns: what a plan says and what a
row says of the same stack is one thing."""

from __future__ import annotations

import dataclasses

import pytest

from rightfit import facts
from rightfit.estimation.serving_steps import ServingCase, as_run, serving_fields
from rightfit.facts.engines import EngineClass, engine_class, engines, family_names, on_device, weight_formats
from rightfit.physics.serving_columns import ServeColumns
from rightfit.proof.cases.serving import serving_cases

MODEL = "meta-llama/Meta-Llama-3-8B"
STACKS = [
    (row["engine"], row["version"], name)
    for row in facts.table("serving_stacks")
    for name in row["formats"].split("|")
    if "hopper" in row["families"].split("|")
]


def case(engine: str = "vllm", weights: str = "bf16", *, family: str = "hopper", version: float = 0.0) -> ServingCase:
    found = on_device(engine_class(engine, version), family, engine)
    return ServingCase(found, family, weight_formats()[weights], is_latent=False, is_mixture=False, version=version)


@pytest.mark.parametrize(("engine", "version", "weights"), STACKS)
def test_a_plan_and_a_row_of_one_stack_are_one(engine: str, version: str, weights: str) -> None:
    major, _, minor = version.partition(".")
    typed = serving_fields(case(engine, weights, version=float(major or 0) + float(minor or 0) / 100.0))
    row = {
        "model": MODEL,
        "device": "H100-SXM-80GB",
        "engine": engine,
        "engine_version": version,
        "weights_dtype": weights,
        "metric": "tpot_ms",
    }
    (read,) = [serving_cases([row]).serve]
    differ = {name for name, value in typed.items() if float(getattr(read, name)[0]) != value}
    # The load decides what room is kept; some defaults are those of the card, which a space of
    # cards does not know yet.
    assert differ <= {"max_batch", "chunk_tokens", "kv_reserve"}


@pytest.mark.parametrize("engine", engines().values(), ids=lambda engine: engine.name)
def test_every_class_runs_every_format_on_every_family(engine: EngineClass) -> None:
    known = {field.name for field in dataclasses.fields(ServeColumns)}
    for weights in weight_formats().values():
        for family in family_names():
            fields = serving_fields(dataclasses.replace(case(), engine=engine, family=family, weights=weights))
            assert known.issuperset(fields)
            assert min(fields["linear_bytes"], fields["expert_bytes"], fields["kv_bytes"]) > 0


def test_engines_make_their_own_of_a_format() -> None:
    assert as_run(case("transformers", "int8")).weights.name == "int8-bnb"
    assert (as_run(case("exllama", "int4")).weights.name, as_run(case("exllama", "int4")).bits) == ("exl2", 4.0)
    assert as_run(case("vllm", "int4-awq", version=0.11)).weights.name == "int4-awq-marlin"
    assert as_run(case("vllm", "int4-awq", version=0.0401)).weights.name == "int4-awq"
    assert as_run(dataclasses.replace(case("vllm", "nvfp4"), is_latent=True)).weights.name == "nvfp4-deepseek"


def test_a_cache_that_is_not_said_goes_with_the_weights() -> None:
    assert serving_fields(case("vllm", "fp8"))["kv_bytes"] == 2.0
    assert serving_fields(case("tensorrt-llm", "fp8"))["kv_bytes"] == 1.0
    assert serving_fields(dataclasses.replace(case("tensorrt-llm", "fp8"), kv_bytes=2.0))["kv_bytes"] == 2.0
