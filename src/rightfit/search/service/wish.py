"""From a serving workload to numbers: the load, the lengths, the latency limits, and every default that was taken."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.estimate.forward_records import ForwardWish
from rightfit.estimate.serving_extras import ServingExtras
from rightfit.facts.classical import classical_model
from rightfit.facts.image_tokens import has_two_towers
from rightfit.facts.quantized import stated_quantization
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.resolve import hub_repository, resolve_offline
from rightfit.records import dataclass
from rightfit.search.answer import Assumption
from rightfit.search.notes import Notes

if TYPE_CHECKING:
    from rightfit.search.service.load import ServingLoad
    from rightfit.workload import Workload

LATENCIES = ("ttft", "tpot", "latency")
_GENERATING = ("decoder", "moe-decoder", "vlm")


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits of latencies [s] at a percentile (0-1); infinity where there is none."""

    ttft_s: float
    tpot_s: float
    latency_s: float
    percentile: float


@dataclass(frozen=True, slots=True)
class ServingWish:
    """What the serving search needs to know of a workload.

    `rate_per_s` requests a second (0 where only users were given), `users` with a request in flight at the same time, `requests` of a batch
    job in all (0 for a service). `input_tokens`, `output_tokens` of one request in the mean; both 0 for models that do not generate text.
    `load`: laws of
    lengths, trace and profile of a service that generates text. `modality`: kind of input of a model that does not (image, audio, text,
    table). `one_input`: what one input of it is like (pixels, frames, denoising steps, seconds of sound).
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
    one_input: ForwardWish | None = None
    extras: ServingExtras = dataclasses.field(default_factory=ServingExtras)

    @property
    def published_name(self) -> str:
        """What tells in which format the weights are published: the name asked for, what its configuration states, the model's own name."""
        asked = self.workload.model or ""
        return f"{asked} {stated_quantization(asked)} {getattr(self.model, 'name', '')}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names by which the model's class is known to engines: the repository asked for, and that of its record; none for a model of one's own."""
        record = str(getattr(self.model, "name", ""))
        asked = hub_repository(self.workload.model or "", resolve_offline(self.workload.model or ""))
        return tuple(dict.fromkeys(name for name in (asked, record) if "/" in name))

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
    return isinstance(model, TransformerArchitecture) and model.kind in _GENERATING and not has_two_towers(model)


def usual() -> Any:
    """Defaults and margins of serving plans."""
    return facts.coefficients("serving_planning")


def start_notes(workload: Workload) -> Notes:
    """Notes that begin with what the workload itself took for granted."""
    notes = Notes()
    for field in workload.assumed:
        if field != "currency":
            notes.take(field, str(getattr(workload, field)), f"default_{field}")
    return notes
