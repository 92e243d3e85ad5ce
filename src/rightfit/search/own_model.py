"""A model of the user's own in a workload: counted once at the beginning, then known by a name that says its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import ContradictionError, InputError
from rightfit.facts.records import TracedModel
from rightfit.messages import Message
from rightfit.search.honours import by_model

if TYPE_CHECKING:
    from rightfit.facts import Model
    from rightfit.search.notes import Notes
    from rightfit.workload import Workload

_SOURCES = ("traced from ", "header of ")
_TRAINING = ("train", "finetune")


def settle_own_model(workload: Workload) -> Workload:
    """The workload with its own model counted and named with its input; any other workload as it is.

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
