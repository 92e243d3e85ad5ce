"""Families of figures of what is neither a language model nor a forward pass: training of vision and its kin, classical machine learning,
data loading."""

from __future__ import annotations

import functools
import math

from rightfit.proof import score
from rightfit.proof.figure import FigureFamily, FigurePart, Headline, Holds, Row, metric_of, of_metrics
from rightfit.proof.tables import cell_text

_MEMORY = "peak_mem_gib_per_gpu"
_DURATION = "time_to_train_min"
_RATES = ("images_per_s_total", "samples_per_s_total", "s_per_iter")


# training of vision, detection, diffusion, speech, recommenders, graphs ----------------------------------------------------------------


def is_vision(row: Row) -> bool:
    """Rows of the table of training that is not of language models."""
    wrong = ("loader", "engine", "micro_batch", "method")
    return metric_of(row) in (*_RATES, _DURATION, _MEMORY) and "image_size" in row and not any(name in row for name in wrong)


@functools.lru_cache(maxsize=8192)
def _modality(task: str, model: str) -> str:
    words = f"{task} {model}".lower()
    for name, pieces in _MODALITIES:
        if any(piece in words for piece in pieces):
            return name
    return "other"


_MODALITIES = (
    ("diffusion", ("diffusion", "text_to", "gan")),
    ("detection", ("detection", "instance", "panoptic", "keypoint")),
    ("segmentation", ("segmentation", "unet", "u-net")),
    ("speech", ("speech", "asr", "tts", "audio")),
    ("recommendation", ("recommend", "dlrm", "ranking")),
    ("vision", ("classification", "self-supervised", "contrastive", "video")),
)


def modality(row: Row) -> str:
    """vision, detection, segmentation, diffusion, speech, recommendation, or other (graphs, time series)."""
    return _modality(cell_text(row.get("task")), cell_text(row.get("model")))


def _of(metrics: tuple[str, ...], *names: str) -> Holds:
    return lambda row: metric_of(row) in metrics and (not names or modality(row) in names)


def _training_job(row: Row) -> str:
    text = {name: cell_text(row.get(name)) for name in ("model", "precision", "framework", "n_gpus", "gpu", "batch_per_gpu", "image_size")}
    batch, size = text["batch_per_gpu"] or "not stated", text["image_size"][:24]
    machine = f"{text['n_gpus'] or '?'}x {text['gpu']}"
    return f"{metric_of(row)}: {text['model']} {text['precision'][:24]}, {text['framework'][:24]}, {machine}, batch {batch}, {size}"


VISION = FigureFamily(
    name="vision",
    title="Training of vision, detection, diffusion, speech, recommenders, graphs",
    tables=("vision_train",),
    owns=is_vision,
    parts=(
        FigurePart("rates", "vision training, rates", "Rates and step times", "samples/s, s per step", _of(_RATES), colour=modality),
        FigurePart("runs", "vision training, whole runs", "Whole runs", "minutes", _of((_DURATION,)), colour=modality),
        FigurePart("memory", "vision training, memory", "Memory", "peak memory per GPU, GiB", _of((_MEMORY,)), colour=modality),
    ),
    headlines=(
        Headline("vision training, rates of classifiers", _of(_RATES, "vision"), (0.12, 0.35)),
        Headline("vision training, rates of detectors and segmenters", _of(_RATES, "detection", "segmentation"), (0.12, 0.35)),
        Headline("vision training, rates of diffusion", _of(_RATES, "diffusion"), (0.12, 0.35)),
        Headline("vision training, rates of speech, recommenders, others", _of(_RATES, "speech", "recommendation", "other")),
        Headline("vision training, whole runs", _of((_DURATION,))),
        Headline("vision training, memory of detectors", _of((_MEMORY,), "detection"), (0.15, math.inf)),
        Headline("vision training, memory of segmenters", _of((_MEMORY,), "segmentation"), (0.10, 0.30)),
        Headline("vision training, memory of diffusion", _of((_MEMORY,), "diffusion"), (0.10, 0.30)),
        Headline("vision training, memory of others", _of((_MEMORY,), "vision", "speech", "recommendation", "other")),
    ),
    slices={
        "source": score.text_group("source"),
        "metric": metric_of,
        "kind": modality,
        "accelerator": score.text_group("gpu"),
    },
    job=_training_job,
    plot="vision_",
)

# classical machine learning ------------------------------------------------------------------------------------------------------------

_TIMES = ("train_time_s", "predict_time_s")


def is_classical(row: Row) -> bool:
    """Rows of the table of classical machine learning."""
    return metric_of(row) in (*_TIMES, "peak_ram_gib") and "library" in row and "algorithm" in row


def _on_gpu(row: Row) -> bool:
    return bool(cell_text(row.get("gpu")))


def _classical_job(row: Row) -> str:
    text = {name: cell_text(row.get(name)) for name in ("library", "algorithm", "rows", "cols", "cores", "hardware", "gpu")}
    where = text["gpu"] or f"{text['cores'] or '?'} cores, {text['hardware'][:40]}"
    return f"{metric_of(row)}: {text['library']} {text['algorithm'][:32]}, {text['rows']} x {text['cols']}, {where}"


CLASSICAL = FigureFamily(
    name="classical",
    title="Classical machine learning (errors are factors less one: 60 % is 1.6 times either way)",
    tables=("classical_ml",),
    owns=is_classical,
    parts=(
        FigurePart("time", "classical, time", "Time", "seconds", of_metrics(*_TIMES), colour=score.text_group("library")),
        FigurePart("memory", "classical, memory", "Memory", "GiB", of_metrics("peak_ram_gib"), colour=score.text_group("library")),
    ),
    headlines=(
        Headline("classical, time on processors", lambda row: metric_of(row) in _TIMES and not _on_gpu(row), (0.60, 1.50)),
        Headline("classical, time on GPUs", lambda row: metric_of(row) in _TIMES and _on_gpu(row), (0.60, 1.50)),
        Headline("classical, memory", of_metrics("peak_ram_gib"), (0.30, 1.50)),
    ),
    slices={
        "source": score.text_group("source"),
        "metric": metric_of,
        "library": score.text_group("library"),
    },
    job=_classical_job,
    plot="classical_",
    is_factor=True,
)

# data loading --------------------------------------------------------------------------------------------------------------------------

_LOADED = ("images_per_s", "frames_per_s", "samples_per_s", "items_per_s", "clips_per_s")


def is_loading(row: Row) -> bool:
    """Rows of the table of loaders."""
    return "loader" in row and "sample_kind" in row


def _loading_job(row: Row) -> str:
    text = {name: cell_text(row.get(name)) for name in ("what", "loader", "hardware", "cpu_cores", "sample_kind")}
    return f"{metric_of(row)}: {text['loader'][:40]}, {text['what'][:40]}, {text['cpu_cores'] or '?'} cores, {text['hardware'][:32]}"


_is_rate = of_metrics(*_LOADED)


def _is_size(row: Row) -> bool:
    return not _is_rate(row)


def _decodes(row: Row) -> bool:
    from rightfit.proof.cases.loading import read_case

    return read_case({name: cell_text(value) for name, value in row.items()}).case.work == "decode"


LOADING = FigureFamily(
    name="loading",
    title="Data loading",
    tables=("data_loading",),
    owns=is_loading,
    parts=(
        FigurePart("rates", "data loading, rates", "Samples per second", "samples/s", _is_rate, colour=score.text_group("source")),
        FigurePart("sizes", "data loading, sizes", "Sizes, and rates that accelerators need", "as stated", _is_size, colour=metric_of),
    ),
    headlines=(
        Headline("data loading, decoding", lambda row: _is_rate(row) and _decodes(row), (0.20, math.inf)),
        Headline("data loading, pipelines", lambda row: _is_rate(row) and not _decodes(row), (0.20, math.inf)),
        Headline("data loading, sizes", _is_size),
    ),
    slices={
        "source": score.text_group("source"),
        "loader": score.text_group("loader"),
    },
    job=_loading_job,
    plot="loading_",
)
