"""What can be followed, by the word that names it: a process id, an address, a file or folder, or nothing for the one `rightfit probe` that runs."""

from __future__ import annotations

from pathlib import Path

from rightfit.measure.places import is_there
from rightfit.measure.watching.exporters import exporter_source
from rightfit.measure.watching.folders import folder_source
from rightfit.measure.watching.look import Source
from rightfit.measure.watching.processes import only_probe, process_source


def source_of(target: str) -> Source:
    """The source of a target. Raises InputError, MissingComponentError; what it follows is read at each look."""
    if not target:
        return process_source(only_probe())
    if target.startswith(("http://", "https://")):
        return exporter_source(target)
    if target.isdigit() and not is_there(target):
        return process_source(int(target))
    return folder_source(Path(target))
