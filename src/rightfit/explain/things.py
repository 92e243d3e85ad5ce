"""One server or one card as a sheet: what it is, what to know of it, and what it costs
where. Faces draw it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts, lookup, units
from rightfit.explain import quantities as q
from rightfit.explain.cards import Fact
from rightfit.explain.catalog_tables import Question, catalog_page, joined_text
from rightfit.explain.listings import region_prices
from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table
from rightfit.market import OfferFilter, offers
from rightfit.market.offers import PURCHASES
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.search.servers import find_server

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog

_MOST_WAYS, _MOST_SERVERS = 5, 25


@dataclass(frozen=True, slots=True)
class Thing:
    """A server or a card: `lead` says what it is, `remarks` what it is good for and what to
    mind; `card` and `num_cards` (0: none, a fraction: a slice) what models must fit; `servers`
    only of a card."""

    name: str
    lead: str
    facts: tuple[Fact, ...]
    remarks: tuple[str, ...]
    prices: Table
    servers: Table
    card: str
    num_cards: float
    source: str


def server_thing(name: str, lang: Lang, *, catalog: Catalog) -> Thing:
    """A server given as PROVIDER/INSTANCE. Raises UnknownNameError, AmbiguousNameError."""
    at = find_server(catalog, name)
    row = catalog.servers().take(np.array([at], dtype=np.intp)).row(0)
    provider, kind = row["provider"], row["instance_type"]
    cards, memory = row["num_accelerators"], q.memory_text(row["memory_bytes"])
    hardware = label("thing", "cards", lang, count=f"{cards:g}", card=row["accelerator_name"]) if cards else label("thing", "no_card", lang)
    cloud = q.provider_text(provider, lang)
    return Thing(
        name=f"{provider}/{kind}",
        lead=label("thing", "server", lang, cloud=cloud, hardware=hardware, vcpus=q.plain(row["vcpus"]), memory=memory),
        facts=_facts(row, _SERVER_FACTS, lang),
        remarks=_server_remarks(row, lang),
        prices=region_prices(provider, kind, lang, catalog=catalog),
        servers=Table((), []),
        card=row["accelerator_name"],
        num_cards=cards,
        source=row["source"],
    )


def card_thing(name: str, lang: Lang, *, catalog: Catalog) -> Thing:
    """A card by exact or loose name, the most usual where several are called so.
    Raises UnknownNameError."""
    facts.named_accelerators(name, field="gpu")
    card = facts.accelerator(name, typical=True)
    memory, bandwidth = q.memory_text(card.memory_bytes), _GB_PER_S(card.memory_bandwidth)
    return Thing(
        name=card.name,
        lead=label("thing", "card", lang, vendor=card.vendor, kind=card.architecture, memory=memory, bandwidth=bandwidth),
        facts=_facts({**dataclasses.asdict(card), "card_memory": card.memory_bytes}, _CARD_FACTS, lang),
        remarks=_card_remarks(card, lang),
        prices=_card_prices(card.name, lang, catalog),
        servers=_card_servers(card.name, lang, catalog),
        card=card.name,
        num_cards=1.0,
        source=card.source,
    )


# ---- figures


def _rate(unit: float, name: str) -> Callable[[Any], str]:
    return lambda value: f"{q.plain(value / unit)} {name}"


_GB_PER_S = _rate(units.GB, "GB/s")


_SERVER_FACTS: dict[str, Callable[[Any], str]] = {
    "num_accelerators": q.plain,
    "accelerator_name": str,
    "accelerator_memory_bytes": q.memory_text,
    "gpu_interconnect": joined_text,
    "vcpus": q.plain,
    "cpu_model": str,
    "arch": str,
    "memory_bytes": q.memory_text,
    "local_nvme_bytes": q.data_text,
    "network_bytes_per_s": _rate(units.GBPS, "Gbit/s"),
    "rdma": joined_text,
}
_CARD_FACTS: dict[str, Callable[[Any], str]] = {
    "card_memory": q.memory_text,
    "memory_bandwidth": _GB_PER_S,
    "bf16_flops": _rate(1e12, "TFLOP/s"),
    "fp16_flops": _rate(1e12, "TFLOP/s"),
    "fp8_flops": _rate(1e12, "TFLOP/s"),
    "fp4_flops": _rate(1e12, "TFLOP/s"),
    "int8_ops": _rate(1e12, "TOP/s"),
    "nvlink_bandwidth": _GB_PER_S,
    "tdp_w": _rate(1.0, "W"),
    "release_year": str,
    "compute_capability": str,
}


def _facts(row: dict[str, Any], shown: dict[str, Callable[[Any], str]], lang: Lang) -> tuple[Fact, ...]:
    """What is known, in order; unknown and absent figures are left out."""
    known = {name: row[name] for name in shown if row[name] not in (None, "", "none", 0) and row[name] == row[name]}
    return tuple(Fact(name, label("thing_fact", name, lang), shown[name](value)) for name, value in known.items())


# ---- what to know


def _server_remarks(row: dict[str, Any], lang: Lang) -> tuple[str, ...]:
    """When it ends, why it is never recommended, and how its cards are joined."""
    found = [label("thing", event.kind, lang, date=event.date) for event in offers.events_of(row["provider"], row["instance_type"])]
    if row["not_recommended"]:
        found.append(label("thing", "not_recommended", lang, reason=row["not_recommended"]))
    if row["num_accelerators"] > 1:
        link = row["gpu_interconnect"]
        found.append(
            label(
                "thing",
                "link_unknown" if not link else "link_pcie" if link in ("none", "pcie") else "link_own",
                lang,
                link=joined_text(link),
            )
        )
    if 0 < row["num_accelerators"] < 1:
        found.append(label("thing", "slice", lang))
    if row["rdma"] not in ("", "none"):
        found.append(label("thing", "rdma", lang, kind=joined_text(row["rdma"])))
    return tuple(found)


def _card_remarks(card: Accelerator, lang: Lang) -> tuple[str, ...]:
    """What its hardware allows."""
    found = ["bf16" if card.supports_bf16 else "no_bf16"]
    found += ["fp8"] if card.fp8_flops > 0 else []
    found += ["own_links" if card.nvlink_bandwidth > 0 else "no_links"]
    found += ["same_as"] if card.equivalent_to else []
    bandwidth = _GB_PER_S(card.nvlink_bandwidth)
    return tuple(label("thing", name, lang, bandwidth=bandwidth, other=card.equivalent_to) for name in found)


# ---- markets of a card


def _card_prices(card: str, lang: Lang, catalog: Catalog) -> Table:
    """The cheapest price of one card for an hour by cloud, the commonest ways to pay as columns;
    where that is, and of which day."""
    offers = catalog.offers(OfferFilter(gpus=(card,), has_accelerator=True))
    count = offers.servers.num_accelerators[offers.server_index]
    each = offers.price_usd_per_h / np.where(count > 0, count, np.nan)
    records: dict[str, dict[str, Any]] = {}
    for at in np.argsort(each, kind="stable")[: int(np.isfinite(each).sum())].tolist():
        found = offers.row(at)
        cloud = records.setdefault(
            found["provider"],
            {
                "provider": q.provider_text(found["provider"], lang),
                "server": f"{found['provider']}/{found['instance_type']}",
                "cheapest_server": found["instance_type"],
                "region": q.region_text(found["region"], lang),
                "as_of": found["as_of"],
            },
        )
        cloud.setdefault(found["purchase"].replace("-", "_"), float(each[at]))
    modes = [mode.replace("-", "_") for mode in PURCHASES]
    ways = [mode for mode in modes if any(mode in record for record in records.values())]
    ways = sorted(ways, key=lambda mode: (-sum(mode in record for record in records.values()), modes.index(mode)))[:_MOST_WAYS]
    money = tuple(Column(mode, lambda value: "" if value is None else units.format_usd(value), right=True) for mode in ways)
    columns = (Column("provider"), *money, Column("cheapest_server"), Column("region"), Column("as_of", right=True))
    return Table(columns, list(records.values()), title=label("thing", "prices_card", lang))


def _card_servers(card: str, lang: Lang, catalog: Catalog) -> Table:
    """Servers with the card, the cheapest on demand first."""
    page = catalog_page("servers", Question(gpu=card, sort="price", count=_MOST_SERVERS), lang, catalog=catalog)
    columns = tuple(column for column in page.table.columns if column.key not in ("accelerator_name", "accelerator_memory_bytes"))
    return Table(columns, page.table.records, title=label("thing", "servers", lang, count=page.total))


def known_cards() -> tuple[str, ...]:
    """Every card by name, for a list to choose from."""
    return tuple(sorted((record.name for record in lookup.accelerators("")), key=str.casefold))
