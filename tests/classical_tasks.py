"""Tasks of classical machine learning by their words, and one task on many servers put together
from the parts of estimation/: what tests measure the search by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.classical import (
    ClassicalTask,
    TableCase,
    advice_codes,
    classical_task,
    gpu_memory,
    gpu_support,
    job_columns,
    ram_terms,
    time_terms,
    total,
)
from rightfit.estimation.classical_rates import ClassicalKinds, card_figures, coefficients, cpu_columns, gpu_columns
from rightfit.estimation.figures import FigureColumns, classical_interval
from rightfit.facts.classical import algorithm_named
from rightfit.facts.machines import host_processor
from rightfit.physics.classical import CpuColumns, GpuColumns
from rightfit.physics.classical_work import Algorithm
from rightfit.physics.columns import Array


def named_task(algorithm: str, *, rows: float, cols: float, library: str = "", settings: str = "", data: str = "") -> ClassicalTask:
    """The task that names, sizes and settings describe."""
    told = algorithm_named(algorithm, library=library, settings=settings, data=data)
    return classical_task(TableCase(Algorithm[told.algorithm], told.library, rows, cols, told.settings))


def named_hosts(*names: str, vcpus: list[float], memory_bytes: list[float]) -> CpuColumns:
    """Servers by the names of their processors."""
    return cpu_columns([host_processor(name) for name in names], vcpus=np.array(vcpus), memory_bytes=np.array(memory_bytes))


def named_cards(*names: str) -> GpuColumns:
    """One card of each name."""
    return gpu_columns([card_figures(facts.accelerator(name, typical=True)) for name in names])


class TaskFigures(NamedTuple):
    """What a task takes on N servers."""

    time_s: FigureColumns
    peak_ram_bytes: FigureColumns
    gpu_peak_bytes: Array
    fits: NDArray[np.bool_]
    time_terms: Mapping[str, Array]
    advice: tuple[tuple[str, ...], ...]


def figures_of(task: ClassicalTask, cpu: CpuColumns, *, gpu: GpuColumns | None = None) -> TaskFigures:
    """Time, memory, what fits and advice of one task on N servers; with `gpu` on their GPUs."""
    if gpu is not None:
        supported = gpu_support(task)
        assert supported is not None
        task = supported
    values, count = coefficients(), cpu.num_rows
    job, kinds = job_columns([task]), ClassicalKinds([task.kind])
    terms = time_terms(job, kinds, cpu, values, gpu=gpu, on_gpu=None if gpu is None else np.ones(count))
    seconds = {name: np.broadcast_to(value, (count,)) for name, value in terms.items()}
    ram = {name: np.broadcast_to(value, (count,)) for name, value in ram_terms(job, kinds, cpu.threads, values).items()}
    doubts = np.full(count, float(len(task.assumptions)))
    time_figure = classical_interval("train_time_s", total(seconds), doubts=doubts, gpu=gpu is not None, library=task.library)
    ram_figure = classical_interval("peak_ram_gib", total(ram), doubts=doubts, gpu=False, library=task.library)
    on_card = np.zeros(count) if gpu is None else np.broadcast_to(gpu_memory(job, kinds, values), (count,))
    fits_card = np.ones(count, dtype=bool) if gpu is None else on_card <= gpu.memory_bytes * gpu.count
    memory = np.broadcast_to(cpu.memory_bytes, count)
    advice = tuple(
        advice_codes(
            task,
            ram_bytes=float(ram_figure.high80[i]),
            memory_bytes=float(memory[i]),
            gpu_fits=bool(fits_card[i]),
            time_s=float(time_figure.mid[i]),
        )
        for i in range(count)
    )
    return TaskFigures(time_figure, ram_figure, on_card, np.asarray((ram_figure.high80 <= memory) & fits_card), seconds, advice)
