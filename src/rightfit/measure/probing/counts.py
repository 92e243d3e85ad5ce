"""What the agent counted inside the processes of a command: one JSON file a process, in a folder that only this run has."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Variable by which processes are told the folder, and how its name begins.
FOLDER_VARIABLE, FOLDER_PREFIX = "RIGHTFIT_PROBE_DIR", "rightfit-probe-"


def counted(folder: Path) -> list[dict[str, Any]]:
    """Counts of all processes; a file that is being written is left out."""
    found = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(path.read_text(encoding="utf-8")))
    return found


class Stepping:
    """When the program was stepping, as its processes tell it while they run; a file is read again only when it was written again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, int] = {}
        self._times: dict[str, tuple[float, float]] = {}

    def span(self) -> tuple[float, float] | None:
        """From the first steady step to the last of all processes [s since the epoch]; None before there was one."""
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                written = path.stat().st_mtime_ns
                if self._seen.get(path.name) != written:
                    self._seen[path.name] = written
                    if stepped := json.loads(path.read_text(encoding="utf-8")).get("stepped"):
                        self._times[path.name] = (stepped[0], stepped[1])
        return (min(first for first, _ in self._times.values()), max(last for _, last in self._times.values())) if self._times else None


def leading(tallies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The process that stands for the run: of those that stepped the first rank, with the most steps."""
    stepped = [tally for tally in tallies if tally["steps"]]
    return min(stepped, key=lambda tally: (tally["rank"], -tally["steps"])) if stepped else None
