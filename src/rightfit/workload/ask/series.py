"""Amounts that are told by their parts: rows of tables of embeddings by their width, points of time
series by how many there are, how long and how often. What is assumed is kept in
`Sentence.assumed`, for the answer to say.
"""

from __future__ import annotations

import re

from rightfit.facts import tables
from rightfit.facts.classical import classical_model
from rightfit.messages import Message
from rightfit.units import SECONDS_PER_DAY, format_bytes, format_count, parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.names import names_in
from rightfit.workload.ask.sentence import Reading, Sentence

_RECOMMENDS = grammar.pattern(word for word, kind in grammar.KINDS_OF_DATA.items() if kind == "recommendation")
_VECTOR_ROWS = grammar.shape(
    r"(?<![\d.,])(?P<rows>{amount})(?!\d)\s*(?:[a-z]+\s|{rated_counter}){0,2}?(?:{raters}|{things_rated}|{table_rows}|[一-鿿]{1,4})?\s*(?:{vector_joint}\s*)*{vector_name}?\s*(?:{vector_joint}\s*)*"
    r"(?P<width>\d{1,4})[\s-]?{vector_width}(?:的)?(?:\s?{vector_name})?"
)
_FP32_BYTES = 4.0


def read_vector_rows(sentence: Sentence) -> None:
    """Rows of a recommender's tables and the numbers of each: "20M ids x 64 dims". They are no
    vectors to be searched."""
    if not (_RECOMMENDS.search(sentence.whole) or grammar.RECOMMENDER.search(sentence.whole)):
        return
    size, words = 0.0, []
    for found in list(_VECTOR_ROWS.finditer(sentence.text)):
        rows = parse_count(found["rows"].replace(" ", ""))
        size += rows * int(found["width"]) * _FP32_BYTES
        words.append(sentence.blank(*found.span()).strip(" ,，、"))
        sentence.assumed.append(
            Message(
                "workload.assumed_vector_rows",
                rows=format_count(rows),
                width=found["width"],
                size=format_bytes(rows * int(found["width"]) * _FP32_BYTES),
            )
        )
    if size:
        sentence.vector_tables = ("; ".join(words), size)


def settle_vector_rows(sentence: Sentence) -> None:
    """The tables are the recommender's: the usual one of ranking, where none is named."""
    words, size = sentence.vector_tables
    if not size:
        return
    told = next((reading for reading in sentence.readings if reading.option == "model"), None)
    if told is not None:
        sentence.readings.remove(told)
    name = told.value if told else tables.words("names", "usual_recommender")[0].word
    said = f"{told.words}; {words}" if told else words
    sentence.readings.append(Reading("model", f"{name} {size / 1e9:.4g} GB tables", said))


_VECTOR_TABLE = grammar.shape(
    r"(?<![\w.,-])(?P<rows>{amount})\s(?:[a-z]+\s)?(?P<width>\d{2,5})[\s-]?{vector_width}\s?(?:[a-z]+\s)?{vector_name}(?![a-z])"
    r"|(?<![\w.,-])(?P<many>{amount})\s(?:[a-z]+\s)?{vector_name}\s*(?:{vector_joint}\s*)*\(?(?P<of>\d{2,5})[\s-]?{vector_width}\)?(?![a-z])"
    r"|(?P<zh>{amount})\s*[个条]?\s*(?P<wide>\d{2,5})\s*维(?:的)?{vector_name}"
)


def read_vector_table(sentence: Sentence) -> bool:
    """Vectors that an algorithm for tables works on are rows of so many columns: "kmeans on 50M
    embeddings of 768 dim"."""
    found = _VECTOR_TABLE.search(sentence.text)
    if found is None or not any(name.kind == "model" and classical_model(name.value) is not None for name in names_in(sentence.text)):
        return False
    rows, width = _first(found, "rows", "many", "zh"), _first(found, "width", "of", "wide")
    sentence.take(*found.span(), "data", f"{rows}rows x {width}cols")
    return True


_FORECASTS = grammar.shape("(?<![A-Za-z]){forecasting}(?![a-z])|{forecasting}(?<=[一-鿿])")
_HISTORY = grammar.shape(
    r"(?<![\w.,])(?P<en>{amount})[\s-]?(?P<unit>{series_span})(?:'s?)?(?:\s{series_of})*\s(?:[a-z0-9-]+\s){0,4}?{series_history}(?![a-z])"
    r"|(?<![A-Za-z]){series_past}\s(?P<past>{amount})\s(?P<past_unit>{series_span})(?![a-z])"
    r"|(?<=[,;]\s)(?P<alone>{amount})\s(?P<alone_unit>{series_years})(?=\s*(?:[,;.]|$))"
    r"|{series_past_zh}?\s*(?P<zh>{number})\s*个?(?P<unit_zh>{series_span_zh})的?(?:[一-鿿]{0,2}?){series_history_zh}|{series_past_zh}\s*(?P<last>{number})\s*个?(?P<last_unit>{series_span_zh})"
)
_INTERVAL = grammar.shape(
    r"(?<![A-Za-z]){interval_head}\s(?:(?P<en>{digits})\s?)?(?P<unit>{interval_unit})(?![a-z])"
    r"|(?:(?<![A-Za-z])at\s)?(?:an?\s)?(?<![\w.,])(?P<many>{digits})[\s-]?(?P<many_unit>{interval_unit})[\s-]{interval_tail}(?![a-z])"
    r"|(?<![A-Za-z])(?P<word>{interval_word})(?![a-z])"
    r"|每(?:隔)?\s*(?P<zh>{number})?\s*个?(?P<unit_zh>{interval_unit_zh})(?:的)?{interval_tail_zh}?"
    r"|(?P<tail>{number})\s*个?(?P<tail_unit>{interval_unit_zh})(?:的)?{interval_tail_zh}|(?:逐|按)(?P<each>{interval_unit_zh})|(?P<level>{interval_unit_zh})(?={interval_behind_zh})"
)
_POINT_OF_TIME = grammar.shape(
    r"每(?:隔)?\s*{number}?\s*个?{interval_unit_zh}(?:的)?{one_point_zh}|{number}\s*个?{interval_unit_zh}(?:的)?{one_point_zh}"
    r"|(?:(?<![A-Za-z])at\s)?(?<![\w.,]){digits}[\s-]?{interval_unit}[\s-]{interval_only}(?![a-z])"
)
"""An interval that nothing else can be, whatever stands beside it."""
_SURE = grammar.shape("(?<![A-Za-z]){forecasting_sure}(?![a-z])|{forecasting_sure}(?<=[一-鿿])")
_SERIES_THING = grammar.shape(r"(?:^|\s){series_thing}$|^{series_thing}(?<=[一-鿿])")
_ROWS = grammar.shape(r"(?<![\w.,-]){amount}\s*{row}")
#: Between two points of a series of which only its length is told [s].
_USUAL_INTERVAL = SECONDS_PER_DAY


def _first(found: re.Match[str], *names: str) -> str:
    return next((value for name in names if (value := found[name])), "")


def _seconds(found: re.Match[str], amounts: tuple[str, ...], units: tuple[str, ...]) -> float:
    unit = _first(found, *units)
    return parse_count(_first(found, *amounts).replace(" ", "") or "1") * float(
        tables.meaning(grammar.TABLE, "time_unit", unit, ignore_case=True)
    )


def read_series(sentence: Sentence) -> None:
    """Points of time series: how many series, how long and how often. How often a series is
    measured is no time in which the work must end."""
    history = _HISTORY.search(sentence.text) if _FORECASTS.search(sentence.whole) else None
    if history is None:
        for found in list(_POINT_OF_TIME.finditer(sentence.text)):
            sentence.note(*found.span())
        return
    span = _seconds(history, ("en", "past", "alone", "zh", "last"), ("unit", "past_unit", "alone_unit", "unit_zh", "last_unit"))
    told = _INTERVAL.search(sentence.text)
    each = _USUAL_INTERVAL
    if told:
        word = told["word"]
        each = (
            float(tables.meaning(grammar.TABLE, "interval_word", word, ignore_case=True))
            if word
            else _seconds(told, ("en", "many", "zh", "tail"), ("unit", "many_unit", "unit_zh", "tail_unit", "each", "level"))
        )
    words = [sentence.text[slice(*one.span())].strip(" ,，、的") for one in (history, told) if one]
    for one in filter(None, (history, told)):
        sentence.blank(*one.span())
    if sentence.has("data") or _ROWS.search(sentence.text) or not 0 < each < span or not (told or _SURE.search(sentence.whole)):
        sentence.noted += words
        return
    number = 1.0
    for pattern in (grammar.COUNTED_NOUN, grammar.COUNTED_NOUN_ZH):
        for found in pattern.finditer(sentence.text):
            many = parse_count(found["amount"].replace(" ", ""))
            if many > 1 and (_SERIES_THING.search(found["thing"]) or not grammar.NO_THING.search(found["thing"])):
                number *= many
                words.append(sentence.blank(*found.span()).strip(" ,，、"))
                break
    points = number * span / each
    sentence.readings.append(Reading("data", f"{points:.0f} samples", "; ".join(words)))
    sentence.is_series = True
    sentence.assumed.append(
        Message("workload.assumed_series", series=f"{number:,.0f}", steps=f"{span / each:,.0f}", points=f"{points:,.0f}")
    )
