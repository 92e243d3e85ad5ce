"""From the name of a model that is not a language model to the work and the memory of training it on one sample.

Four ways to know a model, tried in this order: a table of models whose arithmetic no record states (train_models.csv, train_graphs.csv), a
table of denoisers (train_denoisers.csv), the parts that a detector's or segmenter's name spells out (vision_parts, train_heads.csv), and
the
bundled records (through `forward_models`, as for inference).
"""

from __future__ import annotations

import dataclasses
import functools
import re

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.estimate.model_work import KEPT, ModelWork, TrainWish, number
from rightfit.estimate.pattern_tables import first_match
from rightfit.estimate.train_networks import composed_work, denoiser_work
from rightfit.estimate.train_records import neighbour_work, recorded_work, stated_work
from rightfit.estimate.train_words import TABLE
from rightfit.facts.constants import constants
from rightfit.facts.records import TracedModel
from rightfit.facts.word_tables import shape
from rightfit.messages import Message


def train_work(wish: TrainWish) -> ModelWork:
    """Work of one sample of `wish`; UnknownNameError when nothing is known that it could be told from."""
    work = _own(wish) if facts.own_reference(wish.model) else _cached(wish)
    if work is None:
        raise UnknownNameError("model", wish.model, allowed=Message("names.part_bundled"))
    return work


def _own(wish: TrainWish) -> ModelWork | None:
    """A model of the user's own, counted at the size of input that its name says."""
    from rightfit.estimate.traced_work import own_record, traced_training

    record = own_record(wish.model)
    return traced_training(record) if isinstance(record, TracedModel) else recorded_work(wish)


@functools.lru_cache(maxsize=8192)
def _cached(wish: TrainWish) -> ModelWork | None:
    name = shape(TABLE, r"\s+\({recipe_note}\)$", ignore_case=True).sub("", wish.model.strip())
    wish = dataclasses.replace(wish, model=name)
    for resolve in (_graph, denoiser_work, _listed, composed_work, recorded_work, neighbour_work, stated_work):
        if (work := resolve(wish)) is not None:
            return work
    return None


def _graph(wish: TrainWish) -> ModelWork | None:
    if wish.task not in ("gnn", "graph", "nlp_small", "") or (row := first_match("train_graphs", wish.model, whole=True)) is None:
        return None
    macs = number(row, "gmacs_seed", 1e9)
    gathered = number(row, "gathered_seed")
    full = "fullgraph" in wish.model.lower() or "full graph" in wish.model.lower()
    params = number(row, "mparams", 1e6)
    fixed = number(row, "full_graph_gib", 2.0**30)
    if not full:
        fixed = min(fixed, constants("training_work")["graph_sampled_most_gib"] * 2.0**30)
    return ModelWork(
        wish.model, "graph", "graph", macs=macs, activations=macs / 60.0, layers=number(row, "layers"), params=params, trained=params,
        gathered=gathered, kept=macs / 30.0, fixed_bytes=fixed, host_s=number(row, "us_per_seed_host", 1e-6),
        epoch_samples=number(row, "epoch_seeds"), epochs=1.0,
    )  # fmt: skip


def _listed(wish: TrainWish) -> ModelWork | None:
    text, figures = wish.model, constants("training_work")
    if wish.task in ("gnn",) and (row := first_match("train_models", text, whole=True)) is None:
        return None
    row = first_match("train_models", text, whole=True)
    if row is None or not row["gmacs"]:
        return None
    side = number(row, "image_size")
    volume = row["kind"] == "conv3d"
    ratio = 1.0
    if side and wish.height and not volume:
        ratio = wish.height * (wish.width or wish.height) / side**2
    if row["frames"]:
        ratio *= _clip_frames(wish) / number(row, "frames")
    written = number(row, "mactivations", 1e6) * ratio
    params = number(row, "mparams", 1e6)
    tables = number(row, "mtables", 1e6)
    if total := re.search(r"(\d+(?:\.\d+)?)\s?GB total", wish.model):
        tables = float(total[1]) * 1e9 / 4.0
    seconds = wish.audio_s / 10.0 if wish.audio_s and "10 s" in row["source"] else 1.0
    macs, scores = number(row, "gmacs", 1e9) * ratio * seconds, number(row, "score_gmacs", 1e9) * ratio * seconds
    return ModelWork(
        wish.model, row["modality"], row["kind"], macs=macs, score_macs=scores, activations=written * seconds, layers=number(row, "layers"),
        params=params, trained=params, tables=tables, gathered=number(row, "gathered"),
        kept=written * seconds * (number(row, "kept_factor") or KEPT[row["kind"]]), widest=written * figures["widest_share"],
        block_inputs=written * figures["dense_block_inputs"], block=written * figures["dense_block"],
        epoch_samples=number(row, "epoch_samples"), epochs=number(row, "epochs"), units=number(row, "units") or 1.0,
    )  # fmt: skip


_CLIP = re.compile(r"(?<![\dx])(\d{1,2})x(\d{1,2})x(\d{1,2})(?![\dx])")


def _clip_frames(wish: TrainWish) -> float:
    """Frames of a sample: stated, or as video libraries write them into a name (frames x interval x clips), else those that the row is
    for."""
    if found := _CLIP.search(wish.model):
        frames = float(found[1]) * float(found[3])
        return frames * constants("training_work")["slow_fast_frames"] if "slowfast" in wish.model.lower() else frames
    row = first_match("train_models", wish.model, whole=True)
    return wish.frames or float(row["frames"] if row else 1.0)
