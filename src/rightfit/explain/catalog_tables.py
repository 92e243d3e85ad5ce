"""Pages of the catalog as tables: servers, prices, accelerators, models, filtered and sorted, so
many lines at a time."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import lookup, units
from rightfit.errors import UnknownNameError
from rightfit.explain import quantities as q
from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table, price_remark
from rightfit.market.offers import PURCHASE_CODES, SERVER_SORTS, first_offers, first_servers
from rightfit.messages import Lang, Message
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market import Catalog, OfferTable, ServerTable
    from rightfit.market.offers import Floats, Indices

#: What the columns of each kind are sorted by: {kind: {column: order}}; the first
#: order is the usual one.
_SORTS_FILE = Path(__file__).with_name("data") / "column_sorts.toml"
COLUMN_SORTS: Mapping[str, Mapping[str, str]] = tomllib.loads(_SORTS_FILE.read_text(encoding="utf-8"))
#: Every order of a kind; those of the command line that have no column here stand last.
SORTS: Mapping[str, tuple[str, ...]] = {
    kind: tuple(dict.fromkeys((*columns.values(), *(SERVER_SORTS if kind == "servers" else ())))) for kind, columns in COLUMN_SORTS.items()
}


@dataclass(frozen=True, slots=True)
class Question:
    """What of the catalog is wanted. `first`: the number of lines to skip; names as the options of
    a workload take them."""

    query: str = ""
    cloud: str = ""
    gpu: str = ""
    region: str = ""
    purchase: str = ""
    sort: str = ""
    descending: bool = False
    first: int = 0
    count: int = 25


@dataclass(frozen=True, slots=True)
class CatalogPage:
    """The lines asked for, and how many there are in all."""

    table: Table
    total: int


def catalog_page(kind: str, question: Question, lang: Lang, *, catalog: Catalog) -> CatalogPage:
    """One page of servers, prices, accelerators or models. Raises UnknownNameError for names and
    orders that do not exist."""
    return _PAGES[kind](question, lang, catalog)


def joined_text(code: str) -> str:
    """What joins cards or servers, as its makers write it; empty without any."""
    return "" if code in ("", "none") else label("joined", code.replace("-", "_"), "en")


def _known(show: Callable[[Any], str]) -> Callable[[Any], str]:
    """Unknown and zero figures stay empty."""
    return lambda value: "" if value is None or value != value or value == 0 else show(value)


def _scaled(unit: float) -> Callable[[Any], str]:
    return _known(lambda value: q.plain(value / unit))


def _servers(question: Question, lang: Lang, catalog: Catalog) -> CatalogPage:
    found = lookup.servers(question.query, cloud=question.cloud, gpu=question.gpu, catalog=catalog).servers
    rows, sort = np.arange(len(found), dtype=np.intp), question.sort or "name"
    last = question.first + question.count
    prices = _prices_from(found, catalog)
    keys = _server_keys(found, prices, sort)
    if keys is None:
        rows = first_servers(found, rows, sort=sort, limit=last, descending=question.descending)[question.first :]
    else:
        rows = _ordered(keys, descending=question.descending)[question.first : last]
    shown = found.take(rows)
    records = [
        {
            **shown.row(at),
            "provider": q.provider_text(shown.provider[at], lang),
            "server": f"{shown.provider[at]}/{shown.instance_type[at]}",
            "price_from": float(prices[row]),
        }
        for at, row in enumerate(rows.tolist())
    ]
    columns = (
        Column("instance_type"),
        Column("provider"),
        Column("price_from", _known(units.format_usd), right=True),
        Column("num_accelerators", _known(q.plain), right=True),
        Column("accelerator_name"),
        Column("accelerator_memory_bytes", _known(q.memory_text), right=True),
        Column("vcpus", _known(q.plain), right=True),
        Column("memory_bytes", _known(q.memory_text), right=True),
        Column("gpu_interconnect", joined_text),
        Column("network_bytes_per_s", _scaled(1.25e8), right=True),
    )
    return CatalogPage(Table(columns, records), len(found))


def _prices_from(found: ServerTable, catalog: Catalog) -> Floats:
    """The cheapest price on demand of each server that a plan would take as sound
    [USD/h]; NaN without one."""
    from rightfit.search.offers import sound_offers

    table = catalog.all_offers()
    sound = sound_offers(table) & (table.purchase_index == PURCHASE_CODES["on-demand"])
    least = np.full(len(table.servers), np.inf)
    np.minimum.at(least, table.server_index[sound], table.price_usd_per_h[sound])
    rows = [catalog.server_rows[name] for name in zip(found.provider, found.instance_type, strict=True)]
    chosen = least[np.array(rows, dtype=np.intp)]
    return np.where(np.isfinite(chosen), chosen, np.nan)


def _server_keys(found: ServerTable, prices: Floats, sort: str) -> Floats | None:
    """What servers are ordered by, where the catalog has no such order itself."""
    words = {"cloud": found.provider, "card": found.accelerator_name, "link": found.gpu_interconnect}
    if sort in words:
        return _alphabetical(words[sort])
    figures = {
        "price": prices,
        "gpus": found.num_accelerators,
        "card_memory": found.accelerator_memory_bytes,
        "network": found.network_bytes_per_s,
    }
    return _known_figures(figures[sort]) if sort in figures else None


def _known_figures(values: Floats) -> Floats:
    """Figures with NaN for what is unknown or not there."""
    return np.where(values > 0, values, np.nan)


def _alphabetical(names: Sequence[str]) -> Floats:
    """Names as numbers in their order; an empty one is unknown."""
    folded = [name.casefold() for name in names]
    places = {name: float(place) for place, name in enumerate(sorted(set(folded)))}
    return np.array([places[name] if name else np.nan for name in folded], dtype=np.float64)


def _ordered(keys: Floats, *, descending: bool) -> Indices:
    """Rows in the order of their keys, unknown ones last."""
    signed = np.where(np.isfinite(keys), -keys if descending else keys, np.inf)
    return np.lexsort((np.arange(len(keys)), signed)).astype(np.intp)


def _prices(question: Question, lang: Lang, catalog: Catalog) -> CatalogPage:
    wanted: dict[str, Any] = {"cloud": question.cloud, "gpu": question.gpu, "region": question.region, "purchase": question.purchase}
    found = lookup.prices(question.query, **wanted, catalog=catalog)
    rows, sort = np.arange(len(found.offers), dtype=np.intp), question.sort or "price"
    last = question.first + question.count
    keys = _price_keys(found.offers, lang, sort)
    if keys is None:
        rows = first_offers(found.offers, rows, sort=sort, limit=last, descending=question.descending)[question.first :]
    else:
        rows = _ordered(keys, descending=question.descending)[question.first : last]
    shown = found.offers.take(rows)
    records = [_price_record(shown, at, lang) for at in range(len(shown))]
    has_cards = any(record["num_accelerators"] for record in records)
    each = ["price_per_gpu"] if has_cards else []
    each += ["price_per_vcpu"] if not all(record["num_accelerators"] for record in records) else []
    cards = (Column("num_accelerators", _known(q.plain), right=True), Column("accelerator_name")) if has_cards else ()
    columns = (
        Column("instance_type"),
        Column("price_usd_per_h", units.format_usd, right=True),
        *(Column(name, _known(units.format_usd), right=True) for name in each),
        Column("as_of"),
        Column("provider"),
        Column("region"),
        Column("purchase"),
        *cards,
        Column("remark"),
    )
    return CatalogPage(Table(columns, records), found.total)


def _price_keys(offers: OfferTable, lang: Lang, sort: str) -> Floats | None:
    """What prices are ordered by, where the catalog has no such order itself."""
    servers = offers.servers
    if sort in ("cloud", "card"):
        return _alphabetical(servers.provider if sort == "cloud" else servers.accelerator_name)[offers.server_index]
    if sort == "region":
        return _alphabetical([q.region_text(name, lang) for name in offers.regions])[offers.region_index]
    if sort == "purchase":
        return offers.purchase_index.astype(np.float64)
    return _known_figures(servers.num_accelerators)[offers.server_index] if sort == "gpus" else None


def _price_record(offers: Any, index: int, lang: Lang) -> dict[str, Any]:
    record, server = offers.row(index), int(offers.server_index[index])
    gpus, vcpus = float(offers.servers.num_accelerators[server]), float(offers.servers.vcpus[server])
    return {
        **record,
        "server": f"{record['provider']}/{record['instance_type']}",
        "price_per_gpu": record["price_usd_per_h"] / gpus if gpus else None,
        "price_per_vcpu": record["price_usd_per_h"] / vcpus if vcpus else None,
        "provider": q.provider_text(record["provider"], lang),
        "region": q.region_text(record["region"], lang),
        "purchase": q.purchase_text(record["purchase"], lang),
        "num_accelerators": gpus,
        "accelerator_name": offers.servers.accelerator_name[server],
        "remark": price_remark(record, lang),
    }


def _accelerators(question: Question, lang: Lang, catalog: Catalog) -> CatalogPage:
    records = _sorted([dataclasses.asdict(record) for record in lookup.accelerators(question.query)], "accelerators", question)
    columns = (
        Column("name"),
        Column("vendor"),
        Column("architecture"),
        Column("memory_bytes", _known(q.memory_text), right=True),
        Column("memory_bandwidth", _scaled(1e9), right=True),
        Column("fp16_flops", _scaled(1e12), right=True),
        Column("bf16_flops", _scaled(1e12), right=True),
        Column("fp8_flops", _scaled(1e12), right=True),
        Column("nvlink_bandwidth", _scaled(1e9), right=True),
        Column("tdp_w", _known(q.plain), right=True),
        Column("release_year", _known(str), right=True),
    )
    return CatalogPage(Table(columns, records[question.first : question.first + question.count]), len(records))


def _models(question: Question, lang: Lang, catalog: Catalog) -> CatalogPage:
    found = [lookup.model_record(record) for record in lookup.models(question.query)]
    records = _sorted(found, "models", question)[question.first : question.first + question.count]
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


def _sorted(records: list[dict[str, Any]], kind: str, question: Question) -> list[dict[str, Any]]:
    """Records in the order asked for, names ignoring case; unknown figures last,
    whatever the direction."""
    columns = {order: column for column, order in COLUMN_SORTS[kind].items()}
    sort = question.sort or "name"
    if sort not in columns:
        raise UnknownNameError("sort order", sort, allowed=Message("names.allowed_words", names=", ".join(columns)), field="sort")
    column = columns[sort]
    known = [record for record in records if record.get(column)]
    known.sort(key=lambda record: record[column].casefold() if isinstance(record[column], str) else record[column])
    return [*(known[::-1] if question.descending else known), *(record for record in records if not record.get(column))]


_PAGES: Mapping[str, Callable[[Question, Lang, Catalog], CatalogPage]] = {
    "servers": _servers,
    "prices": _prices,
    "accelerators": _accelerators,
    "models": _models,
}
