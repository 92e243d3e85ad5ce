"""Whom one rents from: what a seller of a lower tier would save, a default that leaves nothing, and what must be known of a seller before."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit.catalog import names
from rightfit.catalog.launchers import starts
from rightfit.catalog.lifecycle import RETIRED, events_of, today
from rightfit.catalog.sellers import ON_DEMAND, most_at_once, tier_of
from rightfit.facts.builds import is_unreleased
from rightfit.search.advice import cheapest_of, effect_of
from rightfit.search.answer import Assumption, Option, Reason, Section
from rightfit.search.criteria import CRITERIA
from rightfit.search.found import Found
from rightfit.search.mainland import MAINLAND, means_mainland
from rightfit.search.several import month_of

if TYPE_CHECKING:
    from rightfit.workload import Workload

SELLER = 1 << CRITERIA.index("seller")


def seller_section(exploration: Found, options: Sequence[Option]) -> Section | None:
    """What a seller of a tier that was not asked for would save, at a price that somebody asks; a partition is a matter of the account, not of
    trust."""
    if not options or exploration.workload.objective == "time":
        return None
    offers = exploration.market.offers
    apart = np.array([name in names.partitions() for name in offers.servers.provider], dtype=np.bool_)[offers.server_index]
    at = cheapest_of(exploration, (exploration.bits == SELLER) & ~(apart | offers.is_estimate)[:, None])
    best = options[0]
    if at is None or float(exploration.bill.total_usd[at]) >= best.cost.total_usd:
        return None
    offer = offers.row(at[0])
    tier = tier_of(offer["provider"], offer["purchase"])
    effect = {**effect_of(exploration, at, best), "seller_tier": tier, "as_of": offer["as_of"]}
    key = "seller_cheaper" if tier > exploration.wanted.sellers.highest_tier else "by_hand_cheaper"
    return Section("sellers", effect, (Reason(key + month_of(exploration), effect),))


def only_sellers_refuse(exploration: Found) -> bool:
    """Whether nothing passes and something would, but for its seller."""
    bits = exploration.bits
    return not bool(np.any(bits == 0)) and bool(np.any(bits == SELLER))


def widened(workload: Workload) -> Workload | None:
    """The wish with sellers of every tier, where the user did not say which; None where he did."""
    return None if workload.sellers else workload.with_changes(sellers=("all",))


def widened_assumption() -> Assumption:
    """That sellers of every tier were taken, since no other one can do it."""
    return Assumption("sellers", "all", Reason("assumed_sellers", {}))


def with_market_warnings(options: Sequence[Option], exploration: Found) -> tuple[Option, ...]:
    """The options with what must be known of their seller, place and price, whatever the kind of work."""
    mainland = means_mainland(exploration)
    return tuple(
        dataclasses.replace(option, warnings=(*option.warnings, *market_warnings(option), *border_warnings(option, mainland=mainland)))
        for option in options
    )


def border_warnings(option: Option, *, mainland: bool) -> list[Reason]:
    """A server on the other side of the border of mainland China than the wish means; one without a place is on neither."""
    country = option.facts.get("country") or ""
    if not country or (country == MAINLAND) == mainland:
        return []
    return [Reason("outside_mainland" if mainland else "inside_mainland", {"region": option.region})]


def cards_of(option: Option) -> int:
    """Accelerators of an option over all servers; servers where they have none."""
    servers = int(option.facts.get("servers") or option.nodes)
    return servers * (option.accelerator.count_per_node if option.accelerator and option.accelerator.name else 1)


def is_large_order(option: Option) -> bool:
    """Whether so many are seldom found free on the day, several servers at once."""
    servers = int(option.facts.get("servers") or option.nodes)
    name = option.accelerator.name if option.accelerator else ""
    most = most_at_once(option.provider, name, option.purchase, at_notice=True)
    return servers > 1 and option.purchase in (*ON_DEMAND, "spot") and cards_of(option) > most


def market_warnings(option: Option) -> list[Reason]:
    """An account of its own, a seller of a low tier or one that must be rented from by hand, a price that may have moved."""
    found, partition = [], names.partitions().get(option.provider)
    if not starts(option.provider, option.purchase):
        found.append(Reason("seller_by_hand", {"provider": option.provider}))
    if partition:
        found.append(Reason("seller_account", {"provider": option.provider, "of": partition["of"]}))
    if (option.facts.get("seller_tier") or 0) > 2:
        found.append(Reason(f"seller_tier_{option.facts['seller_tier']}", {"provider": option.provider}))
    if option.price_as_of and option.facts.get("price_is_old") and not option.facts.get("is_stale"):
        found.append(Reason("price_moved", {"as_of": option.price_as_of}))
    if option.accelerator and is_unreleased(option.accelerator.name):
        found.append(Reason("no_release", {"accelerator": option.accelerator.name}))
    if is_large_order(option):
        found.append(Reason("large_order", {"provider": option.provider, "count": cards_of(option)}))
    for event in events_of(option.provider, option.instance_type):
        if event.kind == RETIRED:
            found.append(Reason("server_retires", {"family": event.family, "date": event.date}))
        elif event.date <= today():
            found.append(Reason("server_restricted", {"family": event.family, "date": event.date}))
    return found
