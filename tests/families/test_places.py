"""Every offer that any family ranks is one that can be started: it has a price and a place,
whatever kind of work asks."""

from __future__ import annotations

import numpy as np
import pytest
from test_options import KINDS

from rightfit.families.registry import settled
from rightfit.planner.plan import default_catalog
from rightfit.search.offers import NO_PLACE
from rightfit.workload import Workload


@pytest.mark.parametrize("kind", KINDS)
def test_no_family_ranks_an_offer_without_a_place(kind: str) -> None:
    wish = {name: value for name, value in KINDS[kind].items() if name not in ("cloud", "gpu", "purchase")}
    family, workload = settled(Workload(**wish))
    offers = family.explore(workload, default_catalog()).market.offers
    places = {offers.regions[at] for at in np.unique(offers.region_index)}
    assert not places & set(NO_PLACE)
    assert np.isfinite(offers.price_usd_per_h).all()
