"""Which class of training software a job runs on, and the coefficients of hardware and software
that the time physics reads."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.facts.devices import architecture_names
from rightfit.facts.trainers import software_names
from rightfit.physics import memory_states, step
from rightfit.physics.columns import Array, AttentionKernel, Columns, DeviceColumns, LinkColumns, ModelColumns, SetupColumns
from rightfit.physics.compute import ComputeTimes, compute_times
from rightfit.physics.memory_peak import peak_memory, usable_bytes
from rightfit.physics.operators import RateColumns, effective_dtype
from rightfit.physics.step import CommunicationTimes, communication_times, step_times
from rightfit.physics.transformer import step_model_flops
from rightfit.records import dataclass


def family_codes(device: DeviceColumns) -> NDArray[np.intp]:
    """Row of facts/data/architectures.csv for each device."""
    return device.architecture.astype(np.intp)


@functools.cache
def _by_name(field: str, names: tuple[str, ...], file: str) -> Array:
    """Values of a coefficient for each name; `field.default` where the file has none for it."""
    values = facts.coefficients(file)
    return np.array([values.get(f"{field}.{name}", values.get(f"{field}.default", np.nan)) for name in names], dtype=np.float64)


@functools.cache
def _fields_of(file: str, *, by_name: bool) -> tuple[str, ...]:
    """Coefficients of RateColumns that a file holds: one for each name
    (`field.name`), or one for all."""
    keys = facts.coefficients(file)
    held = {key.partition(".")[0] for key in keys if "." in key} if by_name else keys.keys()
    return tuple(field.name for field in dataclasses.fields(RateColumns) if field.name in held)


def rate_columns(setup: SetupColumns, device: DeviceColumns) -> RateColumns:
    """Coefficients of each row: by accelerator family, by class of software,
    and the global ones."""
    family = family_codes(device)
    software = setup.framework.astype(np.intp)
    hardware_names, classes = architecture_names(), software_names()
    values = {name: _by_name(name, hardware_names, "compute")[family] for name in _fields_of("compute", by_name=True)}
    values |= {name: _by_name(name, classes, "software")[software] for name in _fields_of("software", by_name=True)}
    for file in ("compute", "network", "operators"):
        values |= {name: np.array([facts.coefficients(file)[name]]) for name in _fields_of(file, by_name=False)}
    values |= _attention_rates(setup, family)
    values |= _fused(setup, values)
    return RateColumns(**values)


def _attention_rates(setup: SetupColumns, family: NDArray[np.intp]) -> dict[str, Array]:
    """Fused-attention fractions: vendor stacks use the best kernel of the family,
    others the portable one."""
    names = architecture_names()
    vendor = (setup.framework == software_names().index("vendor")) & (setup.attention != AttentionKernel.EAGER)
    best = (setup.attention_version >= 3) | (vendor & (setup.attention_version == 0))
    first = setup.attention_version == 1
    chosen = {}
    for way in ("forward", "backward"):
        portable, tuned, oldest = (_by_name(f"{kind}flash_{way}", names, "compute")[family] for kind in ("", "best_", "first_"))
        chosen[f"flash_{way}"] = np.where(best, tuned, np.where(first, np.minimum(oldest, portable), portable))
    return chosen


def _fused(setup: SetupColumns, values: dict[str, Array]) -> dict[str, Array]:
    """Fused or compiled jobs make the passes of the fused implementation, whatever their class; a
    fused loss moves fewer bytes."""
    fused = (setup.fused_kernels > 0) | (setup.compiled > 0)
    classes = software_names()
    best = {
        name: _by_name(name, classes, "software")[classes.index("vendor")] for name in ("norm_passes", "rope_passes", "activation_passes")
    }
    changed = {name: np.where(fused, np.minimum(values[name], best[name]), values[name]) for name in best}
    compiled = setup.compiled > 0
    loss = _by_name("loss_bytes", classes, "software")[classes.index("vendor")]
    changed["loss_bytes"] = np.where((setup.loss > 0) | compiled, np.minimum(values["loss_bytes"], loss), values["loss_bytes"])
    launch = _by_name("layer_forward_cpu_s", classes, "software")[classes.index("compiled")]
    changed["layer_forward_cpu_s"] = np.where(compiled, np.minimum(values["layer_forward_cpu_s"], launch), values["layer_forward_cpu_s"])
    return changed


# ---- Step time of training: the time physics with its coefficients, as columns.
#
# `step_columns` does everything for N rows. A search calls the parts on their own distinct keys:
# `compute_columns` needs no layout over nodes, `communication_columns` needs no device arithmetic,
# `compose` joins them.


@dataclass(frozen=True, slots=True)
class StepColumns:
    """Seconds of one optimizer step and the terms that add up to it; `model_flops` of the step for
    the whole job; `bottleneck` codes."""

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


# Rows worked on at once: shorter arrays stay in the processor's cache, which makes a long
# table a third faster.
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


# ---- Memory of a training job: GPU peak by term, host RAM, checkpoint and disk sizes, as columns.


@dataclass(frozen=True, slots=True)
class MemoryColumns:
    """`terms` [bytes per GPU at the peak] add up to `peak_bytes`, as the asked counter
    (setup.memory_counter) sees it.

    `required_bytes` is what the card must hold, whatever the counter; a job fits where it is at
    most `capacity_bytes`. `phase` holds numbers of `Phase`. Host RAM is per node, checkpoint and
    disk are for the whole job.
    """

    terms: dict[str, Array]
    peak_bytes: Array
    required_bytes: Array
    capacity_bytes: Array
    phase: NDArray[np.intp]
    host_bytes: Array
    checkpoint_bytes: Array
    disk_bytes: Array

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the job fits the card."""
        return np.less_equal(self.required_bytes, self.capacity_bytes)


def memory_columns(model: ModelColumns, setup: SetupColumns, device: DeviceColumns) -> MemoryColumns:
    """Memory of every row. The columns broadcast against each other."""
    coefficients = facts.coefficients("memory")
    peak = peak_memory(model, setup, device, coefficients=coefficients)
    host = memory_states.host_bytes(model, setup, coefficients=coefficients)
    return MemoryColumns(
        terms=peak.terms,
        peak_bytes=peak.peak,
        required_bytes=peak.required,
        capacity_bytes=usable_bytes(device, coefficients=coefficients),
        phase=peak.phase,
        host_bytes=host,
        checkpoint_bytes=memory_states.checkpoint_file_bytes(model, setup),
        disk_bytes=memory_states.disk_bytes(model, setup, kept_checkpoints=coefficients["kept_checkpoints"]),
    )
