"""From the packed text tables to typed columns: units, labels and flags. This runs once, when
the store is built."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.market.amendments import amended
from rightfit.market.offers import (
    DERIVED_KINDS,
    INTERRUPTION_BANDS,
    PRICE_KINDS,
    PURCHASE_CODES,
    SUPERSEDED_BY,
    Flags,
    Floats,
    Indices,
    ServerTable,
)
from rightfit.market.packed_tables import PackedColumn, PackedTable, load_unamended
from rightfit.records import dataclass
from rightfit.units import GB, GBPS, GIB


@dataclass(frozen=True, slots=True)
class PriceColumns:
    """Every price row, sorted by server, region and purchase mode; flags are filled by the rules,
    `quarantine` by the integrity checks."""

    server_index: Indices
    region_index: Indices
    purchase_index: Indices
    price_usd_per_h: Floats
    price_original: Floats
    currencies: tuple[str, ...]
    currency_index: Indices
    as_of_dates: tuple[str, ...]
    as_of_index: Indices
    sources: tuple[str, ...]
    source_index: Indices
    notes: tuple[str, ...]
    note_index: Indices
    kind_index: Indices
    is_estimate: Flags
    is_stale: Flags
    is_pseudo_region: Flags
    interruption_band: Indices
    # (provider, region, server, purchase) in the source's words, for rows that join to nothing.
    orphans: Mapping[int, tuple[str, str, str, str]] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.server_index)


@dataclass(frozen=True, slots=True)
class RegionTable:
    """Regions of every provider; pseudo regions have no country."""

    provider: tuple[str, ...]
    region: tuple[str, ...]
    country: tuple[str, ...]
    continent: tuple[str, ...]
    city: tuple[str, ...]
    display_en: tuple[str, ...]
    display_zh: tuple[str, ...]
    source: tuple[str, ...]


def load_packed(name: str) -> dict[str, PackedColumn]:
    """One table of the wheel: as it is packed, with what people amended laid over it."""
    return amended(name, load_unamended(name))


def server_table(packed: PackedTable, *, rule: Mapping[str, Any], is_priced: Flags | None = None) -> ServerTable:
    """Servers in base units, accelerated ones first, then by provider and name. `is_priced` is in
    the packed table's row order."""
    count = packed["gpu_count"].numbers(empty=0.0)
    names = packed["instance_type"].texts()
    providers = packed["provider"].texts()
    order = sorted(range(len(names)), key=lambda i: (count[i] == 0, providers[i], names[i]))
    rows = np.array(order, dtype=np.intp)
    status = packed["status"].texts()
    withdrawn = _not_recommended(status, is_priced=is_priced, withdrawn=rule["status"]["not_recommended"])
    aliases = _aliases(packed["note"].texts(), pattern=rule["duplicate"]["note_pattern"])
    reasons = [reason or alias for reason, alias in zip(withdrawn, aliases, strict=True)]

    def text(name: str) -> tuple[str, ...]:
        values = packed[name].texts()
        return tuple(values[i] for i in order)

    def number(name: str, unit: float) -> Floats:
        return packed[name].numbers()[rows] * unit

    return ServerTable(
        provider=text("provider"),
        instance_type=text("instance_type"),
        family=text("family"),
        category=text("category"),
        vcpus=number("vcpus", 1.0),
        memory_bytes=number("memory_gib", GIB),
        accelerator_name=text("gpu_name"),
        num_accelerators=count[rows],
        accelerator_memory_bytes=number("gpu_memory_gib_each", GIB),
        local_nvme_bytes=number("local_nvme_gb", GB),
        network_bytes_per_s=number("network_gbps", GBPS),
        network_burst_bytes_per_s=number("network_burst_gbps", GBPS),
        rdma=text("rdma"),
        gpu_interconnect=text("gpu_interconnect"),
        cpu_model=text("cpu_model"),
        arch=text("arch"),
        status=text("status"),
        source=text("source"),
        note=text("note"),
        not_recommended=tuple(reasons[i] for i in order),
    )


def _not_recommended(status: Sequence[str], *, is_priced: Flags | None, withdrawn: Iterable[str]) -> list[str]:
    gone = frozenset(withdrawn)
    priced = [True] * len(status) if is_priced is None else is_priced.tolist()
    return [state if state in gone else "" if has_price else "no price" for state, has_price in zip(status, priced, strict=True)]


def _aliases(notes: Sequence[str], *, pattern: str) -> list[str]:
    """A second name of a server says in its note which server it is."""
    found = (re.search(pattern, note) for note in notes)
    return [f"alias of {match.group(1)}" if match else "" for match in found]


def region_table(packed: PackedTable) -> RegionTable:
    """Regions sorted by provider and code."""
    columns = {name: column.texts() for name, column in packed.items()}
    order = sorted(range(len(columns["region"])), key=lambda i: (columns["provider"][i], columns["region"][i]))
    fields = [field.name for field in dataclasses.fields(RegionTable)]
    return RegionTable(**{name: tuple(columns[name][i] for i in order) for name in fields})


def join_index(left: Sequence[PackedColumn], right: Mapping[Any, int]) -> Indices:
    """The position in `right` of each row's key, -1 where there is none. Looks up
    distinct keys only."""
    combined = np.zeros(len(left[0].codes), dtype=np.int64)
    for column in left:
        combined = combined * len(column.labels) + column.codes
    distinct, inverse = np.unique(combined, return_inverse=True)
    positions = np.empty(len(distinct), dtype=np.intp)
    sizes = [len(column.labels) for column in left]
    parts = np.unravel_index(distinct, sizes)
    for row, codes in enumerate(zip(*(part.tolist() for part in parts), strict=True)):
        positions[row] = right.get(tuple(column.labels[code] for column, code in zip(left, codes, strict=True)), -1)
    return positions[inverse.reshape(-1)]


def price_columns(
    packed: PackedTable, *, servers: ServerTable, regions: RegionTable, rule: Mapping[str, Any], interruptions: PackedTable | None = None
) -> PriceColumns:
    """Prices joined to servers and regions, with flags by rule. Rows whose server or region is
    unknown keep index -1 and come first."""
    server_rows = {key: i for i, key in enumerate(zip(servers.provider, servers.instance_type, strict=True))}
    region_rows = {key: i for i, key in enumerate(zip(regions.provider, regions.region, strict=True))}
    server_index = join_index([packed["provider"], packed["instance_type"]], server_rows)
    region_index = join_index([packed["provider"], packed["region"]], region_rows)
    purchase = packed["purchase"]
    codes = np.array([PURCHASE_CODES.get(label.replace("_", "-"), -1) for label in purchase.labels], dtype=np.intp)
    purchase_index = codes[purchase.codes]
    order = np.lexsort((purchase_index, region_index, server_index))
    as_of, note, source, currency = (packed[name] for name in ("as_of", "note", "source", "currency_original"))
    stale = stale_dates(as_of.labels, max_age_days=rule["stale"]["max_age_days"])
    kind = price_kinds(packed, rule=rule)
    pseudo = np.array([label in rule["pseudo_regions"]["names"] for label in packed["region"].labels], dtype=np.bool_)
    return PriceColumns(
        server_index=server_index[order],
        region_index=region_index[order],
        purchase_index=purchase_index[order],
        price_usd_per_h=packed["price_usd_hour"].numbers()[order],
        price_original=packed["price_original"].numbers()[order],
        currencies=currency.labels,
        currency_index=currency.codes[order],
        as_of_dates=tuple(parse_date(text).isoformat() if text else "" for text in as_of.labels),
        as_of_index=as_of.codes[order],
        sources=source.labels,
        source_index=source.codes[order],
        notes=note.labels,
        note_index=note.codes[order],
        kind_index=kind[order],
        is_estimate=np.isin(kind, [PRICE_KINDS.index(name) for name in DERIVED_KINDS])[order],
        is_stale=stale[as_of.codes][order],
        is_pseudo_region=pseudo[packed["region"].codes][order],
        interruption_band=_interruption_bands(packed, interruptions)[order],
        orphans=_orphans(packed, order=order, is_known=(server_index >= 0) & (region_index >= 0) & (purchase_index >= 0)),
    )


def price_kinds(packed: PackedTable, *, rule: Mapping[str, Any]) -> Indices:
    """How each price is known (a row of PRICE_KINDS), by the rules of `price_kind`: of several that
    fit a row the last one counts."""
    kinds = np.zeros(len(packed["note"].codes), dtype=np.intp)
    for entry in rule["price_kind"]["rules"]:
        fits = np.ones(len(kinds), dtype=np.bool_)
        for name in ("provider", "purchase", "source", "note"):
            if name in entry:
                fits &= matches_any(packed[name].labels, patterns=entry[name])[packed[name].codes]
        kinds[fits] = PRICE_KINDS.index(entry["kind"])
    return kinds


def _interruption_bands(packed: PackedTable, interruptions: PackedTable | None) -> Indices:
    """The band of each spot price; the last band (unknown) for all others."""
    unknown = len(INTERRUPTION_BANDS) - 1
    bands = np.full(len(packed["purchase"].codes), unknown, dtype=np.intp)
    if interruptions is None:
        return bands
    names = ("provider", "region", "instance_type")
    places = {key: i for i, key in enumerate(zip(*(interruptions[name].texts() for name in names), strict=True))}
    spot = np.flatnonzero((np.array(packed["purchase"].labels) == "spot")[packed["purchase"].codes])
    found = join_index([PackedColumn(packed[name].labels, packed[name].codes[spot]) for name in names], places)
    known = found >= 0
    bands[spot[known]] = interruptions["interruption_band"].numbers(empty=unknown).astype(np.intp)[found[known]]
    return bands


def _orphans(packed: PackedTable, *, order: Indices, is_known: Flags) -> dict[int, tuple[str, str, str, str]]:
    """Rows that join to nothing, by their place after sorting."""

    def words(row: int) -> tuple[str, str, str, str]:
        texts = [packed[name].labels[packed[name].codes[row]] for name in ("provider", "region", "instance_type", "purchase")]
        return texts[0], texts[1], texts[2], texts[3]

    return {place: words(int(order[place])) for place in np.flatnonzero(~is_known[order]).tolist()}


def parse_date(text: str) -> datetime.date:
    """A source's date; one that names only a year or a month is its first day: the
    oldest that it may be."""
    year, month, day = (*(int(part) for part in text.split("-")), 1, 1)[:3]
    return datetime.date(year, month, day)


def newest_date(dates: Iterable[str]) -> datetime.date:
    """The newest date that is given to the day (a bare year says too little to be the newest)."""
    exact = [parse_date(text) for text in dates if text.count("-") == 2]
    return max(exact, default=datetime.date.min)


def stale_dates(dates: Sequence[str], *, max_age_days: float) -> Flags:
    """Which dates are older than the rule, measured from the newest date of the list. An
    empty date is stale."""
    newest = newest_date(dates)
    return np.array([not text or (newest - parse_date(text)).days > max_age_days for text in dates], dtype=np.bool_)


def matches_any(texts: Sequence[str], *, patterns: Iterable[str]) -> Flags:
    """Which texts match one of the regular expressions."""
    compiled = re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
    return np.array([bool(compiled.search(text)) for text in texts], dtype=np.bool_)


# ---- One server under two names: a seller's cards that were read from two lists, of different
# days. The newer price holds.
#
# Whether two names are one server cannot be told where both state a host: AWS's p4d and p4de, OVH's
# t2-45 and t2-le-45 and Azure's H100 sizes with and without InfiniBand are servers of their own,
# some of them with the same cores and memory. It can be told where one of them states no host: such
# a row is what the seller asks for so many cards, whatever stands around them.


def superseded(
    servers: ServerTable, prices: PriceColumns, regions: RegionTable, *, sound: Flags, rule: Mapping[str, Any]
) -> dict[int, int]:
    """The newer price of each price row that is superseded: of the same seller, card, count, way to
    pay and place under another name, over `apart_days` younger, one of the two without a host. Only
    `sound` rows count; of several the youngest is taken."""
    days, hostless = _days(prices), states_no_host(servers)
    found: dict[int, int] = {}
    for rows in _groups(servers, prices, usable=sound & _usable(servers, prices)):
        for old in rows:
            younger = [
                new
                for new in rows
                if days[new] - days[old] > rule["apart_days"]
                and prices.server_index[new] != prices.server_index[old]
                and hostless[prices.server_index[[old, new]]].any()
                and _meet(regions, prices.region_index[[old, new]].tolist(), rule)
            ]
            if younger:
                found[old] = max(younger, key=lambda new: (days[new], -new))
    return found


def states_no_host(servers: ServerTable) -> Flags:
    """Servers (S,) of which neither cores nor memory are known."""
    return np.isnan(servers.vcpus) & np.isnan(servers.memory_bytes)


def _groups(servers: ServerTable, prices: PriceColumns, *, usable: Flags) -> Iterable[list[int]]:
    """Usable rows by seller, card, count and way to pay; only those of which one may
    be without a host."""
    keys = list(zip(servers.provider, servers.accelerator_name, servers.num_accelerators.tolist(), strict=True))
    open_keys = {key for key, is_hostless in zip(keys, states_no_host(servers).tolist(), strict=True) if is_hostless and key[1]}
    is_open = np.array([key in open_keys for key in keys], dtype=np.bool_)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in np.flatnonzero(usable & is_open[np.maximum(prices.server_index, 0)]).tolist():
        groups.setdefault((keys[prices.server_index[row]], int(prices.purchase_index[row])), []).append(row)
    return groups.values()


def _usable(servers: ServerTable, prices: PriceColumns) -> Flags:
    """Rows (O,) of which either may stand for the other: asked, neither worked out nor a floor, for
    a server that is sold in a known place."""
    known = (prices.server_index >= 0) & (prices.region_index >= 0) & (prices.purchase_index >= 0)
    is_sold = np.array([not reason or reason.startswith(SUPERSEDED_BY) for reason in servers.not_recommended], dtype=np.bool_)
    return known & ~prices.is_estimate & is_sold[np.maximum(prices.server_index, 0)]


def marked(servers: ServerTable, prices: PriceColumns, newer: Mapping[int, int], *, sound: Flags) -> ServerTable:
    """The servers with those marked of which no sound price is left but what is superseded: such a
    name is a former one."""
    has_others = np.zeros(len(servers), dtype=np.bool_)
    others = sound & (prices.server_index >= 0)
    others[list(newer)] = False
    has_others[prices.server_index[others]] = True
    reasons = list(servers.not_recommended)
    for old, new in newer.items():
        server = int(prices.server_index[old])
        if not has_others[server]:
            reasons[server] = f"{SUPERSEDED_BY}{servers.instance_type[prices.server_index[new]]}"
    return dataclasses.replace(servers, not_recommended=tuple(reasons))


def _meet(regions: RegionTable, pair: Sequence[int], rule: Mapping[str, Any]) -> bool:
    """Whether two prices of a seller may be of one place: the same region, or one of them holds
    where the other is."""
    first, second = pair
    return first == second or _holds_in(regions, first, second, rule) or _holds_in(regions, second, first, rule)


def _holds_in(regions: RegionTable, wide: int, place: int, rule: Mapping[str, Any]) -> bool:
    """Whether what is asked in `wide` is asked everywhere, or all over the continent of `place`."""
    name = regions.region[wide]
    return name in rule["everywhere"] or rule["continents"].get(name) == regions.continent[place]


def _days(prices: PriceColumns) -> Floats:
    """The date of each row (O,) as a day's number; NaN without a date, which is neither older
    nor younger than any."""
    numbers = [float(parse_date(text).toordinal()) if text else np.nan for text in prices.as_of_dates]
    return np.array(numbers)[prices.as_of_index]
