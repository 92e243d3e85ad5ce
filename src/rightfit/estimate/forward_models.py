"""From the name of a model that does not generate token by token to the work of its stages."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts.records import DiffusionModel, OtherModel, TracedModel, TransformerArchitecture, VisionModel

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


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One part of a model that runs `repeats` times per input. Counts are per input and pass (see physics/forward.py).

    `items` inputs that one request puts into a pass (2 with classifier-free guidance); `loose` how many times the usual number of small
    kernels a layer has where the engine fuses nothing; `pointwise` how many times the element-wise crossings usual for the kind an activation has there.
    """

    kind: str
    macs: float
    activations: float
    weights: float
    layers: float
    score_macs: float = 0.0
    repeats: float = 1.0
    items: float = 1.0
    loose: float = 1.0
    pointwise: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class ForwardWork:
    """Stages of one input, the first of them the main one, and what was assumed.

    `output_bytes` per input are copied to the host when large; `state_elements` per input stay in memory from one stage to the next;
    `pixels` of an image that the host hands over.
    """

    stages: tuple[Stage, ...]
    params: float
    modality: str
    assumptions: tuple[str, ...] = ()
    output_bytes: float = 0.0
    state_elements: float = 0.0
    pixels: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """What a row says about the input: `image` (height, width, frames; 0 = not said), tokens, steps, stated GMACs and activations."""

    model: str
    params: float = 0.0
    height: float = 0.0
    width: float = 0.0
    frames: float = 0.0
    tokens: float = 0.0
    output_tokens: float = 0.0
    memory_tokens: float = 0.0
    steps: float = 0.0
    audio_s: float = 0.0
    beams: float = 1.0
    macs: float = 0.0
    activations: float = 0.0
    language_head: bool = False
    denoise_only: bool = False


@functools.cache
def _patterns(name: str) -> tuple[tuple[re.Pattern[str], Mapping[str, str]], ...]:
    return tuple((re.compile(row["pattern"], re.IGNORECASE), row) for row in facts.table(name))


def first_match(table: str, text: str, *, whole: bool = False) -> Mapping[str, str] | None:
    """The first row of a pattern table that matches `text`."""
    for pattern, row in _patterns(table):
        if pattern.fullmatch(text) if whole else pattern.search(text):
            return row
    return None


@functools.cache
def alias(name: str) -> str:
    """The record that a usual spelling of a model means; the spelling itself when none is known."""
    text = name.strip()
    for pattern, row in _patterns("forward_aliases"):
        if found := pattern.fullmatch(text):
            return found.expand(row["name"])
    return text


def record_of(name: str) -> facts.Model | None:
    """The record that `name` means, bundled or of the user's own, or None."""
    if facts.own_reference(name):
        from rightfit.estimate.traced_work import own_record

        return own_record(name)
    return _bundled_record(name)


@functools.cache
def _bundled_record(name: str) -> facts.Model | None:
    for text in dict.fromkeys((name, alias(name))) if alias(name) == name else (alias(name), name):
        try:
            return facts.model(text, network=False)
        except (RightfitError, RecursionError):
            continue
    return None


def _number(row: Mapping[str, str], column: str, scale: float = 1.0) -> float:
    return float(row[column]) * scale if row.get(column) else 0.0


def forward_work(wish: Wish) -> ForwardWork | None:
    """Stages of the model of `wish`; None when nothing is known that work could be told from."""
    if facts.own_reference(wish.model) and not isinstance(record_of(wish.model), TransformerArchitecture):
        from rightfit.estimate.traced_work import traced_forward

        own = record_of(wish.model)
        return traced_forward(own) if isinstance(own, TracedModel) else None
    if row := first_match("forward_models", wish.model.strip(), whole=True):
        if row["kind"] == "transformer-xl":
            return _transformer_xl(wish, large="large" in wish.model.lower())
        if row["gmacs"]:
            return _listed(wish, row)
        wish = dataclasses.replace(wish, model=row["record"])
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
            from rightfit.estimate.forward_transformers import transformer_work

            return transformer_work(wish, record)
    return _unknown(wish)


def _area_ratio(wish: Wish, side: float) -> float:
    """How many times the pixels of the size that the record's counts are for."""
    if not (wish.height and side):
        return 1.0
    return float(wish.height * (wish.width or wish.height) / side**2)


def _listed(wish: Wish, row: Mapping[str, str]) -> ForwardWork:
    ratio = _area_ratio(wish, _number(row, "image_size"))
    stage = Stage(
        row["kind"],
        _number(row, "gmacs", 1e9) * ratio,
        _number(row, "mactivations", 1e6) * ratio,
        _number(row, "mparams", 1e6),
        _number(row, "layers"),
        score_macs=_number(row, "score_gmacs", 1e9) * ratio,
        repeats=_number(row, "repeats") or 1.0,
    )
    modality = _LISTED_MODALITY.get(row["kind"], "audio" if _SPEECH.search(wish.model) else "vision")
    return ForwardWork((stage,), stage.weights, modality, pixels=_image_pixels(wish, _number(row, "image_size"), modality))


_LISTED_MODALITY = {"recurrent": "audio", "recommender": "other"}
_SPEECH = re.compile(r"wav2vec|hubert|speech|conformer|rnn-?t", re.IGNORECASE)


def _image_pixels(wish: Wish, side: float, modality: str = "vision") -> float:
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


_DEPTH = re.compile(r"(?:resnet|resnetv2_|resnext|resnest|densenet|vgg|res2net|resnetrs|darknet|inception_v)_?(\d{2,3})")
_BLOCKS = {"tiny": 12, "small": 12, "base": 12, "medium": 12, "large": 24, "huge": 32, "giant": 40, "gigantic": 48, "so400m": 27}
_LAYERS_PER_BLOCK = 8.0


def vision_layers(name: str, default: float) -> float:
    """Weighted layers in sequence, from the depth in the name where there is one."""
    short = _short(name)
    if found := _DEPTH.search(short):
        return float(found[1])
    if re.match(r"(vit|deit|beit|eva|dino|clip)", short):
        return next((_LAYERS_PER_BLOCK * blocks for word, blocks in _BLOCKS.items() if word in short), default)
    if found := re.match(r"(?:tf_)?efficientnet_b(\d)", short):
        return float(82.0 * 1.21 ** float(found[1]))
    return default


def _stated(wish: Wish, record: facts.Model | None) -> ForwardWork:
    """Work from the multiply-adds and activations that the row itself states."""
    family = _family(wish.model)
    params = wish.params or float(getattr(record, "params_total", 0.0))
    activations = (wish.activations or wish.macs / float(family["macs_per_activation"])) * float(family["traffic"])
    layers = vision_layers(wish.model, float(family["layers"]))
    stage = Stage(family["kind"], wish.macs, activations, params, layers, pointwise=float(family["pointwise"]))
    return ForwardWork((stage,), params, "vision", pixels=_image_pixels(wish, _USUAL_SIDE))


_USUAL_SIDE = 224.0


def _vision(wish: Wish, record: VisionModel) -> ForwardWork | None:
    family = _family(record.name if record.name.startswith("timm/") else f"{_short(record.name)} {record.task}")
    if not record.macs:
        return _unknown(dataclasses.replace(wish, params=wish.params or float(record.params_total)))
    ratio = _area_ratio(wish, float(record.image_size))
    activations = (record.activations or record.macs / float(family["macs_per_activation"])) * float(family["traffic"])
    layers = vision_layers(record.name, float(family["layers"]))
    pointwise = float(family["pointwise"])
    stage = Stage(family["kind"], record.macs * ratio, activations * ratio, float(record.params_total), layers, pointwise=pointwise)
    return ForwardWork((stage,), float(record.params_total), "vision", pixels=_image_pixels(wish, float(record.image_size)))


def _unknown(wish: Wish) -> ForwardWork | None:
    """A model that only its parameter count describes: the usual arithmetic of its family."""
    if not wish.params:
        return None
    family = _family(wish.model)
    macs = wish.params * 160.0 if family["kind"] != "transformer" else wish.params * max(wish.tokens, 197.0)
    activations = macs / float(family["macs_per_activation"])
    stage = Stage(family["kind"], macs, activations, wish.params, float(family["layers"]))
    return ForwardWork((stage,), wish.params, "vision", ("model not known: arithmetic guessed from its parameters",))


def _pixels(record: DiffusionModel) -> tuple[float, float, float]:
    """Height, width and frames that the record's arithmetic is for."""
    sizes = [float(part) for part in re.findall(r"\d+", record.default_output)]
    if len(sizes) >= 3:
        return sizes[1], sizes[2], sizes[0]
    return (sizes[0], sizes[1], 1.0) if len(sizes) == 2 else (1024.0, 1024.0, 1.0)


_BARE_MACS = 1500.0  # multiply-adds per written activation of a UNet
_CONTROLNET = 1.36  # a ControlNet is a copy of the encoder half of the denoiser
_CONTROLNET_PARAMS = 361e6


def _diffusion(wish: Wish, record: DiffusionModel) -> ForwardWork | None:
    """Denoiser, image decoder and text encoders of one output."""
    row = first_match("forward_denoisers", record.name)
    assert row is not None
    height, width, frames = _pixels(record)
    wanted = (wish.height or height) * (wish.width or wish.height or width) * (wish.frames or frames)
    ratio = wanted / (height * width * frames)
    found = _counted_macs(record, wanted) or _scaled_macs(record, wanted, ratio, float(row["score_share"]))
    if not sum(found):
        return None
    extra = _CONTROLNET if "controlnet" in wish.model.lower() and "controlnet" not in record.denoiser_arch else 1.0
    macs, scores = found[0] * extra, found[1] * extra
    unet = "unet" in record.denoiser_arch
    guidance = float(record.forwards_per_step or 1)
    weights = float(record.denoiser_params) + (_CONTROLNET_PARAMS if extra > 1 else 0.0)
    steps = 1.0 if wish.denoise_only else (wish.steps or float(row["usual_steps"] or record.default_steps or 50))
    activations = macs / (_BARE_MACS if unet else float(row["hidden"]) * 1.3)
    kind = "denoiser" if unet else "dit"
    main = Stage(kind, macs, activations, weights, float(row["layers"]) * extra, scores, repeats=steps, items=guidance)
    params = weights + record.text_encoder_params + record.vae_params + record.image_encoder_params + record.other_params
    assumptions = () if wish.steps or wish.denoise_only else (f"{steps:.0f} denoising steps taken",)
    stages = (main,) if wish.denoise_only else (main, *_decoder(record, ratio))
    return ForwardWork(stages, params, "video" if frames > 1 else "image", assumptions)


def _scaled_macs(record: DiffusionModel, wanted: float, ratio: float, share: float) -> tuple[float, float]:
    """Multiply-adds at a size where one size was counted: products grow with the pixels, attention scores (`share`) with their square."""
    counted = record.forward_flops / 2
    total = counted or _denoiser_macs(record, wanted / ratio)
    return total * (1 - share) * ratio, total * share * ratio**2


@functools.cache
def _counted_sizes(text: str) -> tuple[tuple[float, float], ...]:
    """(pixels x frames, multiply-adds) of every size that was counted, small to large."""
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        size, _, flops = part.partition(":")
        found.append((math.prod(float(side) for side in size.split("x")), float(flops) / 2))
    return tuple(sorted(found))


def _counted_macs(record: DiffusionModel, wanted: float) -> tuple[float, float] | None:
    """Multiply-adds and those of attention scores at `wanted` pixels, from two counted sizes: a n + b n^2 goes through both."""
    sizes = _counted_sizes(record.flops_by_output)
    if len(sizes) < 2:
        return None
    (small, low), (large, high) = sizes[0], sizes[-1]
    square = max(high / large - low / small, 0.0) / (large - small)
    linear = low / small - square * small
    return linear * wanted, square * wanted**2


def _decoder(record: DiffusionModel, ratio: float) -> tuple[Stage, ...]:
    """Image decoder and text encoders: one pass each."""
    macs = record.vae_decode_flops / 2 * ratio
    decode = Stage("denoiser", macs, macs / 1000.0, float(record.vae_params), 60.0)
    text = Stage("transformer", 77.0 * record.text_encoder_params, 77.0 * 2e5, float(record.text_encoder_params), 200.0)
    return (decode, text) if macs else (text,)


def _denoiser_macs(record: DiffusionModel, pixels: float) -> float:
    """Multiply-adds from parameters and tokens where no count is published."""
    return float(record.denoiser_params) * (record.denoiser_tokens or pixels / 256.0)


_PER_SECONDS = re.compile(r"(\d+(?:\.\d+)?) s audio")


def _other(wish: Wish, record: OtherModel) -> ForwardWork | None:
    if not record.forward_flops:
        return _unknown(dataclasses.replace(wish, params=wish.params or float(record.params_total)))
    found = _PER_SECONDS.search(record.flops_unit)
    ratio = (wish.audio_s / float(found[1])) if found and wish.audio_s else 1.0
    macs = record.forward_flops / 2 * ratio
    kind = "recurrent" if "lstm" in record.kind or "rnn" in record.kind else "transformer" if found else "recommender"
    stage = Stage(kind, macs, macs / 800.0, float(record.params_dense or record.params_total), 200.0)
    return ForwardWork((stage,), float(record.params_total), "audio" if found else "other")


def _transformer_xl(wish: Wish, *, large: bool) -> ForwardWork:
    """Transformer-XL of NVIDIA's examples: one segment attends to itself and a memory; relative positions double the score products."""
    layers, hidden, inner, params = (18.0, 1024.0, 4096.0, 257e6) if large else (16.0, 512.0, 2048.0, 192e6)
    length, context = wish.tokens or (128.0 if large else 64.0), wish.memory_tokens or (1600.0 if large else 640.0)
    span = length + context
    per_layer = length * (2 * hidden**2 + 2 * hidden * inner) + span * 3 * hidden**2
    scores = 3 * length * span * hidden
    activations = length * (3 * hidden + inner) + span * 3 * hidden + 3 * length * span * hidden / 64
    stage = Stage("transformer", layers * per_layer, layers * activations, 0.6 * params, layers * 14.0, layers * scores)
    return ForwardWork((stage,), params, "text")
