"""Named checks over servers and prices. What fails an `error` check is quarantined: listed, never recommended."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.catalog.offers import Flags, ServerTable

if TYPE_CHECKING:
    from rightfit.catalog.tables import PriceColumns, RegionTable


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One row that failed one check. `price_row` or `server_row` is -1 where the finding is not about one."""

    check: str
    severity: str  # error: quarantined; warning: shown only
    provider: str
    region: str
    instance_type: str
    purchase: str
    had: str
    limit: str
    explanation: str
    price_row: int = -1
    server_row: int = -1


def run_checks(servers: ServerTable, prices: PriceColumns, *, regions: RegionTable, thresholds: Mapping[str, Any]) -> list[Finding]:
    """Every check over every row."""
    return []


def quarantined_rows(findings: Iterable[Finding], *, num_servers: int, num_prices: int) -> tuple[Flags, Flags]:
    """Masks of the servers and prices that may not be recommended."""
    bad_servers, bad_prices = np.zeros(num_servers, dtype=np.bool_), np.zeros(num_prices, dtype=np.bool_)
    for finding in findings:
        if finding.severity != "error":
            continue
        if finding.price_row >= 0:
            bad_prices[finding.price_row] = True
        elif finding.server_row >= 0:
            bad_servers[finding.server_row] = True
    return bad_servers, bad_prices
