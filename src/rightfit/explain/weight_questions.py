"""Whether weights fit in GPU memory that a question names: of several models at once ("qwen2.5:7b
and SDXL on one T4"), of one model in several formats ("Q8_0 or Q4_K_M on 8 GB"), of several models
to choose from, or of a tag of Ollama, which is in 4 bits.

Words and texts are data (data/weight_questions.toml).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import cards_of
from rightfit.explain.fit_claims import ROOMY, counted_weights, format_of, models_in
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.trials import best_for
from rightfit.explain.yes_or_no import is_open, is_question
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

#: Share of GPU memory that weights and caches may take: the rest is the runtime's.
USABLE = 0.92
#: Tokens of a conversation, and of the shortest; weights that leave less room for its cache fit
#: with short contexts only, or not.
USUAL_TOKENS, _LEAST_TOKENS = 8192, 2048
#: Share of GPU memory from which on weights leave too little for several users.
_CROWDED = 0.8
#: Tokens of context with which several users are served though the weights fill most of it.
_ROOM_TOKENS = 65_536
#: What an engine computes in on each GPU beside weights and caches [bytes], at most this share.
_WORKSPACE, _WORKSPACE_SHARE = 1.0 * GIB, 0.04
#: Numbers of GPUs of which the least is named that would do.
_COUNTS = (2, 4, 8)
#: Options that say how much is to be done, or that it is training: a plan tells more.
_PLANNED = frozenset({"denoise_steps", "frames", "rate", "data", "deadline", "budget", "method", "epochs", "seq_len"})
#: And of a model in the formats that may hold it, for how many.
_LOAD = frozenset({"users", "concurrency"})
#: Compute capability from which on engines have kernels for 8-bit floats.
_EIGHT_BIT_FLOATS = 8.0
_TAG = re.compile(r"[\w./-]+:\d+(?:\.\d+)?b(?![A-Za-z0-9])", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Held:
    """A model in a format: what it takes [bytes], what one token of context takes beside it, and
    what the checkpoint is called."""

    model: str
    name: str
    format: str
    held_bytes: float
    token_bytes: float


_words = functools.partial(topic_words, "weight_questions")
_text = functools.partial(topic_text, "weight_questions")


def weight_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a question about the weights of models in memory that is named; None of any
    other sentence."""
    from rightfit.explain.server_questions import with_cards
    from rightfit.workload.ask import understand

    if not is_question(sentence) or _words("other").search(sentence):
        return None
    if len({names for _, names in cards_of(sentence)}) > 1 or _words("between").search(sentence):
        return None  # between cards
    named = _models_named(sentence)
    formats = list(dict.fromkeys(match[0] for match in _words("format").finditer(sentence)))
    is_several = len(named) > 1
    is_ladder = len(named) == 1 and len(formats) < 2 and not _TAG.fullmatch(named[0]) and bool(_words("run").search(sentence))
    if not named or not (is_several or len(formats) > 1 or any(map(_TAG.fullmatch, named)) or is_ladder):
        return None
    told = with_cards(sentence, catalog)
    if is_ladder and told != sentence:  # of a server, which is tried as it is
        return None
    try:
        wishes = understand(told).wishes
    except RightfitError:
        return None
    wishes = {name: value for name, value in wishes.items() if name != "data" or not _words("cards").fullmatch(str(value))}
    if _PLANNED & set(wishes) or wishes.get("task") in ("train", "finetune"):
        return None
    if is_ladder and ((wishes.get("quantization") and not formats) or _LOAD & set(wishes) or is_open(sentence)):
        return None
    if len(named) == 1 and _usual(named[0]) is None and "model" in wishes:
        named = [str(wishes["model"])]  # "llama 70b", of which there are several
    had, shown, count = memory_named(sentence, wishes, catalog)
    is_told = bool(formats)
    if is_ladder:
        formats = _formats_tried(named[0], formats, str(wishes.get("gpu", "")))
    is_together = is_several and bool(_words("together").search(sentence))
    if not had:
        return None
    each = [held for model in named for told in _formats_of(model, formats, sentence) if (held := _held(model, told, catalog)) is not None]
    space = count * min(_WORKSPACE, _WORKSPACE_SHARE * had / count) if is_ladder else 0.0
    if {one.model for one in each} != set(named) or len(each) < len(formats) or (is_ladder and not _generates(named[0])):
        return None
    if is_ladder:
        return _ladder(sentence, each, had - space / USABLE, shown, count, is_told=is_told)
    if is_together:
        return _together(sentence, each, had, shown, count)
    return _each(sentence, each, had, shown, is_several=is_several)


def _models_named(sentence: str) -> list[str]:
    """The models that a question names, a size behind a name being part of it."""
    from rightfit.workload.ask import understand

    found = list(models_in(sentence))
    try:
        read = understand(sentence)
    except RightfitError:
        return found
    spoken = next((one.words for one in read.readings if one.option == "model"), "")
    if spoken and spoken.casefold() in sentence.casefold():  # in several words: "llama 8b"
        found = [one for one in found if one.casefold() not in spoken.casefold()] + [spoken]
    return sorted(dict.fromkeys(found), key=lambda one: sentence.casefold().find(one.casefold()))


def memory_named(sentence: str, wishes: Mapping[str, Any], catalog: Catalog) -> tuple[float, str, int]:
    """GPU memory that a question names [bytes], as it is told, and on how many GPUs; 0 where it
    names none or several kinds of GPU."""
    from rightfit.explain.claim_words import usual_card

    spoken, count = str(wishes.get("gpu", "")), int(str(wishes.get("num_gpus") or 1))
    if sized := re.fullmatch(r"(\d+(?:\.\d+)?)\s*GB?", spoken, re.IGNORECASE):
        return float(sized[1]) * GIB * count, f"{float(sized[1]):g} GB" if count == 1 else f"{count} x {float(sized[1]):g} GB", count
    names = facts.match_accelerators(spoken) if spoken else ()
    if not names or len({each for _, each in cards_of(sentence)}) > 1:
        return 0.0, "", 1
    card = usual_card(names, catalog)
    return count * float(card.memory_bytes), f"{count} x {card.name} ({q.memory_text(count * float(card.memory_bytes))})", count


def ladder_of(model: str) -> list[str]:
    """The formats in which a model is tried: from that of its checkpoint to 4 bits."""
    formats, own = list(topic("weight_questions")["ladder"]), format_of({"model": model})
    return formats[formats.index(own) :] if own in formats else [own] if own else formats


def _formats_tried(model: str, told: Sequence[str], gpu: str) -> list[str]:
    """The format that is told and those of fewer bits, else all of the model's, in those of 8 bits
    that the card computes in or has kernels for."""
    names = facts.match_accelerators(gpu) if gpu else ()
    old = all(0.0 < float(facts.accelerators()[name].compute_capability or 0.0) < _EIGHT_BIT_FLOATS for name in names) if names else False
    ladder = ["int8" if one == "fp8" and old else one for one in ladder_of(model)]
    if not told:
        return ladder
    from rightfit.facts.engines import weight_format

    known = weight_format(told[0].replace("位", "bit").replace("比特", "bit"))
    size = known.linear_bytes if known is not None else 2.0
    return [*told, *(one for one in ladder if (other := weight_format(one)) is not None and other.linear_bytes < 0.9 * size)]


def _usual(model: str) -> Any:
    """The record of a model by its name; None where it is not known, or of several."""
    try:
        return facts.model(model, network=False)
    except RightfitError:
        return None


def _generates(model: str) -> bool:
    """Whether a model generates text with a cache that grows with its context."""
    record = _usual(model)
    return isinstance(record, facts.TransformerArchitecture) and record.kind in ("decoder", "moe-decoder", "vlm")


def _formats_of(model: str, formats: Sequence[str], sentence: str) -> Sequence[str]:
    """The formats in which a model is meant: those that are told, else that of its tag."""
    if formats:
        return formats
    pulled = str(topic("weight_questions")["pulled"])
    return (pulled,) if _TAG.fullmatch(model) or _words("pulled").search(sentence) else ("",)


def _held(model: str, told: str, catalog: Catalog) -> Held | None:
    """What a model takes; None of one that nobody has counted, or in a format that nobody knows."""
    from rightfit.estimation.serving_extras import sequence_cache_bytes
    from rightfit.facts.engines import weight_format

    if (record := _usual(model)) is None:
        return None
    if isinstance(record, facts.DiffusionModel):  # an image at a time, with what it computes
        best = best_for({"model": model, "task": "batch", "data": "1 samples"}, catalog)
        return None if best is None else Held(model, str(record.name), "", float(best.estimate["peak_memory_bytes"].mid), 0.0)
    known = weight_format(told.replace("位", "bit").replace("比特", "bit")) if told else None
    if (told and known is None) or not isinstance(record, facts.TransformerArchitecture):
        return None
    job = {"model": model, **({"quantization": known.name} if known else {})}
    shown = known.name if known else format_of(job)
    weights = counted_weights(job)
    token = sequence_cache_bytes(record, float(USUAL_TOKENS)) / USUAL_TOKENS
    return None if weights is None else Held(model, str(record.name), shown, weights, token)


def _line(one: Held, lang: Lang) -> str:
    """A model, the checkpoint that its tag means, and what it takes."""
    meant = _text("meant", lang, name=one.name) if _TAG.fullmatch(one.model) else ""
    if not one.token_bytes:
        return _text("pictures", lang, model=one.model, held=q.memory_text(one.held_bytes))
    shown = one.format.removeprefix("gguf-").upper() or _text("bits", lang)
    return _text("weights", lang, model=one.model, meant=meant, format=shown, held=q.memory_text(one.held_bytes))


def _room(one: Held, had: float) -> str:
    """yes, depends (a short context only) or no."""
    free = USABLE * had - one.held_bytes
    is_crowded = one.held_bytes > _CROWDED * had and free < _ROOM_TOKENS * one.token_bytes
    return "no" if free < _LEAST_TOKENS * one.token_bytes else "depends" if is_crowded or free < USUAL_TOKENS * one.token_bytes else "yes"


def _together(sentence: str, each: Sequence[Held], had: float, shown: str, count: int) -> CheckResult:
    """Several models at once, each of which is there all the time."""
    total = sum(one.held_bytes for one in each)
    apart = count >= len(each) and all(one.held_bytes <= USABLE * had / count for one in each)
    answer = "no" if total > USABLE * had else "yes" if total <= ROOMY * had else "depends"
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        left = q.memory_text(max(USABLE * had - total, 0.0))
        told[lang] = [_line(one, lang) for one in each]
        told[lang].append(_text(f"sum_{answer}", lang, total=q.memory_text(total), shown=shown, left=left))
        told[lang].append(_text("apart" if apart and count > 1 else "shared", lang))
    return _result(sentence, told, each, answer)


def _each(sentence: str, each: Sequence[Held], had: float, shown: str, *, is_several: bool) -> CheckResult:
    """Models or formats one by one; of formats the choice is the closest to 16 bits with room."""
    rooms = [_room(one, had) for one in each]
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    for lang in LANGS:
        for one, room in zip(each, rooms, strict=True):
            told[lang].append(_line(one, lang) + _text(f"room_{room}", lang, shown=shown, tokens=f"{_tokens_left(one, had):,}"))
        if (chosen := _chosen(each, rooms)) is not None and not is_several and len(each) > 1:
            told[lang].append(_text("choose", lang, format=chosen.format.removeprefix("gguf-").upper()))
        elif not is_several and len(each) > 1:
            told[lang].append(_text("none", lang))
    answer = rooms[0] if len(each) == 1 else ""
    return _result(sentence, told, each, answer)


def _ladder(sentence: str, each: Sequence[Held], had: float, shown: str, count: int, *, is_told: bool) -> CheckResult:
    """A model on GPUs, in 16, 8 and 4 bits, or in the format that is told: yes where the first
    fits, just where it leaves little room, no where nothing does."""
    rooms = [_room(one, had) for one in each]
    if is_told and rooms[0] == "yes":
        each, rooms = each[:1], rooms[:1]
    found = _each(sentence, each, had, shown, is_several=True)
    chosen = _chosen(each, rooms)
    answer = rooms[0] if is_told or rooms[0] == "yes" else "depends" if chosen is not None else "no"
    if answer == "depends" and (is_told or "yes" not in rooms):
        answer = "just"
    first = each[0] if is_told or answer == "yes" else chosen or each[-1]
    key = {"yes": "ladder_told" if is_told else "ladder_yes", "just": "ladder_just", "depends": "ladder_in"}.get(answer, "ladder_no")
    key = "ladder_told_no" if answer == "no" and is_told else key
    lines: dict[Lang, list[str]] = {}
    for lang in LANGS:
        fields = {"model": each[0].model, "shown": shown, "tokens": f"{_tokens_left(first, had):,}"}
        lines[lang] = [_text(key, lang, bits=_bits(first, lang), **fields)]
        if is_told and rooms[0] != "yes" and chosen is not None and chosen is not first:
            lines[lang].append(_text("ladder_instead", lang, bits=_bits(chosen, lang), tokens=f"{_tokens_left(chosen, had):,}"))
        if answer in ("no", "just") and (more := _more(first, had, count)):
            lines[lang].append(
                _text("ladder_more", lang, bits=_bits(first, lang), count=more, memory=shown.split(" (")[0].split(" x ")[-1])
            )
    claim = {"yes": "right", "no": "wrong"}.get(answer, "unknown")
    return dataclasses.replace(
        found,
        claim=claim,
        facts={**found.facts, "answer": answer},
        explanation_en="\n".join([*lines["en"], found.explanation_en]),
        explanation_zh="\n".join([*lines["zh"], found.explanation_zh]),
    )


def _tokens_left(one: Held, had: float) -> int:
    """Tokens of context, in thousands, of all requests together that fit beside weights."""
    return max(int((USABLE * had - one.held_bytes) / one.token_bytes / 1000.0), 0) * 1000 if one.token_bytes else 0


def _more(one: Held, had: float, count: int) -> int:
    """The fewest of such GPUs that hold a model with room, of numbers that are rented; 0: none."""
    return next((many for many in _COUNTS if many > count and _room(one, many * had / count) == "yes"), 0)


def _bits(one: Held, lang: Lang) -> str:
    return _text(f"bits_{one.format}", lang) if f"bits_{one.format}" in topic("weight_questions")["texts"] else one.format.upper()


def _chosen(each: Sequence[Held], rooms: Sequence[str]) -> Held | None:
    """The largest that fits with room for a conversation, else the largest that fits."""
    for wanted in ("yes", "depends"):
        if fitting := [one for one, room in zip(each, rooms, strict=True) if room == wanted]:
            return max(fitting, key=lambda one: one.held_bytes)
    return None


def _result(sentence: str, told: Mapping[Lang, Sequence[str]], each: Sequence[Held], answer: str) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    claim = {"yes": "right", "no": "wrong", "depends": "unknown"}.get(answer)
    known = {"models": [one.name for one in each], "bytes": [one.held_bytes for one in each], **({"answer": answer} if answer else {})}
    return CheckResult(sentence, "market", True, claim, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))
