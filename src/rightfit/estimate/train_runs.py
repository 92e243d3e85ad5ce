"""Samples of a whole training run, and the batch that a recipe takes where a row states none."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping

import numpy as np

from rightfit import facts
from rightfit.estimate.case_cells import number, word
from rightfit.estimate.model_work import ModelWork
from rightfit.facts.constants import constant_group, constants
from rightfit.facts.word_tables import meaning, meanings, says

TABLE = "training"  # of words

#: Mean seconds of audio per sample are in the models' work; fine-tuning of speech usually runs 15-30 epochs.
_USUAL_EPOCHS = constant_group("training_work", "usual_epochs")


@functools.cache
def _points(model: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rows = sorted((float(row["global_batch"]), float(row["samples"])) for row in facts.table("train_convergence") if row["model"] == model)
    return tuple(math.log(batch) for batch, _ in rows), tuple(math.log(samples) for _, samples in rows)


def benchmark_samples(model: str, *, global_batch: float) -> float:
    """Samples to MLPerf's target by model and global batch, from its reference convergence points; NaN where it is no benchmark."""
    name = next((name for words, name in meanings(TABLE, "benchmark", ignore_case=True) if words.fullmatch(model)), "")
    batches, samples = _points(name) if name else ((), ())
    if not batches or global_batch <= 0:
        return math.nan
    return math.exp(float(np.interp(math.log(global_batch), batches, samples)))


@functools.cache
def _data_sets() -> Mapping[tuple[str, str], float]:
    return {(row["quantity"], row["name"]): float(row["value"]) for row in facts.table("train_data_sets")}


def _of_data(quantity: str, name: str) -> float:
    """Samples of one epoch, or mean seconds of an utterance, of a data set; 0 where there is none."""
    return _data_sets()[quantity, name] if name else 0.0


def data_set_samples(name: str) -> float:
    """Samples of one epoch of a data set of facts/data/train_data_sets.csv."""
    return _of_data("samples", name)


def epoch_samples(text: str) -> float:
    """Samples of the data set that `text` names; 0 where it names none."""
    return _of_data("samples", meaning(TABLE, "epoch_data", text, ignore_case=True))


def audio_seconds(text: str) -> float:
    """Mean seconds of an utterance of the data set that `text` names; 0 where it names none."""
    return _of_data("seconds", meaning(TABLE, "spoken_data", text, ignore_case=True))


def _flag(text: str, name: str) -> float:
    found = re.search(rf"(?<![a-z_]){name}s?[ =:]+(\d+(?:\.\d+)?)|(?<![\d.])(\d+) {name}s?\b", text, re.IGNORECASE)
    return float(found[1] or found[2]) if found else 0.0


def run_samples(row: Mapping[str, str], work: ModelWork, *, global_batch: float) -> float:
    """Samples of the run that a row times: steps x batch, epochs x data set, or the benchmark's; NaN where nothing tells."""
    flags, model = word(row, "extra_flags"), word(row, "model")
    if steps := number(row, "steps") or _flag(flags, "step"):
        return steps * global_batch
    if (stated := word(row, "dataset")) and not number(row, "samples") and not epoch_samples(stated) and "mlperf" not in stated.lower():
        return math.nan  # a data set that nobody knows is not the usual one
    named = number(row, "samples") or epoch_samples(f"{word(row, 'dataset')} {flags} {model} {word(row, 'task')}")
    size = named or work.epoch_samples
    if epochs := number(row, "epochs") or _flag(flags, "epoch") or _flag(model, "epoch"):
        return epochs * size if size else math.nan
    benchmark = f"{word(row, 'dataset')} {word(row, 'framework')} {word(row, 'precision')}".lower()
    if "mlperf" in benchmark or "submitter" in benchmark:
        return benchmark_samples(model, global_batch=global_batch)
    if says(TABLE, "fine_tuned", f"{flags} {model} {word(row, 'task')}", ignore_case=True):
        return math.nan  # fine-tunes run as long as their author likes
    epochs = work.epochs or _USUAL_EPOCHS.get(work.modality, 0.0)
    return epochs * size if epochs and size else math.nan


_USUAL_BATCH = constant_group("training_work", "usual_batch")


def usual_batch(work: ModelWork, row: Mapping[str, str], num_gpus: float) -> float:
    """Samples per device where a row states none: what recipes of the task take."""
    if work.modality == "gan" and "style" in work.name.lower():
        figures = constants("training_work")
        side = float(re.sub(r"\D", "", word(row, "image_size"))[:4] or 1024)
        whole = num_gpus * min(figures["style_batch_pixels"] / side, figures["style_batch_per_gpu"])
        return max(min(whole, figures["style_batch_most"]), num_gpus) / num_gpus
    return _USUAL_BATCH.get(work.modality, constants("training_work")["usual_batch_other"])
