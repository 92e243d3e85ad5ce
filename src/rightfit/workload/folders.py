"""Folders that people name: what lies in them, without following links and without wandering over a
whole disk."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from rightfit.errors import FileInputError
from rightfit.messages import Message

#: Folders of programs, not of people's own files.
_LEFT_OUT = frozenset({"site-packages", "node_modules", "__pycache__"})
#: The most entries that a folder of settings or scripts may have before somebody named too much.
_MOST_ENTRIES = 20_000


def files_below(folder: Path, endings: Collection[str] = ()) -> Iterator[Path]:
    """Every file below a folder with one of the endings (any, where none are given), in the order
    of names; hidden folders, links to folders and what cannot be opened are passed over."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted(names):
            file = Path(place, name)
            if (not endings or file.suffix.casefold() in endings) and file.is_file():
                yield file


def few_below(folder: Path, endings: Collection[str], *, most: int) -> list[Path]:
    """The first files below a folder of settings or scripts; FileInputError where so much lies
    there that it is hardly such a folder."""
    count = 0
    for _, folders, names in os.walk(folder):
        count += len(folders) + len(names)
        if count > _MOST_ENTRIES:
            raise FileInputError(Message("problems.folder_too_full", name=folder, most=_MOST_ENTRIES))
    return list(itertools.islice(files_below(folder, endings), most))
