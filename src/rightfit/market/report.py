"""How far the catalog can be trusted: what it holds, how old it is, and what its checks say."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from rightfit.market.integrity import CheckedMarket, Finding, run_checks
from rightfit.market.offers import OfferTable, ServerTable, ages_of_dates, today
from rightfit.market.packed_tables import data_bytes, manifest, read_blocks, rules
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market.names import Region
    from rightfit.market.packed_tables import PackedTable
    from rightfit.market.tables import PriceColumns


Answered = TypeVar("Answered")


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """What the catalog holds of one provider; `oldest` and `newest` are dates of its prices,
    empty without any; `median_age_days` of the prices of servers with accelerators (of all where
    it has none such) [days], none without any."""

    provider: str
    servers: int
    accelerated_servers: int
    recommendable_servers: int
    prices: int
    regions: int
    oldest: str
    newest: str
    median_age_days: float | None
    stale_prices: int
    estimated_prices: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """The catalog as a whole. `age_days` counts from the newest price to today."""

    location: str
    size_bytes: int
    fingerprint: str
    schema_version: int
    newest: str
    age_days: int
    servers: int
    prices: int
    quarantined_prices: int
    not_recommended_servers: int
    providers: tuple[ProviderStatus, ...]
    rows: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)


class Stored(Protocol):
    """What a report reads of a catalog."""

    @property
    def location(self) -> str: ...
    def read(self, question: Callable[[sqlite3.Connection], Answered]) -> Answered: ...
    def all_offers(self) -> OfferTable: ...
    def servers(self) -> ServerTable: ...
    def regions(self) -> tuple[Region, ...]: ...


def status(catalog: Stored) -> Status:
    """Count and date everything."""
    table = catalog.all_offers()
    meta = catalog.read(lambda connection: dict(connection.execute("SELECT key, value FROM meta").fetchall()))
    newest = datetime.date.fromisoformat(meta["newest_date"])
    provider_of = np.array(table.servers.provider)
    return Status(
        location=catalog.location,
        size_bytes=catalog.read(_size_bytes),
        fingerprint=meta["fingerprint"],
        schema_version=int(meta["schema_version"]),
        newest=newest.isoformat(),
        age_days=(datetime.date.fromisoformat(today()) - newest).days,
        servers=len(table.servers),
        prices=len(table),
        quarantined_prices=int(np.count_nonzero(table.is_quarantined)),
        not_recommended_servers=int(np.count_nonzero(~table.servers.is_recommendable)),
        providers=tuple(_provider_status(table, name, provider_of=provider_of) for name in sorted(set(table.servers.provider))),
        rows={name: int(entry["rows"]) for name, entry in manifest()["tables"].items()},
    )


def _size_bytes(connection: sqlite3.Connection) -> int:
    pages, page = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page)


def _provider_status(table: OfferTable, provider: str, *, provider_of: Any) -> ProviderStatus:
    servers = table.servers
    own_servers = provider_of == provider
    own = own_servers[table.server_index]
    with_cards = own & (servers.num_accelerators > 0)[table.server_index]
    ages = ages_of_dates(table.as_of_dates, today())[table.as_of_index[with_cards if with_cards.any() else own]]
    dates = sorted(table.as_of_dates[i] for i in np.unique(table.as_of_index[own]).tolist())
    return ProviderStatus(
        provider=provider,
        servers=int(np.count_nonzero(own_servers)),
        accelerated_servers=int(np.count_nonzero(own_servers & (servers.num_accelerators > 0))),
        recommendable_servers=int(np.count_nonzero(own_servers & servers.is_recommendable)),
        prices=int(np.count_nonzero(own)),
        regions=len(np.unique(table.region_index[own])),
        oldest=dates[0] if dates else "",
        newest=dates[-1] if dates else "",
        median_age_days=float(np.median(ages)) if len(ages) else None,
        stale_prices=int(np.count_nonzero(own & table.is_stale)),
        estimated_prices=int(np.count_nonzero(own & table.is_estimate)),
        sources=tuple(sorted(table.sources[i] for i in np.unique(table.source_index[own]).tolist())),
    )


def verify(catalog: Stored) -> list[Finding]:
    """The store's own soundness, the package's files, and every named check over every row; orphans
    are those found at the build."""
    from rightfit.market import build

    rule = rules()
    found = [*_store_findings(catalog), *_package_findings()]
    market = CheckedMarket(
        catalog.servers(),
        price_columns(catalog.all_offers()),
        build.regions_of(catalog.regions()),
        build.accelerator_memory(),
        build.market_levels(_market_prices(catalog)),
    )
    return found + run_checks(market, rule=rule) + _orphans(catalog)


def amendment_findings(findings: Iterable[Finding]) -> list[str]:
    """Errors that the checks find in amended rows, each with the file and line of its amendment."""
    from rightfit.market import amendments

    own = {(*one.key[:2], *(cell.replace("_", "-") for cell in one.key[2:])): one for one in amendments.read()[0]}
    lines = []
    for finding in findings:
        place = (finding.region, finding.purchase.replace("_", "-")) if finding.purchase else ()
        amendment = own.get((finding.provider, finding.instance_type, *place))
        if amendment and finding.severity == "error":
            lines.append(amendment.problem(f"{finding.check}: {finding.explanation} ({finding.had}; allowed: {finding.limit})"))
    return lines


def _market_prices(catalog: Stored) -> PackedTable:
    """Marketplace prices as the store has them: refreshed ones only where it
    was built with them."""
    from rightfit.market import build, packed_tables, tables

    generation = packed_tables.current()
    fetched = build.load(generation) if generation and generation in catalog.location else {}
    return build.merged("market_gpu_prices", tables.load_packed("market_gpu_prices"), fetched)


def price_columns(table: OfferTable) -> PriceColumns:
    """The store's prices in the form the checks take."""
    from rightfit.market.tables import PriceColumns

    names = [field.name for field in dataclasses.fields(PriceColumns) if field.name != "orphans"]
    return PriceColumns(**{name: getattr(table, name) for name in names})


def _store_findings(catalog: Stored) -> list[Finding]:
    """SQLite's own check of every page, and the checksum of every column."""
    answer = catalog.read(lambda connection: connection.execute("PRAGMA integrity_check").fetchone()[0])
    if answer != "ok":
        return [_file_finding("check_store_sound", catalog.location, had=str(answer)[:200], limit="ok")]
    prefixes = ("server_accelerator", "server_cpu", "price_accelerator", "price_cpu", "price_labels", "region", "place")
    for prefix in prefixes:
        catalog.read(lambda connection, prefix=prefix: read_blocks(connection, prefix))  # type: ignore[misc]
    return []


def _package_findings() -> list[Finding]:
    """Packed tables whose checksum is not the manifest's."""
    found = []
    for name, entry in manifest()["tables"].items():
        sha256 = hashlib.sha256(data_bytes(f"{name}.pack")).hexdigest()
        if sha256 != entry["sha256"]:
            found.append(_file_finding("check_package_data", f"{name}.pack", had=sha256[:16], limit=entry["sha256"][:16]))
    return found


def _file_finding(check: str, name: str, *, had: str, limit: str) -> Finding:
    return Finding(check, "error", "", "", name, "", had, limit, "the file is damaged; remove it or reinstall rightfit")


def _orphans(catalog: Stored) -> list[Finding]:
    names = ", ".join(f'"{field.name}"' for field in dataclasses.fields(Finding))
    query = f"SELECT {names} FROM finding WHERE \"check\" = 'check_orphan_price'"  # noqa: S608
    return [Finding(*row) for row in catalog.read(lambda connection: connection.execute(query).fetchall())]
