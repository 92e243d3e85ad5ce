"""Which servers a program can rent: a seller that none of the launchers knows must be rented by hand, in its console.

data/launchers.csv has one row for each seller that an export target of the group `launch` rents at by itself, with what that target can do
there; a test holds the rows to the targets. cloud-init is no launcher: it is what a server that was rented by hand is told.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping

import numpy as np

from rightfit.catalog import names
from rightfit.catalog.offers import PURCHASES, Flags, OfferTable, provider_codes
from rightfit.catalog.package_data import data_bytes

_OWNED, _SPOT, _SUBSCRIPTION = "owned", "spot", "subscription"


@functools.cache
def launchers() -> Mapping[str, Mapping[str, str]]:
    """The row of each seller that a launcher rents at."""
    return {row["seller"]: row for row in csv.DictReader(data_bytes("launchers.csv").decode().splitlines())}


def starts(provider: str, purchase: str = "") -> bool:
    """Whether a launcher rents servers of a seller this way. Servers of one's own are there."""
    if purchase == _OWNED or provider in names.names_data()["extra_providers"]:
        return True
    row = launchers().get(provider)
    if row is None:
        return False
    kind = next((kind for kind in (_SPOT, _SUBSCRIPTION) if purchase.startswith(kind)), "")
    return not kind or row[kind] == "1"


def by_hand(offers: OfferTable) -> Flags:
    """Offers (O,) that no launcher rents."""
    providers, row = provider_codes(offers.servers)
    table = np.array([[not starts(name, way) for way in PURCHASES] for name in providers], dtype=np.bool_)
    return np.asarray(table.reshape(-1, len(PURCHASES))[row[offers.server_index], offers.purchase_index])
