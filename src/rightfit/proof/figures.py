"""Families of figures that are scored: which measured rows are whose, what they are judged by, how they are cut.

One entry of FAMILIES is all that a new table needs to be part of `rightfit validate` and of the accuracy page: it says which rows it owns,
the parts
that have a section, an interval and a plot each, the headline figures with their targets, and the slices. Predictions come from `predict`
under
the folds of validation/folds, as for every family.
"""

from __future__ import annotations

import functools
import math
import re

from rightfit.errors import UnknownNameError
from rightfit.proof import score
from rightfit.proof.figure import FigureFamily, FigurePart, Headline, Holds, Row, metric_of, of_metrics
from rightfit.proof.figures_workloads import CLASSICAL, LOADING, VISION
from rightfit.proof.tables import cell_text, clean_row


def family(name: str) -> FigureFamily:
    """A family by its name. Raises UnknownNameError."""
    for found in FAMILIES:
        if found.name == name:
            return found
    raise UnknownNameError("family of figures", name, nearest=tuple(found.name for found in FAMILIES))


# training of language models -----------------------------------------------------------------------------------------------------------


def is_training(row: Row) -> bool:
    """Rows of the memory and throughput tables of training; vision tables have neither a method nor a micro-batch."""
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

# inference -----------------------------------------------------------------------------------------------------------------------------

_PER_TOKEN = ("tpot_ms", "decode_tok_per_s_single")
_RATES = ("output_tok_per_s_total", "total_tok_per_s", "req_per_s")
#: Requests in flight per accelerator up to which a closed loop is of low load: the first token then waits for few others.
LOW_LOAD = 4.0


def is_inference(row: Row) -> bool:
    """Rows of the inference table: a metric of inference and the columns of that table."""
    from rightfit.proof.serving_predict import INFERENCE_METRICS

    return metric_of(row) in INFERENCE_METRICS and ("engine" in row or "input_tokens" in row) and "loader" not in row


def is_serving(row: Row) -> bool:
    """Inference of language models, token by token."""
    return is_inference(row) and _generates(row)


def is_pass(row: Row) -> bool:
    """Inference of everything that is one forward pass (or a few): vision, encoders, diffusion, speech."""
    return is_inference(row) and not _generates(row)


def _generates(row: Row) -> bool:
    return _is_generation(*(cell_text(row.get(name)) for name in _KIND_COLUMNS))


_KIND_COLUMNS = ("metric", "model", "params_b", "output_tokens")


@functools.cache
def _is_generation(*cells: str) -> bool:
    from rightfit.proof.serving_predict import is_generation

    return is_generation(clean_row(dict(zip(_KIND_COLUMNS, cells, strict=True)))[0])


def is_low_load(row: Row) -> bool:
    """A closed loop (or a static batch) of at most LOW_LOAD requests per accelerator; an open loop is not, whatever its rate."""
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
    from rightfit.proof.cases.devices import forward_device

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
    from rightfit.estimate.forward_models import forward_work
    from rightfit.estimate.serving_intervals import KINDS
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

__all__ = ["FAMILIES", "FigureFamily", "FigurePart", "Headline", "Holds", "Row", "family", "metric_of", "of_metrics"]
