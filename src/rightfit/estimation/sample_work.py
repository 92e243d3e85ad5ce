"""Work of denoisers, and of detectors and segmenters put together from the parts that
their names spell out."""

from __future__ import annotations

import dataclasses
import functools
import math

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.estimation.forward_models import forward_work
from rightfit.estimation.pass_records import KEPT, ModelWork, NetworkInput, PassInput, mean_and_peak_pixels
from rightfit.estimation.vision_backbones import VisionPart, backbone
from rightfit.facts.networks import family_of, own_record, record_of, size_told
from rightfit.facts.records import DiffusionModel, OtherModel, TracedModel, TransformerArchitecture, VisionModel
from rightfit.facts.resolve import read_record
from rightfit.facts.tables import constant_group, constants, meaning
from rightfit.facts.trained_networks import (
    TrainedDenoiser,
    VisionHead,
    clip_frames,
    data_set_samples,
    has_digits,
    letters_of,
    listed_training,
    looser_names,
    output_frames,
    output_sizes,
    patch_of,
    style_generation,
    tables_bytes,
    trained_denoiser,
    trained_graph,
    vision_head,
    vision_recipe,
    without_note,
    without_recipe,
)
from rightfit.messages import Message
from rightfit.units import FP32_BYTES

_FIGURES = constants("training_work")
#: Elements that one block of a diffusion transformer keeps per token, in units of its width: two
#: normalised and modulated copies, queries, keys, values (normalised and rotated), attention
#: output, gates, both halves of a fourfold feed-forward part with its activation.
_DIT_KEPT = _FIGURES["dit_kept"]
_CLASSES = constant_group("training_work", "classes")


def _is_diffusion(wish: NetworkInput) -> bool:
    return "diffusion" in wish.task or "text_to" in wish.task or wish.task in ("", "finetune", "video_generation", "audio_generation")


def denoiser_work(wish: NetworkInput) -> ModelWork | None:
    name = wish.model.rpartition("/")[2] if wish.model.startswith("hf.co/") else wish.model
    if not _is_diffusion(wish) or (layout := trained_denoiser(name)) is None:
        return None
    record = record_of(layout.record) if layout.record else None
    if not layout.blocks:
        return recorded_denoiser(wish, record) if isinstance(record, DiffusionModel) else None
    layout, taken = _of_told_size(layout, name, wish.params)
    if taken:
        record = None
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
        adapter_params_per_rank=8.0 * blocks * width, assumptions=(*taken, *(() if wish.height else (f"{side:.0f} pixels a side taken",))),
    )  # fmt: skip


def _of_told_size(layout: TrainedDenoiser, name: str, params: float) -> tuple[TrainedDenoiser, tuple[str, ...]]:
    """The layout with the parameters that are told, beside the name or in it: a relative whose
    blocks are wider by the root of what it is larger, which is said."""
    told = params or size_told(name)
    if not told or abs(math.log(told / layout.params)) <= constants("forward_work")["same_model"]:
        return layout, ()
    wider = (told / layout.params) ** 0.5
    relative = f"the nearest relative {layout.record or 'in the table of denoisers'}, scaled to {told / 1e9:.3g}B parameters"
    said = f"model {name[:60]!r} is not known: {relative}, taken"
    return dataclasses.replace(layout, params=told, hidden=layout.hidden * wider), (said,)


def _token_params(layout: TrainedDenoiser, record: object, score_width: float) -> float:
    """Parameters that multiply one token of the picture: from the record's counted pass where there
    is one, else the layout's share of all.

    Models with two streams use half of their weights on the picture, and modulation multiplies one
    vector per sample.
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


def recorded_denoiser(wish: NetworkInput, record: DiffusionModel) -> ModelWork | None:
    """A convolutional denoiser of the records."""
    side = _record_side(record)
    height = wish.height or side
    found = forward_work(
        PassInput(record.name, height=height, width=wish.width or height, frames=wish.frames, steps=1.0, denoise_only=True)
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


#: Masks of 1203 classes in place of 80 for up to 128 regions of 28x28, with their gradient and one
#: copy; and 64 more regions through the mask head, as images of LVIS have objects enough to fill
#: the sample (layouts of Mask R-CNN, by hand).
_LVIS_MASKS = 3.0 * 128.0 * (1203.0 - 80.0) * 784.0 + 64.0 * 0.65e6
_DETECTION_TASKS = ("detection", "instance_segmentation", "panoptic", "keypoint", "detection3d")


def _classes(wish: NetworkInput, words: str) -> float:
    if wish.classes:
        return wish.classes
    return float(
        next(
            (count for word, count in _CLASSES.items() if word in words),
            _FIGURES["unseen_classes_square" if "512x512" in words else "unseen_classes"],
        )
    )


def composed_work(wish: NetworkInput) -> ModelWork | None:
    words = wish.model.lower()
    if wish.task in ("", "segmentation", "semantic_segmentation") and (implied := meaning("training", "implied_backbone", words)):
        wish, words = dataclasses.replace(wish, task="segmentation"), f"{words} {implied}"
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


def _assemble(wish: NetworkInput, words: str, part: VisionPart, head: VisionHead, mean: float, peak: float) -> ModelWork:
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
    # A head on fewer channels is as much narrower inside: its weights and arithmetic
    # shrink with the square.
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
        host_s=head.host_s, wide=head.wide, epoch_samples=data_set_samples("coco") if detector else 0.0, epochs=_FIGURES["detector_epochs"] if detector else 0.0,
    )  # fmt: skip


# ---- From the name of a model that is not a language model to the work and the memory of
# training it on one sample.
#
# Four ways to know a model, tried in this order: a table of models whose arithmetic no record
# states (train_models.csv, train_graphs.csv), a table of denoisers (train_denoisers.csv), the parts
# that a detector's or segmenter's name spells out (vision_parts, train_heads.csv), and the bundled
# records (through `forward_models`, as for inference).


def train_work(wish: NetworkInput) -> ModelWork:
    """Work of one sample of `wish`; UnknownNameError when nothing is known that it
    could be told from."""
    work = _own(wish) if facts.own_reference(wish.model) or read_record(wish.model) is not None else _cached(wish)
    if work is None:
        raise UnknownNameError("model", wish.model, allowed=Message("names.bundled"))
    return work


def _own(wish: NetworkInput) -> ModelWork | None:
    """A model of the user's own, counted at the size of input that its name says."""
    from rightfit.estimation.pass_records import resized, traced_training

    record = own_record(wish.model)
    if isinstance(record, TracedModel):
        return traced_training(resized(record, wish.height, wish.width))
    read = read_record(wish.model)
    return recorded_work(wish) if read is None else _from_forward(wish, read)


@functools.lru_cache(maxsize=8192)
def _cached(wish: NetworkInput) -> ModelWork | None:
    wish = dataclasses.replace(wish, model=without_note(wish.model))
    for resolve in (_graph, denoiser_work, _listed, composed_work, recorded_work, neighbour_work, stated_work):
        if (work := resolve(wish)) is not None:
            return work
    return None


def _graph(wish: NetworkInput) -> ModelWork | None:
    if wish.task not in ("gnn", "graph", "nlp_small", "") or (graph := trained_graph(wish.model)) is None:
        return None
    full = "fullgraph" in wish.model.lower() or "full graph" in wish.model.lower()
    fixed = graph.full_graph_bytes
    if not full:
        fixed = min(fixed, _FIGURES["graph_sampled_most_gib"] * 2.0**30)
    return ModelWork(
        wish.model, "graph", "graph", macs=graph.macs, activations=graph.macs / 60.0, layers=graph.layers, params=graph.params, trained=graph.params,
        gathered=graph.gathered, kept=graph.macs / 30.0, fixed_bytes=fixed, host_s=graph.host_s, epoch_samples=graph.epoch_seeds, epochs=1.0,
    )  # fmt: skip


def _listed(wish: NetworkInput) -> ModelWork | None:
    listed, figures = listed_training(wish.model), _FIGURES
    if listed is None:
        return None
    ratio = 1.0
    if listed.image_size and wish.height and listed.kind != "conv3d":
        ratio = wish.height * (wish.width or wish.height) / listed.image_size**2
    if listed.frames:
        ratio *= _clip_frames(wish, listed.frames) / listed.frames
    written = listed.activations * ratio
    tables = tables_bytes(wish.model) / FP32_BYTES or listed.tables
    seconds = wish.audio_s / 10.0 if wish.audio_s and listed.is_of_10_s else 1.0
    return ModelWork(
        wish.model, listed.modality, listed.kind, macs=listed.macs * ratio * seconds, score_macs=listed.score_macs * ratio * seconds,
        activations=written * seconds, layers=listed.layers, params=listed.params, trained=listed.params, tables=tables, gathered=listed.gathered,
        kept=written * seconds * (listed.kept_factor or KEPT[listed.kind]), widest=written * figures["widest_share"],
        block_inputs=written * figures["dense_block_inputs"], block=written * figures["dense_block"],
        epoch_samples=listed.epoch_samples, epochs=listed.epochs, units=listed.units,
    )  # fmt: skip


def _clip_frames(wish: NetworkInput, usual: float) -> float:
    """Frames of a sample: stated, or as video libraries write them into a name (frames x interval x
    clips), else those that the row is for."""
    if frames := clip_frames(wish.model):
        return frames * _FIGURES["slow_fast_frames"] if "slowfast" in wish.model.lower() else frames
    return wish.frames or usual


# records, neighbours, parameter counts ------------------------------------------------------------


def recorded_work(wish: NetworkInput) -> ModelWork | None:
    name = wish.model
    if isinstance(record := record_of(name), DiffusionModel):
        return recorded_denoiser(wish, record)
    if generation := style_generation(name):
        return _generative(wish, generation)
    record = record or _looser_record(name)
    if record is None:
        return None
    if isinstance(record, TransformerArchitecture | VisionModel | OtherModel):
        return _from_forward(wish, record)
    return None


def _looser_record(name: str) -> VisionModel | TransformerArchitecture | OtherModel | None:
    """A record by what remains of a name without the words of a recipe."""
    records = (record_of(text) for text in looser_names(name))
    return next((found for found in records if isinstance(found, VisionModel | OtherModel | TransformerArchitecture)), None)


def _from_forward(wish: NetworkInput, record: object) -> ModelWork | None:
    name = getattr(record, "name", wish.model)
    views = wish.views or ((wish.height, 1.0),)
    total: ModelWork | None = None
    for side, count in views:
        width = wish.width if not wish.views else side
        found = forward_work(PassInput(name, height=side, width=width or side, frames=wish.frames, audio_s=wish.audio_s))
        if found is None:
            return None
        stages = found.stages
        kind = stages[0].kind
        macs = sum(
            stage.macs * max(stage.repeats, 1.0) if stage.kind != "decode" else stage.macs * _FIGURES["decoded_tokens"] for stage in stages
        )
        written = sum(stage.activations for stage in stages)
        factor = _kept_share(record, kind)
        part = ModelWork(
            wish.model, _modality(record, found.modality), kind, macs=macs * count, score_macs=sum(stage.score_macs for stage in stages) * count,
            activations=written * count, layers=sum(stage.layers for stage in stages), params=found.params, trained=found.params,
            kept=written * factor * count, block_inputs=_FIGURES["block_inputs_share"] * written * count, block=_FIGURES["block_share"] * written * factor,
            widest=_FIGURES["widest_share"] * written, pointwise=stages[0].pointwise, wide=_is_wide(name), assumptions=found.assumptions,
        )  # fmt: skip
        if total is not None:
            part = dataclasses.replace(
                part,
                **{
                    field: getattr(part, field) + getattr(total, field)
                    for field in ("macs", "score_macs", "activations", "kept", "block_inputs")
                },
            )
        total = part
    if total is None:
        return None
    epoch, epochs = _usual_run(total.modality)
    return _with_tables(dataclasses.replace(total, epoch_samples=epoch, epochs=epochs), record)


def _is_wide(name: str) -> float:
    """Whether element-wise work of a detector stays in fp32 under autocast, by its head; 1 for an
    unknown one."""
    head = vision_head(name.lower())
    return head.wide if head else 1.0


def _kept_share(record: object, kind: str) -> float:
    """Elements kept for the backward pass over those that a forward pass writes.

    Records of pictures count the products of attention, H N^2 scores and N d outputs a block,
    among what layers write; fused attention keeps no scores, so that what is kept follows from the
    outputs of linear layers: nine of (9 + 1 + N / head width) widths. Windows with positions keep
    the sum of positions and mask.
    """
    share = KEPT.get(kind, 2.0)
    if not isinstance(record, VisionModel) or not family_of(record).counts_scores:
        return share
    windows = kind == "window"
    tokens = _FIGURES["window_tokens"] if windows else (record.image_size / patch_of(record.name)) ** 2 + 1.0
    scores = tokens / _FIGURES["window_head_width" if windows else "head_width"]
    linear = _FIGURES["vit.written"]
    return (share * linear + (_FIGURES["biased_window_scores"] * scores if windows else 0.0)) / (linear + 1.0 + scores)


def _usual_run(modality: str) -> tuple[float, float]:
    """Samples of an epoch and epochs of the usual run of a task; zeros where none is usual."""
    if modality == "classification":
        return data_set_samples("imagenet"), _FIGURES["classification_epochs"]
    return (data_set_samples("coco"), _FIGURES["detection_epochs"]) if modality == "detection" else (0.0, 0.0)


def _with_tables(work: ModelWork, record: object) -> ModelWork:
    if isinstance(record, OtherModel) and record.params_embedding and work.kind == "recommender":
        dense = float(record.params_dense or work.params)
        return dataclasses.replace(
            work, params=dense, trained=dense, tables=float(record.params_embedding), gathered=_FIGURES["dlrm_gathered"]
        )
    return work


def _modality(record: object, forward: str) -> str:
    if isinstance(record, VisionModel):
        task = record.task.partition("/")[0]
        return {"video": "video", "pose": "detection"}.get(task, task if task in ("detection", "segmentation") else "classification")
    return {"audio": "speech", "other": "recommendation", "text": "contrastive"}.get(forward, "classification")


def neighbour_work(wish: NetworkInput) -> ModelWork | None:
    """A classifier that no record has, like the record whose name is nearest: its arithmetic per
    parameter, scaled to the stated parameters."""
    import difflib

    if wish.task not in ("classification", "") or not wish.model:
        return None
    bare = without_recipe(wish.model)
    stem = letters_of(bare)[:4]
    names: dict[str, str] = {}
    for name in _classifiers():
        if name.startswith(stem):
            names.setdefault(without_recipe(name), name)
    close = difflib.get_close_matches(bare, names, n=1, cutoff=_FIGURES["least_likeness"])
    record = record_of(f"timm/{names[close[0]]}") if close else None
    if not isinstance(record, VisionModel) or not record.macs:
        return None
    work = _from_forward(dataclasses.replace(wish, model=record.name), record)
    if work is None:
        return None
    ratio = wish.params / record.params_total if wish.params else 1.0
    patch = (patch_of(close[0]) / patch_of(bare)) ** 2
    grown = {name: getattr(work, name) * patch * ratio for name in ("macs", "score_macs")}
    grown |= {
        name: getattr(work, name) * patch * ratio ** _FIGURES["neighbour_exponent"]
        for name in ("activations", "kept", "block_inputs", "block", "widest")
    }
    params = wish.params or work.params
    taken = (*work.assumptions, f"{wish.model} taken like {names[close[0]]}")
    return dataclasses.replace(work, name=wish.model, params=params, trained=params, assumptions=taken, **grown)


@functools.cache
def _classifiers() -> tuple[str, ...]:

    return tuple(row["name"].removeprefix("timm/") for row in facts.table("models_vision") if row["name"].startswith("timm/"))


def _generative(wish: NetworkInput, generation: str) -> ModelWork | None:
    """StyleGAN: one image costs a generator and a discriminator step; regularisation comes
    every few steps (lazy).

    A step of three passes each: generator 1 1/3 and discriminator 3 times its forward pass, a fifth
    more for regularisation.
    """
    side = wish.height or 1024.0
    at = 1024.0 if side > _FIGURES["style_large_from"] else 512.0 if side > _FIGURES["style_middle_from"] else 256.0
    record = record_of(f"stylegan2-{at:.0f}")
    if not isinstance(record, OtherModel):
        return None
    half = 0.25 if side <= 256 else 1.0  # the automatic configuration halves the channels up to 256
    ratio = (side / at) ** (0.0 if at == side else 1.0)
    generator = record.forward_flops / 2 * half * ratio
    macs = generator * (_FIGURES["style_generator_passes"] + _FIGURES["style_discriminator_passes"]) * _FIGURES["style_regularisation"]
    third = generation == "3"
    written = _FIGURES["style_written"] * (side / 256.0) ** _FIGURES["style_written_exponent"] * half**0.5
    written *= _FIGURES["style_third_written"] if third else 1.0
    params = float(record.params_total) * _FIGURES["style_trained"] if half == 1.0 else _FIGURES["style_half_params"]
    return ModelWork(
        wish.model, "gan", "grouped", macs=macs * (_FIGURES["style_third_macs"] if third else 1.0), activations=_FIGURES["style_activations"] * written,
        layers=_FIGURES["style_layers"], params=params, trained=params, kept=_FIGURES["style_kept"] * written,
        block_inputs=_FIGURES["style_block_inputs"] * written, block=_FIGURES["style_block"] * written, widest=_FIGURES["style_widest"] * written,
    )  # fmt: skip


def stated_work(wish: NetworkInput) -> ModelWork | None:
    """A model that only its parameter count describes."""
    if not wish.params:
        return None
    found = forward_work(PassInput(wish.model, params=wish.params))
    if found is None:
        return None
    stage = found.stages[0]
    return ModelWork(
        wish.model, "classification", stage.kind, macs=stage.macs, activations=stage.activations, layers=stage.layers, params=wish.params, trained=wish.params,
        kept=stage.activations * KEPT.get(stage.kind, 2.0), widest=_FIGURES["widest_share"] * stage.activations, assumptions=found.assumptions,
    )  # fmt: skip
