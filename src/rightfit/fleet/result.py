"""The plan of a fleet as the library hands it out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.catalog.quotas import Quota
from rightfit.fleet.building import Built
from rightfit.fleet.reading import Fleet
from rightfit.fleet.solver import Solved
from rightfit.fleet.ways import Ways
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class FleetPlan:
    """A plan for a fleet: what was asked, the numbers, what the optimiser says, the ways of each workload, and the document of it all."""

    fleet: Fleet
    built: Built
    solved: Solved
    ways: Mapping[str, Ways]
    quotas: Sequence[Quota] = ()
    reasons: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    last: Mapping[str, Any] | None = None
    own_runs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    shared: Sequence[Mapping[str, Any]] = ()
    document: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The document: placements, purchases, calendar, cost, bound, gap, reasons."""
        return dict(self.document)

    def to_json(self) -> str:
        """The document as JSON."""
        return json.dumps(self.document, ensure_ascii=False, indent=2)
