"""Wishes that mean mainland China: yuan, or a cloud of there. Its regions come first, and what has no public price is said by name. Other
wishes that name no place go there last: renting there takes a registered account, and serving from there a licence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.catalog import names
from rightfit.catalog.offers import NO_PRICE
from rightfit.search.answer import Reason

if TYPE_CHECKING:
    from rightfit.catalog import OfferTable
    from rightfit.search.found import Found

MAINLAND, YUAN = "CN", "cny"
MOST_NAMES = 3


def means_mainland(exploration: Found) -> bool:
    """Whether the wish is in yuan or names a cloud of mainland China, and says nothing of a place."""
    wanted = exploration.wanted
    if wanted.regions or wanted.countries or exploration.workload.country or exploration.workload.region:
        return False
    return exploration.workload.currency == YUAN or bool(set(wanted.clouds) & set(names.names_data()["mainland"]["clouds"]))


def _is_named(exploration: Found) -> bool:
    """Whether the wish names mainland China as its place."""
    wanted = exploration.wanted
    return MAINLAND in {*(wanted.countries or ()), *(exploration.workload.country or ())}


def elsewhere(exploration: Found) -> NDArray[np.bool_]:
    """Offers (O,) on the wrong side of the border of mainland China: outside where the wish means it, inside where it does not and names no
    place. None are where a place is named; servers of one's own are at home."""
    offers, wanted = exploration.market.offers, exploration.wanted
    home = np.array([country == MAINLAND for country in offers.region_countries], dtype=np.bool_)[offers.region_index]
    if means_mainland(exploration):
        return ~home & ~_own(offers)
    return home & (not (wanted.regions or wanted.countries or wanted.clouds or wanted.sellers.named))


def _own(offers: OfferTable) -> NDArray[np.bool_]:
    extra = names.names_data()["extra_providers"]
    return np.array([name in extra for name in offers.servers.provider], dtype=np.bool_)[offers.server_index]


def unpriced(exploration: Found) -> tuple[Reason, ...]:
    """The accelerators of the wish, or of the clouds that it means, that are on offer and have no public price: ask, and put the quote into a
    price book."""
    wanted, servers = exploration.wanted, exploration.market.offers.servers
    clouds = set(wanted.clouds)
    if means_mainland(exploration) or _is_named(exploration):
        clouds |= set(names.names_data()["mainland"]["clouds"]) if not clouds else set()
    if not (wanted.gpus or clouds):
        return ()
    found: dict[str, tuple[float, str, str]] = {}
    for row, reason in enumerate(servers.not_recommended):
        card, provider = servers.accelerator_name[row], servers.provider[row]
        if reason == NO_PRICE and card and (not wanted.gpus or card in wanted.gpus) and (not clouds or provider in clouds):
            memory = float(servers.accelerator_memory_bytes[row] * servers.num_accelerators[row])
            found[card] = max(found.get(card, (0.0, "", "")), (memory, provider, servers.instance_type[row]), key=lambda one: one[0])
    priced = _priced(exploration, clouds)
    return tuple(_said({card: one for card, one in found.items() if card not in priced}))


def _priced(exploration: Found, clouds: set[str]) -> set[str]:
    """Accelerators that have a price at one of the clouds."""
    offers, servers = exploration.market.offers, exploration.market.offers.servers
    rows = np.unique(offers.server_index).tolist()
    return {servers.accelerator_name[row] for row in rows if not clouds or servers.provider[row] in clouds}


def _said(found: Mapping[str, tuple[float, str, str]]) -> Iterable[Reason]:
    """The servers with most memory on their cards first: they hold what the others do not."""
    for card, (_, provider, instance_type) in sorted(found.items(), key=lambda one: -one[1][0])[:MOST_NAMES]:
        names_it = {"provider": provider, "instance_type": instance_type, "server": f"{provider}/{instance_type}"}
        yield Reason("unpriced", {"accelerator": card, **names_it})
