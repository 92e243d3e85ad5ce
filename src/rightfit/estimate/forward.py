"""Time and memory of models without token-by-token generation: cases and coefficients through the forward physics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rightfit import facts
from rightfit.estimate.forward_cases import CONVOLUTIONAL, DTYPES, ENGINES, SCENARIOS, STAGE_KINDS, CaseColumns
from rightfit.estimate.forward_devices import SILICON
from rightfit.physics.columns import Array
from rightfit.physics.forward import ForwardColumns, ForwardRates, forward_s, sustained_flops
from rightfit.units import GIB

Coefficients = Mapping[str, float]

#: Bytes of one activation and of one weight by dtype.
_ACTIVATION_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "amp": 2.0, "bf16": 2.0, "int8": 1.0, "fp8": 2.0}
_WEIGHT_BYTES = {
    "fp32": 4.0,
    "tf32": 4.0,
    "fp16": 2.0,
    "amp": 8.0,
    "bf16": 2.0,
    "int8": 1.0,
    "fp8": 1.0,
}  # autocast reads 4, writes 2, reads 2


def coefficients() -> Coefficients:
    """The shipped coefficients."""
    return facts.coefficients("forward")


def lookup(values: Coefficients, prefix: str, names: Sequence[str], codes: Array) -> Array:
    """Coefficient `prefix.name` of each row's code."""
    table = np.array([values.get(f"{prefix}.{name}", values.get(f"{prefix}.default", 1.0)) for name in names])
    return table[codes.astype(np.intp)]


def _by_dtype(table: Mapping[str, float], codes: Array) -> Array:
    return np.array([table[name] for name in DTYPES])[codes.astype(np.intp)]


def stage_rates(cases: CaseColumns, values: Coefficients) -> ForwardRates:
    """Rates of every stage."""
    case = {name: column[cases.stage_row] for name, column in cases.case.items()}
    kind = cases.stage["kind"]
    per_watt = lookup(values, "flops_per_watt", SILICON, case["silicon"]) * lookup(values, "watt_dtype", DTYPES, case["dtype"])
    peak = sustained_flops(case["peak"], case["tdp_w"], per_watt)
    fraction = (
        lookup(values, "fraction_silicon", SILICON, case["silicon"])
        * lookup(values, "fraction_engine", ENGINES, case["engine"])
        * lookup(values, "fraction_kind", STAGE_KINDS, kind)
        * lookup(values, "fraction_dtype", DTYPES, case["dtype"])
    )
    most = lookup(values, "fraction_most", DTYPES, case["dtype"])
    winograd = np.isin(kind, [STAGE_KINDS.index(name) for name in CONVOLUTIONAL])
    most = np.where(
        winograd, most, np.minimum(most, values["fraction_most_products"])
    )  # only convolutions have fewer multiplications than counted
    flops = peak * fraction / (1.0 + (fraction / most) ** 4) ** 0.25  # no product of shares may pass what kernels reach
    unfused = lookup(values, "unfused_engine", ENGINES, case["engine"])
    pointwise = lookup(values, "pointwise_kind", STAGE_KINDS, kind) * cases.stage["pointwise"]
    passes = lookup(values, "passes_kind", STAGE_KINDS, kind) + unfused * pointwise
    eager = np.isin(case["engine"], [ENGINES.index(name) for name in ("eager", "webui")])
    half = np.isin(case["dtype"], [DTYPES.index(name) for name in ("fp16", "amp", "bf16")])
    convolution = kind < STAGE_KINDS.index("window")
    passes = passes + np.where(eager & half & convolution & (case["channels_last"] == 0), values["passes_transpose"], 0.0)
    cpu = case["silicon"] == SILICON.index("cpu")
    activation_bytes = _by_dtype(_ACTIVATION_BYTES, case["dtype"]) * np.where(
        case["dtype"] == DTYPES.index("amp"), values["amp_traffic"], 1.0
    )
    scale = lookup(values, "layers_kind", STAGE_KINDS, kind) * (1.0 + np.minimum(unfused, 1.0) * (cases.stage["loose"] - 1.0))
    host = lookup(values, "launch_s", ENGINES, case["engine"]) * lookup(values, "launch_silicon", SILICON, case["silicon"])
    autocast = np.where(case["dtype"] == DTYPES.index("amp"), values["amp_launch"], 1.0)
    return ForwardRates.of(
        flops=flops,
        score_flops=flops * lookup(values, "score_fraction", STAGE_KINDS, kind),
        bandwidth=case["bandwidth"] * lookup(values, "bandwidth_fraction", SILICON, case["silicon"]),
        activation_bytes=activation_bytes,
        weight_bytes=_by_dtype(_WEIGHT_BYTES, case["dtype"]),
        passes=passes * np.where(cpu, values["passes_cpu"], 1.0),
        cache_bytes=case["l2_bytes"] * values["cache_fraction"],
        fill_elements=lookup(values, "fill_elements", SILICON, case["silicon"])
        * lookup(values, "fill_dtype", DTYPES, case["dtype"])
        * case["units"]
        / np.maximum(case["cores"], 1.0),
        layer_s=scale * lookup(values, "layer_s", ENGINES, case["engine"]) * lookup(values, "layer_silicon", SILICON, case["silicon"]),
        launch_s=scale * host * autocast,
        call_s=lookup(values, "call_s", ENGINES, case["engine"]) * np.where(cases.stage["repeats"] > 1.0, 0.0, 1.0),
        mixing=values["mixing"],
        host_sharpness=facts.coefficients("operators")["host_sharpness"],
    )


def stage_work(cases: CaseColumns, values: Coefficients) -> ForwardColumns:
    """Work of one pass of every stage: one input of speech is cut into windows that batch together."""
    case = {name: column[cases.stage_row] for name, column in cases.case.items()}
    stage = cases.stage
    shared = 1.0 + (case["shared"] - 1.0) * values["shared_fraction"]
    return ForwardColumns.of(
        items=stage["items"] * case["batch"],
        macs=stage["macs"] / shared,
        score_macs=stage["score_macs"] / shared,
        activations=stage["activations"] / shared,
        weights=stage["weights"] / case["tensor"],
        layers=stage["layers"],
    )


def batch_s(cases: CaseColumns, values: Coefficients | None = None) -> Array:
    """Seconds of one batch on one device (or one core of a chip), all stages with their repeats [s], one value a case."""
    values = values or coefficients()
    if not len(cases):
        return np.zeros(0)
    seconds = forward_s(stage_work(cases, values), stage_rates(cases, values))
    repeats = cases.stage["repeats"] / np.where(cases.case["audio"] > 0, cases.case["batch"], 1.0)[cases.stage_row]
    total = np.bincount(cases.stage_row, weights=seconds * repeats, minlength=len(cases))
    main = np.unique(cases.stage_row, return_index=True)[1]
    kinds = cases.stage["kind"][main]
    per_item = lookup(values, "item_s", STAGE_KINDS, kinds) * lookup(values, "item_engine", ENGINES, cases.case["engine"])
    per_item = per_item * cases.stage["host"][main]
    scenario = lookup(values, "scenario", SCENARIOS, cases.case["scenario"])
    copied = cases.case["output_bytes"] * cases.case["parallel"] / values["host_bytes_per_s"]
    fed = (
        cases.case["pixels"]
        * lookup(values, "pixel_s", ENGINES, cases.case["engine"])
        * np.where(cases.case["silicon"] == SILICON.index("cpu"), 0.0, 1.0)
    )
    heard = np.where(cases.case["audio"] > 0, cases.stage["repeats"][main] * values["window_s"], 0.0)
    return (total + heard + (per_item + copied + fed) * cases.case["batch"]) / scenario


def metric_values(cases: CaseColumns, values: Coefficients | None = None) -> dict[str, Array]:
    """Every metric of every case, by name, in the unit of the table."""
    values = values or coefficients()
    case = cases.case
    seconds = batch_s(cases, values)
    own = case["audio"] > 0
    per_batch = np.where(own, 1.0, case["batch"])
    rate = per_batch * case["parallel"] / seconds
    latency = seconds * case["in_flight"]
    tokens = np.where(case["tokens_out"] > 0, case["tokens_out"], case["tokens_in"])
    return {
        "images_per_s": rate,
        "sequences_per_s": rate,
        "req_per_s": rate,
        "denoise_steps_per_s": 1.0 / seconds,
        "latency_ms": latency * 1e3,
        "total_tok_per_s": rate * np.maximum(tokens, 1.0),
        "output_tok_per_s_total": rate * np.maximum(case["tokens_out"], 1.0),
        "peak_mem_gib": peak_bytes(cases, values) / GIB,
    }


_STORED_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "amp": 4.0, "bf16": 2.0, "int8": 1.0, "fp8": 1.0}
_HELD_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "amp": 2.0, "bf16": 2.0, "int8": 2.0, "fp8": 2.0}


def peak_bytes(cases: CaseColumns, values: Coefficients) -> Array:
    """Memory of one device [bytes]: weights, the activations that live at a time, and what the runtime itself takes, where the counter sees it."""
    case = cases.case
    stored, held = _by_dtype(_STORED_BYTES, case["dtype"]), _by_dtype(_HELD_BYTES, case["dtype"])
    per_layer = cases.stage["activations"] / np.maximum(cases.stage["layers"], 1.0) * cases.stage["items"]
    widest = np.zeros(len(cases))
    np.maximum.at(widest, cases.stage_row, per_layer)
    live: Array = case["batch"] * (widest * values["live_layers"] + case["state_elements"]) * held
    runtime = np.where(case["silicon"] == SILICON.index("cpu"), values["runtime_cpu_bytes"], values["runtime_bytes"])
    seen = np.where(case["tensors_only"] > 0, 0.0, runtime)
    return np.asarray(case["params"] * stored + live + seen, dtype=np.float64)
