"""The catalogs: `locale/<language>/LC_MESSAGES/<room>.po`, in the form of gettext, whose entries are keys. A package brings them compiled (`.mo`); in a
checkout they are compiled when they are first read and whenever they have changed."""

from __future__ import annotations

import contextlib
import io
import os
from functools import cache
from pathlib import Path
from typing import Literal

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = ("en", "zh")

LOCALE = Path(__file__).with_name("locale")


@cache
def rooms() -> tuple[str, ...]:
    """The rooms that have a catalog."""
    return tuple(sorted({path.stem for path in (LOCALE / "en" / "LC_MESSAGES").iterdir() if path.suffix in (".po", ".mo")}))


def sentence(key: str, lang: Lang) -> str:
    """The text of a key with the places of its fields; the key itself where the catalog lacks it, as gettext does: tests find those."""
    room, _, name = key.partition(".")
    return catalog(room, lang).get(name, key)


def has(key: str) -> bool:
    """Whether the catalogs hold a key."""
    room, _, name = key.partition(".")
    return room in rooms() and name in catalog(room, "en")


@cache
def catalog(room: str, lang: Lang) -> dict[str, str]:
    """The sentences of a room in one language."""
    import gettext

    path = LOCALE / lang / "LC_MESSAGES" / f"{room}.mo"
    read = gettext.GNUTranslations(io.BytesIO(_compiled(path)))
    return {key: text for key, text in read._catalog.items() if key}  # type: ignore[attr-defined]  # the only way to tell a key that is missing


def _compiled(path: Path) -> bytes:
    source = path.with_suffix(".po")
    with contextlib.suppress(OSError):
        if not source.exists() or path.stat().st_mtime_ns >= source.stat().st_mtime_ns:
            return path.read_bytes()
    content = compiled(source.read_bytes())
    draft = path.with_suffix(f".{os.getpid()}.part")
    with contextlib.suppress(OSError):  # a folder that cannot be written costs time, never an answer
        draft.write_bytes(content)
        draft.replace(path)
    return content


def compiled(source: bytes) -> bytes:
    """A catalog as programs read it; what is wrong with it is raised."""
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    result = io.BytesIO()
    write_mo(result, read_po(io.BytesIO(source), abort_invalid=True))
    return result.getvalue()
