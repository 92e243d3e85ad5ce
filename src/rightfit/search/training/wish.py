"""A training job as numbers: what both families of training hand to the search."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from rightfit.errors import UnknownNameError
from rightfit.facts import word_tables
from rightfit.physics.columns import Method
from rightfit.search.answer import Assumption

if TYPE_CHECKING:
    from rightfit.facts.tuning import TuningMethod
    from rightfit.workload import Workload


@dataclasses.dataclass(frozen=True, slots=True)
class Amount:
    """How much work there is: `tokens` over all epochs, `dataset_bytes` on disk (one copy)."""

    tokens: float
    dataset_bytes: float
    samples: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
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


@dataclasses.dataclass(frozen=True, slots=True)
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


def refuse_unknown_framework(workload: Workload) -> None:
    """A framework of which no word is known would change nothing: it is refused with the nearest."""
    text = (workload.framework or "").casefold()
    known = [word.word for word in word_tables.words("choices", "training_framework")]
    if text and not any(word in text for word in known):
        from rightfit.workload.vocabulary import nearest_words

        raise UnknownNameError(
            "framework",
            workload.framework or "",
            nearest=nearest_words(text, known),
            allowed="for example: transformers, axolotl, nemo",
            field="framework",
        )
