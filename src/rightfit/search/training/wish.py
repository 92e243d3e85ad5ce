"""A training job as numbers: what both families of training hand to the search."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rightfit.errors import UnknownNameError
from rightfit.facts import word_tables
from rightfit.messages import Message
from rightfit.physics.columns import Method
from rightfit.records import dataclass
from rightfit.search.answer import Assumption
from rightfit.search.notes import Notes
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.facts.tuning import TuningMethod
    from rightfit.workload import Workload


_TOKEN = re.compile(r"[^\s,;/()&|]+")
_SEPARATOR = re.compile(r"[-_.+=]+")
_VERSION = re.compile(r"v?\d[\w]*")
#: From this likeness on a word is a slip of the pen.
_A_SLIP = 0.75


@dataclass(frozen=True, slots=True)
class Amount:
    """How much work there is: `tokens` over all epochs, `dataset_bytes` on disk (one copy)."""

    tokens: float
    dataset_bytes: float
    samples: float = 0.0


@dataclass(frozen=True, slots=True)
class Tuning:
    """What learning from preferences or rewards adds: its method, the weights it trains (`update`), where the engine answers (`rollout`,
    empty without one), answers to each prompt, lengths [tokens], and the reward model (None: rules, or none)."""

    method: TuningMethod
    update: str
    rollout: str = ""
    completions: int = 1
    prompt_tokens: float = 0.0
    answer_tokens: float = 0.0
    reward_model: Any = None

    @property
    def is_apart(self) -> bool:
        """Whether the engine has accelerators of its own."""
        return self.rollout in ("separate", "async")


@dataclass(frozen=True, slots=True)
class TrainingWish:
    """What the search needs to know of a training job. `assumptions`: each default that was taken. `tuning`: where preferences or rewards
    are learned from."""

    workload: Workload
    model: Any
    method: Method
    seq_len: int
    global_batch: int
    amount: Amount
    assumptions: tuple[Assumption, ...]
    tuning: Tuning | None = None

    @property
    def num_steps(self) -> float:
        """Optimizer steps at exactly the global batch; at least one."""
        return max(1.0, math.ceil(self.amount.tokens / (self.global_batch * self.seq_len) - 1e-9))


def read_framework(workload: Workload, notes: Notes) -> None:
    """Every word of a framework is one that is known, or is refused with the nearest; what resembles nothing and stands beside a known word is said
    to be unread. A framework of which no word is known would change nothing: it is refused."""
    text = (workload.framework or "").casefold()
    if not text:
        return
    known = [word.word for word in word_tables.words("choices", "training_framework")]
    strange = [part for token in _TOKEN.findall(text) for part in _unknown_parts(token, known)]
    near = next((part for part in strange if _resembles(part, known)), "")
    if near or not any(word in text for word in known):
        nearest = nearest_words(near or text, known)
        raise UnknownNameError(
            "framework",
            workload.framework or "",
            nearest=nearest,
            allowed=Message("names.part_for_example", names="transformers, axolotl, nemo"),
            field="framework",
        )
    if strange:
        notes.take("framework", workload.framework or "", "framework_unread", words=" ".join(strange))


def _unknown_parts(token: str, known: Sequence[str]) -> list[str]:
    """The parts of one word that no framework is named by; versions are none."""
    if token in known:
        return []
    parts = [part for part in _SEPARATOR.split(token) if part and not _VERSION.fullmatch(part)]
    pieces = {piece for word in known for piece in (word, *_SEPARATOR.split(word))}  # names of several words may be written apart
    pieces |= {word.word for word in word_tables.words("choices", "beside_framework")}
    return [part for part in parts if part not in pieces and part.rstrip("0123456789") not in pieces]


def _resembles(part: str, known: Sequence[str]) -> bool:
    return any(difflib.SequenceMatcher(None, part, word).ratio() >= _A_SLIP for word in known)
