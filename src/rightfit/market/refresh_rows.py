"""What a refresh gathered, as packed tables of the catalog's own columns, and the first
judgement of its rows."""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.market.amendments import amended
from rightfit.market.build import HISTORY, KEYS, PRICE_COLUMNS, last_of_each, load, num_rows, row_keys, stack, take
from rightfit.market.offers import DERIVED_KINDS, INTERRUPTION_BANDS, PRICE_KINDS, PURCHASE_CODES
from rightfit.market.packed_tables import PackedColumn, PackedTable, current, load_unamended
from rightfit.market.providers.base import InterruptionRow, MarketRow, PriceRow, Row, ServerRow
from rightfit.market.tables import join_index, parse_date, price_kinds
from rightfit.messages import Message
from rightfit.records import dataclass

Rows = NDArray[np.intp]


class ColumnWriter:
    """Rows gathered as coded columns, prices as numbers: 500,000 prices take a few
    tens of megabytes."""

    def __init__(self, columns: Sequence[str], *, numbers: Sequence[str] = ()) -> None:
        self._places: dict[str, dict[str, int]] = {name: {} for name in columns if name not in numbers}
        self._codes: dict[str, array[int]] = {name: array("i") for name in self._places}
        self._values: dict[str, array[float]] = {name: array("d") for name in numbers}
        self._columns = tuple(columns)

    def add(self, texts: Mapping[str, str], *numbers: float) -> None:
        """One row: texts by column (those that it lacks are empty), and the
        numbers in their order."""
        for values, number in zip(self._values.values(), numbers, strict=True):
            values.append(number)
        for name, places in self._places.items():
            self._codes[name].append(places.setdefault(texts.get(name, ""), len(places)))

    def table(self) -> dict[str, PackedColumn]:
        """The rows so far."""
        none = np.zeros(0, dtype=np.int32)
        table = {name: PackedColumn(tuple(places), np.array(self._codes[name], dtype=np.int32)) for name, places in self._places.items()}
        table |= {name: PackedColumn((), none, np.array(values, dtype=np.float64)) for name, values in self._values.items()}
        return {name: table[name] for name in self._columns}


@dataclasses.dataclass(slots=True)
class Gathered:
    """The rows of one source. `rejected` and `left_out` count rows by reason,
    with one example each."""

    tables: dict[str, PackedTable] = dataclasses.field(default_factory=dict)
    rejected: Counter[str] = dataclasses.field(default_factory=Counter)
    left_out: Counter[Message] = dataclasses.field(default_factory=Counter)
    num_read: int = 0

    @property
    def num_prices(self) -> int:
        """Prices that passed so far, per server or per accelerator."""
        return num_rows(self.tables["prices"]) + num_rows(self.tables["market_gpu_prices"])


@dataclass(frozen=True, slots=True)
class Conversion:
    """Dollars from other currencies, hours in a prepaid term: the store's own rules, so that its
    check of conversions agrees."""

    units_per_usd: Mapping[str, float]
    hours_in_term: Mapping[str, float]


def gather(rows: Iterable[Row], *, base: Mapping[str, PackedTable], source: str, today: str, conversion: Conversion) -> Gathered:
    """Columns of all rows. Prices that are no prices, or in an unknown currency, are
    rejected and counted."""
    found = Gathered()
    writers = {name: ColumnWriter(tuple(table), numbers=PRICE_COLUMNS if name == "prices" else ()) for name, table in base.items()}
    stamp = {"as_of": today, "source": source}
    for row in rows:
        if isinstance(row, PriceRow):
            found.num_read += 1
            problem = _problem(row, conversion)
            if problem:
                found.rejected[problem] += 1
            else:
                writers["prices"].add(_price_texts(row) | stamp | {"as_of": row.as_of or today}, *_price_numbers(row, conversion))
        elif isinstance(row, ServerRow):
            writers["servers"].add(_server_texts(row) | {"source": f"{source} ({today})"})
        elif isinstance(row, InterruptionRow):
            writers["interruptions"].add(_interruption_texts(row) | stamp)
        elif row.low > 0 and math.isfinite(row.high):
            writers["market_gpu_prices"].add(_market_texts(row) | stamp)
    found.tables = {name: writer.table() for name, writer in writers.items()}
    return found


def _problem(row: PriceRow, conversion: Conversion) -> str:
    if not (math.isfinite(row.price) and row.price > 0):
        return "a price of zero or less"
    if row.currency not in conversion.units_per_usd:
        return f"a price in {row.currency[:12]}, for which no rate is known"
    return "" if row.purchase in PURCHASE_CODES else f"an unknown purchase mode {row.purchase[:30]}"


def _number(value: float) -> str:
    return f"{value:.10g}"


def _price_numbers(row: PriceRow, conversion: Conversion) -> tuple[float, float]:
    """USD an hour, and the original price: prepaid terms keep the price of the term, everything
    else is stated by the hour."""
    hourly = row.price / row.hours
    original = row.price if row.hours == conversion.hours_in_term.get(row.purchase) else hourly
    return float(_number(hourly / conversion.units_per_usd[row.currency])), float(_number(original))


def _price_texts(row: PriceRow) -> dict[str, str]:
    return {
        "provider": row.provider,
        "region": row.region,
        "instance_type": row.instance_type,
        "purchase": row.purchase.replace("-", "_"),
        "currency_original": row.currency,
        "note": row.note,
    }


def _server_texts(row: ServerRow) -> dict[str, str]:
    is_gpu = row.gpu_count > 0
    return {
        **{name: getattr(row, name) for name in ("provider", "instance_type", "family", "category")},
        "vcpus": _number(row.vcpus),
        "memory_gib": _number(row.memory_gib),
        "gpu_name": row.gpu_name if is_gpu else "",
        "gpu_count": _number(row.gpu_count),
        "gpu_memory_gib_each": _number(row.gpu_memory_gib) if is_gpu and row.gpu_memory_gib else "",
        "local_nvme_gb": _number(row.local_nvme_gb),
        "network_gbps": _number(row.network_gbps) if row.network_gbps else "",
        "rdma": "none",
        "nvlink": "0",
        "gpu_interconnect": "" if is_gpu else "none",
        "arch": row.arch,
        "status": "active",
        "note": "described by the provider's interface only",
    }


def _interruption_texts(row: InterruptionRow) -> dict[str, str]:
    low, high = INTERRUPTION_BANDS[row.band] if 0 <= row.band < len(INTERRUPTION_BANDS) - 1 else (0.0, 1.0)
    return {
        "provider": row.provider,
        "region": row.region,
        "instance_type": row.instance_type,
        "interruption_band": str(row.band),
        "interruption_pct_low": _number(100 * low),
        "interruption_pct_high": _number(100 * high),
        "savings_pct": _number(row.savings_pct),
        "window": "trailing month, frequency of interruption",
    }


def _market_texts(row: MarketRow) -> dict[str, str]:
    return {
        "provider": row.provider,
        "gpu_name": row.gpu_name,
        "gpu_count": str(row.gpu_count),
        "region": row.region,
        "purchase": row.purchase,
        "price_min_usd_gpu_hour": _number(row.low),
        "price_median_usd_gpu_hour": _number(row.median),
        "price_max_usd_gpu_hour": _number(row.high),
        "offers": str(row.offers),
    }


def sort_out(gathered: Gathered, *, base: Mapping[str, PackedTable], accelerators: Iterable[str]) -> None:
    """Leave out what the catalog cannot place: types nobody described, regions it does not know,
    accelerators without a record."""
    servers, prices = gathered.tables["servers"], gathered.tables["prices"]
    allowed = frozenset(accelerators) | {""}
    usable = np.array([label in allowed for label in servers["gpu_name"].labels], dtype=np.bool_)[servers["gpu_name"].codes]
    servers = take(servers, usable)
    gathered.tables["servers"] = take(servers, last_of_each(row_keys([servers], ("provider", "instance_type"))[0]))
    types = _places(base["servers"], "instance_type") | _places(gathered.tables["servers"], "instance_type")
    no_type = join_index([prices["provider"], prices["instance_type"]], types) < 0
    no_region = join_index([prices["provider"], prices["region"]], _places(base["regions"], "region")) < 0
    for reason, rows, column in (
        ("type", no_type, "instance_type"),
        ("region", no_region & ~no_type, "region"),
    ):
        if rows.any():
            first = prices[column].labels[prices[column].codes[int(np.flatnonzero(rows)[0])]]
            gathered.left_out[Message(f"catalog.other_{reason}", word=first[:60])] += int(np.count_nonzero(rows))
    kept = take(prices, ~(no_type | no_region))
    gathered.tables["prices"] = take(kept, last_of_each(row_keys([kept], ("provider", "instance_type", "region", "purchase"))[0]))


def leave_older(gathered: Gathered, before: PackedTable) -> None:
    """Leave out prices of a dated list that are older than what is known of the same offer."""
    new = gathered.tables["prices"]
    known, rows = _beside(before, new)
    older = rows[_days(new)[rows] < _days(before)[known]]
    if len(older):
        dates = new["as_of"]
        word = dates.labels[dates.codes[older[0]]]
        gathered.left_out[Message("catalog.other_older", word=word)] += len(older)
        gathered.tables["prices"] = take(new, np.setdiff1d(np.arange(num_rows(new)), older))


def _days(table: PackedTable) -> NDArray[np.int64]:
    """The date of each row as a day number."""
    days = np.array([parse_date(label).toordinal() for label in table["as_of"].labels], dtype=np.int64)
    return np.asarray(days[table["as_of"].codes])


def _beside(before: PackedTable, new: PackedTable) -> tuple[Rows, Rows]:
    """Rows of the old and the new table that are the same offer, pair by pair."""
    old_keys, new_keys = row_keys([before, new], KEYS["prices"])
    if not len(old_keys):
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    order = np.argsort(old_keys, kind="stable")
    beside = order[np.maximum(np.searchsorted(old_keys[order], new_keys, side="right") - 1, 0)]
    shared = np.flatnonzero(old_keys[beside] == new_keys)
    return beside[shared], shared


def _places(table: PackedTable, name: str) -> dict[tuple[str, str], int]:
    return dict.fromkeys(zip(table["provider"].texts(), table[name].texts(), strict=True), 1)


def level_problem(before: PackedTable, new: PackedTable, *, limits: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    """One line when the prices of a purchase mode as a whole are far from the old ones; a currency,
    a unit or a term taken wrongly."""
    old_keys, new_keys = row_keys([before, new], ("provider", "instance_type", "region", "purchase"))
    quoted = ~np.isin(price_kinds(before, rule=rule), [PRICE_KINDS.index(name) for name in DERIVED_KINDS])
    old_rows = np.flatnonzero(quoted & np.isin(old_keys, new_keys))
    order = old_rows[np.argsort(old_keys[old_rows])]
    shared = np.flatnonzero(np.isin(new_keys, old_keys[order]))
    beside = order[np.searchsorted(old_keys[order], new_keys[shared])]
    ratio = new["price_usd_hour"].numbers()[shared] / before["price_usd_hour"].numbers()[beside]
    purchase = new["purchase"]
    for code, name in enumerate(purchase.labels):
        own = ratio[purchase.codes[shared] == code]
        kind = "_spot" if name == "spot" else ""
        middle = float(np.median(own)) if len(own) >= limits["least_shared"] else 1.0
        if not limits[f"lowest_ratio{kind}"] <= middle <= limits[f"highest_ratio{kind}"]:
            mode = name.replace("_", "-")
            return f"its {len(own):,} {mode} prices are in the middle {middle:.3g} times the old ones; a currency or unit may be wrong"
    return ""


# ---- How prices moved: one row for the last sight of an old price and one for the first sight of
# the new, whenever a refresh found a change or an amendment put a bundled price right.
#
# Nothing is written while a price stays, so the table grows with changes, not with refreshes. The
# price that holds now stands in the catalog with the date it was last seen.

COLUMNS = (
    "provider",
    "instance_type",
    "region",
    "purchase",
    "price_usd_hour",
    "currency_original",
    "price_original",
    "as_of",
    "source",
    "note",
)
_SAME_PRICE = 1e-6  # relative; prices are written with ten digits


@dataclass(frozen=True, slots=True)
class PricePoint:
    """A price of a server in a region and purchase mode as of a date. `change` is relative to the
    point before it, NaN for the first."""

    provider: str
    instance_type: str
    region: str
    purchase: str
    as_of: str
    price_usd_per_h: float
    change: float
    source: str


def changes(before: PackedTable, new: PackedTable) -> PackedTable:
    """Rows for the history: of every key whose price differs, the row as it was and
    the row as it is now."""
    known, shared = _beside(before, new)
    moved = np.abs(_ratios(before, known, new, shared) - 1) > _SAME_PRICE
    return stack([take(_columns(before), known[moved]), take(_columns(new), shared[moved])])


def _ratios(before: PackedTable, known: Rows, new: PackedTable, shared: Rows) -> NDArray[np.float64]:
    """New over old price, pair by pair; NaN where there was none."""
    old = before["price_usd_hour"].numbers()[known]
    return new["price_usd_hour"].numbers()[shared] / np.where(old > 0, old, np.nan)


@dataclass(frozen=True, slots=True)
class Moves:
    """What a refresh changed against the prices of before. `gone`: offers that the same source
    brought earlier and lists no more; they stay, with the date on which they were last seen."""

    new: int = 0
    gone: int = 0
    dearer: int = 0
    cheaper: int = 0
    largest: tuple[PriceMove, ...] = ()


@dataclass(frozen=True, slots=True)
class PriceMove:
    """One offer whose price moved, in dollars an hour."""

    provider: str
    instance_type: str
    region: str
    purchase: str
    before_usd_per_h: float
    now_usd_per_h: float


def moves(before: PackedTable, new: PackedTable, *, source: str, accelerated: Iterable[tuple[str, str]], most: int) -> Moves:
    """New, gone, dearer and cheaper offers of a source, and the `most` whose price moved most.

    Only `accelerated` servers (provider, type) count as gone: others are not asked for every time.
    """
    known, shared = _beside(before, new)
    ratios = _ratios(before, known, new, shared)
    is_gone = np.array([label == source for label in before["source"].labels], dtype=np.bool_)[before["source"].codes]
    is_gone &= join_index([before["provider"], before["instance_type"]], dict.fromkeys(accelerated, 1)) >= 0
    is_gone[known] = False
    size = np.abs(np.log(ratios))
    moved = np.flatnonzero(size > _SAME_PRICE)
    largest = moved[np.argsort(-size[moved], kind="stable")][:most]
    provider, instance_type, region, purchase = (new[name].texts() for name in ("provider", "instance_type", "region", "purchase"))
    old_price, new_price = before["price_usd_hour"].numbers()[known], new["price_usd_hour"].numbers()[shared]
    rows = [(at, shared[at]) for at in largest]
    return Moves(
        new=num_rows(new) - len(shared),
        gone=int(np.count_nonzero(is_gone)),
        dearer=int(np.count_nonzero(ratios[moved] > 1)),
        cheaper=int(np.count_nonzero(ratios[moved] < 1)),
        largest=tuple(
            PriceMove(
                provider=provider[row],
                instance_type=instance_type[row],
                region=region[row],
                purchase=purchase[row].replace("_", "-"),
                before_usd_per_h=float(old_price[at]),
                now_usd_per_h=float(new_price[at]),
            )
            for at, row in rows
        ),
    )


def _columns(table: PackedTable) -> dict[str, PackedColumn]:
    return {name: table[name] for name in COLUMNS}


def extended(history: PackedTable | None, table: PackedTable) -> PackedTable:
    """The history with what a refresh found, without rows that say the same as one before."""
    joined = stack([history, table]) if history is not None and num_rows(history) else table
    keys = row_keys([joined], (*KEYS["prices"], "as_of", "price_usd_hour"))[0]
    return take(joined, np.sort(np.unique(keys, return_index=True)[1]))


def price_history(now: Sequence[Mapping[str, Any]]) -> list[PricePoint]:
    """Every price of the given offers (rows of a `PriceList`) with its dates, oldest first: what
    the history holds, and the price of now."""
    points: dict[tuple[str, str, str, str], dict[tuple[str, float], str]] = {}
    for row in now:
        points[row["provider"], row["instance_type"], row["region"], row["purchase"]] = {}
    for key, date, price, source in _past():
        if key in points:
            points[key].setdefault((date, price), source)
    for row in now:  # after the past, so that of several prices of one day the one that holds comes last
        found = points[row["provider"], row["instance_type"], row["region"], row["purchase"]]
        found.pop((row["as_of"], row["price_usd_per_h"]), None)
        found[row["as_of"], row["price_usd_per_h"]] = row["source"]
    return [point for key in sorted(points) for point in _points(key, points[key])]


def _past() -> Iterable[tuple[tuple[str, str, str, str], str, float, str]]:
    """What was asked before: prices that amendments of the bundled tables put right, then what
    refreshes found to have moved."""
    generation = current()
    fetched = load(generation).get(HISTORY) if generation else None
    for table in (_corrected(), *(() if fetched is None else (fetched,))):
        yield from _rows(table)


def _corrected() -> PackedTable:
    """Rows of the packed prices that an amendment corrects to another price, as they
    were and as they are."""
    packed = load_unamended("prices")
    return changes(packed, amended("prices", packed))


def _rows(table: PackedTable) -> Iterable[tuple[tuple[str, str, str, str], str, float, str]]:
    texts = {name: column.texts() for name, column in table.items() if name not in PRICE_COLUMNS}
    keys = zip(
        texts["provider"], texts["instance_type"], texts["region"], (mode.replace("_", "-") for mode in texts["purchase"]), strict=True
    )
    dates = (parse_date(text).isoformat() for text in texts["as_of"])
    return zip(keys, dates, table["price_usd_hour"].numbers().tolist(), texts["source"], strict=True)


def _points(key: tuple[str, str, str, str], entries: Mapping[tuple[str, float], str]) -> list[PricePoint]:
    found: list[PricePoint] = []
    for (date, price), source in sorted(entries.items(), key=lambda entry: entry[0][0]):
        change = price / found[-1].price_usd_per_h - 1 if found else float("nan")
        found.append(PricePoint(*key, date, price, change, source))
    return found
