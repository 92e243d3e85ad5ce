"""Names in a sentence: models, accelerators, data sets, by what the facts know."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from rightfit import facts
from rightfit.facts import architectures, fuzzy, resolve, word_tables
from rightfit.workload.ask.words import listed

HUB_ID = re.compile(r"(?<![\w./-])[A-Za-z0-9][\w.-]{1,60}/[A-Za-z0-9][\w.-]{1,90}(?<![.,])")
PATH = re.compile(r"(?<![\w])(?:\.{0,2}/|~/)[\w./-]+")
BARE_SIZE = word_tables.shape(
    "names",
    r"(?<![A-Za-z0-9.])(?P<latin>\d+(?:\.\d+)?\s?[BM])(?:[- ]?{size_after})?(?![A-Za-z0-9])"
    r"|(?P<han>\d+(?:\.\d+)?|[一二三四五六七八九十百]+)\s?(?P<unit>{size_unit_zh})\s?{size_after_zh}",
    ignore_case=True,
)
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]*(?:\s+[A-Za-z0-9][A-Za-z0-9.+_-]*)*")
_WORD = re.compile(r"\S+")
_LONGEST_WINDOW = 6
_COMMON, _ALONE, _PLAIN_WORDS, _EVERYDAY, _EVERYDAY_DATASETS = (
    frozenset(listed(chosen, "names")) for chosen in ("common", "alone", "plain", "everyday", "dataset_everyday")
)
_PHRASES = tuple(listed("phrase", "names"))
_GPU = word_tables.shape("names", r"(?<![A-Za-z0-9]){gpu_maker}*{gpu}(?:[- ]?{gpu_form})*(?:s)?(?![A-Za-z0-9])", ignore_case=True)


def gpu_matches(text: str) -> list[tuple[int, int, str]]:
    """(start, end, name) of the accelerators in a sentence. A plural "s" is dropped where the name without it is the known one."""
    found = []
    for match in _GPU.finditer(text):
        name = match[0].strip()
        for candidate in (name, name.rstrip("sS"), "RTX " + name if name[0].isdigit() else name):
            if facts.match_accelerators(candidate):
                found.append((match.start(), match.end(), candidate))
                break
    return found


@functools.cache
def _family_words() -> frozenset[str]:
    """Words that begin or carry the names of known models, without those of everyday language."""
    words: set[str] = set()
    for entry in architectures.index():
        for name in (entry.name, *entry.aliases):
            words.update(token for token in fuzzy.tokens(fuzzy.base_name(name)) if len(token) > 2 and not token[0].isdigit())
    return frozenset((words - _COMMON - _PLAIN_WORDS) | _ALONE)


def model_match(text: str) -> tuple[int, int, str] | None:
    """(start, end, name) of the model in a sentence: the longest run of words that the facts know as one."""
    best: tuple[int, int, str] | None = None
    for run in _RUN.finditer(text):
        words = [(run.start() + word.start(), run.start() + word.end()) for word in _WORD.finditer(run[0])]
        for size in range(min(_LONGEST_WINDOW, len(words)), 0, -1):
            for first in range(len(words) - size + 1):
                start, end = words[first][0], words[first + size - 1][1]
                name = text[start:end].strip(".,-")
                if (best is None or len(name) > best[1] - best[0]) and is_model(name):
                    best = (start, start + len(name), name)
    return best


@functools.lru_cache(maxsize=4096)
def is_model(name: str) -> bool:
    """Whether the facts know a model by these words, all of which matter."""
    tokens = fuzzy.tokens(fuzzy.base_name(name))
    known = resolve._spellings()
    if len(tokens) > 1 and (name.casefold() in architectures.exact_names() or tokens in known):
        return not set(tokens) <= _COMMON | _PLAIN_WORDS or len(tokens) > 2 or name.casefold() in _PHRASES
    glued = set(re.findall(r"[a-z]+\d+", name.casefold()))
    if not any(token in _family_words() for token in (*tokens, *glued)):
        return any(phrase in name.casefold().replace("-", " ") for phrase in _PHRASES) and _fits(tokens, known)
    if name.casefold() in architectures.exact_names() or tokens in known or "".join(tokens) in resolve._glued_spellings():
        return True
    return _fits(tokens, known)


def _fits(tokens: tuple[str, ...], names: Mapping[tuple[str, ...], object]) -> bool:
    """Whether some model's name holds all of these words that matter, and none of them is an everyday one."""
    wanted = set(fuzzy.without_noise(tokens))
    if not wanted or set(tokens) & _EVERYDAY:
        return False
    return any(wanted <= set(key) for key in names)


def chinese_model(text: str) -> tuple[int, int, str] | None:
    """A Chinese name of a model family, with the Latin words that follow it: "通义千问 7B"."""
    for row in sorted(facts.table("chinese_names"), key=lambda row: -len(row["chinese"])):
        match = re.search(re.escape(row["chinese"]) + r"(?:\s*[A-Za-z0-9][\w.-]*)*", text)
        if match:
            return match.start(), match.end(), match[0].replace(row["chinese"], row["name"] + " ").strip()
    return None


@functools.cache
def _dataset_pattern() -> re.Pattern[str]:
    """Names of data sets that are long and odd enough to be meant."""
    names = {row["name"] for row in map(_named, facts.datasets().values()) if _is_telling(row["name"])}
    for row in facts.table("dataset_aliases"):
        names |= {alias for alias in row["aliases"].split(";") if _is_telling(alias)} | {row["name"]}
    parts = [re.escape(name).replace(r"\ ", r"[\s-]?").replace(r"\-", r"[\s-]?") for name in sorted(names, key=len, reverse=True)]
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(parts)})(?![\w/-])", re.IGNORECASE)


def _named(record: object) -> dict[str, str]:
    return {"name": str(getattr(record, "name", ""))}


def _is_telling(name: str) -> bool:
    return len(name) >= 4 and name.casefold() not in _EVERYDAY_DATASETS


def dataset_match(text: str) -> tuple[int, int, str] | None:
    """(start, end, name) of a data set that the facts know."""
    match = _dataset_pattern().search(text)
    return (match.start(), match.end(), match[0]) if match else None
