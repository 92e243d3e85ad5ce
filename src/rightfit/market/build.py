"""Fills a fresh SQLite store from the packed tables of the wheel. Runs once for each
version of the data."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import lzma
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rightfit.errors import CatalogError
from rightfit.market import tables
from rightfit.market.amendments import TABLES
from rightfit.market.charges import place_prices
from rightfit.market.integrity import CheckedMarket, Finding, check_price_superseded, quarantined_rows, run_checks
from rightfit.market.names import Region
from rightfit.market.offers import Flags, Indices, ServerTable
from rightfit.market.packed_tables import (
    APPLICATION_ID,
    CREATE_BLOCK,
    SCHEMA_VERSION,
    PackedColumn,
    PackedTable,
    current,
    decode_table,
    fingerprint,
    folder,
    rules,
    write_block,
)
from rightfit.messages import Message

# ---- Prices fetched on this machine: kept beside the bundled ones, laid over them when
# the store is built.
#
# Folder `refreshed` of the data folder holds one generation a sub-folder and `current.json`, which
# names the one that counts. A generation is written whole, its store is built and checked, and only
# then the pointer is replaced, so whoever reads sees the old state or the new one. Generations are
# packed tables (pack.py) of the same columns as the bundled ones, plus the history of prices.

# Overlaid table -> the columns that name a row. Of servers the bundled description wins (it knows
# more), of the others the fetched row.
KEYS: Mapping[str, tuple[str, ...]] = {
    "servers": ("provider", "instance_type"),
    "prices": ("provider", "instance_type", "region", "purchase"),
    "interruptions": ("provider", "instance_type", "region"),
    "market_gpu_prices": ("provider", "gpu_name", "gpu_count", "region", "purchase"),
}
PRICE_COLUMNS = ("price_usd_hour", "price_original")
HISTORY = "history"
_KEPT_GENERATIONS = 2


def load(generation: str) -> dict[str, PackedTable]:
    """The tables of a generation; CatalogError when one is damaged."""
    place = folder() / generation
    try:
        sums = json.loads((place / "manifest.json").read_text(encoding="utf-8"))["tables"]
        return {name: decode_table(_checked(place / f"{name}.pack", entry["sha256"])) for name, entry in sums.items()}
    except (OSError, ValueError, KeyError, TypeError, lzma.LZMAError, EOFError):
        raise CatalogError(Message("catalog.refreshed_damaged", path=place, folder=folder())) from None


def _checked(path: Path, sha256: str) -> bytes:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError("checksum")
    return data


def facts(generation: str) -> dict[str, Any]:
    """What is written beside a generation: which source was read when, and how
    many rows it gave."""
    try:
        answer: dict[str, Any] = json.loads((folder() / generation / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return answer


def write_generation(tables: Mapping[str, PackedTable], *, sources: Mapping[str, Mapping[str, Any]]) -> str:
    """Write the tables as a new generation, synced to disk, and return its fingerprint. It
    does not count yet."""
    packed = {name: encode_packed(table) for name, table in tables.items() if num_rows(table)}
    sums = {name: {"sha256": hashlib.sha256(data).hexdigest(), "rows": num_rows(tables[name])} for name, data in packed.items()}
    manifest = json.dumps({"tables": sums, "sources": sources}, indent=1, sort_keys=True).encode()
    generation = hashlib.sha256(manifest).hexdigest()[:16]
    if _is_whole(generation):  # the same prices on the same day: what may count already is not touched
        return generation
    temporary = folder() / f"{generation}.{os.getpid()}.tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    try:
        for name, data in packed.items():
            _write_synced(temporary / f"{name}.pack", data)
        _write_synced(temporary / "manifest.json", manifest)
        shutil.rmtree(folder() / generation, ignore_errors=True)
        os.replace(temporary, folder() / generation)  # noqa: PTH105
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return generation


def _is_whole(generation: str) -> bool:
    try:
        return bool(load(generation))
    except CatalogError:
        return False


def publish(generation: str) -> None:
    """Let a generation count from now on: one atomic replacement of the pointer."""
    temporary = folder() / f"current.{os.getpid()}.tmp"
    _write_synced(temporary, json.dumps({"generation": generation}).encode())
    os.replace(temporary, folder() / "current.json")  # noqa: PTH105
    with contextlib.suppress(OSError):
        descriptor = os.open(folder(), os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def remove(generation: str) -> None:
    """Throw a generation away, unless it counts."""
    if generation != current():
        shutil.rmtree(folder() / generation, ignore_errors=True)


def remove_old() -> list[str]:
    """Remove generations but the current and the one before it (which a reader may have just looked
    up), and what killed refreshes left."""
    counts, removed = current(), []
    found = [path for path in folder().iterdir() if path.name != "work"] if folder().is_dir() else []
    generations = sorted((path for path in found if path.is_dir() and path.suffix != ".tmp"), key=lambda path: path.stat().st_mtime)
    for path in [path for path in generations if path.name != counts][: -(_KEPT_GENERATIONS - 1) or None]:
        shutil.rmtree(path, ignore_errors=True)
        removed.append(path.name)
    for path in found:
        if path.suffix == ".tmp" and time.time() - path.stat().st_mtime > 3600:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return removed


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def encode_packed(table: PackedTable) -> bytes:
    """A packed table from columns as they are, quickly (the wheel's are squeezed harder)."""
    header: list[dict[str, Any]] = []
    sections: list[bytes] = []
    for name, column in table.items():
        width = 1 if len(column.labels) <= 256 else 2 if len(column.labels) <= 65536 else 4
        kind = {"kind": "number"} if column.values is not None else {"kind": "dictionary", "width": width, "labels": list(column.labels)}
        cells = column.codes.astype(f"<u{width}") if column.values is None else column.values.astype("<f8")
        sections.append(cells.tobytes())
        header.append({"name": name, **kind, "bytes": len(sections[-1])})
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    return lzma.compress(
        len(head).to_bytes(4, "little") + head + b"".join(sections), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=0
    )


def num_rows(table: PackedTable) -> int:
    """Rows of a packed table."""
    return len(next(iter(table.values()))) if table else 0


def empty_like(table: PackedTable) -> dict[str, PackedColumn]:
    """No rows of the same columns."""
    return {name: PackedColumn((), np.zeros(0, dtype=np.int32)) for name in table}


def numeric(table: PackedTable) -> dict[str, PackedColumn]:
    """The table with its prices as numbers: half a million different prices as texts would take a
    hundred megabytes."""
    none = np.zeros(0, dtype=np.int32)
    return {name: PackedColumn((), none, column.numbers()) if name in PRICE_COLUMNS else column for name, column in table.items()}


def take(table: PackedTable, rows: Indices | Flags) -> dict[str, PackedColumn]:
    """Some rows; labels are shared."""
    return {name: _take_column(column, rows) for name, column in table.items()}


def _take_column(column: PackedColumn, rows: Indices | Flags) -> PackedColumn:
    if column.values is not None:
        return PackedColumn((), column.codes, column.values[rows])
    return PackedColumn(column.labels, column.codes[rows])


def stack(tables: Sequence[PackedTable]) -> dict[str, PackedColumn]:
    """Tables of the same columns under each other, equal labels merged."""
    return {name: _stack_column([table[name] for table in tables]) for name in tables[0]}


def _stack_column(columns: Sequence[PackedColumn]) -> PackedColumn:
    if any(column.values is not None for column in columns):
        return PackedColumn((), np.zeros(0, dtype=np.int32), np.concatenate([column.numbers() for column in columns]))
    places: dict[str, int] = {}
    codes = []
    for column in columns:
        numbers = (places.setdefault(label, len(places)) for label in column.labels)
        mapping = np.fromiter(numbers, dtype=np.int32, count=len(column.labels))
        codes.append(mapping[column.codes] if len(column.codes) else np.zeros(0, dtype=np.int32))
    return PackedColumn(tuple(places), np.concatenate(codes))


def row_keys(tables: Sequence[PackedTable], key: Sequence[str]) -> list[Indices]:
    """One integer for each row's key, comparable between the tables."""
    combined = np.zeros(sum(map(num_rows, tables)), dtype=np.intp)
    for name in key:
        column = _stack_column([table[name] for table in tables])
        if column.values is not None:
            distinct, codes = np.unique(column.values, return_inverse=True)
            combined = combined * max(1, len(distinct)) + codes.reshape(-1)
        else:
            combined = combined * max(1, len(column.labels)) + column.codes
    ends = np.cumsum([num_rows(table) for table in tables])
    return [np.asarray(part) for part in np.split(combined, ends[:-1])]


def lay_over(base: PackedTable, over: PackedTable, *, key: Sequence[str], base_wins: bool = False) -> dict[str, PackedColumn]:
    """The rows of both; of two rows of one key that of `over` stays (or of `base`). Within `over`
    the last of one key stays."""
    if not num_rows(over):
        return dict(base)
    over = take({name: over[name] for name in base}, last_of_each(row_keys([over], key)[0]))
    base_keys, over_keys = row_keys([base, over], key)
    if base_wins:
        return stack([base, take(over, ~np.isin(over_keys, base_keys))])
    return stack([take(base, ~np.isin(base_keys, over_keys)), over])


def last_of_each(keys: Indices) -> Indices:
    """The last row of each key, in order."""
    _, first_from_end = np.unique(keys[::-1], return_index=True)
    return np.sort(len(keys) - 1 - first_from_end)


def merged(name: str, base: PackedTable, tables: Mapping[str, PackedTable]) -> PackedTable:
    """A bundled table with the fetched rows laid over it."""
    return lay_over(base, tables[name], key=KEYS[name], base_wins=name == "servers") if name in tables else base


# SQL name -> packed table; every column is kept as it was read, numbers with numeric affinity.
_PLAIN_TABLES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "storage_price": ("storage_prices", ("provider", "kind", "region")),
    "egress_price": ("egress_prices", ("provider", "destination", "region")),
    "interruption": ("interruptions", ("provider", "instance_type", "region")),
    "discount": ("discounts", ("provider", "mechanism")),
    "market_gpu_price": ("market_gpu_prices", ("provider", "gpu_name")),
}
_NUMERIC_COLUMNS = frozenset(name for packed, _ in _PLAIN_TABLES.values() for name in TABLES[packed].numbers)


def fill_store(connection: sqlite3.Connection, *, generation: str = "") -> None:
    """Create and fill every table of the store in one transaction; refreshed prices of a generation
    lie over the bundled ones."""
    fetched = load(generation) if generation else {}

    def packed(name: str) -> PackedTable:
        return merged(name, tables.load_packed(name), fetched)

    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("BEGIN")
    connection.execute(CREATE_BLOCK)
    connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    rule = rules()
    regions = tables.region_table(tables.load_packed("regions"))
    servers, prices, findings = _market(regions, rule=rule, packed=packed)
    _write_market(connection, servers, prices, findings)
    _write_regions(connection, regions)
    for name, (packed_name, key) in _PLAIN_TABLES.items():
        _write_plain(connection, name, packed=packed(packed_name), key=key)
    _write_places(connection, regions)
    _write_findings(connection, findings)
    _write_meta(connection, servers, prices)
    connection.execute("COMMIT")


def _market(
    regions: tables.RegionTable, *, rule: Mapping[str, Any], packed: Callable[[str], PackedTable]
) -> tuple[ServerTable, tables.PriceColumns, list[Finding]]:
    packed_servers, packed_prices = packed("servers"), packed("prices")
    priced = _is_priced(packed_servers, packed_prices)
    servers = tables.server_table(packed_servers, rule=rule, is_priced=priced)
    advisor = packed("interruptions")
    prices = tables.price_columns(packed_prices, servers=servers, regions=regions, rule=rule, interruptions=advisor)
    market = CheckedMarket(servers, prices, regions, accelerator_memory(), market_levels(packed("market_gpu_prices")))
    findings = run_checks(market, rule=rule)
    return _without_former_names(servers, prices, regions, findings, rule=rule), prices, findings


def _without_former_names(
    servers: ServerTable, prices: tables.PriceColumns, regions: tables.RegionTable, findings: list[Finding], *, rule: Mapping[str, Any]
) -> ServerTable:
    """The servers, those marked whose seller lists them under another name by now."""
    others = [finding for finding in findings if finding.check != check_price_superseded.__name__]
    bad_servers, bad_prices = quarantined_rows(others, num_servers=len(servers), num_prices=len(prices))
    sound = ~(bad_prices | bad_servers[np.maximum(prices.server_index, 0)])
    newer = tables.superseded(servers, prices, regions, sound=~bad_prices, rule=rule["checks"][check_price_superseded.__name__])
    return tables.marked(servers, prices, newer, sound=sound)


def regions_of(records: Iterable[Region]) -> tables.RegionTable:
    """Region records as columns."""
    rows = tuple(records)
    return tables.RegionTable(
        **{field.name: tuple(getattr(row, field.name) for row in rows) for field in dataclasses.fields(tables.RegionTable)}
    )


def accelerator_memory() -> dict[str, float]:
    """Memory of every known accelerator, in bytes."""
    from rightfit import facts

    return {name: accelerator.memory_bytes for name, accelerator in facts.accelerators().items()}


def market_levels(packed: PackedTable) -> dict[tuple[str, str], list[float]]:
    """Median USD per accelerator-hour of each marketplace, by (accelerator, on-demand |
    spot | committed)."""
    by_provider: dict[tuple[str, str], dict[str, list[float]]] = {}
    columns = (packed[name].texts() for name in ("gpu_name", "purchase", "provider", "price_median_usd_gpu_hour"))
    for name, purchase, provider, price in zip(*columns, strict=True):
        mode = purchase.split(":")[0].replace("_", "-")
        kind = mode if mode in ("on-demand", "spot") else "committed"
        if price:
            by_provider.setdefault((name, kind), {}).setdefault(provider, []).append(float(price))
    return {key: [float(np.median(values)) for values in providers.values()] for key, providers in by_provider.items()}


def _is_priced(packed_servers: PackedTable, packed_prices: PackedTable) -> Flags:
    keys = {
        key: row for row, key in enumerate(zip(packed_servers["provider"].texts(), packed_servers["instance_type"].texts(), strict=True))
    }
    rows = tables.join_index([packed_prices["provider"], packed_prices["instance_type"]], keys)
    is_priced = np.zeros(len(keys), dtype=np.bool_)
    is_priced[rows[rows >= 0]] = True
    return is_priced


def _write_market(connection: sqlite3.Connection, servers: ServerTable, prices: tables.PriceColumns, findings: list[Finding]) -> None:
    """Servers and prices as columns, in two parts: with an accelerator (small, read by every
    plan) and without."""
    num_accelerated = int(np.count_nonzero(servers.num_accelerators > 0))
    bad_servers, bad_prices = quarantined_rows(findings, num_servers=len(servers), num_prices=len(prices))
    reasons = tuple(
        reason or ("quarantined" if bad else "") for reason, bad in zip(servers.not_recommended, bad_servers.tolist(), strict=True)
    )
    servers = dataclasses.replace(servers, not_recommended=reasons)
    known = (prices.server_index >= 0) & (prices.region_index >= 0) & (prices.purchase_index >= 0)
    for part, server_rows, wanted in (
        ("accelerator", np.arange(num_accelerated), known & (prices.server_index < num_accelerated)),
        ("cpu", np.arange(num_accelerated, len(servers)), known & (prices.server_index >= num_accelerated)),
    ):
        own = servers.take(server_rows)
        for field in dataclasses.fields(own):
            write_block(connection, f"server_{part}/{field.name}", values=getattr(own, field.name))
        for field in dataclasses.fields(prices):
            values = getattr(prices, field.name)
            if isinstance(values, np.ndarray):
                write_block(connection, f"price_{part}/{field.name}", values=values[wanted])
        is_quarantined = bad_prices | bad_servers[np.maximum(prices.server_index, 0)]
        write_block(connection, f"price_{part}/is_quarantined", values=is_quarantined[wanted])
    for field in dataclasses.fields(prices):
        values = getattr(prices, field.name)
        if isinstance(values, tuple):
            write_block(connection, f"price_labels/{field.name}", values=values)


def _write_regions(connection: sqlite3.Connection, regions: tables.RegionTable) -> None:
    names = [field.name for field in dataclasses.fields(regions)]
    for name in ("provider", "region", "country", "continent"):
        write_block(connection, f"region/{name}", values=getattr(regions, name))
    connection.execute(f"CREATE TABLE region (id INTEGER PRIMARY KEY, {', '.join(f'{name} TEXT NOT NULL' for name in names)})")
    rows = zip(range(len(regions.region)), *(getattr(regions, name) for name in names), strict=True)
    connection.executemany(f"INSERT INTO region VALUES ({', '.join('?' * (len(names) + 1))})", rows)  # noqa: S608  (our own table and column names)


def _write_plain(connection: sqlite3.Connection, name: str, *, packed: PackedTable, key: tuple[str, ...]) -> None:
    """One packed table as it stands; empty cells become NULL."""
    declared = ", ".join(f"{column} {'REAL' if column in _NUMERIC_COLUMNS else 'TEXT'}" for column in packed)
    connection.execute(f"CREATE TABLE {name} ({declared})")
    rows = zip(*([text or None for text in column.texts()] for column in packed.values()), strict=True)
    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(packed))})", rows)  # noqa: S608  (our own table and column names)
    connection.execute(f"CREATE INDEX {name}_key ON {name} ({', '.join(key)})")


def _write_places(connection: sqlite3.Connection, regions: tables.RegionTable) -> None:
    """Storage and data transfer of every region as columns, so that a plan need not
    ask place by place."""
    columns = [getattr(regions, field.name) for field in dataclasses.fields(Region)]
    places = place_prices(connection, [Region(*row) for row in zip(*columns, strict=True)])
    for field in dataclasses.fields(places):
        write_block(connection, f"place/{field.name}", values=getattr(places, field.name))


def _write_findings(connection: sqlite3.Connection, findings: list[Finding]) -> None:
    names = [field.name for field in dataclasses.fields(Finding)]
    quoted = ", ".join(f'"{name}"' for name in names)
    connection.execute(f"CREATE TABLE finding ({quoted})")
    rows = [tuple(getattr(finding, name) for name in names) for finding in findings]
    connection.executemany(f"INSERT INTO finding VALUES ({', '.join('?' * len(names))})", rows)  # noqa: S608  (our own table and column names)


def _write_meta(connection: sqlite3.Connection, servers: ServerTable, prices: tables.PriceColumns) -> None:
    facts = {
        "schema_version": SCHEMA_VERSION,
        "fingerprint": fingerprint(),
        "servers": len(servers),
        "prices": len(prices),
        "newest_date": tables.newest_date(prices.as_of_dates).isoformat(),
        "as_of": json.dumps(_newest_by_provider(servers, prices)),
    }
    connection.executemany("INSERT INTO meta VALUES (?, ?)", [(key, str(value)) for key, value in facts.items()])


def _newest_by_provider(servers: ServerTable, prices: tables.PriceColumns) -> dict[str, str]:
    """The newest price date of each provider that has prices."""
    sound = prices.server_index >= 0
    pairs = np.unique(prices.server_index[sound] * len(prices.as_of_dates) + prices.as_of_index[sound])
    newest: dict[str, str] = {}
    for server, date in zip(*(part.tolist() for part in np.divmod(pairs, len(prices.as_of_dates))), strict=True):
        provider = servers.provider[server]
        newest[provider] = max(newest.get(provider, ""), prices.as_of_dates[date])
    return dict(sorted(newest.items()))
