"""Questions that a known formula answers from our tables: whether a cache of so many tokens fits
beside a model on the GPUs that are named, what a batch brings, what to reckon per billion
parameters, how fast one user is answered by the bandwidth.

Words and texts are data (data/sum_questions.toml).
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
from rightfit.explain.card_questions import cards_named
from rightfit.explain.claim_words import best_rate, cards_of
from rightfit.explain.fit_claims import counted_weights, format_of
from rightfit.explain.fit_questions import asked_to_fit
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.weight_questions import memory_named
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.market.denials import turned
from rightfit.messages import LANGS, Lang
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_Told = dict[Lang, list[str]]

_words = functools.partial(topic_words, "sum_questions")
_text = functools.partial(topic_text, "sum_questions")
#: Memory of each GPU that an engine keeps for its runtime and graphs [bytes], of its share of it.
_RUNTIME = GIB
#: Share of a GPU's rate that long prompts reach, of its bandwidth that generating does.
_PREFILL, _REACHED = 0.5, (0.6, 0.8)
#: Share of the ideal that a batch reaches.
_BATCHED = 0.7
#: Tokens of each request of a batch.
_BATCH_TOKENS = 1024.0
#: Sizes [billion parameters] that rules are shown for.
_SIZES = (7.0, 13.0, 70.0)
#: Options that say how much is to be done: a plan tells more.
_PLANNED = frozenset({"rate", "data", "deadline", "budget", "method", "epochs", "steps"})


def sum_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to such a question; None of any other sentence."""
    if not is_question(sentence) or not any(_words(name).search(sentence) for name in ("context", "batch", "per_billion", "table")):
        return None
    wishes = _wishes(sentence)
    return next(
        (
            found
            for reader in (_cache, _batch, _speed_rule, _memory_rule, _table)
            if (found := reader(sentence, wishes, catalog)) is not None
        ),
        None,
    )


def _wishes(sentence: str) -> dict[str, Any]:
    from rightfit.explain.beside.questions import without_questions
    from rightfit.workload.ask import understand

    try:
        return understand(without_questions(sentence).wish).wishes
    except RightfitError:
        return {}


def _result(sentence: str, told: Mapping[Lang, Sequence[str]], claim: str | None = None, **known: Any) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    return CheckResult(sentence, "market", True, claim, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _model(wishes: Mapping[str, Any]) -> facts.TransformerArchitecture | None:
    try:
        model = facts.model(str(wishes["model"]), network=False) if "model" in wishes else None
    except RightfitError:
        return None
    return model if isinstance(model, facts.TransformerArchitecture) else None


def _format(sentence: str, wishes: Mapping[str, Any]) -> str:
    """The format of the weights: as it is told, in the model's name too, else the checkpoint's
    own; "" for 16 bits."""
    from rightfit.facts.engines import weight_format

    spoken = [one[0] for one in topic_words("weight_questions", "format").finditer(_CACHE_FORMAT.sub(" ", sentence))]
    known = next((found for one in spoken if (found := weight_format(one.replace("位", "bit").replace("比特", "bit"))) is not None), None)
    told = format_of({"model": wishes["model"], "quantization": known.name if known else str(wishes.get("quantization") or "")})
    return "" if told in ("bf16", "fp16") else told


#: A format that is told of the cache.
_CACHE_FORMAT = re.compile(
    r"(?:fp8|int8|8[- ]?bit|8\s*位)\s*(?:的)?\s*(?:kv|cache|缓存)|(?:kv|cache|缓存)\S{0,4}\s*(?:用|in|=|as)?\s*(?:fp8|int8|8[- ]?bit|8\s*位)",
    re.IGNORECASE,
)


# ---- A cache of so many tokens.


def _tokens(sentence: str) -> list[float]:
    """The lengths that a sentence names [tokens], in order; 8k are 8,192."""
    found = []
    for one in _words("tokens").finditer(sentence):
        if one["plain"]:
            found.append(float(one["plain"]))
            continue
        count, unit = float(one["count"]), one["unit"].strip().casefold()
        size = count * (1024.0 if unit == "k" else 1e4 if unit.startswith("万") else 2.0**20 if unit == "m" else 1.0)
        found += [size] if size >= 512.0 else []
    return found


def _cache(sentence: str, wishes: Mapping[str, Any], catalog: Catalog) -> CheckResult | None:
    """Whether the cache of the longest length that is named fits beside the weights, and how many
    tokens do."""
    from rightfit.estimation.serving_extras import sequence_cache_bytes
    from rightfit.facts.engines import engine_class

    model, told_data = _model(wishes), _words("memory_told").search(sentence)
    planned = _PLANNED - ({"data"} if told_data else set())  # "on 48 GB" is memory
    if model is None or planned & set(wishes) or _words("training").search(sentence) or not _words("context").search(sentence):
        return None
    lengths, is_longest = _tokens(sentence), bool(_words("longest").search(sentence))
    had, shown, count = memory_named(sentence, wishes, catalog)
    if not had and len(owned := cards_named(sentence, catalog)) == 1:  # "my 3090", on which nothing is rented
        had, shown, count = memory_named(sentence, {**wishes, "gpu": owned[0].name}, catalog)
    if not had and (amount := _words("memory_told").search(sentence)):
        had, shown, count = memory_named(sentence, {**wishes, "gpu": f"{amount['size']}GB"}, catalog)
    if not (lengths or is_longest) or not _words("holds").search(sentence) or not (had or _words("cache").search(sentence)):
        return None
    at_once = max(int(float(str(wishes.get(name) or 1))) for name in ("users", "concurrency"))
    name, tokens = str(wishes["model"]), max(lengths, default=0.0)
    token = sequence_cache_bytes(model, tokens or 8192.0) / (tokens or 8192.0)
    told_as = _format(sentence, wishes)
    weights = counted_weights({"model": name, "quantization": told_as or "bf16"})
    if not weights:
        return None
    usable = engine_class("vllm").memory_fraction * had - count * _RUNTIME
    left, held = usable - weights, tokens * token * at_once
    answer = "" if not (had and tokens) else "yes" if held <= left else "half" if held / 2.0 <= left else "no"
    told: _Told = {}
    for lang in LANGS:
        times = _text("cache_times", lang, count=at_once) if at_once > 1 else ""
        bits = _text("told_bits", lang, format=told_as.upper()) if told_as else _text("bits", lang, bits=16)
        fields = {"tokens": f"{tokens:,.0f}", "times": times, "shown": shown, "bits": bits, "model": name}
        lines = [_text(f"cache_{answer}", lang, **fields)] if answer else []
        lines.append(_per_token(name, model, token, lang))
        lines += [_text("cache_at", lang, held=q.memory_text(held), half=q.memory_text(held / 2.0), **fields)] if tokens else []
        if had:
            room = {"usable": q.memory_text(usable), "weights": q.memory_text(weights), "left": q.memory_text(max(left, 0.0))}
            room |= {"tokens": _count(left / token), "more": _count(2.0 * left / token)}
            lines.append(_text("cache_room" if left > 0.0 else "cache_weights", lang, **{**fields, **room}))
        if answer in ("half", "no"):
            lines.append(_text("cache_instead", lang, need=q.memory_text((weights + held + count * _RUNTIME) / 0.9)))
        if model.max_position and tokens > 1.05 * model.max_position:
            lines.append(_text("cache_native", lang, model=name, native=f"{model.max_position:,}"))
        if had and tokens and (spoken := cards_of(sentence)):
            card = facts.accelerator(spoken[0][0], typical=True)
            active = float(model.params_active or model.params_total)
            seconds = 2.0 * active * tokens / (count * best_rate(card) * _PREFILL)
            lines.append(_text("cache_prompt", lang, tokens=fields["tokens"], time=q.duration_text(seconds, lang)))
        told[lang] = lines
    claim = {"yes": "right", "half": "unknown", "no": "wrong"}.get(answer)
    if claim in ("right", "wrong") and asked_to_fit(sentence):  # whether memory runs out
        claim = turned(claim)
    return _result(sentence, told, None if is_longest else claim, model=str(model.name), token_bytes=token, held_bytes=held, answer=answer)


def _count(tokens: float) -> str:
    """So many tokens, rounded to hundreds."""
    return f"{max(math.floor(tokens / 100.0) * 100, 0):,}"


def _per_token(name: str, model: facts.TransformerArchitecture, token: float, lang: Lang) -> str:
    plain = 2.0 * model.num_layers * model.num_kv_heads * model.head_dim * 2.0
    is_plain = abs(token / plain - 1.0) < 0.02
    shape = {"layers": model.num_layers, "heads": model.num_kv_heads, "dims": model.head_dim} if is_plain else {}
    return _text("cache_token" if is_plain else "cache_token_plain", lang, model=name, token=f"{token / 1024.0:,.4g} KiB", **shape)


# ---- What a batch brings.


def _batch(sentence: str, wishes: Mapping[str, Any], _: Catalog) -> CheckResult | None:
    """How many times the tokens per second of one request a batch gives, and what ends it."""
    from rightfit.estimation.serving_extras import sequence_cache_bytes

    if not _words("batch").search(sentence) or not _words("faster").search(sentence) or _words("training").search(sentence):
        return None
    if _PLANNED & set(wishes):
        return None
    if asked := _words("batch_asked").search(sentence):
        start, end = float(asked["from"] or 1.0), float(asked["to"])
    elif asked := _words("batch_single").search(sentence):
        start, end = 1.0, float(asked["single"] or asked["users"])
    else:
        return None
    if not 1.0 <= start < end:
        return None
    model = _model(wishes)
    name = str(wishes["model"]) if model is not None else "8B"
    model = model or _model({"model": name})
    spoken = cards_of(sentence)
    card = facts.accelerator(spoken[0][0] if spoken else "A100", typical=True)
    told_as = _format(sentence, {**wishes, "model": name})
    weights = counted_weights({"model": name, "quantization": told_as or "bf16"})
    if model is None or not weights:
        return None
    cache = sequence_cache_bytes(model, _BATCH_TOKENS)
    active = float(model.params_active or model.params_total)
    read = weights * active / model.params_total

    def step_s(batch: float) -> float:
        return max((read + batch * cache) / card.memory_bandwidth, batch * 2.0 * active / best_rate(card))

    ideal = (end / step_s(end)) / (start / step_s(start))
    gain = ideal * _BATCHED if end / start > 2.0 else ideal * (1.0 + _BATCHED) / 2.0
    most = max(0.9 * float(card.memory_bytes) * int(str(wishes.get("num_gpus") or 1)) - _RUNTIME - weights, 0.0) / cache
    ridge = read / (2.0 * active) * best_rate(card) / card.memory_bandwidth
    told: _Told = {}
    for lang in LANGS:
        bits = _text("told_bits", lang, format=told_as.upper()) if told_as else _text("bits", lang, bits=16)
        numbers = {"to": f"{end:g}", "from": f"{start:g}", "asked": f"{end / start:.3g}", "times": f"{gain:.2g}"}
        sizes = {"weights": q.memory_text(read), "cache": q.memory_text(cache), "tokens": f"{_BATCH_TOKENS:,.0f}"}
        limits = {"model": name, "bits": bits.strip(), "card": card.name, "most": f"{most:,.0f}", "ridge": f"{ridge:.0f}"}
        told[lang] = [
            _text("batch_no", lang, **numbers),
            _text("batch_why", lang, single=q.percent_text(gain * start / end), **sizes),
            _text("batch_limit", lang, **limits, tokens=sizes["tokens"]),
        ]
    return _result(sentence, told, "wrong", times=gain)


# ---- Rules to know by heart.


def _memory_rule(sentence: str, _: Mapping[str, Any], __: Catalog) -> CheckResult | None:
    """Bytes per parameter of the ways to train that a question names, else of all."""
    if not _words("per_billion").search(sentence) or not _words("memory").search(sentence):
        return None
    if (_PLANNED - {"method"} | {"model", "gpu"}) & set(_wishes(_words("per_billion").sub(" ", sentence))):
        return None
    table = topic("sum_questions")["bytes"]
    asked = [name for name, words in topic("sum_questions")["ways"].items() if expression(words).search(sentence)]
    named = [name for name in table if not asked or any(name == one or name.startswith(f"{one}_") for one in asked)]
    told: _Told = {}
    for lang in LANGS:
        lines = []
        for name in named:
            row = table[name]
            fields = {"name": row["name"][lang], "low": f"{row['low']:g}", "high": f"{row['high']:g}", "why": row["why"][lang]}
            lines.append(_text("rule_line" if row["low"] != row["high"] else "rule_same", lang, **fields))
        each = [
            _text(
                "rule_example_one",
                lang,
                name=table[name]["name"][lang],
                sizes=" / ".join(f"{size * table[name]['low']:,.0f}" for size in _SIZES),
            )
            for name in named
            if name in ("full", "lora", "qlora", "serve")
        ]
        lines += [_text("rule_example", lang, each=("；" if lang == "zh" else "; ").join(each))] if each else []
        lines += [_text("rule_beside", lang)] if set(named) - {"serve"} else []
        lines += [_text("rule_beside_serve", lang)] if "serve" in named else []
        told[lang] = lines
    return _result(sentence, told, ways=named)


def _speed_rule(sentence: str, wishes: Mapping[str, Any], catalog: Catalog) -> CheckResult | None:
    """The rule of the bandwidth, with what the cards that are named give by it."""
    if not _words("per_billion").search(sentence) or not _words("speed").search(sentence) or _PLANNED & set(wishes):
        return None
    from rightfit.explain.model_questions import model_question

    cards = list({(card := facts.accelerator(spoken, typical=True)).name: card for spoken, _ in cards_of(sentence)}.values())
    beside = None
    if "model" in wishes and len(cards) == 1:
        beside = model_question(sentence, catalog)
    cards = cards or [facts.accelerator(name, typical=True) for name in topic("sum_questions")["shown"]["cards"]]
    told: _Told = {}
    for lang in LANGS:
        told[lang] = [_text("rate_rule", lang)]
        if beside is not None:
            told[lang].append(beside.explanation_zh if lang == "zh" else beside.explanation_en)
        else:
            told[lang] += [_card_rates(card, lang) for card in cards]
        told[lang].append(_text("rate_rule_more", lang))
    return _result(sentence, told, cards=[card.name for card in cards])


def _card_rates(card: facts.Accelerator, lang: Lang) -> str:
    """What one user gets of each size, in the most bits that fit."""
    each = []
    for size in _SIZES:
        bits, weights = next(
            ((bits, size * 1e9 * part) for bits, part in ((16, 2.0), (8, 1.0), (4, 0.55)) if size * 1e9 * part <= 0.85 * card.memory_bytes),
            (4, 0.0),
        )
        shown = _text("bits", lang, bits=bits)
        if not weights:
            each.append(_text("rate_none", lang, size=f"{size:g}", bits=shown))
            continue
        low, high = (q.plain(part * card.memory_bandwidth / weights, 2) for part in _REACHED)
        each.append(_text("rate_each", lang, size=f"{size:g}", low=low, high=high, bits=shown))
    return _text(
        "rate_card", lang, card=card.name, bandwidth=f"{card.memory_bandwidth / 1e9:,.4g}", each=("，" if lang == "zh" else ", ").join(each)
    )


# ---- Tables, and whether they need a card.

#: Columns where none are told, bytes of a number, and rows from which on a GPU pays off.
_COLUMNS, _FLOAT, _MANY_ROWS = 100.0, 4.0, 5e6


def _table(sentence: str, _: Mapping[str, Any], catalog: Catalog) -> CheckResult | None:
    """Whether a table of so many rows needs a GPU, or a large one."""
    rows = _words("rows").search(sentence)
    if rows is None or not _words("table").search(sentence) or not _words("needs").search(sentence):
        return None
    if not (cards_named(sentence, catalog) or _words("gpu_word").search(sentence)):
        return None
    columns = _words("cols").search(sentence)
    multiples = topic("sum_questions")["multiples"]
    count = float(rows["count"].replace(",", "")) * float(multiples.get((rows["multiple"] or "").casefold(), 1.0))
    width = float(columns["count"]) if columns else _COLUMNS
    is_small = count < _MANY_ROWS
    told: _Told = {}
    for lang in LANGS:
        fields = {"rows": q.count_text(count, lang), "cols": f"{width:g}", "size": q.data_text(count * width * _FLOAT)}
        told[lang] = [_text("table_no" if is_small else "table_yes", lang, **fields)]
        told[lang] += [_text("table_card", lang)] if is_small else []
        told[lang] += [_text("table_limit", lang)] if "tabpfn" in sentence.casefold() else []
    return _result(sentence, told, "wrong" if is_small else "unknown", rows=count)
