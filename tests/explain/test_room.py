"""Memory by moment, the largest batch, and formulas with their sources: what `--verbose` adds."""

from __future__ import annotations

import pytest

import rightfit
from rightfit.explain.messages import topic
from rightfit.explain.quantities import Table
from rightfit.explain.room import FUNCTIONS, formula_lines, formula_of, source_of
from rightfit.explain.sheets import Lines, plan_sheet
from rightfit.explain.voices import plan_text
from rightfit.families.registry import name_of
from rightfit.messages import LANGS
from rightfit.planner.given import estimate_one
from rightfit.search.answer import Plan

LORA = {"model": "meta-llama/Llama-3.2-1B", "task": "finetune", "method": "lora", "data": "20Mtok", "cloud": "aws", "gpu": "L4"}
IMAGES = {"model": "resnet50", "task": "train", "data": "1Mimages", "cloud": "aws"}
GRPO = {"model": "meta-llama/Llama-3.2-1B", "task": "finetune", "method": "grpo", "update": "lora", "data": "2ksamples", "cloud": "aws"}
DPO = {"model": "meta-llama/Llama-3.2-1B", "task": "finetune", "method": "dpo", "update": "lora", "data": "2ksamples", "cloud": "aws"}


def memory_of(plan: Plan) -> dict[str, object]:
    return next(dict(section.content) for section in plan.sections if section.name == "memory")


@pytest.mark.parametrize("wish", [LORA, IMAGES, GRPO, DPO], ids=["lora", "images", "grpo", "dpo"])
def test_the_worst_moment_is_the_peak(wish: dict[str, str]) -> None:
    plan = rightfit.plan(**wish)
    assert plan.best is not None
    phases = memory_of(plan)["phase_bytes"]
    assert isinstance(phases, dict)
    assert max(phases.values()) == pytest.approx(plan.best.estimate["peak_memory_bytes"].mid, rel=1e-9)


@pytest.mark.parametrize("wish", [LORA, IMAGES, DPO], ids=["lora", "images", "dpo"])
def test_one_more_than_the_largest_batch_does_not_fit(wish: dict[str, str]) -> None:
    plan = rightfit.plan(**wish)
    best = plan.best
    assert best is not None
    largest = int(str(memory_of(plan)["largest_micro_batch"]))
    assert largest >= best.layout.micro_batch
    fixed = {"recompute": best.layout.recompute, "sharding": "none", "offload": "none", "precision": best.layout.precision, "budget": None}
    server = f"{best.provider}/{best.instance_type}"

    def fits(samples: int) -> bool:
        asked = plan.workload.with_changes(**fixed, micro_batch=samples, global_batch=samples * best.layout.data)
        return estimate_one(asked, on=server, nodes=best.nodes).best is not None

    assert fits(largest)
    assert not fits(largest + 1)


def test_every_formula_names_a_function_with_a_source() -> None:
    assert {*FUNCTIONS, "line"} == set(topic("formulas"))
    for key, function in FUNCTIONS.items():
        assert function.__module__.startswith("rightfit.physics."), key
        assert source_of(function), key


@pytest.mark.parametrize("wish", [LORA, IMAGES, GRPO], ids=["lora", "images", "grpo"])
def test_every_term_of_training_has_a_formula(wish: dict[str, str]) -> None:
    plan = rightfit.plan(**wish)
    assert plan.best is not None
    family = name_of(plan.workload)
    terms = [("memory", name) for name in plan.best.memory_terms] + [("time", name) for name in plan.best.time_terms]
    assert [term for term in terms if not formula_of(*term, family)] == []


@pytest.mark.parametrize("lang", LANGS)
def test_verbose_shows_moments_room_and_formulas(lang: str) -> None:
    plan = rightfit.plan(**LORA)
    parts = plan_sheet(plan, lang, everything=True)  # type: ignore[arg-type]
    assert any(isinstance(part, Table) and any(column.key == "moment" for column in part.columns) for part in parts)
    names = {part.name for part in parts if isinstance(part, Lines)}
    assert {"batch", "formulas"} <= names
    text = plan_text(plan, lang)  # type: ignore[arg-type]
    assert text.best is not None
    assert len(formula_lines(plan, text.best, lang)) >= len(text.best.memory)  # type: ignore[arg-type]
    assert not {"batch", "formulas"} & {part.name for part in plan_sheet(plan, lang) if isinstance(part, Lines)}  # type: ignore[arg-type]
