"""How people write quantities in a sentence, in English and Chinese: shapes of numbers, times, money, amounts of data and what stands
around them.

The words are in facts/data/words/quantities.csv, one a line; a shape names a list of them in braces. Every rule has a shape with a group
`value`
(what the option takes, in its own friendly form) and says which option it gives. Rules are tried in order; what one has read, no later one
sees.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rightfit.facts import word_tables
from rightfit.records import dataclass

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


QUANTITIES: tuple[GrammarRule, ...] = (
    *_rule(
        "images",
        r"(?P<value>{digits})\s*{image_counted}\s*{each_period}\s*{request_seen}(?![a-z])",
        r"{request_seen_zh}{holds_zh}?{is}(?P<value>{digits})\s*{image_counted_zh}",
    ),
    *_rule("ttft", r"{ttft}{is}(?P<value>{short_time}){most}?", r"(?P<value>{short_time})\s*{ttft_after}"),
    *_rule("tpot", r"{tpot}{is}(?P<value>{short_time}){most}?", r"(?P<value>{short_time})\s*{tpot_after}"),
    *_rule(
        "tpot",
        r"(?P<value>{digits})\s*{token_spoken}\s*{each_second}\s*{second}\s*{each_user}\s*{user}",
        r"每个?{user_zh}(?:每秒)\s*(?P<value>{digits})\s*(?:个)?\s*{token_user_zh}",
        read=_tokens_a_second,
    ),
    *_rule(
        "percentile",
        r"\bp(\d{2}(?:\.\d+)?)(?![a-z0-9])|(\d{2}(?:\.\d+)?){ordinal}?[- ]percentile|(\d{2}(?:\.\d+)?)\s?分位|(\d{2})\s?% of {percentile_of}",
        read=_percentile,
    ),
    *_rule(
        "latency",
        r"{latency_en}{is}(?P<value>{short_time})",
        r"(?P<value>{short_time})\s*(?:of\s)?{latency_after}",
        r"{latency_zh}{is}(?P<value>{short_time}){most}?",
        r"(?P<value>{short_time})\s*(?:的)?{most}?(?:的)?{latency_zh}",
        r"{within}\s(?P<value>{number}\s?ms)(?![a-z])",
        r"{within}\s(?P<value>{number}\s?{short_unit})(?![a-z])(?!\s*{length_follows}(?![a-z]))(?!\s*{sound_counted})",
        r"(?P<value>{number}\s?{short_unit})\s*(?:的)?{most}(?:的)?{answered_zh}?",
    ),
    *_rule(
        "completions",
        r"(?P<value>{digits})(?=\s*{completion}(?![a-z]))",
        r"(?P<value>{digits})(?=\s*{completion_plain}\s*{each_period}\s*{prompt_counted}(?![a-z]))",
        r"每{prompt_counter_zh}?{prompt_counted_zh}{completion_doing_zh}?\s*(?P<value>{digits})\s*{completion_counter_zh}{completion_zh}?",
    ),
    *_rule(
        "budget",
        r"(?P<before>{before_month})?\s*(?:的)?{budget}?{is}(?P<value>{money_sign}\s?{amount})(?P<month>{a_month})?",
        r"(?P<before>{before_month})?\s*(?:的)?{budget}?{is}(?P<value>{amount}\s?{money_unit}(?![a-z]))(?P<month>{a_month})?{most}?",
        read=_money,
    ),
    *_rule(
        "rate",
        r"(?P<value>{amount})\s*{request}?\s*{each_period}\s*(?P<period>{period}(?![a-z]))",
        r"{every_zh}\s*(?P<period>{period_zh})?\s*{about_zh}?\s*(?P<value>{amount})\s*{requests_zh}(?=[^\d]|$)",
        r"(?P<value>{amount})\s*{requests_zh}\s*/\s*(?P<period>{period_zh})",
        read=lambda match: _rate(match) if match["period"] else f"{value(match)}/天",
    ),
    *_rule(
        "rate",
        r"(?P<value>{amount})\s*{rate_unit}(?![a-z])",
        r"{rate_unit}{is}(?P<value>{amount})",
        r"(?P<value>{amount})\s*{request}\s*(?:daily)(?![a-z])",
        read=lambda match: value(match) + ("/day" if match[0].casefold().endswith("daily") else "/s"),
    ),
    *_rule(
        "users",
        r"(?P<value>{amount})\s*{at_once_en}?\s*{people}(?:\s{at_once_after})?",
        r"{concurrency}{is}(?P<value>{amount})",
        r"(?P<value>{amount})\s*{at_once_plain}(?:\s{at_once_things})?",
        r"{concurrency_zh}{is}(?P<value>{amount})\s*{user_count_zh}?",
        r"(?P<value>{amount})\s*{user_counted_zh}?\s*{at_once_zh}{at_once_doing_zh}?",
        r"(?P<value>{amount})\s*{person_counted_zh}?\s*{people_zh}{together_zh}?{doing_zh}?",
    ),
    *_rule("data", r"(?P<rows>{amount})\s*{row}\s*{by}?\s*(?P<cols>{amount})\s*{column}", read=_table),
    *_rule("columns", r"(?P<value>{digits})\s*{column}(?![a-z])"),
    *_rule("epochs", r"(?P<value>{number})\s*{epoch}", r"epochs?\s*(?:=|:|of)\s*(?P<value>{digits})"),
    *_rule(
        "input_tokens",
        r"{input_head}\s*{length}?{is}(?P<value>{digits}k?)\s*{token_length}?{length_ends}",
        r"(?P<value>{digits}k?)[- ](?:tokens? )?(?:token )?{input_after}{length_end}?(?![a-z])",
        r"(?P<value>{digits}k?)\s*{token_counted}\s*(?:的)?{input_tail}(?![a-z])",
        r"(?P<value>{digits}k?)\s(?:in)(?=[,/ ]+\s?{digits}k?\s(?:out))",
    ),
    *_rule(
        "output_tokens",
        r"{output_head}\s*{length}?{is}(?P<value>{digits}k?)\s*{token_length}?{length_ends}",
        r"(?P<value>{digits}k?)[- ](?:tokens? )?(?:token )?{output_after}{length_end}?(?![a-z])",
        r"(?P<value>{digits}k?)\s*{token_counted}\s*(?:的)?{output_tail}(?![a-z])",
        r"(?P<value>{digits}k?)\s{output_short}(?![a-z])",
    ),
    *_rule(
        "seq_len",
        r"{context}{is}(?P<value>{digits}k?)\s*{token_plain}?(?![\w%])",
        r"(?P<value>{digits}k?)[- ]?{token_start}?{context_after}(?:\s{context_end})?(?![a-z])",
    ),
    *_rule(
        "global_batch",
        r"(?:global\s)?batch[- _]?(?:size)?{is}(?P<value>{digits}k?)(?![\w%])",
        r"{batch_zh}{is}(?P<value>{digits}k?)(?![\w%])",
        r"(?P<value>{digits}) sequences per step",
    ),
    *_rule(
        "image_size",
        r"(?<![\w.])(?P<value>\d{3,5}\s?[x\u00d7*]\s?\d{3,5})(?:\s*{pixel_after})?(?![\w.])",
        r"(?<![\w.])(?P<value>\d{2,5})\s*{pixel_after}(?![a-z])",
    ),
    *_rule("denoise_steps", r"(?P<value>{digits})[- ]?{step_after}(?![a-z])", r"{step_head}{is}(?P<value>{digits})(?![\w%])"),
    *_rule("frames", r"(?P<value>{digits})[- ]?{frame}(?!\s*{each_period}\s*{second})(?![a-z])"),
    *_rule(
        "audio_length",
        r"(?P<value>{sound_time})[- ](?:long )?{sound_counted}(?![a-z])",
        r"{sound_each}{is}(?P<value>{sound_time})",
        r"(?P<value>{sound_time})\s*的{sound_counted_zh}",
    ),
    *_rule("lora_rank", r"{rank}\s?[=:]?\s?(?P<value>\d+)", r"\br\s?=\s?(?P<value>\d+)"),
    *_rule(
        "data",
        r"(?P<value>{amount}\s*{data_unit}(?![a-z]))",
        r"(?P<value>{size})(?!\s*(?:的)?{memory_follows})(?:\s*(?:的)?(?:of )?(?:training )?{data_named})?",
        read=_data,
    ),
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
