"""One look at a run: how far it is, how long its steps take, what its machine does. Sources make looks; nothing here knows where they come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Protocol

from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """A moment of a run. `at_s`: our own monotonic clock. `step` optimizer steps done of `whole`; `intervals` seconds a step, oldest first; `elapsed_s` since the
    run began. `figures`: metrics of a run record by name, as they are now or since the look before; memory in bytes. What is not known is absent or None."""

    at_s: float
    is_alive: bool = True
    step: float | None = None
    whole: float | None = None
    intervals: tuple[float, ...] = ()
    since_step_s: float | None = None
    elapsed_s: float | None = None
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Source(Protocol):
    """Something that can be followed."""

    @property
    def name(self) -> str:
        """How it is called."""
        ...

    def look(self) -> Look:
        """The run now. Raises UnavailableError where it cannot be seen at all."""
        ...


class LastStep:
    """When the count of steps last grew, by our own clock, so that a clock that is set cannot make or hide a stall."""

    def __init__(self) -> None:
        self._step: float | None = None
        self._at_s = 0.0

    def since(self, step: float | None, now_s: float, *, known_s: float = 0.0) -> float | None:
        """Seconds since the count grew; at the first look `known_s`, what the source itself tells. None before the first step."""
        if step is None or step <= 0:
            return None
        if self._step is None:
            self._step, self._at_s = step, now_s - max(known_s, 0.0)
        elif step != self._step:
            self._step, self._at_s = step, now_s
        return now_s - self._at_s
