"""From a serving workload to numbers: the load, the lengths, the latency limits, and every
default that was taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import ContradictionError, FileInputError
from rightfit.estimation.pass_records import PassInput
from rightfit.estimation.serving_extras import ServingExtras
from rightfit.estimation.serving_steps import length_atoms
from rightfit.facts.classical import classical_model
from rightfit.facts.config_json import stated_quantization
from rightfit.facts.image_tokens import has_two_towers
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.resolve import hub_repository, resolve_offline
from rightfit.messages import Message
from rightfit.physics.columns import Array
from rightfit.physics.queueing import LoadColumns, atoms_of
from rightfit.records import dataclass
from rightfit.search.answer import Assumption
from rightfit.search.request_checks import Notes
from rightfit.units import SECONDS_PER_HOUR
from rightfit.workload.traces import Lengths, Requests, draw_requests, hourly_rates, profile_of, read_lengths, read_trace, shape_of

if TYPE_CHECKING:
    from rightfit.workload import Workload


# ---- The load of a service: how long requests are, when they come, and how that moves over the
# day; as numbers, as a law, or as a trace.

#: A trace shorter than this says nothing of how the day goes.
SHORTEST_DAY_S = 6 * SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class ServingLoad:
    """Laws of the lengths of requests, and the same as the queue model's atoms (19,) [tokens];
    `trace`: the requests themselves, where given;
    `hourly_per_s`: rate of each hour of the day (24,) [1/s]. `shared_tokens` of each prompt are in
    the cache already."""

    inputs: Lengths
    outputs: Lengths
    input_atoms: Array
    output_atoms: Array
    trace: Requests | None = None
    hourly_per_s: Array | None = None
    shared_tokens: float = 0.0

    def columns(self, rate_per_s: Array) -> LoadColumns:
        """The load of N replicas that get `rate_per_s` (N,) each, as the queue model takes
        it: Poisson arrivals."""
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
    """The requests of the trace that the workload names, stretched to its rate
    where it gives one."""
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
    """The law of lengths of one side ("input", "output"): as typed, else all the same; nothing
    longer than `room` (0: no limit)."""
    text = getattr(workload, f"{side}_law")
    law = read_lengths(text) if text else Lengths(float(mean))
    return law.capped(room) if room and text else law


def mean_lengths(trace: Requests) -> tuple[int, int]:
    """Mean prompt and answer of a trace [tokens]."""
    return max(round(float(trace.input_tokens.mean())), 1), max(round(float(trace.output_tokens.mean())), 1)


def read_load(
    workload: Workload, trace: Requests | None, *, lengths: tuple[int, int], rate_per_s: float, longest: int, notes: Notes
) -> ServingLoad:
    """The load of a language model. `lengths`: means; `longest`: what the model's context
    holds (0: no limit)."""
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
    """Rates over the day (24,) [1/s]: of the profile with the rate as its peak, or as a trace of
    six hours or more has them."""
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
    """The peak of a profile of 24 typed numbers or of a file, taken as requests per second where no
    rate is given; none of a named shape."""
    if not workload.profile or workload.rate_per_s is not None:
        return None
    from rightfit.workload.traces import SHAPES

    if workload.profile.strip().casefold() in SHAPES:
        return None
    return float(shape_of(workload.profile).max())


LATENCY_LIMITS = ("ttft", "tpot", "latency")
_GENERATING = ("decoder", "moe-decoder", "vlm")


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits of latencies [s] at a percentile (0-1); infinity where there is none."""

    ttft_s: float
    tpot_s: float
    latency_s: float
    percentile: float


@dataclass(frozen=True, slots=True)
class ServingRequest:
    """What the serving search needs to know of a workload.

    `rate_per_s` requests a second (0 where only users were given), `users` with a request in flight
    at the same time, `requests` of a batch job in all (0 for a service). `input_tokens`,
    `output_tokens` of one request in the mean; both 0 for models that do not generate text.
    `load`: laws of lengths, trace and profile of a service that generates text. `modality`: kind of
    input of a model that does not (image, audio, text, table). `one_input`: what one input of it is
    like (pixels, frames, denoising steps, seconds of sound); `told`: the same for the reader, the
    usual values filled in.
    """

    workload: Workload
    model: Any
    rate_per_s: float
    users: int
    requests: float
    input_tokens: int
    output_tokens: int
    limits: Limits
    assumptions: tuple[Assumption, ...]
    load: ServingLoad | None = None
    modality: str = ""
    one_input: PassInput | None = None
    told: Mapping[str, float] = dataclasses.field(default_factory=dict)
    extras: ServingExtras = dataclasses.field(default_factory=ServingExtras)

    @property
    def published_name(self) -> str:
        """What tells in which format the weights are published: the name asked for, what its
        configuration states, the model's own name."""
        asked = self.workload.model or ""
        return f"{asked} {stated_quantization(asked)} {getattr(self.model, 'name', '')}"

    @property
    def checkpoint(self) -> str:
        """The checkpoint by its name: one that borrows the shape of another is another."""
        asked = self.workload.model or ""
        return hub_repository(asked, resolve_offline(asked)) or str(getattr(self.model, "name", ""))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names by which the model's class is known to engines: the repository asked for, and
        that of its record; none for a model of one's own."""
        record = str(getattr(self.model, "name", ""))
        asked = hub_repository(self.workload.model or "", resolve_offline(self.workload.model or ""))
        return tuple(dict.fromkeys(name for name in (asked, record) if "/" in name))

    @property
    def is_batch(self) -> bool:
        """Whether a corpus is worked off, and nobody waits."""
        return bool(self.workload.task == "batch")

    @property
    def month_h(self) -> float:
        """Hours of a month in which the servers run and are asked: those stated, else all."""
        return float(self.workload.office_hours or usual()["hours_per_month"])

    @property
    def generates(self) -> bool:
        """Whether the model produces text token by token."""
        return is_generating(self.model)

    @property
    def scores_rows(self) -> bool:
        """Whether a classical model scores one row a request."""
        return self.workload.task == "serve" and classical_model(self.workload.model) is not None


def is_generating(model: object) -> bool:
    """Whether a model's record is of one that produces text token by token."""
    return isinstance(model, TransformerArchitecture) and model.kind in _GENERATING and not has_two_towers(model)


def usual() -> Any:
    """Defaults and margins of serving plans."""
    return facts.coefficients("serving_planning")


def think_s(workload: Workload) -> float:
    """What a user pauses between an answer and the next question [s]."""
    return float(usual()["think_s"]) if workload.think_s is None else float(workload.think_s)


def start_notes(workload: Workload) -> Notes:
    """Notes that begin with what the workload itself took for granted."""
    notes = Notes()
    for field in workload.assumed:
        if field != "currency":
            notes.take(field, str(getattr(workload, field)), f"default_{field}")
    return notes
