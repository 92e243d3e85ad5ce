"""From the name of a model that does not generate token by token to the work of its stages."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimate.forward_records import ForwardWish, ForwardWork, Stage
from rightfit.estimate.forward_transformers import transformer_work
from rightfit.estimate.pattern_tables import alias, first_match
from rightfit.estimate.traced_work import own_record, traced_forward
from rightfit.facts.constants import constant_group, constants
from rightfit.facts.records import DiffusionModel, OtherModel, TracedModel, TransformerArchitecture, VisionModel
from rightfit.facts.word_tables import says, shape

_FIGURES = constants("forward_work")

KINDS = (
    "conv",
    "grouped",
    "depthwise",
    "convnext",
    "window",
    "transformer",
    "detection",
    "unet",
    "conv3d",
    "denoiser",
    "dit",
    "recurrent",
    "recommender",
)


def record_of(name: str) -> facts.Model | None:
    """The record that `name` means, bundled or of the user's own, or None."""
    if facts.own_reference(name):
        return own_record(name)
    return _bundled_record(name)


@functools.cache
def _bundled_record(name: str) -> facts.Model | None:
    if found := _named_record(name):
        return found
    plain = _SIDE_AT_END.fullmatch(name.strip())
    other = _named_record(plain["name"]) if plain and _is_side(plain["side"]) else None
    return other if isinstance(other, VisionModel) else None  # "Swin-B-384": the same weights at another size of picture


def _named_record(name: str) -> facts.Model | None:
    for text in dict.fromkeys((name, alias(name))) if alias(name) == name else (alias(name), name):
        try:
            return facts.model(text, network=False)
        except (RightfitError, RecursionError):
            continue
    return None


_SIDE_AT_END = re.compile(r"(?P<name>.*\w)[-_@ ]r?(?P<side>\d{2,4})(px)?", re.IGNORECASE)


_DRAWN = re.compile(r"[-_ ](?P<side>\d{1,4})(?P<kilo>K)?px", re.IGNORECASE)


def _is_side(text: str) -> bool:
    return _FIGURES["smallest_side"] <= float(text) <= _FIGURES["largest_side"]


def sized(wish: ForwardWish) -> ForwardWish:
    """`wish` with the size of picture that a name ends with ("ViT-B/16-384"), where nothing else says one and the number is not of the record's own name."""
    if not wish.height and (drawn := _DRAWN.search(wish.model)) and isinstance(record_of(wish.model), DiffusionModel):
        side = float(drawn["side"]) * (1024.0 if drawn["kilo"] else 1.0)
        return dataclasses.replace(wish, height=side, width=side)
    found = None if wish.height else _SIDE_AT_END.fullmatch(wish.model.strip())
    if found is None or not _is_side(found["side"]) or facts.own_reference(wish.model):
        return wish
    record = record_of(wish.model)
    if not isinstance(record, VisionModel) or found["side"] in record.name:
        return wish
    return dataclasses.replace(wish, height=float(found["side"]), width=float(found["side"]))


def _number(row: Mapping[str, str], column: str, scale: float = 1.0) -> float:
    return float(row[column]) * scale if row.get(column) else 0.0


def forward_work(wish: ForwardWish) -> ForwardWork | None:
    """Stages of the model of `wish`; None when nothing is known that work could be told from."""
    wish = sized(wish)
    if facts.own_reference(wish.model) and not isinstance(record_of(wish.model), TransformerArchitecture):
        own = record_of(wish.model)
        return traced_forward(own) if isinstance(own, TracedModel) else None
    if row := first_match("forward_models", wish.model.strip(), whole=True):
        if row["kind"] == "transformer-xl":
            return _transformer_xl(wish, large="large" in wish.model.lower())
        if row["gmacs"]:
            return _listed(wish, row)
        mean = _number(row, "mean_tokens")  # lengths vary and padding is not computed: a stated length is the longest
        wish = dataclasses.replace(wish, model=row["record"], tokens=min(wish.tokens or mean, mean) if mean else wish.tokens)
    record = record_of(wish.model)
    if wish.macs and not isinstance(record, TransformerArchitecture | DiffusionModel):
        return _stated(wish, record)
    match record:
        case VisionModel():
            return _vision(wish, record)
        case DiffusionModel():
            return _diffusion(wish, record)
        case OtherModel():
            return _other(wish, record)
        case TransformerArchitecture():
            return transformer_work(wish, record)
    return _unknown(wish)


def _area_ratio(wish: ForwardWish, side: float) -> float:
    """How many times the pixels of the size that the record's counts are for."""
    if not (wish.height and side):
        return 1.0
    return float(wish.height * (wish.width or wish.height) / side**2)


def _listed(wish: ForwardWish, row: Mapping[str, str]) -> ForwardWork:
    ratio = _area_ratio(wish, _number(row, "image_size"))
    stage = Stage(
        row["kind"],
        _number(row, "gmacs", 1e9) * ratio,
        _number(row, "mactivations", 1e6) * ratio,
        _number(row, "mparams", 1e6),
        _number(row, "layers"),
        score_macs=_number(row, "score_gmacs", 1e9) * ratio,
        repeats=_number(row, "repeats") or 1.0,
        host=float(_family(wish.model)["host"]),
    )
    modality = _LISTED_MODALITY.get(row["kind"], "audio" if says("forward", "speech_model", wish.model, ignore_case=True) else "vision")
    held = stage.weights or _held_params(wish)
    return ForwardWork((stage,), held, modality, pixels=_image_pixels(wish, _number(row, "image_size"), modality))


def _held_params(wish: ForwardWish) -> float:
    """Parameters that lie in memory where the table gives arithmetic only: embedding tables are held whole and read a row at a time."""
    record = record_of(wish.model)
    return float(record.params_total) if isinstance(record, OtherModel) else 0.0


_LISTED_MODALITY = {"recurrent": "audio", "recommender": "other"}


def _image_pixels(wish: ForwardWish, side: float, modality: str = "vision") -> float:
    """Pixels of one image, where the model takes images."""
    if modality != "vision":
        return 0.0
    height = wish.height or side
    return float(height * (wish.width or height)) if wish.height else side**2


def _short(name: str) -> str:
    return name.rpartition("/")[2].lower()


def _family(name: str) -> Mapping[str, str]:
    row = first_match("forward_families", _short(name))
    assert row is not None  # the last pattern matches everything
    return row


_BLOCKS = constant_group("forward_work", "blocks")
_LAYERS_PER_BLOCK = _FIGURES["layers_per_block"]


def vision_layers(name: str, default: float) -> float:
    """Weighted layers in sequence, from the depth in the name where there is one."""
    short = _short(name)
    if found := shape("forward", r"{depth_before}_?(\d{2,3})").search(short):
        return float(found[1])
    if shape("forward", "{block_model}").match(short):
        return next((_LAYERS_PER_BLOCK * blocks for word, blocks in _BLOCKS.items() if word in short), default)
    if found := re.match(r"(?:tf_)?efficientnet_b(\d)", short):
        return float(_FIGURES["efficientnet_layers"] * _FIGURES["efficientnet_growth"] ** float(found[1]))
    return default


def _stated(wish: ForwardWish, record: facts.Model | None) -> ForwardWork:
    """Work from the multiply-adds and activations that the row itself states."""
    family = _family(wish.model)
    params = wish.params or float(getattr(record, "params_total", 0.0))
    activations = (wish.activations or wish.macs / float(family["macs_per_activation"])) * float(family["traffic"])
    layers = vision_layers(wish.model, float(family["layers"]))
    stage = Stage(family["kind"], wish.macs, activations, params, layers, pointwise=float(family["pointwise"]), host=float(family["host"]))
    return ForwardWork((stage,), params, "vision", pixels=_image_pixels(wish, _USUAL_SIDE))


_USUAL_SIDE = _FIGURES["usual_side"]


def _vision(wish: ForwardWish, record: VisionModel) -> ForwardWork | None:
    family = _family(record.name if record.name.startswith("timm/") else f"{_short(record.name)} {record.task}")
    if not record.macs:
        return _unknown(dataclasses.replace(wish, params=wish.params or float(record.params_total)))
    ratio = _area_ratio(wish, float(record.image_size))
    activations = (record.activations or record.macs / float(family["macs_per_activation"])) * float(family["traffic"])
    layers = vision_layers(record.name, float(family["layers"]))
    pointwise, host = float(family["pointwise"]), float(family["host"])
    stage = Stage(
        family["kind"], record.macs * ratio, activations * ratio, float(record.params_total), layers, pointwise=pointwise, host=host
    )
    return ForwardWork((stage,), float(record.params_total), "vision", pixels=_image_pixels(wish, float(record.image_size)))


def _unknown(wish: ForwardWish) -> ForwardWork | None:
    """A model that only its parameter count describes: the usual arithmetic of its family."""
    if not wish.params:
        return None
    family = _family(wish.model)
    detector = family["kind"] == "detection"
    ratio = _area_ratio(wish, _FIGURES["detector_side"] if detector else _USUAL_SIDE)
    each = _FIGURES["macs_per_param_detector"] if detector else _FIGURES["macs_per_param"]
    macs = wish.params * (each * ratio if family["kind"] != "transformer" else max(wish.tokens, _FIGURES["vit_tokens"]))
    activations = macs / float(family["macs_per_activation"])
    stage = Stage(family["kind"], macs, activations, wish.params, float(family["layers"]), host=float(family["host"]))
    return ForwardWork((stage,), wish.params, "vision", ("model not known: arithmetic guessed from its parameters",))


def drawn_size(record: DiffusionModel) -> tuple[float, float, float]:
    """Height, width and frames that the record's arithmetic is for."""
    sizes = [float(part) for part in re.findall(r"\d+", record.default_output)] if not heard_seconds(record) else []
    if len(sizes) >= 3:
        return sizes[1], sizes[2], sizes[0]
    return (sizes[0], sizes[1], 1.0) if len(sizes) == 2 else (1024.0, 1024.0, 1.0)


_SOUND = re.compile(r"(\d+(?:\.\d+)?) s\b")


def heard_seconds(record: DiffusionModel) -> float:
    """Seconds of sound that the record's arithmetic is for [s]; 0 where the model draws."""
    found = _SOUND.match(record.default_output)
    return float(found[1]) if found else 0.0


_CONTROLNET = _FIGURES["controlnet"]


def _diffusion(wish: ForwardWish, record: DiffusionModel) -> ForwardWork | None:
    """Denoiser, image decoder and text encoders of one output."""
    row = first_match("forward_denoisers", record.name)
    assert row is not None
    height, width, frames = drawn_size(record)
    wanted = (wish.height or height) * (wish.width or wish.height or width) * (wish.frames or frames)
    if (heard := heard_seconds(record)) and wish.audio_s:
        wanted *= wish.audio_s / heard
    ratio = wanted / (height * width * frames)
    found = _counted_macs(record, wanted) or _scaled_macs(record, wanted, ratio, float(row["score_share"]))
    if not sum(found):
        return None
    extra = _CONTROLNET if "controlnet" in wish.model.lower() and "controlnet" not in record.denoiser_arch else 1.0
    macs, scores = found[0] * extra, found[1] * extra
    unet = "unet" in record.denoiser_arch
    guidance = float(record.forwards_per_step or 1)
    weights = float(record.denoiser_params) + (_FIGURES["controlnet_params"] if extra > 1 else 0.0)
    steps = 1.0 if wish.denoise_only else (wish.steps or float(row["usual_steps"] or record.default_steps or _FIGURES["usual_steps"]))
    activations = macs / (_FIGURES["bare_macs"] if unet else float(row["hidden"]) * _FIGURES["block_width_factor"])
    kind = "denoiser" if unet else "dit"
    main = Stage(kind, macs, activations, weights, float(row["layers"]) * extra, scores, repeats=steps, items=guidance)
    params = weights + record.text_encoder_params + record.vae_params + record.image_encoder_params + record.other_params
    assumptions = () if wish.steps or wish.denoise_only else (f"{steps:.0f} denoising steps taken",)
    stages = (main,) if wish.denoise_only else (main, *_decoder(record, ratio))
    return ForwardWork(stages, params, "video" if frames > 1 else "image", assumptions)


def _scaled_macs(record: DiffusionModel, target: float, ratio: float, share: float) -> tuple[float, float]:
    """Multiply-adds at a size where one size was counted: products grow with the pixels, attention scores (`share`) with their square."""
    counted = record.forward_flops / 2
    total = counted or _denoiser_macs(record, target / ratio)
    return total * (1 - share) * ratio, total * share * ratio**2


@functools.cache
def _counted_sizes(text: str) -> tuple[tuple[float, float], ...]:
    """(pixels x frames, multiply-adds) of every size that was counted, small to large."""
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        size, _, flops = part.partition(":")
        found.append((math.prod(float(side) for side in size.split("x")), float(flops) / 2))
    return tuple(sorted(found))


def _counted_macs(record: DiffusionModel, target: float) -> tuple[float, float] | None:
    """Multiply-adds and those of attention scores at `target` pixels, from two counted sizes: a n + b n^2 goes through both."""
    sizes = _counted_sizes(record.flops_by_output)
    if len(sizes) < 2:
        return None
    (small, low), (large, high) = sizes[0], sizes[-1]
    square = max(high / large - low / small, 0.0) / (large - small)
    linear = low / small - square * small
    return linear * target, square * target**2


def _decoder(record: DiffusionModel, ratio: float) -> tuple[Stage, ...]:
    """Image decoder and text encoders: one pass each."""
    macs, tokens = record.vae_decode_flops / 2 * ratio, _FIGURES["clip_tokens"]
    decode = Stage("denoiser", macs, macs / 1000.0, float(record.vae_params), 60.0)
    text = Stage(
        "transformer",
        tokens * record.text_encoder_params,
        tokens * _FIGURES["text_activations"],
        float(record.text_encoder_params),
        _FIGURES["text_layers"],
    )
    return (decode, text) if macs else (text,)


def _denoiser_macs(record: DiffusionModel, pixels: float) -> float:
    """Multiply-adds from parameters and tokens where no count is published."""
    return float(record.denoiser_params) * (record.denoiser_tokens or pixels / _FIGURES["pixels_per_token"])


_PER_SECONDS = re.compile(r"(\d+(?:\.\d+)?) s audio")


def _other(wish: ForwardWish, record: OtherModel) -> ForwardWork | None:
    if not record.forward_flops:
        return _unknown(dataclasses.replace(wish, params=wish.params or float(record.params_total)))
    found = _PER_SECONDS.search(record.flops_unit)
    ratio = (wish.audio_s / float(found[1])) if found and wish.audio_s else 1.0
    macs = record.forward_flops / 2 * ratio
    kind = "recurrent" if "lstm" in record.kind or "rnn" in record.kind else "transformer" if found else "recommender"
    stage = Stage(kind, macs, macs / _FIGURES["other_macs"], float(record.params_dense or record.params_total), _FIGURES["text_layers"])
    return ForwardWork((stage,), float(record.params_total), "audio" if found else "other")


def _transformer_xl(wish: ForwardWish, *, large: bool) -> ForwardWork:
    """Transformer-XL of NVIDIA's examples: one segment attends to itself and a memory; relative positions double the score products."""
    size = constant_group("forward_work", "xl_large" if large else "xl_base")
    layers, hidden, inner, params = (size[name] for name in ("layers", "hidden", "inner", "params"))
    length, context = wish.tokens or size["tokens"], wish.memory_tokens or size["memory"]
    span = length + context
    per_layer = length * (2 * hidden**2 + 2 * hidden * inner) + span * 3 * hidden**2
    scores = 3 * length * span * hidden
    activations = length * (3 * hidden + inner) + span * 3 * hidden + 3 * length * span * hidden / 64
    stage = Stage(
        "transformer",
        layers * per_layer,
        layers * activations,
        _FIGURES["xl_weights"] * params,
        layers * _FIGURES["xl_block_layers"],
        layers * scores,
    )
    return ForwardWork((stage,), params, "text")
