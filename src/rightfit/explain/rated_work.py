"""Kinds of work that no plan has (atoms that move, books that are read out, proteins that fold):
GPU hours and money by public rates, in the units of the wish, with their doubt.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.explain import quantities as q
from rightfit.explain.beside.questions import worded
from rightfit.explain.market_questions import clouds_of
from rightfit.facts.expressions import Expression
from rightfit.messages import Lang
from rightfit.units import SECONDS_PER_HOUR, format_count, parse_count

if TYPE_CHECKING:
    from rightfit.market import Catalog

_CARDS = re.compile(r"(?<![A-Za-z0-9.])(?P<count>\d{1,3})\s?(?:x|张|卡|块|cards?|gpus?)", re.IGNORECASE)


@functools.cache
def _shape(text: str) -> Expression:
    return Expression(rf"(?<![A-Za-z0-9.])(?:{text})", ignore_case=True)


def rated_text(sentence: str, catalog: Catalog, lang: Lang) -> str:
    """What a sentence about such work takes; "" for every other, and where no amount is told."""
    named = [(found, row) for row in facts.table("work_rates") if (found := _shape(row["pattern"]).search(sentence))]
    return next(
        (
            text
            for found, row in named
            if (amount := _amount(sentence, row)) and (text := _told(found[0], amount, row, sentence, catalog, lang))
        ),
        "",
    )


def _amount(sentence: str, row: Mapping[str, str]) -> float:
    """How many units of a kind a sentence tells, 0 where it tells none."""
    parts = [_number(row[column], sentence) for column in ("counted", "times") if row[column]]
    if sum(one > 0 for one in parts) < int(row["parts"]) or not parts[0]:
        return 0.0
    each = _number(row["per"], sentence) if row["per"] else 0.0
    return math.prod(one or 1.0 for one in parts) * float(row["factor"]) / (each or 1.0)


def _number(shape: str, sentence: str) -> float:
    found = _shape(shape).search(sentence)
    digits = next((one for one in found.groupdict().values() if one), "") if found else ""
    return parse_count(digits.replace(" ", "")) if digits else 0.0


def _told(name: str, amount: float, row: Mapping[str, str], sentence: str, catalog: Catalog, lang: Lang) -> str:
    hours = [amount * float(row[column]) for column in ("low_gpu_h", "high_gpu_h")]
    cloud, price = min(clouds_of((row["gpu"],), catalog), key=lambda one: one[1], default=("", 0.0))
    least, most = (q.money_text(one * price, lang=lang) for one in hours)
    money = worded("rated_money", lang, price=q.money_text(price, lang=lang), cloud=cloud, least=least, most=most) if cloud else ""
    counted = _CARDS.search(sentence)
    count = int(counted["count"]) if counted else max(1, round(hours[1] / _FORTNIGHT_H)) if row["spreads"] else 1
    times = {name: q.duration_text(one * SECONDS_PER_HOUR / count, lang) for name, one in zip(("least", "most"), hours, strict=True)}
    return worded(
        "rated",
        lang,
        name=name,
        amount=worded(f"rated_amount_{row['kind']}", lang, count=format_count(amount)),
        low=format_count(hours[0]),
        high=format_count(hours[1]),
        gpu=row["gpu"],
        money=money,
        cards=worded("rated_cards", lang, count=count, **times),
        doubt=worded(f"rated_doubt_{row['kind']}", lang),
    )


#: So many GPUs are shown, where none are counted, as do it in about two weeks.
_FORTNIGHT_H = 336.0
