"""Servers that work as one need a link that somebody states: which offers have it, and the criterion that refuses the rest.

Within a replica, and in training over several servers, activations and gradients cross from server to server at every step. A seller that
publishes RDMA, or the bandwidth of the private network of a zone, rents servers that can stand together; several servers of one who
publishes neither may stand anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.catalog.offers import PURCHASE_CODES
from rightfit.physics.columns import Array
from rightfit.search.criteria import Judged

if TYPE_CHECKING:
    from rightfit.catalog import OfferTable

Mask = NDArray[np.bool_]

NO_RDMA = ("", "none")
#: A network of a zone whose bandwidth the seller states, without RDMA; one that the owner of the servers knows.
PRIVATE, OWNED = "private", "owned"


def fabric_of(offers: OfferTable, offer: int) -> str:
    """What joins several servers of an offer: the word of its RDMA, "private", "owned", or nothing that is known ("")."""
    servers, server = offers.servers, int(offers.server_index[offer])
    if int(offers.purchase_index[offer]) == PURCHASE_CODES["owned"]:
        return OWNED
    if servers.rdma[server] not in NO_RDMA:
        return servers.rdma[server]
    stated = servers.network_bytes_per_s[server] > 0 and not offers.is_pseudo_region[offer]
    return PRIVATE if stated else ""


def has_fabric(offers: OfferTable) -> Mask:
    """Whether several servers of each offer can work as one (O,): by RDMA, by a private network of stated bandwidth in a region that is a
    place, or because they are the user's own."""
    servers = offers.servers
    rdma = np.array([word not in NO_RDMA for word in servers.rdma], dtype=np.bool_)[offers.server_index]
    stated = (np.nan_to_num(servers.network_bytes_per_s) > 0)[offers.server_index]
    return np.asarray(rdma | (stated & ~offers.is_pseudo_region) | (offers.purchase_index == PURCHASE_CODES["owned"]))


def add_fabric(offers: OfferTable, together: Array, judged: Judged) -> None:
    """Put the criterion "fabric" beside the others. `together` broadcasts to (offers, columns): servers that exchange data as one."""
    several = together > 1
    if np.any(several):
        judged.put("fabric", several & ~has_fabric(offers)[:, None], needed=together, had=np.ones((1, 1)))
