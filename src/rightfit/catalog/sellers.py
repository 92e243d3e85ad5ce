"""Whom to rent from: sellers by tier of trust, and how much of a kind one of them can be believed to have at once.

Tiers follow from public facts (data/sellers.csv, each with its source): 1 hyperscalers with own regions and an SLA, 2 established GPU and
European clouds, 3 small or single-region operators, 4 marketplaces and resellers. Servers of a price book are the user's own: tier 0.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from rightfit.catalog import names
from rightfit.catalog.launchers import by_hand
from rightfit.catalog.offers import PURCHASES, Flags, Floats, OfferTable, card_codes, provider_codes
from rightfit.catalog.package_data import data_bytes
from rightfit.records import dataclass

OWN, UNKNOWN = 0, 4
#: Words for several sellers: the highest tier that they take in. Without a word, tier 2.
GROUPS: Mapping[str, int] = {"major": 2, "hyperscaler": 1, "all": UNKNOWN}
DEFAULT_TIER = 2
_COMMITTED = "reserved-1y"  # stands for all commitments
AT_NOTICE = "at-notice"
ON_DEMAND = ("on-demand", "on-demand-tier3", "on-demand-community")


@dataclass(frozen=True, slots=True)
class Sellers:
    """Which sellers are taken: those up to a tier, and those named."""

    highest_tier: int = UNKNOWN
    named: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The words that mean these sellers."""
        group = [word for word, tier in GROUPS.items() if tier == self.highest_tier]
        return ", ".join((*group, *self.named))


def read_sellers(words: Sequence[str], *, clouds: Sequence[str] = ()) -> Sellers:
    """The user's words: a group (GROUPS), names of sellers, or both; without any the groups' default and the `clouds` of the wish, which are
    trusted where they are named. Names alone mean these only."""
    if not words:
        return Sellers(DEFAULT_TIER, tuple(clouds))
    groups = [GROUPS[names.fold(word)] for word in words if names.fold(word) in GROUPS]
    named = tuple(dict.fromkeys(names.resolve_provider(word, field="sellers") for word in words if names.fold(word) not in GROUPS))
    return Sellers(max(groups, default=OWN), named)


@functools.cache
def _rows(name: str) -> tuple[dict[str, str], ...]:
    return tuple(csv.DictReader(data_bytes(f"{name}.csv").decode().splitlines()))


@functools.cache
def tiers() -> Mapping[tuple[str, str], int]:
    """(seller, way to pay) -> tier; an empty way to pay stands for all others."""
    return {(row["seller"], row["purchase"]): int(row["tier"]) for row in _rows("sellers")}


def tier_of(provider: str, purchase: str = "") -> int:
    """The tier of a seller; one that nobody judged is taken for a marketplace."""
    if provider in names.names_data()["extra_providers"]:
        return OWN
    known = tiers()
    return known.get((provider, purchase), known.get((provider, ""), UNKNOWN))


def is_major(provider: str) -> bool:
    """Whether most companies already have a contract with a seller: a hyperscaler, and no partition that takes an account of its own."""
    return tier_of(provider) == 1 and provider not in names.partitions()


def offer_tiers(offers: OfferTable) -> Floats:
    """Tier of each offer (O,)."""
    providers, row = provider_codes(offers.servers)
    table = np.array([[tier_of(provider, purchase) for purchase in PURCHASES] for provider in providers], dtype=np.float64)
    return np.asarray(table.reshape(-1, len(PURCHASES))[row[offers.server_index], offers.purchase_index])


def untrusted(offers: OfferTable, sellers: Sellers, *, places: Iterable[str] = ()) -> Flags:
    """Offers that are not taken (O,): of sellers of another tier, and of those that no launcher rents at, unless all sellers are asked for.
    `places`: regions and countries that the user named: a partition (AWS China, GovCloud) is taken where it is named or one of its places is."""
    wanted = set(places)
    named = _is_of(offers, set(sellers.named))
    barred = (offer_tiers(offers) > sellers.highest_tier) | (by_hand(offers) & (sellers.highest_tier < UNKNOWN))
    apart = {name for name, entry in names.partitions().items() if not wanted & {*entry["countries"], *_regions_of(offers, name)}}
    return np.asarray((barred | _is_of(offers, apart)) & ~named)


def _is_of(offers: OfferTable, providers: set[str]) -> Flags:
    known, row = provider_codes(offers.servers)
    return np.array([name in providers for name in known], dtype=np.bool_)[row[offers.server_index]]


def _regions_of(offers: OfferTable, provider: str) -> set[str]:
    return {region for owner, region in zip(offers.region_providers, offers.regions, strict=True) if owner == provider}


def believable(offers: OfferTable, *, at_notice: bool = False) -> tuple[Floats, Floats]:
    """For each offer (O,): the most accelerators (or servers, where it has none) that its seller can be believed to rent out at once this way,
    and how many of them one server is. Infinite for servers of one's own. `at_notice`: what is found free on the day, nothing reserved."""
    servers = offers.servers
    kinds, row = card_codes(servers)
    ways = {name: name if name in (*ON_DEMAND, "spot") else _COMMITTED for name in PURCHASES}  # commitments are alike
    distinct = tuple(dict.fromkeys(ways.values()))
    at = [distinct.index(ways[name]) for name in PURCHASES]
    most = np.array([[most_at_once(*kind, way, at_notice=at_notice) for way in distinct] for kind in kinds], dtype=np.float64).reshape(
        -1, len(distinct)
    )[:, at]
    each = np.where(servers.num_accelerators > 0, servers.num_accelerators, 1.0)
    found = most[row[offers.server_index], offers.purchase_index]
    return np.asarray(found), np.asarray(each[offers.server_index], dtype=np.float64)


@functools.cache
def most_at_once(provider: str, accelerator: str, purchase: str, *, at_notice: bool = False) -> float:
    """What one seller can be believed to rent out at once: accelerators, or servers where `accelerator` is empty. By tier and way to pay, less
    where a row says so of the seller or the card. `at_notice`: found free on the day."""
    if at_notice and purchase in (*ON_DEMAND, "spot"):
        return min(most_at_once(provider, accelerator, purchase), most_at_once(provider, accelerator, AT_NOTICE))
    kind = "on-demand" if purchase in ON_DEMAND else purchase if purchase in ("spot", AT_NOTICE) else "committed"
    tier = tier_of(provider, purchase)
    if tier == OWN:
        return float("inf")
    usual, _ = _stock_rows()
    own = [most for cards, most in _special_rows(provider, kind) if fnmatchcase(accelerator, cards)] if accelerator else []
    return min([usual[tier, kind if accelerator else "*", bool(accelerator)], *own])


@functools.cache
def _special_rows(provider: str, kind: str) -> tuple[tuple[str, float], ...]:
    """What is said of single cards of a seller that are paid for this way: (pattern of cards, most)."""
    _, special = _stock_rows()
    rows = [row for row in special if row["seller"] in ("*", provider) and row["purchase"] in ("*", kind)]
    return tuple((row["gpu"], float(row["most"])) for row in rows)


@functools.cache
def _stock_rows() -> tuple[Mapping[tuple[int, str, bool], float], tuple[dict[str, str], ...]]:
    """What tiers have, by (tier, way to pay, with accelerators), and the rows on single sellers and cards."""
    rows = _rows("availability")
    usual = {(int(row["tier"]), row["purchase"], row["gpu"] != "none"): float(row["most"]) for row in rows if row["tier"] != "*"}
    return usual, tuple(row for row in rows if row["tier"] == "*")
