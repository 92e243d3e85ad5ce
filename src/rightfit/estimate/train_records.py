"""Work of models that have a record, of their neighbours, and of models that only a parameter count describes."""

from __future__ import annotations

import dataclasses
import functools

from rightfit import facts
from rightfit.estimate.forward_models import forward_work, record_of
from rightfit.estimate.forward_records import ForwardWish
from rightfit.estimate.model_work import KEPT, ModelWork, TrainWish
from rightfit.estimate.train_networks import recorded_denoiser
from rightfit.facts.constants import constants
from rightfit.facts.records import DiffusionModel, OtherModel, TransformerArchitecture, VisionModel
from rightfit.facts.trained_networks import data_set_samples, letters_of, looser_names, patch_of, style_generation, without_recipe

_FIGURES = constants("training_work")


def recorded_work(wish: TrainWish) -> ModelWork | None:
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


def _from_forward(wish: TrainWish, record: object) -> ModelWork | None:
    name = getattr(record, "name", wish.model)
    views = wish.views or ((wish.height, 1.0),)
    total: ModelWork | None = None
    for side, count in views:
        width = wish.width if not wish.views else side
        found = forward_work(ForwardWish(name, height=side, width=width or side, frames=wish.frames, audio_s=wish.audio_s))
        if found is None:
            return None
        stages = found.stages
        kind = stages[0].kind
        macs = sum(
            stage.macs * max(stage.repeats, 1.0) if stage.kind != "decode" else stage.macs * _FIGURES["decoded_tokens"] for stage in stages
        )
        written = sum(stage.activations for stage in stages)
        factor = KEPT.get(kind, 2.0)
        part = ModelWork(
            wish.model, _modality(record, found.modality), kind, macs=macs * count, score_macs=sum(stage.score_macs for stage in stages) * count,
            activations=written * count, layers=sum(stage.layers for stage in stages), params=found.params, trained=found.params,
            kept=written * factor * count, block_inputs=_FIGURES["block_inputs_share"] * written * count, block=_FIGURES["block_share"] * written * factor,
            widest=_FIGURES["widest_share"] * written, pointwise=stages[0].pointwise, assumptions=found.assumptions,
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


def neighbour_work(wish: TrainWish) -> ModelWork | None:
    """A classifier that no record has, like the record whose name is nearest: its arithmetic per parameter, scaled to the stated
    parameters."""
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


def _generative(wish: TrainWish, generation: str) -> ModelWork | None:
    """StyleGAN: one image costs a generator and a discriminator step; regularisation comes every few steps (lazy).

    A step of three passes each: generator 1 1/3 and discriminator 3 times its forward pass, a fifth more for regularisation.
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


def stated_work(wish: TrainWish) -> ModelWork | None:
    """A model that only its parameter count describes."""
    if not wish.params:
        return None
    found = forward_work(ForwardWish(wish.model, params=wish.params))
    if found is None:
        return None
    stage = found.stages[0]
    return ModelWork(
        wish.model, "classification", stage.kind, macs=stage.macs, activations=stage.activations, layers=stage.layers, params=wish.params, trained=wish.params,
        kept=stage.activations * KEPT.get(stage.kind, 2.0), widest=_FIGURES["widest_share"] * stage.activations, assumptions=found.assumptions,
    )  # fmt: skip
