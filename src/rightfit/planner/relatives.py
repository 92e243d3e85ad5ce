"""A stronger and a cheaper model of the same family, each planned for the same wish
(`plan --alternatives`). Models of one family differ in size only: the larger one is the stronger
one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts import bundled, tables
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.facts import TransformerArchitecture
    from rightfit.search.answer import Plan

_SIZE = re.compile(r"(?i)(?<![a-z0-9.])[ae]?\d+(?:[._]\d+)?[bmt](?![a-z0-9])")  # 8B, A3B of experts, E4B of Gemma


@dataclass(frozen=True, slots=True)
class Alternative:
    """A model beside the asked one, what it is to that ("stronger", "cheaper"), and its plan."""

    role: str
    model: TransformerArchitecture
    plan: Plan


def family_of(name: str) -> tuple[str, ...]:
    """Words of a model's name without its size and its stage: (qwen, 3) of Qwen/Qwen3-8B."""
    return tables.without_noise(tables.tokens(_SIZE.sub(" ", tables.base_name(name)) + " 1b"))[:-1]


def relatives(model: str) -> dict[str, TransformerArchitecture]:
    """The next larger and the next smaller model of a family by role; empty for a model without
    sizes. A mixture of experts counts by all and by its active parameters."""
    found = facts.resolve_offline(model)
    own = found.record if found else None
    if not isinstance(own, facts.TransformerArchitecture) or not any(
        _SIZE.fullmatch(word) for word in tables.tokens(tables.base_name(own.name))
    ):
        return {}
    family = family_of(own.name)
    others = [
        bundled.load(entry)
        for entry in bundled.index()
        if entry.family == "transformer" and entry.name != own.name and family_of(entry.name) == family
    ]
    sizes = [(one.params_total, one.params_active, one) for one in others if isinstance(one, facts.TransformerArchitecture)]
    total, active = own.params_total, own.params_active
    larger = [one for one in sizes if one[0] > total and one[1] >= active]
    smaller = [one for one in sizes if one[0] < total and one[1] <= active]
    chosen = {
        "stronger": min(larger, key=lambda one: one[:2], default=None),
        "cheaper": max(smaller, key=lambda one: one[:2], default=None),
    }
    return {role: one[2] for role, one in chosen.items() if one}


def alternatives(plan: Plan, planned: Callable[[Any], Plan]) -> list[Alternative]:
    """The relatives of a plan's model, each as `planned` answers the same wish for it; one that
    nothing carries is left out."""
    found = []
    for role, model in relatives(plan.workload.model or "").items():
        try:
            answer = planned(plan.workload.with_changes(model=model.name))
        except RightfitError:  # such as a prompt longer than its context
            continue
        if answer.best is not None:
            found.append(Alternative(role, model, answer))
    return found
