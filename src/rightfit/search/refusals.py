"""Why offers were refused: by criterion with counts, the nearest miss of each with the least
change, and which criteria are to blame together."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.market.sellers import is_any_place
from rightfit.search.answer import NearMiss, Reason, Rejection
from rightfit.search.constraints import LATENCIES, WISHES, SearchResult, bits_beside, blamable, first_failure
from rightfit.search.criteria import CRITERIA, listed_stacks

HOPELESS = frozenset({"status", "capability"})  # no change of the wish mends these
NO_CARD = "none"  # as the user asks for servers without any
UNKNOWN = "unknown"
MUCH_LESS = 2.0
PRECISIONS = frozenset({"bf16", "fp16", "fp8", "tf32"})
#: Criteria that the user can give way on.
CHANGEABLE = WISHES.union(LATENCIES)
#: Limits that cannot be held against a row where their figure is not known: nothing fits there, or
#: no number of servers carries the load.
FIGURES = frozenset({"max_nodes", "num_gpus", "quota", "stock", "deadline", "budget", *LATENCIES})
#: Criteria that no change of the wish mends count as so many others where the nearest
#: row is looked for.
UNCHANGEABLE_WEIGHT = 10
REFUSED_FAR = 1e9
#: Changes that say what is lacking, not that they would do.
UNPROMISING = frozenset(
    {"change_gpu_memory", "change_host_memory", "change_server", "change_software", "serve_change_latency", "serve_change_assumed"}
)


def rejections(search_result: SearchResult) -> tuple[Rejection, ...]:
    """One record for each criterion that refused offers, in the order in which
    criteria are applied.

    An offer counts for the criterion that it got furthest to: over its node counts, the last of
    the first failures.
    """
    first = first_failure(search_result.bits)
    decided = first.max(axis=1)
    counts = np.bincount(decided, minlength=len(CRITERIA) + 1)
    return tuple(_rejection(search_result, position, int(counts[position]), first) for position in range(len(CRITERIA)) if counts[position])


def _rejection(search_result: SearchResult, position: int, count: int, first: NDArray[np.intp]) -> Rejection:
    criterion = CRITERIA[position]
    lone = search_result.bits == (1 << position)
    alone = int(lone.any(axis=1).sum())
    at = nearest(search_result, criterion, lone if alone else (first == position))
    return dataclasses.replace(_lone_rejection(search_result, criterion, at), count=count, alone=alone)


def nearest(search_result: SearchResult, criterion: str, rows: NDArray[np.bool_]) -> tuple[int, int]:
    """The row that fails by least; of equal ones the cheapest, then the first."""
    return least(search_result, rows, (criterion,))


def least(search_result: SearchResult, rows: NDArray[np.bool_], criteria: Sequence[str]) -> tuple[int, int]:
    """The row with the least margin, the worst of those of the criteria; of equal ones that which
    fails fewest criteria, then the cheapest, then the first."""
    offer, node = np.nonzero(rows)
    margins = np.max([search_result.failures.margin(criterion, (offer, node)) for criterion in criteria], axis=0)
    closest = np.flatnonzero(margins <= margins.min())
    at = offer[closest], node[closest]
    chosen = closest[np.lexsort((search_result.bill.total_usd[at], num_failing(search_result.bits[at])))[0]]
    return int(offer[chosen]), int(node[chosen])


def num_failing(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """How many criteria each row fails, shaped like `bits`; what no change of the wish
    mends counts as many."""
    count = np.zeros_like(bits)
    for position, criterion in enumerate(CRITERIA):  # one at a time: all together hold 25 times the memory of the rows
        count += (bits >> position & 1) * (1 if criterion in CHANGEABLE else UNCHANGEABLE_WEIGHT)
    return count


def needed_and_had(search_result: SearchResult, criterion: str, cell: tuple[int, int]) -> tuple[float | str, float | str]:
    """What the criterion asks for and what the offer has: numbers in base units, or names."""
    failures = search_result.failures
    if criterion in failures.needed:
        pair = [float(np.broadcast_to(values[criterion], failures.shape)[cell]) for values in (failures.needed, failures.had)]
        return pair[0], pair[1]
    offer = search_result.market.offers.row(cell[0])
    server = int(search_result.market.offers.server_index[cell[0]])
    servers = search_result.market.offers.servers
    card = servers.accelerator_name[server] or NO_CARD
    anywhere = is_any_place(offer["provider"], offer["instance_type"], offer["region"])
    had = {
        "status": servers.not_recommended[server] or "retired",
        **dict.fromkeys(("cloud", "seller"), offer["provider"]),
        "region": "any" if anywhere else offer["region"],
        "country": UNKNOWN if anywhere else offer["country"] or UNKNOWN,
        "purchase": offer["purchase"],
    }
    needed = {"status": "active", "software": listed_stacks(), "capability": search_result.missing(server)}
    needed |= {name: name for name in ("layout", "throughput")}
    return needed.get(criterion) or search_result.filters.value_of(criterion), had.get(criterion, card)


def near_miss(search_result: SearchResult, criterion: str, cell: tuple[int, int]) -> NearMiss:
    """One refused row with the least change that would let it pass this criterion."""
    offer = search_result.market.offers.row(cell[0])
    needed, had = needed_and_had(search_result, criterion, cell)
    return NearMiss(
        provider=offer["provider"],
        instance_type=offer["instance_type"],
        region=offer["region"],
        purchase=offer["purchase"],
        nodes=num_servers(search_result, cell),
        needed=needed,
        had=had,
        change=change(search_result, criterion, cell),
        also=tuple(name for name in failing(search_result, cell) if name != criterion),
        unknown=unknown(search_result, cell),
    )


def num_servers(search_result: SearchResult, cell: tuple[int, int]) -> int:
    """Servers of a row; 1 where no number of them is enough."""
    nodes = search_result.nodes(cell)
    return int(nodes) if np.isfinite(nodes) else 1


def failing(search_result: SearchResult, cell: tuple[int, int]) -> tuple[str, ...]:
    """The criteria that a row fails, in the order in which they are applied."""
    return tuple(name for position, name in enumerate(CRITERIA) if int(search_result.bits[cell]) >> position & 1)


def unknown(search_result: SearchResult, cell: tuple[int, int]) -> tuple[str, ...]:
    """The limits that a row does not fail for want of a figure."""
    had = search_result.failures.had
    figures = FIGURES if search_result.workload.max_nodes else FIGURES - {"max_nodes"}  # a number of servers that was given is not a limit
    asked = [name for name in CRITERIA if name in figures and name in had and name not in failing(search_result, cell)]
    return tuple(name for name in asked if not np.isfinite(np.broadcast_to(had[name], search_result.failures.shape)[cell]))


def failed_criteria(search_result: SearchResult, cell: tuple[int, int]) -> tuple[Rejection, ...]:
    """The criteria that one row fails, each with its least change."""
    return tuple(_lone_rejection(search_result, criterion, cell) for criterion in failing(search_result, cell))


def nearest_to_passing(search_result: SearchResult, offers: NDArray[np.intp]) -> tuple[int, int]:
    """Of these offers the row that is nearest to passing: what the machine cannot do counts
    only if no number of servers and no layout can; then the fewest failing criteria, then the
    least margin."""
    bits = search_result.bits[offers]
    margin = np.zeros(bits.shape)
    for position, criterion in enumerate(CRITERIA):
        margin += ((bits >> position) & 1) * np.minimum(search_result.failures.margin(criterion, (offers,)), REFUSED_FAR)
    beside = num_failing(bits & bits_beside(blamable(bits)))
    offer, node = np.unravel_index(int(np.lexsort((margin.ravel(), num_failing(bits).ravel(), beside.ravel()))[0]), bits.shape)
    return int(offers[offer]), int(node)


def standing_of(failed: Sequence[Rejection]) -> tuple[Reason, ...]:
    """Why one server was refused, and what would let it pass: a change that alone would not
    do is not promised."""
    return (*(refusal(rejection) for rejection in failed), *_changes_together(failed))


def refusal(rejection: Rejection) -> Reason:
    """One criterion that a server fails."""
    nodes = rejection.nearest.nodes if rejection.nearest else 1
    return Reason(
        "why_refused",
        {"criterion": rejection.criterion, "needed": rejection.needed, "had": rejection.had, "margin": rejection.margin, "nodes": nodes},
    )


def _changes_together(failed: Sequence[Rejection]) -> tuple[Reason, ...]:
    criteria = tuple(rejection.criterion for rejection in failed)
    misses = [rejection.nearest for rejection in failed if rejection.nearest]
    if len(misses) == 1:
        missing = (Reason("why_unknown", {"criteria": misses[0].unknown}),) if misses[0].unknown else ()
        return (misses[0].change, *missing)
    plain = tuple(miss.change for miss in misses if miss.change.key in UNPROMISING)
    together = len(plain) < len(misses) and CHANGEABLE.issuperset(criteria)
    return (*plain, Reason("change_together", {"criteria": criteria})) if together else plain


def placeless(failed: Sequence[Rejection], hidden: frozenset[str]) -> tuple[Rejection, ...]:
    """Refusals of a server that has no offers: they name no region and no way to pay, and nothing
    is held against it (`hidden`) for want of a price."""
    return tuple(_placeless(rejection, hidden) for rejection in failed if rejection.criterion not in hidden)


def _placeless(rejection: Rejection, hidden: frozenset[str]) -> Rejection:
    if rejection.nearest is None:
        return rejection
    also = tuple(name for name in rejection.nearest.also if name not in hidden)
    return dataclasses.replace(rejection, nearest=dataclasses.replace(rejection.nearest, region="", purchase="", also=also))


def _lone_rejection(search_result: SearchResult, criterion: str, cell: tuple[int, int]) -> Rejection:
    miss, margin = near_miss(search_result, criterion, cell), float(search_result.failures.margin(criterion, cell))
    return Rejection(criterion, 1, 1, miss.needed, miss.had, margin, f"{miss.provider}/{miss.instance_type}", miss)


def change(search_result: SearchResult, criterion: str, cell: tuple[int, int]) -> Reason:
    """The least change that makes this row pass `criterion`."""
    needed, had = needed_and_had(search_result, criterion, cell)
    if criterion == "capability":
        return _capability_change(str(needed))
    if criterion == "software":
        return Reason("change_software", {"accelerator": had})
    if criterion in ("status", "layout", "host_cpus", "fabric", "throughput"):
        return Reason("change_server", {"criterion": criterion, "value": had})
    if had == UNKNOWN:
        return Reason("change_server", {"criterion": criterion, "value": had})
    if isinstance(needed, str) or isinstance(had, str):
        return Reason("change_filter", {"criterion": criterion, "value": had})
    if criterion in LATENCIES:
        return Reason("serve_change_latency", {"metric": criterion, "limit_s": rounded_up(had)})
    if criterion == "quota":
        return Reason("change_quota", {"count": had, "allowed": needed})
    if criterion == "stock":
        return Reason("change_stock", {"count": had, "allowed": needed})
    params: dict[str, Any] = {
        "deadline": {"deadline_s": had, "factor": had / needed},
        "budget": {"budget_usd": had, "factor": had / needed, "share": search_result.filters.confidence},
        "max_nodes": {"nodes": had},
        "num_gpus": {"cards": had},
        "gpu_memory": {"bytes": needed - had},
        "host_memory": {"bytes": needed - had},
    }[criterion]
    return Reason("change_nodes" if criterion == "max_nodes" else f"change_{criterion}", params)


#: What a wish names in place of a GPU where there must be none.
NO_GPU = "none"


def rounded_up(seconds: float) -> float:
    """The next number of three digits, so that the limit that is named does let the offer pass."""
    step = 10.0 ** (np.floor(np.log10(seconds)) - 2.0)
    return float(np.ceil(seconds / step - 1e-9) * step)


def _capability_change(lacking: str) -> Reason:
    """What to change where the accelerator lacks something: the precision, the
    method, or the server."""
    if lacking in PRECISIONS:
        return Reason("change_precision", {"lacks": lacking})
    if lacking == "nf4":
        return Reason("change_method", {"method": "lora"})
    return Reason("change_server", {"criterion": "capability", "value": lacking})


def least_changes(search_result: SearchResult, *, most: int = 4) -> tuple[Reason, ...]:
    """When nothing passes: single changes of the wish that would let something pass, smallest
    first; and a pair of changes where that asks much less of each. Only where no machine can do it
    at all, what the machines lack. A latency that nobody stated is changed like a wish."""
    unsaid = {name for name in LATENCIES if getattr(search_result.workload, f"{name}_s") is None}
    held = (blamable(search_result.bits) | unsaid) - HOPELESS
    if NO_GPU in search_result.workload.gpu:  # whoever has none to use is not told to use one
        held -= {"gpu"}
    positions = [position for position, criterion in enumerate(CRITERIA) if criterion in held]
    singles = _changes_of(search_result, [(position,) for position in positions])
    wishes = [position for position in positions if CRITERIA[position] in CHANGEABLE]
    joint = _changes_of(search_result, list(itertools.combinations(wishes, 2)))[:1]
    reasons = [reason for _, one in singles for reason in one][:most]
    if joint and (not singles or joint[0][0] * MUCH_LESS < singles[0][0]):
        reasons = [*joint[0][1], *reasons]
    told = {"serve_change_latency": "serve_change_assumed"}
    return tuple(
        Reason(told.get(one.key, one.key), {**one.params, "option": one.params["metric"]}) if one.params.get("metric") in unsaid else one
        for one in reasons
    )


def _changes_of(search_result: SearchResult, groups: list[tuple[int, ...]]) -> list[tuple[float, tuple[Reason, ...]]]:
    """For each group of criteria that alone keeps some row out: the largest margin of its nearest
    row, and what must change, with what it gives."""
    out = []
    for group in groups:
        rows = search_result.bits == sum(1 << position for position in group)
        if not rows.any():
            continue
        criteria = [CRITERIA[position] for position in group]
        at = least(search_result, rows, criteria)
        effect = _effect(search_result, at, is_known=all(criterion in CHANGEABLE for criterion in criteria))
        changes = tuple(Reason(reason.key, {**reason.params, **effect}) for reason in _changes(search_result, criteria, at))
        out.append((max(float(search_result.failures.margin(criterion, at)) for criterion in criteria), changes))
    return sorted(out, key=lambda item: item[0])


def _changes(search_result: SearchResult, criteria: list[str], cell: tuple[int, int]) -> tuple[Reason, ...]:
    """What must change for a row; two changes that only help together are one statement."""
    reasons = tuple(change(search_result, criterion, cell) for criterion in criteria)
    if criteria == ["deadline", "budget"]:
        params = {"deadline_s": reasons[0].params["deadline_s"], "budget_usd": reasons[1].params["budget_usd"]}
        return (Reason("change_deadline_and_budget", params),)
    if len(criteria) == 2:
        return (Reason("change_two", {"criterion": criteria[0], "other_criterion": criteria[1]}),)
    return reasons


def _effect(search_result: SearchResult, cell: tuple[int, int], *, is_known: bool) -> dict[str, Any]:
    """The offer that a change makes possible, and what it would cost and take where that is known:
    of a service the bill of a month."""
    offer = search_result.market.offers.row(cell[0])
    effect = {
        "provider": offer["provider"],
        "instance_type": offer["instance_type"],
        "nodes": num_servers(search_result, cell),
        "purchase": offer["purchase"],
    }
    names = ("monthly_usd", "latency_s") if search_result.workload.task == "serve" else ("total_usd", "total_time_s")
    figures = (float(search_result.bill.total_usd[cell]), float(search_result.bill.total_s[cell]))
    known = [is_known and bool(np.isfinite(value)) for value in figures]
    return effect | {name: value if is_so else None for name, value, is_so in zip(names, figures, known, strict=True)}
