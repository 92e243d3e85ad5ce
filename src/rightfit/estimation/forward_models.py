"""From a model that does not generate token by token to the work of its stages."""

from __future__ import annotations

import dataclasses
import re

from rightfit.estimation.pass_records import ForwardWork, PassInput, Stage, resized, traced_forward
from rightfit.facts.config_classes import does
from rightfit.facts.networks import (
    ListedNetwork,
    counted_seconds,
    counted_sizes,
    denoiser_of,
    drawn_size,
    family_of,
    heard_seconds,
    is_speech_network,
    listed_network,
    nearest_denoiser,
    network_family,
    record_of,
    relative_of,
    side_in_name,
    size_told,
    vision_layers,
)
from rightfit.facts.records import DiffusionModel, Model, OtherModel, TracedModel, TransformerArchitecture, VisionModel
from rightfit.facts.resolve import own_reference
from rightfit.facts.tables import constant_group, constants, says

# ---- Work of encoders, encoder-decoders and speech models from their dimensions.

_FIGURES = constants("forward_work")
_LAYERS_PER_BLOCK = _FIGURES["layers_per_block"]  # weighted products and normalisations of one block
_AUDIO_WINDOW_S = 30.0  # Whisper encodes windows of 30 s into 1,500 positions
_AUDIO_POSITIONS, _SPEECH_TOKENS_PER_S, _DEFAULT_TOKENS = (
    _FIGURES[name] for name in ("audio_positions", "speech_tokens_per_s", "default_tokens")
)


def linear_macs(arch: TransformerArchitecture, *, cross: bool = False) -> float:
    """Multiply-adds of one block per token: projections of attention and the
    feed-forward matrices."""
    head = arch.head_dim or arch.hidden_size // max(arch.num_heads, 1)
    attention = 2 * arch.hidden_size * head * (arch.num_heads + (arch.num_kv_heads or arch.num_heads))
    matrices = 3 if arch.mlp_kind in ("swiglu", "geglu") else 2
    return float(attention * (2 if cross else 1) + matrices * arch.hidden_size * arch.intermediate_size)


def block_activations(arch: TransformerArchitecture) -> float:
    """Elements that the weighted layers of one block write per token."""
    return float(5 * arch.hidden_size + arch.intermediate_size * (2 if arch.mlp_kind in ("swiglu", "geglu") else 1))


def encoder_stage(arch: TransformerArchitecture, tokens: float, blocks: float, *, language_head: bool = False) -> Stage:
    """One pass over `tokens` positions through `blocks` encoder blocks."""
    relative = _FIGURES["deberta_scores"] if "deberta" in _words(arch) else 1.0
    per_token = linear_macs(arch) + (arch.hidden_size**2 * 2 if relative > 1 else 0)
    macs = tokens * blocks * per_token
    if language_head:
        macs += tokens * arch.hidden_size * arch.vocab_size
    scores = relative * 2.0 * tokens**2 * arch.num_heads * (arch.head_dim or arch.hidden_size // max(arch.num_heads, 1)) * blocks
    activations = blocks * tokens * (block_activations(arch) + (relative - 1.0) * arch.num_heads * tokens)
    weights = max(float(arch.params_total - arch.params_embedding), 1e6)
    layers = blocks * _LAYERS_PER_BLOCK * (_FIGURES["deberta_layers"] if relative > 1 else 1.0)
    # Disentangled attention gathers, shifts and re-buckets positions in many small kernels, which
    # only a compiler joins.
    return Stage("transformer", macs, activations, weights, layers, scores, loose=_FIGURES["deberta_loose"] if relative > 1 else 1.0)


def _words(arch: TransformerArchitecture) -> str:
    """What tells the kind of a record: its name, or its type where it was read from a
    configuration."""
    return arch.family.lower() if arch.certainty == "config" else arch.name.lower()


def transformer_work(wish: PassInput, arch: TransformerArchitecture) -> ForwardWork:
    """Stages of a transformer record that is not a decoder."""
    if arch.kind == "encoder-decoder":
        return _sequence_to_sequence(wish, arch)
    if arch.vision_layers and arch.vision_hidden:
        return _two_towers(wish, arch)
    tokens = wish.tokens or _DEFAULT_TOKENS
    stage = encoder_stage(arch, tokens, float(arch.num_layers), language_head=wish.language_head)
    assumptions = () if wish.tokens else (f"{_DEFAULT_TOKENS:.0f} tokens an input taken",)
    logits = _FIGURES["head_logits"] * tokens * arch.vocab_size if wish.language_head else 0.0
    return ForwardWork((stage,), float(arch.params_total), "text", assumptions, logits)


def _two_towers(wish: PassInput, arch: TransformerArchitecture) -> ForwardWork:
    """An image tower beside the text tower (CLIP): images only pass through the first."""
    side = wish.height or arch.vision_image_size or _FIGURES["usual_side"]
    tokens = (side / (arch.vision_patch or 16)) ** 2 + 1
    hidden, blocks = float(arch.vision_hidden), float(arch.vision_layers)
    macs = blocks * tokens * 12 * hidden**2
    scores = blocks * 2 * tokens**2 * hidden
    weights = float(arch.params_vision or blocks * 12 * hidden**2)
    image = Stage("transformer", macs, blocks * tokens * 9 * hidden, weights, blocks * _LAYERS_PER_BLOCK, scores)
    text = encoder_stage(arch, wish.tokens or _FIGURES["clip_tokens"], float(arch.num_layers))
    return ForwardWork((image, text), float(arch.params_total), "vision")


def _sequence_to_sequence(wish: PassInput, arch: TransformerArchitecture) -> ForwardWork:
    """Encoder over the input, then one decoder pass per output token."""
    encoder = float(arch.num_encoder_layers or arch.num_layers / 2)
    decoder = float(arch.num_decoder_layers or arch.num_layers / 2)
    speech = "whisper" in _words(arch) or (arch.certainty == "config" and does(arch.family, "speech"))
    windows, tokens, produced = 1.0, wish.tokens or _DEFAULT_TOKENS, wish.output_tokens
    if speech:
        seconds = wish.audio_s or _AUDIO_WINDOW_S
        windows, tokens = max(seconds / _AUDIO_WINDOW_S, 1.0), _AUDIO_POSITIONS
        produced = produced or seconds * _SPEECH_TOKENS_PER_S
    encode = encoder_stage(arch, tokens, encoder)
    cross = float(linear_macs(arch, cross=True))
    share = encoder * linear_macs(arch) / max(encoder * linear_macs(arch) + decoder * cross, 1.0)
    body = max(float(arch.params_total - arch.params_embedding), 1e6)
    first = Stage(encode.kind, encode.macs, encode.activations, body * share, encode.layers, encode.score_macs, repeats=windows)
    macs = decoder * cross + arch.hidden_size * arch.vocab_size
    weights = body * (1 - share) + arch.hidden_size * arch.vocab_size
    # Each step also reads the keys and values of the encoder's positions: counted as
    # weights of the step.
    state = 2.0 * decoder * tokens * arch.hidden_size
    weights += state
    step = Stage(
        "decode",
        macs,
        decoder * block_activations(arch),
        weights,
        decoder * _FIGURES["decoder_block_layers"],
        repeats=produced or 0.0,
        items=wish.beams,
    )
    stages = (first, step) if produced else (first,)
    return ForwardWork(stages, float(arch.params_total), "audio" if speech else "text", state_elements=state)


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


def forward_work(wish: PassInput) -> ForwardWork | None:
    """Stages of the model of `wish`; None when nothing is known that work could be told from."""
    if not wish.height and (side := side_in_name(wish.model)):
        wish = dataclasses.replace(wish, height=side, width=side)
    if own_reference(wish.model) and not isinstance(record_of(wish.model), TransformerArchitecture):
        own = record_of(wish.model)
        return traced_forward(own) if isinstance(own, TracedModel) else None
    if listed := listed_network(wish.model):
        if listed.kind == "transformer-xl":
            return _transformer_xl(wish, large="large" in wish.model.lower())
        if listed.macs:
            return _listed(wish, listed)
        mean = listed.mean_tokens  # lengths vary and padding is not computed: a stated length is the longest
        if mean and wish.tokens > mean:
            found = forward_work(dataclasses.replace(wish, model=listed.record, tokens=mean))
            said = f"lengths of this benchmark vary: {mean:.0f} tokens taken of {wish.tokens:.0f} at most"
            return found and dataclasses.replace(found, assumptions=(said, *found.assumptions))
        wish = dataclasses.replace(wish, model=listed.record, tokens=wish.tokens or mean)
    record = record_of(wish.model)
    if wish.macs and not isinstance(record, TransformerArchitecture | DiffusionModel):
        return _stated(wish, record)
    match record:
        case VisionModel():
            return _vision(wish, record)
        case DiffusionModel():
            return _drawn(wish, record)
        case OtherModel():
            return _other(wish, record)
        case TransformerArchitecture():
            return transformer_work(wish, record)
        case TracedModel():
            return traced_forward(resized(record, wish.height, wish.width))
    if wish.is_drawn or wish.steps or wish.frames > 1:
        params = wish.params or size_told(wish.model)
        return (
            _drawn(
                dataclasses.replace(wish, params=params),
                nearest_denoiser(params, moving=wish.frames > 1 or says("forward", "moving", wish.model, ignore_case=True)),
            )
            if params
            else None
        )
    return _unknown(wish)


def _area_ratio(wish: PassInput, side: float) -> float:
    """How many times the pixels of the size that the record's counts are for."""
    if not (wish.height and side):
        return 1.0
    return float(wish.height * (wish.width or wish.height) / side**2)


def _listed(wish: PassInput, listed: ListedNetwork) -> ForwardWork:
    heard = wish.audio_s / listed.audio_s if listed.audio_s and wish.audio_s else 1.0
    ratio = _area_ratio(wish, listed.image_size) * heard
    stage = Stage(
        listed.kind,
        listed.macs * ratio,
        listed.activations * ratio,
        listed.params,
        listed.layers,
        score_macs=listed.score_macs * ratio,
        repeats=listed.repeats,
        host=network_family(wish.model).host,
    )
    modality = _LISTED_MODALITY.get(listed.kind, "audio" if is_speech_network(wish.model) else "vision")
    held = stage.weights or _held_params(wish)
    return ForwardWork((stage,), held, modality, pixels=_image_pixels(wish, listed.image_size, modality))


def _held_params(wish: PassInput) -> float:
    """Parameters that lie in memory where the table gives arithmetic only: embedding tables are
    held whole and read a row at a time."""
    record = record_of(wish.model)
    return float(record.params_total) if isinstance(record, OtherModel) else 0.0


_LISTED_MODALITY = {"recurrent": "audio", "recommender": "other"}


def _image_pixels(wish: PassInput, side: float, modality: str = "vision") -> float:
    """Pixels of one image, where the model takes images."""
    if modality != "vision":
        return 0.0
    height = wish.height or side
    return float(height * (wish.width or height)) if wish.height else side**2


def _stated(wish: PassInput, record: Model | None) -> ForwardWork:
    """Work from the multiply-adds and activations that the row itself states."""
    family = network_family(wish.model)
    params = wish.params or float(getattr(record, "params_total", 0.0))
    activations = (wish.activations or wish.macs / family.macs_per_activation) * family.traffic
    layers = vision_layers(wish.model, family.layers)
    stage = Stage(family.kind, wish.macs, activations, params, layers, pointwise=family.pointwise, host=family.host)
    return ForwardWork((stage,), params, "vision", pixels=_image_pixels(wish, _USUAL_SIDE))


_USUAL_SIDE = _FIGURES["usual_side"]


def _vision(wish: PassInput, record: VisionModel) -> ForwardWork | None:
    family = family_of(record)
    if not record.macs:
        return _unknown(dataclasses.replace(wish, params=wish.params or float(record.params_total)))
    ratio = _area_ratio(wish, float(record.image_size))
    activations = (record.activations or record.macs / family.macs_per_activation) * family.traffic
    layers = vision_layers(record.name, family.layers)
    stage = Stage(
        family.kind,
        record.macs * ratio,
        activations * ratio,
        float(record.params_total),
        layers,
        pointwise=family.pointwise,
        host=family.host,
    )
    return ForwardWork((stage,), float(record.params_total), "vision", pixels=_image_pixels(wish, float(record.image_size)))


def _unknown(wish: PassInput) -> ForwardWork | None:
    """A model that only its parameter count describes: the usual arithmetic of its family, of a
    text where only tokens are told."""
    if not wish.params:
        return None
    if (wish.tokens or wish.audio_s) and not wish.height:
        return _unknown_sequence(wish)
    family = network_family(wish.model)
    detector = family.kind == "detection"
    ratio = _area_ratio(wish, _FIGURES["detector_side"] if detector else _USUAL_SIDE)
    each = _FIGURES["macs_per_param_detector"] if detector else _FIGURES["macs_per_param"]
    macs = wish.params * (each * ratio if family.kind != "transformer" else max(wish.tokens, _FIGURES["vit_tokens"]))
    stage = Stage(family.kind, macs, macs / family.macs_per_activation, wish.params, family.layers, host=family.host)
    return ForwardWork((stage,), wish.params, "vision", ("model not known: arithmetic guessed from its parameters",), is_guessed=True)


def _unknown_sequence(wish: PassInput) -> ForwardWork:
    """An encoder of text or sound that only its parameters describe: each is multiplied with once a
    token, or once a position of the sound."""
    tokens = wish.tokens or wish.audio_s * _AUDIO_POSITIONS / _AUDIO_WINDOW_S
    stage = Stage("transformer", wish.params * tokens, tokens * _FIGURES["text_activations"], wish.params, _FIGURES["text_layers"])
    told = ("model not known: arithmetic of an encoder with its parameters taken",)
    modality = "text" if wish.tokens else "audio"
    return ForwardWork((stage,), wish.params, modality, told, is_guessed=True, doubt=_FIGURES["sized_doubt"])


def _drawn(wish: PassInput, record: DiffusionModel) -> ForwardWork | None:
    """Work of a denoiser, or of the nearest relative: scaled by parameters that are told, and said
    with its doubt."""
    work = _diffusion(wish, record)
    near = relative_of(wish.model, record, wish.params)
    unknown = record_of(wish.model) is None
    if work is None or not (near.is_other or unknown):
        return work
    ratio = near.ratio if near.is_other else wish.params / record.denoiser_params
    stages = tuple(_scaled(stage, ratio) for stage in work.stages)
    size = f", scaled to {ratio * record.denoiser_params / 1e9:.3g}B parameters" if near.is_sized else ""
    said = f"model {wish.model[:60]!r} not known: the nearest relative {record.name} taken{size}"
    doubt = _FIGURES["sized_doubt" if near.is_sized else "relative_doubt"]
    return dataclasses.replace(
        work,
        stages=stages,
        params=work.params * ratio,
        assumptions=(said, *work.assumptions),
        wide_params=work.wide_params * ratio,
        doubt=doubt,
    )


def _scaled(stage: Stage, ratio: float) -> Stage:
    """A stage of a model with `ratio` times the parameters: wider by the root of what
    it is larger."""
    grown = {name: getattr(stage, name) * ratio for name in ("macs", "weights")}
    return dataclasses.replace(stage, **grown, score_macs=stage.score_macs * ratio**0.5, activations=stage.activations * ratio**0.5)


_CONTROLNET = _FIGURES["controlnet"]
_EXPERTS = re.compile(r"\b2 experts by noise")


def _diffusion(wish: PassInput, record: DiffusionModel) -> ForwardWork | None:
    """Denoiser, image decoder and text encoders of one output."""
    denoiser = denoiser_of(record.name)
    height, width, frames = drawn_size(record)
    wanted = (wish.height or height) * (wish.width or wish.height or width) * (wish.frames or frames)
    if (heard := heard_seconds(record)) and wish.audio_s:
        wanted *= wish.audio_s / heard
    ratio = wanted / (height * width * frames)
    found = _counted_macs(record, wanted) or _scaled_macs(record, wanted, ratio, denoiser.score_share)
    if not sum(found):
        return None
    extra = _CONTROLNET if "controlnet" in wish.model.lower() and "controlnet" not in record.denoiser_arch else 1.0
    macs, scores = found[0] * extra, found[1] * extra
    unet = "unet" in record.denoiser_arch
    guidance = float(record.forwards_per_step or 1)
    weights = float(record.denoiser_params) / (2.0 if rests(record) else 1.0) + (_FIGURES["controlnet_params"] if extra > 1 else 0.0)
    steps = 1.0 if wish.denoise_only else (wish.steps or float(denoiser.usual_steps or record.default_steps or _FIGURES["usual_steps"]))
    activations = macs / (_FIGURES["bare_macs"] if unet else denoiser.hidden * _FIGURES["block_width_factor"])
    kind = "denoiser" if unet else "dit"
    main = Stage(kind, macs, activations, weights, denoiser.layers * extra, scores, repeats=steps, items=guidance)
    params = weights + record.text_encoder_params + record.vae_params + record.image_encoder_params + record.other_params
    assumptions = () if wish.steps or wish.denoise_only else (f"{steps:.0f} denoising steps taken",)
    stages = (main,) if wish.denoise_only else (main, *_decoder(record, ratio))
    at_once = _FIGURES["decoded_frames_cogvideox" if "cogvideox" in record.name.lower() else "decoded_frames"]
    pixels = wanted / (wish.frames or frames) * min(wish.frames or frames, at_once)
    each = _FIGURES["decode_elements_video" if frames > 1 else "decode_elements"]
    drawn = 0.0 if heard or wish.denoise_only else pixels * each
    modality = "video" if frames > 1 else "image"
    return ForwardWork(stages, params, modality, assumptions, decode_elements=drawn, wide_params=params - weights)


def rests(record: DiffusionModel) -> bool:
    """Whether a denoiser is two experts, of which one works at each noise level while the other
    waits in RAM, as its makers run it on one GPU (Wan-Video/Wan2.2 README: offload_model)."""
    return bool(_EXPERTS.search(record.denoiser_arch))


def _scaled_macs(record: DiffusionModel, target: float, ratio: float, share: float) -> tuple[float, float]:
    """Multiply-adds at a size where one size was counted: products grow with the pixels, attention
    scores (`share`) with their square."""
    counted = record.forward_flops / 2
    total = counted or _denoiser_macs(record, target / ratio)
    return total * (1 - share) * ratio, total * share * ratio**2


def _counted_macs(record: DiffusionModel, target: float) -> tuple[float, float] | None:
    """Multiply-adds and those of attention scores at `target` pixels, from two counted sizes: a n +
    b n^2 goes through both."""
    sizes = counted_sizes(record.flops_by_output)
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


def _usual_input(record: OtherModel) -> tuple[float, float]:
    """Tokens and seconds of sound: what a model whose arithmetic nobody counted takes in: sound,
    tokens, or nothing that its record tells."""
    if record.task.startswith("asr") or is_speech_network(f"{record.name} {record.task}"):
        return 0.0, _AUDIO_WINDOW_S
    return (_DEFAULT_TOKENS if record.task.endswith("language-model") and record.kind == "encoder" else 0.0), 0.0


def _other(wish: PassInput, record: OtherModel) -> ForwardWork | None:
    if not record.forward_flops and record.params_dense and record.kind.startswith("embedding"):
        macs = float(record.params_dense)  # a row of a click model goes through each dense weight once
        stage = Stage("recommender", macs, macs / _FIGURES["other_macs"], macs, _FIGURES["text_layers"])
        return ForwardWork((stage,), float(record.params_total), "other")
    if not record.forward_flops:
        sized = dataclasses.replace(wish, params=wish.params or float(record.params_total))
        if not (wish.tokens or wish.audio_s or wish.height):
            tokens, audio_s = _usual_input(record)
            sized = dataclasses.replace(sized, tokens=tokens, audio_s=audio_s)
        return _unknown(sized)
    heard = counted_seconds(record)
    ratio = (wish.audio_s / heard) if heard and wish.audio_s else 1.0
    macs = record.forward_flops / 2 * ratio
    kind = "recurrent" if "lstm" in record.kind or "rnn" in record.kind else "transformer" if heard else "recommender"
    stage = Stage(kind, macs, macs / _FIGURES["other_macs"], float(record.params_dense or record.params_total), _FIGURES["text_layers"])
    return ForwardWork((stage,), float(record.params_total), "audio" if heard else "other")


def _transformer_xl(wish: PassInput, *, large: bool) -> ForwardWork:
    """Transformer-XL of NVIDIA's examples: one segment attends to itself and a memory; relative
    positions double the score products."""
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
