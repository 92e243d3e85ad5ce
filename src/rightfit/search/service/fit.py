"""How surely a replica fits: engines fill a card with their cache by design, so that what must fit is the weights, what is beside them, and one request.

Weights are counted; what is beside them (workspace, context, one request) is as unsure as measured peaks are.
"""

from __future__ import annotations

import numpy as np

from rightfit.estimate.figures import Figure
from rightfit.physics.columns import Array
from rightfit.search.service.figures import doubts_of, service_figure
from rightfit.search.service.wish import ServingWish

#: Bytes of a parameter of a model of one pass by its format; two where it is not named.
WEIGHT_BYTES = {"fp32": 4.0, "int8": 1.0}


def spread_of(wish: ServingWish) -> Figure:
    """The interval of a measured peak, as factors on its middle."""
    return service_figure("peak_mem_gib", 1.0, doubts=doubts_of(wish), modality="" if wish.generates else wish.modality)


def safe_bytes(weights: Array, needed: Array, wish: ServingWish) -> Array:
    """What replicas need at most, with nine in ten: weights and what is beside them at the upper 80 % end [bytes], shapes as given."""
    held = np.minimum(weights, needed)
    return np.asarray(held + (needed - held) * spread_of(wish).high80)


def fit_figure(weights: float, needed: float, wish: ServingWish) -> Figure:
    """What one replica needs [bytes], with its interval."""
    held, spread = min(weights, needed), spread_of(wish)
    ends = {name: held + (needed - held) * getattr(spread, name) for name in ("low80", "high80", "low95", "high95")}
    return Figure(needed, **ends, source=spread.source)
