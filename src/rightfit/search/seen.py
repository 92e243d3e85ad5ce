"""What a request or a sample holds beside its text: images, frames of a video, a recording, as
tokens of the language model and work of the vision tower."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.errors import ContradictionError
from rightfit.facts.image_tokens import ImageRule, image_rule
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.search.request_checks import Notes

if TYPE_CHECKING:
    from rightfit.workload import Workload

PICTURES = ("images", "image_size", "frames")
OPTIONS = (*PICTURES, "audio_length")


@dataclass(frozen=True, slots=True)
class Seen:
    """`tokens` of a prompt that are no text; `images` that pass the tower, each of `patches`."""

    tokens: int = 0
    images: float = 0.0
    patches: float = 0.0


def read_seen(workload: Workload, model: TransformerArchitecture, notes: Notes) -> Seen:
    """What the workload says of images and sound; raises what the model does not take."""
    given = {name: getattr(workload, f"{name}_s" if name == "audio_length" else name) for name in OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    rule = image_rule(model)
    if not given:
        return _one_each(workload, rule, notes)
    for name in given:
        _refuse(name, workload, rule)
    assert rule is not None
    for name in ("trace", "input_law"):
        if getattr(workload, name):
            _against_lengths(next(iter(given)), name.removesuffix("_law") + ("_tokens" if name == "input_law" else ""))
    sound = _sound_tokens(workload, rule, notes)
    if not set(PICTURES) & set(given):
        return Seen(tokens=sound)
    return _images(workload, rule, notes, sound)


def read_pictures(workload: Workload, model: TransformerArchitecture, notes: Notes) -> Seen:
    """What a sample of fine-tuning holds beside its text: the images that are told; one in each
    sample where a model that sees learns from samples and nothing is said of them."""
    rule = image_rule(model)
    given = any(getattr(workload, name) is not None for name in PICTURES)
    if given:
        for name in PICTURES:
            if getattr(workload, name) is not None:
                _refuse(name, workload, rule)
    elif not (model.kind == "vlm" and rule and rule.takes_images and workload.data_samples is not None and workload.seq_len is None):
        return Seen()
    assert rule is not None
    return _images(workload, rule, notes, 0)


def _one_each(workload: Workload, rule: ImageRule | None, notes: Notes) -> Seen:
    """One image in each request of a batch job over images, unless the prompt that was stated is
    long enough to hold it."""
    if workload.task != "batch" or workload.data_unit != "images" or rule is None or not rule.takes_images:
        return Seen()
    pictured = workload.settled(images=1, assumed=(*workload.assumed, "images"))
    seen = _images(pictured, rule, Notes(), 0)
    if workload.input_tokens is not None and workload.input_tokens >= seen.tokens:
        return Seen()
    return _images(pictured, rule, notes, 0)


def _refuse(name: str, workload: Workload, rule: ImageRule | None) -> None:
    if name == "audio_length":
        if rule is None or not rule.audio_tokens_per_s:
            raise ContradictionError(Message("families.hears_no_sound", model=workload.model), field=name)
    elif rule is None or not rule.takes_images:
        raise ContradictionError(
            Message("families.sees_no_images", option=name, model=workload.model, other="Qwen/Qwen2.5-VL-7B-Instruct"),
            field=name,
        )


def _against_lengths(name: str, other: str) -> None:
    raise ContradictionError(Message("families.images_in_lengths", option=name, other=other), field=name)


def _sound_tokens(workload: Workload, rule: ImageRule, notes: Notes) -> int:
    if workload.audio_length_s is None:
        return 0
    tokens = math.ceil(workload.audio_length_s * rule.audio_tokens_per_s)
    notes.take("audio_tokens", tokens, "audio_tokens", seconds=workload.audio_length_s, each=rule.audio_tokens_per_s, source=rule.source)
    return tokens


def _images(workload: Workload, rule: ImageRule, notes: Notes, sound: int) -> Seen:
    side = float(facts.coefficients("serving_planning")["image_side"])
    height, width = sides_of(workload.image_size) if workload.image_size else (side, side)
    if not workload.image_size:
        notes.take("image_size", f"{side:.0f}x{side:.0f}", "usual_image_size")
    one = rule.size_of(height, width)
    count = float((workload.images or 0) + math.ceil((workload.frames or 0) / rule.frames_together)) or 1.0
    tokens = math.ceil(count * one.tokens)
    key = "image_tokens" if rule.is_known else "image_tokens_guessed"
    notes.take("image_tokens", tokens, key, images=count, each=one.tokens, size=f"{height:.0f}x{width:.0f}", source=rule.source)
    return Seen(tokens + sound, count, one.patches)


def sides_of(text: str) -> tuple[float, float]:
    """Height and width of "512" or "512x768" [pixels]."""
    first, _, second = text.partition("x")
    return float(first), float(second or first)
