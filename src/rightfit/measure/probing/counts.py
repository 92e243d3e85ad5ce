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


def leading(tallies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The process that stands for the run: of those that stepped the first rank, with the most steps."""
    stepped = [tally for tally in tallies if tally["steps"]]
    return min(stepped, key=lambda tally: (tally["rank"], -tally["steps"])) if stepped else None
