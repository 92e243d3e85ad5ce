"""How well a case is known: the features that decide how wide its interval must be.

A regime is a handful of flags (is it an adapter run, over many nodes, on an accelerator that nothing was calibrated on ...) computed
from the same columns as the estimate itself, so that one case, a table and a search of a million candidates get their intervals alike.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from rightfit.facts.trainers import software_names
from rightfit.physics.columns import (
    Array,
    AttentionKernel,
    Columns,
    DeviceColumns,
    Dtype,
    Kind,
    MemoryCounter,
    Method,
    ModelColumns,
    Recompute,
    SetupColumns,
)
from rightfit.records import dataclass

#: Methods whose frozen weights are stored in the model's own precision.
ADAPTER_METHODS = (Method.LORA, Method.DORA, Method.PTUNING, Method.PREFIX)
RARE_METHODS = (Method.PTUNING, Method.PREFIX, Method.FREEZE, Method.GALORE, Method.DORA)


def _zero() -> Array:
    return np.zeros(1)


@dataclass(frozen=True, slots=True)
class RegimeColumns(Columns):
    """Flags (0 or 1) unless named otherwise; each widens or narrows the interval by a factor from the residuals.

    `details_unknown` is log2(1 + number of further inputs for which a default was taken); `architecture` is the device's code, by which
    the interval model sets `device_uncalibrated`.
    """

    adapter: Array = dataclasses.field(default_factory=_zero)
    quantized: Array = dataclasses.field(default_factory=_zero)
    rare_method: Array = dataclasses.field(default_factory=_zero)
    moe: Array = dataclasses.field(default_factory=_zero)
    not_decoder: Array = dataclasses.field(default_factory=_zero)
    small_model: Array = dataclasses.field(default_factory=_zero)
    multi_gpu: Array = dataclasses.field(default_factory=_zero)
    multi_node: Array = dataclasses.field(default_factory=_zero)
    model_parallel: Array = dataclasses.field(default_factory=_zero)
    fully_sharded: Array = dataclasses.field(default_factory=_zero)
    low_precision: Array = dataclasses.field(default_factory=_zero)
    full_precision: Array = dataclasses.field(default_factory=_zero)
    eager_attention: Array = dataclasses.field(default_factory=_zero)
    stored_activations: Array = dataclasses.field(default_factory=_zero)
    large_batch: Array = dataclasses.field(default_factory=_zero)
    vendor_stack: Array = dataclasses.field(default_factory=_zero)
    eager_stack: Array = dataclasses.field(default_factory=_zero)
    classic_stack: Array = dataclasses.field(default_factory=_zero)
    variable_length: Array = dataclasses.field(default_factory=_zero)
    counter_reserved: Array = dataclasses.field(default_factory=_zero)
    counter_driver: Array = dataclasses.field(default_factory=_zero)
    framework_unknown: Array = dataclasses.field(default_factory=_zero)
    counter_unknown: Array = dataclasses.field(default_factory=_zero)
    shape_typical: Array = dataclasses.field(default_factory=_zero)
    device_unknown: Array = dataclasses.field(default_factory=_zero)
    device_uncalibrated: Array = dataclasses.field(default_factory=_zero)
    architecture: Array = dataclasses.field(default_factory=_zero)
    batch_unknown: Array = dataclasses.field(default_factory=_zero)
    length_unknown: Array = dataclasses.field(default_factory=_zero)
    method_unknown: Array = dataclasses.field(default_factory=_zero)
    recompute_unknown: Array = dataclasses.field(default_factory=_zero)
    details_unknown: Array = dataclasses.field(default_factory=_zero)


def _is_one_of(values: Array, choices: tuple[Any, ...]) -> Array:
    return np.isin(values, [float(choice) for choice in choices]).astype(np.float64)


@functools.cache
def software_codes(*classes: str) -> tuple[int, ...]:
    """Codes of classes of training software by their names."""
    return tuple(code for code, name in enumerate(software_names()) if name in classes)


def _flag(condition: Any) -> Array:
    return np.asarray(condition, dtype=np.float64)


def method_flags(setup: SetupColumns) -> dict[str, Array]:
    """What is trained and in which precision."""
    return {
        "adapter": _is_one_of(setup.method, ADAPTER_METHODS),
        "quantized": _flag((setup.method == Method.QLORA) | (setup.quantized > 0)),
        "rare_method": _is_one_of(setup.method, RARE_METHODS),
        "low_precision": _flag(setup.compute_dtype == Dtype.FP8),
        "full_precision": _is_one_of(setup.compute_dtype, (Dtype.FP32, Dtype.TF32)),
        "eager_attention": _flag(setup.attention == AttentionKernel.EAGER),
        "stored_activations": _flag(setup.recompute != Recompute.FULL),
        "variable_length": _flag(setup.token_fraction < 1),
        "counter_reserved": _flag(setup.memory_counter == MemoryCounter.RESERVED),
        "counter_driver": _flag(setup.memory_counter == MemoryCounter.DRIVER),
        "large_batch": _flag(setup.micro_batch * setup.seq_len > 16384),
    }


def software_flags(setup: SetupColumns) -> dict[str, Array]:
    """Which class of training software (facts/data/speed_frameworks.csv)."""
    return {
        "vendor_stack": _is_one_of(setup.framework, software_codes("vendor", "compiled")),
        "eager_stack": _is_one_of(setup.framework, software_codes("eager", "unsloth", "deepspeed")),
        "classic_stack": _is_one_of(setup.framework, software_codes("classic")),
    }


def layout_flags(setup: SetupColumns) -> dict[str, Array]:
    """Over how many devices, and how."""
    num_gpus = setup.num_gpus
    return {
        "multi_gpu": _flag(num_gpus > 1),
        "multi_node": _flag(num_gpus > setup.gpus_per_node),
        "model_parallel": _flag(setup.tensor * setup.pipeline * setup.context * setup.expert > 1),
        "fully_sharded": _flag(setup.shard_stage >= 3),
    }


def model_flags(model: ModelColumns) -> dict[str, Array]:
    """What kind of model it is."""
    return {
        "moe": _flag((model.kind == Kind.MOE_DECODER) | (model.num_experts > 1)),
        "not_decoder": _flag((model.kind != Kind.DECODER) & (model.kind != Kind.MOE_DECODER)),
        "small_model": _flag(model.params_total < 1e9),
    }


#: Beginnings of the assumptions that have a feature of their own; all others count as details.
_ASSUMED = {
    "batch_unknown": ("micro-batch not stated",),
    "length_unknown": ("sequence length not stated",),
    "method_unknown": ("method not stated",),
    "recompute_unknown": ("recompute not stated",),
    "shape_typical": ("model ", "vocabulary not stated"),
    "device_unknown": ("gpu not stated",),
    "counter_unknown": ("kind of memory figure",),
}


def assumption_flags(assumptions: Sequence[Sequence[str]]) -> dict[str, Array]:
    """What is not known of each case, from the assumptions that were made to compute it."""
    flags = {name: np.zeros(len(assumptions)) for name in (*_ASSUMED, "num_details")}
    for row, texts in enumerate(assumptions):
        for text in texts:
            name = next((name for name, starts in _ASSUMED.items() if text.startswith(starts)), "num_details")
            flags[name][row] = 1.0 if name in _ASSUMED else flags[name][row] + 1.0
    return flags


def regime_columns(model: ModelColumns, setup: SetupColumns, device: DeviceColumns, **knowledge: Any) -> RegimeColumns:
    """The regime of every row.

    `knowledge` may hold flags of RegimeColumns that the columns do not show (`framework_unknown`, `shape_typical`, `batch_unknown` ...)
    and `num_details`, a count; each a scalar or one value a row, zero where not given.
    """
    details = np.log2(1.0 + np.atleast_1d(np.asarray(knowledge.pop("num_details", 0.0), dtype=np.float64)))
    flags = {**method_flags(setup), **software_flags(setup), **layout_flags(setup), **model_flags(model)}
    return RegimeColumns.of(**flags, details_unknown=details, architecture=device.architecture, **knowledge)
