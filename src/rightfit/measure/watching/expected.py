"""What a plan says of a run that is followed: figures with their intervals, how much work, what an hour costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rightfit.errors import FileInputError
from rightfit.estimate.figures import Figure
from rightfit.measure.readers.item import number
from rightfit.messages import Message, at_place
from rightfit.records import dataclass

_BOUNDS = ("mid", "low80", "high80", "low95", "high95")


@dataclass(frozen=True, slots=True)
class Expected:
    """`figures` by the names of an option's estimate, in base units; `steps` of the whole run; `startup_s` before the first; `usd_per_h` of all servers;
    `capacity_bytes` of one card and `host_bytes` of one server."""

    server: str = ""
    is_service: bool = False
    figures: Mapping[str, Figure] = dataclasses.field(default_factory=dict)
    steps: float | None = None
    startup_s: float = 0.0
    usd_per_h: float | None = None
    total_usd: Figure | None = None
    capacity_bytes: float | None = None
    host_bytes: float | None = None

    def figure(self, name: str) -> Figure | None:
        """A figure of the plan; None where it has none."""
        return self.figures.get(name)


def expected_of(document: Mapping[str, Any], rank: int) -> Expected:
    """What option `rank` of a plan's document says. Raises FileInputError where there is none."""
    options = [found for found in document.get("options") or [] if isinstance(found, Mapping)]
    chosen = next((found for found in options if found.get("rank") == rank), None)
    if chosen is None:
        ranks = ", ".join(str(found.get("rank")) for found in options) or Message("measure.part_none")
        raise FileInputError(at_place("--option", Message("measure.plan_lacks_option", number=rank, why=ranks)), field="option")
    said, cost = chosen.get("facts") or {}, chosen.get("cost") or {}
    figures = {name: figure for name, text in (chosen.get("estimate") or {}).items() if (figure := _figure(text)) is not None}
    return Expected(
        server=f"{chosen.get('nodes', 1)} x {chosen.get('provider', '')}/{chosen.get('instance_type', '')}",
        is_service=document.get("workload", {}).get("task") == "serve",
        figures=figures,
        steps=number(said.get("steps")),
        startup_s=number(said.get("startup_s")) or 0.0,
        usd_per_h=number(cost.get("hourly_usd")),
        total_usd=_figure(cost.get("total")),
        capacity_bytes=number(said.get("capacity_bytes")) or number((chosen.get("accelerator") or {}).get("memory_bytes")) or None,
        host_bytes=number(chosen.get("memory_bytes")),
    )


def _figure(text: Any) -> Figure | None:
    values = [number(text.get(name)) for name in _BOUNDS] if isinstance(text, Mapping) else []
    known = [value for value in values if value is not None]
    if len(known) != len(_BOUNDS):
        return None
    mid, low80, high80, low95, high95 = known
    return Figure(mid, low80, high80, low95, high95, str(text.get("source") or "formula"))
