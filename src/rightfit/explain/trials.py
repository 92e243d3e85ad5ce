"""Real evaluations that explanations ask search for: a setup on named servers, and what one copy of a job needs on one card."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain.setups import SetupOutcome

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.answer import Option, Plan

# Any server with one card of bf16 and FlashAttention does: whether the job fits it does not matter for what it needs.
REFERENCE_SERVER = "gcp/a2-ultragpu-1g"
_LEAN: Mapping[str, Any] = {
    "micro_batch": 1,
    "recompute": "full",
    "offload": "none",
    "sharding": "none",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "deadline_s": None,
    "budget_usd": None,
    "budget": None,
}


def outcome_of(wishes: Mapping[str, Any], server: str, *, nodes: int = 1, catalog: Catalog | None = None) -> SetupOutcome:
    """A workload on one named server: does it fit by the cards alone, if not with help of the host's RAM, and at what peak."""
    from rightfit.families.registry import honours_of
    from rightfit.planner.given import estimate_one
    from rightfit.workload import Workload

    bare_wish: Mapping[str, Any] = (
        {"offload": "none"} if "offload" in honours_of(Workload(**wishes)).options else {}
    )  # nothing to offload without a network
    try:
        plans = [estimate_one(Workload(**{**wishes, **more}), on=server, nodes=nodes, catalog=catalog) for more in (bare_wish, {})]
    except RightfitError as error:
        return SetupOutcome(server, fits=None, why=str(error))
    plain, free = plans
    bare = plain.best or plain.unfit
    if bare is None:
        return SetupOutcome(server, fits=None, why=", ".join(rejection.criterion for rejection in plain.rejected) or "?")
    return _outcome(server, bare, None if plain.best else free)


def _outcome(server: str, bare: Option, free: Plan | None) -> SetupOutcome:
    """`bare`: the option without offloading; `free`: the plan with it, where the bare one does not fit."""
    helped = (free.best or free.unfit) if free else None
    lacks_host_only = bare.estimate["peak_memory_bytes"].mid <= float(bare.facts["capacity_bytes"])
    shown = bare if helped is None or (lacks_host_only and free and not free.best) else helped
    return SetupOutcome(
        server,
        fits=free is None or free.best is not None,
        peak_bytes=shown.estimate["peak_memory_bytes"].mid,
        limit_bytes=float(bare.facts["capacity_bytes"]),
        helps=tuple(part for part in shown.layout.offload.split("+") if part != "none"),
        plain_bytes=bare.estimate["peak_memory_bytes"].mid,
        host_needed_bytes=shown.estimate["host_memory_bytes"].mid,
        host_bytes=shown.memory_bytes,
    )


def need_on_one_card(workload: Any, *, catalog: Catalog | None = None) -> float:
    """Memory that one copy of the job needs, as if on one card large enough: one sequence at a time, gradient checkpointing, nothing
    offloaded.

    NaN where the workload cannot be evaluated that way (for example a method that the reference card cannot run).
    """
    from rightfit.planner.given import figures_of_one

    try:
        option = figures_of_one(workload.with_changes(**_LEAN), on=REFERENCE_SERVER, catalog=catalog)
    except RightfitError:
        return math.nan
    return option.estimate["peak_memory_bytes"].mid if option else math.nan
