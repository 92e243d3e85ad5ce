"""What an option counts as in the order of a plan, worked out anew from its figures."""

from __future__ import annotations

import math

from rightfit import facts
from rightfit.market.packed_tables import rules
from rightfit.search.answer import Option


def counted_usd(option: Option, *, deadline_s: float | None = None) -> float:
    """Several servers, offloading and unusual regions dearer than they are, of a deadline what
    takes longer than anybody waits for too; estimates last."""
    usual = facts.coefficients("planning")
    several = usual["one_server_worth"] if option.nodes > 1 else 1.0
    held = usual["last_resort_worth"] if option.layout.offload != "none" else 1.0
    regions = rules()["usual_regions"].get(option.provider, [option.region])
    is_far = option.region not in regions
    slow = 1.0
    if deadline_s is not None:
        patience_s = max(usual["patience_s"], usual["patience_share"] * deadline_s)
        slow += usual["equal_share"] * math.log2(max(option.estimate["total_time_s"].mid / patience_s, 1.0))
    usd = option.cost.total_usd
    usd = max(usd / (1.0 - usual["place_saves"]), usd + usual["odd_saves_usd"]) if is_far else usd
    return float("inf") if option.facts["is_estimate"] else usd * several * held * slow
