"""Questions about one model that no plan answers: how many tokens per second one user gets on a
card, how long its weights take to load from a disk, and on what least hardware it runs.

Words and texts are data (data/model_questions.toml).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.questions import without_questions
from rightfit.explain.claim_words import cards_of
from rightfit.explain.fit_claims import counted_weights, format_of
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.weight_questions import USABLE, USUAL_TOKENS, ladder_of
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.messages import LANGS, Lang
from rightfit.units import GIB, parse_duration

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

#: Share of the bandwidth that generating for one user reaches.
_REACHED = (0.75, 0.92)
#: The formats of the ladder, from 16 to 4 bits.
_LADDER: Mapping[str, str] = {"bits_16": "bf16", "bits_8": "fp8", "bits_4": "awq"}
#: Weights with what the runtime and parts that are kept in more bits take beside them.
_RUNTIME = 1.05
_COUNTS = (1, 2, 4, 8, 16)
_MOST_WAYS = 4
#: GPUs of less memory [GB] are in servers of at most eight.
_LARGE = 80
#: The end of "how many L4s", which is no L4S.
_PLURAL = re.compile(r"(?<=\d)s\b")
#: Options that say how much is to be done: a plan tells more.
_AMOUNTS = frozenset({"rate", "data", "deadline", "budget", "concurrency", "epochs"})
#: A load that takes so many times what the disk explains is explained by something else.
_LONGER, _SHORTER = 1.7, 0.6


_words = functools.partial(topic_words, "model_questions")
_text = functools.partial(topic_text, "model_questions")


def model_question(sentence: str, catalog: Catalog, *, is_checked: bool = False) -> CheckResult | None:
    """The answer to such a question; None of any other sentence. Where it `is_checked` rather than
    planned, which card a model takes is answered by what holds it."""
    if not is_question(sentence) or _words("training").search(sentence):
        return None
    asked = [reader for name, reader in _READERS.items() if _words(name).search(sentence)]
    asked += [_many] if is_checked and _words("count").search(sentence) else []
    asked += [_least] if is_checked and _words("which").search(sentence) else []
    if not asked:
        return None
    from rightfit.workload.ask import understand

    try:
        wishes = understand(without_questions(sentence).wish).wishes
        model = facts.model(str(wishes["model"]), network=False) if "model" in wishes else None
    except RightfitError:
        return None
    if not isinstance(model, facts.TransformerArchitecture):
        return None
    return next((found for reader in asked if (found := reader(sentence, wishes, model)) is not None), None)


def _result(sentence: str, told: Mapping[Lang, Sequence[str]], claim: str | None = None, **known: Any) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    return CheckResult(sentence, "market", True, claim, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _sizes(wishes: Mapping[str, Any]) -> dict[str, float]:
    """Bytes of the weights in each format of the ladder that somebody has counted."""
    formats = ladder_of(str(wishes["model"]))
    each = {key: counted_weights({"model": wishes["model"], "quantization": bits}) for key, bits in _LADDER.items() if bits in formats}
    if not each:  # published in a format of its own
        each = {"told_bits": counted_weights({"model": wishes["model"], "quantization": formats[0]})}
    return {key: size for key, size in each.items() if size}


# ---- How fast one user is answered.


def _speed(sentence: str, wishes: Mapping[str, Any], model: facts.TransformerArchitecture) -> CheckResult | None:
    """What the bandwidth of its card lets one user have, in the format that is told and in fewer
    bits."""
    cards = [name for _, names in cards_of(sentence) for name in names]
    if not cards or len(cards_of(sentence)) > 1 or _words("many").search(sentence) or _AMOUNTS & set(wishes):
        return None
    if int(str(wishes.get("users") or 1)) > 1:
        return None
    card, count = facts.accelerator(cards_of(sentence)[0][0], typical=True), int(str(wishes.get("num_gpus") or 1))
    sizes, told_as = _sizes(wishes), format_of({"model": wishes["model"], "quantization": wishes.get("quantization", "")})
    first = {"bf16": "bits_16", "fp16": "bits_16", "": "bits_16"}.get(told_as, "")
    if not first:
        first = "told_bits"
        sizes = {first: counted_weights({"model": wishes["model"], "quantization": told_as}) or 0.0, **sizes}
    memory, bandwidth = count * float(card.memory_bytes), count * card.memory_bandwidth
    share = model.params_active / model.params_total if model.num_experts and model.params_active else 1.0
    if first not in sizes or not sizes[first]:
        return None
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    most = {key: bandwidth / (share * size) if size <= USABLE * memory else 0.0 for key, size in sizes.items()}
    for lang in LANGS:
        common = {"model": str(wishes["model"]), "card": card.name, "count": count, "memory": q.memory_text(memory)}
        for key, rate in sorted(most.items(), key=lambda one: one[0] != first):
            bits = _text(key, lang, format=told_as.upper())
            low, high = (f"{end * rate:.2g}" if rate < 100 else f"{round(end * rate, -1):.0f}" for end in _REACHED)
            shown = {"bits": bits, "most": f"{rate:.0f}", "low": low, "high": high, "weights": q.memory_text(share * sizes[key])}
            name = "speed_head" if key == first else "speed_other"
            told[lang].append(_text(name if rate else name.replace("_head", "") + "_none", lang, **common, **shown))
            if key == first and rate:
                told[lang].append(_text("speed_why", lang, bandwidth=f"{bandwidth / 1e9:,.4g}", **shown))
        told[lang].append(_text("speed_many", lang))
    return _result(sentence, told, card=card.name, tokens_per_s=most[first])


# ---- How long its weights take to load.


def _load(sentence: str, wishes: Mapping[str, Any], _: facts.TransformerArchitecture) -> CheckResult | None:
    """Size by rate of the disk that is named, held against the time that is told."""
    place = next((row for row in topic("model_questions")["places"] if expression(row["words"]).search(sentence)), None)
    weights = counted_weights({"model": wishes["model"], "quantization": str(wishes.get("quantization") or "bf16")})
    if place is None or not weights or _words("data").search(sentence):
        return None
    spoken = _words("time").search(sentence)
    seconds = parse_duration(_plain(spoken["time"])) if spoken else math.nan
    expected = weights / place["rate"]
    key = "" if math.isnan(seconds) else "slow" if seconds > _LONGER * expected else "fast" if seconds < _SHORTER * expected else "normal"
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        fields = {"model": str(wishes["model"]), "weights": q.data_text(weights), "place": place["name"], "rate": _rate_text(place["rate"])}
        told[lang] = [_text("load_head", lang, time=q.duration_text(expected, lang), **fields)]
        told[lang] += [_text(f"load_{key}", lang, told=q.duration_text(seconds, lang))] if key else []
        times = {"most_time": q.duration_text(weights / place["most"], lang), "nvme_time": q.duration_text(weights / 3e9, lang)}
        told[lang].append(_text("load_quicker", lang, most=_rate_text(place["most"]), **times))
    claim = {"normal": "right", "fast": "right", "slow": "wrong"}.get(key)
    return _result(sentence, told, claim, seconds=expected)


def _plain(time: str) -> str:
    return re.sub(r"个|分(?!钟)", lambda one: "" if one[0] == "个" else "分钟", time)


def _rate_text(rate: float) -> str:
    return f"{rate / 1e9:g} GB/s" if rate >= 1e9 else f"{rate / 1e6:g} MB/s"


# ---- On what least hardware it runs.


def _least(sentence: str, wishes: Mapping[str, Any], model: facts.TransformerArchitecture) -> CheckResult | None:
    """For each format the weights and the fewest GPUs of each usual memory that hold them."""
    from rightfit.estimation.serving_extras import sequence_cache_bytes

    if (
        not (_words("hardware").search(sentence) or _words("which").search(sentence))
        or cards_of(sentence)
        or (_AMOUNTS | {"cloud"}) & set(wishes)
    ):
        return None
    if int(str(wishes.get("users") or 1)) > 1:
        return None
    if not (sizes := _sizes(wishes)):
        return None
    cache = sequence_cache_bytes(model, float(USUAL_TOKENS))
    ways = {key: _ways(_RUNTIME * size + cache) for key, size in sizes.items()}
    if not (held := {key: found for key, found in ways.items() if found}):
        return None
    smallest = min(held, key=lambda key: held[key][0][0] * held[key][0][1]["gb"])
    told: dict[Lang, list[str]] = {}
    own = format_of(wishes).upper()
    asked_in = {"bf16": "bits_16", "fp16": "bits_16", "fp8": "bits_8", "int8": "bits_8", "awq": "bits_4", "int4": "bits_4"}.get(
        str(wishes.get("quantization") or wishes.get("precision") or ""), ""
    )
    if asked_in in held:  # what is asked is told first
        smallest, sizes = asked_in, {asked_in: sizes[asked_in], **sizes}
    for lang in LANGS:
        joined = "，或 " if lang == "zh" else " or "
        lines = {key: joined.join(_way(one, lang) for one in found) or _text("least_none", lang) for key, found in ways.items()}
        head = _text(
            "least_head", lang, model=str(wishes["model"]), way=_way(held[smallest][0], lang), bits=_text(smallest, lang, format=own)
        )
        told[lang] = [head]
        told[lang] += [
            _text("least_line", lang, bits=_text(key, lang, format=own), weights=q.memory_text(sizes[key]), ways=line)
            for key, line in lines.items()
        ]
        if model.num_experts and model.params_active:
            each = {"total": f"{model.params_total / 1e9:.0f}", "active": f"{model.params_active / 1e9:.2g}"}
            told[lang].append(_text("least_experts", lang, **each))
        if min(sizes.values()) > 20 * GIB:
            told[lang].append(_text("least_host", lang, ram=q.memory_text(1.25 * min(sizes.values()))))
        told[lang].append(_text("least_note", lang))
    return _result(sentence, told, model=str(model.name), bytes=sizes)


def _many(
    sentence: str, wishes: Mapping[str, Any], model: facts.TransformerArchitecture, catalog: Catalog | None = None
) -> CheckResult | None:
    """The fewest of the card that is named that hold a model, in the format that is told or in
    each."""
    from rightfit.estimation.serving_extras import sequence_cache_bytes
    from rightfit.explain.card_questions import usual_card
    from rightfit.search.offers import open_priced

    catalog = catalog or open_priced()
    spoken = cards_of(_PLURAL.sub("", sentence))
    if len({names for _, names in spoken}) != 1 or (_AMOUNTS | {"users", "cloud", "latency"}) & set(wishes):
        return None
    card = usual_card(spoken[0][1], catalog)
    sizes, told_as = (
        _sizes(wishes),
        format_of({"model": wishes["model"], "quantization": wishes.get("quantization") or wishes.get("precision") or ""}),
    )
    if wishes.get("quantization") or wishes.get("precision"):
        sizes = {"told_bits": counted_weights({"model": wishes["model"], "quantization": told_as}) or 0.0}
    if not sizes or not all(sizes.values()):
        return None
    cache = sequence_cache_bytes(model, float(USUAL_TOKENS))
    most = USABLE * float(card.memory_bytes)
    counts = {key: next((one for one in _COUNTS if one * most >= _RUNTIME * size + cache), 0) for key, size in sizes.items()}
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        fields = {"model": str(wishes["model"]), "card": card.name, "memory": q.memory_text(float(card.memory_bytes))}
        told[lang] = [
            _text(
                "many_line" if counts[key] else "many_none",
                lang,
                bits=_text(key, lang, format=told_as.upper()),
                count=counts[key],
                weights=q.memory_text(size),
                left=q.memory_text(counts[key] * most - size),
                **fields,
            )
            for key, size in sizes.items()
        ]
        told[lang].append(_text("least_note", lang))
    return _result(sentence, told, model=str(model.name), counts=counts)


def _ways(need: float) -> list[tuple[int, Mapping[str, Any]]]:
    """The fewest GPUs of each usual memory that hold so much, the least memory in all first."""
    found = []
    for row in topic("model_questions")["sizes"]:
        count = next((one for one in _COUNTS if (one <= 8 or row["gb"] >= _LARGE) and one * USABLE * row["gb"] * GIB >= need), 0)
        found += [(count, row)] if count else []
    return sorted(found, key=lambda one: (one[0] * one[1]["gb"], one[0]))[:_MOST_WAYS]


def _way(one: tuple[int, Mapping[str, Any]], lang: Lang) -> str:
    count, row = one
    return _text("least_way", lang, count=count, gb=row["gb"], cards=row["cards"])


_READERS = {"speed": _speed, "loads": _load, "least": _least}
