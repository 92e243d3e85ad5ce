"""Pages of the catalog as tables: servers, prices, accelerators, models, filtered and sorted, so many lines at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import lookup, units
from rightfit.catalog.queries import PRICE_SORTS, SERVER_SORTS, first_offers, first_servers
from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.catalog import Catalog

ACCELERATOR_SORTS = ("name", "memory", "bandwidth", "bf16", "year")
SORTS: Mapping[str, tuple[str, ...]] = {
    "servers": SERVER_SORTS,
    "prices": PRICE_SORTS,
    "accelerators": ACCELERATOR_SORTS,
    "models": ("name",),
}
_ACCELERATOR_KEYS = {"memory": "memory_bytes", "bandwidth": "memory_bandwidth", "bf16": "bf16_flops", "year": "release_year"}


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What of the catalog is wanted. `first`: the number of lines to skip; names as the options of a workload take them."""

    query: str = ""
    cloud: str = ""
    gpu: str = ""
    region: str = ""
    purchase: str = ""
    sort: str = ""
    descending: bool = False
    first: int = 0
    count: int = 25


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogPage:
    """The lines asked for, and how many there are in all."""

    table: Table
    total: int


def catalog_page(kind: str, question: Question, lang: Lang, *, catalog: Catalog) -> CatalogPage:
    """One page of servers, prices, accelerators or models. Raises UnknownNameError for names and orders that do not exist."""
    return _PAGES[kind](question, lang, catalog)


def _known(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """Unknown and zero figures stay empty."""
    return lambda value: "" if value is None or value != value or value == 0 else show(value)


def _scaled(unit: float) -> Callable[[Any], str]:
    return _known(lambda value: q.plain(value / unit))


def _servers(question: Question, lang: Lang, catalog: Catalog) -> CatalogPage:
    found = lookup.servers(question.query, cloud=question.cloud, gpu=question.gpu, catalog=catalog).servers
    rows = np.arange(len(found), dtype=np.intp)
    last = question.first + question.count
    rows = first_servers(found, rows, sort=question.sort or "name", limit=last, descending=question.descending)[question.first :]
    shown = found.take(rows)
    records = [{**shown.row(at), "provider": q.provider_text(shown.provider[at], lang)} for at in range(len(shown))]
    columns = (
        Column("instance_type"),
        Column("provider"),
        Column("num_accelerators", _known(q.plain), right=True),
        Column("accelerator_name"),
        Column("accelerator_memory_bytes", _known(q.memory_text), right=True),
        Column("vcpus", _known(q.plain), right=True),
        Column("memory_bytes", _known(q.memory_text), right=True),
        Column("gpu_interconnect"),
        Column("network_bytes_per_s", _scaled(1.25e8), right=True),
    )
    return CatalogPage(Table(columns, records), len(found))


def _prices(question: Question, lang: Lang, catalog: Catalog) -> CatalogPage:
    wanted: dict[str, Any] = {"cloud": question.cloud, "gpu": question.gpu, "region": question.region, "purchase": question.purchase}
    found = lookup.prices(question.query, **wanted, catalog=catalog)
    rows = np.arange(len(found.offers), dtype=np.intp)
    last = question.first + question.count
    rows = first_offers(found.offers, rows, sort=question.sort or "price", limit=last, descending=question.descending)[question.first :]
    shown = found.offers.take(rows)
    columns = (
        Column("instance_type"),
        Column("price_usd_per_h", units.format_usd, right=True),
        Column("provider"),
        Column("region"),
        Column("purchase"),
        Column("num_accelerators", _known(q.plain), right=True),
        Column("accelerator_name"),
        Column("as_of"),
        Column("remark"),
    )
    return CatalogPage(Table(columns, [_price_record(shown, at, lang) for at in range(len(shown))]), found.total)


def _price_record(offers: Any, index: int, lang: Lang) -> dict[str, Any]:
    record, server = offers.row(index), int(offers.server_index[index])
    flags = [name for name in ("is_estimate", "is_stale", "is_pseudo_region") if record[name]]
    return {
        **record,
        "provider": q.provider_text(record["provider"], lang),
        "region": q.region_text(record["region"], lang),
        "purchase": q.purchase_text(record["purchase"], lang),
        "num_accelerators": float(offers.servers.num_accelerators[server]),
        "accelerator_name": offers.servers.accelerator_name[server],
        "remark": ", ".join(label("remark", flag, lang) for flag in flags),
    }


def _accelerators(question: Question, lang: Lang, catalog: Catalog) -> CatalogPage:
    records = [dataclasses.asdict(record) for record in lookup.accelerators(question.query)]
    if question.sort in _ACCELERATOR_KEYS:
        records.sort(key=lambda record: record[_ACCELERATOR_KEYS[question.sort]])
    else:
        records.sort(key=lambda record: record["name"].casefold())
    columns = (
        Column("name"),
        Column("vendor"),
        Column("architecture"),
        Column("memory_bytes", _known(q.memory_text), right=True),
        Column("memory_bandwidth", _scaled(1e9), right=True),
        Column("bf16_flops", _scaled(1e12), right=True),
        Column("fp8_flops", _scaled(1e12), right=True),
        Column("nvlink_bandwidth", _scaled(1e9), right=True),
        Column("tdp_w", _known(q.plain), right=True),
        Column("release_year", _known(str), right=True),
    )
    return CatalogPage(Table(columns, _slice(records, question)), len(records))


def _models(question: Question, lang: Lang, catalog: Catalog) -> CatalogPage:
    found = lookup.models(question.query)
    if question.descending:
        found = found[::-1]
    records = [lookup.model_record(record) for record in found[question.first : question.first + question.count]]
    columns = (
        Column("name"),
        Column("family"),
        Column("kind"),
        Column("params_total", _known(lambda value: q.count_text(value, lang)), right=True),
        Column("params_active", _known(lambda value: q.count_text(value, lang)), right=True),
        Column("num_layers", _known(q.plain), right=True),
        Column("max_position", _known(lambda value: f"{value:,.0f}"), right=True),
        Column("licence"),
    )
    return CatalogPage(Table(columns, records), len(found))


def _slice(records: Sequence[dict[str, Any]], question: Question) -> list[dict[str, Any]]:
    ordered = list(records[::-1] if question.descending else records)
    return ordered[question.first : question.first + question.count]


_PAGES: Mapping[str, Callable[[Question, Lang, Catalog], CatalogPage]] = {
    "servers": _servers,
    "prices": _prices,
    "accelerators": _accelerators,
    "models": _models,
}
