"""What cannot be used or done, in Chinese: the library's English sentence is found among those that it can write, and its parts are put into the
Chinese one. The sentences of a room stand in `data/refusals/<room>.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from rightfit.messages import Message
from rightfit.messages.catalogs import catalog, has, rooms
from rightfit.records import dataclass

#: Two options that exclude each other, why, and what to do.
_CONTRADICTS = re.compile(
    r"(?P<what>[\w.-]+(?: [^ :;]+)?) contradicts (?:(?P<kind>task|model|method|operation|engine|data) )?(?P<against>[^:;,(\n]+?)"
    r"(?P<told> \([^()]*\)|, which [^:;\n]+)?(?:: (?P<why>[^;\n]+?)| instead)?(?:; (?P<do>[^\n]+)|: (?P<say>say [^\n]+))?"
)
_LEAVE_OUT = "leave it out"
_FIELD = re.compile(r"\{(\w+)[^{}]*\}")
#: Catalogs that hold no sentences to be found.
#: What a sentence has to have beside its fields: one without a word would be found in anything.
_WORD = re.compile(r"[A-Za-z]{3}")
_OTHER = frozenset(("problems", "purposes", "questions"))
_PART = "part_"
_LISTS, _OR = frozenset(("names", "words", "example")), re.compile(r",? or ")
#: Fields that hold a sentence, or a part of one, in their turn.
_NESTED = frozenset(("hint", "problem", "error", "elsewhere", "line", "earliest", "since", "why", *_LISTS))
#: What some fields look like. A hint may be missing.
_FORMS: Mapping[str, str] = {"hint": "(?:;.*)?", "given": ".*?", "line": ".*?"}
_KEYS = "jobs|services|owned|limits|teams|defaults|horizon|steady|start|name|repeats|schema_version"
#: The same of one room, so that sentences on other things are not taken for its own.
_FORMS_OF: Mapping[str, Mapping[str, str]] = {
    "fleet": {"place": rf"(?:{_KEYS})\b.*?", "name": r"(?![\'\"]).+?"},
    "catalog": {"row": r"\d+"},
}


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence that a room can write: where its words stand, the English with its fields, how many letters are no field, and the longest piece that
    is none: a text without it is another sentence."""

    room: str
    key: str
    text: str
    weight: int
    longest: str


@dataclass(frozen=True, slots=True)
class _Found:
    """A text as one of the sentences, with what its fields are."""

    sentence: _Sentence
    fields: Mapping[str, str]

    def said(self) -> str:
        """The Chinese."""
        nested = {name: _part(name, text) if name in _NESTED else text for name, text in self.fields.items()}
        return Message(f"{self.sentence.room}.{self.sentence.key}", **nested).text("zh")


def refusal(message: str) -> str | None:
    """The Chinese of a sentence that refuses or fails, also behind the name of what it is about; None where it is nobody's sentence."""
    place, colon, rest = message.partition(": ")
    whole, behind = _find(message, parts=False), _find(rest, parts=False) if colon else None
    if behind and (whole is None or (" " not in place and behind.sentence.weight >= whole.sentence.weight)):
        return f"{place}：{behind.said()}"
    if whole:
        return whole.said()
    if asked := _named("questions", rest):
        return f"{place}：{asked}。"
    contradicted = _CONTRADICTS.fullmatch(message)
    return _contradiction(contradicted) if contradicted else None


def _contradiction(found: re.Match[str]) -> str:
    """Two options that exclude each other, why, and what to do."""
    kind = f"problems.kind_{found['kind']}"
    against = (
        Message("problems.of_kind", kind=Message(kind) if has(kind) else found["kind"], name=found["against"])
        if found["kind"]
        else found["against"]
    )
    text = Message("problems.contradicts", what=found["what"], against=against).text("zh").removesuffix("。")
    told = found.string[found.end("told") if found["told"] else found.end("against") :].removeprefix(": ")
    if (both := _find(told, parts=True)) and "; " in both.sentence.text:  # why and what to do in one
        return f"{text}：{both.said()}。"
    why, do = found["why"] or "", found["do"] or found["say"] or ""
    purpose = _named("purposes", why)
    if why:
        text += f"：{purpose or part(why)}"
    if do == _LEAVE_OUT:
        return text + "；请去掉这个选项。"
    return f"{text}；{part(do)}。" if do else f"{text}。"


def _named(room: str, text: str) -> str:
    """The Chinese of a sentence without fields."""
    return next((catalog(room, "zh")[key] for key, english in catalog(room, "en").items() if english == text), "")


def part(text: str) -> str:
    """The Chinese of what is said beside a sentence, such as what is allowed; the text itself where nobody says it."""
    found = _find(text, parts=True)
    return found.said() if found else text


def _find(text: str, *, parts: bool) -> _Found | None:
    """The sentence or part that a text is: of several the one with most words of its own."""
    tried = ((one, pattern_of(one.text, room=one.room).fullmatch(text)) for one in _sentences(parts) if one.longest in text)
    found = [_Found(one, match.groupdict()) for one, match in tried if match]
    return max(found, key=lambda one: one.sentence.weight, default=None)


def _part(name: str, text: str) -> str:
    """A field that is a sentence itself, such as that a demand is missing, or a part of one; names are joined."""
    if name in _LISTS:
        return _OR.sub(" 或 ", text)
    return (refusal(text) if name == "error" else None) or part(text)


@cache
def _sentences(parts: bool) -> tuple[_Sentence, ...]:
    """Every sentence, or every part."""
    there = (room for room in rooms() if room not in _OTHER)
    texts = (
        (room, key, text)
        for room in there
        for key, text in catalog(room, "en").items()
        if (key.startswith(_PART) or room == "others") is parts
    )
    pieces = ((*found, _FIELD.split(found[2])[::2]) for found in texts)
    return tuple(
        _Sentence(room, key, text, sum(map(len, own)), max(own, key=len)) for room, key, text, own in pieces if any(map(_WORD.search, own))
    )


@cache
def pattern_of(text: str, *, room: str = "") -> re.Pattern[str]:
    """A message with fields as a pattern that finds them; a field that stands twice is the same text twice."""
    forms, seen, found = {**_FORMS, **_FORMS_OF.get(room, {})}, set[str](), []
    for at, piece in enumerate(_FIELD.split(text)):
        if at % 2 == 0:
            found.append(re.escape(piece))
        else:
            found.append(f"(?P={piece})" if piece in seen else f"(?P<{piece}>{forms.get(piece, '.+?')})")
            seen.add(piece)
    return re.compile("".join(found), re.DOTALL)
