"""Samples of a whole training run, and the batch that a recipe takes where a row states none."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping

import numpy as np

from rightfit import facts
from rightfit.estimate.case_cells import word
from rightfit.estimate.model_work import ModelWork

#: Samples of one epoch by words of a data set (facts/data/datasets.csv and the data sets' pages).
_EPOCHS = (
    (r"imagenet.?21k", 14197122.0),
    (r"imagenet", 1281167.0),
    (r"laion.?400m", 413e6),
    (r"laion.?2b", 2.3e9),
    (r"open.?images", 1170301.0),
    (r"coco", 117266.0),
    (r"superb.?ks|speech.?commands", 51094.0),
    (r"clean.?100", 28539.0),
    (r"librispeech", 281241.0),
    (r"timit", 4620.0),
    (r"common.?voice.*\btr\b", 3478.0),
    (r"common.?voice.*\bhi\b", 4361.0),
    (r"common.?voice.?lang|common.?language|commonlang", 22194.0),
    (r"mls.?german", 469942.0),
    (r"ljspeech", 13100.0),
    (r"kinetics", 240436.0),
    (r"cityscapes", 2975.0),
    (r"ade20k", 20210.0),
    (r"voc", 10582.0),
    (r"cifar", 50000.0),
    (r"criteo.?kaggle", 45840617.0),
    (r"criteo", 4195197692.0),
    (r"movielens|ml.?20m", 99400000.0),
)
#: Mean seconds of an utterance by words of a data set (from memory of the data sets' pages).
_SECONDS = (
    (r"superb.?ks|speech.?commands", 1.0),
    (r"timit", 3.1),
    (r"common.?voice", 4.8),
    (r"superb.?si|voxceleb", 8.0),
    (r"mls", 15.0),
    (r"common.?language|commonlang", 4.4),
    (r"librispeech", 12.3),
)
#: Mean seconds of audio per sample are in the models' work; fine-tuning of speech usually runs 15-30 epochs.
_USUAL_EPOCHS = {"speech": 20.0, "graph": 1.0, "points": 1.0}


@functools.cache
def _points(model: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rows = sorted((float(row["global_batch"]), float(row["samples"])) for row in facts.table("train_convergence") if row["model"] == model)
    return tuple(math.log(batch) for batch, _ in rows), tuple(math.log(samples) for _, samples in rows)


_BENCHMARKS = (
    (r"resnet.?50.*", "resnet50"),
    (r"ssd.*", "ssd"),
    (r"retinanet.*", "retinanet"),
    (r"mask.?r?-?cnn.*", "maskrcnn"),
    (r"rnn-?t.*", "rnnt"),
    (r"(3d-?)?u-?net-?3d|unet3d.*|3d-?u-?net.*", "unet3d"),
    (r"dlrm.?dcn.*|dcn.?v2.*", "dlrm-dcnv2"),
    (r"dlrm.*", "dlrm"),
    (r"(gnn|rgat|r-gat).*", "gnn"),
    (r"stable.?diffusion.*", "stable-diffusion-v2"),
)


def benchmark_samples(model: str, *, global_batch: float) -> float:
    """Samples to MLPerf's target by model and global batch, from its reference convergence points; NaN where it is no benchmark."""
    name = next((name for pattern, name in _BENCHMARKS if re.fullmatch(pattern, model, re.IGNORECASE)), "")
    batches, samples = _points(name) if name else ((), ())
    if not batches or global_batch <= 0:
        return math.nan
    return math.exp(float(np.interp(math.log(global_batch), batches, samples)))


def epoch_samples(text: str) -> float:
    """Samples of the data set that `text` names; 0 where it names none."""
    return next((samples for pattern, samples in _EPOCHS if re.search(pattern, text, re.IGNORECASE)), 0.0)


def audio_seconds(text: str) -> float:
    """Mean seconds of an utterance of the data set that `text` names; 0 where it names none."""
    return next((seconds for pattern, seconds in _SECONDS if re.search(pattern, text, re.IGNORECASE)), 0.0)


def _flag(text: str, name: str) -> float:
    found = re.search(rf"(?<![a-z_]){name}s?[ =:]+(\d+(?:\.\d+)?)|(?<![\d.])(\d+) {name}s?\b", text, re.IGNORECASE)
    return float(found[1] or found[2]) if found else 0.0


def run_samples(row: Mapping[str, str], work: ModelWork, *, global_batch: float) -> float:
    """Samples of the run that a row times: steps x batch, epochs x data set, or the benchmark's; NaN where nothing tells."""
    flags, model = word(row, "extra_flags"), word(row, "model")
    text = f"{flags} {word(row, 'notes')}"
    if steps := _flag(text, "step"):
        return steps * global_batch
    named = epoch_samples(f"{flags} {model} {word(row, 'task')}")
    size = named or work.epoch_samples
    if epochs := _flag(flags, "epoch") or _flag(model, "epoch"):
        return epochs * size if size else math.nan
    source = f"{word(row, 'source')} {word(row, 'framework')} {word(row, 'precision')}".lower()
    if "mlperf" in source or "training_results" in source or "submitter" in source:
        return benchmark_samples(model, global_batch=global_batch)
    epochs = work.epochs or _USUAL_EPOCHS.get(work.modality, 0.0)
    return epochs * size if epochs and size else math.nan


_USUAL_BATCH = {"classification": 128.0, "detection": 2.0, "segmentation": 2.0, "diffusion": 1.0, "speech": 8.0, "recommendation": 65536.0, "video": 8.0, "detection3d": 4.0, "graph": 1024.0, "points": 16.0}  # fmt: skip


def usual_batch(work: ModelWork, row: Mapping[str, str], num_gpus: float) -> float:
    """Samples per device where a row states none: what recipes of the task take."""
    if work.modality == "gan" and "style" in work.name.lower():
        side = float(re.sub(r"\D", "", word(row, "image_size"))[:4] or 1024)
        return max(min(num_gpus * min(4096.0 / side, 32.0), 64.0), num_gpus) / num_gpus
    return _USUAL_BATCH.get(work.modality, 32.0)
