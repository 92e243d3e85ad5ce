"""Exchange rates, dated and with source, from data/currencies.csv."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from rightfit.facts.tables import table
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class ExchangeRate:
    """How many units of `currency` one US dollar buys, from when and where."""

    currency: str
    units_per_usd: float
    as_of: str
    source: str
    en: str = ""
    zh: str = ""


@functools.cache
def currencies() -> Mapping[str, ExchangeRate]:
    """All known rates by currency code, US dollars first."""
    rows = (dict(row) for row in table("currencies"))
    return MappingProxyType(
        {row["currency"]: ExchangeRate(**{**row, "units_per_usd": float(row["units_per_usd"])}) for row in rows}  # type: ignore[arg-type]
    )
