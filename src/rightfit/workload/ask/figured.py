"""What people say that is a figure only after some arithmetic: a head count, clips of so many
seconds, folds, hours of a night, days of a calendar. What it takes on trust is kept in
`Sentence.assumed`, for the answer to say.
"""

from __future__ import annotations

import calendar
import datetime
import re

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts import tables
from rightfit.messages import Message
from rightfit.units import format_bytes, format_count, parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.named import card_count
from rightfit.workload.ask.sentence import Reading, Sentence

_SHARE = grammar.shape(
    r"(?:(?:about|around|maybe|roughly)\s)?(?P<en>\d+(?:\.\d+)?)\s?%\s*(?:of\s(?:them|these|those|the\s\w+|{people}))?\s*(?:(?:will|would|may|might|can|are|is|be|being)\s)*{together}(?![a-z])"
    r"|(?:其中)?(?P<zh>\d+(?:\.\d+)?)\s?%\s*(?:的)?(?:人|员工|用户)?(?:会)?{together_zh_share}|{together_zh_share}(?:的|率|比例)*(?:人)?(?:约|大概|有|为|是|占)*\s*(?P<tail>\d+(?:\.\d+)?)\s?%"
)
_STAFF = grammar.shape(
    r"(?P<en>{amount})\s*(?:[a-z-]+\s)?{staff}(?![a-z])|{staff_head}\s(?:about\s|around\s|some\s)?(?P<head>{amount})(?:\s(?:people|users|persons?|employees|staff))?(?![\w%])"
    r"|{staff_head_zh}(?P<zh>{amount})\s*(?:多)?(?:个|名|位)?\s*(?:人|{staff_zh})(?:使用|用)?|(?P<counted>{amount})\s*(?:多)?(?:个|名|位)?\s*{staff_zh}(?:使用|用)?"
    r"|(?P<tail>{amount})\s*(?:多)?(?:个|名|位)?\s*人{staff_tail_zh}"
)
_COMPANY = grammar.shape("{company_zh}")
_OF_COMPANY = grammar.shape(r"(?P<used>{amount})\s*(?:多)?(?:个|名|位)?\s*人(?:要|会|在)?(?:使用|用)")
_HEADS = grammar.shape(r"(?P<en>{amount})\s*(?:[a-z-]+\s)?{people}(?![a-z])|(?P<zh>{amount})\s*(?:个|名|位)?\s*{people_zh}(?:使用|用)?")
_TOGETHER = grammar.shape(r"[\s,]*(?:(?:are|being|who are)\s)?{together}(?![a-z])|[\s，,]*{together_zh_share}")
_IN_FLIGHT, _NO_FLIGHT = grammar.shape("{in_flight}"), grammar.shape("{in_flight_no}")
_REQUESTS = re.compile(r"(?<![a-z])requests?(?![a-z])|请求", re.IGNORECASE)
_CLIPS = grammar.shape(
    r"(?:(?P<count>{amount})\s+)?(?P<seconds>{digits})[\s-]?(?:s|secs?|seconds?)(?:[\s-]long)?\s+(?:[a-z]+\s|\d+p\s){0,2}?(?P<unit>clips?|videos?|films?|animations?|shots?)(?![a-z])"
    r"|(?P<many>{amount})\s+(?:[a-z]+\s|\d+p\s){0,2}?(?P<things>clips?|videos?|films?|animations?)(?:\s(?:of|at|with|each|lasting))*,?\s(?P<each>{digits})\s?(?:s|secs?|seconds?)(?![a-z])(?:\s(?:each|long|apiece))*"
    r"|(?P<zh>{number})\s*秒(?:钟)?(?:长)?的?(?:[一-鿿]{0,3}?)(?:短?视频|短片|动画)"
)
_VOLUME = re.compile(
    r"(?:(?:roughly|about|each)\s)?(?<![\dx×*.])\d{2,4}\s?[x×*]\s?\d{2,4}\s?[x×*]\s?\d{2,4}(?:\s?(?:voxels?|patch(?:es)?|volumes?|crops?)|的(?:块|体素|图块|patch))?(?:\s(?:each))?"
)
_FOLDS = grammar.shape(r"(?P<en>\d+)[\s-]?folds?(?:\s(?:cross[\s-]?validation|cv))?(?![a-z])|(?P<zh>{number})\s*折(?:交叉验证)?")
_EACH_ITS_OWN = grammar.shape(
    r"(?P<zh>{amount})\s*[个位名款种套](?P<thing>[一-鿿]{0,6}?)(?:各自?|每个|分别)(?:要|来)?(?:训练?|做|练|炼|微调)?(?:出)?(?:1|一)?[个套]?"
    r"|(?:a|1|one)\s(?:separate\s|own\s|different\s)?(?P<what>lora|model|adapter|fine-?tune)s?\s(?:for\s(?:each)\sof|per|for\severy\s1\sof|for\s(?:each)\sof)\s(?:our\s|the\s|my\s)?(?P<en>{amount})\s[a-z]+(?:\s[a-z]+)?"
    r"|(?P<many>{amount})\s(?:separate|different|individual|distinct)\s(?:loras?|models|adapters|fine-?tunes)(?:,?\s(?:1|one)\s(?:per|for each)\s[a-z]+)?"
)
_LATER = grammar.shape(
    r"[;,]?\s*(?:(?:and|plus)\s)?(?:then|after that|afterwards?|later)\s(?:about\s|another\s)?{amount}\s(?:new\s|more\s|additional\s)?(?:[a-z]+\s){0,2}?(?:(?:every|each|per|a)\s(?:night|day|week|month|hour)|nightly|daily|weekly|monthly)(?![a-z])"
    r"|[,，;；]?\s*(?:之后|以后|然后|后续|后面|往后)\s*每(?:天|晚|日|周|月)(?:再|会|大约|大概|约)*(?:新增|增加|增量|加|有|来)?\s*{amount}\s*[条篇个份张封]?(?:新的?)?[一-鿿]{0,2}(?=[\s,，。;；]|$)"
)
_SLOW_FRAMES = grammar.shape(
    r"(?:at\s)?(?P<en>{digits})\s(?:frames?|images?|pictures?)\s(?:every|each|per)\s(?P<seconds>{digits})\s?(?:s|secs?|seconds?)(?![a-z])(?:\s(?:from|of|per)\s(?:each)(?:\s(?:camera|stream|feed|channel))?)?"
    r"|(?:{of_each_camera_zh})?\s*每(?:隔)?\s*(?P<per>{number})\s*秒\s*(?:抽|取|截|拍|传|分析)?\s*(?P<zh>{number})\s*(?:帧|张图?)"
)
_WINDOW = re.compile(
    r"(?:from|between)?\s*(?<![\d:])(?P<from>\d{1,2})(?::00)?\s?(?P<half>am|pm)?\s?(?:to|-|–|and|until|till)\s?(?P<to>\d{1,2})(?::00)?\s?(?P<other>am|pm)(?![a-z])"
    r"|(?:从)?(?P<when>凌晨|夜里|半夜|深夜|晚上?|每晚)?(?:的)?(?P<first>\d{1,2}|[一二两三四五六七八九十]{1,3})点(?:钟)?(?:到|至|-|~)(?:次日|第2天|第二天)?(?P<then>凌晨|早上|清晨|早)?(?P<last>\d{1,2}|[一二两三四五六七八九十]{1,3})点(?:钟)?(?:之?间)?",
    re.IGNORECASE,
)
_NIGHTLY = re.compile(
    r"(?<![a-z])(?:nightly|(?:every|each|per|at) night|daily|every day|each day|overnight)(?![a-z])|每[晚夜天日]|夜里|凌晨|半夜|夜间",
    re.IGNORECASE,
)
_NEXT_DAY = re.compile(
    r"(?:(?:ready|done|finished|available|completed|results?)\s)?(?:by|before|until|at)\s(?P<en>\d{1,2})(?::(?P<minutes>\d\d))?\s?(?P<half>am|pm)?\s?(?:o'clock\s)?(?:on\s|of\s)?(?:the\s)?(?:next|following)\s(?:morning|day)"
    r"|(?:by|before|until)\s(?:the\s)?(?:next|following)\s(?:morning|day)\s(?:at|by)\s(?P<after>\d{1,2})\s?(?P<late>am|pm)?(?![a-z])"
    r"|(?:到|在)?(?:第2天|第二天|次日|隔天|翌日|转天)(?:的)?(?P<part>早上|上午|凌晨|清晨|早|中午|下午|晚上)?(?P<zh>\d{1,2}|[一二两三四五六七八九十]{1,3})点(?:钟)?(?P<more>半)?(?:之?前|以前)?(?:就)?(?:必须|需要|要|得|能)?(?:出结果|完成|交付|做完|转完|跑完|出|好)?",
    re.IGNORECASE,
)
_CALENDAR = re.compile(
    r"(?:(?:by|before|until|till)\s)?(?:the\s)?end of (?P<next>next week)|(?:by|before|until|till)?\s?(?:the\s)?end of (?P<month>(?:the|this) month)|(?:by|before|until|till)?\s?(?:the\s)?end of (?P<later>next month)"
    r"|下(?:个)?(?P<weekend>周末)(?:之?前|完成)?|(?:这个?|本)?(?P<zh>月底)(?:之?前|完成)?|下个?(?P<zh_later>月底)(?:之?前|完成)?",
    re.IGNORECASE,
)
_WEEKDAY = grammar.shape(
    r"(?:{by_day}|before|by)\s(?:the\s)?(?P<this>this|coming)\s(?P<en>{weekday_en})(?![a-z])|(?P<zh>[这本]个?)(?P<day>{weekday_zh})(?:晚上?|早上?|下午|上午|中午)?{by_day_zh}|(?P<next>下个?)(?P<later>{weekday_zh})(?:晚上?|早上?|下午|上午|中午)?{by_day_zh}"
)
_UNREAD_DAY = re.compile(
    r"(?<![A-Za-z])(?:by|before|until|till|due)\s(?:the\s)?(?P<en>[A-Z][a-z]+(?:\s(?:\d{1,2}|[A-Z][a-z]+))?|deadline|launch|release|holidays?|conference|semester|end of the (?:year|quarter))(?![\w-])"
    r"|(?P<zh>(?!目前|当前|之前|以前|提前|训练)[一-鿿]{1,4}(?<![之以提目当])前)(?=\s*(?:[,，。;；]|要|完成|交|出|做|跑|$))"
)
_NIGHT_OFF = re.compile(
    r"(?:no ?(?:body|one)\s(?:uses?|is using|needs?)\s(?:it\s)?|(?:not|never|hardly|un)\s?used\s|no (?:traffic|users?|load)\s|quiet\s|idle\s)(?:at|during the|by|over) night|(?:夜里|晚上|夜间|半夜|凌晨|下班后|夜晚)(?:基本|几乎|都|就)*(?:没有?人?|无人|不)(?:使?用|访问|流量|请求|在用)",
    re.IGNORECASE,
)
_PAGES = tables.shape(grammar.TABLE, r"(?<![A-Za-z]){page_word}(?![A-Za-z])|{page_word_zh}", ignore_case=True)


def _first(match: re.Match[str], *names: str) -> str:
    return next((found for name in names if (found := match[name])), "")


def _number(text: str) -> float:
    return parse_count(text.replace(" ", ""))


def read_figured(sentence: Sentence) -> None:
    """What must be read before the quantities, which would take its numbers for others."""
    for read in (_read_tables, _read_staff, _read_slow_frames, _read_clips, _read_own_jobs):
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
    found = _CLIPS.search(sentence.text)
    if found is None or not speed or sentence.has("frames"):
        return
    seconds = _number(_first(found, "seconds", "each", "zh"))
    sentence.readings.append(Reading("frames", f"{seconds * int(speed) + 1:.0f}", found[0].strip()))
    sentence.assumed.append(Message("workload.assumed_frames", fps=speed, seconds=f"{seconds:g}"))
    if count := _first(found, "count", "many"):
        sentence.take(*found.span(), "data", f"{count} clips")
        lines = grammar.shape(r"(?<![\w.]){video_lines}p(?![a-z0-9])").search(found[0])
        if lines and not sentence.has("image_size"):
            sentence.readings.append(Reading("image_size", tables.meaning(grammar.TABLE, "video_lines", lines[0][:-1]), lines[0]))
    else:
        sentence.blank(*found.span())


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
    if found and _NIGHTLY.search(sentence.whole) and not any(sentence.has(option) for option in ("rate", "users")):
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


def _clock(hour: str, part: str) -> float:
    """The hour of the day [h]."""
    clock = _number(hour)
    late = part.casefold() == "pm" or part in ("下午", "晚上", "晚") or (part in ("夜里", "深夜", "半夜", "每晚") and clock >= 6)
    return clock % 12 + 12 if late and clock <= 12 and not (part in ("晚上", "晚", "每晚") and clock < 6) else clock % 24


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
