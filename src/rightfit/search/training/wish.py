"""A training job as numbers: what both families of training hand to the search."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from rightfit.errors import UnknownNameError
from rightfit.facts.trainers import framework_names, strange_words
from rightfit.messages import Message
from rightfit.physics.columns import Method
from rightfit.records import dataclass
from rightfit.search.answer import Assumption
from rightfit.search.request_checks import Notes
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.facts.trainers import TuningMethod
    from rightfit.workload import Workload


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
    """What learning from preferences or rewards adds: its method, the weights it trains (`update`),
    where the engine answers (`rollout`, empty without one), answers to each prompt, lengths
    [tokens], and the reward model (None: rules, or none)."""

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
class TrainingRequest:
    """What the search needs to know of a training job. `assumptions`: each default that was taken.
    `tuning`: where preferences or rewards are learned from."""

    workload: Workload
    model: Any
    method: Method
    seq_len: int
    global_batch: int
    amount: Amount
    assumptions: tuple[Assumption, ...]
    tuning: Tuning | None = None


def read_framework(workload: Workload, notes: Notes) -> None:
    """Every word of a framework is one that is known, or is refused with the nearest; what
    resembles nothing and stands beside a known word is said to be unread. A framework of which no
    word is known would change nothing: it is refused."""
    text = (workload.framework or "").casefold()
    if not text:
        return
    known, strange = framework_names(), strange_words(text)
    near = next((part for part in strange if any(difflib.SequenceMatcher(None, part, word).ratio() >= _A_SLIP for word in known)), "")
    if near or not any(word in text for word in known):
        nearest = nearest_words(near or text, known)
        raise UnknownNameError(
            "framework",
            workload.framework or "",
            nearest=nearest,
            allowed=Message("names.for_example", names="transformers, axolotl, nemo"),
            field="framework",
        )
    if strange:
        notes.take("framework", workload.framework or "", "framework_unread", words=" ".join(strange))
