"""From a workload to numbers where one pass answers a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.facts.classical import classical_model
from rightfit.families.passes.classical import read_classical_service
from rightfit.families.passes.forward import read_forward_wish
from rightfit.search.service.load import refuse_law
from rightfit.search.service.wish import ServingWish, start_notes

if TYPE_CHECKING:
    from rightfit.workload import Workload


def read_pass_wish(workload: Workload) -> ServingWish:
    """The workload as numbers; raises what the user must know."""
    notes = start_notes(workload)
    if workload.task == "serve" and workload.model and classical_model(workload.model) is not None:
        return read_classical_service(workload, notes)
    model = facts.model(workload.model)
    refuse_law(workload)
    return read_forward_wish(workload, model, notes)
