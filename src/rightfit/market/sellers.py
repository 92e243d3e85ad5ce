"""Whom to rent from: sellers by tier of trust, and how much of a kind one of them can be
believed to have at once.

Tiers follow from public facts (data/sellers.csv, each with its source): 1 hyperscalers with own
regions and an SLA, 2 established GPU and European clouds, 3 small or single-region operators, 4
marketplaces and resellers. Servers of a price book are the user's own: tier 0.
"""

from __future__ import annotations

import csv
import fnmatch
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.errors import QuantityError, UnknownNameError
from rightfit.facts.devices import accelerators
from rightfit.facts.tables import senses, table
from rightfit.market import names
from rightfit.market.offers import PURCHASES, Flags, Floats, OfferTable, ServerTable, card_codes, provider_codes
from rightfit.market.packed_tables import data_bytes
from rightfit.messages import Message, either
from rightfit.records import dataclass
from rightfit.units import normalize

if TYPE_CHECKING:
    from rightfit.market.names import Region


# ---- Which servers a program can rent: a seller that none of the launchers knows must be rented by
# hand, in its console.
#
# data/launchers.csv has one row for each seller that an export target of the group `launch` rents
# at by itself, with what that target can do there; a test holds the rows to the targets. cloud-init
# is no launcher: it is what a server that was rented by hand is told.

_OWNED = "owned"
_AS_ON_DEMAND = ("", "on-demand", "on-demand-tier3", "reserved-1y", "reserved-3y", "savings-plan-1y")
"""Ways to pay that every launcher knows: a commitment, and a price that falls with the
days, are discounts on what is started on demand."""


@functools.cache
def launchers() -> Mapping[str, Mapping[str, str]]:
    """The row of each seller that a launcher rents at."""
    return {row["seller"]: row for row in csv.DictReader(data_bytes("launchers.csv").decode().splitlines())}


def starts(provider: str, purchase: str = "", card: str = "") -> bool:
    """Whether a launcher rents servers of a seller this way, with this accelerator where one is
    named. Servers of one's own are there."""
    if purchase == _OWNED or provider in names.names_data()["extra_providers"]:
        return True
    row = launchers().get(provider)
    if row is None:
        return False
    if card and row["cards"] and card not in _cards(row["cards"]):
        return False
    known = accelerators().get(card)
    if known is not None and row["vendors"] and known.vendor not in row["vendors"].split("|"):
        return False
    return purchase in _AS_ON_DEMAND or purchase in row["ways"].split("|")


@functools.cache
def _cards(name: str) -> frozenset[str]:
    """The accelerators that launchers have names for at a seller who rents by the card."""
    return frozenset(row["accelerator"] for row in table(name))


_TOLD = {"subscription-1y": "subscription-1m", "subscription-3y": "subscription-1m", "subscription-5y": "subscription-1m"}
_TOLD |= {"capacity-block": "on-demand", "on-demand-community": "on-demand"}
"""Ways to pay that no plan takes unless they are asked for, and that it then tells of: they are
judged as the way that is nearest."""


def by_hand(offers: OfferTable) -> Flags:
    """Offers (O,) of sellers, or with accelerators, that no launcher rents."""
    return np.asarray(_manual_ways(offers.servers)[offers.server_index, offers.purchase_index])


@functools.lru_cache(maxsize=4)
def _manual_ways(servers: ServerTable) -> Flags:
    """The same by server and way to pay (S, P)."""
    kinds, row = card_codes(servers)
    nameless = [[bool(launchers().get(seller)) and not starts(seller, "", card)] for seller, card in kinds]
    ways = [[not starts(seller, _TOLD.get(way, way)) for way in PURCHASES] for seller, _ in kinds]
    return (np.array(ways, dtype=np.bool_).reshape(-1, len(PURCHASES)) | np.array(nameless, dtype=np.bool_).reshape(-1, 1))[row]


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
    """The user's words: a group (GROUPS), names of sellers, or both; without any the groups'
    default and the `clouds` of the wish, which are trusted where they are named. Names alone
    mean these only."""
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


@functools.cache
def tier_of(provider: str, purchase: str = "") -> int:
    """The tier of a seller; one that nobody judged is taken for a marketplace."""
    if provider in names.names_data()["extra_providers"]:
        return OWN
    known = tiers()
    return known.get((provider, purchase), known.get((provider, ""), UNKNOWN))


def is_major(provider: str) -> bool:
    """Whether most companies already have a contract with a seller: a hyperscaler, and no partition
    that takes an account of its own."""
    return tier_of(provider) == 1 and provider not in names.partitions()


def offer_tiers(offers: OfferTable) -> Floats:
    """Tier of each offer (O,)."""
    providers, row = provider_codes(offers.servers)
    table = np.array([[tier_of(provider, purchase) for purchase in PURCHASES] for provider in providers], dtype=np.float64)
    return np.asarray(table.reshape(-1, len(PURCHASES))[row[offers.server_index], offers.purchase_index])


def untrusted(offers: OfferTable, sellers: Sellers, *, places: Iterable[str] = ()) -> Flags:
    """Offers that are not taken (O,): of sellers of another tier, and of those that no launcher
    rents at, unless all sellers are asked for.
    `places`: regions and countries that the user named: a partition (AWS China, GovCloud) is taken
    where it is named or one of its places is."""
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


# ---- Sellers with one price list for all their regions: where they have a server is another thing.


@functools.cache
def published_places() -> Mapping[str, frozenset[tuple[str, str]]]:
    """Of sellers whose one list stands in the catalog under each of their regions: the servers and
    regions of which somebody has seen one (data/published_places.csv)."""
    found: dict[str, set[tuple[str, str]]] = {}
    for row in _rows("published_places"):
        found.setdefault(row["seller"], set()).add((row["instance_type"], row["region"]))
    return {seller: frozenset(rows) for seller, rows in found.items()}


def is_any_place(provider: str, instance_type: str, region: str) -> bool:
    """Whether a region stands for any region of a seller: nobody published that it has the server
    there."""
    known = published_places().get(provider)
    return known is not None and (instance_type, region) not in known


def any_place(offers: OfferTable) -> Flags:
    """Offers (O,) whose region stands for any region of their seller."""
    found = np.zeros(len(offers), dtype=np.bool_)
    for seller in published_places():
        for row in np.flatnonzero(_is_of(offers, {seller})).tolist():
            server, region = offers.servers.instance_type[offers.server_index[row]], offers.regions[offers.region_index[row]]
            found[row] = is_any_place(seller, server, region)
    return found


SELDOM = 0.6
"""The share of polls with none free from which a server is seldom free."""


@functools.cache
def _polls() -> Mapping[tuple[str, str], tuple[int, int]]:
    """By seller and server, in how many polls none was free, and how many there were."""
    return {(row["seller"], row["instance_type"]): (int(row["none_free"]), int(row["polls"])) for row in _rows("seldom_free")}


def none_free(provider: str, instance_type: str) -> tuple[int, int]:
    """In how many polls of a seller's own API none of a server was free anywhere, and how many
    polls there were; (0, 0) where nobody asked."""
    return _polls().get((provider, instance_type), (0, 0))


def is_seldom_free(provider: str, instance_type: str) -> bool:
    """Whether polls found none of a server free most of the time."""
    none, polls = none_free(provider, instance_type)
    return none > SELDOM * polls


def seldom_free(offers: OfferTable) -> Flags:
    """Offers (O,) of servers that are seldom free."""
    return _seldom_servers(offers.servers)[offers.server_index]


@functools.lru_cache(maxsize=4)
def _seldom_servers(servers: ServerTable) -> Flags:
    """The same by server (S,)."""
    return np.array([is_seldom_free(*kind) for kind in zip(servers.provider, servers.instance_type, strict=True)], dtype=np.bool_)


def believable(offers: OfferTable, *, at_notice: bool = False) -> tuple[Floats, Floats]:
    """For each offer (O,): the most accelerators (or servers, where it has none) that its seller
    can be believed to rent out at once this way, and how many of them one server is. Infinite for
    servers of one's own. `at_notice`: what is found free on the day, nothing reserved."""
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
    """What one seller can be believed to rent out at once: accelerators, or servers where
    `accelerator` is empty. By tier and way to pay, less where a row says so of the seller or the
    card. `at_notice`: found free on the day."""
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
    """What is said of single cards of a seller that are paid for this way:
    (pattern of cards, most)."""
    _, special = _stock_rows()
    rows = [row for row in special if row["seller"] in ("*", provider) and row["purchase"] in ("*", kind)]
    return tuple((row["gpu"], float(row["most"])) for row in rows)


@functools.cache
def _stock_rows() -> tuple[Mapping[tuple[int, str, bool], float], tuple[dict[str, str], ...]]:
    """What tiers have, by (tier, way to pay, with accelerators), and the rows on single
    sellers and cards."""
    rows = _rows("availability")
    usual = {(int(row["tier"]), row["purchase"], row["gpu"] != "none"): float(row["most"]) for row in rows if row["tier"] != "*"}
    return usual, tuple(row for row in rows if row["tier"] == "*")


# ---- Limits of an account: "max 8 A100 in us-east-1", "192 vCPUs on aws", "2 p4d.24xlarge".

UNITS = ("accelerators", "vcpus", "servers")
_EXAMPLE = Message(
    "catalog.example",
    example=either(('"8 A100 in us-east-1"', '"192 vcpus on aws"', '"4 p4d.24xlarge"', '"8 A100 in us-east-1 spot"')),
)
_FILLERS = frozenset(senses("amounts", "quota_filler"))
_VCPUS = frozenset({"vcpu", "vcpus", "cores", "cpus", "核", "个vcpu"})
_GPUS = frozenset({"gpu", "gpus", "card", "cards", "accelerators", "accelerator", "加速卡"})
_SERVERS = frozenset({"server", "servers", "node", "nodes", "instance", "instances", "服务器"})


@dataclass(frozen=True, slots=True)
class Quota:
    """At most so many of `unit` at once, of the offers that it speaks about; empty tuples: all."""

    most: float
    unit: str
    text: str
    gpus: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  # patterns of server types
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    purchases: tuple[str, ...] = ()

    def applies(self, offers: OfferTable) -> Flags:
        """Which offers it limits."""
        servers = offers.servers
        by_server = np.array([self._names(servers, row) for row in range(len(servers))], dtype=np.bool_)
        in_region = np.array(
            [
                (not self.regions or region in self.regions) and (not self.countries or country in self.countries)
                for region, country in zip(offers.regions, offers.region_countries, strict=True)
            ],
            dtype=np.bool_,
        )
        mode = np.array([not self.purchases or purchase in self.purchases for purchase in PURCHASES], dtype=np.bool_)
        return by_server[offers.server_index] & in_region[offers.region_index] & mode[offers.purchase_index]

    def _names(self, servers: ServerTable, row: int) -> bool:
        return (
            (not self.providers or servers.provider[row] in self.providers)
            and (not self.gpus or servers.accelerator_name[row] in self.gpus)
            and (not self.types or any(fnmatch.fnmatchcase(servers.instance_type[row].casefold(), name) for name in self.types))
        )

    def used_per_server(self, servers: ServerTable) -> Floats:
        """How much of the quota one server of each type takes."""
        columns = {"accelerators": servers.num_accelerators, "vcpus": servers.vcpus, "servers": np.ones(len(servers))}
        return np.asarray(np.nan_to_num(columns[self.unit]), dtype=np.float64)


def worst_excess(quotas: Iterable[Quota], offers: OfferTable, num_servers: Floats) -> tuple[Floats, Floats, Flags]:
    """Of the quota that each row breaks by the largest factor: its limit and what the row takes;
    and whether it is broken.

    num_servers: shape (offers, columns) or (1, columns), infinite or NaN where nothing fits anyway.
    """
    shape = np.broadcast_shapes((len(offers), 1), num_servers.shape)
    limit, taken = np.full(shape, np.inf), np.zeros(shape)
    count = np.where(np.isfinite(num_servers), num_servers, 0.0)
    for quota in quotas:
        takes = np.where(quota.applies(offers), quota.used_per_server(offers.servers)[offers.server_index], 0.0)[:, None] * count
        tighter = takes * _over(limit) > taken * _over(quota.most)
        limit, taken = np.where(tighter, quota.most, limit), np.where(tighter, takes, taken)
    return limit, taken, taken > limit


def _over(limit: Any) -> Any:
    """A limit to multiply with: finite and over zero, so that none and no limit at all
    compare with the others."""
    return np.clip(limit, 1e-9, 1e15)


def read_quota(
    text: str, regions: Iterable[Region], *, types: Iterable[str] = (), countries: Mapping[str, str] | None = None, field: str = "quota"
) -> Quota:
    """A limit in words; QuantityError in one line for what cannot be read. `types`: known server
    types; `countries`: names of countries -> codes."""
    from rightfit import facts

    words = _words(text)
    number = next((word for word in words if re.fullmatch(r"\d+(\.\d+)?", word)), None)
    below = next((word for word in words if re.fullmatch(r"-\d+(\.\d+)?", word)), None)
    if number is None and below is not None:
        raise QuantityError(Message("catalog.quota_below", field=field, text=text, below=below), field=field)
    if number is None:
        raise QuantityError(Message("catalog.quota_no_number", field=field, text=text, hint=_EXAMPLE), field=field)
    words.remove(number)
    known = {name.casefold() for name in types}
    found: dict[str, tuple[str, ...]] = dict.fromkeys(("gpus", "types", "providers", "regions", "countries", "purchases"), ())
    found_unit, records = "", tuple(regions)
    for word in words:
        if word in _VCPUS | _GPUS | _SERVERS:
            found_unit = "vcpus" if word in _VCPUS else "servers" if word in _SERVERS else "accelerators"
        elif gpus := facts.match_accelerators(word):
            found["gpus"] = (*found["gpus"], *gpus)
        elif word in known or any(character in word for character in "*?"):
            found["types"] = (*found["types"], word)
        elif word in (countries or {}):
            found["countries"] = (*found["countries"], (countries or {})[word])
        elif provider := names.find_provider(word):
            found["providers"] = (*found["providers"], provider)
        elif places := names.find_regions(word, records):
            found["regions"] = (*found["regions"], *dict.fromkeys(place.region for place in places))
        else:
            kind, names_found = _country_or_purchase(word, records, text=text, field=field)
            found[kind] = (*found[kind], *names_found)
    unit = found_unit or ("servers" if found["types"] and not found["gpus"] else "accelerators")
    return Quota(float(number), unit, " ".join(text.split()), **found)


def _words(text: str) -> list[str]:
    """Words without fillers; "8xA100" is 8 and A100."""
    plain = re.sub(r"(?<![A-Za-z0-9_.-])(\d+)\s*(?:[x×*]|张|块|台|个|卡)\s*", r"\1 ", normalize(text).casefold())
    plain = re.sub(r"(最多|至多|不超过|在)", r" \1 ", plain)
    return [word for word in re.split(r"[\s,:@]+", plain) if word and word not in _FILLERS and word != "在"]


def _country_or_purchase(word: str, regions: tuple[Region, ...], *, text: str, field: str) -> tuple[str, tuple[str, ...]]:
    try:
        return "purchases", names.resolve_purchases([word])
    except UnknownNameError:
        pass
    try:
        return "countries", names.resolve_countries(word, regions)
    except UnknownNameError:
        raise QuantityError(Message("catalog.quota_word", field=field, word=word, text=text, hint=_EXAMPLE), field=field) from None
