"""What people say that is a figure only after some arithmetic: a head count, clips of so many
seconds, folds. What it takes on trust is kept in `Sentence.assumed`, for the answer to say.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts import tables
from rightfit.facts.expressions import Expression
from rightfit.messages import Message
from rightfit.units import (
    HOURS_PER_MONTH,
    SECONDS_PER_DAY,
    SECONDS_PER_HOUR,
    SECONDS_PER_MONTH,
    format_bytes,
    format_count,
    format_money,
    parse_count,
    parse_data,
    parse_duration,
    parse_money,
)
from rightfit.workload.ask import grammar
from rightfit.workload.ask.asides import draws
from rightfit.workload.ask.leftover import BLANK
from rightfit.workload.ask.named import card_count
from rightfit.workload.ask.names import names_in
from rightfit.workload.ask.sentence import Reading, Sentence, is_taken

_DAILY_PEOPLE = grammar.shape(
    r"(?P<en>{amount})\s*(?:[a-z]+\s)?{people}\s*{each_period}\s*(?P<period>{day_or_more})(?![a-z])|每[天日]{about_zh}?\s*(?P<zh>{amount})\s*(?:个|名|位)?\s*{people_zh}(?:次)?{doing_zh}?"
)
_DAILY_ACTIVE = grammar.shape(
    r"(?P<en>{amount})\s*{daily_active}|(?<![a-z]){daily_active}{is}(?P<tail>{amount})(?!\w)|{daily_active_zh}{is}{about_zh}?\s*(?P<zh>{amount})\s*(?:个|名|位)?(?:{people_zh})?|(?P<head>{amount})\s*(?:的)?{daily_active_zh}"
)
_EACH_PERSON = grammar.shape(
    r"{each_person}{each_about}?[一-鿿]{0,2}?\s*(?P<zh>{number})\s*[次个条轮]|(?P<en>{digits})\s{each_person_after}(?![a-z])"
)
_REPEATED = grammar.shape(r"(?P<en>{amount})\s(?:[a-z]+\s)?{repeated}(?![a-z])|(?P<zh>{amount})\s*{repeated_zh}")
_FACTORS = grammar.shape(
    r"(?P<en>{amount})\s(?:different\s|other\s|[a-z]+\s)?(?P<noun>{repeated_again}|{repeated_factor})(?![a-z])|(?P<zh>{amount})\s*(?P<noun_zh>{repeated_again_zh}|{repeated_factor_zh})"
)
"""Each of these is tried with each of the others."""
_AGAIN = grammar.shape("{repeated_again}|{repeated_again_zh}")
_REDONE = grammar.shape(
    r"(?<![a-z])(?P<head>{redone})\s(?:(?!{number}\s)[^\s,;]+\s){0,4}?(?P<en>{amount})\s?(?:x|{times_counted})(?![a-z])|(?P<head_zh>{redone_zh})\s*(?P<zh>{amount})\s*{times_counted_zh}"
)
_SEARCH_COUNT = grammar.shape(r"(?P<en>{amount})\s(?:[a-z]+\s)?{searched_count}(?![a-z])|(?P<zh>{amount})\s*{searched_count_zh}")
_SEARCHED = grammar.shape(r"(?<![A-Za-z]){search_name}(?![a-z])|{search_name}")
_SHARE = grammar.shape(
    r"(?:{about_en}\s)?(?P<en>\d+(?:\.\d+)?)\s?%\s*(?:of\s{of_them})?\s*(?:{share_verb}\s)*{together}(?![a-z])"
    r"|(?:其中)?(?P<zh>\d+(?:\.\d+)?)\s?%\s*(?:的)?{share_people_zh}?(?:会)?{together_zh_share}|{together_zh_share}(?:的|率|比例)*(?:人)?{share_is_zh}*\s*(?P<tail>\d+(?:\.\d+)?)\s?%"
)
_STAFF = grammar.shape(
    r"(?P<en>{amount})\s*(?:[a-z-]+\s)?{staff}(?![a-z])|{staff_head}\s(?:about\s|around\s|some\s)?(?P<head>{amount})(?:\s{head_name})?(?![\w%])"
    r"|{staff_head_zh}(?P<zh>{amount})\s*(?:多)?(?:个|名|位)?\s*(?:人|{staff_zh})(?:使用|用)?|(?P<counted>{amount})\s*(?:多)?(?:个|名|位)?\s*{staff_zh}(?:使用|用)?"
    r"|(?P<tail>{amount})\s*(?:多)?(?:个|名|位)?\s*人{staff_tail_zh}"
)
_COMPANY = grammar.shape("{company_zh}")
_OF_COMPANY = grammar.shape(r"(?P<used>{amount})\s*(?:多)?(?:个|名|位)?\s*人(?:要|会|在)?(?:使用|用)")
_HEADS = grammar.shape(r"(?P<en>{amount})\s*(?:[a-z-]+\s)?{people}(?![a-z])|(?P<zh>{amount})\s*(?:个|名|位)?\s*{people_zh}(?:使用|用)?")
_TOGETHER = grammar.shape(r"[\s,]*(?:{who_are}\s)?{together}(?![a-z])|[\s，,]*{together_zh_share}(?!\s*(?:人数)?{is}\d)")
_AT_ONCE = grammar.shape(r"{together}(?![a-z])|{concurrency}|{at_once_en}|{concurrency_zh}|{at_once_zh}|{together_zh_share}")
_IN_FLIGHT, _NO_FLIGHT = grammar.shape("{in_flight}"), grammar.shape("{in_flight_no}")
_REQUESTS = Expression(r"(?<![a-z])requests?(?![a-z])|请求", ignore_case=True)
_CLIPS = grammar.shape(
    r"(?:(?P<count>{amount})\s+)?(?P<seconds>{digits})[\s-]?{second_en}(?:[\s-]long)?\s+(?:[a-z]+\s|\d+p\s){0,2}?{clip_name}(?![a-z])"
    r"|(?P<many>{amount})\s+(?:[a-z]+\s|\d+p\s){0,2}?{clip_name}(?:\s(?:{lasting}|each))*,?\s(?P<each>{digits})\s?{second_en}(?![a-z])(?:\s{apiece})*"
    r"|(?:(?P<count_zh>{amount})\s*{measure_zh}\s*)?(?P<zh>{number})\s*秒(?:钟)?(?:长)?的?(?:[一-鿿]{0,3}?){clip_name_zh}"
)
_CLIP_LENGTH = grammar.shape(
    r"(?:每|单|一){measure_zh}\s*{around_zh}?\s*(?P<zh>{number})\s*秒钟?|(?<!\d)(?P<tail>{number})\s*秒钟?\s*(?:一|每){measure_zh}"
    r"|(?<![\w.])(?P<en>{digits})\s?(?:{second_en}|s)\s(?:long\s)?(?:each|{apiece})(?![a-z])|(?<![a-z])each\s(?:{lasting}\s|about\s|is\s)*(?P<each>{digits})\s?(?:{second_en}|s)(?![a-z])(?:\slong)?"
)
"""So many seconds of each clip, said apart from the clips."""
EACH_DAY_AMOUNT = grammar.shape(
    r"(?<![\w.,-])(?P<en>{amount})\s(?:[a-z]+\s|\d+p\s){0,3}?(?:(?P<films>{clip_name}|{drawn_image})|(?P<hours>{hour_en}|h)(?:\sof\s(?:[a-z-]+\s){0,2}?{sound})?)(?:\sof\s[a-z]+)?\s*{each_period}\s*(?P<span>{worked_off})(?![a-z])"
    r"|{every_zh}\s*(?P<span_zh>{worked_off_zh})\s*(?:{about_zh}|{comes_zh}|{drawn_zh}|␟|\s)*(?P<zh>{amount})\s*(?:(?P<hours_zh>个?小时)(?:的?{sound_zh})?|(?P<films_zh>{measure_zh}|{drawn_image}))"
)
_PICTURES = grammar.shape("{drawn_image}")
_WITH_ADAPTER = grammar.shape(r"(?:{adapter_beside}\s*)+(?:an?\s|own\s|trained\s)*lora(?![a-z])")
_WHEREABOUTS = grammar.shape(r"{somebody_zh}(?:都|主要)?在\s*[一-鿿]{2,6}|(?<![a-z]){somebody}\s{is_or_are}\s(?:mostly\s)?in\s[^,.;]{2,24}")
_PER_CLASS = grammar.shape(
    r"(?P<en>{amount})\s(?:[a-z]+\s){1,3}?{of_each}\s{class_name}(?![a-z])|每(?:个)?{each_class_zh}\s*(?:约|大约|有)?\s*(?P<zh>{amount})\s*[张条个份]{class_sample_zh}?"
)
_CLASSES = grammar.shape(r"(?P<en>{digits})\s*(?:[a-z]+\s)?{class_name}(?![a-z])|(?<!每)(?P<zh>{digits}|{han})\s*{class_zh}")
_RECORDINGS = grammar.shape(
    r"(?P<count>{amount})\s(?:(?!{long_unit}\s|{at_once_en}\s|{in_flight_no}\s)[a-z-]+\s){0,2}?(?:(?P<thing>{recorded})|(?:audio\s|sound\s|video\s)?{recording})(?![a-z]|\s{written_of}|\s*{at_once_after}|\s*{each_period}\s*{period}(?![a-z]))"
    r"(?:(?P<of>\s{lasting})?[\s,(]+(?:each\s|about\s|around\s|averaging\s|roughly\s|on average\s|of\s|~\s?)*(?P<each>{long_time}|{sound_time})(?P<apiece>(?:\s?{apiece_average})+)?)?"
    r"|(?<!同时)(?<!\d)(?P<zh>{amount})\s*(?:(?P<zh_thing>{recorded_zh})|{measure_zh}(?:[一-鿿]{0,4}?{recording_zh})?)(?!\s*{at_once_zh})(?:[,，]?\s*(?:平均)?每{measure_zh}(?:[一-鿿]{0,3}?){average_zh}*\s*(?P<zh_each>{long_time}|{sound_time})|\s*[(（]\s*(?:平均|{average_zh}|{about_zh})+\s*(?P<zh_bracket>{long_time}|{sound_time})[)）]?)?"
)
_LONG_SOUND = grammar.shape(
    r"(?P<time>{amount}\s?{sound_long})\sof\s(?:[a-z-]+\s){0,2}?{sound}(?![a-z])|(?P<zh>{amount}\s*{sound_long_zh})的?[一-鿿]{0,3}?{sound_zh}"
    r"|(?<![A-Za-z]){this_one}\s(?P<ahead>{amount}[\s-]?{long_unit})[\s-](?:long\s)?(?:[a-z]+\s)?(?:{sound}|{sound_file})(?:\s(?:{sound_file}|{recorded_as}))?(?![A-Za-z0-9])"
    r"|(?<!\d\s)(?<!\d[kKmM]\s)(?<!\d)(?:{sound}|{sound_file})(?:\s{recorded_as})?\s?(?:\(\s?|{lasting}\s|of\s|with\sa\s{length_word}\sof\s|that\sis\s|which\sis\s|,\s)(?P<behind>{long_time})(?:\slong)?\)?(?:,?\s(?:\(\s?)?{size}\)?)?(?![A-Za-z0-9])"
    r"|(?<!每)(?<!每[段条个份通])(?:{sound_zh}|{sound_file})(?:文件)?\s*[,，]?\s*(?:时?长|共|有|是|约|大概)*\s*(?P<behind_zh>{amount}\s*{minute_hour_zh}(?:\s*{amount}\s*分钟?)?)(?!\s*{within_after_zh})(?:[,，]\s*{size})?"
)
_PER_TIME = grammar.shape(
    r"(?:{money_denied}(?:\s{money_talk})*\s{money_over}\s)?(?:(?:每|一)个?(?P<ahead>{budget_period})(?:的)?|(?P<short>[时日周年])(?=预算))?\s*{budget}?{is}(?P<value>{money_sign}\s?{amount}|{amount}\s?{money_unit}(?![a-z]))\s*"
    r"(?:{per_period}?\s*(?P<cards>{per_card}[\s/-]?)?(?P<behind>{budget_period})(?![a-z]))?{most}?"
    r"|{budget_zh}{is}(?P<yuan>{amount})\s*(?:每|一|/)个?(?P<yuan_period>{budget_period})|(?:每|一)个?(?P<yuan_ahead>{budget_period})的?(?:{budget_zh}|{binding_zh}){is}(?P<yuan_behind>{amount})(?!\s*{money_unit})"
)
_SIZE = grammar.shape(r"(?P<value>{size})(?:\s(?:of\s)?{data_named})?(?![A-Za-z0-9])")
_FILES = grammar.shape(
    r"(?<![\w.,-])(?P<count>{amount})\s(?:[a-z]+\s){0,2}?{file_name}(?:\sof|,?\s(?:{is_word}\s|each\s|about\s|around\s)*|\s?\()\s?(?:about\s|around\s|~\s?|roughly\s)?(?P<each>{size})\s?(?:{apiece_average}|{apiece_en})(?![a-z])\)?"
    r"|(?<![\w.,-])(?P<many>{amount})\s(?:[a-z]+\s){0,2}?{file_name},?\s(?:and\s)?each\s(?:{is_word}\s|about\s|around\s|has\s|roughly\s)*(?P<of>{size})(?![A-Za-z0-9])"
    r"|(?P<zh>{amount})\s*个\s*(?:[a-z]+\s?)?{file_name_zh}[,，]?\s*{each_one_zh}(?:[一-鿿]{0,3}?){around_zh}?\s*(?P<each_zh>{size})"
)
_SLOW_RATE = grammar.shape(
    r"(?:(?P<en>{amount})\s|an?\s)(?:[a-z]+\s)?{request}\s(?:once\s)?{every_en}\s(?P<time>{digits})\s?(?P<period>{period}(?![a-z]))"
    r"|an?\s{request}\s{every_en}\s(?P<one>{period}(?![a-z]))"
    r"|每(?:隔)?\s*(?P<time_zh>{number})\s*(?P<period_zh>{period_zh}){comes_zh}?\s*(?P<zh>{number})\s*{request_count_zh}{request_zh}?"
)
_PER_PARAMETER = grammar.shape(
    r"(?P<value>{digits})\s?tokens?\s(?:{for_each}|a)\sparam(?:eter)?s?(?![a-z])|每个?参数\s*(?P<zh>{digits})\s*(?:个)?\s*{token_zh}"
)
_SERVICE_TERM = grammar.shape(r"^for\s|{service_term}")
_SET_UP = grammar.shape("{done_zh}|{within_after_zh}|(?<![a-z]){limit_head}(?![a-z])")
"""A time in which a service is to be there, and not one for which it runs."""
_VOLUME = tables.shape(
    grammar.TABLE,
    r"(?:(?:{about_en}|each)\s)?(?<![\dx×*.])\d{2,4}\s?[x×*]\s?\d{2,4}\s?[x×*]\s?\d{2,4}(?:\s?{volume_name}|的{volume_name_zh})?(?:\s(?:each))?",
)
_FOLDS = grammar.shape(r"(?P<en>\d+)[\s-]?folds?(?:\s(?:cross[\s-]?validation|cv))?(?![a-z])|(?P<zh>{number})\s*折(?:交叉验证)?")
_EACH_ITS_OWN = grammar.shape(
    r"(?P<zh>{amount})\s*[个位名款种套](?P<thing>[一-鿿]{0,6}?){own_each_zh}(?:要|来)?{own_trained_zh}?(?:出)?(?:1|一)?[个套]?"
    r"|(?:a|1|one)\s(?:separate\s|own\s|different\s)?{own_model}s?\s(?:for\s(?:each)\sof|for\severy\s1\sof|per)\s(?:our\s|the\s|my\s)?(?P<en>{amount})\s[a-z]+(?:\s[a-z]+)?"
    r"|(?P<many>{amount})\s{own_kind}\s{own_models}(?:,?\s(?:1|one)\s{for_each}\s[a-z]+)?"
)
_LATER = grammar.shape(
    r"[;,]?\s*(?:{and_then}\s)?{later_en}\s(?:about\s|another\s)?{amount}\s(?:new\s|more\s|additional\s)?(?:[a-z]+\s){0,2}?{later_each}(?![a-z])"
    r"|[,，;；]?\s*{later_zh}\s*每(?:天|晚|日|周|月){later_about_zh}*{later_added_zh}?\s*{amount}\s*[条篇个份张封]?(?:新的?)?[一-鿿]{0,2}(?=[\s,，。;；]|$)"
)
_SLOW_FRAMES = grammar.shape(
    r"(?:at\s)?(?P<en>{digits})\s{frame_name}\s{every_en}\s(?P<seconds>{digits})\s?{second_en}(?![a-z])(?:\s{frames_of}\s(?:each)(?:\s{camera_line})?)?"
    r"|(?:{of_each_camera_zh})?\s*每(?:隔)?\s*(?P<per>{number})\s*秒\s*(?:抽|取|截|拍|传|分析)?\s*(?P<zh>{number})\s*(?:帧|张图?)"
)
NOT_AT_ONCE = grammar.shape("(?<![a-z])(?:{not_at_once}|{denied_at_once})(?![a-z])|{not_at_once_zh}|{denied_at_once_zh}")
DENIED_AT_ONCE = grammar.shape("(?<![a-z]){denied_at_once}(?![a-z])|{denied_at_once_zh}")
_IN_A_DAY = grammar.shape("/(?:{day_or_more})")
_NIGHT_OFF = grammar.shape("{not_used}{at_night}|{at_night_zh}{nearly_zh}*{nobody_zh}{in_use_zh}")
_PAGES = tables.shape(grammar.TABLE, r"(?<![A-Za-z]){page_word}(?![A-Za-z])|{page_word_zh}", ignore_case=True)


def _first(match: re.Match[str], *names: str) -> str:
    return next((found for name in names if (found := match[name])), "")


def _number(text: str) -> float:
    return parse_count(text.replace(" ", ""))


def read_figured(sentence: Sentence) -> None:
    """What must be read before the quantities, which would take its numbers for others."""
    for read in (
        _read_files,
        _read_tables,
        _read_daily_people,
        _read_staff,
        _read_per_class,
        _read_per_parameter,
        _read_per_time,
        _read_slow_frames,
        _read_slow_rate,
        _read_each_day,
        _read_recordings,
        _read_sound_length,
        _read_clips,
        _read_own_jobs,
        _read_candidates,
    ):
        read(sentence)


def _read_tables(sentence: Sentence) -> None:
    """Users and things of a recommender are rows of its tables, nobody who waits for an answer."""
    model = next((reading.value for reading in sentence.readings if reading.option == "model"), "")
    found = list(grammar.RATED.finditer(sentence.text)) if "recommendation" in sentence.kinds or grammar.RECOMMENDER.search(model) else []
    if not (grammar.INTERACTIONS.search(sentence.text) or any(one["things"] for one in found)):
        return
    amounts = [grammar.shape("{amount}").match(one[0]) for one in found if not one["width"]]
    rows = sum(_number(amount[0]) for amount in amounts if amount)
    width = next((int(one["width"]) for one in found if one["width"]), 0)
    for one in found:
        sentence.note(*one.span())
    if rows:
        numbers = width or int(tables.coefficients("planning")["embedding_width"])
        size = rows * numbers * 4.0
        sentence.assumed.append(
            Message(
                "workload.assumed_tables", rows=format_count(rows), width=numbers, size=format_bytes(size), trained=format_bytes(3 * size)
            )
        )


def _read_files(sentence: Sentence) -> None:
    """Files of so much each, as the amount of them all: "100 parquet files of 500 MB each"."""
    for found in () if sentence.has("data") else _FILES.finditer(sentence.text):
        with contextlib.suppress(RightfitError):
            size = parse_data(_first(found, "each", "of", "each_zh")).bytes or 0.0
            total = _number(_first(found, "count", "many", "zh")) * size
            sentence.take(*found.span(), "data", f"{total / 1e9:.6g}GB")
            for again in list(_SIZE.finditer(sentence.text)):  # the same, said twice
                with contextlib.suppress(RightfitError):
                    if 0.95 <= (parse_data(again["value"]).bytes or 0.0) / total <= 1.05:
                        sentence.note(*again.span())
            return


def _read_daily_people(sentence: Sentence) -> None:
    """People who come in a day are no people at once: a request of each, several of each that are
    active, as the answer says."""
    if (active := _DAILY_ACTIVE.search(sentence.text)) and not sentence.has("rate"):
        people = _number(_first(active, "en", "tail", "zh", "head"))
        told = _EACH_PERSON.search(sentence.text)
        each = _number(_first(told, "zh", "en")) if told else tables.coefficients("planning")["requests_per_active_user"]
        sentence.take(*active.span(), "rate", f"{people * each:.0f}/day")
        if told:
            sentence.blank(*told.span())
        else:
            sentence.assumed.append(Message("workload.assumed_daily_active", words=active[0].strip(" ,，"), count=f"{each:g}"))
        return
    found = _DAILY_PEOPLE.search(sentence.text)
    if found is None or sentence.has("rate"):
        return
    sentence.assumed.append(Message("workload.assumed_daily_people", words=found[0].strip(" ,，")))
    sentence.take(*found.span(), "rate", f"{_first(found, 'en', 'zh')}/{_first(found, 'period') or '天'}")


def read_repeats(sentence: Sentence) -> None:
    """The same work with other settings, once more or on another fold: the plan is of one of
    them."""
    searched = list(_SEARCHED.finditer(sentence.text))
    told = [*_REPEATED.finditer(sentence.text), *(_SEARCH_COUNT.finditer(sentence.text) if searched else ())][:1]
    factors = {_first(one, "noun", "noun_zh"): one for one in _FACTORS.finditer(sentence.text)}
    tried = [one for noun, one in factors.items() if not told or _AGAIN.fullmatch(noun)]
    redone = list(_REDONE.finditer(sentence.text))[:1]
    folds = [] if sentence.has("epochs") else list(_FOLDS.finditer(sentence.text))
    found = [*told, *tried, *redone, *folds[:1]]
    if not found or not (told or tried or redone or sentence.has("model")):
        return
    counts = [_number(_first(one, "en", "zh")) for one in found]
    others = {one.span() for one in (*told, *factors.values(), *folds, *searched)}
    parts = {span for one in redone for span in ((one.start(), one.end("head" if one["head"] else "head_zh")), _count_span(one))}
    for start, end in sorted(others | parts, reverse=True):
        if BLANK not in sentence.text[start:end]:  # said again, or inside what was read
            sentence.note(start, end)
    sentence.assumed.append(Message("workload.assumed_jobs", jobs=f"{math.prod(counts):,.0f}"))


def _count_span(found: re.Match[str]) -> tuple[int, int]:
    """Where a number of times stands, to its end."""
    return found.start("en" if found["en"] else "zh"), found.end()


_OF_ONE = grammar.shape(r"\s?{apiece_average}(?![a-z])|\s?{own_each_zh}")


def share_limits(sentence: Sentence) -> None:
    """The money and the time for all of several jobs are shared out: the plan is of one of them."""
    jobs = next((float(str(one.fields["jobs"]).replace(",", "")) for one in sentence.assumed if one.key == "workload.assumed_jobs"), 1.0)
    if jobs <= 1.0:
        return
    for reading in [one for one in sentence.readings if one.option in ("budget", "deadline")]:
        said = sentence.whole.find(reading.words) + len(reading.words)
        if _OF_ONE.match(sentence.whole, said) or _OF_ONE.search(reading.words):
            continue
        if reading.option == "deadline":
            value = f"{parse_duration(reading.value) / jobs:.4g}s"
        elif (money := parse_money(reading.value)).per_month:
            continue
        else:
            value = f"{money.amount / jobs:.4g}{money.currency.lower()}"
        sentence.readings[sentence.readings.index(reading)] = dataclasses.replace(reading, value=value)
        sentence.assumed.append(Message("workload.assumed_share", words=reading.words, jobs=f"{jobs:,.0f}", value=value))


def read_later(sentence: Sentence) -> None:
    """A second job that comes again behind the first: the plan is of the first."""
    if found := _LATER.search(sentence.text):
        sentence.note(*found.span())
        sentence.assumed.append(Message("workload.assumed_first_job"))


def _read_staff(sentence: Sentence) -> None:
    """How many of a head count are there at once: the share that is told, or the usual one; all
    where they are said to be."""
    share = _SHARE.search(sentence.text)
    found = _STAFF.search(sentence.text) or (_HEADS.search(sentence.text) if share else None)
    if found is None and _COMPANY.search(sentence.whole):
        found = _OF_COMPANY.search(sentence.text)
    if found is None or sentence.has("users"):
        return
    if _users_beside(sentence, found):  # of 300 people 50 at once: the others do not ask
        sentence.note(*found.span())
        return
    heads = _number(next(value for value in found.groupdict().values() if value))
    if share is None and (together := _TOGETHER.match(sentence.text, found.end())):
        sentence.take(found.start(), together.end(), "users", f"{heads:.0f}")
        return
    part = float(_first(share, "en", "zh", "tail")) / 100 if share else tables.coefficients("planning")["staff_at_once_share"]
    users = max(round(heads * part), 1)
    said = "; ".join(one[0].strip(" ,，") for one in (found, share) if one)
    sentence.readings.append(Reading("users", str(users), said))
    if share is None:
        sentence.assumed.append(Message("workload.assumed_staff", users=users, heads=f"{heads:,.0f}", share=f"{part * 100:g}"))
    for one in sorted(filter(None, (found, share)), key=lambda match: -match.start()):
        sentence.blank(*one.span())


def drop_staff(sentence: Sentence) -> None:
    """A share of a head count says nothing beside a rate that is told, nor a head count beside how
    many are there at once."""
    if any(reading.option == "users" and _AT_ONCE.search(reading.words) for reading in sentence.readings):
        for pattern in [rule.pattern for rule in grammar.QUANTITIES if rule.option == "users"]:
            for match in list(pattern.finditer(sentence.text)):
                sentence.note(*match.span())
    said = next((one for one in sentence.assumed if one.key == "workload.assumed_staff"), None)
    if said is None or not sentence.has("rate"):
        return
    sentence.assumed.remove(said)
    sentence.noted += [reading.words for reading in sentence.readings if reading.option == "users"]
    sentence.readings = [reading for reading in sentence.readings if reading.option != "users"]


def _users_beside(sentence: Sentence, heads: re.Match[str]) -> bool:
    """Whether another number than the head count is said to be there at once."""
    text = sentence.text[: heads.start()] + grammar.BLANK * len(heads[0]) + sentence.text[heads.end() :]
    rules = [rule.pattern for rule in grammar.QUANTITIES if rule.option == "users"]
    return any(_AT_ONCE.search(found[0]) for pattern in rules for found in pattern.finditer(text))


def keep_in_flight(sentence: Sentence) -> Reading | None:
    """N requests in flight leave no pause between an answer and the next request. A voice or a film
    asks as it goes."""
    said = next((reading.words for reading in sentence.readings if reading.option == "users"), "")
    if not said or sentence.has("rate") or sentence.has("think") or not _IN_FLIGHT.search(said):
        return None
    if _NO_FLIGHT.search(sentence.whole) and not _REQUESTS.search(sentence.whole):
        return None
    sentence.assumed.append(Message("workload.assumed_in_flight"))
    return Reading("think", "0s", "")


def pace_pictures(sentence: Sentence) -> None:
    """People who have pictures drawn look at each before the next: so many a minute, unless they
    are said to be there at once."""
    told = next((reading for reading in sentence.readings if reading.option == "users"), None)
    if told is None or sentence.has("rate") or sentence.has("latency") or not draws(sentence) or _AT_ONCE.search(told.words):
        return
    each = tables.coefficients("planning")["pictures_per_min"]
    sentence.readings[sentence.readings.index(told)] = Reading("rate", f"{_number(told.value) * each:g}/min", told.words)
    sentence.readings.append(Reading("latency", f"{60.0 / each:g}s", ""))
    sentence.assumed.append(Message("workload.assumed_pictures", words=told.words, count=f"{each:g}"))


def _read_slow_frames(sentence: Sentence) -> None:
    """A frame every few seconds of each camera, as requests a second."""
    rate, watched = _SLOW_FRAMES.search(sentence.text), grammar.CAMERAS.search(sentence.text)
    if rate is None or sentence.has("rate") or grammar.DRAWING.search(sentence.text):
        return
    frames, seconds = _number(_first(rate, "en", "zh")), _number(_first(rate, "seconds", "per"))
    if not seconds:
        return
    cameras = card_count(watched["en"] or watched["zh"]) if watched else 1
    said = "; ".join(one[0].strip(" ,，") for one in (watched, rate) if one)
    sentence.readings.append(Reading("rate", f"{frames * cameras / seconds:g}/s", said))
    for one in filter(None, (rate, watched)):
        sentence.blank(*one.span())


def _read_clips(sentence: Sentence) -> None:
    """Films of so many seconds that a model draws: seconds times its frames a second, and the
    first one."""
    model = next((reading.value for reading in sentence.readings if reading.option == "model"), "")
    speed = tables.meaning(grammar.TABLE, "video_fps", model, ignore_case=True)
    if not speed or sentence.has("frames"):
        return
    found = _CLIPS.search(sentence.text)
    if found is None:
        if told := _CLIP_LENGTH.search(sentence.text):
            seconds = _number(_first(told, "zh", "tail", "en", "each"))
            sentence.take(*told.span(), "frames", f"{seconds * int(speed) + 1:.0f}")
            sentence.assumed.append(Message("workload.assumed_frames", fps=speed, seconds=f"{seconds:g}"))
        return
    seconds = _number(_first(found, "seconds", "each", "zh"))
    sentence.readings.append(Reading("frames", f"{seconds * int(speed) + 1:.0f}", found[0].strip()))
    sentence.assumed.append(Message("workload.assumed_frames", fps=speed, seconds=f"{seconds:g}"))
    if count := _first(found, "count", "many", "count_zh"):
        sentence.take(*found.span(), "data", f"{count} clips")
        lines = grammar.shape(r"(?<![\w.]){video_lines}p(?![a-z0-9])").search(found[0])
        if lines and not sentence.has("image_size"):
            sentence.readings.append(Reading("image_size", tables.meaning(grammar.TABLE, "video_lines", lines[0][:-1]), lines[0]))
    else:
        sentence.blank(*found.span())


def _read_each_day(sentence: Sentence) -> None:
    """Films to be made, or hours of sound to be worked through, that come in a day: an amount that
    a day must do. What is to be answered at once stays a rate."""
    if sentence.has("data") or grammar.shape("{answered_at_once}").search(NOT_AT_ONCE.sub(" ", sentence.whole)):
        return
    model = next((reading.value for reading in sentence.readings if reading.option == "model"), "")
    films = tables.meaning(grammar.TABLE, "video_fps", model, ignore_case=True)
    for found in EACH_DAY_AMOUNT.finditer(sentence.text):
        hours, amount = _first(found, "hours", "hours_zh"), _first(found, "en", "zh")
        span = tables.meaning(grammar.TABLE, "worked_off", found["span"] or "", ignore_case=True)
        span = span or tables.meaning(grammar.TABLE, "worked_off_zh", found["span_zh"] or "")
        if hours and grammar.TURNS_SOUND.search(sentence.whole):
            sentence.take(*found.span(), "data", f"{amount} hours")
        elif sentence.is_post and not films and _PICTURES.search(found[0]) and draws(sentence):
            sentence.take(*found.span(), "data", f"{amount} images")
            for again in list(_WITH_ADAPTER.finditer(sentence.text)):  # nothing is learned
                sentence.note(*again.span())
        elif not hours and films:
            end = found.end() if found["en"] else found.end("films_zh")
            seconds = re.match(r"\s*(?P<seconds>[\d.]+)\s*秒", sentence.text[end:])
            start = found.start()
            sentence.take(start, end, "data", f"{amount} clips" if found["en"] else f"{amount}条")
            if seconds:  # 每天200条5秒视频
                sentence.text = sentence.text[:end] + sentence.text[end:].replace(seconds[0], f" 每条{seconds['seconds']}秒", 1)
        else:
            continue
        sentence.each_day = True
        sentence.spans = int(span or "1")
        if sentence.spans > 1:
            sentence.assumed.append(Message("workload.assumed_each_span", days=sentence.spans))
        return


def settle_each_day(sentence: Sentence) -> None:
    """What comes in a day is done within it: a longer time says for how long it goes on."""
    if not sentence.each_day:
        return
    _note_whereabouts(sentence)
    for rate in [one for one in sentence.readings if one.option == "rate"]:
        sentence.readings.remove(rate)
        sentence.noted.append(rate.words)
    told = next((reading for reading in sentence.readings if reading.option == "deadline"), None)
    if told and parse_duration(told.value) > SECONDS_PER_DAY * sentence.spans:
        sentence.readings.remove(told)
        sentence.noted.append(told.words)
        told = None
    if told is None:
        sentence.readings.append(Reading("deadline", f"{24 * sentence.spans}h", ""))


def _note_whereabouts(sentence: Sentence) -> None:
    """Where customers or stores are is no limit of work that nobody waits for."""
    for found in _WHEREABOUTS.finditer(sentence.whole):
        for reading in [one for one in sentence.readings if one.option in ("country", "region") and one.words and one.words in found[0]]:
            sentence.readings.remove(reading)
            sentence.noted.append(found[0].strip(" ,，"))


def _read_per_class(sentence: Sentence) -> None:
    """So many images of each of so many classes; it is asked about where these are not told."""
    found = _PER_CLASS.search(sentence.text)
    if found is None:
        return
    at = found.start()
    classes = min(_CLASSES.finditer(sentence.text), key=lambda match: abs(match.start() - at), default=None)
    if classes is None:
        sentence.ask(*found.span())
        return
    many = _number(_first(found, "en", "zh")) * _number(_first(classes, "en", "zh"))
    sentence.readings.append(Reading("data", f"{many:.0f} images", f"{found[0].strip()}; {classes[0].strip()}"))
    for one in sorted((found, classes), key=lambda match: -match.start()):
        sentence.blank(*one.span())


def _read_own_jobs(sentence: Sentence) -> None:
    """As many jobs of the same kind: the plan is of one of them."""
    if found := _EACH_ITS_OWN.search(sentence.text):
        jobs = _number(_first(found, "zh", "en", "many"))
        sentence.noted.append(found[0].strip())
        sentence.assumed.append(Message("workload.assumed_jobs", jobs=f"{jobs:,.0f}"))
        start = found.start()
        words = sentence.blank(*found.span())
        if "lora" in words.casefold():  # the method stays to be read
            sentence.text = f"{sentence.text[:start]}lora{sentence.text[start + 4 :]}"


def _read_recordings(sentence: Sentence) -> None:
    """Hours of sound: recordings of so long each, or as long as theirs usually are."""
    if sentence.has("data") or not grammar.TURNS_SOUND.search(sentence.whole):
        return
    if found := _LONG_SOUND.search(sentence.text):
        hours = parse_duration(_first(found, "time", "zh", "ahead", "behind", "behind_zh").replace("-", " ")) / SECONDS_PER_HOUR
        sentence.take(*found.span(), "data", f"{hours:g} hours")
        return
    limits = [limit.span() for limit in grammar.LIMITED.finditer(sentence.text)]
    for found in _RECORDINGS.finditer(sentence.text):
        each, thing = _first(found, "each", "zh_each", "zh_bracket"), _first(found, "thing", "zh_thing")
        end = found.end()
        if each and not (found["zh_each"] or found["zh_bracket"] or found["of"] or found["apiece"]):
            each, end = "", found.start("each")  # a time of its own: "300 lectures, 2 days"
        others = [one for one in grammar.HOURS.finditer(sentence.text) if not any(a <= one.start() < b for a, b in limits)]
        if not each and (not thing or any(not found.start() <= one.start() < end for one in others) or sentence.has("audio_length")):
            continue
        count = _number(_first(found, "count", "zh"))
        if not each:
            usual = tables.meaning(grammar.TABLE, "recorded" if found["thing"] else "recorded_zh", thing, ignore_case=True)
            sentence.assumed.append(Message("workload.assumed_recorded", words=thing, minutes=usual))
            each, end = f"{usual}min", found.end("thing" if found["thing"] else "zh_thing")
        sentence.take(found.start(), end, "data", f"{count * parse_duration(each) / SECONDS_PER_HOUR:.6g} hours")
        return


_SOUND_LENGTH = grammar.shape(r"(?:每|单|一){measure_zh}(?:{recording_zh}|{sound_zh})?\s*{around_zh}?\s*(?P<zh>{sound_time})(?:左右)?")


def _read_sound_length(sentence: Sentence) -> None:
    """How long each recording is that comes to a service: 每段 5 秒."""
    if sentence.has("data") or sentence.has("audio_length") or not grammar.TURNS_SOUND.search(sentence.whole):
        return
    found = _SOUND_LENGTH.search(sentence.text)
    if found and is_taken("audio_length", found["zh"]):
        sentence.take(*found.span(), "audio_length", found["zh"])


def _read_slow_rate(sentence: Sentence) -> None:
    """A request every so often, as requests a second."""
    found = _SLOW_RATE.search(sentence.text)
    if (
        found is None
        or sentence.has("rate")
        or any(
            pause.start() < found.end() and found.start() < pause.end()
            for rule in grammar.QUANTITIES
            if rule.option == "think"
            for pause in rule.pattern.finditer(sentence.text)
        )
    ):
        return
    requests, times = _number(_first(found, "en", "zh") or "1"), _number(_first(found, "time", "time_zh") or "1")
    if requests and times:
        seconds = times * parse_duration(f"1 {_first(found, 'period', 'one', 'period_zh')}")
        sentence.take(*found.span(), "rate", f"{requests / seconds:.6g}/s")


def _read_candidates(sentence: Sentence) -> None:
    """A reranker scores each of so many candidates with a query."""
    found = grammar.CANDIDATES.search(sentence.text)
    model = next((reading.value for reading in sentence.readings if reading.option == "model"), "")
    if found and grammar.RERANKS.search(model):
        sentence.pairs = _number(_first(found, "en", "each", "zh")), sentence.blank(*found.span()).strip(" ,，")


def score_pairs(sentence: Sentence) -> None:
    """Queries a second as pairs a second, each of which is a request; without a rate the candidates
    are asked about."""
    told = next((reading for reading in sentence.readings if reading.option == "rate"), None)
    if sentence.pairs is None:
        return
    each, words = sentence.pairs
    number, slash, period = (told.value if told else "").partition("/")
    if told is None or not slash:
        sentence.asked.append(words)
        return
    pairs = f"{_number(number) * each:g}/{period}"
    sentence.readings[sentence.readings.index(told)] = Reading("rate", pairs, f"{told.words}; {words}")
    sentence.assumed.append(Message("workload.assumed_pairs", each=f"{each:g}", queries=told.value))
    if not (sentence.has("input_tokens") or sentence.has("seq_len")):
        length = f"{tables.coefficients('planning')['pair_tokens']:g}"
        sentence.readings.append(Reading("input_tokens", length, ""))
        sentence.assumed.append(Message("workload.assumed_pair_length", tokens=length))
    for name in names_in(sentence.text):
        if name.kind == "model" and is_taken("beside", together := f"{name.value}@{told.value}"):  # what finds the candidates
            sentence.take(name.start, name.end, "beside", together)
            return


def work_off_daily(sentence: Sentence) -> bool:
    """So many a day that need not come at once, or are to be done by some hour: a job of each day,
    to be done within it."""
    told = next((reading for reading in sentence.readings if reading.option == "rate"), None)
    found, is_late = NOT_AT_ONCE.search(sentence.whole), sentence.has("deadline")
    if found and sentence.has("data") and (again := DENIED_AT_ONCE.search(sentence.text)):  # "offline" says the task
        sentence.note(*again.span())
    if not (found or is_late) or told is None or not _IN_A_DAY.search(told.value):
        return False
    if any(sentence.has(option) for option in ("data", "latency", "ttft", "tpot", "office_hours")) or grammar.STRONG["serve"].search(
        sentence.whole
    ):
        return False  # somebody waits, or a service is what is asked for
    if again := NOT_AT_ONCE.search(sentence.text):
        sentence.note(*again.span())
    sentence.readings[sentence.readings.index(told)] = Reading("data", f"{told.value.partition('/')[0]} samples", told.words)
    if found and not is_late:
        sentence.readings.append(Reading("deadline", "24h", found[0]))
    return True


#: "凌晨2点到6点", "between 2 and 6 am": hours of a day in which the work is done.
_WINDOW = grammar.shape(
    r"{part_of_day}?\s*(?P<from>\d{1,2})\s*(?:点|时)(?:钟)?\s*(?:{window_to_zh}|[-~—])\s*{part_of_day}?\s*(?P<to>\d{1,2})\s*(?:点|时)(?:钟)?(?:之?间|以?前|内)?"
    r"|(?<![a-z]){window_from}\s(?P<start>\d{1,2})(?:\s?[ap]m)?\s{window_to}\s(?P<end>\d{1,2})\s?[ap]m(?![a-z])"
)


def read_window(sentence: Sentence) -> None:
    """The hours of a day between which work that comes daily is to be done, as its deadline."""
    found = _WINDOW.search(sentence.text)
    told = next((reading for reading in sentence.readings if reading.option == "rate"), None)
    if found and told is None and sentence.has("users") and not sentence.has("office_hours"):
        begin, end = (int(_first(found, *names)) for names in (("from", "start"), ("to", "end")))
        if hours := (end - begin) % 24:  # a service is used then
            sentence.take(*found.span(), "office_hours", f"{hours * HOURS_PER_MONTH / 24.0:.4g}")
        return
    if found is None or told is None or not _IN_A_DAY.search(told.value) or sentence.has("deadline"):
        return
    begin, end = (int(_first(found, *names)) for names in (("from", "start"), ("to", "end")))
    if hours := (end - begin) % 24:
        sentence.take(*found.span(), "deadline", f"{hours}h")


def _read_per_parameter(sentence: Sentence) -> None:
    """So many tokens for each parameter of a model whose size is told; else it is asked about."""
    if found := _PER_PARAMETER.search(sentence.text):
        size = grammar.BARE_SIZE.search(sentence.text)
        if size and size["latin"]:
            sentence.take(*found.span(), "data", f"{_number(_first(found, 'value', 'zh')) * _number(size['latin']):.6g} tokens")
        else:
            sentence.ask(*found.span())


def _read_per_time(sentence: Sentence) -> None:
    """Money for each hour, day, week or year, which `settle_per_time` makes a budget of."""
    for found in _PER_TIME.finditer(sentence.text):
        period = _first(found, "behind", "ahead", "short", "yuan_period", "yuan_ahead")
        period = period.replace("时", "小时") if found["short"] else period
        if period:
            hours = float(tables.meaning(grammar.TABLE, "budget_period", period, ignore_case=True))
            yuan = _first(found, "yuan", "yuan_behind")
            money = f"{yuan}元" if yuan else grammar.shape("{dollars_spoken}").sub("usd", found["value"]).strip()
            sentence.per_time = (found[0].strip(" ,，"), money, 0.0 if found["cards"] else hours)
            sentence.blank(*found.span())
            return


def settle_per_time(sentence: Sentence, task: str) -> None:
    """Money for a time as the monthly budget of a service; of a job, whose budget is its total, it
    is asked about."""
    term = next((reading for reading in sentence.readings if reading.option == "deadline"), None)
    if task == "serve" and term and _SERVICE_TERM.search(term.words) and not sets_up(term.words):
        sentence.readings.remove(term)
        sentence.noted.append(term.words)
        months = parse_duration(term.value) / SECONDS_PER_MONTH
        sentence.assumed.append(Message("workload.assumed_term", words=term.words, months=f"{months:.3g}"))
        _spread_budget(sentence, term)
    if sentence.per_time is None:
        return
    words, money, hours = sentence.per_time
    paid = parse_money(money)
    for again in [one for one in sentence.readings if one.option == "budget" and parse_money(one.value) == paid]:
        sentence.readings.remove(again)
        sentence.noted.append(again.words)
    if task != "serve" or not hours or sentence.has("budget"):
        sentence.asked.append(words)
        return
    told = next((reading.value for reading in sentence.readings if reading.option == "office_hours"), "")
    month = paid.amount * (float(told) if told and hours == 1 else HOURS_PER_MONTH) / hours
    sentence.readings.append(Reading("budget", f"{month:.6g}{paid.currency}/month", words))
    sentence.assumed.append(Message("workload.assumed_per_time", words=words, budget=f"{format_money(month, paid.currency)}"))


def sets_up(words: str) -> bool:
    """Whether a time is one in which a service is to be there: it is rented in minutes."""
    return bool(_SET_UP.search(words))


def _spread_budget(sentence: Sentence, term: Reading) -> None:
    """A total for the whole time that a service runs, by month."""
    told = next((reading for reading in sentence.readings if reading.option == "budget"), None)
    if told is None or told.value.endswith("/month"):
        return
    paid, months = parse_money(told.value), parse_duration(term.value) / SECONDS_PER_MONTH
    month = paid.amount / months
    sentence.readings.remove(told)
    sentence.readings.append(Reading("budget", f"{month:.6g}{paid.currency}/month", f"{told.words}; {term.words}"))
    sentence.assumed.append(
        Message("workload.assumed_per_time", words=f"{told.words}, {term.words}", budget=format_money(month, paid.currency))
    )


def read_volumes(sentence: Sentence) -> None:
    """The size of a volume, for which no option is: the plan takes the one known of the model."""
    if found := _VOLUME.search(sentence.text):
        sentence.note(*found.span())
        sentence.assumed.append(Message("workload.assumed_volume"))


def read_folds(sentence: Sentence) -> None:
    """Each fold trains anew, for all of its epochs."""
    found = _FOLDS.search(sentence.text)
    told = next((reading for reading in sentence.readings if reading.option == "epochs"), None)
    if found is None or told is None:
        return
    folds = _number(_first(found, "en", "zh"))
    sentence.readings.remove(told)
    sentence.readings.append(Reading("epochs", f"{_number(told.value) * folds:.0f}", f"{told.words}; {found[0].strip()}"))
    sentence.assumed.append(Message("workload.assumed_folds", folds=f"{folds:.0f}"))
    sentence.blank(*found.span())


def read_nights(sentence: Sentence) -> None:
    """A service that nobody uses at night has the load of office days, where its rate is told."""
    if found := _NIGHT_OFF.search(sentence.text):
        if sentence.has("rate"):
            sentence.take(*found.span(), "profile", "office")
        else:
            sentence.note(*found.span())


_THINGS_A_DAY = grammar.shape(
    r"(?<![\w.,-])(?P<en>{amount})\s*(?:[a-z]+\s){0,2}?[a-z-]{3,}s\s*{each_period}\s*(?P<period>{period}(?![a-z]))"
    r"|{every_zh}\s*(?P<period_zh>{period_zh})\s*{about_zh}?\s*(?P<zh>{amount})\s*{thing_zh}"
)


def settle_things_a_day(sentence: Sentence) -> None:
    """Things that come in a time are the load of a service, where nothing else tells it."""
    if any(sentence.has(option) for option in ("rate", "users")) or not (found := _THINGS_A_DAY.search(sentence.whole)):
        return
    period = (found["period"] or found["period_zh"]).casefold()
    amount = (found["en"] or found["zh"]).strip()
    value = f"{amount}/{period.rstrip('s') if period.isascii() and len(period) > 3 else period}"
    if is_taken("rate", value):
        sentence.readings.append(Reading("rate", value, found[0].strip()))
        sentence.asked = [words for words in sentence.asked if words not in found[0]]
        if left := sentence.text.find(found[0]) + 1:
            sentence.blank(left - 1, left - 1 + len(found[0]))
        elif each := _EACH_TIME.search(sentence.text):
            sentence.blank(*each.span())


_EACH_TIME = grammar.shape(r"{each_period}\s*{period}(?![a-z])|{every_zh}\s*{period_zh}")


_SPOKEN_CHAT = grammar.shape("(?<![a-z]){spoken_chat}(?![a-z])|{spoken_chat}(?<=[一-鿿])")
#: Longer than this nobody waits for a voice that answers [s].
_SPOKEN_WAIT = 3.0


def settle_spoken(sentence: Sentence) -> None:
    """Who talks with a voice waits for its first words, not for the whole answer, where a language
    model writes it."""
    model = next((one.value for one in sentence.readings if one.option == "model"), "")
    told = next((one for one in sentence.readings if one.option == "latency"), None)
    if told is None or sentence.has("ttft") or not model or grammar.TURNS_SOUND.search(model) or not _SPOKEN_CHAT.search(sentence.whole):
        return
    if parse_duration(told.value) <= _SPOKEN_WAIT:
        sentence.readings[sentence.readings.index(told)] = Reading("ttft", told.value, told.words)
        sentence.assumed.append(Message("workload.assumed_spoken", words=told.words))


def settle_speed(sentence: Sentence, users: str) -> None:
    """Tokens a second, of a service with one user, are those of that user."""
    for words in [one for one in sentence.asked if grammar.TOKEN_RATE.fullmatch(one)] if users == "1" else ():
        value = f"{1000.0 / _number(re.sub('[^0-9.]', '', words.partition('tok')[0]) or '1'):.4g}ms"
        if not sentence.has("tpot") and is_taken("tpot", value):
            sentence.asked.remove(words)
            sentence.readings.append(Reading("tpot", value, words))


def read_paged(sentence: Sentence) -> None:
    """Documents of so many pages each are pages: "5,000 PDFs of about 12 pages each"; so are those
    of which all pages are told."""
    for found in () if sentence.has("data") else _PAGES_IN_ALL.finditer(sentence.text):
        amount = (found["en"] or found["zh"]).replace(" ", "")
        if parse_count(amount) > parse_count((found["things"] or found["things_zh"]).replace(" ", "")):
            sentence.take(*found.span(), "data", f"{parse_count(amount):.0f} samples")
            return
    for found in _PAGED.finditer(sentence.text):
        amount, each = (parse_count(next(filter(None, found.group(*names))).replace(" ", "")) for names in (("en", "zh"), ("pages", "ye")))
        if not sentence.has("data") and amount * each >= 1.0:
            sentence.take(*found.span(), "data", f"{amount * each:.0f} samples")
            return


_PAGED = grammar.shape(
    r"(?<![\w.,-])(?P<en>{amount})\s+(?:[a-z]+\s+){0,3}?{paged_thing}\s*[(,]?\s*(?:{paged_glue}\s*)*"
    r"(?P<pages>{digits})\s*pages?(?![a-z])(?:\s{paged_each})*\s?\)?"
    r"|(?P<zh>{amount})\s*[份个篇本]?\s*(?:[一-鿿]{0,4}?)(?:的)?{paged_thing_zh}\s*[,，(（、]?\s*{paged_glue_zh}*每[份个篇本]\s*{paged_glue_zh}*\s*(?P<ye>{digits})\s*(?:多)?页\s?[)）]?"
)


_PAGES_IN_ALL = grammar.shape(
    r"(?<![\w.,-])(?P<things>{amount})\s+(?:[a-z]+\s+){0,3}?{paged_thing}\s*[(,;]?\s*(?:{summed_pages}\s*)*(?P<en>{amount})\s*(?:[a-z]+\s)?pages?(?![a-z])(?!\s*(?:each|{paged_each}|{each_period}))(?:\s{summed_pages})*\s?\)?"
    r"|(?<![\d.])(?P<things_zh>{amount})\s*[份个篇本]?\s*(?:[一-鿿]{0,4}?)(?:的)?{paged_thing_zh}\s*[,，(（、]?\s*(?:{summed_pages_zh}\s*)*(?P<zh>{amount})\s*(?:多)?页\s?[)）]?"
)


def read_pages(sentence: Sentence) -> list[Reading]:
    """Pages that a vision-language model reads are images, and its answers the text of a page."""
    if not reads_pages(sentence):
        return []
    planning = tables.coefficients("planning")
    usual = {
        "images": "1",
        "image_size": f"{planning['page_width']:g}x{planning['page_height']:g}",
        "output_tokens": f"{planning['page_tokens']:g}",
    }
    found = [Reading(option, value, "") for option, value in usual.items() if not sentence.has(option)]
    if found:
        sentence.assumed.append(Message("workload.assumed_pages", size=usual["image_size"], tokens=usual["output_tokens"]))
    return found


def reads_pages(sentence: Sentence) -> bool:
    """Whether the sentence tells of pages and names a model that sees and writes."""
    model = next((reading.value for reading in sentence.readings if reading.option == "model"), "")
    try:
        return bool(model and _PAGES.search(sentence.whole)) and getattr(facts.model(model, network=False), "kind", "") == "vlm"
    except RightfitError:
        return False
