"""A mixture of experts that nobody knows, by the sizes that are told of it: "Foo-310B-A19B", "310B
total, 19B active", 总参数310B，激活19B.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts.dimensions import MIXTURE, parameter_count
from rightfit.facts.expressions import Expression
from rightfit.messages import Message
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Sentence

#: A name that ends in two sizes, and what stands behind them.
_NAMED = re.compile(
    rf"(?<![\w./-])(?:[A-Za-z][\w.]*-(?:[\w.]+-)*?|[A-Z][\w.]*\s)?{MIXTURE.pattern}(?:-[A-Za-z][\w.]*)*(?![\w-])", re.IGNORECASE | re.ASCII
)
#: Two counts that are nearer than this tell the same.
_SAME = 0.15


@functools.cache
def _shapes() -> tuple[Expression, Expression]:
    """(The active parameters, any size with the words that say that it is the whole.)"""
    return (
        grammar.shape(
            r"(?P<behind>{mixture_size})\s?-?(?:{mixture_active})(?![a-z])|(?:{mixture_active})\s*[:=：]?\s*(?:{mixture_is}\s?)*\s*(?P<ahead>{mixture_size})(?![A-Za-z])"
        ),
        grammar.shape(
            r"(?:{mixture_total}\s*[:=：]?\s*(?:{mixture_is}\s?)*\s*)?(?<![A-Za-z0-9.,-])(?P<size>{mixture_size})(?![A-Za-z0-9]|[\s-]?{mixture_not})(?:\s?-?(?:{mixture_total}))?"
        ),
    )


def read_mixture(sentence: Sentence) -> None:
    """The sizes of a mixture of experts: beside a model that is known they say what is known, else
    they are the model."""
    active, size = _shapes()
    told = next((one for one in sentence.readings if one.option == "model"), None)
    if told is None and (named := _NAMED.search(sentence.text)):
        _take_named(sentence, named)
        told = sentence.readings[-1]
    if (found := active.search(sentence.text)) is None:
        return
    count = parameter_count(found["behind"] or found["ahead"]) or 0
    others = [one for one in size.finditer(sentence.text) if one.start() >= found.end() or one.end() <= found.start()]
    if told is not None and not grammar.GENERIC_FAMILY.fullmatch(told.value):
        known = _counts(told.value)
        if _is_about(count, known[1]):
            for again in (found, *(one for one in others if _is_about(parameter_count(one["size"]) or 0, known[0]))):
                sentence.note(*again.span())
        return
    whole = max(others, key=lambda one: parameter_count(one["size"]) or 0, default=None)
    total = (parameter_count(whole["size"]) or 0) if whole else 0
    if whole is not None and total > count > 0:
        sentence.readings = [one for one in sentence.readings if one is not told]
        words = sentence.blank(*found.span())
        sentence.take(*whole.span(), "model", f"{total / 1e9:g}B-A{count / 1e9:g}B")
        sentence.readings[-1] = dataclasses.replace(sentence.readings[-1], words=f"{sentence.readings[-1].words}, {words}")


def _take_named(sentence: Sentence, named: re.Match[str]) -> None:
    """A name that ends in two sizes."""
    value, words = f"{named['total']}-A{named['active']}".upper(), named[0].strip()
    sentence.take(*named.span(), "model", value)
    if named[0][0].isalpha():
        sentence.assumed.append(Message("workload.assumed_mixture", words=words, model=value))


def _is_about(count: float, known: float) -> bool:
    return abs(count - known) <= _SAME * known


def _counts(model: str) -> tuple[float, float]:
    """(All, active) parameters of a model; zeros where they are not known."""
    try:
        record = facts.model(model, network=False)
    except RightfitError:
        return 0.0, 0.0
    return float(getattr(record, "params_total", 0) or 0), float(getattr(record, "params_active", 0) or 0)
