"""A message is a key and its fields. Nothing is read before one is put into words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rightfit.messages.catalogs import Lang, sentence

# Compiled on use by re, which keeps them: an English answer needs none.
_HAN_LATIN = r"([\u4e00-\u9fff])([A-Za-z0-9$¥<>])"
_HAN_HAN = r"([\u4e00-\u9fff，。；：、（）“”]) +(?=[\u4e00-\u9fff，。；：、（）“”])"
_LATIN_HAN = r"([A-Za-z0-9%])([\u4e00-\u9fff])"
_AT = "problems.at"
_JOINT: Mapping[Lang, str] = {"en": ", ", "zh": "、"}


class Message:
    """One sentence or part of one: `key` is "room.name" of the catalogs, `fields` fill its places. A field may be a message in its turn, which is
    rendered in the same language, or a tuple of names, which are joined as the language does. `str()` is the English."""

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
        fields = {name: value.to_data() if isinstance(value, Message) else value for name, value in self.fields.items()}
        return {"key": self.key, "fields": fields}


def from_data(data: object) -> Message | str:
    """A message that was JSON; text is itself."""
    if not isinstance(data, dict):
        return str(data)
    return Message(data["key"], **{name: from_data(value) if isinstance(value, dict) else value for name, value in data["fields"].items()})


def _message_of(key: str, fields: Mapping[str, object]) -> Message:
    return Message(key, **fields)


def _shown(value: object, lang: Lang) -> object:
    """A field as its place in the sentence takes it; numbers are left to the format that stands there."""
    if isinstance(value, Message):
        return value.text(lang)
    if isinstance(value, tuple):
        return _JOINT[lang].join(str(_shown(one, lang)) for one in value)
    return value


def spaced(text: str) -> str:
    """A blank between Chinese characters and Latin letters or digits, none between Chinese characters, as Chinese technical writing has it."""
    return re.sub(_LATIN_HAN, r"\1 \2", re.sub(_HAN_LATIN, r"\1 \2", re.sub(_HAN_HAN, r"\1", text)))


def either(names: Iterable[object]) -> Message | str:
    """Names of which one is meant: a, b or c."""
    *first, last = map(str, names)
    return Message("problems.either", first=", ".join(first), last=last) if first else last


def did_you_mean(names: Sequence[object]) -> Message | str:
    """What is near a name that is not known, behind the sentence that says so; nothing where nothing is."""
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
    """Two things that exclude each other (`kind` says what the second one is: "model", "task" ...), why, and what to do."""
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
