"""A probed run together with what was meant to run and with the log that it wrote. What was seen goes before what was planned; what the user says before both."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightfit.measure.cards_named import card_named
from rightfit.measure.readers.item import Item
from rightfit.measure.readers.training_text import log_figures
from rightfit.measure.record import Run
from rightfit.records import dataclass

#: Columns that tell the card: a plan's are not taken over by a run on a machine that shows none, or another.
_CARD = ("gpu", "n_gpus", "device", "n_devices")


@dataclass(frozen=True, slots=True)
class Planned:
    """What was meant to run, beside what is seen: set-up in columns of `rightfit predict`, server, and the wish."""

    setup: Mapping[str, str] = dataclasses.field(default_factory=dict)
    server: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    workload: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def with_plan(run: Run, planned: Planned, given: Mapping[str, str]) -> Run:
    """The run with set-up, server and wish of its plan, as far as they are those of the machine that it ran on."""
    wanted, notes = dict(planned.setup), []
    card, seen = wanted.get("gpu", ""), {**run.setup, **given}.get("gpu", "")
    is_here = not card or card_named(card).casefold() == card_named(seen).casefold()
    if not is_here:
        wanted = {name: value for name, value in wanted.items() if name not in _CARD}
        what = f"a card {seen!r} was" if seen else "no card was"
        notes.append(
            f"the plan is for {card}, {what} seen here: server and card of the plan are not taken over, and its figures are not compared"
        )
    notes += [
        f"the plan says {name} {wanted[name]}, the run had {run.setup[name]}"
        for name in ("micro_batch", "seq_len", "grad_accum")
        if name in wanted and name in run.setup and wanted[name] != run.setup[name] and name not in given
    ]
    return run.model_copy(
        update={
            "setup": {**wanted, **run.setup, **given},
            "server": dict(planned.server) if is_here else {},
            "workload": dict(planned.workload),
            "warnings": [*run.warnings, *notes],
        }
    )


def with_log(run: Run, log: Path) -> Run:
    """The run with the figures of the log that it wrote, where the same figure was not counted inside."""
    if not log.is_file():
        return run.model_copy(update={"warnings": [*run.warnings, f"--log: no file {log}"]})
    figures, setup, tool = log_figures(Item(log, str(log)).text)
    known = {item.metric for item in run.measured}
    new = [item for item in figures if item.metric not in known]
    if not figures:
        return run.model_copy(update={"warnings": [*run.warnings, f"--log: no progress that is known in {log}"]})
    kept = [text for text in run.warnings if not text.startswith("no steps were counted")] if new else run.warnings
    definition = [item.model_copy(update={"definition": f"{item.definition} (log of {tool})"}) for item in new]
    return run.model_copy(update={"measured": [*definition, *run.measured], "setup": {**setup, **run.setup}, "warnings": list(kept)})
