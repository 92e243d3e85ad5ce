"""Whose a fact of a post is, and when: what somebody pays now, what a run took before, how long a
queue or a contract is, what may be waited for. None of it is what the same words mean in a wish.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from rightfit import facts
from rightfit.messages import Message
from rightfit.units import parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.names import names_in
from rightfit.workload.ask.posts import PERMITTED, is_hearsay, statements, tells_past
from rightfit.workload.ask.sentence import Reading, Sentence, is_taken
from rightfit.workload.ask.told import is_most_paid

_END = grammar.shape(r"[.!?](?=\s|$)|[!?;\n。！？；]")
_BILL = grammar.shape(r"(?<![A-Za-z]){bill_word}(?![a-z])|{bill_word}(?<=[一-鿿])")
_A_MONTH = grammar.shape(
    r"(?<![\w.,])(?:{about_en}\s)?{money_sign}?\s?{amount}\s?(?:{money_unit}\s?)?{each_period}\s?{month}(?![a-z])"
    r"|{month_of_money}\s*(?:{about_zh}\s*)*{amount}\s*(?:{money_unit}|[块元])?(?:左右|多)?"
)
"""Money, or a bare number, of a month."""
_EACH_CARD = grammar.shape(
    r"(?<![A-Za-z])(?:{price_head}\s)(?:{about_en}\s)?(?:{money_sign}\s?)?\d+\.\d{1,2}(?:\s{per_one}|(?![\d.,]*\d|\s?[A-Za-z%]))"
    r"|(?<![A-Za-z])at\s{money_sign}\s?{amount}(?:\s{per_one})?(?![a-z\d])"
    r"|{of_one_zh}\s?张(?:卡)?\s*(?:{about_zh}\s*)*{amount}\s*[块元](?:钱)?"
    r"|{of_one_zh}\s?个?小时\s*(?:{about_zh}\s*)*(?:{han}|\d+(?:\.\d+)?)[多几]?\s*(?:{money_unit}|[块元刀])(?:钱)?"
    r"|{of_one_zh}\s?[天日]\s*(?:{about_zh}\s*)*(?:{han}|\d+(?:\.\d+)?)[多几]?\s*[块元](?:钱)?"
    r"|{paid_hourly}\s*(?:{about_zh}\s*)*{amount}\s*(?:{money_unit}|[块元])"
)
"""What a card costs an hour, where it is named."""
_WAITS = grammar.shape(
    r"(?<![\w.]){long_time}[\s-]+(?:[a-z]+\s)?{waiting}(?![a-z])|(?<![A-Za-z]){waiting}\s{wait_lasts}\s(?:{about_en}\s)?{long_time}|{waiting}(?<=[一-鿿])(?:要|得)?\s*{long_time}"
)
_TERM = grammar.shape(r"(?<![\w.]){long_time}[\s-]+{contract}(?![a-z])")
_REMADE = grammar.shape(
    r"(?<![A-Za-z]){redo}\s{redo_what}(?:\s(?:of\s)?[a-z1]+)?\s(?:{about_en}\s|up\sto\s)?(?:\d+\s?(?:-|–|to)\s?)?(?P<en>\d+)\s?(?:times|x)(?![a-z])"
    r"|每[一-鿿]\s*{redo_near}*\s*{redo}\s*(?:\d+\s?[-到~]\s?)?(?P<zh>\d+|{han})\s*[遍次]"
)
_TUNED_BEFORE = grammar.shape("{tuned_before}")
_TOOK = grammar.shape(r"(?<![A-Za-z]){took}(?![a-z])|{took_zh}")
_NUMBER = re.compile(r"(?P<number>\d[\d,.]*\s?[kKmM]?)(?P<unit>.*)", re.DOTALL)


def read_roles(sentence: Sentence) -> None:
    """What of a post is no limit and no amount of its job, by whose and of when it is."""
    if not sentence.is_post:
        return
    paid = [*_paid(sentence), *_offered(sentence)]
    if paid:
        sentence.assumed.append(Message("workload.assumed_paid", words="; ".join(paid)))
    for pattern in (_WAITS, _TERM, _TUNED_BEFORE):
        for found in list(pattern.finditer(sentence.text)):
            sentence.note(*found.span())
    past = list(_past_amounts(sentence))
    if past:
        sentence.noted += past
        sentence.assumed.append(Message("workload.assumed_told", words="; ".join(past)))
    if permitted := PERMITTED.search(sentence.text):
        sentence.take(*permitted.span(), "deadline", permitted["en"] or permitted["zh"])
    if remade := _REMADE.search(sentence.text):
        times = parse_count(remade["en"] or remade["zh"])
        sentence.remade = (sentence.blank(*remade.span()), times)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    edges = [0, *(found.end() for found in _END.finditer(text)), len(text)]
    return ((start, end) for start, end in itertools.pairwise(edges) if text[start:end].strip())


def _paid(sentence: Sentence) -> Iterator[str]:
    """Money of a month that is paid or was quoted: in a sentence with a bill, and no limit."""
    for start, end in _sentences(sentence.whole):
        if not _BILL.search(sentence.whole, start, end):
            continue
        for found in list(_A_MONTH.finditer(sentence.text, start, end)):
            if not is_most_paid(sentence.text, *found.span()):
                sentence.note(*found.span())
                yield found[0].strip(" ,，")


def _offered(sentence: Sentence) -> Iterator[str]:
    """What a card costs an hour, in a sentence that names one."""
    for start, end in _sentences(sentence.whole):
        named = any(name.kind in ("gpu", "server", "cloud") and name.value != "none" for name in names_in(sentence.whole[start:end]))
        if not (named or _BILL.search(sentence.whole, start, end)):
            continue
        for found in list(_EACH_CARD.finditer(sentence.text, start, end)):
            if not is_most_paid(sentence.text, *found.span()):
                sentence.note(*found.span())
                yield found[0].strip(" ,，")


def _is_over(text: str) -> bool:
    """Whether a statement tells of a run that is over, or how long it took."""
    return tells_past(text) or bool(_TOOK.search(text))


def _past_amounts(sentence: Sentence) -> Iterator[str]:
    """Amounts of data of a run that is over, where another statement tells those of the job."""
    rules = [rule for rule in grammar.QUANTITIES if rule.option == "data"]
    parts = list(statements(sentence.whole))
    found = {part: [match for rule in rules for match in rule.pattern.finditer(sentence.text, *part)] for part in parts}
    now = [
        part
        for part, matches in found.items()
        if matches and not (_is_over(sentence.whole[slice(*part)]) or is_hearsay(sentence.whole[slice(*part)]))
    ]
    for part in parts:
        if now and part not in now and _is_over(sentence.whole[slice(*part)]):
            for match in sorted(found[part], key=lambda one: one.start() - one.end()):
                if grammar.BLANK not in sentence.text[slice(*match.span())].strip(grammar.BLANK):
                    yield sentence.blank(*match.span())


def settle_choices(sentence: Sentence) -> None:
    """What a post asks about is no limit: a way to pay. What it draws is the model that its amount
    names: "12k Flux-dev images". What is avoided is no machine to plan on."""
    if not sentence.is_post:
        return
    for reading in [one for one in sentence.readings if one.option == "purchase"]:
        said = [sentence.whole[start : end + 1] for start, end in statements(sentence.whole) if reading.words in sentence.whole[start:end]]
        if any(_ASKED.search(text) for text in said):
            sentence.readings.remove(reading)
            sentence.noted.append(reading.words)
    told = {one.option: one for one in sentence.readings if one.option in ("model", "data")}
    inside = [one.value for one in names_in(told["data"].words) if one.kind == "model"] if len(told) == 2 else []
    if inside and inside[0].casefold() != told["model"].value.casefold() and is_taken("model", inside[0]):
        sentence.readings[sentence.readings.index(told["model"])] = Reading("model", inside[0], told["data"].words)
        sentence.noted.append(told["model"].words)
    own = set(facts.match_accelerators(sentence.own_machine.partition("@")[0].partition("x")[2]))
    if own and any(one.option == "avoid" and own & set(facts.match_accelerators(one.value)) for one in sentence.readings):
        sentence.noted.append(sentence.own_machine)
        sentence.own_machine = ""


_ASKED = grammar.shape(r"(?<![A-Za-z]){asked_way}(?![a-z])|{asked_way}(?<=[一-鿿])")


def settle_remade(sentence: Sentence) -> None:
    """What is made anew so many times is so many times as much."""
    words, times = sentence.remade
    told = next((one for one in sentence.readings if one.option == "data"), None)
    found = _NUMBER.fullmatch(told.value.strip()) if told else None
    if not words:
        return
    if told is None or found is None:
        sentence.asked.append(words)
        return
    number = parse_count(found["number"].replace(" ", "")) * times
    sentence.readings[sentence.readings.index(told)] = Reading("data", f"{number:g}{found['unit']}", f"{told.words}; {words}")
