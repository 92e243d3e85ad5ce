"""The cache folder of this user, files that are written whole or not at all, packed files, tables
of TOML by section, and the cells of a CSV file."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """RIGHTFIT_CACHE_DIR, else the platform's cache folder of this user; a FileNotFoundError
    where there is no home."""
    given = os.environ.get("RIGHTFIT_CACHE_DIR")
    if given:
        return Path(given).expanduser()
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "rightfit"
    try:
        home = Path.home()
    except RuntimeError:
        raise FileNotFoundError("this user has no home folder") from None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "rightfit" / "Cache"
    return home / ("Library/Caches/rightfit" if sys.platform == "darwin" else ".cache/rightfit")


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """Write a file, given as text or in pieces, so that readers see the old one or the whole new
    one, after a crash too; it keeps the mode of the old one. An OSError where it cannot be
    written."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="") as stream:
            stream.writelines([text] if isinstance(text, str) else text)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            draft.chmod(path.stat().st_mode & 0o7777)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


# ---- How much a packed file may become: 27 MB of gzip can unpack to many gigabytes.

_PIECE_BYTES = 1 << 18


def unpacked(packed: bytes, *, most: int) -> bytes | None:
    """What gzip packed, all its members one after the other; None where that is more than `most`
    bytes. Raises EOFError where it is cut short, OSError where it is damaged."""
    import gzip
    import zlib

    found = bytearray()
    try:
        with gzip.open(io.BytesIO(packed)) as stream:
            while piece := stream.read(_PIECE_BYTES):
                found += piece
                if len(found) > most:
                    return None
    except zlib.error as error:
        raise OSError(str(error)) from None
    return bytes(found)


# ---- Tables of TOML of which an answer needs a few sections.


class Sections(Mapping[str, Any]):
    """The tables of a TOML text by their names, each parsed when it is first asked for: an answer
    shows a few of some hundred messages, and parsing all takes longer than finding its server. A
    line that begins with a bracket begins a table; no list within one does. `texts`: each as it is
    written."""

    _BEGINS = re.compile(r"^(?=\[)", re.MULTILINE)
    _NAME = re.compile(r"\[+[ \t]*(?:\"([^\"]+)\"|([\w-]+))")

    def __init__(self, text: str) -> None:
        import tomllib

        before, *sections = self._BEGINS.split(text)
        self._known: dict[str, Any] = tomllib.loads(before)
        self.texts: dict[str, str] = dict.fromkeys(self._known, "")
        for section in sections:
            found = self._NAME.match(section)
            name = (found[1] or found[2]) if found else ""
            self.texts[name] = self.texts.get(name, "") + section

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            import tomllib

            self._known[name] = tomllib.loads(self.texts[name])[name]
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self.texts

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


# ---- Cells of a CSV file that is opened as a sheet: text that a spreadsheet would run as a formula
# is told to be text.

_FORMULA = ("=", "+", "-", "@", "\t", "\n")


def safe_cell(value: Any) -> Any:
    """The value, with an apostrophe before text that begins like a formula; numbers written as text
    stay as they are. A carriage return becomes a line feed: Python's writer leaves it bare, and a
    reader ends the row there. Source: OWASP, "CSV Injection"."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value
    return "'" + text if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
