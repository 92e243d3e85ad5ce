"""Which offers fail which criterion, all at once: one boolean array (offer, node count) for each
criterion, and what it needed and had."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import InputError, UnknownNameError
from rightfit.facts.devices import is_unreleased
from rightfit.facts.engine_releases import is_served
from rightfit.market.offers import gone, today
from rightfit.market.sellers import Sellers, any_place, read_sellers, untrusted
from rightfit.messages import Message
from rightfit.physics import money
from rightfit.physics.columns import Array, once
from rightfit.records import dataclass
from rightfit.search.answer import Assumption, Reason
from rightfit.search.criteria import (
    CRITERIA,
    Judged,
    add_fabric,
    add_host_cpus,
    add_most_nodes,
    add_quota,
    jurisdictions,
    read_quotas,
    residency_countries,
    stack_of,
)
from rightfit.search.market import Bill, BillColumns
from rightfit.search.offers import Market
from rightfit.search.risk import Surety
from rightfit.search.sources import DataSource, read_source
from rightfit.workload.options import option_of_word
from rightfit.workload.vocabulary import CLOUDS, COUNTRIES, PURCHASES, fold

if TYPE_CHECKING:
    from rightfit.market import Catalog, OfferTable
    from rightfit.market.sellers import Quota
    from rightfit.workload import Workload


Mask = NDArray[np.bool_]
Index = NDArray[np.intp]

NO_ACCELERATOR = ("none", "no", "cpu", "无")
DEFAULT_PURCHASES = ("on-demand", "spot")
OWNED = "owned"  # servers of a price book: there only where the user put them
NOWHERE = ("-",)  # no country is left of those that the user named
LATENCIES = ("ttft", "tpot", "latency")
WISHES = frozenset(
    {"cloud", "seller", "region", "country", "gpu", "software", "purchase", "max_nodes", "num_gpus", "quota", "stock", "deadline", "budget"}
)


@dataclass(frozen=True, slots=True)
class Filters:
    """The user's filters with names resolved; an empty tuple means no restriction."""

    clouds: tuple[str, ...]
    regions: tuple[str, ...]
    countries: tuple[str, ...]
    gpus: tuple[str, ...]
    purchases: tuple[str, ...]
    max_nodes: int | None
    deadline_s: float | None
    budget_usd: float | None
    budget_per_month: bool
    any_software: bool = False  # a server that was given by name runs whatever it runs
    is_served: bool = False  # by an engine, whose images bring a build of PyTorch of their own
    source: DataSource | None = None  # where the data lie, if not in the region of the server
    quotas: tuple[Quota, ...] = ()
    num_gpus: int | None = None  # cards of all servers together
    avoided: tuple[tuple[str, str], ...] = ()  # (criterion, name) of what may not be
    confidence: float = 0.5  # probability at which deadline and budget are to hold; a half: their middles decide
    sellers: Sellers = dataclasses.field(default_factory=Sellers)
    strict_country: bool = False  # data residency: a provider that does not say where its servers stand is out, named or not

    @property
    def is_limited(self) -> bool:
        """Whether time or money has a limit, which is to hold at a probability."""
        return self.deadline_s is not None or self.budget_usd is not None

    def value_of(self, criterion: str) -> str:
        """What the user asked for, in words of the catalog."""
        if criterion == "seller":
            return str(self.sellers)
        names = {"cloud": self.clouds, "region": self.regions, "country": self.countries, "gpu": self.gpus, "purchase": self.purchases}
        wanted = [name or "none" for name in names.get(criterion, ())]
        return ", ".join((*wanted, *(f"not {name}" for refused_by, name in self.avoided if refused_by == criterion)))


def read_filters(workload: Workload, catalog: Catalog) -> Filters:
    """Names of the workload as the catalog and the facts know them; unknown ones
    raise with the nearest, or with the option that they are names of."""
    try:
        return _filters(workload, catalog)
    except UnknownNameError as error:
        meant = _options_of(error.name, catalog, but=str(error.field))
        raise UnknownNameError(error.kind, error.name, nearest=meant, field=error.field) if meant else error from None


def _options_of(name: str, catalog: Catalog, *, but: str) -> tuple[str, ...]:
    """The options that a name is one of, each with it as it is written there: "country CN"."""
    from rightfit.market import names

    text = fold(name)
    readers: Mapping[str, Callable[[], Iterable[str]]] = {
        "cloud": lambda: (names.resolve_provider(CLOUDS.get(text, name)),),
        "residency": lambda: (jurisdictions()[text]["code"],) if text in jurisdictions() else (),
        "country": lambda: names.resolve_countries(COUNTRIES.get(text, name), catalog.regions()),
        "region": lambda: [found.region for found in catalog.find_regions(name)][:1],
        "gpu": lambda: accelerators_of(name) and (name,),
    }
    found = [*option_of_word(name, but=but)]
    for option, read in readers.items():
        with contextlib.suppress(UnknownNameError):
            if option != but and (meant := tuple(read())):
                found.append(f"{option} {meant[0] if len(meant) == 1 else name}")
    return tuple(found[:2])


def _filters(workload: Workload, catalog: Catalog) -> Filters:
    from rightfit.market import names

    clouds = tuple(dict.fromkeys(names.resolve_provider(name) for name in workload.cloud))
    regions = tuple(dict.fromkeys(region.region for name in workload.region for region in catalog.find_regions(name, providers=clouds)))
    countries = tuple(dict.fromkeys(code for name in workload.country for code in names.resolve_countries(name, catalog.regions())))
    if workload.residency:
        allowed = residency_countries(workload.residency, catalog)
        countries = tuple(code for code in countries if code in allowed) or (allowed if not countries else NOWHERE)
    gpus = tuple(dict.fromkeys(found for name in workload.gpu for found in _rented_as(accelerators_of(name), catalog)))
    purchases = names.resolve_purchases(workload.purchase) if workload.purchase else (*DEFAULT_PURCHASES, OWNED)
    return Filters(
        clouds,
        regions,
        countries,
        gpus,
        purchases,
        workload.max_nodes,
        workload.deadline_s,
        workload.budget_usd,
        workload.budget_per_month,
        source=read_source(workload, catalog),
        quotas=read_quotas(workload, catalog),
        confidence=confidence_of(workload),
        num_gpus=workload.num_gpus,
        avoided=_avoided(workload.avoid, catalog),
        sellers=read_sellers(workload.sellers, clouds=clouds or home_clouds(workload)),
        strict_country=bool(workload.residency),
    )


def _rented_as(cards: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
    """These accelerators; where no server with one has a price, also what a cloud calls them."""
    from rightfit.market.offers import OfferFilter

    labels = facts.labelled_as(cards) if any(cards) else ()  # no card at all has no label
    return cards if not labels or len(catalog.offers(OfferFilter(gpus=cards))) else (*cards, *labels)


def _avoided(wanted: tuple[str, ...], catalog: Catalog) -> tuple[tuple[str, str], ...]:
    """What may not be, with the criterion that refuses it: clouds, accelerators, countries."""
    from rightfit.market import names

    found: list[tuple[str, str]] = []
    for name in wanted:
        criterion, meant = "gpu", facts.match_accelerators(name)
        if not meant:
            criterion, meant = _avoided_place(name, catalog, names)
        found += [(criterion, one) for one in meant]
    return tuple(found)


def _avoided_place(name: str, catalog: Catalog, names: Any) -> tuple[str, tuple[str, ...]]:
    try:
        return "cloud", (names.resolve_provider(CLOUDS.get(fold(name), name)),)
    except UnknownNameError as error:
        try:
            return "country", names.resolve_countries(COUNTRIES.get(fold(name), name), catalog.regions())
        except UnknownNameError:
            if (meant := PURCHASES.aliases.get(fold(name), fold(name))) in PURCHASES.words:
                raise InputError(
                    Message("search.avoided_purchase", name=name, other="spot" if meant == "on-demand" else "on-demand"), field="avoid"
                ) from None
            raise UnknownNameError("cloud", name, nearest=error.nearest, field="avoid") from None


def home_clouds(workload: Workload) -> tuple[str, ...]:
    """The clouds of mainland China where the wish is in yuan: few launchers know them, and they
    are what it means."""
    from rightfit.market import names

    known = names.names_data()["mainland"]["clouds"] if workload.currency == "cny" else ()
    return tuple(name for name in known if name not in names.partitions())


def confidence_of(workload: Workload) -> float:
    """The probability at which deadline and budget are to hold: as asked for, or the usual one."""
    return workload.confidence / 100.0 if workload.confidence else float(facts.coefficients("planning")["confidence"])


def assumed_purchases(workload: Workload, *, usual: Sequence[str] = DEFAULT_PURCHASES) -> tuple[Assumption, ...]:
    """The ways to pay that were taken where the user named none."""
    value = ", ".join(usual)
    return () if workload.purchase else (Assumption("purchase", value, Reason("assumed_purchase", {"value": value})),)


def accelerators_of(name: str) -> tuple[str, ...]:
    """Accelerators that a loose name covers; "none" means servers without any, whose accelerator
    has the empty name."""
    if name.strip().casefold() in NO_ACCELERATOR:
        return ("",)
    return facts.named_accelerators(name, field="gpu")


@dataclass(frozen=True, slots=True)
class Failures:
    """`fails[criterion]` broadcasts to (offers, node counts). `margin[criterion]`: how far off in
    relative terms, for criteria with numbers (0.3: 30 % too much), `needed` and `had` likewise; of
    deadline and budget at the wanted probability, which `sure` tells for others."""

    fails: dict[str, Mask]
    needed: dict[str, Array]
    had: dict[str, Array]
    shape: tuple[int, int]
    sure: Surety | None = None

    @classmethod
    def of(cls, judged: Judged, sure: Surety) -> Failures:
        """What was judged of the rows of a bill."""
        return cls(judged.fails, judged.needed, judged.had, sure.bill.total_usd.shape, sure)

    def bits(self) -> NDArray[np.int32]:
        """All failing criteria of each row as one integer: bit k is CRITERIA[k]."""
        out = np.zeros(self.shape, dtype=np.int32)
        for position, criterion in enumerate(CRITERIA):
            if criterion in self.fails:
                out |= np.left_shift(self.fails[criterion].astype(np.int32), position)
        return out

    def margin(self, criterion: str, at: tuple[Any, ...] = ()) -> Array:
        """Relative distance of each row from passing, or of the rows `at` (as an index of the
        table); 0 where the criterion has no numbers."""
        if criterion not in self.needed:
            return np.zeros(np.broadcast_to(0.0, self.shape)[at].shape)
        needed, had = (np.broadcast_to(values[criterion], self.shape)[at] for values in (self.needed, self.had))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(needed > had, needed / had, 1.0) if criterion in MORE_IS_NEEDED else np.where(had > needed, had / needed, 1.0)
        return np.nan_to_num(ratio - 1.0, nan=np.inf)


MORE_IS_NEEDED = frozenset({"gpu_memory", "host_memory", "host_cpus"})


def filter_failures(offers: OfferTable, filters: Filters) -> dict[str, Mask]:
    """The user's own filters, one array by offer each; only those that are set."""
    servers = offers.servers
    withdrawn = np.array([bool(why) for why in servers.not_recommended], dtype=np.bool_) | gone(servers, on=today())
    fails = {"status": withdrawn[offers.server_index]}
    if filters.clouds:
        fails["cloud"] = _by_server(offers, [provider not in filters.clouds for provider in servers.provider])
    if filters.regions:
        fails["region"] = _by_region(offers, [region not in filters.regions for region in offers.regions])
    if filters.countries:
        fails["country"] = _country_failures(offers, filters)
    for name in {"region", "country"} & fails.keys():  # a place that decides needs a row that somebody published
        fails[name] = fails[name] | any_place(offers)
    if filters.gpus:
        fails["gpu"] = _by_server(offers, [name not in filters.gpus for name in servers.accelerator_name])
    for criterion, flags in _avoided_failures(offers, filters):
        fails[criterion] = fails[criterion] | flags if criterion in fails else flags
    if not filters.any_software:
        unasked = set(servers.accelerator_name) - set(filters.gpus)
        other = {name for name in unasked if not runs_usual_software(name, by_engine=filters.is_served)}
        fails["software"] = _by_server(offers, [name in other for name in servers.accelerator_name])
        fails["seller"] = untrusted(offers, filters.sellers, places=(*filters.regions, *filters.countries))
    fails["purchase"] = ~np.isin(offers.purchase_index, [_purchase_code(name) for name in filters.purchases])
    return fails


def _avoided_failures(offers: OfferTable, filters: Filters) -> Iterator[tuple[str, Mask]]:
    """Offers of what may not be."""
    servers = offers.servers
    by_server = {"cloud": servers.provider, "gpu": servers.accelerator_name}
    for criterion in dict.fromkeys(criterion for criterion, _ in filters.avoided):
        avoided = {name for refused_by, name in filters.avoided if refused_by == criterion}
        if criterion == "country":
            yield criterion, _by_region(offers, [country in avoided for country in offers.region_countries])
        else:
            yield criterion, _by_server(offers, [name in avoided for name in by_server[criterion]])


def runs_usual_software(name: str, *, by_engine: bool = False) -> bool:
    """Whether the usual stack (CUDA, ROCm) runs on an accelerator, as it is released; one that is
    not known fails for that, not for its software. `by_engine`: an engine of its own image will
    do."""
    known = facts.accelerators().get(name)
    return known is None or (bool(stack_of(known)) and (not is_unreleased(name) or (by_engine and is_served(name))))


def _purchase_code(name: str) -> int:
    from rightfit.market import PURCHASE_CODES

    return PURCHASE_CODES[name]


def _by_server(offers: OfferTable, flags: Sequence[bool]) -> Mask:
    return np.array(flags, dtype=np.bool_)[offers.server_index]


def _by_region(offers: OfferTable, flags: Sequence[bool]) -> Mask:
    return np.array(flags, dtype=np.bool_)[offers.region_index]


def _country_failures(offers: OfferTable, filters: Filters) -> Mask:
    """Offers in other countries. A provider that lists no real region at all is out too, because
    its list cannot say where a server would stand; it is kept where the user names it."""
    countries = filters.countries
    located = {provider for provider, country in zip(offers.region_providers, offers.region_countries, strict=True) if country}
    flags = [
        country not in countries and (provider in located or provider not in filters.clouds or filters.strict_country)
        for provider, country in zip(offers.region_providers, offers.region_countries, strict=True)
    ]
    return _by_region(offers, flags)


@dataclass(frozen=True, slots=True)
class Feasibility:
    """What the setups can do on each server, by (server, node count): whether a layout exists at
    all, the least memory that one needs on an accelerator and on the host, and what is there. All
    (servers, node counts) but the two capacities (servers,)."""

    missing: tuple[str, ...]
    has_layout: Mask
    fits_accelerator: Mask
    fits_host: Mask
    least_bytes: Array
    capacity_bytes: Array
    least_host_bytes: Array
    host_bytes: Array


def judge(
    offers: OfferTable, filters: Filters, *, feasible: Feasibility, sure: Surety, node_counts: Array, as_one: bool = True
) -> Failures:
    """Every criterion on every (offer, node count). Where no setup fits there is no time and
    no price: deadline and budget then count as passed. `as_one`: several servers exchange data
    at every step."""
    server, judged = offers.server_index, Judged(filter_failures(offers, filters))
    add_most_nodes(filters, offers, node_counts[None, :], judged)
    add_quota(filters, offers, node_counts[None, :], judged)
    able = np.array([not reason for reason in feasible.missing], dtype=np.bool_)
    judged.fails["capability"] = ~able[server][:, None]
    if "software" in judged.fails:  # what cannot run the job at all is not refused for its software
        judged.fails["software"] &= able[server][:, None]
    judged.fails["layout"] = (able[:, None] & ~feasible.has_layout)[server]
    small = (feasible.has_layout & ~feasible.fits_accelerator)[server]
    judged.put("gpu_memory", small, needed=feasible.least_bytes[server], had=feasible.capacity_bytes[server][:, None])
    small = (feasible.fits_accelerator & ~feasible.fits_host)[server]
    judged.put("host_memory", small, needed=feasible.least_host_bytes[server], had=feasible.host_bytes[server][:, None])
    cards = np.nan_to_num(offers.servers.num_accelerators)
    add_host_cpus(offers, np.where(cards > 0, facts.coefficients("planning")["job_processes"] + cards, 0.0), judged)
    if as_one:
        add_fabric(offers, node_counts[None, :], judged)
    add_limits(filters, sure, judged)
    return Failures.of(judged, sure)


def add_limits(filters: Filters, sure: Surety, judged: Judged) -> None:
    """Deadline and budget: rows whose time and money do not keep them at the wanted probability."""
    bill = sure.bill
    if filters.deadline_s is not None:
        taken = sure.time_s(filters.confidence)
        late = np.isfinite(bill.total_s) & (taken > filters.deadline_s)
        judged.put("deadline", late, needed=np.full((1, 1), filters.deadline_s), had=taken)
    if filters.budget_usd is not None:
        spent = sure.usd(filters.confidence)
        if filters.budget_per_month and isinstance(bill, Bill):
            spent = money.worst_month_usd(spent, hourly_usd=bill.hourly_usd)
        over = np.isfinite(bill.total_usd) & (spent > filters.budget_usd)
        judged.put("budget", over, needed=np.full((1, 1), filters.budget_usd), had=spent)


def first_failure(bits: NDArray[np.int32]) -> NDArray[np.intp]:
    """Position of the first failing criterion of each row, len(CRITERIA) where none fails."""
    lowest = bits & -bits
    position = np.full(bits.shape, len(CRITERIA), dtype=np.intp)
    hit = bits > 0
    position[hit] = np.log2(lowest[hit]).astype(np.intp)
    return position


def minimal_blame(bits: NDArray[np.int32], *, largest: int = 3) -> tuple[tuple[str, ...], ...]:
    """The smallest sets of criteria such that every row fails at least one of the set; empty when
    some row passes all.

    Sets of one, then two, then three: as Karpenter's InstanceTypeFilterError tells which
    requirement, or which pair, no instance type met. Rows that fail something the user does not
    choose (what the machine can do) count only if all rows do: else the blame lies with the wishes.
    """
    masks = once(bits)
    if masks.size == 0 or masks[0] == 0:
        return ()
    masks = masks[(masks & bits_beside(blamable(masks))) == 0]
    present = [position for position in range(len(CRITERIA)) if np.any(masks & (1 << position))]
    for size in range(1, largest + 1):
        found = [group for group in _groups(present, size) if np.all(masks & sum(1 << position for position in group))]
        if found:
            return tuple(tuple(CRITERIA[position] for position in group) for group in found)
    return (tuple(CRITERIA[position] for position in present),)


def blamable(bits: NDArray[np.int32]) -> frozenset[str]:
    """The criteria that rows are held against: the user's wishes where some row fails nothing else;
    those and the latencies of a service, which no bill is known beside, where some row fails only
    such; all where every row fails what no wish changes."""
    for criteria in (WISHES, WISHES.union(LATENCIES)):
        if np.any((bits & bits_beside(criteria)) == 0):
            return criteria
    return frozenset(CRITERIA)


def bits_beside(criteria: frozenset[str]) -> int:
    """All other criteria, as the integer of a row that fails them all."""
    return sum(1 << position for position, criterion in enumerate(CRITERIA) if criterion not in criteria)


def _groups(items: Sequence[int], size: int) -> Sequence[tuple[int, ...]]:
    from itertools import combinations

    return tuple(combinations(items, size))


# ---- What every search hands to the frame: the frame ranks, refuses, bills and judges through this
# and knows no family of work.

Bits = NDArray[np.int32]


class SearchResult(Protocol):
    """All that one search found. Rows of `bill` and `bits` are offers of `market`; what the columns
    are (numbers of servers, formats of weights) is the family's own business."""

    @property
    def filters(self) -> Filters: ...
    @property
    def market(self) -> Market: ...
    @property
    def bill(self) -> BillColumns: ...
    @property
    def failures(self) -> Failures: ...
    @property
    def bits(self) -> Bits: ...
    @property
    def workload(self) -> Workload: ...

    def nodes(self, cell: tuple[int, int]) -> float:
        """Servers that an (offer, column) rents; infinity where no number of them is enough."""
        ...

    def num_servers(self, offer: Index, column: Index) -> Array:
        """`nodes` of many rows at once."""
        ...

    def together(self, cell: tuple[int, int]) -> int:
        """Of the servers of an (offer, column) how many work as one: they exchange
        data at every step."""
        ...

    def last_resort(self, offer: Index, column: Index) -> NDArray[np.bool_]:
        """Which of many rows run in a way that an engineer takes only where nothing else
        is affordable: state of the run in host memory, a replica over servers that RDMA
        does not join."""
        ...

    def is_tight(self, offer: Index, column: Index) -> NDArray[np.bool_]:
        """Which of many rows fit with a probability under that of what surely fits."""
        ...

    def missing(self, server: int) -> str:
        """What a server of the market lacks to run the job at all; empty where nothing."""
        ...
