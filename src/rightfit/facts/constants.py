"""Figures that composition takes as given, each with unit and source: facts/data/constants/<room>.csv, one figure a line.

A figure that nobody measured and no publication states says so: its source begins with "judgement, rightfit" and tells the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from rightfit.errors import InputError
from rightfit.facts.tables import table
from rightfit.messages import Message


@functools.cache
def constants(room: str) -> Mapping[str, float]:
    """Every figure of a room by name. A figure without unit or source is refused."""
    rows = table(f"constants/{room}")
    for row in rows:
        if not (row["unit"].strip() and row["source"].strip()):
            raise InputError(Message("facts.constant_bare", room=room, constant=row["name"]))
    return MappingProxyType({row["name"]: float(row["value"]) for row in rows})


@functools.cache
def constant_group(room: str, group: str) -> Mapping[str, float]:
    """The figures of a room whose names begin with the group's, by the rest of the name ("usual_batch.speech")."""
    start = f"{group}."
    return MappingProxyType({name.removeprefix(start): value for name, value in constants(room).items() if name.startswith(start)})
