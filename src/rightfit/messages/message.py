"""A message is a key and its fields. Nothing is read before one is put into words."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

# ---- The catalogs: `locale/<language>/LC_MESSAGES/<room>.po`, in the form of gettext, whose
# entries are keys. A package brings them compiled (`.mo`); in a checkout they are compiled when
# they are first read and whenever they have changed.

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = ("en", "zh")

LOCALE = Path(__file__).with_name("locale")


@cache
def rooms() -> tuple[str, ...]:
    """The rooms that have a catalog."""
    return tuple(sorted({path.stem for path in (LOCALE / "en" / "LC_MESSAGES").iterdir() if path.suffix in (".po", ".mo")}))


def sentence(key: str, lang: Lang) -> str:
    """The text of a key with the places of its fields; the key itself where the catalog lacks it,
    as gettext does: tests find those."""
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


# Compiled on use by re, which keeps them: an English answer needs none.
_HAN_LATIN = r"([\u4e00-\u9fff])([A-Za-z0-9$¥<>])"
_HAN_HAN = r"([\u4e00-\u9fff，。；：、（）“”]) +(?=[\u4e00-\u9fff，。；：、（）“”])"
_LATIN_HAN = r"([A-Za-z0-9%])([\u4e00-\u9fff])"
_AT = "problems.at"
_JOINT: Mapping[Lang, str] = {"en": ", ", "zh": "、"}


class Message:
    """One sentence or part of one: `key` is "room.name" of the catalogs, `fields` fill its places.
    A field may be a message in its turn, which is rendered in the same language, or a tuple of
    names, which are joined as the language does. `str()` is the English."""

    __slots__ = ("fields", "key")
    key: str
    fields: Mapping[str, object]

    def __init__(self, key: str, /, **fields: object) -> None:
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "fields", fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a message cannot be changed: {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return _message_of, (self.key, dict(self.fields))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.key, self.fields) == (other.key, other.fields)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Message({', '.join((repr(self.key), *(f'{name}={value!r}' for name, value in self.fields.items())))})"

    def __str__(self) -> str:
        return self.text("en")

    def text(self, lang: Lang) -> str:
        """The sentence in a language."""
        said = sentence(self.key, lang).format_map({name: _shown(value, lang) for name, value in self.fields.items()})
        return spaced(said) if lang == "zh" else said

    def to_data(self) -> dict[str, object]:
        """What JSON takes of it, and `from_data` reads."""
        return {"key": self.key, "fields": {name: _data(value) for name, value in self.fields.items()}}


def _data(value: object) -> object:
    if isinstance(value, Message):
        return value.to_data()
    if isinstance(value, tuple):
        return [_data(one) for one in value]
    return value if isinstance(value, (str, int, float, type(None))) else str(value)  # a path, an error of a library


def from_data(data: object) -> Message | str:
    """A message that was JSON; text is itself."""
    return _read(data) if isinstance(data, dict) else str(data)  # type: ignore[return-value]


def _read(value: object) -> object:
    if isinstance(value, dict):
        return Message(value["key"], **{name: _read(one) for name, one in value["fields"].items()})
    return tuple(map(_read, value)) if isinstance(value, list) else value


def _message_of(key: str, fields: Mapping[str, object]) -> Message:
    return Message(key, **fields)


def _shown(value: object, lang: Lang) -> object:
    """A field as its place in the sentence takes it; numbers are left to the format
    that stands there."""
    if isinstance(value, Message):
        return value.text(lang)
    if isinstance(value, tuple):
        return _JOINT[lang].join(str(_shown(one, lang)) for one in value)
    return value


def spaced(text: str) -> str:
    """A blank between Chinese characters and Latin letters or digits, none between Chinese
    characters, as Chinese technical writing has it."""
    return re.sub(_LATIN_HAN, r"\1 \2", re.sub(_HAN_LATIN, r"\1 \2", re.sub(_HAN_HAN, r"\1", text)))


def either(names: Iterable[object]) -> Message | str:
    """Names of which one is meant: a, b or c."""
    *first, last = map(str, names)
    return Message("problems.either", first=", ".join(first), last=last) if first else last


def did_you_mean(names: Sequence[object]) -> Message | str:
    """What is near a name that is not known, behind the sentence that says so;
    nothing where nothing is."""
    return Message("problems.did_you_mean", names=either(names)) if names else ""


def line_each(messages: Iterable[Message | str]) -> Message | str:
    """Several messages, a line each."""
    first, *others = messages
    for other in others:
        first = Message("problems.lines", first=first, other=other)
    return first


def of_kind(kind: str, name: object) -> Message:
    """A name behind what kind of thing it is: "model", "task" ..."""
    return Message("problems.of_kind", kind=Message(f"problems.kind_{kind}"), name=name)


def contradiction(
    what: object, against: object, *, kind: str = "", why: Message | str | None = None, do: Message | str | None = None
) -> Message:
    """Two things that exclude each other (`kind` says what the second one is: "model", "task" ...),
    why, and what to do."""
    other = of_kind(kind, against) if kind else against
    given = {name: value for name, value in (("why", why), ("do", do)) if value is not None}
    return Message("_".join(("problems.contradicts", *given)), what=what, against=other, **given)


def at_place(place: Message | str, message: Message | str) -> Message:
    """A message behind the option, key or place that it is about, once."""
    if isinstance(message, Message) and message.key == _AT and message.fields["place"] == place:
        return message
    return Message(_AT, place=place, error=message)


def without_places(message: Message | str) -> Message | str:
    """A message without everything that it is about before it."""
    while isinstance(message, Message) and message.key == _AT:
        inner = message.fields["error"]
        message = inner if isinstance(inner, Message) else str(inner)
    return message


def without_place(message: Message | str, place: str | None) -> Message | str:
    """A message without the option that it is about before it, for a place that names it too."""
    inner = message.fields["error"] if isinstance(message, Message) and message.key == _AT and message.fields["place"] == place else message
    return inner if isinstance(inner, Message) else str(inner)


# ---- What other programs say, in our languages: readers of files, databases, checks of values.
# They raise text alone, without a code, so that it is found among those that `others.po` has.

_FIELD = re.compile(r"\{(\w+)\}")
#: A field that is another text of the same program.
_INNER = frozenset(("problem", "why"))

_WORDS = "'.+"
#: What the system says, by its number.
_SYSTEM: Mapping[int, str] = {
    errno.ENOENT: "no_file",
    errno.EISDIR: "folder",
    errno.ENOTDIR: "not_folder",
    errno.EACCES: "denied",
    errno.ENOSPC: "full",
    errno.EEXIST: "there",
    errno.EROFS: "read_only",
    errno.ENAMETOOLONG: "too_long",
    errno.ECONNREFUSED: "connection_refused",
    errno.ECONNRESET: "connection_reset",
    errno.ENETUNREACH: "network_unreachable",
    errno.EHOSTUNREACH: "no_route",
    errno.ETIMEDOUT: "timed_out_os",
    errno.ENOEXEC: "exec_format",
}


def system_problem(error: BaseException, *, lower: bool = False) -> Message | str:
    """What the system says of a file or an address, without its number and name;
    `lower` in small letters."""
    own = str(getattr(error, "strerror", None) or error)
    key = _SYSTEM.get(getattr(error, "errno", None) or 0)
    if key is None or not isinstance(error, OSError):
        return foreign(own.lower() if lower else own)
    return Message(f"others.{key}{'_lower' if lower else ''}")


def cause(error: BaseException) -> Message | str:
    """What an exception says: its message where it is ours, else the words for what the system or
    another program says, as far as there are some."""
    own = getattr(error, "message", None)
    if isinstance(own, Message):
        return own
    if isinstance(error, OSError) and error.errno is not None and error.strerror and not error.filename2:
        alone = Message("others.os_error", number=error.errno, why=system_problem(error))
        return alone if error.filename is None else Message("others.os_error_of_file", **alone.fields, path=repr(error.filename))
    return foreign(str(error))


def foreign(text: str) -> Message | str:
    """The message of another program's text; the text itself where it is not known."""
    found = ((key, match.groupdict()) for key, pattern in _patterns() if (match := pattern.fullmatch(text)))
    key, fields = next(found, ("", {}))
    return Message(key, **{name: _field(name, part) for name, part in fields.items()}) if key else text


def _field(name: str, text: str) -> Message | str:
    """A field of another program's text: a text of its own, or a list of words."""
    if name in _INNER:
        return foreign(text)
    first, is_list, last = text.rpartition(" or ") if name == "words" else (text, "", "")
    return either((first, last)) if is_list else text


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The texts as patterns, those with most words of their own first."""
    texts = sorted(catalog("others", "en").items(), key=lambda one: -len(_FIELD.sub("", one[1])))
    return tuple((f"others.{key}", re.compile(_pattern(text), re.DOTALL)) for key, text in texts)


def _pattern(text: str) -> str:
    """A text with places as a pattern. Words that a value must be among stand in quotes."""
    plain = re.escape(text).replace(r"\{", "{").replace(r"\}", "}")
    return _FIELD.sub(lambda found: f"(?P<{found[1]}>{_WORDS if found[1] == 'words' else '.+?'})", plain)
