"""What a long post leaves open: facts that decide and have no place in its plan. Each is a question
whose answer decides, so that the plan under it passes for no more than one reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rightfit.messages import Message
from rightfit.workload.ask import grammar
from rightfit.workload.ask.leftover import demands
from rightfit.workload.ask.names import names_in
from rightfit.workload.ask.posts import is_hearsay, length_in_words, statements
from rightfit.workload.ask.sentence import Reading, Sentence, is_taken

#: Words from which on a post is a story: what was understood of it leads its answer.
FEWEST_WORDS = 45
MOST_QUESTIONS = 3
#: So many pieces are asked about at once.
_MOST_PIECES = 4
#: Amounts that a story tells of several jobs: which is meant decides.
_TOLD_TWICE = ("data", "rate", "users", "budget", "deadline")
#: What tells the amount of the work of each kind of task.
_AMOUNTS = {"serve": ("rate", "users", "trace", "prompts")}
_JOB_AMOUNTS = ("data", "steps")
_ASKS_MODEL = grammar.shape(r"(?<![A-Za-z]){asks_model}(?![a-z])|{asks_model_zh}")
_OWN_WORK = grammar.shape(r"(?<![A-Za-z]){own_work}(?![a-z])|{own_work}(?<=[一-鿿])")
_VERSION = re.compile(r"(?:[a-z]+\s)?v?\d+(?:\.\d+)+|#\d+|(?:[a-z]+\s)?\d{1,3}s?|[a-z ]{1,8}", re.IGNORECASE)
"""A version, a number of a thread, a bare number, "not an": nothing that decides."""
_COUNTED = re.compile(r"\d\S*\s*\S*[A-Za-z\u4e00-\u9fff]|[一二两三四五六七八九十百千万亿]\S*[\u4e00-\u9fff]{2}")


def is_story(text: str) -> bool:
    """Whether a text is so long that what was understood of it is said first."""
    return length_in_words(text) >= FEWEST_WORDS


def open_points(
    sentence: Sentence,
    inferred: Sequence[Reading],
    demanded: Sequence[str],
    doubtful: Sequence[str],
    is_no_amount: Callable[[Sentence, re.Match[str], str], bool],
) -> tuple[Message, ...]:
    """The questions of a story, those that decide most first; none of a shorter text. `demanded`:
    what of it demands something that no option took; `doubtful`: what has a number or a name;
    `is_no_amount`: whether what reads as an amount of data is none."""
    if not sentence.is_post or not is_story(sentence.whole):
        return ()
    task = next((one.value for one in (*sentence.readings, *inferred) if one.option == "task"), "")
    first = [*_model(sentence), *_assumed(sentence, task, inferred), *_twice(sentence, is_no_amount)]
    asked = " ".join(str(value) for one in first for value in one.fields.values())
    read = {one.words for one in sentence.readings}
    left = [piece for piece in (*filter(_decides, demanded), *filter(_counts, doubtful)) if piece not in asked and piece not in read]
    if left := list(dict.fromkeys(left)):
        first.append(Message("workload.open_pieces", words="; ".join(left[:_MOST_PIECES])))
    return tuple(first[:MOST_QUESTIONS])


def _model(sentence: Sentence) -> Iterator[Message]:
    """The model, where a story asks for one, or only others name it."""
    told = next((one for one in sentence.readings if one.option == "model"), None)
    if told is None:
        return
    words = told.words.partition(";")[0].strip()
    said = [sentence.whole[start:end].strip() for start, end in statements(sentence.whole) if words and words in sentence.whole[start:end]]
    if _ASKS_MODEL.search(sentence.whole):
        yield Message("workload.open_which_model", model=told.value)
    elif said and all(is_hearsay(text) and not _OWN_WORK.search(text) for text in said):
        yield Message("workload.open_heard_model", model=told.value, words=said[0])
    elif others := [
        name.value for name in names_in(sentence.text) if name.kind == "model" and name.value.casefold() != told.value.casefold()
    ]:
        yield Message("workload.open_other_model", model=told.value, others=", ".join(dict.fromkeys(others)))


def _assumed(sentence: Sentence, task: str, inferred: Sequence[Reading]) -> Iterator[Message]:
    """The amount of the work, where the plan assumes it."""
    if not task or any(one.option in _AMOUNTS.get(task, _JOB_AMOUNTS) for one in (*sentence.readings, *inferred)):
        return
    yield Message("workload.open_load") if task == "serve" else Message("workload.open_data")


def _twice(sentence: Sentence, is_no_amount: Callable[[Sentence, re.Match[str], str], bool]) -> Iterator[Message]:
    """An amount that is read, where another one of its kind is left over."""
    for option in _TOLD_TWICE:
        told = next((one for one in sentence.readings if one.option == option and one.words), None)
        if told is None:
            continue
        for rule in (one for one in grammar.QUANTITIES if one.option == option):
            for found in rule.pattern.finditer(sentence.text):
                words = found[0].replace(grammar.BLANK, "").strip(" ,，")
                value = rule.read(found)
                if grammar.BLANK in found[0].strip(grammar.BLANK + " ,，") or not is_taken(option, value):
                    continue
                if not words or words == told.words or (option == "data" and is_no_amount(sentence, found, value)):
                    continue
                yield Message("workload.open_twice", used=told.words, other=words)
                return


def _decides(piece: str) -> bool:
    """Whether a piece that demands something is more than a short word or a bare number."""
    return not _VERSION.fullmatch(piece) or demands(piece)


def _counts(piece: str) -> bool:
    """Whether a piece is a number with what it counts, or the name of hardware or of a model."""
    if _VERSION.fullmatch(piece):
        return False
    return bool(_COUNTED.search(piece)) or any(name.kind in ("gpu", "server", "model") and name.value != "none" for name in names_in(piece))
