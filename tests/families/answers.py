"""The answers to the wishes of tests/data/wishes.toml, each asked once a process."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

import rightfit
from rightfit.errors import RightfitError
from rightfit.search.answer import Option, Plan

WISHES = Path(__file__).parents[1] / "data" / "wishes.toml"


def wishes() -> dict[str, dict[str, Any]]:
    """Every wish by the name family/wish."""
    table = tomllib.loads(WISHES.read_text(encoding="utf-8"))
    return {f"{family}/{name}": wish for family, named in table.items() if family != "servers" for name, wish in named.items()}


@functools.cache
def planned(name: str) -> Plan:
    """The plan of a wish."""
    return rightfit.plan(**wishes()[name])


@functools.cache
def estimated(name: str) -> Plan | None:
    """The estimate of the server that leads the plan of a wish; None where nothing leads or the wish is refused."""
    best = planned(name).best
    if best is None:
        return None
    try:
        return rightfit.estimate(**wishes()[name], on=f"{best.provider}/{best.instance_type}", nodes=best.nodes)
    except RightfitError:
        return None


def options_of(name: str) -> list[tuple[str, Option]]:
    """Every option that the plan and the estimate of a wish show, with what it is called in a failing test."""
    shown = []
    for verb, plan in (("plan", planned(name)), ("estimate", estimated(name))):
        if plan is not None:
            named = {"options": plan.options, "pareto": plan.pareto, "unfit": (plan.unfit,) if plan.unfit else ()}
            shown += [(f"{verb}.{group}[{at}]", option) for group, found in named.items() for at, option in enumerate(found)]
    return shown
