"""The usual length of prompts or samples where the longest stands beside it: "128k context, avg
6k", "avg 900 tok (max 2048)", 平均 6k，最长 128k. The usual one sets the load, the longest the
length of sequences.
"""

from __future__ import annotations

import functools
import re

from rightfit.facts.expressions import Expression
from rightfit.messages import Message
from rightfit.units import parse_count, parse_data
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Reading, Sentence, is_taken

_TRAINED = ("train", "finetune")


_LENGTH_LAW = (
    r"(?:(?P<out>{output_head}|{text_made})[^,，;；.。\d]{0,12})?(?:{input_head}[^,，;；.。\d]{0,6})?"
    r"(?:(?P<median>{length_median})|{length_mean})(?:\s?(?:{input_head}|{length}))*{is}{about}?(?P<centre>{digits}k?)\s*个?(?:{token_plain}|字)?"
    r"(?:\s*[,，、/;；(（]?\s*(?:and\s)?p(?P<share>9\d(?:\.\d+)?){is}{about}?(?P<high>{digits}k?)(?:\s*个?{token_plain})?(?![\w.%])(?!\s?(?:{short_unit})))?"
    r"(?:\s*[,，、/;；(（]?\s*(?:and\s)?{length_most}{is}(?P<most>{digits}k?)(?:\s*个?{token_plain})?(?![\w%]))?[)）]?(?P<behind>\s*(?:token\s)?{output_after}(?![a-z]))?"
)


@functools.cache
def _law() -> Expression:
    return grammar.shape(_LENGTH_LAW)


def read_length_law(sentence: Sentence) -> None:
    """Lengths told by their middle and a high percentile, "2317 tokens on average, p99 18k, at most
    61k", as the law that `--input-tokens` takes; of answers the middle, where nothing but the
    longest stands beside it."""
    for found in list(_law().finditer(sentence.text)):
        option = "output_tokens" if found["out"] or found["behind"] else "input_tokens"
        law = _plain(found["centre"])
        if found["high"]:
            law = f"{'p50' if found['median'] else 'mean'}={law},p{found['share']}={_plain(found['high'])}"
            law += f",max={_plain(found['most'])}" if found["most"] else ""
        elif not found["most"] or option == "input_tokens":
            continue  # of what is read `read_lengths` takes the longest
        if not sentence.has(option) and is_taken(option, law):
            sentence.take(*found.span(), option, law)


def _plain(number: str) -> str:
    return number.replace(",", "").replace(" ", "")


@functools.cache
def _shapes() -> tuple[Expression, ...]:
    """(The usual length, the longest, that a length is that of answers.)"""
    unit = r"(?:\s?(?P<unit>{length_token}))?(?:\s?(?:of\s|的)?(?P<thing>{length_thing})(?![a-z]))?"
    number = r"(?P<value>{digits}\s?k?)(?![\w.%]|\s?{length_other})"
    behind = r"(?P<value{n}>{digits}\s?k?)(?:\s?(?P<unit{n}>{length_token}))?(?:\s?(?P<thing{n}>{length_thing}))?\s?(?:{word})"
    usual = r"(?:{seq_average}|{length_usual})\s*(?:(?P<thing0>{length_thing})\s*)?(?:{is_word}|{about}|of|:|：|~)?\s*" + number + unit
    usual += "|" + behind.replace("{n}", "2").replace("{word}", "{length_usual_behind}")
    longest = r"(?:{length_most})\s*(?:(?P<thing0>{length_thing})\s*)?(?:{is_word}|of|:|：|~)?\s*" + number + unit
    longest += "|" + behind.replace("{n}", "2").replace("{word}", "{length_most_behind}")
    longest += r"|(?P<value3>{digits}k)\s?(?:{length_token}\s?)?(?:的)?(?P<thing3>{length_held})(?:\s(?:{context_end}))?(?![a-z])"
    return grammar.shape(usual), grammar.shape(longest), grammar.shape(r"\s?{length_answer}")


def read_lengths(sentence: Sentence) -> None:
    """A usual length and a longest one: of what is trained the samples have the usual and the
    sequences the longest; what is asked has the usual."""
    usual, longest, answer = _shapes()
    for found in usual.finditer(sentence.text):
        length, told = _read(found)
        at = found.span()
        for other in longest.finditer(sentence.text):
            most, told_too = _read(other)
            is_apart = other.start() >= at[1] or other.end() <= at[0]
            is_answer = any(answer.match(sentence.text, one.end()) for one in (found, other))
            if is_apart and most > length > 1 and (told or told_too) and not is_answer:
                _settle(sentence, found, other, length, most)
                return


def _read(found: re.Match[str]) -> tuple[float, bool]:
    """(Tokens, whether anything says that they are tokens.)"""
    groups = found.groupdict()
    value = next(text for name, text in groups.items() if name.startswith("value") and text)
    told = any(text for name, text in groups.items() if name.startswith(("unit", "thing")) and text)
    return parse_count(value.replace(" ", "")), told


def _settle(sentence: Sentence, usual: re.Match[str], longest: re.Match[str], length: float, most: float) -> None:
    if any(grammar.TASKS[task].search(sentence.whole) for task in _TRAINED) or any(
        p.search(sentence.whole) for p in grammar.METHODS.values()
    ):
        sentence.take(*longest.span(), "seq_len", f"{most:.0f}")
        sentence.usual_length = (sentence.blank(*usual.span()).strip(" ,;("), length)
        return
    sentence.take(*usual.span(), "input_tokens", f"{length:.0f}")
    words = sentence.blank(*longest.span())
    sentence.assumed.append(Message("workload.assumed_usual_length", usual=usual[0].strip(), longest=words.strip(" ,;()")))


def settle_lengths(sentence: Sentence) -> None:
    """Samples of a usual length as so many tokens."""
    words, length = sentence.usual_length
    for at, one in enumerate(sentence.readings if length else ()):
        if one.option == "data" and (count := parse_data(one.value).samples):
            sentence.readings[at] = Reading("data", f"{count * length:.0f} tokens", f"{one.words}, {words}")
            return
    if length:
        sentence.asked.append(words)
