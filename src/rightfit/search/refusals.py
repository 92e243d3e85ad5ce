"""Why offers were refused: by criterion with counts, the nearest miss of each with the least change, and which criteria are to blame together."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array
from rightfit.search.answer import NearMiss, Reason, Rejection
from rightfit.search.constraints import WISHES, first_failure
from rightfit.search.reasons import CRITERIA
from rightfit.search.software import listed_stacks

if TYPE_CHECKING:
    from rightfit.search.explore import Exploration

HOPELESS = frozenset({"status", "capability"})
MUCH_LESS = 2.0
PRECISIONS = frozenset({"bf16", "fp16", "fp8", "tf32"})


def rejections(found: Exploration) -> tuple[Rejection, ...]:
    """One record for each criterion that refused offers, in the order in which criteria are applied.

    An offer counts for the criterion that it got furthest to: over its node counts, the last of the first failures.
    """
    first = first_failure(found.bits)
    decided = first.max(axis=1)
    counts = np.bincount(decided, minlength=len(CRITERIA) + 1)
    return tuple(_rejection(found, position, int(counts[position]), first) for position in range(len(CRITERIA)) if counts[position])


def _rejection(found: Exploration, position: int, count: int, first: NDArray[np.intp]) -> Rejection:
    criterion = CRITERIA[position]
    lone = found.bits == (1 << position)
    alone = int(lone.any(axis=1).sum())
    at = nearest(found, criterion, lone if alone else (first == position))
    needed, had = needed_and_had(found, criterion, at)
    margin = float(found.failures.margin(criterion)[at])
    miss = near_miss(found, criterion, at)
    return Rejection(criterion, count, alone, needed, had, margin, f"{miss.provider}/{miss.instance_type}", miss)


def nearest(found: Exploration, criterion: str, rows: NDArray[np.bool_]) -> tuple[int, int]:
    """The row that fails by least; of equal ones the cheapest, then the first."""
    return least(found, rows, found.failures.margin(criterion))


def least(found: Exploration, rows: NDArray[np.bool_], margin: Array) -> tuple[int, int]:
    """The row with the least margin, of equal ones the cheapest, then the first."""
    offer, node = np.nonzero(rows)
    margins = margin[offer, node]
    closest = np.flatnonzero(margins <= margins.min())
    chosen = closest[np.argmin(found.bill.total_usd[offer[closest], node[closest]])]
    return int(offer[chosen]), int(node[chosen])


def needed_and_had(found: Exploration, criterion: str, at: tuple[int, int]) -> tuple[float | str, float | str]:
    """What the criterion asks for and what the offer has: numbers in base units, or names."""
    failures = found.failures
    if criterion in failures.needed:
        pair = [float(np.broadcast_to(values[criterion], failures.shape)[at]) for values in (failures.needed, failures.had)]
        return pair[0], pair[1]
    offer = found.market.offers.row(at[0])
    server = int(found.market.offers.server_index[at[0]])
    servers = found.market.offers.servers
    had = {
        "status": servers.not_recommended[server],
        "cloud": offer["provider"],
        "region": offer["region"],
        "country": offer["country"],
        "gpu": servers.accelerator_name[server],
        "software": servers.accelerator_name[server],
        "purchase": offer["purchase"],
        "capability": servers.accelerator_name[server],
        "layout": servers.accelerator_name[server],
    }
    needed = {"status": "active", "software": listed_stacks(), "capability": found.fleet.missing[server], "layout": "layout"}
    return needed.get(criterion) or found.wanted.value_of(criterion), had.get(criterion, "")


def near_miss(found: Exploration, criterion: str, at: tuple[int, int]) -> NearMiss:
    """One refused row with the least change that would let it pass this criterion."""
    offer = found.market.offers.row(at[0])
    needed, had = needed_and_had(found, criterion, at)
    return NearMiss(
        provider=offer["provider"],
        instance_type=offer["instance_type"],
        region=offer["region"],
        purchase=offer["purchase"],
        nodes=found.space.limits.node_counts[at[1]],
        needed=needed,
        had=had,
        change=change(found, criterion, at),
        also=tuple(name for position, name in enumerate(CRITERIA) if int(found.bits[at]) >> position & 1 and name != criterion),
        unknown=()
        if np.isfinite(found.bill.total_s[at])
        else tuple(name for name in ("deadline", "budget") if name in found.failures.fails),
    )


def change(found: Exploration, criterion: str, at: tuple[int, int]) -> Reason:
    """The least change that makes this row pass `criterion`."""
    needed, had = needed_and_had(found, criterion, at)
    if criterion == "capability":
        return _capability_change(str(needed))
    if criterion == "software":
        return Reason("change_software", {"accelerator": had})
    if criterion in ("status", "layout"):
        return Reason("change_server", {"criterion": criterion, "value": had})
    if isinstance(needed, str) or isinstance(had, str):
        return Reason("change_filter", {"criterion": criterion, "value": had})
    if criterion == "quota":
        return Reason("change_quota", {"count": had, "allowed": needed})
    params: dict[str, Any] = {
        "deadline": {"deadline_s": had, "factor": had / needed},
        "budget": {"budget_usd": had, "factor": had / needed},
        "max_nodes": {"nodes": had},
        "gpu_memory": {"bytes": needed - had},
        "host_memory": {"bytes": needed - had},
    }[criterion]
    return Reason("change_nodes" if criterion == "max_nodes" else f"change_{criterion}", params)


def _capability_change(lacking: str) -> Reason:
    """What to change where the accelerator lacks something: the precision, the method, or the server."""
    if lacking in PRECISIONS:
        return Reason("change_precision", {"lacks": lacking})
    if lacking == "nf4":
        return Reason("change_method", {"method": "lora"})
    return Reason("change_server", {"criterion": "capability", "value": lacking})


def least_changes(found: Exploration, *, most: int = 4) -> tuple[Reason, ...]:
    """When nothing passes: single changes of the wish that would let something pass, smallest first; and a pair of changes where that asks much
    less of each. Only where no machine can do it at all, what the machines lack."""
    physical = sum(1 << position for position, criterion in enumerate(CRITERIA) if criterion not in WISHES)
    able = bool(np.any((found.bits & physical) == 0))
    positions = [position for position, criterion in enumerate(CRITERIA) if (criterion in WISHES if able else criterion not in HOPELESS)]
    singles = _changes_of(found, [(position,) for position in positions])
    joint = _changes_of(found, list(itertools.combinations(positions, 2)))[:1]
    reasons = [reason for _, one in singles for reason in one][:most]
    if joint and (not singles or joint[0][0] * MUCH_LESS < singles[0][0]):
        reasons = [*joint[0][1], *reasons]
    return tuple(reasons)


def _changes_of(found: Exploration, groups: list[tuple[int, ...]]) -> list[tuple[float, tuple[Reason, ...]]]:
    """For each group of criteria that alone keeps some row out: the largest margin of its nearest row, and what must change, with what it gives."""
    out = []
    for group in groups:
        rows = found.bits == sum(1 << position for position in group)
        if not rows.any():
            continue
        criteria = [CRITERIA[position] for position in group]
        margin = np.max([found.failures.margin(criterion) for criterion in criteria], axis=0)
        at = least(found, rows, margin)
        out.append((float(margin[at]), tuple(_with_effect(found, reason, at) for reason in _changes(found, criteria, at))))
    return sorted(out, key=lambda item: item[0])


def _changes(found: Exploration, criteria: list[str], at: tuple[int, int]) -> tuple[Reason, ...]:
    """What must change for a row; two changes that only help together are one statement."""
    reasons = tuple(change(found, criterion, at) for criterion in criteria)
    if criteria == ["deadline", "budget"]:
        params = {"deadline_s": reasons[0].params["deadline_s"], "budget_usd": reasons[1].params["budget_usd"]}
        return (Reason("change_deadline_and_budget", params),)
    if len(criteria) == 2:
        return (Reason("change_two", {"criterion": criteria[0], "other_criterion": criteria[1]}),)
    return reasons


def _with_effect(found: Exploration, reason: Reason, at: tuple[int, int]) -> Reason:
    """The change together with the offer that it makes possible."""
    offer = found.market.offers.row(at[0])
    usd, seconds = float(found.bill.total_usd[at]), float(found.bill.total_s[at])
    effect = {
        "provider": offer["provider"],
        "instance_type": offer["instance_type"],
        "nodes": found.space.limits.node_counts[at[1]],
        "purchase": offer["purchase"],
        "total_usd": usd if np.isfinite(usd) else None,
        "total_time_s": seconds if np.isfinite(seconds) else None,
    }
    return Reason(reason.key, {**reason.params, **effect})
