"""Every option of a wish is honoured or refused: the frame refuses, in one line each, those that a
kind of work does not take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import ContradictionError, InputError
from rightfit.facts.records import DiffusionModel, TracedModel, TransformerArchitecture
from rightfit.messages import Message, contradiction, of_kind
from rightfit.records import dataclass
from rightfit.search.answer import Assumption, Reason
from rightfit.workload.options import OPTIONS, raise_problems

if TYPE_CHECKING:
    from rightfit.facts import Model
    from rightfit.workload import Workload


#: What every kind of work takes: the frame reads it, or the workload's own rules have refused it
#: where it makes no sense (a deadline of a service). input_shape is settled, and refused where it
#: says nothing, before any family sees the wish (rightfit.search.request_checks).
OF_ALL = frozenset({"model", "task", "deadline", "budget", "confidence", "objective", "currency", "input_shape"})
#: Filters of the market, and ways to pay.
OF_MARKET = frozenset(
    {"cloud", "region", "country", "residency", "sellers", "quota", "purchase", "gpu", "avoid", "num_gpus", "max_nodes", "office_hours"}
)
#: Words that ask for nothing: they hold where there is nothing to do without.
ASKS_NOTHING: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "method": ("full",),
        "quantization": ("none",),
        "recompute": ("none",),
        "sharding": ("none",),
        "offload": ("none",),
        "fleet": ("single",),
        "tensor_parallel": (1,),
        "pipeline_parallel": (1,),
    }
)
#: What the options are for that only some kinds of work take, by key of the purposes
#: among the messages.
PURPOSES = MappingProxyType({option.name: option.purpose for option in OPTIONS.values() if option.purpose})


def by_model(workload: Workload) -> Message:
    """The model, or the task where none was named."""
    return of_kind("model", workload.model) if workload.model else by_task(workload)


def by_task(workload: Workload) -> Message:
    """The task."""
    return of_kind("task", workload.task)


def leave_out(purpose: str) -> Message:
    """What an option is for, by key of the purposes among the messages, so that it
    is to be left out."""
    return Message("contradictions.and_leave", why=Message(f"purposes.{purpose}"))


@dataclass(frozen=True, slots=True)
class Honours:
    """The options that a kind of work takes, beside those of all kinds.

    `because`: of options that it does not take, why and what to do, where that says more than what
    they are for. `against`: what an option that is not taken contradicts.
    """

    options: frozenset[str]
    because: Mapping[str, Message] = dataclasses.field(default_factory=dict)
    against: Callable[[Workload], Message] = by_model
    of_all: frozenset[str] = OF_ALL | OF_MARKET

    def taken(self) -> frozenset[str]:
        """Every option that is honoured."""
        return self.of_all | self.options


def refuse_unheeded(workload: Workload, honours: Honours) -> None:
    """Raise for every option that the user gave and that this kind of work would not read."""
    taken = honours.taken()
    raise_problems(
        [_refusal(workload, honours, name) for name, value in workload.wishes().items() if name not in taken and _asks(name, value)]
    )


def _asks(name: str, value: Any) -> bool:
    return value not in ASKS_NOTHING.get(name, ())


def _refusal(workload: Workload, honours: Honours, name: str) -> InputError:
    reason = honours.because.get(name) or leave_out(PURPOSES[name])
    return ContradictionError(contradiction(name, honours.against(workload), why=reason), field=name)


# ---- The defaults that are taken while a wish is read, in the order in which they were taken.


class Notes:
    """Collects the defaults that are taken while a workload is read."""

    def __init__(self) -> None:
        self.taken: list[Assumption] = []

    def take(self, field: str, value: float | str, key: str, **params: object) -> None:
        """Record a default."""
        self.taken.append(Assumption(field, value, Reason(f"assumed_{key}", {"value": value, **params})))


# ---- A model of the user's own in a workload: counted once at the beginning, then known by a name
# that says its input.

_SOURCES = ("traced from ", "header of ")
_TRAINING = ("train", "finetune")


def settle_own_model(workload: Workload) -> Workload:
    """The workload with its own model counted and named with its input; any other
    workload as it is.

    `module:function` runs the user's code here, and nowhere else.
    """
    if not workload.model or not facts.own_reference(workload.model):
        if workload.input_shape:
            raise ContradictionError(
                Message("search.input_shape", other=by_model(workload)),
                field="input_shape",
            )
        return workload
    record, text = _counted(workload)
    if isinstance(record, TracedModel) and not record.kind:
        from rightfit.facts.own.safetensors_file import missing_text

        raise InputError(missing_text(record), field="model")
    if not isinstance(record, TracedModel):
        return workload.settled(model=text if _is_function(text) else workload.model, input_shape=None)
    changes: dict[str, Any] = {"model": text, "seq_len": None}
    if workload.task in _TRAINING:
        changes |= _input_options(record)
    return workload.settled(**changes)


def _counted(workload: Workload) -> tuple[Model, str]:
    """The record, and the text that means it from now on."""
    from rightfit.facts.own.models import run_function
    from rightfit.facts.own.reference import with_input

    if not _is_function(workload.model) and not workload.model.split("[")[0].strip().casefold().endswith(".onnx"):
        return facts.model(workload.model, network=False), workload.model  # tensors alone: no input is asked for
    text = with_input(
        workload.model, input_shape=workload.input_shape or "", image_size=workload.image_size or "", seq_len=workload.seq_len
    )
    return (run_function(text) if _is_function(text) else facts.model(text, network=False)), text


def _is_function(text: str) -> bool:
    from rightfit.facts.own.reference import parse

    found = parse(text)
    return found is not None and found.kind == "function"


def _input_options(record: TracedModel) -> dict[str, Any]:
    """The options that describe a sample, from the input that was counted."""
    sides = [int(side) for side in record.input_shape.split("x") if side]
    if record.modality not in ("vision", "video"):
        return {"image_size": None}
    height, width = (sides[0], sides[1]) if len(sides) == 3 and sides[2] <= 4 < sides[0] else (sides[-2], sides[-1])
    return {"image_size": f"{height}x{width}"} | ({"frames": sides[1]} if record.modality == "video" else {})


def note_own(model: object, notes: Notes) -> None:
    """Say where the figures of a model of one's own come from."""
    source = str(getattr(model, "source", ""))
    where = next((source.removeprefix(words) for words in _SOURCES if source.startswith(words)), "")
    if isinstance(model, TracedModel):
        gmacs = (model.macs + model.score_macs) / 1e9
        notes.take("model", where, "traced", kind=model.kind, params=float(model.params_total), gmacs=gmacs, input=model.input_shape)
    elif where:
        notes.take("model", where, "traced_language", params=float(getattr(model, "params_total", 0)))
    elif isinstance(model, TransformerArchitecture) and model.certainty == "typical":
        if model.num_experts:
            notes.take(
                "model", model.name, "typical_mixture", like=source, params=float(model.params_total), active=float(model.params_active)
            )
        else:
            notes.take("model", model.name, "typical_shape", params=model.params_total)
    _note_guesses(model, source, notes)


def _note_guesses(model: object, source: str, notes: Notes) -> None:
    """Say what of a record was read by guess: a relative's shape, keys that the file leaves out."""
    if isinstance(model, TransformerArchitecture) and model.certainty == "config":
        if model.notes:
            state, counted = "keep a state" in model.notes, "; counted as " in model.notes
            key = "config_state" if state else "config_counted" if counted else "config_relative"
            notes.take("model", model.family or "?", key, params=float(model.params_total))
        if model.fields_without_source:
            notes.take("model", model.fields_without_source, "config_defaults")
    elif isinstance(model, DiffusionModel) and ", read as " in source:
        notes.take("model", source.rpartition(", read as ")[2], "config_pipeline")
