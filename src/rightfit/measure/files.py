"""Files of records: written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from rightfit.errors import UnavailableError
from rightfit.messages import Message, system_problem


def write_whole(path: str | Path, text: str) -> None:
    """Write beside, then rename, so that no reader ever sees half a file. Raises UnavailableError (no right, full disk)."""
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(name).replace(place)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise UnavailableError(Message("problems.cannot_write", name=place, error=system_problem(error))) from None
