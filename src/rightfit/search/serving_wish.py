"""From a serving workload to numbers: the load, the lengths, the latency limits, and every default that was taken."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import ContradictionError, InputError
from rightfit.estimate.serving_extras import ServingExtras
from rightfit.facts.classical import classical_model
from rightfit.facts.records import TransformerArchitecture
from rightfit.search.answer import Assumption
from rightfit.search.own_model import note_own
from rightfit.search.wish import Notes

if TYPE_CHECKING:
    from rightfit.search.serving_load import ServingLoad
    from rightfit.workload import Workload
    from rightfit.workload.traces import Requests

LATENCIES = ("ttft", "tpot", "latency")
_GENERATING = ("decoder", "moe-decoder", "vlm")


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits of latencies [s] at a percentile (0-1); infinity where there is none."""

    ttft_s: float
    tpot_s: float
    latency_s: float
    percentile: float


@dataclasses.dataclass(frozen=True, slots=True)
class ServingWish:
    """What the serving search needs to know of a workload.

    `rate_per_s` requests a second (0 where only users were given), `users` with a request in flight at the same time, `requests` of a batch
    job in all (0 for a service). `input_tokens`, `output_tokens` of one request in the mean; both 0 for models that do not generate text. `load`: laws of
    lengths, trace and profile of a service that generates text.
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
    extras: ServingExtras = dataclasses.field(default_factory=ServingExtras)

    @property
    def is_batch(self) -> bool:
        """Whether a corpus is worked off, and nobody waits."""
        return bool(self.workload.task == "batch")

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
    return isinstance(model, TransformerArchitecture) and model.kind in _GENERATING


def usual() -> Any:
    """Defaults and margins of serving plans."""
    return facts.coefficients("serving_planning")


def read_serving_wish(workload: Workload) -> ServingWish:
    """The workload as numbers; raises what the user must know."""
    notes = Notes()
    for field in workload.assumed:
        if field != "currency":
            notes.take(field, str(getattr(workload, field)), f"default_{field}")
    if workload.task == "serve" and workload.model and classical_model(workload.model) is not None:
        from rightfit.search.serving_classical import read_classical_service

        return read_classical_service(workload, notes)
    model = facts.model(workload.model)
    if not is_generating(model):
        from rightfit.search.serving_forward import read_forward_wish
        from rightfit.search.serving_load import refuse_laws

        refuse_laws(workload)
        return read_forward_wish(workload, model, notes)
    assert isinstance(model, TransformerArchitecture)
    note_own(model, notes)
    if model.certainty == "typical":
        notes.take("model", model.name, "typical_shape", params=model.params_total)
    from rightfit.search.serving_extras import read_extras
    from rightfit.search.serving_load import mean_lengths, read_load, trace_of

    trace = trace_of(workload)
    prompt, output = token_lengths(workload, model, notes) if trace is None else mean_lengths(trace)
    rate = request_rate(workload, notes, trace=trace)
    extras = read_extras(workload, model, input_tokens=prompt, notes=notes)
    load = read_load(workload, trace, lengths=(prompt, output), rate_per_s=rate, longest=model.max_position or 0, notes=notes)
    return ServingWish(
        workload=workload,
        model=model,
        rate_per_s=rate,
        users=workload.users or 0,
        requests=requests_of(workload, prompt, notes) if workload.task == "batch" else 0.0,
        input_tokens=prompt,
        output_tokens=output,
        limits=token_limits(workload, notes),
        load=None if load is None else dataclasses.replace(load, shared_tokens=extras.shared_tokens),
        extras=extras,
        assumptions=tuple(notes.taken),
    )


def token_lengths(workload: Workload, model: TransformerArchitecture, notes: Notes) -> tuple[int, int]:
    """Prompt and answer length of a request, within the model's limit."""
    chosen = []
    for name in ("input_tokens", "output_tokens"):
        value = getattr(workload, name)
        if value is None:
            value = int(usual()[name])
            notes.take(name, value, f"serve_{name}")
        chosen.append(int(value))
    limit = model.max_position
    if limit and sum(chosen) > limit:
        raise ContradictionError(
            f"input-tokens {chosen[0]} + output-tokens {chosen[1]} is over the limit of {model.name}, which is {limit}; use {limit} or less together",
            field="input_tokens",
        )
    return chosen[0], chosen[1]


def request_rate(workload: Workload, notes: Notes, *, trace: Requests | None = None) -> float:
    """Requests a second that must be served: as given, of the trace's busiest hour, or the peak of the profile."""
    if trace is not None:
        from rightfit.search.serving_load import busiest_rate_per_s

        return busiest_rate_per_s(trace)
    if workload.profile:
        from rightfit.search.serving_load import peak_of

        peak = peak_of(workload)
        if peak is not None:
            return peak
    if workload.task == "batch" or (workload.rate_per_s is None and workload.users):
        return 0.0
    if workload.rate_per_s is None:
        rate = usual()["rate_per_s"]
        notes.take("rate", rate, "serve_rate")
        return float(rate)
    return workload.rate_per_s


def requests_of(workload: Workload, prompt: int, notes: Notes) -> float:
    """Requests of a batch job: samples as they are, tokens cut into prompts."""
    if workload.data_samples is not None and (workload.data_unit or "samples") in ("images", "frames", "hours", "videos", "clips"):
        raise InputError(
            f"data in {workload.data_unit} does not fit a language model; give samples or tokens, for example 100ksamples", field="data"
        )
    if workload.data_samples is not None:
        return workload.data_samples
    tokens = workload.data_tokens
    if tokens is None and workload.data_bytes is not None:
        per_token = facts.coefficients("planning")["bytes_per_token"]
        tokens = workload.data_bytes / per_token
        notes.take("data_tokens", tokens, "tokens_from_bytes", bytes=workload.data_bytes, bytes_per_token=per_token)
    if tokens is None:
        raise InputError("data: how much is there to work through? give --data, for example 100ksamples or 50Mtok", field="data")
    count = max(1.0, tokens / prompt)
    notes.take("requests", count, "serve_requests", tokens=tokens, input_tokens=prompt)
    return count


def token_limits(workload: Workload, notes: Notes) -> Limits:
    """Latency limits: the user's, or usual ones where a service names none."""
    infinity = float("inf")
    given = {name: getattr(workload, f"{name}_s") for name in LATENCIES}
    percentile = (workload.percentile or usual()["percentile"]) / 100.0
    if workload.task == "batch":
        return Limits(infinity, infinity, infinity, percentile)
    if all(value is None for value in given.values()):
        for name in ("ttft", "tpot"):
            given[name] = usual()[f"{name}_s"]
            notes.take(name, given[name], f"serve_{name}")
        usual_percentile = float(usual()["percentile"])
        notes.take("percentile", usual_percentile, "serve_percentile")
    ttft, tpot, latency = (infinity if given[name] is None else float(given[name]) for name in LATENCIES)
    return Limits(ttft, tpot, latency, percentile)
