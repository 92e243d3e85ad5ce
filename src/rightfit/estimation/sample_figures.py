"""Figures of training that is not of language models: rates, step times, durations, memory, fits or
not, with their intervals."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.figures import FigureColumns
from rightfit.estimation.pass_records import ModelWork
from rightfit.estimation.sample_training import (
    Coefficients,
    TrainDevices,
    TrainingColumns,
    TrainSetup,
    WorkColumns,
    coefficients,
    training_columns,
)
from rightfit.physics.columns import Array, LinkColumns
from rightfit.records import dataclass
from rightfit.units import GIB

SAMPLE_MEMORY_METRIC = "peak_mem_gib_per_gpu"
RATE_METRICS = ("images_per_s_total", "samples_per_s_total")
STEP_METRIC = "s_per_iter"
DURATION_METRIC = "time_to_train_min"
FIT_METRICS = ("fits", "does_not_fit")
VISION_METRICS = (*RATE_METRICS, STEP_METRIC, DURATION_METRIC, SAMPLE_MEMORY_METRIC, *FIT_METRICS)

PROBABILITIES = (0.025, 0.1, 0.9, 0.975)
#: Groups of figures whose errors are alike, by metric and modality; those without a line in
#: facts/data/vision_intervals.csv take the parent.
TIME_PARENT, MEMORY_PARENT = "time", "memory"
#: Memory of image networks is one kind of error: what autograd keeps of convolutions and attention,
#: counted layer by layer, whatever the task.
MEMORY_IMAGES = "memory-images"
_IMAGE_TASKS = ("vision", "detection", "segmentation")
_FAMILIES = {
    "classification": "vision",
    "self-supervised": "vision",
    "contrastive": "vision",
    "video": "vision",
    "detection": "detection",
    "detection3d": "detection",
    "segmentation": "segmentation",
    "diffusion": "diffusion",
    "gan": "diffusion",
    "speech": "speech",
    "recommendation": "recommendation",
}


@dataclass(frozen=True, slots=True)
class SamplesCases:
    """Training jobs as columns, one row each: `works` and how they are trained; `samples` of the
    whole run (NaN = not told), `benchmark` 1 for a tuned benchmark run, `has_device` where the card
    is known, else `stated_bytes` is its size, 0 where that is not known either. `doubts`: inputs
    that were assumed, `memory_doubts`: those that memory depends on, `unsure_counter` 1 where what
    counted it is a guess."""

    works: tuple[ModelWork, ...]
    work: WorkColumns
    setup: TrainSetup
    device: TrainDevices
    links: LinkColumns
    samples: Array
    benchmark: Array
    has_device: NDArray[np.bool_]
    stated_bytes: Array
    doubts: Array
    memory_doubts: Array
    unsure_counter: Array

    def __len__(self) -> int:
        return len(self.works)


def sample_metric_values(cases: SamplesCases, values: Coefficients | None = None) -> tuple[dict[str, Array], TrainingColumns]:
    """Every metric of every case by name, in the unit of the table, and the columns
    that they come from."""
    values = values or coefficients()
    found = training_columns(cases.work, cases.setup, cases.device, cases.links, values=values)
    minutes = (
        cases.samples / found.samples_per_s * values["run_overhead"] + np.where(cases.benchmark > 0, values["run_start_s"], 0.0)
    ) / 60.0
    units = np.array([work.units for work in cases.works])
    figures = dict.fromkeys(RATE_METRICS, found.samples_per_s * units) | {STEP_METRIC: found.step_s, DURATION_METRIC: minutes}
    figures |= {SAMPLE_MEMORY_METRIC: found.peak_bytes / GIB} | dict.fromkeys(FIT_METRICS, found.required_bytes / GIB)
    return figures, found


def fits_columns(cases: SamplesCases, columns: TrainingColumns) -> NDArray[np.bool_]:
    """Whether each job fits the card that its row names, or one of the size that it states."""
    capacity = np.where(cases.has_device, columns.capacity_bytes, cases.stated_bytes)
    return np.less_equal(np.broadcast_to(columns.required_bytes, capacity.shape), capacity)


def sample_interval_group(metric: str, modality: str) -> str:
    """The group whose errors a figure shares: memory, rate or duration of a family of models."""
    family = _FAMILIES.get(modality, "other")
    if metric == SAMPLE_MEMORY_METRIC or metric in FIT_METRICS:
        return MEMORY_IMAGES if family in _IMAGE_TASKS else f"{MEMORY_PARENT}-{family}"
    return f"{'run' if metric == DURATION_METRIC else TIME_PARENT}-{family}"


def parent_of(group: str) -> str:
    """The group that stands in for one with too few measured rows."""
    return MEMORY_PARENT if group.startswith(MEMORY_PARENT) else TIME_PARENT


def row_doubts(cases: SamplesCases, metric: str) -> tuple[Array, Array]:
    """Assumed inputs that bear on `metric`, and 1 where the counter of memory is a guess, for every
    case. Which card runs a job does not bear on its memory."""
    if metric == SAMPLE_MEMORY_METRIC or metric in FIT_METRICS:
        return cases.memory_doubts, cases.unsure_counter
    return cases.doubts, np.zeros(len(cases))


@functools.cache
def _quantiles() -> Mapping[str, tuple[float, ...]]:
    table: dict[str, dict[str, float]] = {}
    for row in facts.table("vision_intervals"):
        table.setdefault(row["group"], {})[row["name"]] = float(row["value"])
    return {group: (*(found[f"{p:g}"] for p in PROBABILITIES), found["doubt"], found.get("counter", 0.0)) for group, found in table.items()}


def interval_scale(doubts: Array, unsure_counter: Array | float, *, doubt: Array | float, counter: Array | float) -> Array:
    """How many times as wide as the group's an interval is (in logs): wider by `doubt` for each of
    up to three assumed inputs, and by `counter` where nobody says what counted the memory (the
    allocator, the driver, or an author who rounds up to a card)."""
    return np.asarray(1.0 + doubt * np.minimum(doubts, 3.0) + counter * np.asarray(unsure_counter), dtype=np.float64)


def vision_interval(
    metric: str, mid: Array, *, modality: Sequence[str] | str, doubts: Array, unsure_counter: Array | float = 0.0
) -> FigureColumns:
    """Figures with their 80 % and 95 % intervals. mid, doubts: (N,); `doubts` counts the inputs
    that were assumed; see `interval_scale`.

    Conformal: quantiles of log(measured / predicted) on sources that the coefficients were not
    fitted on, by group (validation/fit_vision.py).
    """
    names = [modality] * len(mid) if isinstance(modality, str) else list(modality)
    table = _quantiles()
    rows = np.array([table.get(group, table[parent_of(group)]) for group in (sample_interval_group(metric, name) for name in names)])
    scale = interval_scale(doubts, unsure_counter, doubt=rows[:, 4], counter=rows[:, 5])
    low95, low80, high80, high95 = (np.asarray(mid * np.exp(scale * rows[:, i])) for i in range(4))
    return FigureColumns(np.asarray(mid, dtype=np.float64), low80, high80, low95, high95)
