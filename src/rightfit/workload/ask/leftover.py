"""What no rule has read. Whatever is left is hard, and stops the answer with a question, unless it
is on the soft list (facts/data/words/fillers.csv); soft words are listed as not used."""

from __future__ import annotations

import functools
import re

from rightfit.facts import tables
from rightfit.workload.ask import grammar

BLANK = "\u241f"
_PIECE = re.compile(
    rf"[\u4e00-\u9fff]+|(?:[^\u4e00-\u9fff{BLANK}{grammar.DENIED}\s,.;:!?()\"'，。；：！？（）、“”/+*×·…《》【】\[\]|-]|(?<=\d)[.,](?=\d)|(?<=\w)-(?=\w))+"
)


_NUMBER = re.compile(r"(?:.*\s)?\d[\d.,]*[kmbgt]?", re.IGNORECASE | re.DOTALL)


@functools.cache
def _lists() -> tuple[frozenset[str], frozenset[str], frozenset[str], re.Pattern[str]]:
    """(English words that carry nothing, soft ones, soft Chinese ones, any Chinese one of both, the
    longest first)."""
    names = ("filler_en", "soft_en", "soft_zh", "filler_zh")
    glue, soft, soft_zh, glue_zh = (frozenset(word.casefold() for word in grammar.listed(name, "fillers")) for name in names)
    known = re.compile("|".join(map(re.escape, sorted(soft_zh | glue_zh, key=len, reverse=True))))
    return glue, soft, soft_zh, known


def left_over(text: str) -> tuple[list[str], list[str]]:
    """(hard, soft) pieces of what is left of a sentence, in its order; hard words that stand side
    by side are one piece."""
    hard: list[tuple[int, int]] = []
    soft: list[str] = []
    for found in _PIECE.finditer(text):
        beside = bool(hard) and not text[hard[-1][1] : found.start()].strip()
        counted = beside and _NUMBER.fullmatch(text[slice(*hard[-1])]) is not None
        weight = "hard" if counted else _weight(found[0])  # a number takes the noun that it counts with it
        if weight == "soft":
            soft += [found[0]] if found[0].isascii() else [word for word in _lists()[3].findall(found[0]) if word in _lists()[2]]
        elif weight:
            hard[-1:] = [(hard[-1][0], found.end())] if beside else [*hard[-1:], found.span()]
    return list(dict.fromkeys(text[start:end] for start, end in hard)), list(dict.fromkeys(soft))


def _weight(piece: str) -> str:
    """ "hard", "soft", or "" for a word that carries nothing."""
    glue, soft, soft_zh, known_zh = _lists()
    if not piece.isascii():
        if any(char.isalnum() for char in known_zh.sub("", piece)):
            return "hard"
        return "soft" if soft_zh.intersection(known_zh.findall(piece)) else ""
    word = piece.casefold().strip("-_'")
    parts = [word, *word.split("-")] if "-" in word else [word]
    if not word or word in glue:
        return ""
    if word in soft or (len(parts) > 1 and all(part in glue | soft for part in parts[1:])):
        return "soft"
    if word.endswith("s") and word[:-1] in soft | glue:
        return "soft"
    return "hard" if any(char.isalnum() for char in word) else ""


def known_words() -> frozenset[str]:
    """Words of tasks and choices, for the nearest of a word that nobody knows."""
    names = ("task", "method", "tuning_method", "purchase", "framework", "quantization", "optimizer", "sharding", "cloud")
    return frozenset(word.word.casefold() for name in names for word in tables.words(grammar.WORDS_TABLE, name))
