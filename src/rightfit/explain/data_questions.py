"""Questions about data and bills beside GPUs: how long so many bytes take over a line, what it
costs to store or to move them, and what is billed of a server that is stopped.

Worked out from sizes, rates and the catalog's prices. Words, texts and the rules of providers are
data (data/data_questions.toml).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.questions import without_questions
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_Told = dict[Lang, list[str]]

_words = functools.partial(topic_words, "data_questions")
_text = functools.partial(topic_text, "data_questions")

#: Share of a line that transfers reach, and lines that are told of where none is [bits/s].
_REACHED, _LINES = 0.9, (100e6, 1e9, 10e9)
#: Bytes of a unit, and bits per second of a line that is named.
_UNITS = {"P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6}
_NAMED = {"百兆": 100e6, "千兆": 1e9, "万兆": 10e9}


def data_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to such a question; None of any other sentence."""
    if not is_question(sentence):
        return None
    return next((found for reader in (_stopped, _moved, _stored) if (found := reader(sentence, catalog)) is not None), None)


def _result(sentence: str, told: Mapping[Lang, Sequence[str]], claim: str | None = None, **known: Any) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    return CheckResult(sentence, "market", True, claim, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _wishes(sentence: str) -> dict[str, Any]:
    from rightfit.workload.ask import understand

    try:
        return understand(without_questions(sentence).wish).wishes
    except RightfitError:
        return {}


def _clouds(sentence: str) -> list[str]:
    """The clouds that a question names, by name or by one of their stores; else those that are told
    of."""
    from rightfit.lookup import read_names

    table = topic("data_questions")
    found = [cloud for cloud, words in table["owners"].items() if expression(words).search(sentence)]
    with contextlib.suppress(RightfitError):
        found += read_names("cloud", str(named)) if (named := _wishes(sentence).get("cloud")) else ()
    return list(dict.fromkeys(one for one in found if one in table["regions"])) or list(table["regions"])


# ---- How long so many bytes take over a line, and what it costs to move them.


def _bytes_of(sentence: str) -> float:
    """The largest amount of data that a question names [bytes]; 0 where it names none."""
    return max((float(one["size"]) * _UNITS[one["unit"].lstrip("个")[0]] for one in _words("size").finditer(sentence)), default=0.0)


def _what(sentence: str) -> tuple[float, Mapping[Lang, str]] | None:
    """What is moved: an amount, or the weights of a model."""
    from rightfit.explain.fit_claims import counted_weights

    if size := _bytes_of(sentence):
        return size, dict.fromkeys(LANGS, q.data_text(size))
    wishes = _wishes(sentence)
    weights = (
        counted_weights({"model": wishes["model"], "quantization": str(wishes.get("quantization") or "bf16")})
        if "model" in wishes
        else None
    )
    if not weights:
        return None
    return weights, {lang: _text("sized", lang, model=str(wishes["model"]), size=q.data_text(weights)) for lang in LANGS}


def _line_rate(sentence: str) -> float:
    """The rate of the line that a question names [bits per second]; 0 where it names none."""
    if (found := _words("rate").search(sentence)) is None:
        return 0.0
    if found["named"]:
        return _NAMED[found["named"]]
    unit = found["per"]
    size = _UNITS["M" if unit == "兆" else unit[0].upper()]
    return float(found["rate"]) * size * (8.0 if "B/" in unit else 1.0)


def _rate_text(rate: float) -> str:
    return f"{rate / 1e9:g} Gbit/s" if rate >= 1e9 else f"{rate / 1e6:g} Mbit/s"


def _moved(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Time of a transfer, or its price."""
    asks_money, moves = bool(_words("money").search(sentence)), bool(_words("move").search(sentence))
    is_over_a_line = bool(_line_rate(sentence) and _bytes_of(sentence))  # "700 GB over a gigabit line", moved by no verb
    if (moves or is_over_a_line) and _words("long").search(sentence) and not _words("training").search(sentence):
        return _moved_time(sentence)
    if not asks_money:
        return None
    if _words("inside").search(sentence) or (_words("into").search(sentence) and not _bytes_of(sentence)):
        return _free(sentence, catalog, "free_inside" if _words("inside").search(sentence) else "free_in")
    if not _words("out").search(sentence) or not (moves or _words("out").search(sentence)) or not (size := _bytes_of(sentence)):
        return None
    if _words("into").search(sentence):
        return _free(sentence, catalog, "free_in")
    told: _Told = {lang: [_text("moved_head", lang, size=q.data_text(size))] for lang in LANGS}
    costs: dict[str, float] = {}
    for cloud in _clouds(sentence):
        region = topic("data_questions")["regions"][cloud]
        internet, other = (catalog.egress_price(cloud, region, destination=where) for where in ("internet", "other_region"))
        if internet is None:
            continue
        costs[cloud] = internet.cost_usd(size / 1e9)
        for lang in LANGS:
            elsewhere = q.money_text(other.cost_usd(size / 1e9)) if other else _text("unknown_out", lang)
            each = q.money_text(costs[cloud] / (size / 1e9))
            name = q.provider_text(cloud, lang)
            told[lang].append(
                _text("moved_line", lang, cloud=name, region=region, internet=q.money_text(costs[cloud]), price=each, other=elsewhere)
            )
    for lang in LANGS:
        told[lang].append(_text("moved_note", lang))
    return _result(sentence, told, bytes=size, costs=costs) if costs else None


def _moved_time(sentence: str) -> CheckResult | None:
    if (what := _what(sentence)) is None:
        return None
    size, shown = what
    rate = _line_rate(sentence)
    told: _Told = {}
    for lang in LANGS:
        times = {one: q.duration_text(8.0 * size / (_REACHED * one), lang) for one in ((rate,) if rate else _LINES)}
        if rate:
            head = _text("time_at", lang, what=shown[lang], rate=_rate_text(rate), time=times[rate])
        else:
            each = [_text("time_one", lang, rate=_rate_text(one), time=time) for one, time in times.items()]
            head = _text("time_each", lang, what=shown[lang], each=("，" if lang == "zh" else ", ").join(each))
        told[lang] = [head, _text("slowest", lang)]
    return _result(sentence, told, bytes=size, bits_per_s=rate)


def _free(sentence: str, catalog: Catalog, key: str) -> CheckResult:
    """That nothing is charged for it, and what is."""
    told: _Told = {}
    for lang in LANGS:
        each = []
        for cloud in _clouds(sentence)[:2]:
            region = topic("data_questions")["regions"][cloud]
            internet, other = (catalog.egress_price(cloud, region, destination=where) for where in ("internet", "other_region"))
            if internet is not None and other is not None:
                prices = {
                    name: q.money_text(max(tier.price_usd_per_gb for tier in one.tiers))
                    for name, one in (("internet", internet), ("other", other))
                }
                each.append(_text("per_gb", lang, cloud=q.provider_text(cloud, lang), **prices))
        told[lang] = [_text(key, lang, prices=("；" if lang == "zh" else "; ").join(each))]
    return _result(sentence, told, "wrong" if _words("closed").search(sentence) else None)


# ---- What it costs to store them.


def _stored(sentence: str, catalog: Catalog) -> CheckResult | None:
    if not _words("keep").search(sentence) or not _words("money").search(sentence) or "model" in _wishes(sentence):
        return None
    if not (size := _bytes_of(sentence)):
        return None
    spoken = _words("months").search(sentence)
    months = (
        1
        if spoken is None
        else int(spoken["months"])
        if spoken["months"]
        else 12 * (int(spoken["years"]) if spoken["years"].isdigit() else 1)
    )
    kinds = [kind for kind in ("object", "file") if _words(kind).search(sentence)] or (
        ["block"] if _words("disk").search(sentence) else ["object", "block"]
    )
    told: _Told = {}
    costs: dict[str, float] = {}
    for lang in LANGS:
        span = _text("month", lang) if months == 1 else _text("months", lang, count=months)
        told[lang] = [_text("stored", lang, size=q.data_text(size), months=span)]
        for cloud in _clouds(sentence):
            region = topic("data_questions")["regions"][cloud]
            for kind in kinds:
                if (price := catalog.storage_price(cloud, region, kind=kind)) is None:
                    continue
                cost = price.price_usd_per_gb_month * size / 1e9 * months
                costs[f"{cloud}/{price.product}"] = cost
                shown = {
                    "cost": q.money_text(cost),
                    "product": price.product,
                    "region": price.region,
                    "price": f"${price.price_usd_per_gb_month:.3g}",
                }
                as_of = f", {price.as_of}" if price.as_of else ""
                told[lang].append(_text("stored_line", lang, cloud=q.provider_text(cloud, lang), as_of=as_of, **shown))
        told[lang].append(_text("stored_note", lang))
    return _result(sentence, told, bytes=size, costs=costs) if costs else None


# ---- What is billed of a stopped server.


def _stopped(sentence: str, _: Catalog) -> CheckResult | None:
    is_billed, is_lost = bool(_words("billed").search(sentence)), bool(_words("lost").search(sentence))
    if not _words("stop").search(sentence) or not (is_billed or is_lost) or _words("automatic").search(sentence):
        return None
    rows = [row for row in topic("data_questions")["stopped"] if expression(row["words"]).search(sentence)]
    other = "" if rows else _other_place(sentence)
    told: _Told = {}
    for lang in LANGS:
        told[lang] = [_text("stopped_line", lang, name=row["name"][lang], said=row[lang]) for row in rows]
        if not rows:
            told[lang] = [_text("stopped_other", lang, place=other)] if other else []
            said = _text("stopped_usual", lang)
            told[lang].append(said[:1].upper() + said[1:])
    claim = "right" if is_billed and _words("disk").search(sentence) and _words("closed").search(sentence) else None
    return _result(sentence, told, claim, places=[row["name"]["en"] for row in rows] or [other])


def _other_place(sentence: str) -> str:
    """A provider that is named and of whose rules nothing is known here."""
    if found := _words("elsewhere").search(sentence):
        return found[0]
    from rightfit.lookup import read_names

    try:
        named = _wishes(sentence).get("cloud")
        return str(read_names("cloud", str(named))[0]) if named else ""
    except RightfitError:
        return ""
