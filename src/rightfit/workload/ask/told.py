"""What a sentence tells of a run or a machine that is there already: how long the run took, what is
in the machine beside its cards. None of it is a limit or an amount of the wish, so it is noted, and
the answer says so.
"""

from __future__ import annotations

import re

from rightfit.facts import tables
from rightfit.messages import Message
from rightfit.units import HOURS_PER_MONTH, format_count, parse_count, parse_data
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Reading, Sentence

_SPAN = (
    r"(?:{took_near_en}\s?)*(?:{amount}\s?(?:-|–|~|to|到|至)\s?)?(?:{long_time}|{amount}\s?(?:{second_en}|s|秒钟?))(?![A-Za-z0-9]|-[a-z])"
)
_EACH_OF = r"(?:\sto\s[a-z]+(?:\s(?!{of_one}\s)[a-z]+)?)?(?:\s{of_one}\s(?:\d+-[a-z]+\s)?[a-z]+(?![a-z0-9]))?(?:\s{ran_on}(?![a-z]))?"
_TOOK = grammar.shape(
    r"(?:(?<![A-Za-z0-9]){one_of_runs}\s{run_part}\s)?(?<![A-Za-z]){took}\s(?:{took_whom}\s)?"
    + _SPAN
    + _EACH_OF
    + r"(?:\s{so_far}(?![a-z]))?"
    r"|{took_zh}\s*{took_whom_zh}?\s*{took_near_zh}*\s*(?:{long_time}|{amount}\s*(?:秒钟?|s))(?!{most}|{within_after_zh})"
)
_PACE = grammar.shape(
    r"(?<![\w.]){amount}\s?(?:s|sec|{second_en}|秒)\s?(?:/|per\s|an?\s|每)\s?{step_once}(?![a-z])|(?<![\w.]){amount}\s?{step_once}\s?(?:/|per\s|an?\s|每)\s?(?:s|sec|{second_en}|秒)(?![a-z])"
)
_CORES = grammar.shape(
    r"(?<![\w.])(?:intel\s|amd\s)?{digits}[\s-]?(?:cpu\s)?{core_name}(?![a-z])(?:\s(?:intel\s|amd\s)?{processor_make}(?![a-z]))?"
)
_MEMORY_SAID = grammar.shape(
    r"(?<![A-Za-z]){memory_says}\s(?:{memory_near}\s?)?\d+(?:\.\d+)?\s?GB(?![A-Za-z])(?!\s(?:of\s)?(?:{data_named}|[a-z]+\s{data_named}))"
)
"""What somebody says that something takes of memory: "that'd be 56GB"."""
_OWN = tables.shape("choices", r"(?<![A-Za-z])(?:{owning})(?![A-Za-z])", ignore_case=True)
_MACHINE = grammar.shape(r"(?<![A-Za-z]){machine_word}(?![A-Za-z])")
_DEMANDED = grammar.shape("{demanded}")


def read_run(sentence: Sentence) -> None:
    """How long a run took, or takes now, and its pace: no time in which the work must end."""
    told = []
    for pattern in (_TOOK, _PACE):
        while found := pattern.search(sentence.text):
            told.append(found[0].strip(" ,，"))
            sentence.note(*found.span())
    if told:
        sentence.assumed.append(Message("workload.assumed_run", words="; ".join(told)))


_MONEY = r"(?:{money_sign}\s?{digits}|{digits}\s?{money_unit}(?![a-z])|{money_sign}?{digits})"
_PRICE = r"(?:{money_sign}\s?{digits}|{digits}\s?{money_unit}(?![a-z]))"
_SIDE = r"(?:\s*{price_side}(?![a-z]))?"
_TARIFFS = tuple(
    grammar.shape(text)
    for text in (
        rf"(?:(?<![A-Za-z]){{energy_word}}\s)?{_MONEY}\s*(?:/|per\s|an?\s|每|[一1]\s?)\s*{{energy_unit}}(?![a-z])|(?:每|[一1])\s?{{energy_unit}}\s*{_PRICE}",
        rf"每\s?{{per_million}}\s*个?\s*{{token_plain}}\s*(?:{_SIDE}\s*{_PRICE}\s*[,，、/和]?\s*){{1,3}}",
        rf"(?:{_SIDE}\s*{_PRICE}{_SIDE}\s*(?:[,，、/和]|and)?\s*){{0,2}}{_PRICE}{_SIDE}\s*(?:/|per\s|an?\s|每)\s*(?:{{per_million}}(?:\s*个?\s*(?:{{price_side}}\s)?{{token_plain}})?)(?![a-z]){_SIDE}",
    )
)
_PRICE_ASKED = grammar.shape(rf"(?<![A-Za-z]){{price_question}}{_PRICE}|{{price_question_zh}}\s*{_PRICE}(?=\s*[一-鿿]?吗)")
_POWER = grammar.shape(r"(?<![\w.])\d{1,5}(?:\.\d+)?\s?{power_unit}(?![A-Za-z0-9])(?:\s{power_word}(?![a-z]))?")
_POWER_WORD = grammar.shape(r"(?<![A-Za-z]){power_word}(?![A-Za-z])|{power_word}(?<=[一-鿿])")
_OFFER = grammar.shape(
    rf"(?:{{about_en}}\s)?{_PRICE}\s*(?:/|per\s|an?\s|每|[一1]\s?(?=个?小时))\s*(?:{{per_card}}[\s/-]?)?(?:{{hour_en}}|h|个?小时)(?![a-z])|(?:每|[一1])个?小时\s*{{about_zh}}?\s*{_PRICE}"
)
_BESIDE_CARD = grammar.shape(
    r"(?<=[A-Za-z0-9])(?:\s*(?:{about_zh}|要|只要|是)*\s*(?={han})|(?:\s+|\s*(?:{about_zh}|要|只要|是)+\s*)(?=\d))(?P<price>(?:(?:\d+(?:\.\d+)?|{han})\s*(?:到|至|-|~)?\s*)?(?:\d+(?:\.\d+)?|{han})\s*[块元毛](?:{price_tail}|(?=\s*[,，。;；、]?\s*{besides_zh}?\s*[A-Za-z][A-Za-z0-9-]*\s*(?:{han}|\d)[^。]{0,3}[块元])|(?<=[一-鿿]{2}块)))"
)
"""What a card costs an hour, directly behind its name: 4090 两块多."""
_OFFERED = grammar.shape(r"(?<![A-Za-z]){offered}(?![a-z])|{offered}(?<=[一-鿿])")
_BOUND = grammar.shape(r"(?:(?<![A-Za-z]){money_bound})(?![a-z])")
_BOUND_AFTER = grammar.shape(r"\s*{money_bound_after}(?![a-z])")
_REFUSED = grammar.shape(r"{money_denied}(?:\s{money_talk})*\s{money_over}\s*$")
_CLAUSE = grammar.shape(r",(?!\d)|[，;；。!?！？\n]|\.(?=\s)|(?<![A-Za-z]){clause_joint}(?![A-Za-z])")


_DAY_TOKENS = grammar.shape(
    r"(?<![\w.,]){amount}\s?(?:{token_plain}\s)?{in_short}\s*(?:[,，/]|{clause_joint})\s*{amount}\s?(?:{token_plain}\s)?{out_short}\s*{day_of_tokens}(?![a-z])"
    r"|{day_of_tokens}\s*{about_zh}?\s*{in_short}\s*{amount}\s*{token_plain}\s*[,，、]?\s*{out_short}\s*{amount}\s*{token_plain}"
)
"""Tokens of a whole day, which are no length of a request."""
_PRECISION = "|".join(spelled.pattern for spelled in grammar.PRECISIONS.values())
_UNSUPPORTED = grammar.shape(rf"(?<![A-Za-z]){{unsupported}}\s*(?:{_PRECISION})")
"""What a card cannot do is no wish."""


def _is_bound(text: str, start: int, end: int) -> bool:
    """Whether the money that stands there is the most that somebody pays."""
    before = _CLAUSE.split(text[:start])[-1]
    return bool(_BOUND.search(before) or _REFUSED.search(before) or _BOUND_AFTER.match(text, end))


_PAYS = grammar.shape(r"(?<![A-Za-z]){pays_now}(?![a-z])|{pays_now}(?<=[一-鿿])")


def is_paid_now(text: str, start: int, end: int) -> bool:
    """Whether the money that stands there is what somebody pays already, and not the most that may
    be paid."""
    clause = _CLAUSE.split(text[:start])[-1] + text[start:end] + _CLAUSE.split(text[end:])[0]
    return bool(_PAYS.search(clause)) and not (_BOUND.search(clause) or _BOUND_AFTER.match(text, end))


def is_most_paid(text: str, start: int, end: int) -> bool:
    """Whether the money that stands there is the most that somebody pays."""
    return _is_bound(text, start, end) or bool(_BOUND.search(text[start:end]))


def read_prices(sentence: Sentence) -> None:
    """What others take for an hour, for electricity and for tokens, and what a card draws: none is
    a limit, a budget or an amount. Where it is said to be the most that is paid it stays."""
    tariffs, offers = [], []
    for pattern in _TARIFFS:
        for found in list(pattern.finditer(sentence.text)):
            if _is_bound(sentence.text, *found.span()):
                sentence.ask(*found.span())  # no option limits it
                continue
            tariffs.append(found[0].strip(" ,，、"))
            sentence.note(*found.span())
    for found in list(_POWER.finditer(sentence.text)):
        if _POWER_WORD.search(_CLAUSE.split(sentence.text[: found.start()])[-1] + found[0]):
            tariffs.append(found[0].strip())
            sentence.note(*found.span())
    for found in list(_BESIDE_CARD.finditer(sentence.text)) if sentence.is_post else ():
        offers.append(found["price"].strip())
        sentence.note(*found.span("price"))
    for found in list(_OFFER.finditer(sentence.text)):
        clause = _CLAUSE.split(sentence.text[: found.start()])[-1]
        is_bound = _is_bound(sentence.text, *found.span()) or _BOUND.search(found[0])
        rest = clause + _CLAUSE.split(sentence.text[found.end() :])[0]
        if not is_bound and ((sentence.is_post and rest.strip(" .")) or _OFFERED.search(clause)):  # one that stands alone is a limit
            offers.append(found[0].strip(" ,，"))
            sentence.note(*found.span())
    for pattern in (_DAY_TOKENS, _UNSUPPORTED):
        for found in list(pattern.finditer(sentence.text)):
            words = found[0].strip()
            if pattern is _DAY_TOKENS and not sentence.is_post:
                sentence.ask(*found.span())
                continue
            sentence.note(*found.span())
            if pattern is _DAY_TOKENS:
                sentence.assumed.append(Message("workload.assumed_without", words=words))
    for found in list(_PRICE_ASKED.finditer(sentence.text)):
        sentence.note(*found.span())
    if tariffs:
        sentence.assumed.append(Message("workload.assumed_tariff", words="; ".join(tariffs)))
    if offers:
        sentence.assumed.append(Message("workload.assumed_offered", words="; ".join(offers)))


_HOURS_A_DAY = grammar.shape(
    r"(?<![\w.])(?:\d{1,2}\s?{range_word}\s?)?(?P<en>\d{1,2})\s?(?:{hour_en}|h)\s?{of_each_day}\s?day(?![a-z])"
    r"|{every_day_zh}\s*[一-鿿]{0,4}?\s*(?:(?:\d{1,2}|{han})\s*[、,到至~-]\s*)?(?P<zh>\d{1,2}|{han})\s*个?{hour_zh}"
    r"|{part_of_day}?[一-鿿]{0,2}{gathered_zh}\s*(?P<gathered>\d{1,2}|{han})\s*个?{hour_zh}"
)


def read_hours_a_day(sentence: Sentence) -> None:
    """So many hours of each day: of a service those in which it runs."""
    if (found := _HOURS_A_DAY.search(sentence.text)) and not grammar.TURNS_SOUND.search(sentence.whole):
        words = sentence.blank(*found.span())
        sentence.hours_a_day = (words, float(parse_count(found["en"] or found["zh"] or found["gathered"])))


def settle_hours_a_day(sentence: Sentence, task: str) -> None:
    words, hours = sentence.hours_a_day
    if not words:
        return
    if task == "serve" and 0.0 < hours <= 24.0 and not sentence.has("office_hours"):
        sentence.readings.append(Reading("office_hours", f"{hours * HOURS_PER_MONTH / 24.0:.4g}", words))
    else:
        sentence.asked.append(words)


def read_memory_said(sentence: Sentence) -> None:
    """Memory that something is said to take is no amount of data."""
    while found := _MEMORY_SAID.search(sentence.text):
        sentence.note(*found.span())


def read_host(sentence: Sentence) -> None:
    """Processor and memory of a machine that somebody has. What a server must have stays to be
    asked about."""
    told = list(grammar.PROCESSOR.finditer(sentence.text))
    if _OWN.search(sentence.whole) or any(one.key == "workload.assumed_run" for one in sentence.assumed):
        for pattern in (grammar.HOST_MEMORY, _CORES):
            told += [
                found
                for found in pattern.finditer(sentence.text)
                if not (_is_demanded(sentence.text, found) or grammar.CARD_MEMORY.search(found[0]))
            ]
    words = []
    for found in sorted(told, key=lambda match: match.start()):
        if grammar.BLANK not in sentence.text[slice(*found.span())]:
            words.append(found[0].strip(" ,，"))
            sentence.note(*found.span())
    if words:
        for found in list(_MACHINE.finditer(sentence.text)):
            sentence.note(*found.span())
        sentence.assumed.append(Message("workload.assumed_host", words="; ".join(words)))


def _is_demanded(text: str, found: re.Match[str]) -> bool:
    """Whether so much is what a server must have: "at least 64 GB of RAM"."""
    clause = re.split(r"[,，.。;；?？!！]", text[: found.start()])[-1]
    return bool(_DEMANDED.search(clause) or _DEMANDED.search(found[0]))


_CUT = grammar.shape(
    r"(?<![A-Za-z]){cut_to}{is}{about}?(?P<value>\d[\d,.]*\s?(?:k|千)?)\s*(?:个)?\s*{token_plain}?(?![A-Za-z0-9%]|\s*{money_unit}|\s*{long_unit})"
    r"|{cut_to}(?<=[一-鿿]){is}(?P<zh>\d[\d,.]*\s?(?:k|千)?)\s*(?:个)?\s*(?:{token_plain}|字)?(?![A-Za-z0-9%]|\s*{money_unit}|\s*{long_unit})"
)
_CONTEXTS = tuple(
    grammar.shape(text)
    for text in (
        r"(?P<value>\d[\d,.]*k?)[- ]?(?:tokens?\s)?{context_after}(?:\s{context_end})?(?![a-z])",
        r"{context}{is}(?P<value>\d[\d,.]*k?)(?![\w%])",
    )
)
_TUNED = frozenset(grammar.UPDATES)


def read_cut(sentence: Sentence) -> None:
    """To how many tokens each text is cut: the length of a sequence, whatever the average is."""
    if found := _CUT.search(sentence.text):
        value = (found["value"] or found["zh"]).strip(" ,.")
        sentence.cut = (value, found[0].strip(" ,，"))
        sentence.blank(*found.span())


def settle_cut(sentence: Sentence, task: str) -> None:
    """The length of a sequence beside that of a sample: the samples are so many tokens, in
    sequences of that length."""
    told = next((one for one in sentence.readings if one.option == "seq_len"), None)
    cut, words = sentence.cut
    found = next((one for shape in _CONTEXTS if (one := shape.search(sentence.text))), None)
    if not cut and told is not None and task in ("train", "finetune") and found:
        cut, words = found["value"].strip(",. "), found[0].strip()
        sentence.blank(*found.span())
    if not cut:
        return
    method = next((one.value for one in sentence.readings if one.option == "method"), "full")
    data = next((one for one in sentence.readings if one.option == "data"), None)
    if told is None or task not in ("train", "finetune") or method not in _TUNED:
        if told is None:
            sentence.readings.append(Reading("seq_len", cut, words))
        else:
            sentence.asked.append(words)
        return
    sentence.readings[sentence.readings.index(told)] = Reading("seq_len", cut, words)
    samples = parse_data(data.value).samples if data else None
    if data is None or not samples:
        sentence.noted.append(told.words)
        return
    each = min(parse_count(told.value.replace(" ", "")), parse_count(cut.replace(" ", "")))
    tokens = f"{samples * each:.0f} tokens"
    sentence.readings[sentence.readings.index(data)] = Reading("data", tokens, f"{data.words}; {told.words}")
    sentence.assumed.append(
        Message("workload.assumed_cut", samples=data.words, each=f"{each:,.0f}", tokens=format_count(samples * each), length=cut)
    )
