"""Families of figures that are scored: which measured rows are whose, what they are judged
by, how they are cut.

One entry of FAMILIES is all that a new table needs to be part of `rightfit validate` and of the
accuracy page: it says which rows it owns, the parts that have a section, an interval and a plot
each, the headline figures with their targets, and the slices. Predictions come from `predict` under
the folds of validation/folds, as for every family.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from rightfit.errors import UnknownNameError
from rightfit.proof import score
from rightfit.proof.tables import Truth, cell_text, clean_row
from rightfit.records import dataclass

# ---- What a family of scored figures is: its rows, its parts with a section each, its headline
# figures with targets, its slices.

Row = Mapping[str, Any]
Holds = Callable[[Row], bool]
Words = Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure that the project is judged by: the rows it is of, and the largest median APE
    and P90 allowed (infinite: none at P90; None: shown and kept from getting worse, but
    without a target)."""

    name: str
    holds: Holds
    targets: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class FigurePart:
    """A quantity with a section of its own. `label` names it in headline.json and in tables,
    `unit` on the axes of its plot; `width80` is the largest median width of its 80 % interval
    (None: no target)."""

    name: str
    label: str
    title: str
    unit: str
    holds: Holds
    width80: float | None = None
    colour: Words = score.headline_group


@dataclass(frozen=True, slots=True)
class FigureFamily:
    """One kind of work whose figures are measured in `tables`.

    `owns` picks its rows; `withheld` is the column whose absence is scored too (nothing when
    empty), with the reason in `withheld_why`; `is_factor` where an error is a factor: the larger of
    prediction and measurement over the smaller, less one, instead of predicted / measured - 1;
    `has_verdicts` says whether rows tell fits from does not fit; `plot` is the beginning of its
    plots' file names.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    owns: Holds
    parts: tuple[FigurePart, ...]
    headlines: tuple[Headline, ...]
    slices: Mapping[str, Words]
    job: Words
    plot: str = ""
    withheld: str = ""
    withheld_why: str = ""
    has_verdicts: bool = False
    is_factor: bool = False

    def label_of(self, row: Row) -> str:
        """The label of the first part that a row is of; empty where it is of none."""
        return next((part.label for part in self.parts if part.holds(row)), "")

    def rows(self, truth: Truth) -> Truth:
        """The rows of this family; a folder may hold tables of any name, so the columns
        decide, not the file."""
        keep = [i for i, row in enumerate(truth.rows) if self.owns(row)]
        return Truth([truth.rows[i] for i in keep], [truth.table[i] for i in keep], [truth.excluded[i] for i in keep], truth.files)


def metric_of(row: Row) -> str:
    """The row's metric."""
    return cell_text(row.get("metric"))


def of_metrics(*metrics: str) -> Holds:
    """Whether a row is of one of these metrics."""
    return lambda row: metric_of(row) in metrics


# ---- Families of figures of what is neither a language model nor a forward pass: training of
# vision and its kin, classical machine learning, data loading.

_MEMORY = "peak_mem_gib_per_gpu"
_DURATION = "time_to_train_min"
_WORKLOAD_RATES = ("images_per_s_total", "samples_per_s_total", "s_per_iter")


# training of vision, detection, diffusion, speech, recommenders, graphs ---------------------------


def is_vision(row: Row) -> bool:
    """Rows of the table of training that is not of language models."""
    wrong = ("loader", "engine", "micro_batch", "method")
    return metric_of(row) in (*_WORKLOAD_RATES, _DURATION, _MEMORY) and "image_size" in row and not any(name in row for name in wrong)


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
    """vision, detection, segmentation, diffusion, speech, recommendation, or other
    (graphs, time series)."""
    return _modality(cell_text(row.get("task")), cell_text(row.get("model")))


def _of(metrics: tuple[str, ...], *names: str) -> Holds:
    return lambda row: metric_of(row) in metrics and (not names or modality(row) in names)


def _workload_job(row: Row) -> str:
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
        FigurePart(
            "rates", "vision training, rates", "Rates and step times", "samples/s, s per step", _of(_WORKLOAD_RATES), colour=modality
        ),
        FigurePart("runs", "vision training, whole runs", "Whole runs", "minutes", _of((_DURATION,)), colour=modality),
        FigurePart("memory", "vision training, memory", "Memory", "peak memory per GPU, GiB", _of((_MEMORY,)), colour=modality),
    ),
    headlines=(
        Headline("vision training, rates of classifiers", _of(_WORKLOAD_RATES, "vision"), (0.12, 0.35)),
        Headline("vision training, rates of detectors and segmenters", _of(_WORKLOAD_RATES, "detection", "segmentation"), (0.12, 0.35)),
        Headline("vision training, rates of diffusion", _of(_WORKLOAD_RATES, "diffusion"), (0.12, 0.35)),
        Headline("vision training, rates of speech, recommenders, others", _of(_WORKLOAD_RATES, "speech", "recommendation", "other")),
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
    job=_workload_job,
    plot="vision_",
)

# classical machine learning -----------------------------------------------------------------------

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

# data loading -------------------------------------------------------------------------------------

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
    from rightfit.proof.cases.forward import read_loading_case

    return read_loading_case({name: cell_text(value) for name, value in row.items()}).case.work == "decode"


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


def family(name: str) -> FigureFamily:
    """A family by its name. Raises UnknownNameError."""
    for found in FAMILIES:
        if found.name == name:
            return found
    raise UnknownNameError("family of figures", name, nearest=tuple(found.name for found in FAMILIES))


# training of language models ----------------------------------------------------------------------


def is_training(row: Row) -> bool:
    """Rows of the memory and throughput tables of training; vision tables have neither a method
    nor a micro-batch."""
    from rightfit.proof.predict import TRAINING_METRICS

    return metric_of(row) in TRAINING_METRICS and ("method" in row or "micro_batch" in row)


def _training_job(row: Row) -> str:
    model = cell_text(row.get("model")).rsplit("/", 1)[-1]
    text = {name: cell_text(row.get(name)) for name in ("method", "n_gpus", "gpu", "micro_batch", "seq_len")}
    return f"{model}, {text['method']}, {text['n_gpus']}x {text['gpu']}, batch {text['micro_batch']} x {text['seq_len']}"


def _is_headline(name: str) -> Holds:
    return lambda row: score.headline_group(row) == name


TRAINING = FigureFamily(
    name="training",
    title="Training of language models",
    tables=("train_memory", "train_throughput"),
    owns=is_training,
    parts=(
        FigurePart("memory", "memory", "Memory", "peak memory per GPU, GiB", score.is_memory, width80=0.25),
        FigurePart("time", "time", "Throughput and step time", "tokens/s per GPU", lambda row: not score.is_memory(row), width80=0.40),
    ),
    headlines=tuple(
        Headline(name, _is_headline(name), targets)
        for name, targets in {
            "memory, full": (0.06, 0.18),
            "memory, adapters": (0.08, 0.25),
            "time, one node": (0.10, 0.30),
            "time, many nodes": (0.12, 0.35),
        }.items()
    ),
    slices=score.SLICES,
    job=_training_job,
    withheld="framework",
    withheld_why="""The habits of a training stack (what it keeps in fp32, whether it stores the logits) are data of ours, in part learned from the stacks measured
here; leaving a source out takes away its coefficients but not those habits. The same rows with the framework's name withheld show what remains
for a stack that nobody has looked at; the interval widens accordingly.""",
    has_verdicts=True,
)

# inference ----------------------------------------------------------------------------------------

_PER_TOKEN = ("tpot_ms", "decode_tok_per_s_single")
_RATES = ("output_tok_per_s_total", "total_tok_per_s", "req_per_s")
#: Requests in flight per accelerator up to which a closed loop is of low load: the first token then
#: waits for few others.
LOW_LOAD = 4.0


def is_inference(row: Row) -> bool:
    """Rows of the inference table: a metric of inference and the columns of that table."""
    from rightfit.proof.serving_predict import INFERENCE_METRICS

    return metric_of(row) in INFERENCE_METRICS and ("engine" in row or "input_tokens" in row) and "loader" not in row


def is_serving(row: Row) -> bool:
    """Inference of language models, token by token."""
    return is_inference(row) and _generates(row)


def is_pass(row: Row) -> bool:
    """Inference of everything that is one forward pass (or a few): vision, encoders,
    diffusion, speech."""
    return is_inference(row) and not _generates(row)


def _generates(row: Row) -> bool:
    return _is_generation(*(cell_text(row.get(name)) for name in _KIND_COLUMNS))


_KIND_COLUMNS = ("metric", "model", "params_b", "output_tokens")


@functools.cache
def _is_generation(*cells: str) -> bool:
    from rightfit.proof.serving_predict import is_generation

    return is_generation(clean_row(dict(zip(_KIND_COLUMNS, cells, strict=True)))[0])


def is_low_load(row: Row) -> bool:
    """A closed loop (or a static batch) of at most LOW_LOAD requests per accelerator; an open loop
    is not, whatever its rate."""
    in_flight = score.number(row.get("batch_or_concurrency"))
    return not cell_text(row.get("request_rate")) and in_flight <= LOW_LOAD * max(_devices(row), 1.0)


def _devices(row: Row) -> float:
    value = score.number(row.get("n_devices"))
    return 1.0 if math.isnan(value) else value


def load_group(row: Row) -> str:
    """How requests arrive, in classes."""
    rate, in_flight = cell_text(row.get("request_rate")), cell_text(row.get("batch_or_concurrency"))
    if rate and rate != "inf":
        return "open loop"
    number = score.number(in_flight)
    if rate == "inf" or (in_flight and math.isnan(number)):
        return "all at once, as many as fit"
    if math.isnan(number):
        return "not stated"
    return next(name for edge, name in _LOADS if number <= edge)


_LOADS = ((1.0, "one request"), (16.0, "2 to 16 in flight"), (128.0, "17 to 128 in flight"), (math.inf, "over 128 in flight"))


def engine_group(row: Row) -> str:
    """The engine without its version and what stands in brackets."""
    name = cell_text(row.get("engine")).split(" (")[0]
    return re.sub(r"\s+v?\d[\d.]*$", "", name) or "unknown"


@functools.cache
def _card_class(device: str) -> str:
    from rightfit.proof.cases.reader import forward_device

    found = forward_device(device) if device else None
    return found.silicon.replace("_", " ") if found else "unknown"


def card_class(row: Row) -> str:
    """Family of the row's accelerator or processor."""
    return _card_class(cell_text(row.get("device")))


def weights_group(row: Row) -> str:
    """Format of the weights."""
    return cell_text(row.get("weights_dtype")) or "unknown"


def params_group(row: Row) -> str:
    """Parameters of the model, in classes."""
    billions = score.number(row.get("params_b"))
    edges = ((1.0, "under 1B"), (4.0, "1B to 4B"), (10.0, "4B to 10B"), (40.0, "10B to 40B"), (math.inf, "over 40B"))
    return "unknown" if math.isnan(billions) else next(name for edge, name in edges if billions < edge)


def _inference_job(row: Row) -> str:
    text = {name: cell_text(row.get(name)) for name in ("model", "weights_dtype", "engine", "n_devices", "device", "batch_or_concurrency")}
    tokens = (
        f", {cell_text(row.get('input_tokens'))} + {cell_text(row.get('output_tokens'))} tokens"
        if cell_text(row.get("input_tokens"))
        else ""
    )
    model = text["model"].rsplit("/", 1)[-1]
    batch = text["batch_or_concurrency"] or "not stated"
    return (
        f"{metric_of(row)}: {model} {text['weights_dtype']}, {text['engine']}, {text['n_devices']}x {text['device']}, batch {batch}{tokens}"
    )


_FIRST = of_metrics("ttft_ms")

SERVING = FigureFamily(
    name="serving",
    title="Serving of language models",
    tables=("inference",),
    owns=is_serving,
    parts=(
        FigurePart(
            "time per token",
            "serving, time per token",
            "Time per token",
            "ms per token, tokens/s of one request",
            of_metrics(*_PER_TOKEN),
            colour=metric_of,
        ),
        FigurePart("throughput", "serving, throughput", "Throughput", "tokens/s", of_metrics(*_RATES), colour=load_group),
        FigurePart("first token", "serving, first token", "Time to the first token", "ms", _FIRST, colour=load_group),
        FigurePart("prefill", "serving, prefill", "Prefill", "tokens/s", of_metrics("prefill_tok_per_s"), colour=weights_group),
        FigurePart("latency", "serving, latency", "Latency of a request or batch", "ms", of_metrics("latency_ms"), colour=engine_group),
        FigurePart("memory", "serving, memory", "Memory", "GiB", of_metrics("peak_mem_gib"), colour=engine_group),
    ),
    headlines=(
        Headline("serving, time per token", of_metrics(*_PER_TOKEN), (0.10, 0.30)),
        Headline("serving, throughput", of_metrics(*_RATES), (0.12, 0.35)),
        Headline("serving, first token at low load", lambda row: _FIRST(row) and is_low_load(row), (0.20, 0.50)),
        Headline("serving, first token under load", lambda row: _FIRST(row) and not is_low_load(row)),
        Headline("serving, prefill", of_metrics("prefill_tok_per_s")),
        Headline("serving, latency", of_metrics("latency_ms")),
        Headline("serving, memory", of_metrics("peak_mem_gib"), (0.06, 0.18)),
    ),
    slices={
        "source": score.text_group("source"),
        "metric": metric_of,
        "load": load_group,
        "engine": engine_group,
        "card class": card_class,
        "weights": weights_group,
        "size": params_group,
    },
    job=_inference_job,
    plot="serving_",
    withheld="engine",
    withheld_why="""What an engine is capable of is fitted by class of engine. The same rows with the engine's name withheld show what remains for one that nobody has
looked at; the interval widens accordingly.""",
)


#: Columns that tell what a model of one pass does.
_OF_KIND = ("model", "params_b", "image_size", "gmacs", "mactivations", "metric")


@functools.cache
def _kind(*cells: str) -> str:
    from rightfit.estimation.figures import KINDS
    from rightfit.estimation.forward_models import forward_work
    from rightfit.proof.cases.forward import wish_of

    work = forward_work(wish_of(dict(zip(_OF_KIND, cells, strict=True))))
    return KINDS.get(work.modality, "other").removeprefix("forward-") if work else "other"


def pass_kind(row: Row) -> str:
    """vision, encoder, diffusion, speech, or other."""
    return _kind(*(cell_text(row.get(name)) for name in _OF_KIND))


def _pass_speed(row: Row) -> bool:
    return metric_of(row) != "peak_mem_gib"


PASS_KINDS = ("vision", "encoder", "diffusion", "speech")
PASSES = FigureFamily(
    name="passes",
    title="Forward passes: vision, encoders, diffusion, speech",
    tables=("inference",),
    owns=is_pass,
    parts=(
        FigurePart("speed", "passes, speed", "Latency and throughput", "ms, or items/s", _pass_speed, colour=pass_kind),
        FigurePart("memory", "passes, memory", "Memory", "GiB", of_metrics("peak_mem_gib"), colour=pass_kind),
    ),
    headlines=(
        Headline("passes, latency and throughput", _pass_speed, (0.12, 0.35)),
        *(Headline(f"passes, {kind}", lambda row, kind=kind: _pass_speed(row) and pass_kind(row) == kind) for kind in PASS_KINDS),  # type: ignore[misc]
        Headline("passes, memory", of_metrics("peak_mem_gib"), (0.06, 0.18)),
    ),
    slices={
        "source": score.text_group("source"),
        "metric": metric_of,
        "kind": pass_kind,
        "engine": engine_group,
        "card class": card_class,
        "weights": weights_group,
    },
    job=_inference_job,
    plot="passes_",
    withheld="engine",
    withheld_why="The same rows with the engine's name withheld.",
)

#: Every family of the accuracy page, in its order.
FAMILIES: tuple[FigureFamily, ...] = (TRAINING, SERVING, PASSES, VISION, CLASSICAL, LOADING)
