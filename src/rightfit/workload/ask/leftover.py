"""What no rule has read: "hard" stops the answer with a question, "soft" is listed as not used.

By kind of word rather than by list. Numbers with the noun that they count, words that deny or
compare, names (capitals, digits inside) and words that change a plan but no option holds
(`hard_en`, `hard_zh` of facts/data/words/fillers.csv) are hard. An ordinary word is soft, and
so is the name of whom something is for ("for Acme", "our Slack").
"""

from __future__ import annotations

import functools
import re

from rightfit.facts import tables
from rightfit.facts.expressions import Expression
from rightfit.workload.ask import grammar
from rightfit.workload.ask.names import family_words

BLANK = grammar.BLANK
_PIECE = re.compile(
    rf"[\u4e00-\u9fff]+|(?:[^\u4e00-\u9fff{BLANK}{grammar.DENIED}\s,.;:!?()\"'，。；：！？（）、“”/+*×·…《》【】\[\]|-]|(?<=\d)[.,](?=\d)|(?<=\w)-(?=\w))+"
)


_NUMBER = re.compile(r"(?:.*\s)?\d[\d.,]*[kmbgt]?", re.IGNORECASE | re.DOTALL)
_CLAUSE_START = re.compile(r"(?:^|[.!?;:。！？；：\n])\s*$")
_NUMERAL_ZH = re.compile(
    r"[一二两三四五六七八九十百千万亿]{2,}|[一二两三四五六七八九十百千万亿](?=[个张条次篇份页块台路天轮层倍种类年月周人段行列卡核秒遍帧])"
)


@functools.cache
def _lists() -> tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str], Expression]:
    """(English words that carry nothing, soft ones, hard ones, soft Chinese ones, any Chinese one
    that is not hard, the longest first)."""
    names = ("filler_en", "soft_en", "hard_en", "soft_zh", "filler_zh")
    glue, soft, hard, soft_zh, glue_zh = (frozenset(word.casefold() for word in grammar.listed(name, "fillers")) for name in names)
    known = Expression("|".join(map(re.escape, sorted(soft_zh | glue_zh, key=len, reverse=True))))
    return glue, soft, hard, soft_zh, known


@functools.cache
def _before() -> tuple[Expression, Expression]:
    """(A word that the name of somebody follows: "for"; one that a means follows: "using".)"""
    heads = (r"(?<![A-Za-z]){before_somebody}\s+$", r"(?<![A-Za-z]){means}\s+(?:an?\s+|the\s+|some\s+)?$")
    somebody, means = (tables.shape("fillers", head, ignore_case=True) for head in heads)
    return somebody, means


def left_over(text: str, *, is_shouted: bool = False) -> tuple[list[str], list[str]]:
    """(hard, soft) pieces of what is left of a sentence, in its order; hard words that stand side
    by side are one piece, and so are a number or a denial and the word beside it. `is_shouted`: the
    sentence is in capitals, which mark no names then."""
    hard: list[tuple[int, int]] = []
    soft: list[tuple[int, str]] = []
    unknown: tuple[int, int] | None = None  # the ordinary word that was read last
    for found in _PIECE.finditer(text):
        beside = bool(hard) and not text[hard[-1][1] : found.start()].strip()
        weight = _weight(found[0], text[: found.start()], text[found.end() :], is_shouted=is_shouted)
        if beside and (weight == "plain" or _takes_next(text[slice(*hard[-1])])):
            weight = "hard"
        is_named = (
            weight == "hard" and unknown is not None and _NUMBER.fullmatch(found[0]) and not text[unknown[1] : found.start()].strip(" =:")
        )
        if is_named and unknown is not None:  # "dropout 0.1"
            soft.pop()
            hard.append((unknown[0], found.end()))
        elif weight == "hard":
            hard[-1:] = [(hard[-1][0], found.end())] if beside else [*hard[-1:], found.span()]
        elif weight:
            soft += [(found.start(), word) for word in _soft_words(found[0])]
        unknown = found.span() if weight == "plain" and found[0].isascii() else None
    return list(dict.fromkeys(text[start:end] for start, end in hard)), list(dict.fromkeys(word for _, word in soft))


def _takes_next(piece: str) -> bool:
    """Whether what stands behind a hard piece goes with it: a number counts it, "not" denies it."""
    return _NUMBER.fullmatch(piece) is not None or piece.split()[-1].casefold() in ("not", "no", "non", "never", "without")


def _soft_words(piece: str) -> list[str]:
    """What a soft piece is listed as: of a Chinese one what carries something."""
    if piece.isascii():
        return [piece]
    _, _, _, soft_zh, known = _lists()
    marked = known.sub(lambda found: found[0] if found[0] in soft_zh else " ", piece)
    return marked.split()


def _weight(piece: str, before: str, after: str, *, is_shouted: bool) -> str:
    """ "hard", "soft", "plain" for an ordinary word that no list holds, or "" for one that carries
    nothing. `before`, `after`: the text around it."""
    glue, soft, hard, soft_zh, known_zh = _lists()
    if not piece.isascii():
        rest = known_zh.sub(" ", piece)
        demands, denies = _hard_zh()
        if any(char.isdigit() for char in rest) or _NUMERAL_ZH.search(rest) or _demands_in(piece, demands) or denies.search(rest):
            return "hard"
        return "soft" if rest.strip() or soft_zh.intersection(known_zh.findall(piece)) else ""
    word = piece.casefold().strip("-_'")
    parts = [word, *word.split("-")] if "-" in word else [word]
    if not word or word in glue:
        return ""
    if word in soft or word in grammar.OBJECT_STORES or (len(parts) > 1 and all(part in glue | soft for part in parts[1:])):
        return "soft"
    if word.endswith("s") and word[:-1] in soft | glue:
        return "soft"
    if word.endswith(tuple(grammar.listed("describing", "fillers"))):
        return "soft"
    if not any(char.isalnum() for char in word):
        return ""
    if any(not char.isalpha() and char not in "-'" for char in word) or any({part, part.removesuffix("s")} & hard for part in parts):
        return "hard"
    is_name = piece != word and not is_shouted and not (piece[1:].islower() and _CLAUSE_START.search(before))
    belongs, means = _before()
    if is_name and piece.isascii() and grammar.NAME_DESCRIBES.match(after) and not means.search(before):
        return "plain"  # "the TinyStories results"
    if (is_name or "-" in word) and any(part in family_words() for part in tables.tokens(word)):
        return "hard"  # another model
    return (
        "hard"
        if (is_name and not (belongs.search(before) or grammar.PLACED_BEFORE.search(before) or grammar.PLACE_OF.match(after)))
        or means.search(before)
        else "plain"
    )


def _demands_in(piece: str, demands: Expression) -> bool:
    """Whether a Chinese piece demands something: 国产, not the longer word 国产大模型."""
    longer = [one.span() for one in _lists()[4].finditer(piece)]
    return any(not any(start <= one.start() and one.end() < end for start, end in longer) for one in demands.finditer(piece))


@functools.cache
def _hard_zh() -> tuple[Expression, Expression]:
    """(Demands, wherever they stand; words that deny where no longer word holds them.)"""
    demands, denies = (Expression("|".join(grammar.listed(name, "fillers"))) for name in ("hard_zh", "deny_zh"))
    return demands, denies


@functools.cache
def _demands() -> tuple[frozenset[str], Expression, Expression]:
    """(English words that demand something, Chinese ones, a limit or an amount of money.)"""
    mild = frozenset(grammar.listed("mild", "fillers"))
    limits = grammar.shape(
        r"{money_sign}\s*\d|\d\s*{money_unit}|{most}|{at_least}|{within_after_zh}|(?<![A-Za-z]){limit_head}(?![A-Za-z])|{limit_tail_zh}"
    )
    return _lists()[2] - mild, Expression("|".join(word for word in grammar.listed("hard_zh", "fillers") if word not in mild)), limits


def demands(piece: str) -> bool:
    """Whether a hard piece asks something of the plan that must not be left out, even of a long
    post: a word that demands, a limit, money, a denial of a name or of a number."""
    words, words_zh, limits = _demands()
    said = {part for word in re.findall(r"[a-z][a-z-]*", piece.casefold()) for part in (word, word.removesuffix("s"))}
    seller = grammar.UNPRICED.search(piece)
    if said & words or limits.search(piece) or (seller and seller["only"]):
        return True
    if piece.isascii():
        return bool(grammar.HARD_DENIAL.search(piece)) and piece != piece.casefold()
    return bool(words_zh.search(piece) or (grammar.HARD_DENIAL.search(piece) and re.search("[A-Za-z0-9]", piece)))


def known_words() -> frozenset[str]:
    """Words of tasks and choices, for the nearest of a word that nobody knows."""
    names = ("task", "method", "tuning_method", "purchase", "framework", "quantization", "optimizer", "sharding", "cloud")
    return frozenset(word.word.casefold() for name in names for word in tables.words(grammar.WORDS_TABLE, name))
