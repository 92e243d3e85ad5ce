"""One server by name: which it is, what is known about it for a workload, and its market alone."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.catalog.offers import SUPERSEDED_BY
from rightfit.errors import AmbiguousNameError, UnknownNameError
from rightfit.records import dataclass
from rightfit.search.answer import Assumption, Option, Reason, Rejection, Render, finite, render_all
from rightfit.search.offers import Market, read_market

if TYPE_CHECKING:
    from rightfit.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known about one server for a workload.

    `option`: the best setup on it, or, where none fits, the one that needs least memory (None when the accelerator cannot run the job at
    all).
    `standing`: reasons, most important first: why_best, why_ranked, why_refused, why_unpriced. `failed`: the criteria it fails, with the
    nearest miss and its least change.
    """

    workload: Any
    assumptions: tuple[Assumption, ...]
    provider: str
    instance_type: str
    fits: bool
    option: Option | None
    standing: tuple[Reason, ...]
    failed: tuple[Rejection, ...]

    def to_dict(self, render: Render | None = None) -> dict[str, Any]:
        """As JSON-ready data."""
        return dict(
            finite(
                {
                    "workload": self.workload.to_dict(),
                    "assumptions": [assumption.to_dict(render) for assumption in self.assumptions],
                    "provider": self.provider,
                    "instance_type": self.instance_type,
                    "fits": self.fits,
                    "option": self.option.to_dict(render) if self.option else None,
                    "standing": render_all(self.standing, render),
                    "failed": [rejection.to_dict(render) for rejection in self.failed],
                }
            )
        )


def find_server(catalog: Catalog, name: str) -> int:
    """Row of a server given as PROVIDER/INSTANCE or, where only one provider has it, INSTANCE; a partition stands behind its cloud."""
    from rightfit.catalog import names

    owner, _, kind = name.strip().rpartition("/")
    provider = names.resolve_provider(owner) if owner else ""
    rows = catalog.server_rows
    if (provider, kind) in rows:
        return rows[provider, kind]
    found = [row for (cloud, known), row in rows.items() if known.casefold() == kind.casefold() and (not provider or cloud == provider)]
    if len(found) > 1:
        whole = [row for (cloud, _), row in rows.items() if row in found and cloud not in names.partitions()]
        found = whole or found
    if len(found) > 1:
        raise AmbiguousNameError("server", name, [f"{cloud}/{known}" for (cloud, known), row in rows.items() if row in found], field="on")
    if not found:
        known = {f"{cloud}/{kind_}": f"{cloud}/{kind_}" for cloud, kind_ in rows if not provider or cloud == provider}
        from rightfit.facts import fuzzy

        raise UnknownNameError(
            "server", name, nearest=tuple(fuzzy.nearest(f"{provider}/{kind}" if provider else kind, known, count=3)), field="on"
        )
    return found[0]


def names_of(catalog: Catalog, server: str) -> tuple[str, str]:
    """Provider and instance type as the catalog spells them."""
    row = find_server(catalog, server)
    return next(key for key, number in catalog.server_rows.items() if number == row)


def former_name(catalog: Catalog, row: int) -> tuple[Reason, ...]:
    """What a server is called by now whose seller lists it under another name at a newer price; nothing for others."""
    servers = catalog.servers()
    reason = servers.not_recommended[row]
    if not reason.startswith(SUPERSEDED_BY):
        return ()
    return (Reason("price_superseded", {"newer": f"{servers.provider[row]}/{reason.removeprefix(SUPERSEDED_BY)}"}),)


def market_of_one(catalog: Catalog, row: int) -> tuple[Market, bool]:
    """The market of one server alone, and whether it has prices; one without gets an offer of unknown price."""
    accelerated = row < len(catalog.servers(has_accelerator=True))
    table = catalog.all_offers(has_accelerator=True if accelerated else None)
    sound = ~table.is_quarantined & np.isfinite(table.price_usd_per_h)
    rows = np.flatnonzero(sound & (table.server_index == row))
    is_priced = rows.shape[0] > 0
    market = read_market(catalog, table.take(rows if is_priced else np.zeros(1, dtype=np.intp)))
    servers = catalog.servers().take(np.array([row], dtype=np.intp))
    offers = dataclasses.replace(market.offers, servers=servers, server_index=np.zeros(len(market.offers), dtype=np.intp))
    if not is_priced:
        offers = dataclasses.replace(offers, price_usd_per_h=np.full(1, np.nan))
    return dataclasses.replace(market, offers=offers), is_priced
