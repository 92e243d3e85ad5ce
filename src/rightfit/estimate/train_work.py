"""From the name of a model that is not a language model to the work and the memory of training it on one sample.

Four ways to know a model, tried in this order: a table of models whose arithmetic no record states (train_models.csv, train_graphs.csv), a
table of denoisers (train_denoisers.csv), the parts that a detector's or segmenter's name spells out (vision_parts, train_heads.csv), and
the
bundled records (through `forward_models`, as for inference).
"""

from __future__ import annotations

import dataclasses
import functools

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.estimate.model_work import KEPT, ModelWork, TrainWish
from rightfit.estimate.train_networks import composed_work, denoiser_work
from rightfit.estimate.train_records import neighbour_work, recorded_work, stated_work
from rightfit.facts.constants import constants
from rightfit.facts.records import TracedModel
from rightfit.facts.trained_networks import clip_frames, listed_training, tables_bytes, trained_graph, without_note
from rightfit.units import FP32_BYTES


def train_work(wish: TrainWish) -> ModelWork:
    """Work of one sample of `wish`; UnknownNameError when nothing is known that it could be told from."""
    work = _own(wish) if facts.own_reference(wish.model) else _cached(wish)
    if work is None:
        raise UnknownNameError("model", wish.model, allowed="give its parameters, or the name of a bundled model")
    return work


def _own(wish: TrainWish) -> ModelWork | None:
    """A model of the user's own, counted at the size of input that its name says."""
    from rightfit.estimate.traced_work import own_record, traced_training

    record = own_record(wish.model)
    return traced_training(record) if isinstance(record, TracedModel) else recorded_work(wish)


@functools.lru_cache(maxsize=8192)
def _cached(wish: TrainWish) -> ModelWork | None:
    wish = dataclasses.replace(wish, model=without_note(wish.model))
    for resolve in (_graph, denoiser_work, _listed, composed_work, recorded_work, neighbour_work, stated_work):
        if (work := resolve(wish)) is not None:
            return work
    return None


def _graph(wish: TrainWish) -> ModelWork | None:
    if wish.task not in ("gnn", "graph", "nlp_small", "") or (graph := trained_graph(wish.model)) is None:
        return None
    full = "fullgraph" in wish.model.lower() or "full graph" in wish.model.lower()
    fixed = graph.full_graph_bytes
    if not full:
        fixed = min(fixed, constants("training_work")["graph_sampled_most_gib"] * 2.0**30)
    return ModelWork(
        wish.model, "graph", "graph", macs=graph.macs, activations=graph.macs / 60.0, layers=graph.layers, params=graph.params, trained=graph.params,
        gathered=graph.gathered, kept=graph.macs / 30.0, fixed_bytes=fixed, host_s=graph.host_s, epoch_samples=graph.epoch_seeds, epochs=1.0,
    )  # fmt: skip


def _listed(wish: TrainWish) -> ModelWork | None:
    listed, figures = listed_training(wish.model), constants("training_work")
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


def _clip_frames(wish: TrainWish, usual: float) -> float:
    """Frames of a sample: stated, or as video libraries write them into a name (frames x interval x clips), else those that the row is
    for."""
    if frames := clip_frames(wish.model):
        return frames * constants("training_work")["slow_fast_frames"] if "slowfast" in wish.model.lower() else frames
    return wish.frames or usual
