"""Methods of preference and reinforcement tuning: which models and passes each needs beside the trained model, with sources."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from rightfit.facts.tables import filled, table
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class TuningMethod:
    """One method. A sample of the data gives `sequences` that are trained on (two of a pair, as many as a prompt gets answers). Beside
    training there are, over the same sequences: `reference` forward passes of a frozen reference, `policy_forwards` of the trained model
    itself, one of a reward model, one of a value model, which is trained too. `rollout`: an engine writes the answers. `batch`: usual
    sequences of a step (pairs counted once), `samples`: usual amount of data, called `data_name`."""

    method: str
    sequences: int
    reference: int
    policy_forwards: int
    reward: bool
    value: bool
    rollout: bool
    batch: int
    samples: int
    data_name: str
    source: str

    @property
    def is_paired(self) -> bool:
        """Whether a sample is two answers to one prompt."""
        return self.sequences == 2 and not self.rollout


@functools.cache
def tuning_methods() -> Mapping[str, TuningMethod]:
    """Every method by its name in a wish."""
    return MappingProxyType({row["method"]: filled(TuningMethod, row) for row in table("tuning_methods")})
