"""Real evaluations that explanations ask search for: a setup on named servers, and what one copy of a job needs on one card."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain.setups import SetupOutcome
from rightfit.recent import Recent

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.answer import Option, Plan
    from rightfit.workload import Workload

# Any server with one card of bf16 and FlashAttention does: whether the job fits it does not matter for what it needs.
REFERENCE_SERVER = "gcp/a2-ultragpu-1g"
_LEAN: Mapping[str, Any] = {
    "micro_batch": 1,
    "recompute": "full",
    "offload": "none",
    "sharding": "none",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
}
#: What changes from question to question and not what a job needs: by when, for how much, where, on how many servers.
_OPEN: Mapping[str, Any] = {
    **dict.fromkeys(("deadline_s", "budget_usd", "budget", "confidence", "office_hours", "max_nodes")),
    **dict.fromkeys(("cloud", "region", "country", "residency", "sellers", "quota", "purchase", "gpu"), ()),
    "budget_per_month": False,
    "objective": "cost",
    "currency": "usd",
}
#: A job needs the same memory for little data and for much; of a data set it may be the lengths that count.
_AMOUNT = 1e8
_AMOUNTS = ("data_tokens", "data_samples", "data_bytes")
#: Needs that were worked out, in memory of their catalog: the next question about a job is mostly about its money or its time.
_needs: weakref.WeakKeyDictionary[Catalog, Recent[Workload, float]] = weakref.WeakKeyDictionary()
_MOST_NEEDS = 1024


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


def need_on_one_card(workload: Workload, *, catalog: Catalog | None = None) -> float:
    """Memory that one copy of the job needs, as if on one card large enough: one sequence at a time, gradient checkpointing, nothing
    offloaded [bytes].

    NaN where the workload cannot be evaluated that way (for example a method that the reference card cannot run).
    """
    from rightfit.planner.plan import default_catalog

    catalog = catalog or default_catalog()
    known = _needs.setdefault(catalog, Recent(_MOST_NEEDS, size_of=lambda _: 1))
    try:
        bare = bare_job(workload)
    except RightfitError:  # no network: nothing of what makes a job lean can be said of it
        return math.nan
    need = known.get(bare)
    if need is None:
        need = _need_of(bare, catalog)
        known.put(bare, need)
    return need


def bare_job(workload: Workload) -> Workload:
    """The job alone, without what was wished of its time, money and place, in the set-up that needs least memory."""
    amounts = {name: _AMOUNT for name in _AMOUNTS if getattr(workload, name) is not None}
    data = {"data": None, **amounts} if amounts and workload.data_unit != "dataset" else {}
    assumed = tuple(name for name in workload.assumed if name not in _OPEN)
    return workload.with_changes(**_LEAN).settled(**_OPEN, **data, assumed=assumed)


def _need_of(bare: Workload, catalog: Catalog) -> float:
    from rightfit.planner.given import figures_of_one

    try:
        option = figures_of_one(bare, on=REFERENCE_SERVER, catalog=catalog)
    except RightfitError:
        return math.nan
    return option.estimate["peak_memory_bytes"].mid if option else math.nan
