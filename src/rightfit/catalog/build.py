"""Fills a fresh SQLite store from the packed tables of the wheel. Runs once for each version of the data."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from rightfit.catalog import overlay, tables, twins
from rightfit.catalog.amendments import TABLES
from rightfit.catalog.blocks import CREATE_BLOCK, write_block
from rightfit.catalog.charges import place_prices
from rightfit.catalog.integrity import CheckedMarket, Finding, check_price_superseded, quarantined_rows, run_checks
from rightfit.catalog.layout import APPLICATION_ID, SCHEMA_VERSION
from rightfit.catalog.names import Region
from rightfit.catalog.offers import Flags, ServerTable
from rightfit.catalog.pack import PackedTable
from rightfit.catalog.package_data import fingerprint

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
    """Create and fill every table of the store in one transaction; refreshed prices of a generation lie over the bundled ones."""
    fetched = overlay.load(generation) if generation else {}

    def packed(name: str) -> PackedTable:
        return overlay.merged(name, tables.load_packed(name), fetched)

    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("BEGIN")
    connection.execute(CREATE_BLOCK)
    connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    rule = tables.rules()
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
    newer = twins.superseded(servers, prices, regions, sound=~bad_prices, rule=rule["checks"][check_price_superseded.__name__])
    return twins.marked(servers, prices, newer, sound=sound)


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
    """Median USD per accelerator-hour of each marketplace, by (accelerator, on-demand | spot | committed)."""
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
    """Servers and prices as columns, in two parts: with an accelerator (small, read by every plan) and without."""
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
    """Storage and data transfer of every region as columns, so that a plan need not ask place by place."""
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
