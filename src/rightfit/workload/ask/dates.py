"""The time by which the work must be done, by a calendar: a date, hours of a night, the next
morning, a weekday, the end of a week or month. What is assumed is kept in `Sentence.assumed`.
"""

from __future__ import annotations

import calendar
import datetime
import re

from rightfit.facts import tables
from rightfit.facts.expressions import Expression
from rightfit.messages import Message
from rightfit.units import parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Reading, Sentence

_UNTIL = r"(?<![a-z]){until_day}\s(?:the\s)?"
_DATE = grammar.shape(
    _UNTIL + r"(?:(?P<month>{month_name})\.?\s(?P<day>\d{1,2}){ordinal}?(?:,?\s(?P<year>20[2-9]\d))?"
    r"|(?P<first>\d{1,2}){ordinal}?\s(?:of\s)?(?P<named>{month_name})(?:,?\s(?P<of>20[2-9]\d))?"
    r"|(?P<iso>20\d\d[-/.]\d{1,2}[-/.]\d{1,2})|(?P<dotted>\d{1,2}\.\d{1,2}\.20\d\d)|(?P<short>\d{1,2}/\d{1,2})(?:/(?P<last>20\d\d))?|(?P<only>\d{1,2}){ordinal})(?![\w/-])"
    r"|(?:在|于|到|至)?(?:(?P<year_zh>20\d\d)年)?(?P<month_zh>\d{1,2}|[一二三四五六七八九十]{1,2})月(?P<day_zh>\d{1,2}|[一二三四五六七八九十]{1,3})[日号](?!\s*{begins_zh}){before_done_zh}?"
    r"|(?P<only_zh>\d{1,2})[号日]{before_done_zh}"
)
_HOURS_OF_DAY = {word.word: int(word.meaning) for part in ("part_of_day", "part_of_day_zh") for word in tables.words(grammar.TABLE, part)}
_AT = r"(?:(?P<hour#>\d{1,2})(?::(?P<minute#>\d\d))?\s?(?P<half#>{half_of_day})|(?P<part#>{part_of_day}))"
_MOMENT = grammar.shape(
    rf"{_UNTIL}(?:(?P<day>tomorrow|{{weekday_en}}),?\s(?:at\s|by\s|around\s)?{_AT.replace('#', '1')}|{_AT.replace('#', '2')}\s(?:on\s)?(?P<later>tomorrow|{{weekday_en}}))(?![a-z])"
    r"|(?:在|到)?(?P<zh>明天|后天)(?P<part3>{part_of_day_zh})(?:(?P<hour3>\d{1,2}|[一二两三四五六七八九十]{1,3})点(?P<minute3>半)?)?{before_done_zh}"
)
_WINDOW = grammar.shape(
    r"{window_start}?\s*(?<![\d:])(?P<from>\d{1,2})(?::00)?\s?(?P<half>{half_of_day})?\s?{window_joint}\s?(?P<to>\d{1,2})(?::00)?\s?(?P<other>{half_of_day})(?![a-z])"
    r"|(?:从)?(?P<when>{night_zh})?(?:的)?\s*(?P<first>\d{1,2}|[零一二两三四五六七八九十]{1,3})\s*点(?:钟)?\s*(?:到|至|-|~)\s*{next_day_zh}?(?P<then>{dawn_zh})?\s*(?P<last>\d{1,2}|[零一二两三四五六七八九十]{1,3})\s*点(?:钟)?(?:之?间)?"
)
_LEARNS = Expression("|".join(grammar.STRONG[task].pattern for task in ("train", "finetune")), ignore_case=True)
_EACH_DAY = grammar.shape("(?<![a-z])(?:{each_day})(?![a-z])|{each_day_zh}")
_ONCE_A_DAY = grammar.shape("(?<![a-z]){once_a_day}(?![a-z])|{once_a_day_zh}")
_NIGHTLY = grammar.shape("(?<![a-z]){each_night}(?![a-z])|{each_night_zh}")
_NEXT_DAY = grammar.shape(
    r"(?:{result_ready}\s)?(?:{until}|at)\s(?P<en>\d{1,2})(?::(?P<minutes>\d\d))?\s?(?P<half>{half_of_day})?\s?(?:o'clock\s)?(?:on\s|of\s)?(?:the\s)?{next_day_en}"
    r"|{until}\s(?:the\s)?{next_day_en}\s(?:{until}|at)\s(?P<after>\d{1,2})\s?(?P<late>{half_of_day})?(?![a-z])"
    r"|(?:到|在)?{next_day_zh}(?:的)?(?P<part>{clock_part_zh})?(?P<zh>\d{1,2}|[一二两三四五六七八九十]{1,3})点(?:钟)?(?P<more>半)?{before_zh}?(?:就)?{must_zh}?{finished_at_zh}?"
)
_CALENDAR = grammar.shape(
    r"(?:{until}\s)?(?:the\s)?end of (?P<next>next week)|{until}?\s?(?:the\s)?end of (?P<month>{this_month})|{until}?\s?(?:the\s)?end of (?P<later>next month)"
    r"|下(?:个)?(?P<weekend>周末){by_end_zh}?|(?:这个?|本)?(?P<zh>月底){by_end_zh}?|下个?(?P<zh_later>月底){by_end_zh}?"
)
_WEEKDAY = grammar.shape(
    r"{by_day}\s(?:the\s)?(?P<this>this|coming)\s(?P<en>{weekday_en})(?![a-z])"
    r"|(?P<zh>[这本]个?)(?P<day>{weekday_zh}){part_of_day_zh}?{by_day_zh}|(?P<next>下个?)(?P<later>{weekday_zh}){part_of_day_zh}?{by_day_zh}"
)
_UNREAD_DAY = tables.shape(
    grammar.TABLE,
    r"(?<![A-Za-z])(?:{until}|due)\s(?:the\s)?(?P<en>[A-Z][a-z]+(?:\s(?:\d{1,2}|[A-Z][a-z]+))?|{unread_day})(?![\w-])"
    r"|(?P<zh>(?!{no_unread_day_zh})[一-鿿]{1,4}(?<![之以提目当])前)(?=\s*(?:[,，。;；]|要|完成|交|出|做|跑|$))",
)


def read_dates(sentence: Sentence, today: datetime.date) -> None:
    """A deadline by its date or by the hour of a day to come."""
    if (found := _MOMENT.search(sentence.text)) and not _is_morning(found):
        hours = _hours_to(found, today)
        sentence.take(*found.span(), "deadline", f"{hours:g}h")
        sentence.assumed.append(Message("workload.assumed_clock", hours=f"{hours:g}"))
    elif found := _DATE.search(sentence.text):
        day = _date(found, today)
        if day is None or day < today:
            sentence.ask(*found.span())
            return
        hours = (day - today).days * 24
        sentence.take(*found.span(), "deadline", f"{hours or 12}h")
        sentence.assumed.append(
            Message("workload.assumed_date", date=day.isoformat(), hours=hours) if hours else Message("workload.assumed_today", hours=12)
        )


_TODAY = grammar.shape(
    r"[(（,，;]?\s*(?<![A-Za-z]){today_is}\s*(?:(?P<en>{weekday_en})(?![a-z])(?:\s{today_also}(?![a-z]))?|(?P<zh>{weekday_zh}))\s*[)）]?"
    r"|[(（,，;]\s*(?:{it_is}\s)?(?P<bare>{weekday_en})\s{today_also}(?![a-z])\s*[)）]?"
)


def read_today(sentence: Sentence, today: datetime.date) -> datetime.date:
    """Today by what a sentence says of it: "must be done by Monday (today is Friday)"."""
    if not (found := _TODAY.search(sentence.text)):
        return today
    sentence.blank(*found.span())
    day = grammar.WEEKDAYS[(found["en"] or found["zh"] or found["bare"]).casefold()]
    return today + datetime.timedelta(days=(day - today.weekday()) % 7)


_RESTATED = grammar.shape(
    rf"{grammar.BLANK}\s*(?:[(（]\s*(?:{{same_time}}\s*)*(?P<inside>{{long_time}})(?:\s{{from_now}})?\s*[)）]|[,，]?\s*(?:{{same_time}}\s*)+(?P<behind>{{long_time}})(?:\s{{from_now}})?(?![a-z]))"
)


def settle_restated(sentence: Sentence) -> None:
    """A deadline that is told twice, "by tomorrow evening (24 h)": the number settles it."""
    told = next((reading for reading in sentence.readings if reading.option == "deadline"), None)
    found = _RESTATED.search(sentence.text) if told else None
    if told is None or found is None:
        return
    words = sentence.blank(*found.span()).strip(" (（)）")
    sentence.readings[sentence.readings.index(told)] = Reading("deadline", _first(found, "inside", "behind"), f"{told.words} ({words})")
    sentence.assumed = [one for one in sentence.assumed if one.key not in _CLOCKS]


#: What a deadline by a clock or a calendar takes on trust.
_CLOCKS = ("workload.assumed_clock", "workload.assumed_date", "workload.assumed_today", "workload.assumed_midnight")


def _is_morning(found: re.Match[str]) -> bool:
    """A morning without its hour, which words for a night read."""
    return not _first(found, "hour1", "hour2", "hour3") and _HOURS_OF_DAY.get(_first(found, "part1", "part2", "part3").casefold()) == 9


def _hours_to(found: re.Match[str], today: datetime.date) -> float:
    """Hours from the coming midnight to a moment of tomorrow or of a weekday."""
    named = _first(found, "day", "later", "zh").casefold()
    ahead = {"tomorrow": 1, "明天": 1, "后天": 2}.get(named) or (grammar.WEEKDAYS[named] - today.weekday()) % 7 or 7
    part = _first(found, "part1", "part2", "part3").casefold()
    clock = float(_HOURS_OF_DAY.get(part, 0))
    if hour := _first(found, "hour1", "hour2", "hour3"):
        minutes = _first(found, "minute1", "minute2", "minute3")
        clock = _clock(hour, _first(found, "half1", "half2") or part) + (0.5 if minutes == "半" else float(minutes or 0) / 60)
    return (ahead - 1) * 24 + clock


def _date(found: re.Match[str], today: datetime.date) -> datetime.date | None:
    """The day that is meant; without its year the next one that comes. None where two days could
    be meant, or none is."""
    if name := _first(found, "month", "named"):
        parts = [
            _first(found, "year", "of"),
            int(tables.meaning(grammar.TABLE, "month_name", name, ignore_case=True)),
            _first(found, "day", "first"),
        ]
    elif found["iso"]:
        parts = [*re.split(r"[-/.]", found["iso"])]
    elif found["dotted"]:
        parts = [*reversed(found["dotted"].split("."))]
    elif found["short"]:
        first, second = (int(part) for part in found["short"].split("/"))
        if first <= 12 and second <= 12 and first != second:
            return None  # 5/12: in May or in December
        parts = [found["last"] or "", min(first, second) if max(first, second) > 12 else first, max(first, second)]
    elif found["month_zh"]:
        parts = [found["year_zh"] or "", found["month_zh"], found["day_zh"]]
    else:
        day = int(_first(found, "only", "only_zh"))
        parts = ["", today.month % 12 + 1 if day < today.day else today.month, day]
    year, month, day = (int(parse_count(str(part))) if part else 0 for part in parts)
    try:
        meant = datetime.date(year or today.year, month, day)
        return meant.replace(year=today.year + 1) if not year and meant < today else meant
    except ValueError:
        return None


def read_calendar(sentence: Sentence, today: datetime.date) -> None:
    """A deadline by the calendar: hours of a night, the next morning, the end of a week or month,
    a weekday."""
    if sentence.has("deadline"):
        return
    if found := _NEXT_DAY.search(sentence.text):
        hour = _clock(_first(found, "en", "after", "zh"), _first(found, "half", "late", "part"))
        minutes = float(found["minutes"] or (30 if found["more"] else 0))
        if 0 < hour + minutes / 60 <= 24:
            sentence.take(*found.span(), "deadline", f"{hour + minutes / 60:g}h")
            sentence.assumed.append(Message("workload.assumed_midnight", hours=f"{hour + minutes / 60:g}"))
            _note_daily(sentence)
        return
    found = _WINDOW.search(sentence.text)
    serves = any(sentence.has(option) for option in ("rate", "users")) and not _LEARNS.search(sentence.whole)
    if found and not serves and _NIGHTLY.search(sentence.whole):
        first = _clock(_first(found, "from", "first"), _first(found, "half", "when") or _first(found, "other"))
        last = _clock(_first(found, "to", "last"), _first(found, "other", "then"))
        sentence.take(*found.span(), "deadline", f"{(last - first) % 24 or 24:g}h")
        _note_daily(sentence)
        return
    if found := _CALENDAR.search(sentence.text):
        sentence.take(*found.span(), "deadline", f"{_days(found, today) or 0.5:g}d".replace("0.5d", "12h"))
        return
    if found := _WEEKDAY.search(sentence.text):
        day = grammar.WEEKDAYS[_first(found, "en", "day", "later").casefold()]
        ahead = day - today.weekday() + (7 if found["next"] else 0)
        if found["this"] and ahead < 0:
            ahead += 7
        if ahead < 0:
            sentence.ask(*found.span())
        else:
            sentence.take(*found.span(), "deadline", f"{ahead * 24 or 12}h")
            if not ahead:
                sentence.assumed.append(Message("workload.assumed_today", hours=12))


def _note_daily(sentence: Sentence) -> None:
    """A job of each day is done within its hours: how often it comes changes no figure of one."""
    for found in list(_NIGHTLY.finditer(sentence.text)):
        sentence.note(*found.span())


def assume_each_day(sentence: Sentence, task: str) -> None:
    """Work that comes again each day or night: the plan is of one of them, as the answer says."""
    if task in ("batch", "prepare") and sentence.has("data") and _EACH_DAY.search(sentence.whole):
        sentence.assumed.append(Message("workload.assumed_each_day"))
        for found in list(_EACH_DAY.finditer(sentence.text)):
            sentence.note(*found.span())


_AGAIN = grammar.shape("(?<![A-Za-z]){trained_again}(?![a-z])|{trained_again}(?<=[一-鿿])")
_RETRAINS = grammar.shape("(?<![A-Za-z]){retrains}(?![a-z])|{retrains_zh}")
_EVERY_TIME = grammar.shape("(?<![A-Za-z]){every_time}(?![a-z])|{every_time_zh}")
_OF_A_PART = grammar.shape(
    r"(?<![\w.,])(?P<en>{amount})\s?{request}\s(?:all\s|mostly\s|come\s|comes\s)?{each_or_in}\s(?:the\s)?{part_of_day_en}(?![a-z])"
    r"|{each_day_zh_one}(?:{part_of_day_zh}[一-鿿]{0,4}?|{only_zh})\s*(?P<zh>{amount})\s*{request_count_zh}(?!图){request_zh}"
)
"""Requests that come in a part of each day."""


def read_daily(sentence: Sentence) -> None:
    """ "Once a day" counts no requests: it says how often the work comes. Requests of a morning are
    those of a day. What is trained again each day or week is planned once."""
    found = _AGAIN.search(sentence.text) or (_EVERY_TIME.search(sentence.text) if _RETRAINS.search(sentence.text) else None)
    if found:
        sentence.note(*found.span())
        sentence.is_retrained = True
        sentence.assumed.append(Message("workload.assumed_again", words=sentence.noted[-1]))
    if found := _OF_A_PART.search(sentence.text):
        sentence.take(*found.span(), "rate", f"{found['en'].strip()}/day" if found["en"] else f"{found['zh'].strip()}/天")
    for found in list(_ONCE_A_DAY.finditer(sentence.text)):
        sentence.note(*found.span())


def ask_for_day(sentence: Sentence) -> None:
    """A day that nothing reads is asked about: a deadline is never dropped."""
    if not sentence.has("deadline") and (found := _UNREAD_DAY.search(sentence.text)):
        sentence.ask(*found.span())


def _days(found: re.Match[str], today: datetime.date) -> int:
    """Days that are left: to the Friday of next week, its Sunday, the last day of this month or
    of the next."""
    left = calendar.monthrange(today.year, today.month)[1] - today.day
    if found["next"]:
        return 4 - today.weekday() + 7
    if found["weekend"]:
        return 6 - today.weekday() + 7
    if found["later"] or found["zh_later"]:
        after = today + datetime.timedelta(days=left + 1)
        return left + calendar.monthrange(after.year, after.month)[1]
    return left


def _first(match: re.Match[str], *names: str) -> str:
    return next((found for name in names if (found := match[name])), "")


def _clock(hour: str, part: str) -> float:
    """The hour of the day [h]."""
    clock = parse_count(hour)
    if clock == 12 and (part.casefold() == "am" or grammar.shape("{night_zh}").fullmatch(part)):
        return 0.0  # midnight
    late = part.casefold() == "pm" or part in ("下午", "晚上", "晚") or (part in ("夜里", "深夜", "半夜", "每晚") and clock >= 6)
    return clock % 12 + 12 if late and clock <= 12 and not (part in ("晚上", "晚", "每晚") and clock < 6) else clock % 24
