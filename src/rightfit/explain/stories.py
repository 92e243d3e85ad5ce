"""What is said before the plan of a long post: what was understood of it with the words that it was
read from, what was left out, and the questions whose answers decide."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain.messages import topic, topic_text
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
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


def model_lines(found: Understood, wishes: Mapping[str, Any], catalog: Catalog, lang: Lang) -> list[str]:
    """What models of a few sizes take and cost for the same load, where a long post asks for one;
    nothing of any other."""
    from rightfit.explain.beside.in_words import told_in, way_text
    from rightfit.explain.command_text import command_line
    from rightfit.planner.home_currency import in_home_currency
    from rightfit.planner.plan import plan
    from rightfit.workload.model import Workload

    if wishes.get("task") != "serve" or not any(one.key == "workload.open_which_model" for one in found.open):
        return []
    lines: list[str] = []
    for model in topic("stories")["models"]["serve"]:
        told = {**{name: value for name, value in wishes.items() if name != "quantization"}, "model": model}
        with contextlib.suppress(RightfitError):
            made = in_home_currency(plan(Workload(**told), catalog=catalog, top=1), lang)
            if made.best is not None:
                with told_in(made.workload.currency):
                    way = way_text(made.best, lang)
                lines.append(_text("of_model", lang, model=model.partition("/")[2], way=way, command=command_line(told)))
    return [_text("models", lang), *lines] if lines else []
