"""Weights of fewer bits, where the user left the format open: what they would save."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rightfit.families.serving.explore import explore
from rightfit.search.answer import Option, Reason
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.stacks import format_rows

if TYPE_CHECKING:
    from rightfit.catalog import Catalog

SAVING_WORTH_SAYING = 0.1


def freed_formats(exploration: ServingExploration, options: tuple[Option, ...], catalog: Catalog) -> ServingExploration | None:
    """The same search with any weight format, where the user left the weights open."""
    workload = exploration.wish.workload
    if not options or exploration.wish.is_batch or workload.quantization or workload.precision:
        return None
    return explore(workload.with_changes(quantization="any"), catalog)


def quantisation_advice(freed: ServingExploration, options: tuple[Option, ...]) -> tuple[Reason, ...]:
    """What the cheapest server with fewer bits would cost, where it saves a tenth or more."""
    total = np.where(freed.bits == 0, freed.bill.total_usd, np.inf)
    offer, column = (int(at) for at in np.unravel_index(int(np.argmin(total)), total.shape))
    best = options[0].cost.total_usd
    stack = freed.space.stack[freed.candidate(offer, column)]
    if not total[offer, column] <= best * (1.0 - SAVING_WORTH_SAYING) or stack.format not in format_rows():
        return ()
    row, where = format_rows()[stack.format], freed.market.offers.row(offer)
    params = {
        "format": stack.format,
        "option": row["words"].split("|")[0],
        "monthly_usd": float(total[offer, column]),
        "saving_usd": best - float(total[offer, column]),
        "quality": row["quality"],
        "evidence": row["evidence"],
        "source": row["source"],
        "provider": where["provider"],
        "instance_type": where["instance_type"],
        "nodes": int(freed.sizing.servers[freed.fleet.machine_index[freed.market.offers.server_index[offer]], column]),
    }
    return (Reason("serve_quantise", params),)
