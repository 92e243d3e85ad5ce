"""Limits that are not a price: quotas of the account, and where data may be kept."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rightfit import facts
from rightfit.catalog import names
from rightfit.catalog.quotas import Quota, read_quota, worst_excess
from rightfit.catalog.sellers import believable
from rightfit.errors import UnknownNameError
from rightfit.messages import Message
from rightfit.physics.columns import Array
from rightfit.search.criteria import Judged
from rightfit.workload.vocabulary import COUNTRIES, fold, nearest_words

if TYPE_CHECKING:
    from rightfit.catalog import Catalog, OfferTable
    from rightfit.workload import Workload


class Limited(Protocol):
    """What of the user's filters bounds amounts."""

    @property
    def quotas(self) -> tuple[Quota, ...]: ...
    @property
    def max_nodes(self) -> int | None: ...
    @property
    def deadline_s(self) -> float | None: ...
    @property
    def any_software(self) -> bool: ...


def read_quotas(workload: Workload, catalog: Catalog) -> tuple[Quota, ...]:
    """Quotas of the price book, and those of the workload."""
    book: tuple[Quota, ...] = getattr(catalog, "quotas", ())
    types = catalog.servers().instance_type if workload.quota else ()
    return (*book, *(read_quota(text, catalog.regions(), types=types, countries=COUNTRIES) for text in workload.quota))


def add_quota(filters: Limited, offers: OfferTable, num_servers: Array, judged: Judged) -> None:
    """Put the criteria "quota" and "stock" beside the others: what the tightest limit allows, and what each row would take of it."""
    if filters.quotas:
        limit, taken, over = worst_excess(filters.quotas, offers, num_servers)
        judged.put("quota", over, needed=limit, had=taken)
    _add_stock(filters, offers, num_servers, judged)


def _add_stock(filters: Limited, offers: OfferTable, num_servers: Array, judged: Judged) -> None:
    """What a seller can be believed to rent out at once. A quota that speaks about an offer, and a number of servers that the user allows, are
    known better: there nothing is guessed. Nor of one server: whether one is in stock is no question of the amount. A deadline within the time that a
    reservation takes leaves what is found free on the day."""
    if filters.max_nodes is not None or filters.any_software:
        return
    lead_s = facts.coefficients("planning")["reservation_lead_s"]
    most, each = believable(offers, at_notice=filters.deadline_s is not None and filters.deadline_s <= lead_s)
    for quota in filters.quotas:
        most = np.where(quota.applies(offers), np.inf, most)
    count = np.where(np.isfinite(num_servers), num_servers, 0.0)
    taken = each[:, None] * count
    judged.put("stock", (taken > most[:, None]) & (count > 1), needed=most[:, None], had=taken)


def add_most_nodes(filters: Limited, num_servers: Array, judged: Judged) -> None:
    """Put the criterion "max_nodes" beside the others; rows that no number of servers is enough for do not fail it."""
    if filters.max_nodes is not None:
        over = np.isfinite(num_servers) & (num_servers > filters.max_nodes)
        judged.put("max_nodes", over, needed=np.full((1, 1), float(filters.max_nodes)), had=num_servers)


def add_host_cpus(offers: OfferTable, least: Array, judged: Judged) -> None:
    """Put the criterion "host_cpus" beside the others. `least` (servers,): hardware threads that the processes of the job need; what a
    provider does not say passes."""
    needed, had = (values[offers.server_index][:, None] for values in (least, offers.servers.vcpus))
    judged.put("host_cpus", had < needed, needed=needed, had=had)


@functools.cache
def jurisdictions() -> Mapping[str, dict[str, str]]:
    """Areas of law by every name that they go by."""
    rows = facts.table("jurisdictions")
    return {fold(name): row for row in rows for name in (row["code"], row["en"], row["zh"], *row["aliases"].split(";")) if name}


def residency_countries(areas: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
    """Countries in which data may be kept: areas of law ("eu", "gdpr", "cn-mainland"), continents or countries."""
    found: dict[str, None] = {}
    for name in areas:
        row = jurisdictions().get(fold(name))
        found.update(dict.fromkeys(row["countries"].split(";") if row else _countries(name, catalog)))
    return tuple(found)


def _countries(name: str, catalog: Catalog) -> tuple[str, ...]:
    try:
        return names.resolve_countries(COUNTRIES.get(fold(name), name), catalog.regions())
    except UnknownNameError:
        known = tuple(dict.fromkeys(row["code"] for row in jurisdictions().values()))
        raise UnknownNameError(
            "residency",
            name,
            nearest=nearest_words(fold(name), known),
            allowed=Message("names.part_residencies", names=", ".join(known)),
            field="residency",
        ) from None
