"""What the files of a fleet are made of: placements as options, grouped by place and by pool, names that files may have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.export.document import AcceleratorPart, CostPart, LayoutPart, OptionPart
from rightfit.export.quoting import comment
from rightfit.export.targets.dstack import PSEUDO_REGIONS

Files = Mapping[str, str]
Row = Mapping[str, Any]


def option_of(row: Row) -> OptionPart:
    """A placement in the form that names of servers are found by."""
    cards = int(row["accelerators_per_server"]) if row["accelerator"] else 0
    return OptionPart(
        rank=1,
        **{key: row[key] for key in ("provider", "region", "instance_type", "purchase")},
        nodes=max(int(row["servers"]), 1),
        accelerator=AcceleratorPart(name=row["accelerator"], count_per_node=cards, memory_bytes=0),
        layout=LayoutPart.model_validate({}),
        estimate={},
        cost=CostPart.model_validate({"hourly_usd": 0}),
    )


def slug(name: str) -> str:
    """A name that files and resources may have."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")[:40] or "job"


def in_place(region: str) -> bool:
    """Whether a region is a place, and no name for all of them."""
    return region not in PSEUDO_REGIONS


def by_place(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """Placements by job, server, place and way to pay."""
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["name"], row["provider"], row["instance_type"], row["region"], row["purchase"], row["servers"]), []).append(
            row
        )
    return grouped


def pools_of(found: Row) -> dict[tuple[str, str, str, bool], list[Row]]:
    """What is rented, by type, region and whether it may be taken away; what is owned is no one's to rent."""
    pools: dict[tuple[str, str, str, bool], list[Row]] = {}
    for row in found["placements"]:
        for purchase in {part["purchase"] for part in row.get("parts", ())} or {row["purchase"]}:
            if purchase not in (
                "owned",
                "part",
            ):  # what is owned is no one's to rent; parts of cards lie on servers that have lines of their own
                pools.setdefault((row["provider"], row["instance_type"], row["region"], purchase == "spot"), []).append(row)
    return pools


def most_at_once(rows: Sequence[Row]) -> int:
    """The most servers that some placements have at the same time."""
    events = sorted(
        [(row["start_h"], row["servers"] * row["count"]) for row in rows] + [(row["end_h"], -row["servers"] * row["count"]) for row in rows]
    )
    now, most = 0, 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def run_sh(name: str) -> str:
    """The script of a job, whose command is the user's."""
    return (
        f"#!/usr/bin/env bash\n# The command of {comment(name)}. rightfit plan --file workload.yaml --format json > plan.json; rightfit export plan.json --to torchrun\n"
        'set -euo pipefail\n: "${COMMAND:?say what to run: put the command here, or sky jobs launch --env COMMAND=...}"\nexec bash -c "$COMMAND"\n'
    )
