"""How people write quantities in a sentence, in English and Chinese: shapes of numbers, times,
money, amounts of data and what stands around them.

The words are in facts/data/words/quantities.csv, one a line; a shape names a list of them in
braces. Every rule has a shape with a group `value` (what the option takes, in its own friendly
form) and says which option it gives. The rules are in ../data/quantities.toml.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping

from rightfit import facts
from rightfit.facts import bundled, resolve, tables
from rightfit.records import dataclass
from rightfit.workload.vocabulary import CLOUDS, COUNTRIES, DATA

TABLE = "quantities"


@dataclass(frozen=True, slots=True)
class GrammarRule:
    """One way to say one option. `read` makes of the match what the option takes."""

    option: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str]


def shape(text: str) -> re.Pattern[str]:
    """A shape of the words of quantities, capitals or not."""
    return tables.shape(TABLE, text, ignore_case=True)


def value(match: re.Match[str]) -> str:
    """What the pattern calls its value."""
    return match["value"].strip()


def _rule(option: str, *shapes: str, read: Callable[[re.Match[str]], str] = value) -> list[GrammarRule]:
    return [GrammarRule(option, shape(text), read) for text in shapes]


def _money(match: re.Match[str]) -> str:
    text = shape("{dollars_spoken}").sub("usd", match["value"])
    return text.strip() + ("/month" if match["month"] or match["before"] else "")


def _rate(match: re.Match[str]) -> str:
    period = re.sub(r"秒钟", "秒", match["period"].casefold())
    short = {"m": "min"}.get(period, period)
    return f"{match['value'].strip()}/{short.rstrip('s') if short.isascii() and len(short) > 3 else short}"


def _percentile(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def _audio(match: re.Match[str]) -> str:
    english = re.sub(r"(hours?) of \w+", "hours", match["value"], flags=re.IGNORECASE)
    return shape("小时的?{sound_zh}").sub("hours", english).strip()


def _data(match: re.Match[str]) -> str:
    """An amount with a unit that `--data` knows."""
    text = shape(r"\s*{clip_kind}?(?:video )?clips?$").sub("clips", _audio(match))
    samples, images = shape(r"\s*{sample}$"), shape(r"\s*{image}$")
    if text.isascii():
        return images.sub(" images", samples.sub(" samples", text))
    return shape(r"\s*{document_counted_zh}文档$").sub("篇", images.sub("张", samples.sub("条", text)))


def data_of(text: str) -> str:
    """An amount of data as people write it, with a unit that `--data` knows."""
    found = re.compile("(?P<value>.*)", re.DOTALL).fullmatch(text)
    assert found is not None
    return _data(found)


def _table(match: re.Match[str]) -> str:
    return f"{match['rows'].strip()}rows x {match['cols'].strip()}cols".replace(" rows", "rows").replace(" cols", "cols")


def _tokens_a_second(match: re.Match[str]) -> str:
    """Tokens a second of one user as the time between two tokens."""
    return f"{1000.0 / float(match['value'].replace(',', '')):.4g}ms"


_READERS: Mapping[str, Callable[[re.Match[str]], str]] = {
    "money": _money,
    "rate_of_period": lambda match: _rate(match) if match["period"] else f"{value(match)}/天",
    "rate_of_unit": lambda match: value(match) + ("/day" if match[0].casefold().endswith("daily") else "/s"),
    "percentile": _percentile,
    "data": _data,
    "table": _table,
    "tokens_a_second": _tokens_a_second,
}
_RULES = tomllib.loads((DATA / "quantities.toml").read_text(encoding="utf-8"))["rule"]
QUANTITIES: tuple[GrammarRule, ...] = tuple(
    rule for one in _RULES for rule in _rule(one["option"], *one["shapes"], read=_READERS[one["read"]] if "read" in one else value)
)

COUNTED = shape(r"(?<![\w.,/$€¥-])\d[\d,.]*(?:[kmbgt]|\s{multiplier_en})?\s(?P<thing>[a-z]{3,})(?![\w-])")
"""A number with the word that it counts."""
DESCRIBED = shape(
    r"(?<![\w.,-])(?P<amount>{amount})\s+(?P<between>[a-z][a-z-]{2,}(?:\s+[a-z][a-z-]{2,})?)\s+(?P<unit>{data_unit})(?![a-z])"
)
"""An amount of data with one or two words before its unit."""
DEADLINE_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"(?<![A-Za-z])(?:{pattern})(?![A-Za-z])", re.IGNORECASE), value)
    for pattern, value in tables.spelled_meanings(TABLE, "deadline")
)
WEEKDAYS = {word.word: int(word.meaning) for days in ("weekday_en", "weekday_zh") for word in tables.words(TABLE, days)}
BY_WEEKDAY = shape(r"{by_day}\s(?:next\s)?(?P<en>{weekday_en})(?![a-z])|(?:下)?(?P<zh>{weekday_zh}){by_day_zh}")
DEADLINES: tuple[GrammarRule, ...] = tuple(
    _rule("deadline", r"{deadline_head}?{is}(?P<value>{long_time})\s*{deadline_tail}?{done_zh}?"),
)

ENGLISH_NUMBERS = {word.word: word.meaning for word in tables.words(TABLE, "english_number")}
NUMBER_WORDS = re.compile(rf"(?<![\w-])({'|'.join(sorted(ENGLISH_NUMBERS, key=len, reverse=True))})(?![\w-])", re.IGNORECASE)


# ---- Words that name a choice (task, method, purchase mode, cloud, precision ...) in a sentence:
# facts/data/words/{choices,fillers}.csv as patterns.

WORDS_TABLE = "choices"


def pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Any of the names, the longest first."""
    return re.compile("|".join(map(tables.name_pattern, sorted(names, key=len, reverse=True))), re.IGNORECASE)


def listed(chosen: str, table: str = WORDS_TABLE) -> list[str]:
    """The words of one list."""
    return [word.word for word in tables.words(table, chosen)]


def _spelled(chosen: str) -> dict[str, re.Pattern[str]]:
    """Value -> pattern of its names."""
    names: dict[str, list[str]] = {}
    for word in tables.words(WORDS_TABLE, chosen):
        names.setdefault(word.meaning, []).append(word.word)
    return {value: pattern(spellings) for value, spellings in names.items()}


METHODS = _spelled("method")
UPDATES = {value: spelled for value, spelled in METHODS.items() if value in ("qlora", "dora", "lora", "full")}
TUNING_METHODS = _spelled("tuning_method")
TUNING_KINDS = _spelled("tuning_kind")
PURCHASES = _spelled("purchase")
PRECISIONS = _spelled("precision")
QUANTIZATIONS = _spelled("quantization")
OPTIMIZERS = _spelled("optimizer")
SHARDINGS = _spelled("sharding")
FRAMEWORKS = _spelled("framework")
OBJECTIVES = _spelled("objective")
MAX_NODES = _spelled("max_nodes")
UNPLANNED = _spelled("unplanned_method")
RESIDENCIES = _spelled("residency")
WEIGHTY = pattern(listed("weighty"))
"""Words of wishes that no option holds: an answer that left them out would be one
to another question."""
OWNING = pattern(listed("owning"))
"""Words before cards that somebody has already, and where such a machine stands."""
OWN_PLACES = _spelled("own_place")
TASKS = _spelled("task")
"""Words that hint at a task, the most telling task first."""
STRONG = _spelled("strong")
"""Words that say it."""
_NOT_ALONE = frozenset(listed("cloud_not_alone"))
CLOUD_NAMES = {
    **{name: name for name in listed("cloud") if name not in _NOT_ALONE},
    **{alias.replace("-", " "): cloud for alias, cloud in CLOUDS.items() if alias not in _NOT_ALONE},
    **tables.senses(WORDS_TABLE, "cloud_name"),
}
CLOUD = pattern(CLOUD_NAMES)
COUNTRY_NAMES = {
    **{alias.replace("-", " "): code for alias, code in COUNTRIES.items() if len(alias) > 2 or not alias.isascii()},
    **tables.senses(WORDS_TABLE, "continent"),
}
COUNTRY = pattern(COUNTRY_NAMES)
COUNTRY_CODES = tables.senses(WORDS_TABLE, "country_code")
_BEFORE_CODE = "|".join(f"(?<={word})" for word in listed("before_country_code"))
COUNTRY_CODE = tables.shape(WORDS_TABLE, rf"(?:{_BEFORE_CODE})(?P<code>{{country_code}})(?![A-Za-z])")
REGION = tables.shape(WORDS_TABLE, r"(?<![\w-])(?:{region_start}-[a-z]+(?:-?[a-z]+)?-?\d?[a-z]?|{region_start_whole}-[a-z]+\d)(?![\w-])")
CITY = pattern(listed("city"))
FILLERS = frozenset(listed("filler_en", "fillers"))
NO_ADJECTIVES = frozenset(listed("no_adjective", "fillers"))
"""Words that say nothing of the thing after them: what stands before them counts something else."""
FILLERS_ZH = tables.shape("fillers", "{filler_zh}")


def is_of_machine(piece: str) -> bool:
    """Whether words that were left over tell of a machine of one's own, or where it stands."""
    return bool(OWNING.fullmatch(piece) or any(spelled.fullmatch(piece) for spelled in OWN_PLACES.values()))


# ---- Names in a sentence: models, accelerators, data sets, by what the facts know.

HUB_ID = re.compile(r"(?<![\w./-])[A-Za-z0-9][\w.-]{1,60}/[A-Za-z0-9][\w.-]{1,90}(?<![.,])")
PATH = re.compile(r"(?<![\w])(?:\.{0,2}/|~/)[\w./-]+")
BARE_SIZE = tables.shape(
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
_GPU = tables.shape("names", r"(?<![A-Za-z0-9]){gpu_maker}*{gpu}(?:[- ]?{gpu_form})*(?:s)?(?![A-Za-z0-9])", ignore_case=True)


def gpu_matches(text: str) -> list[tuple[int, int, str]]:
    """(start, end, name) of the accelerators in a sentence. A plural "s" is dropped where the name
    without it is the known one."""
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
    for entry in bundled.index():
        for name in (entry.name, *entry.aliases):
            words.update(token for token in tables.tokens(tables.base_name(name)) if len(token) > 2 and not token[0].isdigit())
    return frozenset((words - _COMMON - _PLAIN_WORDS) | _ALONE)


def model_match(text: str) -> tuple[int, int, str] | None:
    """(start, end, name) of the model in a sentence: the longest run of words that the
    facts know as one."""
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
    tokens = tables.tokens(tables.base_name(name))
    known = resolve._spellings()
    if len(tokens) > 1 and (name.casefold() in bundled.exact_names() or tokens in known):
        return not set(tokens) <= _COMMON | _PLAIN_WORDS or len(tokens) > 2 or name.casefold() in _PHRASES
    glued = set(re.findall(r"[a-z]+\d+", name.casefold()))
    if not any(token in _family_words() for token in (*tokens, *glued)):
        return any(phrase in name.casefold().replace("-", " ") for phrase in _PHRASES) and _fits(tokens, known)
    if name.casefold() in bundled.exact_names() or tokens in known or "".join(tokens) in resolve._glued_spellings():
        return True
    return _fits(tokens, known)


def _fits(tokens: tuple[str, ...], names: Mapping[tuple[str, ...], object]) -> bool:
    """Whether some model's name holds all of these words that matter, and none of them
    is an everyday one."""
    wanted = set(tables.without_noise(tokens))
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
