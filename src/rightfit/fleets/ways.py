"""What one workload can run on: the planner's search, thinned to the ways that a fleet may want.
Equal workloads are searched once, in processes."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import reach
from rightfit.errors import InputError, OutOfTimeError, RightfitError
from rightfit.market.offers import PURCHASES
from rightfit.measure.evidence import Case, Evidence, case_of, corrections, named
from rightfit.measure.own_runs import percent
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.search.advice import elsewhere
from rightfit.search.market import SPOT
from rightfit.search.sources import upload_s

if TYPE_CHECKING:
    from rightfit.fleets.reading import Fleet
    from rightfit.market import Catalog
    from rightfit.search.constraints import SearchResult


#: Ways of each way to pay that a job keeps, and regions of one server among them.
PER_MODE, REGIONS = 20, 3
_CONFIRMED = 16
_SERIAL = 6  # fewer distinct workloads than this are searched in this process


@dataclass(frozen=True, slots=True)
class Way:
    """A number of servers of a type in a region, paid one way. `hours` [h] of a job (0 for a
    service), `usd_per_h` of one server, `other_usd` beside servers (of a job; of a month for a
    service). `levels`: servers of a service at each level of its demand."""

    provider: str
    instance_type: str
    region: str
    country: str
    purchase: str
    servers: int
    hours: float
    usd_per_h: float
    other_usd: float
    servers_usd: float
    accelerator: str
    accelerators: float
    vcpus: float
    as_of: str
    levels: tuple[int, ...] = ()
    memory_bytes: float = 0.0  # of one server, 0 where its seller does not state it

    @property
    def server(self) -> str:
        """PROVIDER/INSTANCE."""
        return f"{self.provider}/{self.instance_type}"

    @property
    def total_usd(self) -> float:
        """Money of the whole job."""
        return self.servers_usd + self.other_usd


@dataclass(frozen=True, slots=True)
class Offer:
    """What a purchase of the plan is: a commitment or a block of one type of server in one region,
    `payment` with its terms."""

    provider: str
    instance_type: str
    region: str
    purchase: str
    usd_per_h: float
    term_h: float
    on_demand_usd_per_h: float
    as_of: str
    basis: str
    since_h: float
    until_h: float


@dataclass(frozen=True, slots=True)
class Part:
    """`count` slices of cards (`slice`: a profile or a fraction) that carry a service; `way`: the
    server whose cards they are parts of."""

    way: Way
    slice: str
    count: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the planner: wishes as JSON, and for a service the rates of its levels
    [1/s], the highest last."""

    wishes: str
    rates: tuple[float, ...] = ()
    oldest: str = ""  # date of the oldest price that is taken
    kept: tuple[tuple[str, str], ...] = ()  # (server or card, region) that must not be thinned out
    slices: tuple[str, ...] = ()  # parts of cards on which a service may stand


@dataclass(frozen=True, slots=True)
class Ways:
    """What the planner answers: ways, cheapest first; why there is none (criteria), or what cannot
    be read. `parts`: parts of cards of a service."""

    found: tuple[Way, ...]
    blame: tuple[tuple[str, ...], ...] = ()
    error: Message | str = ""
    parts: tuple[Part, ...] = ()


#: Asks many questions somewhere, answers in their order.
Search = Callable[[Sequence[Asked]], Sequence[Ways]]


def asked(
    wishes: Mapping[str, Any],
    *,
    rates: Sequence[float] = (),
    oldest: str = "",
    kept: Sequence[tuple[str, str]] = (),
    slices: Sequence[str] = (),
) -> Asked:
    """A question whose equals are equal."""
    return Asked(json.dumps(wishes, sort_keys=True, default=str), tuple(rates), oldest, tuple(kept), tuple(slices))


def ways_of(
    questions: Sequence[Asked], *, catalog: Catalog | None = None, processes: int | None = None, search: Search | None = None
) -> dict[Asked, Ways]:
    """Every distinct question's answer. With a catalog of one's own all are asked in this process;
    `search`: who asks them elsewhere."""
    distinct = list(dict.fromkeys(questions))
    if search is not None:
        return dict(zip(distinct, search(distinct), strict=True))
    number = min(processes if processes is not None else (os.cpu_count() or 1), len(distinct))
    if catalog is not None or number <= 1 or len(distinct) < _SERIAL:
        return {question: _in_time(question, catalog) for question in distinct}
    with concurrent.futures.ProcessPoolExecutor(number) as pool:
        return dict(zip(distinct, pool.map(answered, distinct, chunksize=max(1, len(distinct) // (8 * number))), strict=True))


def _in_time(question: Asked, catalog: Catalog | None) -> Ways:
    reach.go_on()
    return answered(question, catalog)


def answered(question: Asked, catalog: Catalog | None = None) -> Ways:
    """The ways of one workload."""
    from rightfit.families.registry import settled
    from rightfit.planner.plan import default_catalog, explored
    from rightfit.search.constraints import minimal_blame
    from rightfit.search.request_checks import settle_own_model
    from rightfit.workload.model import Workload

    catalog = catalog or default_catalog()
    wishes = json.loads(question.wishes)
    try:
        if not question.rates:
            family, workload = settled(settle_own_model(Workload(**wishes)))
            found, _ = explored(family, workload, catalog)
            return Ways(_jobs(found, question), () if np.any(found.bits == 0) else minimal_blame(found.bits))
        whole = _service(wishes, question, catalog)
        return dataclasses.replace(whole, parts=_parts(wishes, question, catalog)) if question.slices else whole
    except OutOfTimeError:
        raise
    except RightfitError as error:
        first = error.problems[0] if isinstance(error, InputError) and error.problems else error
        return Ways((), (), first.message)


def _usable(found: SearchResult, question: Asked) -> tuple[Any, Any]:
    """Rows (offer, column) that may be taken: prices that somebody asks and places that are meant
    go before all others."""
    offer, column = np.nonzero(found.bits == 0)
    offers = found.market.offers
    behind = offers.is_estimate[offer] | elsewhere(found)[offer]
    if question.oldest:
        dates = np.array([date < question.oldest for date in offers.as_of_dates], dtype=np.bool_)
        young = ~dates[offers.as_of_index[offer]]
        offer, column, behind = offer[young], column[young], behind[young]
    if not np.all(behind):
        offer, column = offer[~behind], column[~behind]
    return offer, column


def _jobs(found: SearchResult, question: Asked) -> tuple[Way, ...]:
    offer, column = _usable(found, question)
    usd, seconds = found.bill.total_usd[offer, column], found.bill.total_s[offer, column] + _moving_s(found, offer)
    number = found.num_servers(offer, column)
    kept = _thinned(found, offer, usd, seconds, number, question.kept)
    rows = kept[np.argsort(usd[kept], kind="stable")]
    return tuple(_way(found, int(offer[row]), int(column[row]), int(number[row])) for row in rows.tolist())


def _moving_s(found: Any, offer: Any) -> Any:
    """Seconds until the data are where a job runs, for each of these rows of offers; 0 where they
    lie there. Its servers are rented afterwards."""
    if found.filters.source is None:
        return np.zeros(np.shape(offer))
    return np.broadcast_to(upload_s(found.filters.source, found.market.offers, found.volume), len(found.market.offers))[offer]


def _thinned(found: SearchResult, offer: Any, usd: Any, seconds: Any, number: Any, must: Sequence[tuple[str, str]]) -> Any:
    """Of each way to pay the cheapest, with few regions of one server; the fast that are on the
    front of money and time; and what must stay."""
    offers = found.market.offers
    servers = offers.servers
    by_server: dict[tuple[int, int, float], int] = {}
    by_mode: dict[int, int] = {}
    chosen: list[int] = []
    fastest: dict[int, float] = {}
    cards = {int(row): _names(servers, int(row)) for row in np.unique(offers.server_index[offer])}
    owned: dict[str, int] = {}
    for row in np.argsort(usd, kind="stable").tolist():
        at = offer[row]
        server, mode, region = int(offers.server_index[at]), int(offers.purchase_index[at]), offers.regions[offers.region_index[at]]
        key = (server, mode, float(number[row]))
        mine = next((name for name, place in must if mode != SPOT and name in cards[server] and place in ("", region)), "")
        forced = bool(mine) and owned.get(mine, 0) < PER_MODE and by_server.get(key, 0) < REGIONS
        faster = seconds[row] < 0.8 * fastest.get(mode, np.inf)
        if (by_mode.get(mode, 0) >= PER_MODE or by_server.get(key, 0) >= REGIONS) and not forced and not faster:
            continue
        chosen.append(row)
        by_mode[mode] = by_mode.get(mode, 0) + 1
        by_server[key] = by_server.get(key, 0) + 1
        owned[mine] = owned.get(mine, 0) + 1
        fastest[mode] = min(fastest.get(mode, np.inf), float(seconds[row]))
    return np.array(chosen, dtype=np.intp)


def _names(servers: Any, row: int) -> frozenset[str]:
    """What a line of what is owned may call a server: its name, or its cards."""
    return frozenset(
        {f"{servers.provider[row]}/{servers.instance_type[row]}", f"{servers.num_accelerators[row]:g}x{servers.accelerator_name[row]}"}
    )


def _way(found: SearchResult, offer: int, column: int, number: int, levels: tuple[int, ...] = ()) -> Way:
    offers, bill = found.market.offers, found.bill
    servers, row = offers.servers, int(offers.server_index[offer])
    total, rent = float(bill.total_usd[offer, column]), float(bill.servers_usd[offer, column])
    rent = min(rent, total)
    hours = 0.0 if levels else (float(bill.total_s[offer, column]) + float(_moving_s(found, offer))) / 3600.0
    return Way(
        provider=servers.provider[row],
        instance_type=servers.instance_type[row],
        region=offers.regions[offers.region_index[offer]],
        country=offers.region_countries[offers.region_index[offer]],
        purchase=PURCHASES[offers.purchase_index[offer]],
        servers=number,
        hours=hours,
        usd_per_h=float(offers.price_usd_per_h[offer]),
        other_usd=total - rent,
        servers_usd=rent,
        accelerator=servers.accelerator_name[row],
        accelerators=float(servers.num_accelerators[row]),
        vcpus=float(np.nan_to_num(servers.vcpus[row])),
        as_of=offers.as_of_dates[offers.as_of_index[offer]],
        levels=levels,
        memory_bytes=float(np.nan_to_num(servers.memory_bytes[row])),
    )


def _service(wishes: Mapping[str, Any], question: Asked, catalog: Catalog) -> Ways:
    """Ways of a service: sized by the queue model at its peak, and with the same weights on the
    same servers at its lower levels."""
    from rightfit.families.registry import settled
    from rightfit.planner.plan import explored
    from rightfit.search.confirm import confirmed
    from rightfit.search.constraints import minimal_blame
    from rightfit.search.request_checks import settle_own_model
    from rightfit.workload.model import Workload

    found: list[Any] = []
    for rate in question.rates:
        reach.go_on()
        family, workload = settled(settle_own_model(Workload(**{**wishes, "rate": f"{rate:.12g}/s"})))
        level, _ = explored(family, workload, catalog)
        if np.any(level.bits == 0) and rate == question.rates[-1]:
            level, _ = confirmed(family, level, _CONFIRMED)
        found.append(level)
    peak = found[-1]
    if not np.any(peak.bits == 0):
        return Ways((), minimal_blame(peak.bits))
    offer, column = _usable(peak, question)
    usd, number = peak.bill.total_usd[offer, column], peak.num_servers(offer, column)
    rows = _thinned(peak, offer, usd, np.ones(offer.shape[0]), number, question.kept)
    lower = [_sizes(level, peak, offer[rows], column[rows]) for level in found[:-1]]
    ways = []
    for place in np.argsort(usd[rows], kind="stable").tolist():
        row = int(rows[place])
        sizes = [int(one[place]) if np.isfinite(one[place]) else int(number[row]) for one in lower]
        levels = tuple(np.minimum.accumulate([int(number[row]), *reversed(sizes)])[::-1].tolist())
        ways.append(_way(peak, int(offer[row]), int(column[row]), int(number[row]), levels))
    return Ways(tuple(ways))


def _parts(wishes: Mapping[str, Any], question: Asked, catalog: Catalog) -> tuple[Part, ...]:
    """Parts of cards that carry a service at its peak, of the servers that are cheapest for it; one
    model never lies on two parts."""
    from rightfit.families.registry import settled
    from rightfit.planner.plan import explored
    from rightfit.search.confirm import confirmed
    from rightfit.search.request_checks import settle_own_model
    from rightfit.workload.model import Workload

    parts = []
    for text in question.slices:
        reach.go_on()
        try:
            family, workload = settled(settle_own_model(Workload(**{**wishes, "rate": f"{question.rates[-1]:.12g}/s", "slice": text})))
            found, _ = explored(family, workload, catalog)
            found, _ = confirmed(family, found, _CONFIRMED) if np.any(found.bits == 0) else (found, None)
        except RightfitError:  # cards that were asked for have no such parts, or models of this kind stand on none
            continue
        if not np.any(found.bits == 0):
            continue
        offer, column = _usable(found, question)
        for row in _thinned(
            found, offer, found.bill.total_usd[offer, column], np.ones(offer.shape[0]), np.ones(offer.shape[0]), ()
        ).tolist():
            cell = (int(offer[row]), int(column[row]))
            at, machine = found.candidate(*cell), int(found.fleet.machine_index[found.market.offers.server_index[cell[0]]])
            whole = at >= 0 and machine >= 0 and int(found.space.tensor[at]) == 1 and int(found.space.nodes[at]) == 1
            if whole and found.fleet.accelerators[machine].name.count("/"):
                number = round(float(found.num_servers(offer[row : row + 1], column[row : row + 1])[0]))
                way = _way(found, *cell, number, (number,))
                parts.append(Part(way, text, round(float(found.sizing.needed[machine, cell[1]]))))
    return tuple(parts)


def _sizes(level: Any, peak: Any, offer: Any, column: Any) -> Any:
    """Servers at a lower level of the same offers and weights (rows,); not finite where the search
    for that level did not look at one."""
    known = {_key(level, row): row for row in range(len(level.market.offers))}
    at = np.array([known.get(_key(peak, int(row)), -1) for row in offer], dtype=np.intp)
    same = level.bits.shape[1] == peak.bits.shape[1]
    sizes = level.num_servers(np.maximum(at, 0), column) if same else np.full(at.shape, np.inf)
    return np.where(at >= 0, sizes, np.inf)


def _key(found: Any, row: int) -> tuple[str, str, str, int]:
    offers = found.market.offers
    server = int(offers.server_index[row])
    return (
        offers.servers.provider[server],
        offers.servers.instance_type[server],
        offers.regions[offers.region_index[row]],
        int(offers.purchase_index[row]),
    )


def oldest_date(age_h: float | None, today: datetime.date) -> str:
    """The date of the oldest price that an age allows; empty where any will do."""
    return (today - datetime.timedelta(hours=age_h)).isoformat() if age_h else ""


# ---- Jobs of a fleet as own runs say: the hours of each way, and with them its rent, are moved by
# what runs of the same job missed.

_TRAINING = (None, "train", "finetune")
_COLUMNS = ("model", "method", "framework", "precision", "seq_len", "micro_batch")


def calibrated(ways: Mapping[str, Ways], fleet: Fleet, evidence: Evidence) -> tuple[dict[str, Ways], dict[str, str]]:
    """The ways of the jobs with corrected hours and rent, cheapest first, and by how much the first
    of each job moved ("+12 %").

    Only jobs of a model that a run is of are moved: what other jobs missed says little of a fleet
    that mixes stacks. Services keep their sizes, as in a plan.
    """
    models = {named(row.case).job[0] for row in evidence.of("training-step")}
    moved, told = dict(ways), {}
    for job in fleet.jobs:
        wishes = {**fleet.limits, **job.wishes}
        found = ways.get(job.name)
        if found is None or not found.found or wishes.get("task") not in _TRAINING or _job(wishes, found.found[0]).job[0] not in models:
            continue
        factors = [one.factor if one else 1.0 for one in corrections(evidence, [_job(wishes, way) for way in found.found])]
        if all(factor == 1.0 for factor in factors):
            continue
        changed = [_stretched(way, factor) for way, factor in zip(found.found, factors, strict=True)]
        moved[job.name] = dataclasses.replace(found, found=tuple(sorted(changed, key=lambda way: way.total_usd)))
        told[job.name] = percent(factors[0])
    return moved, told


def _job(wishes: Mapping[str, Any], way: Way) -> Case:
    row = {name: str(wishes[name]) for name in _COLUMNS if wishes.get(name)}
    return named(
        case_of({"micro_batch": "", **row, "gpu": way.accelerator, "n_gpus": f"{way.accelerators * way.servers:g}"}, "step_time_s")
    )


def _stretched(way: Way, factor: float) -> Way:
    return dataclasses.replace(way, hours=way.hours * factor, servers_usd=way.servers_usd * factor)
