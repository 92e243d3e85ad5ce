"""Which class of training software a job runs on, and the coefficients of hardware and software that the time physics reads."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.facts.devices import architecture_names
from rightfit.facts.trainers import software_names
from rightfit.physics.columns import Array, AttentionKernel, DeviceColumns, SetupColumns
from rightfit.physics.rates import RateColumns


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
    """Coefficients of RateColumns that a file holds: one for each name (`field.name`), or one for all."""
    keys = facts.coefficients(file)
    held = {key.partition(".")[0] for key in keys if "." in key} if by_name else keys.keys()
    return tuple(field.name for field in dataclasses.fields(RateColumns) if field.name in held)


def rate_columns(setup: SetupColumns, device: DeviceColumns) -> RateColumns:
    """Coefficients of each row: by accelerator family, by class of software, and the global ones."""
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
    """Fused-attention fractions: vendor stacks use the best kernel of the family, others the portable one."""
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
    """Fused or compiled jobs make the passes of the fused implementation, whatever their class; a fused loss moves fewer bytes."""
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
