"""Follow a process: its machine from outside, and its steps where `rightfit probe` started it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightfit.errors import AmbiguousNameError, InputError, MissingComponentError
from rightfit.measure.probing.cards import optional
from rightfit.measure.probing.counters import Machine
from rightfit.measure.probing.counts import FOLDER_PREFIX, FOLDER_VARIABLE, counted, leading
from rightfit.measure.watching.look import LastStep, Look
from rightfit.messages import Message


@dataclasses.dataclass(slots=True)
class ProcessSource:
    """A process and all that it started, by its id."""

    pid: int
    name: str
    _machine: Machine
    _last: LastStep = dataclasses.field(default_factory=LastStep)

    def look(self) -> Look:
        """The process now."""
        now = time.monotonic()
        process = _process(self.pid)
        is_alive = process is not None
        if is_alive:
            self._machine.sample()
        folder = folder_of(process) if process is not None else None
        tally = leading(counted(folder)) if folder is not None else None
        step = float(tally["steps"]) if tally else None
        known = max(time.time() - float(tally["written"]), 0.0) if tally and tally.get("written") else 0.0
        return Look(
            at_s=now,
            is_alive=is_alive,
            step=step,
            intervals=tuple(tally["intervals"]) if tally else (),
            since_step_s=self._last.since(step, now, known_s=known),
            elapsed_s=max(time.time() - process.create_time(), 0.0) if process is not None else None,
            figures={**self._machine.now, **self._processors(), **(_inside(tally) if tally else {})},
            notes=() if tally or not is_alive else ("no_count",),
        )

    def _processors(self) -> dict[str, float]:
        """Share of one core of the busiest process, since the start of looking."""
        return {"cpu_one_core_share": self._machine.busiest} if self._machine.cpu_s and self._machine.elapsed_s > 1.0 else {}


def _inside(tally: Mapping[str, Any]) -> dict[str, float]:
    """What the process itself counted."""
    found = {}
    if tally["batches"] and tally["span_s"] > 0 and tally["kind"] == "torch":
        found["data_wait_share"] = min(tally["wait_s"] / tally["span_s"], 1.0)
    held = [card.get("now", card["allocated"]) for card in tally["gpus"]]
    if held:
        found["allocated_bytes"] = float(max(held))
    if {"tensorflow", "jax"} & tally["versions"].keys():
        found["preallocates"] = 1.0
    return found


def process_source(pid: int) -> ProcessSource:
    """The source of a process id. Raises InputError where there is none, MissingComponentError without psutil."""
    if optional("psutil") is None:
        raise MissingComponentError(Message("measure.no_psutil"))
    process = _process(pid)
    if process is None:
        raise InputError(Message("measure.no_process", pid=pid), field="target")
    return ProcessSource(pid, f"process {pid} ({process.name()})", Machine(pid))


def _process(pid: int) -> Any:
    """The process where it runs; None for one that has ended, or waits only for its parent to notice."""
    psutil = optional("psutil")
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except (psutil.Error, OSError, OverflowError):
        return None


def folder_of(process: Any) -> Path | None:
    """Where `rightfit probe` keeps the counts of this process or of one that it started."""
    psutil = optional("psutil")
    with contextlib.suppress(psutil.Error, OSError):
        for one in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error, OSError):
                found = one.environ().get(FOLDER_VARIABLE)
                if found and Path(found).is_dir():
                    return Path(found)
    return None


def only_probe() -> int:
    """The process id of the one `rightfit probe` of this user that runs here. Raises InputError where there is none, AmbiguousNameError where there are several."""
    found = {}
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            pid = int(json.loads((folder / "probe").read_text(encoding="utf-8"))["pid"])
            if _process(pid) is not None:
                found[pid] = folder
    if not found:
        raise InputError(
            Message("measure.what_to_watch"),
            field="target",
        )
    if len(found) > 1:
        raise AmbiguousNameError("run", "to watch", [str(pid) for pid in sorted(found)], field="target")
    return next(iter(found))
