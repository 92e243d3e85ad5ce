"""From the name of a model that is not a language model to the work and the memory of training it on one sample.

Four ways to know a model, tried in this order: a table of models whose arithmetic no record states (train_models.csv, train_graphs.csv), a
table of denoisers (train_denoisers.csv), the parts that a detector's or segmenter's name spells out (vision_parts, train_heads.csv), and the
bundled records (through `forward_models`, as for inference).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

from rightfit.errors import UnknownNameError
from rightfit.estimate.forward_models import Wish, alias, first_match, forward_work, record_of
from rightfit.estimate.vision_parts import Part, backbone
from rightfit.facts.records import DiffusionModel, OtherModel, TransformerArchitecture, VisionModel


@dataclasses.dataclass(frozen=True, slots=True)
class ModelWork:
    """Work and memory of one training sample; counts as in physics.train_step.StepWork and physics.train_memory.MemoryWork.

    `modality` is the kind of task, `kind` the kind of layers (forward_models.KINDS or graph). `epoch_samples` and `epochs` describe the usual run of this
    model, 0 where none is usual; `units` what published rates count per sample (mel frames of an utterance). `side_macs` is what frozen encoders cost per sample unless their outputs are cached, `side_elements` what those hold at a time; `adapter_params_per_rank` what an
    adapter of rank 1 learns.
    """

    name: str
    modality: str
    kind: str
    macs: float = 0.0
    score_macs: float = 0.0
    activations: float = 0.0
    frozen_macs: float = 0.0
    frozen_activations: float = 0.0
    layers: float = 1.0
    params: float = 0.0
    trained: float = 0.0
    beside: float = 0.0
    tables: float = 0.0
    gathered: float = 0.0
    kept: float = 0.0
    block_inputs: float = 0.0
    block: float = 0.0
    widest: float = 0.0
    fixed_bytes: float = 0.0
    host_s: float = 0.0
    side_macs: float = 0.0
    side_elements: float = 0.0
    adapter_params_per_rank: float = 0.0
    epoch_samples: float = 0.0
    epochs: float = 0.0
    units: float = 1.0
    assumptions: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class TrainWish:
    """What is known of the model and its input. Sizes in pixels, 0 = not said; `peak_pixels` of the largest image where sizes vary.

    `library` is the detection library (detectron2, mmdetection, mmsegmentation) whose layouts differ; `classes` of a segmenter (0 = by data set).
    """

    model: str
    task: str = ""
    height: float = 0.0
    width: float = 0.0
    frames: float = 0.0
    peak_pixels: float = 0.0
    library: str = ""
    classes: float = 0.0
    params: float = 0.0
    audio_s: float = 0.0
    views: tuple[tuple[float, float], ...] = ()


#: Tensors kept for the backward pass per element that a weighted layer writes: its output for the normalisation, that for the activation and the next
#: layer; SiLU keeps its input too; transformers keep normalised copies, the two halves of the feed-forward part, and attention's inputs.
_KEPT = {
    "conv": 2.0,
    "grouped": 2.0,
    "depthwise": 2.7,
    "convnext": 2.2,
    "window": 2.4,
    "transformer": 2.2,
    "detection": 2.0,
    "unet": 2.0,
    "conv3d": 2.0,
    "denoiser": 2.0,
    "dit": 1.0,
    "recurrent": 4.0,
    "recommender": 2.0,
    "graph": 2.0,
}
#: Elements that one block of a diffusion transformer keeps per token, in units of its width: two normalised and modulated copies, queries, keys,
#: values (normalised and rotated), attention output, gates, both halves of a fourfold feed-forward part with its activation.
_DIT_KEPT = 30.0
_DIT_WRITTEN = 11.0
_IMAGENET = 1281167.0
_COCO = 117266.0
_CLASSES = {"cityscapes": 19, "ade": 150, "voc": 21, "context": 60, "coco": 80, "stuff": 171, "lovedα": 7, "potsdam": 6, "drive": 2, "chase": 2, "stare": 2, "hrf": 2, "isaid": 16}
_DEFAULT_SIDE = {"classification": 224.0, "detection": 800.0, "segmentation": 512.0, "diffusion": 512.0, "gan": 256.0}


def train_work(wish: TrainWish) -> ModelWork:
    """Work of one sample of `wish`; UnknownNameError when nothing is known that it could be told from."""
    work = _cached(wish)
    if work is None:
        raise UnknownNameError("model", wish.model, allowed="give its parameters, or the name of a bundled model")
    return work


@functools.lru_cache(maxsize=8192)
def _cached(wish: TrainWish) -> ModelWork | None:
    name = re.sub(r"\s+\((?:longer|coco|imagenet)\)$", "", wish.model.strip(), flags=re.IGNORECASE)
    wish = dataclasses.replace(wish, model=name)
    for resolve in (_graph, _denoiser, _listed, _composed, _recorded, _neighbour, _stated):
        if (work := resolve(wish)) is not None:
            return work
    return None


def _number(row: Mapping[str, str], column: str, scale: float = 1.0) -> float:
    return float(row[column]) * scale if row.get(column) else 0.0


def _pixels(wish: TrainWish, default: float) -> tuple[float, float]:
    """Mean pixels of an input and those of the largest."""
    mean = wish.height * (wish.width or wish.height) if wish.height else default**2
    return mean, max(wish.peak_pixels, mean)


# -- graphs ---------------------------------------------------------------------------------------------------------------------------------------


def _graph(wish: TrainWish) -> ModelWork | None:
    if wish.task not in ("gnn", "graph", "nlp_small", "") or (row := first_match("train_graphs", wish.model, whole=True)) is None:
        return None
    macs = _number(row, "gmacs_seed", 1e9)
    gathered = _number(row, "gathered_seed")
    full = "fullgraph" in wish.model.lower() or "full graph" in wish.model.lower()
    params = _number(row, "mparams", 1e6)
    fixed = _number(row, "full_graph_gib", 2.0**30)
    if not full:
        fixed = min(fixed, 12 * 2.0**30)
    return ModelWork(
        wish.model, "graph", "graph", macs=macs, activations=macs / 60.0, layers=_number(row, "layers"), params=params, trained=params,
        gathered=gathered, kept=macs / 30.0, fixed_bytes=fixed, host_s=_number(row, "us_per_seed_host", 1e-6),
        epoch_samples=_number(row, "epoch_seeds"), epochs=1.0,
    )  # fmt: skip


# -- listed models --------------------------------------------------------------------------------------------------------------------------------


def _listed(wish: TrainWish) -> ModelWork | None:
    text = wish.model
    if wish.task in ("gnn",) and (row := first_match("train_models", text, whole=True)) is None:
        return None
    row = first_match("train_models", text, whole=True)
    if row is None or not row["gmacs"]:
        return None
    side = _number(row, "image_size")
    volume = row["kind"] == "conv3d"
    ratio = 1.0
    if side and wish.height and not volume:
        ratio = wish.height * (wish.width or wish.height) / side**2
    if row["frames"]:
        ratio *= _clip_frames(wish) / _number(row, "frames")
    written = _number(row, "mactivations", 1e6) * ratio
    params = _number(row, "mparams", 1e6)
    tables = _number(row, "mtables", 1e6)
    if total := re.search(r"(\d+(?:\.\d+)?)\s?GB total", wish.model):
        tables = float(total[1]) * 1e9 / 4.0
    seconds = wish.audio_s / 10.0 if wish.audio_s and "10 s" in row["source"] else 1.0
    macs, scores = _number(row, "gmacs", 1e9) * ratio * seconds, _number(row, "score_gmacs", 1e9) * ratio * seconds
    return ModelWork(
        wish.model, row["modality"], row["kind"], macs=macs, score_macs=scores, activations=written * seconds, layers=_number(row, "layers"),
        params=params, trained=params, tables=tables, gathered=_number(row, "gathered"),
        kept=written * seconds * (_number(row, "kept_factor") or _KEPT[row["kind"]]), widest=written * 0.06, block_inputs=written * 0.15, block=written * 0.2,
        epoch_samples=_number(row, "epoch_samples"), epochs=_number(row, "epochs"), units=_number(row, "units") or 1.0,
    )  # fmt: skip


_CLIP = re.compile(r"(?<![\dx])(\d{1,2})x(\d{1,2})x(\d{1,2})(?![\dx])")


def _clip_frames(wish: TrainWish) -> float:
    """Frames of a sample: stated, or as video libraries write them into a name (frames x interval x clips), else those that the row is for."""
    if found := _CLIP.search(wish.model):
        frames = float(found[1]) * float(found[3])
        return frames * 4.0 if "slowfast" in wish.model.lower() else frames  # the fast path sees four times the frames of the slow one
    row = first_match("train_models", wish.model, whole=True)
    return wish.frames or float(row["frames"] if row else 1.0)


# -- denoisers ------------------------------------------------------------------------------------------------------------------------------------

_ENCODER_LIVE = 190.0  # an image encoder works on 128 channels at full size, in and out of a layer, without gradients; half of it per live layer
_ENCODED_FRAMES = 8.0  # video is encoded in slices
_TEXT_SHARE = 0.85  # of a transformer's parameters multiply every token; the rest modulate or embed


def _is_diffusion(wish: TrainWish) -> bool:
    return "diffusion" in wish.task or "text_to" in wish.task or wish.task in ("", "finetune", "video_generation", "audio_generation")


def _denoiser(wish: TrainWish) -> ModelWork | None:
    name = wish.model.rpartition("/")[2] if wish.model.startswith("hf.co/") else wish.model
    if not _is_diffusion(wish) or (row := first_match("train_denoisers", name, whole=True)) is None:
        return None
    record = record_of(row["record"]) if row["record"] else None
    if not row["blocks"]:
        return _recorded_denoiser(wish, record) if isinstance(record, DiffusionModel) else None
    params, width, blocks = _number(row, "mparams", 1e6), _number(row, "hidden"), _number(row, "blocks")
    side = 512.0 if not isinstance(record, DiffusionModel) else _record_side(record)
    pixels = wish.height * (wish.width or wish.height) if wish.height else side**2
    frames = max(wish.frames or 1.0, 1.0)
    latents = (frames - 1.0) / _number(row, "frames_per_token") + 1.0 if frames > 1 else 1.0
    picture = latents * pixels / _number(row, "pixels_per_token") ** 2
    tokens = picture + _number(row, "text_tokens")
    passes = _number(row, "passes")
    written = blocks * tokens * width
    linear = "sana" in name.lower()
    encoders, decoder = _beside(record, params)
    return ModelWork(
        wish.model, "diffusion", "dit", macs=_TEXT_SHARE * params * tokens * passes,
        score_macs=0.0 if linear else 2.0 * tokens**2 * width * blocks * passes, activations=_DIT_WRITTEN * written * passes, layers=13.0 * blocks * passes,
        params=params, trained=params, beside=encoders + decoder, kept=_DIT_KEPT * written * _KEPT["dit"], block_inputs=written,
        block=1.5 * _DIT_KEPT * tokens * width, widest=4.0 * tokens * width, side_macs=encoders * 256.0 + 600e3 * pixels * frames,
        side_elements=_ENCODER_LIVE * pixels * min(frames, _ENCODED_FRAMES),
        adapter_params_per_rank=8.0 * blocks * width, assumptions=() if wish.height else (f"{side:.0f} pixels a side taken",),
    )  # fmt: skip


def _record_side(record: DiffusionModel) -> float:
    sizes = [float(part) for part in re.findall(r"\d+", record.default_output)]
    return (sizes[-1] * sizes[-2]) ** 0.5 if len(sizes) > 1 else 512.0


def _beside(record: object, params: float) -> tuple[float, float]:
    """Parameters of text encoders and image decoder; for unknown ones a share of the denoiser's."""
    if isinstance(record, DiffusionModel):
        return float(record.text_encoder_params or 0) + float(record.image_encoder_params or 0), float(record.vae_params or 0)
    return min(4e9, params), 1e8


def _recorded_denoiser(wish: TrainWish, record: DiffusionModel) -> ModelWork | None:
    """A convolutional denoiser of the records."""
    side = _record_side(record)
    height = wish.height or side
    found = forward_work(Wish(record.name, height=height, width=wish.width or height, frames=wish.frames, steps=1.0, denoise_only=True))
    if found is None:
        return None
    stage = found.stages[0]
    per_call = 1.0 / max(stage.items, 1.0) * stage.items  # counts are per call already
    encoders, decoder = _beside(record, float(record.denoiser_params))
    written = stage.activations * per_call
    return ModelWork(
        wish.model, "diffusion", stage.kind, macs=stage.macs, score_macs=stage.score_macs, activations=written, layers=stage.layers,
        params=stage.weights, trained=stage.weights, beside=encoders + decoder, kept=written * _KEPT["denoiser"], block_inputs=0.12 * written,
        block=0.12 * written, widest=0.02 * written, side_macs=encoders * 77.0 + 1.05e6 * height * (wish.width or height),
        side_elements=_ENCODER_LIVE * height * (wish.width or height),
        adapter_params_per_rank=stage.weights / 1024.0 / 4.0, assumptions=found.assumptions,
    )  # fmt: skip


# -- detectors and segmenters ---------------------------------------------------------------------------------------------------------------------

_DETECTION_TASKS = ("detection", "instance_segmentation", "panoptic", "keypoint")


def _classes(wish: TrainWish, words: str) -> float:
    if wish.classes:
        return wish.classes
    return float(next((count for word, count in _CLASSES.items() if word in words), 150 if "512x512" in words else 19))


def _composed(wish: TrainWish) -> ModelWork | None:
    words = wish.model.lower()
    head = first_match("train_heads", words)
    segmenter = wish.task in ("segmentation", "semantic_segmentation")
    if head is None or not (segmenter or wish.task in _DETECTION_TASKS or wish.task == ""):
        return None
    if wish.task == "" and record_of(wish.model) is not None:
        return None
    part = backbone(words, detector=not segmenter, library=wish.library)
    if part is None:
        return None
    mean, peak = _pixels(wish, 512.0 if segmenter else 924.0)
    return _assemble(wish, words, part, head, mean, peak)


def _assemble(wish: TrainWish, words: str, part: Part, head: Mapping[str, str], mean: float, peak: float) -> ModelWork:
    """Backbone and head at the mean size for time and at the largest for memory."""
    classes = _classes(wish, words)
    segmenter = wish.task in ("segmentation", "semantic_segmentation")
    scale = 1.0 if part.kind in ("window", "transformer", "convnext") else part.head_scale if segmenter else 1.0
    if wish.library == "detectron2" and "retinanet" in words:
        scale = 2.0  # its activations are not written in place
    maps = _number(head, "classes_maps") * (0.5 if part.head_scale == 0.5 else 1.0)  # those have no auxiliary head
    kept_head = scale * _number(head, "kept_per_pixel") + 2.0 * maps * classes
    if re.search(r"gn[-_+]?(neck|head)|gn-head", words):
        kept_head *= 1.3
    positions = _number(head, "attention_maps") * (peak / 64.0) ** 2 * (1.0 if part.kind != "transformer" else 0.0)
    per_image = _number(head, "kept_per_image_m", 1e6)
    rois = 512.0 * 3072 * 49 * 3 if re.search(r"[-_ ]c4", words) and "rpn" not in words[:4] else 0.0
    rois += 1e8 if "dc5" in words else 0.0  # regions are pooled from 2048 channels
    kept = part.kept * peak + part.attention * (peak / 2.0**20) ** 2 + kept_head * peak + positions + per_image + 1.1 * rois
    params = part.params + _number(head, "mparams", 1e6)
    detector = not segmenter
    macs = part.macs * mean + scale * _number(head, "kmacs_per_pixel", 1e3) * mean + _number(head, "gmacs_per_image", 1e9) + rois * 900.0
    scores = part.attention * (mean / 2.0**20) ** 2 * 20.0
    written = part.activations * mean + 0.7 * kept_head * mean + 0.6 * per_image + 0.6 * rois
    kind = part.kind if part.kind in ("window", "transformer", "convnext") else "detection" if detector else "unet"
    block = part.block * peak + kept_head * peak + per_image
    return ModelWork(
        wish.model, "detection" if detector else "segmentation", kind, macs=macs, score_macs=scores, activations=written,
        frozen_macs=part.frozen_macs * mean, frozen_activations=part.frozen_activations * mean, layers=part.layers + (60.0 if detector else 20.0),
        params=params, trained=params - part.frozen_params, kept=kept, block_inputs=part.block_inputs * peak, block=block, widest=64.0 / 4.0 * peak + 2.0 * classes * peak * _number(head, "classes_maps") * 0.5,
        host_s=_number(head, "host_s"), epoch_samples=_COCO if detector else 0.0, epochs=12.0 if detector else 0.0,
    )  # fmt: skip


# -- records --------------------------------------------------------------------------------------------------------------------------------------


def _recorded(wish: TrainWish) -> ModelWork | None:
    name = wish.model
    if isinstance(record := record_of(name), DiffusionModel):
        return _recorded_denoiser(wish, record)
    if style := re.match(r"stylegan[-_ ]?([23])?", name.lower()):
        return _generative(wish, style[1] or "2")
    record = record or _looser_record(name)
    if record is None:
        return None
    if isinstance(record, TransformerArchitecture | VisionModel | OtherModel):
        return _from_forward(wish, record)
    return None


_NOISE = re.compile(r"(?:^|[-_ ])(?:mae|deepclusterv2|resnet50 imagenet|dino|swav|moco|simclr|byol|clip|finetune[d]?|pretrain|linear-probe|laion\w+|imagenet\w*|torchvision|90|epochs)(?=[-_ (]|$)", re.IGNORECASE)


def _looser_record(name: str) -> VisionModel | TransformerArchitecture | OtherModel | None:
    """A record by what remains of a name without the words of a recipe."""
    bare = _NOISE.sub(" ", re.sub(r"\(.*\)", "", name)).strip(" -_")
    bare = re.sub(r"\s+", " ", bare)
    vit_sizes = re.sub(r"vit-([bl])(\d\d)(plus-\d+)?.*", r"vit-\1-\2", bare)
    for text in (bare, "timm/" + bare.replace("resnet-", "resnet"), bare.replace(" ", "-"), vit_sizes, _vit_name(bare), f"timm/{bare}", f"timm/{bare.replace('-', '_')}", f"torchvision/{bare.replace('-', '_')}", f"ultralytics/{bare}"):
        found = record_of(text) if text else None
        if isinstance(found, VisionModel | OtherModel | TransformerArchitecture):
            return found
    return None


def _vit_name(text: str) -> str:
    found = re.search(r"vit-?(tiny|small|base|large|huge|ti|s|b|l|h)(?:[-/]?(\d\d))?", text.lower())
    if not found:
        return ""
    size = {"ti": "tiny", "s": "small", "b": "base", "l": "large", "h": "huge"}.get(found[1], found[1])
    patch = found[2] or ("14" if size == "huge" else "16")
    return f"timm/vit_{size}_patch{patch}_224"


def _from_forward(wish: TrainWish, record: object) -> ModelWork | None:
    name = getattr(record, "name", wish.model)
    views = wish.views or ((wish.height, 1.0),)
    total: ModelWork | None = None
    for side, count in views:
        width = wish.width if not wish.views else side
        found = forward_work(Wish(name, height=side, width=width or side, frames=wish.frames, audio_s=wish.audio_s))
        if found is None:
            return None
        stages = found.stages
        kind = stages[0].kind
        macs = sum(stage.macs * max(stage.repeats, 1.0) if stage.kind != "decode" else stage.macs * 60.0 for stage in stages)
        written = sum(stage.activations for stage in stages)
        factor = _KEPT.get(kind, 2.0)
        part = ModelWork(
            wish.model, _modality(record, found.modality), kind, macs=macs * count, score_macs=sum(stage.score_macs for stage in stages) * count,
            activations=written * count, layers=sum(stage.layers for stage in stages), params=found.params, trained=found.params,
            kept=written * factor * count, block_inputs=0.12 * written * count, block=0.1 * written * factor, widest=0.06 * written, assumptions=found.assumptions,
        )  # fmt: skip
        if total is not None:
            part = dataclasses.replace(part, **{field: getattr(part, field) + getattr(total, field) for field in ("macs", "score_macs", "activations", "kept", "block_inputs")})
        total = part
    if total is None:
        return None
    epoch, epochs = {"classification": (_IMAGENET, 90.0), "detection": (_COCO, 300.0)}.get(total.modality, (0.0, 0.0))
    return _with_tables(dataclasses.replace(total, epoch_samples=epoch, epochs=epochs), record)


def _with_tables(work: ModelWork, record: object) -> ModelWork:
    if isinstance(record, OtherModel) and record.params_embedding and work.kind == "recommender":
        dense = float(record.params_dense or work.params)
        return dataclasses.replace(work, params=dense, trained=dense, tables=float(record.params_embedding), gathered=3328.0)
    return work


def _modality(record: object, forward: str) -> str:
    if isinstance(record, VisionModel):
        task = record.task.partition("/")[0]
        return {"video": "video", "pose": "detection"}.get(task, task if task in ("detection", "segmentation") else "classification")
    return {"audio": "speech", "other": "recommendation", "text": "contrastive"}.get(forward, "classification")


_RECIPE = re.compile(r"^(gluon|swsl|ssl|ig|tf|ens_adv|adv)_|_(ns|ap|in21ft1k|in22ft1k|in21k|in22k|dist|distilled|sam|pruned|bitm|miil|supcon|224|256|288|384|448)(?=_|$)")
_LEAST_LIKENESS = 0.5


def _neighbour(wish: TrainWish) -> ModelWork | None:
    """A classifier that no record has, like the record whose name is nearest: its arithmetic per parameter, scaled to the stated parameters."""
    import difflib

    if wish.task not in ("classification", "") or not wish.model:
        return None
    bare = _RECIPE.sub("", _RECIPE.sub("", wish.model.lower()))
    stem = re.match(r"[a-z]*", bare)
    names: dict[str, str] = {}
    for name in _classifiers():
        if stem and name.startswith(stem[0][:4]):
            names.setdefault(_RECIPE.sub("", _RECIPE.sub("", name.lower())), name)
    close = difflib.get_close_matches(bare, names, n=1, cutoff=_LEAST_LIKENESS)
    record = record_of(f"timm/{names[close[0]]}") if close else None
    if not isinstance(record, VisionModel) or not record.macs:
        return None
    work = _from_forward(dataclasses.replace(wish, model=record.name), record)
    if work is None:
        return None
    ratio = wish.params / record.params_total if wish.params else 1.0
    patch = (_patch(close[0]) / _patch(bare)) ** 2
    grown = {name: getattr(work, name) * patch * ratio for name in ("macs", "score_macs")}
    grown |= {name: getattr(work, name) * patch * ratio**0.6 for name in ("activations", "kept", "block_inputs", "block", "widest")}
    params = wish.params or work.params
    taken = (*work.assumptions, f"{wish.model} taken like {names[close[0]]}")
    return dataclasses.replace(work, name=wish.model, params=params, trained=params, assumptions=taken, **grown)


def _patch(name: str) -> float:
    found = re.search(r"(?:patch|p)(\d{1,2})(?=_|$)", name)
    return float(found[1]) if found else 16.0


@functools.cache
def _classifiers() -> tuple[str, ...]:
    from rightfit import facts

    return tuple(row["name"].removeprefix("timm/") for row in facts.table("models_vision") if row["name"].startswith("timm/"))


def _generative(wish: TrainWish, generation: str) -> ModelWork | None:
    """StyleGAN: one image costs a generator and a discriminator step; regularisation comes every few steps (lazy).

    A step of three passes each: generator 1 1/3 and discriminator 3 times its forward pass, a fifth more for regularisation.
    """
    side = wish.height or 1024.0
    at = 1024.0 if side > 700 else 512.0 if side > 380 else 256.0
    record = record_of(f"stylegan2-{at:.0f}")
    if not isinstance(record, OtherModel):
        return None
    half = 0.25 if side <= 256 else 1.0  # the automatic configuration halves the channels up to 256
    ratio = (side / at) ** (0.0 if at == side else 1.0)
    generator = record.forward_flops / 2 * half * ratio
    macs = generator * (1.33 + 3.15) * 1.2
    written = 36e6 * (side / 256.0) ** 1.6 * half**0.5 * (1.3 if generation == "3" else 1.0)
    params = float(record.params_total) * 0.9 if half == 1.0 else 48e6
    return ModelWork(
        wish.model, "gan", "grouped", macs=macs * (1.6 if generation == "3" else 1.0), activations=2.5 * written, layers=220.0, params=params, trained=params, kept=2.6 * written,
        block_inputs=0.3 * written, block=0.5 * written, widest=0.25 * written,
    )  # fmt: skip


def _stated(wish: TrainWish) -> ModelWork | None:
    """A model that only its parameter count describes."""
    if not wish.params:
        return None
    found = forward_work(Wish(wish.model, params=wish.params))
    if found is None:
        return None
    stage = found.stages[0]
    return ModelWork(
        wish.model, "classification", stage.kind, macs=stage.macs, activations=stage.activations, layers=stage.layers, params=wish.params, trained=wish.params,
        kept=stage.activations * _KEPT.get(stage.kind, 2.0), widest=0.06 * stage.activations, assumptions=found.assumptions,
    )  # fmt: skip


def spelled(name: str) -> str:
    """The record's spelling of a name."""
    return alias(name)
