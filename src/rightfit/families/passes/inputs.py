"""What one input of a model of one pass is like: pixels, frames, denoising steps, seconds of sound; each is read or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rightfit.errors import ContradictionError
from rightfit.estimate.forward_records import ForwardWish, ForwardWork
from rightfit.facts.networks import drawn_size, heard_seconds
from rightfit.facts.records import DiffusionModel
from rightfit.messages import Message, contradiction
from rightfit.search.notes import Notes
from rightfit.search.service.wish import usual

if TYPE_CHECKING:
    from rightfit.facts import Model
    from rightfit.workload import Workload

#: Options of an input, and why a model that does not take one refuses it.
_INSTEAD: Mapping[str, Message] = {
    "image_size": Message("contradictions.part_no_images"),
    "frames": Message("contradictions.part_no_videos"),
    "denoise_steps": Message("contradictions.part_no_denoise"),
    "audio_length": Message("contradictions.part_no_sound"),
}


def taken_options(model: Model, work: ForwardWork) -> tuple[str, ...]:
    """The options about an input that a model takes."""
    if isinstance(model, DiffusionModel):
        if heard_seconds(model):
            return ("audio_length", "denoise_steps")
        return ("image_size", "frames", "denoise_steps") if work.modality == "video" else ("image_size", "denoise_steps")
    return {"vision": ("image_size",), "audio": ("audio_length",)}.get(work.modality, ())


def read_inputs(workload: Workload, model: Model, work: ForwardWork, notes: Notes) -> ForwardWish:
    """What the user says of an input; what a model does not take is refused, and what it takes and nobody says is noted where the answer hangs on it."""
    taken = taken_options(model, work)
    given = {name: getattr(workload, f"{name}_s" if name == "audio_length" else name) for name in _INSTEAD}
    for name, value in given.items():
        if value is not None and name not in taken:
            do = Message("contradictions.part_takes", options=", ".join(taken)) if taken else Message("contradictions.part_leave")
            raise ContradictionError(contradiction(name, workload.model, kind="model", why=_INSTEAD[name], do=do), field=name)
    _note_usual(model, work, {name for name in taken if given[name] is None}, notes)
    height, _, width = (workload.image_size or "0").partition("x")
    return ForwardWish(
        model.name,
        height=float(height),
        width=float(width or height),
        frames=float(workload.frames or 0),
        steps=float(workload.denoise_steps or 0),
        audio_s=float(workload.audio_length_s or 0),
    )


def _note_usual(model: Model, work: ForwardWork, unsaid: set[str], notes: Notes) -> None:
    if not isinstance(model, DiffusionModel):
        if "audio_length" in unsaid:
            notes.take("request", float(usual()["audio_window_s"]), "serve_audio_window")
        return
    height, width, frames = drawn_size(model)
    if "image_size" in unsaid:
        notes.take("image_size", f"{height:.0f}x{width:.0f}", "image_size")
    if "frames" in unsaid:
        notes.take("frames", frames, "frames")
    if "denoise_steps" in unsaid:
        notes.take("denoise_steps", work.stages[0].repeats, "denoise_steps")
    if "audio_length" in unsaid:
        notes.take("audio_length_s", heard_seconds(model), "audio_length")


def seconds_of(workload: Workload) -> float:
    """Seconds of sound in a request of a speech model [s]."""
    return workload.audio_length_s or float(usual()["audio_window_s"])
