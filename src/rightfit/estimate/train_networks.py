"""Work of denoisers, and of detectors and segmenters put together from the parts that their names spell out."""

from __future__ import annotations

import dataclasses

from rightfit.estimate.forward_models import forward_work
from rightfit.estimate.forward_records import ForwardWish
from rightfit.estimate.model_work import KEPT, ModelWork, TrainWish, mean_and_peak_pixels
from rightfit.estimate.vision_parts import VisionPart, backbone
from rightfit.facts.constants import constant_group, constants
from rightfit.facts.networks import record_of
from rightfit.facts.records import DiffusionModel
from rightfit.facts.trained_networks import (
    TrainedDenoiser,
    VisionHead,
    data_set_samples,
    has_digits,
    output_frames,
    output_sizes,
    trained_denoiser,
    vision_head,
    vision_recipe,
)

_FIGURES = constants("training_work")
#: Elements that one block of a diffusion transformer keeps per token, in units of its width: two normalised and modulated copies, queries,
#: keys,
#: values (normalised and rotated), attention output, gates, both halves of a fourfold feed-forward part with its activation.
_DIT_KEPT = _FIGURES["dit_kept"]
_CLASSES = constant_group("training_work", "classes")


def _is_diffusion(wish: TrainWish) -> bool:
    return "diffusion" in wish.task or "text_to" in wish.task or wish.task in ("", "finetune", "video_generation", "audio_generation")


def denoiser_work(wish: TrainWish) -> ModelWork | None:
    name = wish.model.rpartition("/")[2] if wish.model.startswith("hf.co/") else wish.model
    if not _is_diffusion(wish) or (layout := trained_denoiser(name)) is None:
        return None
    record = record_of(layout.record) if layout.record else None
    if not layout.blocks:
        return recorded_denoiser(wish, record) if isinstance(record, DiffusionModel) else None
    params, width, blocks = layout.params, layout.hidden, layout.blocks
    side = _FIGURES["denoiser_side"] if not isinstance(record, DiffusionModel) else _record_side(record)
    pixels = wish.height * (wish.width or wish.height) if wish.height else side**2
    frames = max(wish.frames or output_frames(record), 1.0)
    latents = (frames - 1.0) / layout.frames_per_token + 1.0 if frames > 1 else 1.0
    picture = latents * pixels / layout.pixels_per_token**2
    tokens = picture + layout.text_tokens
    passes = layout.passes
    written = blocks * tokens * width
    score_width = 0.0 if "sana" in name.lower() else width * blocks  # Sana's attention is linear
    encoders, decoder = _beside(record, params)
    per_token = _token_params(layout, record, score_width)
    held = tokens * max(wish.peak_pixels / pixels, 1.0)
    kept = layout.kept_widths or _DIT_KEPT
    return ModelWork(
        wish.model, "diffusion", "dit", macs=per_token * tokens * passes,
        score_macs=2.0 * tokens**2 * score_width * passes, activations=_FIGURES["dit_written"] * written * passes, layers=(layout.block_layers or _FIGURES["block_layers"]) * blocks * passes,
        params=params, trained=params, beside=encoders + decoder, kept=kept * blocks * held * width, block_inputs=blocks * held * width,
        block=_FIGURES["denoiser_block_kept"] * kept * held * width, widest=_FIGURES["widths_widest"] * held * width,
        side_macs=encoders * _FIGURES["encoder_tokens"] + _FIGURES["vae_macs_pixel"] * pixels * frames,
        side_elements=_FIGURES["encoder_live"] * pixels * min(frames, _FIGURES["encoded_frames"]),
        adapter_params_per_rank=8.0 * blocks * width, assumptions=() if wish.height else (f"{side:.0f} pixels a side taken",),
    )  # fmt: skip


def _token_params(layout: TrainedDenoiser, record: object, score_width: float) -> float:
    """Parameters that multiply one token of the picture: from the record's counted pass where there is one, else the layout's share of all.

    Models with two streams use half of their weights on the picture, and modulation multiplies one vector per sample.
    """
    params = layout.params
    usual = (layout.token_share or _FIGURES["text_share"]) * params
    if not isinstance(record, DiffusionModel) or not record.forward_flops:
        return usual
    frames = output_frames(record)
    latents = (frames - 1.0) / layout.frames_per_token + 1.0
    tokens = latents * _record_side(record) ** 2 / layout.pixels_per_token**2 + layout.text_tokens
    counted = (record.forward_flops / 2.0 - 2.0 * tokens**2 * score_width) / tokens
    return counted if _FIGURES["least_share"] * params < counted < _FIGURES["most_share"] * params else usual


def _record_side(record: DiffusionModel) -> float:
    sizes = output_sizes(record)
    return (sizes[-1] * sizes[-2]) ** 0.5 if len(sizes) > 1 else 512.0


def _beside(record: object, params: float) -> tuple[float, float]:
    """Parameters of text encoders and image decoder; for unknown ones a share of the denoiser's."""
    if isinstance(record, DiffusionModel):
        return float(record.text_encoder_params or 0) + float(record.image_encoder_params or 0), float(record.vae_params or 0)
    return min(_FIGURES["unknown_encoder_params"], params), _FIGURES["unknown_decoder_params"]


def recorded_denoiser(wish: TrainWish, record: DiffusionModel) -> ModelWork | None:
    """A convolutional denoiser of the records."""
    side = _record_side(record)
    height = wish.height or side
    found = forward_work(
        ForwardWish(record.name, height=height, width=wish.width or height, frames=wish.frames, steps=1.0, denoise_only=True)
    )
    if found is None:
        return None
    stage = found.stages[0]
    per_call = 1.0 / max(stage.items, 1.0) * stage.items  # counts are per call already
    encoders, decoder = _beside(record, float(record.denoiser_params))
    written = stage.activations * per_call
    return ModelWork(
        wish.model, "diffusion", stage.kind, macs=stage.macs, score_macs=stage.score_macs, activations=written, layers=stage.layers,
        params=stage.weights, trained=stage.weights, beside=encoders + decoder, kept=written * KEPT["denoiser"], block_inputs=_FIGURES["denoiser_block_share"] * written,
        block=_FIGURES["denoiser_block_share"] * written, widest=_FIGURES["denoiser_widest_share"] * written,
        side_macs=encoders * _FIGURES["clip_tokens"] + _FIGURES["unet_vae_macs_pixel"] * height * (wish.width or height),
        side_elements=_FIGURES["encoder_live"] * height * (wish.width or height),
        adapter_params_per_rank=stage.weights / 1024.0 / 4.0, assumptions=found.assumptions,
    )  # fmt: skip


#: Masks of 1203 classes in place of 80 for up to 128 regions of 28x28, with their gradient and one copy; and 64 more regions through the
#: mask head,
#: as images of LVIS have objects enough to fill the sample (layouts of Mask R-CNN, by hand).
_LVIS_MASKS = 3.0 * 128.0 * (1203.0 - 80.0) * 784.0 + 64.0 * 0.65e6
_DETECTION_TASKS = ("detection", "instance_segmentation", "panoptic", "keypoint")


def _classes(wish: TrainWish, words: str) -> float:
    if wish.classes:
        return wish.classes
    return float(
        next(
            (count for word, count in _CLASSES.items() if word in words),
            _FIGURES["unseen_classes_square" if "512x512" in words else "unseen_classes"],
        )
    )


def composed_work(wish: TrainWish) -> ModelWork | None:
    words = wish.model.lower()
    head = vision_head(words)
    segmenter = wish.task in ("segmentation", "semantic_segmentation")
    if head is None or not (segmenter or wish.task in _DETECTION_TASKS or wish.task == ""):
        return None
    if wish.task == "" and record_of(wish.model) is not None:
        return None
    part = backbone(words, detector=not segmenter, library=wish.library)
    taken: tuple[str, ...] = ()
    if part is None and head.kept_per_pixel > _FIGURES["light_head"] and not has_digits(words.replace("mask2former", "")):
        part, taken = backbone("r50-d8" if segmenter else "r50", detector=not segmenter), ("a ResNet-50 backbone taken",)
    if part is None:
        return None
    mean, peak = mean_and_peak_pixels(wish, _FIGURES["segment_side" if segmenter else "detect_side"])
    return dataclasses.replace(_assemble(wish, words, part, head, mean, peak), assumptions=taken)


def _assemble(wish: TrainWish, words: str, part: VisionPart, head: VisionHead, mean: float, peak: float) -> ModelWork:
    """Backbone and head at the mean size for time and at the largest for memory."""
    classes, recipe = _classes(wish, words), vision_recipe(words)
    segmenter = wish.task in ("segmentation", "semantic_segmentation")
    scale = 1.0 if part.kind in ("window", "transformer", "convnext") else part.head_scale if segmenter else 1.0
    scale_of_weights = scale**2
    if wish.library == "detectron2" and "retinanet" in words:
        scale = 2.0  # its activations are not written in place
    maps = head.classes_maps * (0.5 if part.head_scale == 0.5 else 1.0)  # those have no auxiliary head
    kept_head = scale * head.kept_per_pixel + 2.0 * maps * classes
    if recipe.has_group_norm_head:
        kept_head *= _FIGURES["group_norm_head"]
    positions = head.attention_maps * (peak / 64.0) ** 2 * (1.0 if part.kind != "transformer" else 0.0)
    per_image = head.kept_per_image + (_LVIS_MASKS if "lvis" in words and "mask" in words else 0.0)
    rois = 512.0 * 3072 * 49 * 3 if recipe.is_c4 and "rpn" not in words[:4] else 0.0
    rois += _FIGURES["dc5_kept"] if recipe.pools_wide else 0.0  # regions are pooled from 2048 channels
    kept = (
        part.kept * peak
        + part.attention * (peak / 2.0**20) ** 2
        + kept_head * peak
        + positions
        + per_image
        + _FIGURES["rpn_rois_kept"] * rois
    )
    # A head on fewer channels is as much narrower inside: its weights and arithmetic shrink with the square.
    params = part.params + scale_of_weights * head.params
    detector = not segmenter
    macs = part.macs * mean + scale_of_weights * head.macs_per_pixel * mean + head.macs_per_image + rois * _FIGURES["rois_macs"]
    scores = part.attention * (mean / 2.0**20) ** 2 * 20.0
    written = (
        part.activations * mean
        + _FIGURES["head_written"] * kept_head * mean
        + _FIGURES["image_written"] * per_image
        + _FIGURES["image_written"] * rois
    )
    kind = "detection" if detector and part.kind not in ("window", "transformer", "convnext") else part.kind
    block = part.block * peak + kept_head * peak + per_image
    return ModelWork(
        wish.model, "detection" if detector else "segmentation", kind, macs=macs, score_macs=scores, activations=written,
        frozen_macs=part.frozen_macs * mean, frozen_activations=part.frozen_activations * mean, layers=part.layers + (60.0 if detector else 20.0),
        params=params, trained=params - part.frozen_params, kept=kept, block_inputs=part.block_inputs * peak, block=block, widest=16.0 * peak + (0.5 * classes * peak if maps else 0.0),
        host_s=head.host_s, epoch_samples=data_set_samples("coco") if detector else 0.0, epochs=_FIGURES["detector_epochs"] if detector else 0.0,
    )  # fmt: skip
