"""What is said before the plan of a long post: what was understood of it with the words that it was
read from, what was left out, and the questions whose answers decide."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain.messages import topic, topic_text
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.workload.ask import Understood

#: So many pieces of a story are listed as left out, and so many words of each.
_MOST_LEFT, _MOST_LETTERS = 6, 90
#: What a piece has at least to be listed: one word says nothing.
_FEWEST_LETTERS = 4

_text = functools.partial(topic_text, "stories")


def told_first(found: Understood) -> bool:
    """Whether what was understood of a sentence leads its answer: it is a long post."""
    from rightfit.workload.ask.open_points import is_story
    from rightfit.workload.ask.posts import is_post

    return is_story(found.sentence) and is_post(found.sentence)


def story_lines(found: Understood, wishes: Mapping[str, Any], lang: Lang, prices: Sequence[str] = ()) -> list[str]:
    """What leads the answer to a long post; nothing of any other sentence. `wishes`: what is
    planned, with what was given beside it; `prices`: what the prices of the post come to."""
    if not told_first(found):
        return []
    told = {**wishes, **({"have": found.own_machine} if found.own_machine else {})}
    lines = [_text("head", lang)]
    for group, options in topic("stories")["groups"].items():
        words = [_reading(name, told[name], found, lang) for name in options if told.get(name) not in (None, "")]
        lines.append(_text(group, lang, words="; ".join(words) or _text("none", lang)))
    if left := _left_out(found):
        shown = ", ".join(_text("quoted", lang, words=words) for words in left[:_MOST_LEFT])
        more = _text("more", lang, count=len(left) - _MOST_LEFT) if len(left) > _MOST_LEFT else ""
        lines.append(_text("left", lang, words=shown + more))
    lines += prices
    if found.open:
        lines.append(_text("asks", lang))
        lines += [_text("question", lang, number=at, words=one.text(lang)) for at, one in enumerate(found.open, 1)]
        lines.append(_text("under", lang))
    return lines


def _reading(option: str, value: Any, found: Understood, lang: Lang) -> str:
    words = next((one.words for one in found.readings if one.option == option and one.words), "")
    key = "reading" if words and words.casefold() != str(value).casefold() else "same"
    return _text(key, lang, option=option.replace("_", "-"), value=value, words=words)


def _left_out(found: Understood) -> Sequence[str]:
    """The statements and numbers of a story that the plan does not use, as they stand in it."""
    pieces = [
        piece for piece in found.unused if len(piece) >= _FEWEST_LETTERS and (" " in piece or not piece.isalpha() or not piece.isascii())
    ]
    asked = " ".join(str(value) for one in found.open for value in one.fields.values())
    told = [piece for piece in dict.fromkeys(pieces) if piece not in asked]
    return [piece if len(piece) <= _MOST_LETTERS else piece[:_MOST_LETTERS].rstrip() + "…" for piece in told]
