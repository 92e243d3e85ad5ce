"""Figures of what goes wrong while a server is used (data/operation_questions.toml): what error
numbers of the driver mean, how long many small files take, what servers exchange in a step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import cards_of
from rightfit.explain.messages import topic
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog

_Fields = dict[Lang, dict[str, str]]

_NUMBER = re.compile(r"(?<![\w.])\d{2,3}(?![\w.])", re.ASCII)


def xid_fields(sentence: str, _: Mapping[str, Any], __: Catalog) -> _Fields:
    """What each number of the driver that a sentence names means, and whose fault it is."""
    rows = topic("operation_questions")["xids"]
    known = [rows[number] for number in dict.fromkeys(_NUMBER.findall(sentence)) if number in rows] if "xid" in sentence.casefold() else []
    kinds = {row["kind"] for row in known}
    whose = topic("operation_questions")["whose"]["hardware" if kinds <= {"hardware"} else "program" if kinds <= {"program"} else "either"]
    return {
        lang: {
            "xids": ("；" if lang == "zh" else "; ").join(row[lang] for row in known) or rows["none"][lang].rstrip(".。"),
            "whose": whose[lang],
        }
        for lang in LANGS
    }


#: Seconds that opening and reading one small file takes over a network, and how many are read at a
#: time by usual loaders.
_OPEN_S, _LINES = 0.02, 32
_FILES = re.compile(
    r"(?P<count>\d[\d,]*(?:\.\d+)?)\s*(?P<multiple>百万|千万|万|亿|k|m|mil|million|thousand)?\s*(?:多)?(?:张|个|条|份|small|tiny|小|\w+ )?\s*"
    r"(?:小)?(?:图|文件|files|images|jpe?gs|pngs|objects|pictures|thumbnails)",
    re.IGNORECASE,
)
_MULTIPLES = {
    "": 1.0,
    "万": 1e4,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mil": 1e6,
    "million": 1e6,
}


def file_fields(sentence: str, _: Mapping[str, Any], __: Catalog) -> _Fields:
    """How long so many files take one by one and in parallel; "" where no number is told."""
    found = _FILES.search(sentence)
    count = float(found["count"].replace(",", "")) * _MULTIPLES[(found["multiple"] or "").casefold()] if found else 0.0
    if count < _LINES:
        return {lang: {"files": ""} for lang in LANGS}
    text = topic("operation_questions")["files"]["each"]
    return {
        lang: {
            "files": text[lang].format(
                count=q.count_text(count, lang),
                latency=f"{_OPEN_S * 1e3:g}",
                one=q.duration_text(count * _OPEN_S, lang),
                lines=_LINES,
                many=q.duration_text(count * _OPEN_S / _LINES, lang),
            )
        }
        for lang in LANGS
    }


#: Networks that servers are mostly joined by [Gbit/s], and the share of one that gradients reach.
_RATES, _REACHED = (1.0, 10.0, 100.0), 0.8
_TOLD_RATE = re.compile(
    r"(?<![\w.])(?P<rate>\d+(?:\.\d+)?)\s*(?:Gbps|Gbit/?s?|Gb/s|GbE|G\s*(?:网|以太|内网|带宽|ethernet|network|nic|lan))", re.IGNORECASE
)
_SPOKEN_RATE = {"千兆": 1.0, "万兆": 10.0, "gigabit": 1.0}


def exchanged_fields(sentence: str, named: Mapping[str, Any], _: Catalog) -> _Fields:
    """How long the gradients of a step take between servers, for the model and the network that are
    named or usual ones."""
    model = str(named.get("model") or "7B")
    try:
        record = facts.model(model, network=False)
    except RightfitError:
        model, record = "7B", facts.model("7B", network=False)
    params = float(getattr(record, "params_total", 0.0) or 7e9)
    rates = [float(one["rate"]) for one in _TOLD_RATE.finditer(sentence)]
    rates += [rate for word, rate in _SPOKEN_RATE.items() if word in sentence.casefold()]
    texts = topic("operation_questions")["exchange"]
    cards = [facts.accelerators()[name] for _, names in cards_of(sentence) for name in names[:1]]
    told: _Fields = {}
    for lang in LANGS:
        times = [
            texts["each"][lang].format(time=q.duration_text(2.0 * 2.0 * params * 8.0 / (rate * 1e9 * _REACHED), lang), rate=f"{rate:g}")
            for rate in sorted(rates) or _RATES
        ]
        head = texts["head"][lang].format(model=model, bytes=q.data_text(2.0 * params), each=("，" if lang == "zh" else ", ").join(times))
        lacks = bool(cards) and not cards[0].nvlink_bandwidth and cards[0].name.startswith("RTX")
        told[lang] = {"exchange": head + (texts["no_p2p"][lang].format(card=cards[0].name) if lacks else "")}
    return told
