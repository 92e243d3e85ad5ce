"""Whether a model runs on a Mac of one's own, how fast, and when to rent in its place: by the
unified memory of the chip and its bandwidth.

Chips, words and texts are data (data/apple_questions.toml).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.fit_claims import counted_weights
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.yes_or_no import is_question
from rightfit.messages import LANGS, Lang
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_words = functools.partial(topic_words, "apple_questions")
_text = functools.partial(topic_text, "apple_questions")
#: Share of the memory that macOS lets the GPU use, of up to so many GB and above.
_SMALL_GB, _SHARE, _LARGE_SHARE = 32, 0.68, 0.75
#: Share of the bandwidth that generating reaches.
_REACHED = (0.6, 0.8)
#: Operations per second for each byte per second of bandwidth: what the GPU cores of a chip do.
_OPERATIONS = 35.0
_PROMPT = 2000
_LEAST_TOKENS, _TOKENS = 2048, 8192
_BITS = {"bits_16": "bf16", "bits_8": "fp8", "bits_4": "q4_k_m"}


def apple_question(sentence: str, _: Catalog) -> CheckResult | None:
    """The answer to such a question; None of any other sentence."""
    from rightfit.estimation.serving_extras import sequence_cache_bytes
    from rightfit.facts.engines import weight_format
    from rightfit.market.verdicts import CheckResult

    found = _words("chip").search(sentence)
    if not is_question(sentence) or found is None or found["chip"].upper() not in topic("apple_questions")["chips"]:
        return None
    size = _words("memory").search(sentence)
    if not (_words("mac").search(sentence) or found["tier"] or size):
        return None
    bare = _words("mac").sub(" ", _words("memory").sub(" ", sentence[: found.start()] + " " + sentence[found.end() :]))
    model, name = _model(bare)
    if model is None:
        return None
    chip, tier = found["chip"].upper(), (found["tier"] or "base").capitalize() if found["tier"] else "base"
    rates = topic("apple_questions")["chips"][chip]
    if tier not in rates:
        return None
    memory = int(size["size"]) if size else int(topic("apple_questions")["usual"][tier])
    bandwidth, usable = rates[tier] * 1e9, memory * GIB * (_SHARE if memory <= _SMALL_GB else _LARGE_SHARE)
    formats = {key: known.name for key, bits in _BITS.items() if (known := weight_format(bits)) is not None}
    sizes = {key: weights for key, bits in formats.items() if (weights := counted_weights({"model": name, "quantization": bits}))}
    if not sizes:
        return None
    token = sequence_cache_bytes(model, float(_TOKENS)) / _TOKENS
    roomy = next((key for key, one in sizes.items() if one + _TOKENS * token <= usable), "")
    fitting = roomy or next((key for key, one in sizes.items() if one + _LEAST_TOKENS * token <= usable), "")
    key, answer = fitting or list(sizes)[-1], "yes" if roomy else "tight" if fitting else "no"
    share = float(model.params_active or model.params_total) / float(model.params_total)
    most = bandwidth / (share * sizes[key])
    seconds = 2.0 * share * float(model.params_total) * _PROMPT / (bandwidth * _OPERATIONS)
    instead = next(
        (row for row in topic("apple_questions")["instead"] if row["gb"] * GIB * 0.8 >= sizes[key]), topic("apple_questions")["instead"][-1]
    )
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        fields = {"model": name, "chip": found[0].strip(), "memory": memory, "usable": q.memory_text(usable)}
        told[lang] = [_text(answer, lang, bits=_text(key, lang), weights=q.memory_text(sizes[key]), **fields)]
        told[lang] += [] if size else [_text("assumed", lang, memory=memory)]
        if fitting:
            rate = {"bandwidth": f"{bandwidth / 1e9:.0f}", "most": q.plain(most, 2)}
            rate |= dict(zip(("low", "high"), (q.plain(part * most, 2) for part in _REACHED), strict=True))
            tokens = min((usable - sizes[key]) / token, float(model.max_position or 1e9))
            told[lang].append(
                _text(
                    "speed",
                    lang,
                    tokens=f"{max(int(tokens // 1000), 2) * 1000:,}",
                    prompt=f"{_PROMPT:,}",
                    time=q.duration_text(seconds, lang),
                    **rate,
                )
            )
        told[lang] += [_text("train_no", lang, chip=fields["chip"])] if _words("training").search(sentence) else [_text("how", lang)]
        told[lang].append(_text("rent", lang, gb=instead["gb"], cards=instead["cards"]))
    claim = {"yes": "right", "tight": "right", "no": "wrong"}[answer]
    known: dict[str, Any] = {"model": name, "answer": answer, "chip": chip, "memory_gb": memory}
    return CheckResult(sentence, "market", True, claim, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _model(sentence: str) -> tuple[facts.TransformerArchitecture | None, str]:
    from rightfit.explain.beside.questions import without_questions
    from rightfit.workload.ask import understand

    try:
        name = str(understand(without_questions(sentence).wish).wishes.get("model", ""))
        model = facts.model(name, network=False) if name else None
    except RightfitError:
        return None, ""
    return (model, name) if isinstance(model, facts.TransformerArchitecture) else (None, "")
