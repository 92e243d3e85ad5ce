"""How people write quantities in a sentence, in English and Chinese: shapes of numbers, times, money, amounts of data and what stands
around them.

The words are in facts/data/words/quantities.csv, one a line; a shape names a list of them in braces. Every rule has a shape with a group
`value`
(what the option takes, in its own friendly form) and says which option it gives. The rules are in ../data/quantities.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping

from rightfit.facts import word_tables
from rightfit.records import dataclass
from rightfit.workload.vocabulary import DATA

TABLE = "quantities"


@dataclass(frozen=True, slots=True)
class GrammarRule:
    """One way to say one option. `read` makes of the match what the option takes."""

    option: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str]


def shape(text: str) -> re.Pattern[str]:
    """A shape of the words of quantities, capitals or not."""
    return word_tables.shape(TABLE, text, ignore_case=True)


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
    for pattern, value in word_tables.spelled_meanings(TABLE, "deadline")
)
WEEKDAYS = {word.word: int(word.meaning) for days in ("weekday_en", "weekday_zh") for word in word_tables.words(TABLE, days)}
BY_WEEKDAY = shape(r"{by_day}\s(?:next\s)?(?P<en>{weekday_en})(?![a-z])|(?:下)?(?P<zh>{weekday_zh}){by_day_zh}")
DEADLINES: tuple[GrammarRule, ...] = tuple(
    _rule("deadline", r"{deadline_head}?{is}(?P<value>{long_time})\s*{deadline_tail}?{done_zh}?"),
)

ENGLISH_NUMBERS = {word.word: word.meaning for word in word_tables.words(TABLE, "english_number")}
NUMBER_WORDS = re.compile(rf"(?<![\w-])({'|'.join(sorted(ENGLISH_NUMBERS, key=len, reverse=True))})(?![\w-])", re.IGNORECASE)
