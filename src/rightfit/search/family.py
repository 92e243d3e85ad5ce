"""What a family of work tells the frame. One FAMILY a folder of rightfit.families; the verbs of
rightfit.planner read no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from rightfit.market.sellers import is_any_place, tier_of
from rightfit.records import dataclass
from rightfit.search.answer import Alternative, Assumption, Counts, Option, OptionAccelerator, Reason, Section
from rightfit.search.constraints import SearchResult
from rightfit.search.criteria import fabric_of
from rightfit.search.offers import Market
from rightfit.search.option_facts import JobOfferFacts, OfferDoubts, SpotFacts
from rightfit.search.price_facts import price_facts, price_regions
from rightfit.search.rank import Ranking, Row, rank
from rightfit.units import GBPS

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload


F = TypeVar("F", bound=SearchResult)
MOST_PARETO = 12


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the options of a plan: advice, and sections (of the load, of
    other ways to buy)."""

    advice: tuple[Reason, ...] = ()
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class Given(Generic[F]):
    """One given server type, so many of them.

    `found`: the search over that server alone, which says what it fails. `shown`: the search whose
    row is shown, which may be as if what does not fit did.
    `at`: that row, None where there is nothing to show. `fits`: whether the job runs on them.
    `failing`: the (offer, column) whose criteria are told. `advice`: what would help where it
    does not fit.
    """

    found: F
    shown: F
    at: Row | None
    fits: bool
    failing: tuple[int, int] = (0, 0)
    advice: tuple[Reason, ...] = ()


def first_points(front: Sequence[Row]) -> Sequence[Row]:
    """The cheapest points of a front."""
    return front[:MOST_PARETO]


def as_found(search_result: F, top: int) -> tuple[F, Ranking]:
    """The search as it is: its times are of the whole physics already."""
    return search_result, rank(search_result, top=top)


@dataclass(frozen=True, slots=True)
class Family(Generic[F]):
    """One kind of work.

    explore: the search over all that the catalog has.
    confirm: the ranking of what was found, with its first rows worked out further where the quick
    law is not enough.
    options: rows as options in the order given; of the first `num_full` in full. reasons: the
    options with `why` and `warnings`.
    given: the job on so many servers of the one type that a market holds.
    beside: advice and sections of a plan. simulate: the options played through; None where there
    is nothing to play.
    front: which points of the Pareto front are options. told: names under which money and time of a
    standing are told.
    money: how to buy the first option, and every line of its bill. room: what the card of the first
    option must hold when, and how much more it would. is_service: whether requests are answered,
    one by one or as a batch.
    """

    name: str
    explore: Callable[[Workload, Catalog], F]
    options: Callable[[F, Sequence[Row], int], tuple[Option, ...]]
    reasons: Callable[[F, Sequence[Option]], tuple[Option, ...]]
    assumptions: Callable[[F], tuple[Assumption, ...]]
    counts: Callable[[F], Counts]
    given: Callable[[Workload, Market, int, Catalog], Given[F]]
    beside: Callable[[F, tuple[Option, ...], Sequence[Row], Catalog], Beside]
    money: Callable[[F, Option, Row, Catalog], tuple[Section, ...]]
    room: Callable[[F, Option, Row], tuple[Section, ...]] = lambda *_: ()
    confirm: Callable[[F, int], tuple[F, Ranking]] = as_found
    told: Callable[[F], tuple[str, str]] = lambda _: ("total_usd", "total_time_s")
    front: Callable[[Sequence[Row]], Sequence[Row]] = first_points
    simulate: Callable[[F, tuple[Option, ...], Sequence[Row]], tuple[Option, ...]] | None = None
    is_service: bool = False


# ---- What an option takes from the offer of its row, the same for every family of work: where it
# is rented, how it is paid, what the server is.


def offered(search_result: SearchResult, row: Row, position: int) -> dict[str, Any]:
    """The parts of an option that no kind of work changes; `position`: its place
    in the list, from 0."""
    offer, servers = search_result.market.offers.row(row.offer), search_result.market.offers.servers
    server = int(search_result.market.offers.server_index[row.offer])
    return {
        "rank": position + 1,
        **{name: offer[name] for name in ("provider", "region", "instance_type", "purchase")},
        "nodes": int(search_result.nodes((row.offer, row.node))),
        "vcpus": float(servers.vcpus[server]),
        "memory_bytes": float(servers.memory_bytes[server]),
        "network_gbps": float(servers.network_bytes_per_s[server]) / GBPS,
        "placement": placement_of(search_result, (row.offer, row.node)),
        "price_as_of": offer["as_of"],
        "price_source": offer["source"],
        "alternatives": tuple(alternative(search_result, other) for other in row.folded),
        "num_alternatives": row.num_folded,
    }


def placement_of(search_result: SearchResult, cell: tuple[int, int]) -> dict[str, Any]:
    """Where the servers of a row stand: how many of them work as one, what joins those (None:
    nothing need), and whether they must share a zone."""
    together = search_result.together(cell)
    fabric = fabric_of(search_result.market.offers, cell[0]) or "unknown"
    return {"servers": together, "fabric": fabric if together > 1 else None, "same_zone": together > 1}


def accelerator_of(search_result: SearchResult, offer: int) -> OptionAccelerator:
    """What accelerators the server of an offer has by the catalog; none have no name."""
    servers, server = search_result.market.offers.servers, int(search_result.market.offers.server_index[offer])
    if not servers.accelerator_name[server]:
        return OptionAccelerator("", 0, 0.0)
    memory_bytes = float(np.nan_to_num(servers.accelerator_memory_bytes[server]))
    return OptionAccelerator(servers.accelerator_name[server], int(servers.num_accelerators[server]), memory_bytes)


def alternative(search_result: SearchResult, cell: tuple[int, int]) -> Alternative:
    """A row that is folded into another."""
    offer = search_result.market.offers.row(cell[0])
    return Alternative(
        **{name: offer[name] for name in ("region", "instance_type", "purchase")},
        hourly_usd=float(search_result.bill.hourly_usd[cell]),
        total_usd=float(search_result.bill.total_usd[cell]),
        total_time_s=float(search_result.bill.total_s[cell]),
    )


def spot_facts(search_result: SearchResult, row: Row) -> SpotFacts:
    """What reasons read of an offer: how often spot servers are taken away."""
    charges, at = search_result.market.charges, row.offer
    return {"spot_low": float(charges.spot_low[at]), "spot_high": float(charges.spot_high[at]), "spot_known": bool(charges.spot_known[at])}


def offer_doubts(search_result: SearchResult, row: Row) -> OfferDoubts:
    """How the price of a row is known, whether it may have moved since, how far its seller is to be
    trusted, where it is and of which processors."""
    offer, doubt = search_result.market.offers.row(row.offer), search_result.market.doubt
    return {
        "price_kind": offer["kind"],
        "price_is_old": offer["is_stale"] or (bool(doubt.is_old[row.offer]) if doubt is not None else False),
        "price_is_beyond": bool(doubt.is_beyond[row.offer]) if doubt is not None else False,
        "seller_tier": tier_of(offer["provider"], offer["purchase"]),
        "is_estimate": offer["is_estimate"],
        "is_stale": offer["is_stale"],
        "is_pseudo_region": offer["is_pseudo_region"],
        "country": offer["country"],
        "decided_by": "",
        "below_by": "",
        "is_any_place": is_any_place(offer["provider"], offer["instance_type"], offer["region"]),
        "arch": search_result.market.offers.servers.arch[int(search_result.market.offers.server_index[row.offer])],
    }


def job_offer_facts(search_result: SearchResult, row: Row) -> JobOfferFacts:
    """All that reasons read of the offer of a job."""
    return {
        **spot_facts(search_result, row),
        "billing_minimum_s": float(search_result.market.charges.minimum_s[row.offer]),
        "price_regions": price_regions(search_result, row.offer),
        "price": price_facts(search_result, row),
        **offer_doubts(search_result, row),
    }
