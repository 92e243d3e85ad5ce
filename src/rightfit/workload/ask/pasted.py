"""What a post holds of a program that ran out of memory: the error with its figures, which are no
amounts of the wish, and whether activations were recomputed.
"""

from __future__ import annotations

import functools
import re

from rightfit.facts.expressions import Expression
from rightfit.messages import Message
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Sentence

#: What is understood of a pasted error; its field `had` is the memory of the GPU that it tells.
MEMORY_ERROR = "workload.assumed_memory_error"


UNKNOWN = "-"
_SHOWN = 60
_GONE = "\0"
_GAP = re.compile(rf"[ ,;.(（]*{_GONE}[ ,;.)）{_GONE}]*")


@functools.cache
def _error_shapes() -> tuple[Expression, Expression]:
    """(A part of an error, the memory of the GPU in it.)"""
    capacity = r"{capacity_before}\s*(?P<before>{error_size})|(?P<after>{error_size})\s*{capacity_after}"
    return grammar.shape("{error_part}"), grammar.shape(capacity)


@functools.cache
def _checkpointing_shapes() -> tuple[tuple[Expression, str], ...]:
    """How recomputation is named, each with what the option takes; the last says nothing of it."""
    texts = {
        r"{checkpointing_off}\s*{checkpointing}|{checkpointing}\s*{checkpointing_not}": "none",
        r"{checkpointing_on}\s*{checkpointing}|{checkpointing}\s*{checkpointing_is}": "full",
        r"{checkpointing}": "",
    }
    return tuple((grammar.shape(text), value) for text, value in texts.items())


def read_errors(sentence: Sentence) -> None:
    """Parts of a pasted error: its sizes are those of the GPU, "reserved" is no way to pay."""
    part, capacity = _error_shapes()
    had = capacity.search(sentence.text)
    told = [found[0].strip(" ,;.()，。；（）") for found in part.finditer(sentence.text)]
    if told:
        sentence.text = sentence.whole = _GAP.sub("; ", part.sub(_GONE, sentence.text)).removeprefix("; ")  # nothing is read yet
        words = "; ".join(told)
        sentence.noted.append(words)
        shown = words if len(words) <= _SHOWN else f"{words[:_SHOWN]} ..."
        sentence.assumed.append(
            Message("workload.assumed_memory_error", words=shown, had=(had["before"] or had["after"]) if had else UNKNOWN)
        )


def read_checkpointing(sentence: Sentence) -> None:
    """Whether activations are recomputed, where it is said; where it is asked about it is noted."""
    for shape, value in _checkpointing_shapes():
        for found in list(shape.finditer(sentence.text)):
            if value and not sentence.has("recompute"):
                sentence.take(*found.span(), "recompute", value)
            else:
                sentence.note(*found.span())
