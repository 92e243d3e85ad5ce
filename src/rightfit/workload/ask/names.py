"""The names in a sentence, found before anything else: accelerators, servers, clouds, places, data
sets, libraries of words, kinds of work and models, by what the facts know.

Where two names overlap the longer one is meant; names of the same length go by `_RANK`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

from rightfit import facts
from rightfit.facts import bundled, resolve, tables
from rightfit.facts.expressions import Expression
from rightfit.records import dataclass
from rightfit.workload.ask import grammar

#: Of two names of the same length the first of these is meant. A "word" is one of the grammar's, a
#: "work" is a kind of work: neither is ever a checkpoint.
_RANK = ("choice", "word", "work", "gpu", "server", "region", "cloud", "data", "country", "city", "model")


@dataclass(frozen=True, slots=True)
class Name:
    """What is named from `start` to `end`; `value` as the option takes it."""

    kind: str
    value: str
    start: int
    end: int


def names_in(text: str) -> list[Name]:
    """The names of a sentence, from left to right; none overlaps another."""
    kept: list[Name] = []
    for name in sorted(_candidates(text), key=lambda one: (one.start - one.end, _RANK.index(one.kind))):
        if all(name.end <= other.start or other.end <= name.start for other in kept):
            kept.append(name)
    return sorted(kept, key=lambda one: one.start)


def _candidates(text: str) -> Iterator[Name]:
    yield from _gpus(text)
    for kind, pattern in (("server", SERVER), ("server", _DISK), ("choice", _CHOICE), ("region", grammar.REGION), ("city", grammar.CITY)):
        yield from (Name(kind, match[0], *match.span()) for match in pattern.finditer(text))
    for kind, pattern, meanings in (("cloud", grammar.CLOUD, grammar.CLOUD_NAMES), ("country", grammar.COUNTRY, grammar.COUNTRY_NAMES)):
        yield from (Name(kind, meant(match[0], meanings), *match.span()) for match in pattern.finditer(text) if not _is_money(match))
    yield from _companies(text)
    for match in grammar.COUNTRY_ADJECTIVE.finditer(text):
        yield Name("country", grammar.COUNTRY_ADJECTIVES[match["adjective"]], *match.span())
    for match in grammar.COUNTRY_CODE.finditer(text):
        yield Name("country", grammar.COUNTRY_CODES[match["code"]], *match.span("code"))
    for match in grammar.SMALL_CODE.finditer(text):
        yield Name("country", grammar.SMALL_CODES[match["code"]], *match.span("code"))
    yield from (Name("data", match[0], *match.span()) for match in _dataset_pattern().finditer(text))
    yield from (Name("work", match[0], *match.span()) for match in grammar.KIND_OF_WORK.finditer(text))
    yield from (Name("word", match[0], *match.span()) for pattern in grammar.named_words() for match in pattern.finditer(text))
    yield from (Name("model", name, start, end) for start, end, name in (*_algorithms(text), *_chinese_models(text), *_models(text)))


def _is_money(match: re.Match[str]) -> bool:
    """Whether what looks like a place begins the name of a currency, 新加坡元."""
    found = _MONEY.match(match.string, match.start())
    return found is not None and found.end() > match.end()


def _companies(text: str) -> Iterator[Name]:
    """Companies that sell a cloud among other things, where they are denied or stand in a list
    with a cloud: "not on Oracle", "AWS or Google"."""
    clouds = [match.span() for match in grammar.CLOUD.finditer(text)]
    words = {
        match.span(): match[0]
        for match in grammar.COMPANY.finditer(text)
        if all(match.end() <= start or end <= match.start() for start, end in clouds)
    }
    places = sorted([*words, *clouds])
    lists: list[list[tuple[int, int]]] = []
    for span in places:
        between = text[lists[-1][-1][1] : span[0]] if lists else ""
        if lists and (grammar.LIST_JOINT.fullmatch(between) or grammar.LIST_COMMA.fullmatch(between)):
            lists[-1].append(span)
        else:
            lists.append([span])
    for one in lists:
        is_denied = grammar.NEGATED.search(text[: one[0][0]]) or grammar.NEGATED_AFTER.match(text, one[-1][1])
        if is_denied or any(span not in words for span in one):
            yield from (Name("cloud", grammar.CLOUD_ALONE[words[span].casefold()], *span) for span in one if span in words)


def meant(word: str, meanings: Mapping[str, str]) -> str:
    key = re.sub(r"[\s-]+", " ", word.casefold())
    return meanings.get(key) or meanings.get(key.replace(" ", "")) or meanings[word]


_COMMON, _ALONE, _PLAIN_WORDS, _EVERYDAY, _EVERYDAY_DATASETS = (
    frozenset(grammar.listed(chosen, "names")) for chosen in ("common", "alone", "plain", "everyday", "dataset_everyday")
)
_NO_ALGORITHM = _COMMON | _PLAIN_WORDS
_PHRASES = tuple(grammar.listed("phrase", "names"))
_MONEY = grammar.shape("{money_unit}")
SERVER = tables.shape("names", r"(?<![A-Za-z0-9_.-])(?:{server}|{server_family})(?![A-Za-z0-9_.-]*[A-Za-z0-9_])", ignore_case=True)
_DISK = tables.shape("names", r"(?<![A-Za-z0-9.]){disk}(?![A-Za-z0-9])", ignore_case=True)
_CHOICE = tables.shape("names", r"(?<![A-Za-z0-9]){cpu_choice}(?![A-Za-z0-9])", ignore_case=True)
_NO_GPU = tables.shape("names", r"(?<![A-Za-z0-9-])(?:{no_gpu}|(?<![A-Za-z0-9_])(?<!\b\d )(?<!\b\d\d ){cpu})", ignore_case=True)
_GPU = tables.shape(
    "names", r"(?:(?<![A-Za-z0-9])x?|(?<=\d[x×*])){gpu_maker}*{gpu}(?:[- ]?{gpu_form})*(?:s)?(?![A-Za-z0-9]|\.\d)", ignore_case=True
)
_NUMBERED = re.compile(r"\d+[A-Za-z]\d?")
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*(?:\s+[A-Za-z0-9][A-Za-z0-9.+_-]*)*")
_WORD = re.compile(r"\S+")
_LONGEST_WINDOW = 6
_VERSION = re.compile(r"\d\.\d\s")
"""A number with a part of one counts no things: "SD 1.5 image generation"."""
_COUNTING = grammar.shape(r"{amount}\s*(?:{data_unit}|{epoch}|(?<!\d[bB])(?<!\d[bB]\s){long_unit}|{card}|{people})(?![a-z]|-[a-z])")


def _gpus(text: str) -> Iterator[Name]:
    """Accelerators; a plural "s" is dropped where the name without it is the known one."""
    for match in _GPU.finditer(text):
        name = match[0].strip().removeprefix("x")
        plural = name[:-1] if name.endswith("s") and name[0].isupper() else name  # V100s are several V100
        for candidate in (plural, name, name.rstrip("sS"), "RTX " + name if name[0].isdigit() else name):
            if facts.match_accelerators(candidate):
                found = facts.match_accelerators(candidate)  # "910B" by its full name: as an option it is 910 of B
                yield Name("gpu", found[0] if len(found) == 1 and _NUMBERED.fullmatch(candidate) else candidate, *match.span())
                break
    yield from (Name("gpu", "none", *match.span()) for match in _NO_GPU.finditer(text))


@functools.cache
def family_words() -> frozenset[str]:
    """Words that begin or carry the names of known models, without those of everyday language."""
    words: set[str] = set()
    for entry in bundled.index():
        for name in (entry.name, *entry.aliases):
            words.update(token for token in tables.tokens(tables.base_name(name)) if len(token) > 2 and not token[0].isdigit())
    return frozenset((words - _COMMON - _PLAIN_WORDS) | _ALONE)


def _models(text: str) -> Iterator[tuple[int, int, str]]:
    """Runs of words that the facts know as a model. A number that counts what stands behind it is
    none of its words."""
    for run in _RUN.finditer(text):
        words = [(run.start() + word.start(), run.start() + word.end()) for word in _WORD.finditer(run[0])]
        for first in range(len(words)):
            for last in range(first, min(first + _LONGEST_WINDOW, len(words))):
                start, end = words[first][0], words[last][1]
                name = text[start:end].strip(".,-")
                counts = (
                    text[words[last][0]].isdigit() and not _VERSION.match(text, words[last][0]) and _COUNTING.match(text, words[last][0])
                )
                if not counts and ". " not in name and not _begins_or_ends_with_choice(name) and is_model(name):
                    yield start, start + len(name), name


def _begins_or_ends_with_choice(name: str) -> bool:
    """Whether the first or the last of several words is one for a choice: "DPO Llama-3-8B"."""
    words = name.split()
    return len(words) > 1 and (_is_choice(words[0]) or _is_choice(words[-1]))


@functools.lru_cache(maxsize=4096)
def _is_choice(word: str) -> bool:
    return any(pattern.fullmatch(word) for pattern in (*grammar.named_words(), *grammar.STRONG.values()))


@functools.lru_cache(maxsize=4096)
def is_model(name: str) -> bool:
    """Whether the facts know a model by these words, all of which matter."""
    if grammar.KIND_OF_WORK.fullmatch(name):
        return False
    if name.casefold() in grammar.WORK_WORDS:
        return False  # "SFT" of a 72B model
    tokens = tables.tokens(tables.base_name(name))
    known = resolve._spellings()
    if len(tokens) > 1 and resolve.known_by_size(name):
        return True  # which a plan refuses, saying what is known
    if len(tokens) > 1 and (name.casefold() in bundled.exact_names() or tokens in known):
        return not set(tokens) <= _COMMON | _PLAIN_WORDS or len(tokens) > 2 or name.casefold() in _PHRASES
    if set(re.split(r"\s+", name.casefold())) & _EVERYDAY:
        return False
    glued = set(re.findall(r"[a-z]+\d+", name.casefold()))
    if not any(token in family_words() for token in (*tokens, *glued)):
        return any(phrase in name.casefold().replace("-", " ") for phrase in _PHRASES) and _fits(tokens, known)
    if name.casefold() in bundled.exact_names() or tokens in known or "".join(tokens) in resolve._glued_spellings():
        return True
    return _fits(tokens, known)


def _fits(tokens: tuple[str, ...], names: Mapping[tuple[str, ...], object]) -> bool:
    """Whether some model's name holds all of these words that matter, and none of them
    is an everyday one."""
    wanted = set(tables.without_noise(tokens))
    if not wanted:
        return False
    return any(wanted <= set(key) for key in names)


def _algorithms(text: str) -> Iterator[tuple[int, int, str]]:
    """Algorithms of classical machine learning, in both languages."""
    return ((*match.span(), match[0]) for match in _algorithm_pattern().finditer(text))


@functools.cache
def _algorithm_pattern() -> Expression:
    names = {name for row in facts.table("classical_models") for name in (row["name"], *row["aliases"].split(";"))}
    return grammar.pattern(name for name in names if (len(name) > 2 or not name.isascii()) and name not in _NO_ALGORITHM)


@functools.cache
def _chinese_names() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """(The Latin name of a model or family, its Chinese one with Latin words behind it.)"""
    found = []
    for row in facts.table("chinese_names"):
        spaced = r"\s*".join(re.findall(r"[A-Za-z]+|[^A-Za-z]+", row["chinese"]))  # "DeepSeek 满血版"
        whole = r"(?!\s*-?[A-Za-z][\w.]*\d)(?P<behind>)" if spaced != row["chinese"] else r"(?P<behind>(?:\s*[A-Za-z0-9][\w.-]*)*)"
        found.append((row["name"], re.compile(f"(?:{spaced}){whole}", re.ASCII | re.IGNORECASE)))
    return tuple(found)


def _chinese_models(text: str) -> Iterator[tuple[int, int, str]]:
    """A Chinese name of a model family, with the Latin words that follow it: "通义千问 7B"."""
    for name, pattern in _chinese_names():
        for match in pattern.finditer(text):
            yield match.start(), match.end(), f"{name} {match['behind'].strip()}".strip()


@functools.cache
def _dataset_pattern() -> Expression:
    """Names of data sets that are long and odd enough to be meant."""
    names = {record.name for record in facts.datasets().values()}
    for row in facts.table("dataset_aliases"):
        names |= {*row["aliases"].split(";"), row["name"]}
    telling = sorted((name for name in names if len(name) >= 4 and name.casefold() not in _EVERYDAY_DATASETS), key=len, reverse=True)
    parts = [re.escape(name).replace(r"\ ", r"[\s-]?").replace(r"\-", r"[\s-]?") for name in telling]
    short = sorted({name.upper() for name in names if len(name) < 4 and any(char.isdigit() for char in name)})  # C4; c4 is a server
    return Expression(rf"(?<![A-Za-z0-9_/-])(?:{'|'.join(parts)}|(?-i:{'|'.join(short)})(?!\.\w))(?![A-Za-z0-9_/-])", ignore_case=True)


def relative(text: str) -> tuple[str, str]:
    """(A well-known model of which nothing is known here, the nearest one that is known or "").
    Both empty where no such name stands in the text."""
    for pattern, model in tables.meanings("names", "relative", ignore_case=True):
        if found := pattern.search(text):
            return found[0], "" if model == "none" else model
    return "", ""
