"""Which matrices of a model take an adapter, as people say it: "on all linear layers", "attention
and MLP", "q k v o", 所有线性层.
"""

from __future__ import annotations

import functools

from rightfit.facts.expressions import Expression
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Sentence

#: What each part of a layer adds, as the option has it.
_PARTS = {"attention": ("q", "k", "v", "o"), "feed": ("gate", "up", "down"), "experts": ("gate", "up", "down", "expert")}


@functools.cache
def _shapes() -> tuple[Expression, ...]:
    """(Every matrix, matrices by their letters, parts of layers, one part,
    a word for low-rank adapters, one letter.)"""
    part = r"(?:{adapter_attention}|{adapter_experts}|{adapter_feed})"
    letter = r"(?:{adapter_letter})"
    return (
        grammar.shape(rf"{{adapter_head}}?\s*{{adapter_all}}(?P<not>\s*,?\s*{{adapter_without}}\s*{part}(?:\s*{{adapter_tail}})?)?"),
        grammar.shape(
            rf"{{adapter_head}}?\s*(?<![A-Za-z0-9_])(?P<letters>{{adapter_joint}}|{letter}(?:\s*(?:{{adapter_join}})?\s*{letter})+)(?![A-Za-z0-9_])(?:\s*{{adapter_tail}})?"
        ),
        grammar.shape(
            rf"(?P<head>{{adapter_head}})?\s*(?P<only>{{adapter_only}})?\s*(?P<parts>{part}(?:(?:\s*{{adapter_tail}})?\s*{{adapter_join}}\s*{part})*)"
            rf"(?:\s*(?P<tail>{{adapter_tail}}))?(?:\s*(?P<too>{{adapter_too}}))?(?P<not>\s*,?\s*{{adapter_without}}\s*{part}(?:\s*{{adapter_tail}})?)?"
        ),
        grammar.shape(r"(?P<attention>{adapter_attention})|(?P<experts>{adapter_experts})|(?P<feed>{adapter_feed})"),
        grammar.shape("{adapter_word}"),
        grammar.shape("{adapter_letter}"),
    )


def read_adapters(sentence: Sentence) -> None:
    """The matrices that take an adapter, where low-rank ones are trained."""
    if not _is_low_rank(sentence):
        return
    everything, letters, parts = _shapes()[:3]
    if found := everything.search(sentence.text):
        without = _names(found["not"]) if found["not"] else ()
        every = (*_PARTS["attention"], *_PARTS["experts"])
        kept = [name for name in every if name not in without or ("expert" in without and name != "expert")]
        sentence.take(*found.span(), "lora_targets", ",".join(kept) if without else "all-linear")
    elif found := letters.search(sentence.text):
        sentence.take(*found.span(), "lora_targets", ",".join(_spelled(found["letters"])))
    else:
        _read_parts(sentence, parts)


def _read_parts(sentence: Sentence, parts: Expression) -> None:
    """Parts of layers, where a word beside them says that they are what is adapted."""
    for found in parts.finditer(sentence.text):
        denied = sentence.denied_from(*found.span())
        names = _names(found["parts"])
        if denied or not any(
            (found["head"], found["only"], found["tail"], found["too"], found["not"], len(names) > len(_PARTS["experts"]))
        ):
            continue
        if found["too"] and "q" not in names:  # beside attention
            names = (*_PARTS["attention"], *names)
        without = _names(found["not"]) if found["not"] else ()
        kept = [name for name in names if name not in without] or list(names)
        sentence.take(*found.span(), "lora_targets", ",".join(kept))
        return


def _names(text: str) -> tuple[str, ...]:
    """What the parts that a text names add, each once."""
    named = [name for found in _shapes()[3].finditer(text) for name in _PARTS[found.lastgroup or ""]]
    return tuple(dict.fromkeys(named))


def _spelled(letters: str) -> list[str]:
    """Matrices by their letters: "qkvo", "q_proj, v_proj", "q/k/v/o"."""
    joined = letters.casefold()
    named = list(joined) if set(joined) <= set(_PARTS["attention"]) else [found[0].casefold() for found in _shapes()[5].finditer(letters)]
    return list(dict.fromkeys(name.removesuffix("_proj") for name in named))


def _is_low_rank(sentence: Sentence) -> bool:
    return _shapes()[4].search(sentence.whole) is not None
