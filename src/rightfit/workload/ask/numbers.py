"""Numbers as people speak and write them, before anything else is read: words as digits, halves,
ranges and amounts that are only about so many.
"""

from __future__ import annotations

import contextlib
import re

from rightfit.errors import InputError
from rightfit.facts import tables
from rightfit.facts.expressions import Expression
from rightfit.messages import Message
from rightfit.units import parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Sentence
from rightfit.workload.ask.slips import mended

_NEXT_ZH = {"万": "千", "千": "百", "百": "十"}
_HALVES: tuple[tuple[Expression, str], ...] = tuple(
    (grammar.shape(pattern), said)
    for pattern, said in (
        (r"(?<![\w.])(\d{1,2}|{english_number}) and a half (?=[a-z])", "{}.5 "),
        (r"(?<![\w.])(an?|\d{1,2}|{english_number}) ({calendar_unit})s? and a half(?![a-z])", "{}.5 {}s"),
        (r"(?<![\w.])an? ({calendar_unit}) or {or_so}(?![a-z])", "1 to 2 {}s"),
        (r"(?<![\w.])half an? ({multiplier_en})(?![a-z])", "0.5 {}"),
        (r"(?<![\w.])(?:a )?quarter (?:of )?(?:an? )?({multiplier_en})(?![a-z])", "0.25 {}"),
        (r"(?<![\w.])three quarters of an? ({multiplier_en})(?![a-z])", "0.75 {}"),
        (r"(\d{1,2}|[一二两三四五六七八九])个?([天周年])半(?![年月天小个])", "{}.5{}"),
        (r"(\d{1,2}|[一二两三四五六七八九])个半({half_before_zh})", "{}.5个{}"),
        (r"(\d{1,2}|[一二两三四五六七八九])({half_after_zh})半", "{}.5{}"),
    )
)
_VAGUE = grammar.shape(
    r"(?<![\w.])(?P<en>{vague_en})(?![a-z])|(?<![\w.])(?P<before>{vague_before_en})(?=\s{vague_counted}(?![a-z]))|(?P<tens>{vague_tens_zh})(?=[万亿]|{vague_counted_zh})|(?P<zh>{vague_zh})(?=[百千万亿])"
)
_VAGUE_LISTS = {"en": "vague_en", "before": "vague_before_en", "tens": "vague_tens_zh", "zh": "vague_zh"}
_RANGE = grammar.shape(
    r"(?<![A-Za-z0-9.,_-])(?:between\s|from\s|介于\s?)?(?P<first>(?P<sign>{money_sign}\s?)?{amount})(?P<unit>\s?(?:[a-z]{1,12}|[一-鿿]{1,3}?))?\s?"
    r"(?P<join>{range_joint})\s?(?=(?P<second>(?:{money_sign}\s?)?{amount}))"
)
_COUNTED = grammar.shape(
    r"\s?(?:{thing_zh}|{request_count_zh}|{row}|{people_zh}|{long_unit}|{money_unit}|{rate_unit}|{epoch}|[kmgtp]i?b|{at_once_en}|{length_zh}|{word_count}"
    r"|{pixel_after}|{node_name}|{range_side})(?![A-Za-z0-9])|\s(?!{workdays})(?:[a-z]+\s){0,2}[a-z]+s(?![\w-])"
)
"""What a range may count."""
_BRAND = tables.shape("names", r"(?<![a-z]){gpu_brand}\s?$", ignore_case=True)
"""A card's brand, which a number of its name follows."""
_NEIGHBORS = re.compile(
    r"(?<![一二三四五六七八九十百千万亿])(?P<first>[一两二三四五六七八])(?=(?P<second>[两二三四五六七八九][十百千万亿]*)\s?[一-鿿])"
)
_FOLLOWING = {"一": "二两", "两": "三", "二": "三", "三": "四五", "四": "五", "五": "六", "六": "七", "七": "八", "八": "九"}


_POWER = re.compile(r"(?<![\w.^])(?:(\d{1,3}(?:\.\d{1,3})?)\s?[x×*]\s?)?10\s?(?:\^|\*\*)\s?(\d{1,2})(?![\w.])")
"""A power of ten, "2 x 10^8"."""
_WHOLE_SERVERS = tables.shape(
    grammar.TABLE,
    r"(?<![\w.])(\d{1,4})\s?(?:[x×*]\s?)?(?:nvidia\s)?{whole_server}[\s-](?=[abh]\d{2,3})([abh]\d{2,3})s?(?!\w)(?:\s?{server_word})?(?:\s?\(\s?8\s?[x×*]\s?(?=\d+\s?g))?",
    ignore_case=True,
)
"""Whole servers of a maker by their name: each has eight cards."""


_QUANTIZED_SIZE = grammar.shape(r"(?<![\w./-])(\d+(?:\.\d+)?b)-(?={weight_format}(?![a-z0-9]))")
"""A bare size with the format of its weights, "72B-AWQ"."""


def _power(found: re.Match[str]) -> str:
    return f"{float(found[1] or 1) * 10 ** int(found[2]):.0f}"


def with_digits(text: str) -> str:
    """English number words as digits, and "2w条" as 2 万, so that one grammar reads all; "w/" as
    "with"."""
    text = grammar.CONTRACTED.sub(_drawn_apart, mended(text))
    text = _POWER.sub(_power, text)
    text = _WHOLE_SERVERS.sub(lambda found: f"{found[1]} servers of 8 {found[2]}{' (' * found[0].endswith(('x', '×', '*'))}", text)
    text = _QUANTIZED_SIZE.sub(r"\g<1> ", text)
    text = re.sub(r"(?<![A-Za-z0-9])w/(?=[\sA-Za-z0-9])\s?", "with ", text)
    text = re.sub(r"(?<![A-Za-z0-9-])re-(?=[a-z])", "", text)
    text = re.sub(r"(?<=\d)\+(?=\s?[a-z一-鿿])|(?<=\d[kmbKMB])\+(?=\s)", "", text)
    for pattern, said in _HALVES:
        text = pattern.sub(lambda found, said=said: said.format(*map(_spelled_digit, found.groups())), text)  # type: ignore[misc]
    text = grammar.COMPOUND_ZH.sub(lambda found: grammar.chinese_number(found[0]), text)
    text = grammar.ABOUT_SO_MANY.sub("", text)
    text = tables.shape(grammar.TABLE, r"(?<=\d)\s?[wW](?=\s*(?:{counted_after_w}|{thing_zh}))").sub("万", text)
    text = grammar.SPOKEN_ZH.sub(lambda found: grammar.chinese_number(f"{found[1]}{found[2]}{found[3]}{_NEXT_ZH[found[2]]}"), text)
    text = grammar.HYPHENED_NUMBER.sub(lambda found: f"{grammar.ENGLISH_NUMBERS[found[1].casefold()]} {found[2]}", text)
    text = grammar.HALF_SECOND.sub("500 ms", text)
    text = grammar.A_SECOND.sub(r"\g<1>1 second", text)
    text = grammar.A_WHILE.sub(r"\g<1>1 ", text)
    text = grammar.KIND_OF_CARDS.sub(r"\g<1> ", text)
    digits = grammar.NUMBER_WORDS.sub(_digit, text)
    digits = re.sub(r"(?<![\w.])(\d{1,2}) hundred(?![a-z])", r"\g<1>00", digits, flags=re.IGNORECASE)
    return re.sub(r"(?<![\w.])(\d{1,3}) thousand(?![a-z])", r"\g<1>000", digits, flags=re.IGNORECASE)


def _drawn_apart(found: re.Match[str]) -> str:
    return f"{tables.meaning(grammar.TABLE, 'contracted', found['verb'], ignore_case=True)} not"


def _spelled_digit(word: str) -> str:
    """The digit of a small number word; other words as they are."""
    if word.casefold() in ("a", "an"):
        return "1"
    if word in "一二三四五六七八九两":
        return grammar.chinese_number(word)
    return grammar.ENGLISH_NUMBERS.get(word.casefold(), word)


def _digit(match: re.Match[str]) -> str:
    """The digits of an English number word; "one" may stand for a thing, "which one"."""
    stands = match[0].casefold() == "one" and (
        grammar.ONE_OF_THEM.search(match.string[: match.start()]) or not re.match(r"[\s-]*\w", match.string[match.end() :])
    )
    return match[0] if stands else grammar.ENGLISH_NUMBERS[match[0].casefold()]


def spoken(text: str) -> tuple[str, list[Message]]:
    """The text with digits, and what was made of words that say only about how many: "several
    hundred", 几千."""
    assumed: list[Message] = []

    def number(found: re.Match[str]) -> str:
        chosen = next(name for group, name in _VAGUE_LISTS.items() if found[group])
        meant = tables.meaning(grammar.TABLE, chosen, found[0], ignore_case=True)
        assumed.append(Message("workload.assumed_vague", words=found[0], number=meant))
        return meant

    return with_digits(_VAGUE.sub(number, text)), assumed


def read_ranges(sentence: Sentence) -> None:
    """Of a range the upper end is used: "10k to 20k samples", 两三天."""
    for pattern, is_range in ((_RANGE, _is_range), (_NEIGHBORS, _are_neighbors)):
        for found in reversed([one for one in pattern.finditer(sentence.text) if is_range(one)]):
            words = sentence.text[found.start() : found.end("second")].strip()
            sentence.assumed.append(Message("workload.assumed_range", words=words, used=found["second"].strip()))
            sentence.text = sentence.text[: found.start()] + sentence.text[found.end() :]


def _are_neighbors(found: re.Match[str]) -> bool:
    return found["second"][0] in _FOLLOWING[found["first"]]


#: Two numbers apart are no range where one is so many times the other.
_WIDEST_APART = 100.0


def _is_range(found: re.Match[str]) -> bool:
    """Whether two numbers are the ends of one range, and not an amount and another one."""
    if found["join"].casefold() in ("and", "or") and not found[0].casefold().startswith(("between", "from")):
        return False
    text = found.string
    if not _COUNTED.match(text, found.end("second")) and not (found["sign"] and not re.match(r"[\w.:%]", text[found.end("second") :])):
        return False  # nothing says what they count
    if found["unit"] and not _COUNTED.match(text, found.end("first")):
        return False
    if grammar.CARD_RANGE.match(text, found.start("first")) or _BRAND.search(text[max(found.start() - 16, 0) : found.start("first")]):
        return False
    is_apart = re.search(r"\s[-–—]\s", found[0]) is not None  # it may stand between two parts of a sentence
    low, high = (re.sub(r"[^\w.,]|us$", "", found[name], flags=re.IGNORECASE) for name in ("first", "second"))
    unit = re.sub(r"[\d.,]", "", high)
    with contextlib.suppress(InputError):
        least, most = parse_count(low if re.search(r"[^\d.,]", low) else low + unit), parse_count(high)
        return 0 < least < most and (not is_apart or most <= _WIDEST_APART * least)
    return False
