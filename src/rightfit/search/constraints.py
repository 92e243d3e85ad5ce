"""Which offers fail which criterion, all at once: one boolean array (offer, node count) for each criterion, and what it needed and had."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.physics import money
from rightfit.physics.columns import Array
from rightfit.search.limits import add_quota, read_quotas, residency_countries
from rightfit.search.loads import DataSource, read_source
from rightfit.search.market import Bill
from rightfit.search.reasons import CRITERIA
from rightfit.search.software import stack_of

if TYPE_CHECKING:
    from rightfit.catalog import Catalog, OfferTable
    from rightfit.catalog.quotas import Quota
    from rightfit.workload import Workload

Mask = NDArray[np.bool_]
Index = NDArray[np.intp]

NO_ACCELERATOR = ("none", "no", "cpu", "无")
DEFAULT_PURCHASES = ("on-demand", "spot")
OWNED = "owned"  # servers of a price book: there only where the user put them
NOWHERE = ("-",)  # no country is left of those that the user named
WISHES = frozenset({"cloud", "region", "country", "gpu", "software", "purchase", "max_nodes", "quota", "deadline", "budget"})


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
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
    source: DataSource | None = None  # where the data lie, if not in the region of the server
    quotas: tuple[Quota, ...] = ()
    strict_country: bool = False  # data residency: a provider that does not say where its servers stand is out, named or not

    def value_of(self, criterion: str) -> str:
        """What the user asked for, in words of the catalog."""
        names = {"cloud": self.clouds, "region": self.regions, "country": self.countries, "gpu": self.gpus, "purchase": self.purchases}
        return ", ".join(name or "none" for name in names.get(criterion, ()))


def read_wanted(workload: Workload, catalog: Catalog) -> Wanted:
    """Names of the workload as the catalog and the facts know them; unknown ones raise with the nearest."""
    from rightfit.catalog import names

    clouds = tuple(dict.fromkeys(names.resolve_provider(name) for name in workload.cloud))
    regions = tuple(dict.fromkeys(region.region for name in workload.region for region in catalog.find_regions(name, providers=clouds)))
    countries = tuple(dict.fromkeys(code for name in workload.country for code in names.resolve_countries(name, catalog.regions())))
    if workload.residency:
        allowed = residency_countries(workload.residency, catalog)
        countries = tuple(code for code in countries if code in allowed) or (allowed if not countries else NOWHERE)
    gpus = tuple(dict.fromkeys(found for name in workload.gpu for found in accelerators_of(name)))
    purchases = names.resolve_purchases(workload.purchase) if workload.purchase else (*DEFAULT_PURCHASES, OWNED)
    return Wanted(
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
        strict_country=bool(workload.residency),
    )


def accelerators_of(name: str) -> tuple[str, ...]:
    """Accelerators that a loose name covers; "none" means servers without any, whose accelerator has the empty name."""
    if name.strip().casefold() in NO_ACCELERATOR:
        return ("",)
    found = facts.match_accelerators(name)
    if not found:
        raise UnknownNameError("GPU", name, nearest=facts.nearest_accelerators(name), field="gpu")
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Failures:
    """`fails[criterion]` broadcasts to (offers, node counts). `margin[criterion]`: how far off in relative terms, for criteria with numbers
    (0.3: 30 % too much), `needed` and `had` likewise."""

    fails: dict[str, Mask]
    needed: dict[str, Array]
    had: dict[str, Array]
    shape: tuple[int, int]

    def bits(self) -> NDArray[np.int32]:
        """All failing criteria of each row as one integer: bit k is CRITERIA[k]."""
        out = np.zeros(self.shape, dtype=np.int32)
        for position, criterion in enumerate(CRITERIA):
            if criterion in self.fails:
                out |= np.left_shift(self.fails[criterion].astype(np.int32), position)
        return out

    def margin(self, criterion: str) -> Array:
        """Relative distance of each row from passing; 0 where the criterion has no numbers."""
        if criterion not in self.needed:
            return np.zeros(self.shape)
        needed, had = (np.broadcast_to(values[criterion], self.shape) for values in (self.needed, self.had))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(needed > had, needed / had, 1.0) if criterion in MORE_IS_NEEDED else np.where(had > needed, had / needed, 1.0)
        return np.nan_to_num(ratio - 1.0, nan=np.inf)


MORE_IS_NEEDED = frozenset({"gpu_memory", "host_memory"})


def filter_failures(offers: OfferTable, wanted: Wanted) -> dict[str, Mask]:
    """The user's own filters, one array by offer each; only those that are set."""
    servers = offers.servers
    fails = {"status": _by_server(offers, [bool(why) for why in servers.not_recommended])}
    if wanted.clouds:
        fails["cloud"] = _by_server(offers, [provider not in wanted.clouds for provider in servers.provider])
    if wanted.regions:
        fails["region"] = _by_region(offers, [region not in wanted.regions for region in offers.regions])
    if wanted.countries:
        fails["country"] = _country_failures(offers, wanted)
    if wanted.gpus:
        fails["gpu"] = _by_server(offers, [name not in wanted.gpus for name in servers.accelerator_name])
    if not wanted.any_software:
        other = {name for name in set(servers.accelerator_name) - set(wanted.gpus) if not runs_usual_software(name)}
        fails["software"] = _by_server(offers, [name in other for name in servers.accelerator_name])
    fails["purchase"] = ~np.isin(offers.purchase_index, [_purchase_code(name) for name in wanted.purchases])
    return fails


def runs_usual_software(name: str) -> bool:
    """Whether the usual stack (CUDA, ROCm) runs on an accelerator; one that is not known fails for that, not for its software."""
    known = facts.accelerators().get(name)
    return known is None or bool(stack_of(known))


def _purchase_code(name: str) -> int:
    from rightfit.catalog import PURCHASE_CODES

    return PURCHASE_CODES[name]


def _by_server(offers: OfferTable, flags: Sequence[bool]) -> Mask:
    return np.array(flags, dtype=np.bool_)[offers.server_index]


def _by_region(offers: OfferTable, flags: Sequence[bool]) -> Mask:
    return np.array(flags, dtype=np.bool_)[offers.region_index]


def _country_failures(offers: OfferTable, wanted: Wanted) -> Mask:
    """Offers in other countries. A provider that lists no real region at all is out too, because its list cannot say where a server would stand;
    it is kept where the user names it."""
    countries = wanted.countries
    located = {provider for provider, country in zip(offers.region_providers, offers.region_countries, strict=True) if country}
    flags = [
        country not in countries and (provider in located or provider not in wanted.clouds or wanted.strict_country)
        for provider, country in zip(offers.region_providers, offers.region_countries, strict=True)
    ]
    return _by_region(offers, flags)


@dataclasses.dataclass(frozen=True, slots=True)
class Feasibility:
    """What the setups can do on each server, by (server, node count): whether a layout exists at all, the least memory that one needs on an
    accelerator and on the host, and what is there. All (servers, node counts) but the two capacities (servers,)."""

    missing: tuple[str, ...]
    has_layout: Mask
    fits_accelerator: Mask
    fits_host: Mask
    least_bytes: Array
    capacity_bytes: Array
    least_host_bytes: Array
    host_bytes: Array


def judge(offers: OfferTable, wanted: Wanted, *, feasible: Feasibility, bill: Bill, node_counts: Array) -> Failures:
    """Every criterion on every (offer, node count). Where no setup fits there is no time and no price: deadline and budget then count as passed."""
    server = offers.server_index
    fails: dict[str, Mask] = {name: mask[:, None] for name, mask in filter_failures(offers, wanted).items()}
    needed: dict[str, Array] = {}
    had: dict[str, Array] = {}
    known = np.isfinite(bill.total_s)
    if wanted.max_nodes is not None:
        fails["max_nodes"] = (node_counts > wanted.max_nodes)[None, :]
        needed["max_nodes"], had["max_nodes"] = np.full((1, 1), float(wanted.max_nodes)), node_counts[None, :]
    add_quota(wanted.quotas, offers, node_counts[None, :], fails=fails, needed=needed, had=had)
    able = np.array([not reason for reason in feasible.missing], dtype=np.bool_)
    fails["capability"] = ~able[server][:, None]
    if "software" in fails:  # what cannot run the job at all is not refused for its software
        fails["software"] &= able[server][:, None]
    fails["layout"] = (able[:, None] & ~feasible.has_layout)[server]
    fails["gpu_memory"] = (feasible.has_layout & ~feasible.fits_accelerator)[server]
    needed["gpu_memory"], had["gpu_memory"] = feasible.least_bytes[server], feasible.capacity_bytes[server][:, None]
    fails["host_memory"] = (feasible.fits_accelerator & ~feasible.fits_host)[server]
    needed["host_memory"], had["host_memory"] = feasible.least_host_bytes[server], feasible.host_bytes[server][:, None]
    if wanted.deadline_s is not None:
        fails["deadline"] = known & (bill.total_s > wanted.deadline_s)
        needed["deadline"], had["deadline"] = np.full((1, 1), wanted.deadline_s), bill.total_s
    if wanted.budget_usd is not None:
        spent = money.worst_month_usd(bill.total_usd, hourly_usd=bill.hourly_usd) if wanted.budget_per_month else bill.total_usd
        fails["budget"] = known & (spent > wanted.budget_usd)
        needed["budget"], had["budget"] = np.full((1, 1), wanted.budget_usd), spent
    return Failures(fails, needed, had, bill.total_s.shape)


def first_failure(bits: NDArray[np.int32]) -> NDArray[np.intp]:
    """Position of the first failing criterion of each row, len(CRITERIA) where none fails."""
    lowest = bits & -bits
    position = np.full(bits.shape, len(CRITERIA), dtype=np.intp)
    hit = bits > 0
    position[hit] = np.log2(lowest[hit]).astype(np.intp)
    return position


def minimal_blame(bits: NDArray[np.int32], *, largest: int = 3) -> tuple[tuple[str, ...], ...]:
    """The smallest sets of criteria such that every row fails at least one of the set; empty when some row passes all.

    Sets of one, then two, then three: as Karpenter's InstanceTypeFilterError tells which requirement, or which pair, no instance type met. Rows
    that fail something the user does not choose (what the machine can do) count only if all rows do: else the blame lies with the wishes.
    """
    masks = np.unique(bits)
    if masks.size == 0 or masks[0] == 0:
        return ()
    physical = sum(1 << position for position, criterion in enumerate(CRITERIA) if criterion not in WISHES)
    able = masks[(masks & physical) == 0]
    masks = able if able.size else masks
    present = [position for position in range(len(CRITERIA)) if np.any(masks & (1 << position))]
    for size in range(1, largest + 1):
        found = [group for group in _groups(present, size) if np.all(masks & sum(1 << position for position in group))]
        if found:
            return tuple(tuple(CRITERIA[position] for position in group) for group in found)
    return (tuple(CRITERIA[position] for position in present),)


def _groups(items: Sequence[int], size: int) -> Sequence[tuple[int, ...]]:
    from itertools import combinations

    return tuple(combinations(items, size))


Pick = Callable[[NDArray[np.bool_]], tuple[int, int] | None]
