"""Intervals around an estimate: conformal, by regime, from the errors on sources that the estimate
was not fitted on.

For the log error r = log(measured / predicted) of a case with regime x, the scale is sigma(x) =
exp(b0 + sum b_f x_f) and z = r / sigma(x) has quantiles Q by group. An interval at coverage 1 - a
is [mid exp(sigma Q(a/2)), mid exp(sigma Q(1 - a/2))].

The factors b and the quantiles are in facts/data/intervals.csv, written by
`validation/fit_intervals.py` from leave-one-source-out errors, shrunk towards the parent group
where rows are few. Where nothing was calibrated (an accelerator, a kind of method) the factor is
wider than one and `source` says "extrapolated".

Reference: Vovk et al., Algorithmic Learning in a Random World (2005), chapter 4; Lei et al.,
Distribution-Free Predictive Inference for Regression, JASA 113 (2018), section 5.2 (locally
weighted conformal). Known error: coverage holds on average over sources like those measured; a
stack unlike all of them can miss more often (docs/accuracy.md has the coverage by source).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.figures import FigureColumns
from rightfit.facts.devices import architecture_names
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

# ---- How well a case is known: the features that decide how wide its interval must be.
#
# A regime is a handful of flags (is it an adapter run, over many nodes, on an accelerator that
# nothing was calibrated on ...) computed from the same columns as the estimate itself, so that one
# case, a table and a search of a million candidates get their intervals alike.

#: Methods whose frozen weights are stored in the model's own precision.
ADAPTER_METHODS = (Method.LORA, Method.DORA, Method.PTUNING, Method.PREFIX)
RARE_METHODS = (Method.PTUNING, Method.PREFIX, Method.FREEZE, Method.GALORE, Method.DORA)


def _zero() -> Array:
    return np.zeros(1)


@dataclass(frozen=True, slots=True)
class RegimeColumns(Columns):
    """Flags (0 or 1) unless named otherwise; each widens or narrows the interval by a factor
    from the residuals.

    `details_unknown` is log2(1 + number of further inputs for which a default was taken);
    `architecture` is the device's code, by which the interval model sets `device_uncalibrated`.
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

    `knowledge` may hold flags of RegimeColumns that the columns do not show (`framework_unknown`,
    `shape_typical`, `batch_unknown` ...) and `num_details`, a count; each a scalar or one value a
    row, zero where not given.
    """
    details = np.log2(1.0 + np.atleast_1d(np.asarray(knowledge.pop("num_details", 0.0), dtype=np.float64)))
    flags = {**method_flags(setup), **software_flags(setup), **layout_flags(setup), **model_flags(model)}
    return RegimeColumns.of(**flags, details_unknown=details, architecture=device.architecture, **knowledge)


MEMORY, TIME = "memory", "time"

#: Probabilities at which the quantiles of z are stored.
PROBABILITIES = (0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.995)

#: Metrics and what they are made of: "time" figures are the inverse of a rate, so their
#: errors change sign.
METRIC_FAMILY = {
    "peak_mem_gib_per_gpu": (MEMORY, 1.0),
    "peak_memory_bytes": (MEMORY, 1.0),
    "host_memory_bytes": (MEMORY, 1.0),
    "tokens_per_s_per_gpu": (TIME, -1.0),
    "tokens_per_s": (TIME, -1.0),
    "samples_per_s": (TIME, -1.0),
    "tflops_per_gpu": (TIME, -1.0),
    "mfu": (TIME, -1.0),
    "step_time_s": (TIME, 1.0),
    "step_s": (TIME, 1.0),
    "time_to_train_h": (TIME, 1.0),
    "total_time_s": (TIME, 1.0),
    "cost_usd": (TIME, 1.0),
}


@dataclass(frozen=True, slots=True)
class IntervalModel:
    """The fitted interval of one family: `scale` by feature ('base' is b0), `quantiles` of z by
    group at PROBABILITIES.

    `architectures` are the names (as in facts/data/architectures.csv) of accelerator families that
    the errors were seen on.
    """

    family: str
    scale: Mapping[str, float]
    quantiles: Mapping[str, tuple[float, ...]]
    architectures: tuple[str, ...] = ()

    def sigma(self, regime: RegimeColumns) -> Array:
        """Scale of the log error, one a row."""
        log_scale = np.full(1, self.scale["base"])
        for name, factor in self.scale.items():
            if name != "base" and factor:
                log_scale = log_scale + factor * (self.uncalibrated(regime) if name == "device_uncalibrated" else getattr(regime, name))
        scale: Array = np.exp(log_scale)
        return scale

    def uncalibrated(self, regime: RegimeColumns) -> Array:
        """1 where the accelerator is of a family that no error was seen on."""
        if not self.architectures:
            return regime.device_uncalibrated
        is_seen = np.zeros(np.shape(regime.architecture), dtype=np.bool_)
        for name in self.architectures:
            is_seen |= regime.architecture == architecture_names().index(name)
        return np.maximum(regime.device_uncalibrated, np.where(is_seen, 0.0, 1.0))

    def table(self) -> Array:
        """Quantiles as an array (group, probability), groups in the order of `GROUPS`."""
        groups = GROUPS[self.family]
        return np.array([self.quantiles.get(group, self.quantiles["all"]) for group in groups])


#: Groups whose errors have a shape of their own, by family.
GROUPS: Mapping[str, tuple[str, ...]] = {MEMORY: ("full", "adapter"), TIME: ("one-node", "many-nodes")}


def group_codes(family: str, regime: RegimeColumns) -> NDArray[np.intp]:
    """The index into `GROUPS[family]`, one a row."""
    if family == MEMORY:
        return ((regime.adapter + regime.quantized + regime.rare_method) > 0).astype(np.intp)
    return (regime.multi_node > 0).astype(np.intp)


@functools.cache
def interval_models() -> Mapping[str, IntervalModel]:
    """The fitted models that ship with the package (facts/data/intervals.csv), read once."""
    rows = facts.table("intervals")
    return {family: _model(family) for family in dict.fromkeys(row["family"] for row in rows)}


def _model(family: str) -> IntervalModel:
    rows = [row for row in facts.table("intervals") if row["family"] == family]
    quantiles: dict[str, list[float]] = {}
    for row in rows:
        if row["part"] == "quantile":
            quantiles.setdefault(row["name"], []).append(float(row["value"]))
    return IntervalModel(
        family,
        {row["name"]: float(row["value"]) for row in rows if row["part"] == "scale"},
        {name: tuple(values) for name, values in quantiles.items()},
        tuple(row["name"] for row in rows if row["part"] == "architecture"),
    )


def interval_columns(
    metric: str,
    mid: Array,
    regime: RegimeColumns,
    *,
    models: Mapping[str, IntervalModel] | None = None,
) -> FigureColumns:
    """Figures with their 80 % and 95 % intervals.

    `metric` is a key of METRIC_FAMILY; `mid` (N,) the estimate in any unit; `regime` broadcasts
    with it. Rates and times share their errors with the sign turned. A mid that is not positive and
    finite keeps an interval of its own value.
    """
    family, sign = METRIC_FAMILY[metric]
    model = (models or interval_models())[family]
    mid = np.asarray(mid, dtype=np.float64)
    table = model.table()
    columns = [PROBABILITIES.index(p) for p in (0.1, 0.9, 0.025, 0.975)]
    z = sign * table[group_codes(family, regime)][:, columns]
    spread = np.exp(model.sigma(regime)[:, None] * z)
    low80, high80, low95, high95 = (mid * spread[:, i] for i in ((0, 1, 2, 3) if sign > 0 else (1, 0, 3, 2)))
    source = "extrapolated" if np.all(model.uncalibrated(regime)) else "calibrated"
    return FigureColumns(np.broadcast_to(mid, low80.shape), low80, high80, low95, high95, source=source)


def probability_over(
    metric: str,
    mid: Array,
    limit: Array,
    regime: RegimeColumns,
    *,
    models: Mapping[str, IntervalModel] | None = None,
) -> Array:
    """Probability (0 to 1) that the true figure exceeds `limit`, for example that a job does not
    fit or misses its deadline.

    `mid` (N,) and `limit` (N,) or (1,) in one unit. Between the stored quantiles the
    distribution of z is linear; beyond the outermost ones its tail is exponential, with the
    slope of the last interval.
    """
    family, sign = METRIC_FAMILY[metric]
    model = (models or interval_models())[family]
    ratio = np.maximum(np.asarray(limit, dtype=np.float64), 1e-300) / np.maximum(np.asarray(mid, dtype=np.float64), 1e-300)
    z = sign * np.log(ratio) / model.sigma(regime)
    groups = np.broadcast_to(group_codes(family, regime), z.shape)
    below = np.empty(z.shape)
    for code, quantiles in enumerate(model.table()):
        chosen = groups == code
        below[chosen] = cumulative(z[chosen], quantiles)
    return 1.0 - below if sign > 0 else below


def cumulative(z: Array, quantiles: Array) -> Array:
    """Cumulative probability of z for a distribution given by its quantiles at PROBABILITIES, with
    exponential tails."""
    probabilities = np.array(PROBABILITIES)
    inside = np.interp(z, quantiles, probabilities)
    low_rate = np.log(probabilities[1] / probabilities[0]) / max(quantiles[1] - quantiles[0], 1e-9)
    high_rate = np.log((1 - probabilities[-2]) / (1 - probabilities[-1])) / max(quantiles[-1] - quantiles[-2], 1e-9)
    low_tail = probabilities[0] * np.exp(np.minimum(low_rate * (z - quantiles[0]), 0.0))
    high_tail = 1.0 - (1 - probabilities[-1]) * np.exp(np.minimum(-high_rate * (z - quantiles[-1]), 0.0))
    result: Array = np.where(z < quantiles[0], low_tail, np.where(z > quantiles[-1], high_tail, inside))
    return result


# ---- Intervals that hold for a source that nobody has seen: two-layer conformal,
# by group of figures.
#
# For r = log(measured / predicted) the score of a row is |r| / s(x), s(x) = k(x) exp(sum b_f x_f)
# with what is not known of the case (k, from intervals.csv, for training of language models) and
# the conditions x that were found to carry information. The rows of one source share an offset, so
# the sources are the sample: the quantile Q of a group is that of the mean of the distributions of
# its sources, each source weighing the same however many rows it has, with the distributions of the
# family of figures and of all figures mixed in where sources are few. The interval at coverage c is
# [mid exp(-s Q(c)), mid exp(s Q(c))], symmetric in the log.
#
# facts/data/interval_law.csv holds Q by group and b by family; `validation/fit_law.py` writes it
# from sources left out and from first contact.
#
# Reference: Dunn, Wasserman, Ramdas, Distribution-free prediction sets for two-layer hierarchical
# models, JASA 118 (2023), section 3 (pooling the distributions of groups). Known error: the
# coverage is of sources like those measured, on average over sources.

#: Coverages at which Q is stored.
LEVELS = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)
ALL = "all"
#: Beginnings of the names of groups and the family that they are of; the first that fits. What is
#: not here is a family by itself.
FAMILIES = (
    "memory",
    "time",
    "serving-memory",
    "serving",
    "forward-memory",
    "forward",
    "samples-memory",
    "samples-run",
    "samples-time",
    "classical-memory",
    "classical",
    "loading",
)


def family_of(group: str) -> str:
    """The family of figures of a group."""
    return next((family for family in FAMILIES if group == family or group.startswith(f"{family}-")), group)


@dataclass(frozen=True, slots=True)
class IntervalLaw:
    """`quantiles` of the score at LEVELS by group, family and ALL; `factors` of the conditions by
    family, those of a group beside them; `devices` that the coefficients of a family were fitted
    on; `risks` the largest probability of running out of memory at which a case is said to fit."""

    quantiles: Mapping[str, tuple[float, ...]]
    factors: Mapping[str, Mapping[str, float]]
    devices: Mapping[str, frozenset[str]]
    risks: Mapping[str, float]

    def most_risk(self, group: str) -> float:
        """The largest probability of running out of memory at which a case is said to fit: an even
        chance where no run tells."""
        return self.risks.get(family_of(group), 0.5)

    def quantiles_of(self, group: str) -> tuple[float, ...]:
        """Q of a group; of its family, or of all figures, where it was not seen."""
        return next(self.quantiles[name] for name in (group, family_of(group), ALL) if name in self.quantiles)

    def scale(self, groups: Sequence[str], conditions: Mapping[str, Array]) -> Array:
        """s(x), one a row. `conditions` are arrays by name; "knowledge" is k(x) itself."""
        log_scale = np.log(conditions["knowledge"]) if "knowledge" in conditions else np.zeros(len(groups))
        names, families = np.array(groups), np.array([family_of(group) for group in groups])
        for of in sorted({*groups, *families.tolist()}):
            here = (names == of) | (families == of)
            for name, factor in self.factors.get(of, {}).items():
                if name in conditions:
                    log_scale[here] += factor * conditions[name][here]
        return np.asarray(np.exp(log_scale), dtype=np.float64)

    def half_widths(self, groups: Sequence[str], scale: Array, level: float) -> Array:
        """Half the width of the interval at coverage `level`, in the log."""
        rows = {group: np.interp(level, LEVELS, self.quantiles_of(group)) for group in dict.fromkeys(groups)}
        return np.asarray(scale * np.array([rows[group] for group in groups]), dtype=np.float64)

    def bounds(self, groups: Sequence[str], scale: Array, mid: Array) -> FigureColumns:
        """Figures with their 80 % and 95 % intervals."""
        narrow, wide = (np.exp(self.half_widths(groups, scale, level)) for level in (0.8, 0.95))
        return FigureColumns(mid, mid / narrow, mid * narrow, mid / wide, mid * wide)

    def probability_over(self, groups: Sequence[str], scale: Array, log_limit: Array) -> Array:
        """Probability (0 to 1) that r exceeds `log_limit` = log(limit / predicted): both sides of
        the middle hold a half."""
        outside = np.array(
            [tail(abs(float(x)) / float(s), self.quantiles_of(group)) for group, s, x in zip(groups, scale, log_limit, strict=True)]
        )
        return np.asarray(np.where(np.asarray(log_limit) >= 0, 0.5 * outside, 1.0 - 0.5 * outside), dtype=np.float64)


def tail(score: float, quantiles: Sequence[float]) -> float:
    """Share of the scores beyond `score`: linear between the stored quantiles, exponential beyond
    the last with the slope of the last piece."""
    if score <= quantiles[-1]:
        return float(1.0 - np.interp(score, (0.0, *quantiles), (0.0, *LEVELS)))
    rate = np.log((1 - LEVELS[-2]) / (1 - LEVELS[-1])) / max(quantiles[-1] - quantiles[-2], 1e-9)
    return float((1 - LEVELS[-1]) * np.exp(-rate * (score - quantiles[-1])))


class LawLine(NamedTuple):
    """A line of interval_law.csv: part of the law, group of figures, name of a quantile, condition
    or device, and a value where it has one."""

    part: str
    group: str
    name: str
    value: str


def parse_law(lines: Iterable[LawLine]) -> IntervalLaw:
    """The law from the lines of interval_law.csv."""
    quantiles: dict[str, list[float]] = {}
    factors: dict[str, dict[str, float]] = {}
    devices: dict[str, set[str]] = {}
    risks: dict[str, float] = {}
    for line in lines:
        match line.part:
            case "quantile":
                quantiles.setdefault(line.group, []).append(float(line.value))
            case "factor":
                factors.setdefault(line.group, {})[line.name] = float(line.value)
            case "risk":
                risks[line.group] = float(line.value)
            case _:
                devices.setdefault(line.group, set()).add(line.name)
    return IntervalLaw(
        {group: tuple(values) for group, values in quantiles.items()},
        factors,
        {name: frozenset(found) for name, found in devices.items()},
        risks,
    )


@functools.cache
def interval_law() -> IntervalLaw:
    """The law that ships with the package, read once."""
    return parse_law(LawLine(row["part"], row["group"], row["name"], row["value"]) for row in facts.table("interval_law"))
