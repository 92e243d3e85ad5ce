"""The load of a service: how long requests are, when they come, and how that moves over the day; as numbers, as a law, or as a trace."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import ContradictionError, FileInputError
from rightfit.estimate.loads import length_atoms
from rightfit.messages import Message
from rightfit.physics.queueing import LoadColumns, atoms_of
from rightfit.records import dataclass
from rightfit.units import SECONDS_PER_HOUR
from rightfit.workload.profiles import hourly_rates, profile_of, shape_of
from rightfit.workload.traces import Lengths, Requests, draw_requests, read_lengths, read_trace

if TYPE_CHECKING:
    from rightfit.search.notes import Notes
    from rightfit.workload import Workload

Array = NDArray[np.float64]

#: A trace shorter than this says nothing of how the day goes.
SHORTEST_DAY_S = 6 * SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class ServingLoad:
    """Laws of the lengths of requests, and the same as the queue model's atoms (19,) [tokens]; `trace`: the requests themselves, where
    given;
    `hourly_per_s`: rate of each hour of the day (24,) [1/s]. `shared_tokens` of each prompt are in the cache already."""

    inputs: Lengths
    outputs: Lengths
    input_atoms: Array
    output_atoms: Array
    trace: Requests | None = None
    hourly_per_s: Array | None = None
    shared_tokens: float = 0.0

    def columns(self, rate_per_s: Array) -> LoadColumns:
        """The load of N replicas that get `rate_per_s` (N,) each, as the queue model takes it: Poisson arrivals."""
        prompts = np.maximum(self.input_atoms - self.shared_tokens, 1.0)
        return LoadColumns.of(rate_per_s, input_tokens=prompts, output_tokens=self.output_atoms)

    def requests(self, count: int, *, rate_per_s: float, seed: int) -> Requests:
        """`count` requests of these lengths with Poisson arrivals."""
        return self._without_shared(draw_requests(count, rate_per_s=rate_per_s, inputs=self.inputs, outputs=self.outputs, seed=seed))

    def traced(self) -> Requests | None:
        """The trace as a replica sees it."""
        return None if self.trace is None else self._without_shared(self.trace)

    def _without_shared(self, requests: Requests) -> Requests:
        if not self.shared_tokens:
            return requests
        return dataclasses.replace(requests, input_tokens=np.maximum(requests.input_tokens - int(self.shared_tokens), 1))


def trace_of(workload: Workload) -> Requests | None:
    """The requests of the trace that the workload names, stretched to its rate where it gives one."""
    if not workload.trace:
        return None
    trace = read_trace(workload.trace)
    if not trace.arrival_s[-1] > 0:
        raise FileInputError(Message("search.trace_moment", file=workload.trace, count=len(trace)))
    return trace.at_rate(workload.rate_per_s) if workload.rate_per_s else trace


def refuse_law(workload: Workload) -> None:
    """Models of one forward pass take one length."""
    if workload.input_law:
        raise ContradictionError(
            Message("search.law_of_one_pass", law=workload.input_law, model=workload.model),
            field="input_tokens",
        )


def busiest_rate_per_s(trace: Requests) -> float:
    """Rate of the busiest whole hour of a trace; of a shorter trace its mean."""
    span = float(trace.arrival_s[-1])
    if span < 2.0 * SECONDS_PER_HOUR:
        return trace.rate_per_s
    hours = np.bincount(
        (trace.arrival_s[trace.arrival_s < span // SECONDS_PER_HOUR * SECONDS_PER_HOUR] // SECONDS_PER_HOUR).astype(np.intp)
    )
    return float(hours.max()) / SECONDS_PER_HOUR


def law_of(workload: Workload, side: str, *, mean: int, room: int) -> Lengths:
    """The law of lengths of one side ("input", "output"): as typed, else all the same; nothing longer than `room` (0: no limit)."""
    text = getattr(workload, f"{side}_law")
    law = read_lengths(text) if text else Lengths(float(mean))
    return law.capped(room) if room and text else law


def mean_lengths(trace: Requests) -> tuple[int, int]:
    """Mean prompt and answer of a trace [tokens]."""
    return max(round(float(trace.input_tokens.mean())), 1), max(round(float(trace.output_tokens.mean())), 1)


def read_load(
    workload: Workload, trace: Requests | None, *, lengths: tuple[int, int], rate_per_s: float, longest: int, notes: Notes
) -> ServingLoad:
    """The load of a language model. `lengths`: means; `longest`: what the model's context holds (0: no limit)."""
    if trace is not None and longest and int((trace.input_tokens + trace.output_tokens).max()) > longest:
        worst = int((trace.input_tokens + trace.output_tokens).argmax())
        total = int(trace.input_tokens[worst] + trace.output_tokens[worst])
        raise ContradictionError(Message("search.trace_too_long", count=total, most=longest), field="trace")
    room = [max(longest - other, 1) if longest else 0 for other in reversed(lengths)]
    inputs, outputs = (
        law_of(workload, side, mean=mean, room=limit) for side, mean, limit in zip(("input", "output"), lengths, room, strict=True)
    )
    if trace is None:
        atoms = [length_atoms(law) for law in (inputs, outputs)]
    else:
        atoms = [atoms_of(np.sort(tokens.astype(np.float64))) for tokens in (trace.input_tokens, trace.output_tokens)]
    hourly = hourly_of(workload, trace, rate_per_s=rate_per_s, notes=notes)
    return ServingLoad(inputs, outputs, atoms[0], atoms[1], trace, hourly)


def hourly_of(workload: Workload, trace: Requests | None, *, rate_per_s: float, notes: Notes) -> Array | None:
    """Rates over the day (24,) [1/s]: of the profile with the rate as its peak, or as a trace of six hours or more has them."""
    if workload.profile:
        if workload.rate_per_s is None:
            notes.take(
                "profile", workload.profile, "serve_profile_absolute" if "," in workload.profile else "serve_profile_peak", rate=rate_per_s
            )
        return hourly_rates(workload.profile, peak_per_s=rate_per_s)
    if trace is not None and float(trace.arrival_s[-1]) >= SHORTEST_DAY_S:
        return profile_of(trace)
    return None


def peak_of(workload: Workload) -> float | None:
    """The peak of a profile of 24 typed numbers or of a file, taken as requests per second where no rate is given; none of a named
    shape."""
    if not workload.profile or workload.rate_per_s is not None:
        return None
    from rightfit.workload.profiles import SHAPES

    if workload.profile.strip().casefold() in SHAPES:
        return None
    return float(shape_of(workload.profile).max())
