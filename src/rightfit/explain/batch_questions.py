"""What micro-batch fits when a model is trained on GPUs that a question names ("full fine-tune 1.3B
on an A100 40GB at 4k, what batch size"), with and without gradient checkpointing.

Words and texts are data (data/batch_questions.toml).
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.card_questions import cards_named
from rightfit.explain.messages import topic_text, topic_words
from rightfit.explain.trials import need_with
from rightfit.explain.yes_or_no import is_question
from rightfit.messages import LANGS, Lang
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_words = functools.partial(topic_words, "batch_questions")
_text = functools.partial(topic_text, "batch_questions")
#: Share of a card's memory that training may take.
_USABLE = 0.95
_SIZES = (1, 2, 4, 8, 16, 32, 64)


def batch_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to such a question; None of any other sentence."""
    from rightfit.explain.beside.questions import without_questions
    from rightfit.market.verdicts import CheckResult
    from rightfit.workload.ask import understand

    if not is_question(sentence) or not all(_words(name).search(sentence) for name in ("batch", "asked", "training")):
        return None
    try:
        wishes = understand(without_questions(sentence).wish).wishes
    except RightfitError:
        return None
    cards, told_memory = cards_named(sentence, catalog), topic_words("sum_questions", "memory_told").search(sentence)
    if "model" not in wishes or len(cards) > 1 or {"deadline", "budget", "micro_batch", "global_batch"} & set(wishes):
        return None
    if (not cards and told_memory is None) or (cards and "data" in wishes):
        return None
    name = cards[0].name if cards else f"{told_memory['size']} GB" if told_memory else ""
    memory = float(cards[0].memory_bytes) if cards else float(told_memory["size"]) * GIB if told_memory else 0.0
    count = int(str(wishes.get("num_gpus") or 1))
    ways = [way for way in ("full", "qlora", "lora") if _words(way).search(sentence)] or ["lora"]
    job = {name: value for name, value in wishes.items() if name in ("model", "seq_len")}
    room, told = _USABLE * memory, {lang: list[str]() for lang in LANGS}
    fits: list[int] = []
    for way in ways:
        asked = {**job, "task": "finetune", "method": way, "data": "10Mtok"}
        lean, plain = (_largest(asked, recompute, room, catalog) for recompute in ("full", "none"))
        if lean is None or plain is None:
            return None
        fits.append(lean[0])
        for lang in LANGS:
            told[lang].append(
                _line(
                    {"model": str(job["model"]), "tokens": str(wishes.get("seq_len") or "2048"), "count": count, "card": name},
                    way,
                    memory,
                    lean,
                    plain,
                    lang,
                )
            )
    for lang in LANGS:
        told[lang].append(_text("rest", lang))
    claim = None if not _asks_whether(sentence) else "right" if all(fits) else "wrong" if not any(fits) else "unknown"
    known: dict[str, Any] = {"micro_batches": dict(zip(ways, fits, strict=True)), "card": name}
    return CheckResult(sentence, "market", True, claim, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _asks_whether(sentence: str) -> bool:
    """Whether it asks whether the job fits at all, too."""
    return sentence.lower().startswith(("can ", "does ", "will ", "could ", "is ")) or "能" in sentence or "吗" in sentence


def _largest(job: dict[str, Any], recompute: str, room: float, catalog: Catalog) -> tuple[int, float] | None:
    """The largest micro-batch that fits and what it takes, or 0 and what one takes [bytes]; None
    where that cannot be evaluated."""
    from rightfit.workload.model import Workload

    found = (0, math.nan)
    for size in _SIZES:
        try:
            need = need_with(Workload(**job), catalog=catalog, micro_batch=size, recompute=recompute)
        except RightfitError:
            return None
        if math.isnan(need):
            return None
        if need > room:
            return (0, need) if size == 1 else found
        found = (size, need)
    return found


def _line(fields: dict[str, Any], way: str, memory: float, lean: tuple[int, float], plain: tuple[int, float], lang: Lang) -> str:
    had = q.memory_text(memory)
    head = _text("head", lang, way=q.method_text(way, lang), memory=had, **fields)
    gap = "" if lang == "zh" else " "
    if not lean[0]:
        return f"{head}{gap}{_text('none', lang, need=q.memory_text(lean[1]), memory=had)}"
    shown = [_text("most", lang, count=size) if size == _SIZES[-1] else f"{size}" for size, _ in (lean, plain)]
    other = _text("plain", lang, plain=shown[1], need=q.memory_text(plain[1])) if plain[0] else _text("plain_none", lang)
    return f"{head}{gap}{_text('fits', lang, lean=shown[0], lean_need=q.memory_text(lean[1]), plain=other)}"
