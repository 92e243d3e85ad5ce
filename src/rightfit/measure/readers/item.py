"""One thing to read: a file or a folder, its text and its JSON read once; and what a reader is."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError
from rightfit.files import unpacked
from rightfit.measure.record import Measured, Run, Source, json_of, measured
from rightfit.messages import Message, cause
from rightfit.records import dataclass
from rightfit.units import GIB

#: Larger files are not results but data.
MOST_BYTES = int(GIB)
_HEAD = 65_536


@dataclass(frozen=True, slots=True)
class Definitions:
    """What the user says of figures that files leave open: whether a time per token counts the
    first token (True, False, None: not said), which counter memory was read from, the set-up in
    columns of `rightfit predict`, and of a Prometheus the window (`last_s` [s] up to `until` [s
    since 1970; None: now]) and the labels that its series must have."""

    counts_first_token: bool | None = None
    counter: str = ""
    setup: Mapping[str, str] = dataclasses.field(default_factory=dict)
    last_s: float = 3600.0
    until: float | None = None
    match: str = ""


@dataclasses.dataclass(frozen=True)
class Item:
    """A file or folder at `path`; `shown` is how it is called (an address where it was fetched)."""

    path: Path
    shown: str

    @property
    def name(self) -> str:
        """File name."""
        return self.path.name

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.path.is_dir()

    @functools.cached_property
    def content(self) -> bytes:
        """The whole file, unpacked where it is a .gz. Raises FileInputError."""
        try:
            if self.path.stat().st_size > MOST_BYTES:
                raise FileInputError(Message("measure.too_large", file=self.shown))
            raw = self.path.read_bytes()
            found = unpacked(raw, most=MOST_BYTES) if raw[:2] == b"\x1f\x8b" else raw
        except (OSError, EOFError) as error:
            raise FileInputError(Message("problems.cannot_read", name=self.shown, error=cause(error))) from None
        if found is None:
            raise FileInputError(Message("measure.too_large", file=self.shown))
        return found

    @functools.cached_property
    def text(self) -> str:
        """The file as text; undecodable bytes are replaced."""
        return "" if self.is_folder else self.content.decode("utf-8-sig", errors="replace").replace("\x00", "")

    @functools.cached_property
    def head(self) -> str:
        """The beginning of the text."""
        return self.text[:_HEAD]

    @functools.cached_property
    def json(self) -> Any:
        """The file as JSON; None where it is none. Of lines of JSON the list."""
        if self.is_folder or self.head.lstrip()[:1] not in ("{", "["):
            return None
        try:
            return json_of(self.text)
        except ValueError:
            return _json_lines(self.text)

    @functools.cached_property
    def table(self) -> list[dict[str, str]]:
        """The file as a table with a header (comma, semicolon, tab or bar);
        empty where it is none."""
        first = self.head.split("\n", 1)[0]
        mark = max(",;\t|", key=first.count)
        if not first.count(mark):
            return []
        try:
            rows = list(csv.reader(io.StringIO(self.text), delimiter=mark, skipinitialspace=True))
        except csv.Error:
            return []
        header = [cell.strip() for cell in rows[0]]
        return [dict(zip(header, (cell.strip() for cell in row), strict=False)) for row in rows[1:] if any(cell.strip() for cell in row)]

    def run(self, kind: str, figures: Sequence[Measured], *, tool: str = "", version: str = "", **more: Any) -> Run:
        """A record of this item."""
        return Run(source=Source(kind=kind, tool=tool or kind, version=version, path_or_url=self.shown), measured=list(figures), **more)


def _json_lines(text: str) -> list[Any] | None:
    found = []
    for line in text.splitlines():
        try:
            found.append(json_of(line))
        except ValueError:
            continue
    return found or None


@dataclass(frozen=True, slots=True)
class Reader:
    """A kind of result. `detects` says whether an item is of it; `reads` makes its records.
    `special`: more special than one that also detects it."""

    kind: str
    detects: Callable[[Item], bool]
    reads: Callable[[Item, Definitions], list[Run]]
    special: int = 1


def number(value: Any) -> float | None:
    """A finite number, or None."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def figure(name: str, value: Any, *, scale: float = 1.0, **more: Any) -> list[Measured]:
    """The figure where there is one, in a list; nothing for a missing, negative
    or infinite value."""
    found = number(value)
    return [measured(name, found * scale, **more)] if found is not None and found >= 0 else []


def words(**pairs: Any) -> dict[str, str]:
    """A set-up without what is not known; whole floats lose their '.0'."""
    shown = {
        name: str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        for name, value in pairs.items()
        if value not in (None, "")
    }
    return {name: value for name, value in shown.items() if value.strip()}
