"""Time, memory, what fits and advice of one classical task on many servers, put together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import InputError
from rightfit.estimate.classical import ClassicalTask, gpu_memory, gpu_support, job_columns, ram_terms, time_terms, total
from rightfit.estimate.classical_advice import advice_codes
from rightfit.estimate.classical_intervals import classical_interval
from rightfit.estimate.classical_rates import ClassicalKinds, coefficients
from rightfit.estimate.figures import FigureColumns
from rightfit.messages import Message
from rightfit.physics.classical import CpuColumns, GpuColumns
from rightfit.physics.columns import Array
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class ClassicalFigures:
    """What a task takes on N servers."""

    time_s: FigureColumns
    peak_ram_bytes: FigureColumns
    gpu_peak_bytes: Array
    fits: NDArray[np.bool_]
    time_terms: Mapping[str, Array]
    memory_terms: Mapping[str, Array]
    advice: tuple[tuple[str, ...], ...]
    assumptions: tuple[str, ...]


def classical_columns(task: ClassicalTask, cpu: CpuColumns, *, gpu: GpuColumns | None = None) -> ClassicalFigures:
    """Time, memory, what fits and advice of one task on N servers; with `gpu` on their GPUs (see `gpu_support` for which tasks can)."""
    if gpu is not None and (supported := gpu_support(task)) is None:
        raise InputError(Message("estimate.no_gpu_library", algorithm=task.algorithm.name.lower().replace("_", " "), library=task.library))
    if gpu is not None:
        assert supported is not None
        task = supported
    values, count = coefficients(), cpu.num_rows
    job, kinds = job_columns([task]), ClassicalKinds([task.kind])
    on_gpu = None if gpu is None else np.ones(count)
    seconds = {
        name: np.broadcast_to(value, (count,)) for name, value in time_terms(job, kinds, cpu, values, gpu=gpu, on_gpu=on_gpu).items()
    }
    ram = {name: np.broadcast_to(value, (count,)) for name, value in ram_terms(job, kinds, cpu.threads, values).items()}
    doubts = np.full(count, float(len(task.assumptions)))
    time_figure = classical_interval("train_time_s", total(seconds), doubts=doubts, gpu=gpu is not None, library=task.library)
    ram_figure = classical_interval("peak_ram_gib", total(ram), doubts=doubts, gpu=False, library=task.library)
    on_card = np.zeros(count) if gpu is None else np.broadcast_to(gpu_memory(job, kinds, values), (count,))
    fits_host = ram_figure.high80 <= cpu.memory_bytes
    fits_card = np.ones(count, dtype=bool) if gpu is None else on_card <= gpu.memory_bytes * gpu.count
    fits = np.asarray(fits_host & fits_card, dtype=np.bool_)
    advice = tuple(
        advice_codes(
            task,
            ram_bytes=float(ram_figure.high80[i]),
            memory_bytes=float(np.broadcast_to(cpu.memory_bytes, count)[i]),
            gpu_fits=bool(fits_card[i]),
            time_s=float(time_figure.mid[i]),
        )
        for i in range(count)
    )
    return ClassicalFigures(time_figure, ram_figure, on_card, fits, seconds, ram, advice, task.assumptions)
