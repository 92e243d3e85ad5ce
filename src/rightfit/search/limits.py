"""Limits that are not a price: quotas of the account, and where data may be kept."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.catalog import names
from rightfit.catalog.quotas import Quota, read_quota, worst_excess
from rightfit.errors import UnknownNameError
from rightfit.physics.columns import Array
from rightfit.workload.vocabulary import COUNTRIES, fold, nearest_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rightfit.catalog import Catalog, OfferTable
    from rightfit.workload import Workload


def read_quotas(workload: Workload, catalog: Catalog) -> tuple[Quota, ...]:
    """Quotas of the price book, and those of the workload."""
    book: tuple[Quota, ...] = getattr(catalog, "quotas", ())
    types = catalog.servers().instance_type if workload.quota else ()
    return (*book, *(read_quota(text, catalog.regions(), types=types, countries=COUNTRIES) for text in workload.quota))


def add_quota(
    quotas: tuple[Quota, ...],
    offers: OfferTable,
    num_servers: Array,
    *,
    fails: dict[str, NDArray[np.bool_]],
    needed: dict[str, Array],
    had: dict[str, Array],
) -> None:
    """Put the criterion "quota" beside the others: what the tightest limit allows, and what each row would take of it."""
    if quotas:
        limit, taken, over = worst_excess(quotas, offers, num_servers)
        fails["quota"], needed["quota"], had["quota"] = over, limit, taken


@functools.cache
def jurisdictions() -> Mapping[str, dict[str, str]]:
    """Areas of law by every name that they go by."""
    rows = facts.table("jurisdictions")
    return {fold(name): row for row in rows for name in (row["code"], row["en"], row["zh"], *row["aliases"].split(";")) if name}


def residency_countries(wanted: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
    """Countries in which data may be kept: areas of law ("eu", "gdpr", "cn-mainland"), continents or countries."""
    found: dict[str, None] = {}
    for name in wanted:
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
            allowed=f"allowed: {', '.join(known)}, or countries",
            field="residency",
        ) from None
