"""Work of models that have a record, of their neighbours, and of models that only a parameter count describes."""

from __future__ import annotations

import dataclasses
import functools
import re

from rightfit import facts
from rightfit.estimate.forward_models import Wish, alias, forward_work, record_of
from rightfit.estimate.model_work import KEPT, ModelWork, TrainWish
from rightfit.estimate.train_networks import recorded_denoiser
from rightfit.facts.records import DiffusionModel, OtherModel, TransformerArchitecture, VisionModel

_IMAGENET = 1281167.0
_COCO = 117266.0


def recorded_work(wish: TrainWish) -> ModelWork | None:
    name = wish.model
    if isinstance(record := record_of(name), DiffusionModel):
        return recorded_denoiser(wish, record)
    if style := re.match(r"stylegan[-_ ]?([23])?", name.lower()):
        return _generative(wish, style[1] or "2")
    record = record or _looser_record(name)
    if record is None:
        return None
    if isinstance(record, TransformerArchitecture | VisionModel | OtherModel):
        return _from_forward(wish, record)
    return None


_NOISE = re.compile(
    r"(?:^|[-_ ])(?:mae|deepclusterv2|resnet50 imagenet|dino|swav|moco|simclr|byol|clip|finetune[d]?|pretrain|linear-probe|laion\w+|imagenet\w*|torchvision|90|epochs)(?=[-_ (]|$)",
    re.IGNORECASE,
)


def _looser_record(name: str) -> VisionModel | TransformerArchitecture | OtherModel | None:
    """A record by what remains of a name without the words of a recipe."""
    bare = _NOISE.sub(" ", re.sub(r"\(.*\)", "", name)).strip(" -_")
    bare = re.sub(r"\s+", " ", bare)
    vit_sizes = re.sub(r"vit-([bl])(\d\d)(plus-\d+)?.*", r"vit-\1-\2", bare)
    for text in (
        bare,
        "timm/" + bare.replace("resnet-", "resnet"),
        bare.replace(" ", "-"),
        vit_sizes,
        _vit_name(bare),
        _vit_name(bare).replace("_224", "_clip_224"),
        "timm/vit_base_patch14_dinov2" if "dinov2" in name.lower() else "",
        f"timm/{bare}",
        f"timm/{bare.replace('-', '_')}",
        f"torchvision/{bare.replace('-', '_')}",
        f"ultralytics/{bare}",
    ):
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
        factor = KEPT.get(kind, 2.0)
        part = ModelWork(
            wish.model, _modality(record, found.modality), kind, macs=macs * count, score_macs=sum(stage.score_macs for stage in stages) * count,
            activations=written * count, layers=sum(stage.layers for stage in stages), params=found.params, trained=found.params,
            kept=written * factor * count, block_inputs=0.12 * written * count, block=0.1 * written * factor, widest=0.06 * written, pointwise=stages[0].pointwise, assumptions=found.assumptions,
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


_RECIPE = re.compile(
    r"^(gluon|swsl|ssl|ig|tf|ens_adv|adv)_|_(ns|ap|in21ft1k|in22ft1k|in21k|in22k|dist|distilled|sam|pruned|bitm|miil|supcon|224|256|288|384|448)(?=_|$)"
)
_LEAST_LIKENESS = 0.5


def neighbour_work(wish: TrainWish) -> ModelWork | None:
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


def stated_work(wish: TrainWish) -> ModelWork | None:
    """A model that only its parameter count describes."""
    if not wish.params:
        return None
    found = forward_work(Wish(wish.model, params=wish.params))
    if found is None:
        return None
    stage = found.stages[0]
    return ModelWork(
        wish.model, "classification", stage.kind, macs=stage.macs, activations=stage.activations, layers=stage.layers, params=wish.params, trained=wish.params,
        kept=stage.activations * KEPT.get(stage.kind, 2.0), widest=0.06 * stage.activations, assumptions=found.assumptions,
    )  # fmt: skip


def spelled(name: str) -> str:
    """The record's spelling of a name."""
    return alias(name)
