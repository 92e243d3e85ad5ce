"""How prices moved: one row for the last sight of an old price and one for the first sight of the new, whenever a refresh found a change or
an amendment put a bundled price right.

Nothing is written while a price stays, so the table grows with changes, not with refreshes. The price that holds now stands in the
catalog with the date it was last seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.catalog.amending import amended
from rightfit.catalog.overlay import HISTORY, KEYS, PRICE_COLUMNS, load, num_rows, row_keys, stack, take
from rightfit.catalog.pack import PackedColumn, PackedTable
from rightfit.catalog.package_data import load_unamended
from rightfit.catalog.pointer import current
from rightfit.catalog.tables import parse_date
from rightfit.records import dataclass

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
    """A price of a server in a region and purchase mode as of a date. `change` is relative to the point before it, NaN for the first."""

    provider: str
    instance_type: str
    region: str
    purchase: str
    as_of: str
    price_usd_per_h: float
    change: float
    source: str


def changes(before: PackedTable, new: PackedTable) -> PackedTable:
    """Rows for the history: of every key whose price differs, the row as it was and the row as it is now."""
    old_keys, new_keys = row_keys([before, new], KEYS["prices"])
    order = np.argsort(old_keys, kind="stable")
    place = np.minimum(np.searchsorted(old_keys[order], new_keys, side="right") - 1, max(len(order) - 1, 0))
    beside = order[np.maximum(place, 0)] if len(order) else np.zeros(len(new_keys), dtype=np.intp)
    shared = np.flatnonzero((old_keys[beside] == new_keys) if len(order) else np.zeros(len(new_keys), dtype=np.bool_))
    old_price = before["price_usd_hour"].numbers()[beside[shared]]
    new_price = new["price_usd_hour"].numbers()[shared]
    moved = shared[np.abs(new_price / np.where(old_price > 0, old_price, np.nan) - 1) > _SAME_PRICE]
    return stack([take(_columns(before), beside[moved]), take(_columns(new), moved)])


def _columns(table: PackedTable) -> dict[str, PackedColumn]:
    return {name: table[name] for name in COLUMNS}


def extended(history: PackedTable | None, table: PackedTable) -> PackedTable:
    """The history with what a refresh found, without rows that say the same as one before."""
    joined = stack([history, table]) if history is not None and num_rows(history) else table
    keys = row_keys([joined], (*KEYS["prices"], "as_of", "price_usd_hour"))[0]
    return take(joined, np.sort(np.unique(keys, return_index=True)[1]))


def price_history(now: Sequence[Mapping[str, Any]]) -> list[PricePoint]:
    """Every price of the given offers (rows of a `PriceList`) with its dates, oldest first: what the history holds, and the price of
    now."""
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
    """What was asked before: prices that amendments of the bundled tables put right, then what refreshes found to have moved."""
    generation = current()
    fetched = load(generation).get(HISTORY) if generation else None
    for table in (_corrected(), *(() if fetched is None else (fetched,))):
        yield from _rows(table)


def _corrected() -> PackedTable:
    """Rows of the packed prices that an amendment corrects to another price, as they were and as they are."""
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
