"""Step time of training: the time physics with its coefficients, as columns.

`step_columns` does everything for N rows. A search calls the parts on their own distinct keys: `compute_columns` needs no layout over
nodes, `communication_columns` needs no device arithmetic, `compose` joins them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from rightfit.estimate.software import rate_columns
from rightfit.physics import step
from rightfit.physics.columns import Array, Columns, DeviceColumns, LinkColumns, ModelColumns, SetupColumns
from rightfit.physics.compute import ComputeTimes, compute_times
from rightfit.physics.flops import step_model_flops
from rightfit.physics.gemm import effective_dtype
from rightfit.physics.rates import RateColumns
from rightfit.physics.step import CommunicationTimes, communication_times, step_times
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class StepColumns:
    """Seconds of one optimizer step and the terms that add up to it; `model_flops` of the step for the whole job; `bottleneck` codes."""

    terms: Mapping[str, Array]
    step_s: Array
    model_flops: Array
    bottleneck: Array

    def mfu(self, setup: SetupColumns, device: DeviceColumns) -> Array:
        """Model FLOPs over the peak of all GPUs in the arithmetic that really runs."""
        peak = device.peak_flops(effective_dtype(device, setup.compute_dtype)) * setup.num_gpus
        return self.model_flops / (self.step_s * np.maximum(peak, 1.0))


def compute_columns(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, *, rates: RateColumns | None = None) -> ComputeTimes:
    """Seconds of one micro-batch on one GPU. `rates` saves gathering the coefficients again."""
    return compute_times(model, setup, device, rates or rate_columns(setup, device))


def communication_columns(
    model: ModelColumns, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, *, rates: RateColumns | None = None
) -> CommunicationTimes:
    """Seconds of communication before overlap."""
    return communication_times(model, setup, links, rates or rate_columns(setup, device))


def compose(
    model: ModelColumns,
    setup: SetupColumns,
    device: DeviceColumns,
    *,
    compute: ComputeTimes,
    communication: CommunicationTimes,
    rates: RateColumns | None = None,
) -> StepColumns:
    """The step from its parts."""
    rates = rates or rate_columns(setup, device)
    times = step_times(model, setup, device, rates, compute=compute, communication=communication)
    return StepColumns(
        terms={name: getattr(times, name) for name in step.TERMS},
        step_s=times.step_s,
        model_flops=step_model_flops(model, setup),
        bottleneck=step.bottleneck(times, setup),
    )


# Rows worked on at once: shorter arrays stay in the processor's cache, which makes a long table a third faster.
_CHUNK_ROWS = 16384


def step_columns(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> StepColumns:
    """Step time of N jobs with its terms."""
    number = max(model.num_rows, setup.num_rows, device.num_rows, links.num_rows)
    if number <= _CHUNK_ROWS:
        return _step_columns(model, setup, device, links)
    begins = range(0, number, _CHUNK_ROWS)
    pieces = [_step_columns(_slice(model, i), _slice(setup, i), _slice(device, i), _slice(links, i)) for i in begins]
    return _joined(pieces, number)


def _step_columns(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> StepColumns:
    rates = rate_columns(setup, device)
    compute = compute_columns(model, setup, device, rates=rates)
    communication = communication_columns(model, setup, device, links, rates=rates)
    return compose(model, setup, device, compute=compute, communication=communication, rates=rates)


ColumnsT = TypeVar("ColumnsT", bound=Columns)


def _slice(part: ColumnsT, begin: int) -> ColumnsT:
    """Rows `begin` onwards of one chunk, as views; fields of length one stay."""
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return type(part)(**{name: value if value.shape[0] == 1 else value[begin : begin + _CHUNK_ROWS] for name, value in values.items()})


def _joined(pieces: Sequence[StepColumns], number: int) -> StepColumns:
    """One struct from those of the chunks."""

    def join(read: Callable[[StepColumns], Array]) -> Array:
        sizes = [min(_CHUNK_ROWS, number - _CHUNK_ROWS * i) for i in range(len(pieces))]
        return np.concatenate([np.broadcast_to(read(piece), size) for piece, size in zip(pieces, sizes, strict=True)])

    return StepColumns(
        terms={name: join(lambda piece, name=name: piece.terms[name]) for name in pieces[0].terms},  # type: ignore[misc]
        step_s=join(lambda piece: piece.step_s),
        model_flops=join(lambda piece: piece.model_flops),
        bottleneck=join(lambda piece: piece.bottleneck),
    )
