"""Time and memory of models without token-by-token generation: cases and coefficients through
the forward physics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.forward_models import KINDS
from rightfit.estimation.pass_records import GENERATION, SILICON, STARTS, ForwardDevice, ForwardWork
from rightfit.facts.tables import constants
from rightfit.physics.columns import Array
from rightfit.physics.passes import ForwardColumns, ForwardRates, forward_s, sustained_flops
from rightfit.records import dataclass
from rightfit.units import GIB

# ---- Jobs of one forward pass as typed cases, and many of them as columns for the forward physics.

STAGE_KINDS = (*KINDS, "decode")
#: Kinds made of convolutions: Winograd saves multiplications in fp32, cuDNN takes TF32 by itself.
CONVOLUTIONAL = frozenset({"conv", "grouped", "depthwise", "convnext", "detection", "unet", "conv3d", "denoiser"})


class Engine(StrEnum):
    """Classes of engines, as the coefficients of forward passes tell them apart."""

    EAGER = "eager"
    EAGER_SCRIPT = "eager_script"
    COMPILED = "compiled"
    TENSORRT = "tensorrt"
    FUSED = "fused"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"
    TENSORFLOW = "tensorflow"
    TENSORFLOW_XLA = "tensorflow_xla"
    MXNET = "mxnet"
    PADDLE = "paddle"
    CTRANSLATE2 = "ctranslate2"
    GGML = "ggml"
    WEBUI = "webui"
    NEURON = "neuron"


class Arithmetic(StrEnum):
    """Number formats of the matrix products; amp is autocast over weights in fp32."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    AMP = "amp"
    BF16 = "bf16"
    INT8 = "int8"
    FP8 = "fp8"


class Scenario(StrEnum):
    """How inputs come: batches one after the other, a pile to work off, requests at a rate under
    limits of latency, one at a time."""

    BATCH = "batch"
    OFFLINE = "offline"
    SERVER = "server"
    SINGLE = "single"


class Flow(StrEnum):
    """How the cores of a chip with several share the inputs: each for throughput, one alone for
    latency, or each a part of the model."""

    THROUGHPUT = "throughput"
    REAL_TIME = "real time"
    PIPELINE = "pipeline"


ENGINES, DTYPES, SCENARIOS = tuple(Engine), tuple(Arithmetic), tuple(Scenario)


@dataclass(frozen=True, slots=True)
class ForwardCase:
    """One job: the work of an input, on `num_devices` of a device (of processors: sockets), in an
    engine and its arithmetic (None: the usual one).

    `batch` inputs run together (0: the engine chooses). `shares_input`: what counts is the time of
    one input, so that devices share a picture or video that is made. `tensor`: devices that share
    each layer of a text or speech model (0: not split). `tokens_in`, `tokens_out` of an input where
    rates are told in tokens. `is_stored_wide`: weights are cast at each pass. `weight_bytes` of one
    stored weight [bytes] (0: that of the arithmetic). `tensors_only`: the counter of memory sees
    tensors alone.
    """

    work: ForwardWork
    device: ForwardDevice
    engine: Engine
    arithmetic: Arithmetic | None = None
    batch: float = 0.0
    scenario: Scenario = Scenario.BATCH
    num_devices: float = 1.0
    tensor: float = 0.0
    flow: Flow = Flow.THROUGHPUT
    shares_input: bool = False
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    is_stored_wide: bool = False
    weight_bytes: float = 0.0
    is_channels_last: bool = False
    tensors_only: bool = False


#: Numbers of one case, in the order of `_numbers`; there also where there is no case.
CASE_COLUMNS = (
    "batch",
    "parallel",
    "shared",
    "in_flight",
    "engine",
    "dtype",
    "silicon",
    "scenario",
    "peak",
    "peak_fp32",
    "bandwidth",
    "l2_bytes",
    "tdp_w",
    "units",
    "cores",
    "compute_dtype_stored",
    "weight_bytes",
    "tokens_out",
    "tokens_in",
    "channels_last",
    "audio",
    "params",
    "output_bytes",
    "pixels",
    "state_elements",
    "tensor",
    "held_by",
    "decode_elements",
    "wide_params",
    "tensors_only",
)


@dataclass(frozen=True, slots=True)
class CaseColumns:
    """Stages one under the other (`stage_row` = the case that each belongs to) and one line a case.

    Per stage: macs, score_macs, activations, weights, layers, repeats, items (inputs of one pass on
    one device), loose, pointwise, host, kind. Per case: batch, devices that share the load, devices
    that share one input, in_flight passes, codes of engine, dtype, silicon, scenario, device rates,
    and the work itself.
    """

    stage_row: NDArray[np.intp]
    stage: Mapping[str, Array]
    case: Mapping[str, Array]
    works: tuple[ForwardWork, ...]

    def __len__(self) -> int:
        return len(self.works)


def case_columns(cases: Sequence[ForwardCase]) -> CaseColumns:
    """Cases as columns for the physics."""
    numbers = [_numbers(case) for case in cases]
    case = {name: np.array([values[name] for values in numbers], dtype=np.float64) for name in CASE_COLUMNS}
    works = tuple(one.work for one in cases)
    stage_row = np.array([position for position, work in enumerate(works) for _ in work.stages], dtype=np.intp)
    stages = [stage for work in works for stage in work.stages]
    names = ("macs", "score_macs", "activations", "weights", "layers", "repeats", "items", "loose", "pointwise", "host")
    stage = {name: np.array([getattr(item, name) for item in stages], dtype=np.float64) for name in names}
    stage["kind"] = np.array([float(STAGE_KINDS.index(item.kind)) for item in stages])
    return CaseColumns(stage_row, stage, case, works)


def usual_batch(work: ForwardWork) -> float:
    """Batch that an engine chooses to fill a device: large for small models,
    small for large ones."""
    main = work.stages[0]
    if main.kind == "recurrent":
        return 2048.0  # steps that wait for each other cost the same for one input and for thousands
    figures = constants("forward_work")
    share = figures["chosen_batch_macs"] / max(main.macs + main.score_macs, 1e6)
    return float(np.clip(figures["chosen_batch"] * share**0.5, 1.0, figures["chosen_batch_most"]))


def _workers(case: ForwardCase) -> tuple[float, float]:
    """Cores of a chip that run passes of their own, and passes in flight per such core: two when it
    runs for throughput.

    The published tables of AWS show it: throughput x latency / batch is twice the cores in
    their batch rows of images, the cores themselves in those of text, and one in real-time rows
    but for text.
    """
    device, work = case.device, case.work
    if device.silicon != "neuron":
        return 1.0, 1.0
    if case.flow == Flow.PIPELINE:
        return device.cores, 1.0
    text = work.modality == "text" and device.name != "Inferentia1"
    if case.flow == Flow.REAL_TIME:
        return (device.cores if text else 1.0), 1.0
    return device.cores, (1.0 if text else 2.0)


#: Frameworks that compute in the dtype of the weights, which is fp32 unless one asks.
_PLAIN_ENGINES = frozenset(
    {
        Engine.EAGER,
        Engine.EAGER_SCRIPT,
        Engine.COMPILED,
        Engine.TENSORFLOW,
        Engine.TENSORFLOW_XLA,
        Engine.MXNET,
        Engine.PADDLE,
        Engine.ONNXRUNTIME,
    }
)
#: Engines that multiply in TF32 where fp32 is asked for.
_TF32_ENGINES = frozenset({Engine.TENSORRT, Engine.TENSORFLOW, Engine.TENSORFLOW_XLA, Engine.PADDLE, Engine.MXNET})


def _usual_arithmetic(case: ForwardCase) -> Arithmetic:
    """Arithmetic where a case names none."""
    unasked = case.engine in _PLAIN_ENGINES and case.work.modality in ("vision", "text")
    return Arithmetic.FP32 if case.device.silicon in ("cpu", "old") or unasked else Arithmetic.FP16


def _arithmetic(case: ForwardCase) -> Arithmetic:
    """Arithmetic that runs: fp32 convolutions use TF32 where the card has it (cuDNN's default), and
    so do TensorRT and TensorFlow."""
    dtype, device = case.arithmetic or _usual_arithmetic(case), case.device
    default_tf32 = case.engine in _TF32_ENGINES or case.work.stages[0].kind in CONVOLUTIONAL
    if dtype == Arithmetic.FP32 and device.tf32 > device.fp32 and device.silicon != "cpu" and default_tf32:
        return Arithmetic.TF32
    if dtype == Arithmetic.BF16 and not device.bf16:
        return Arithmetic.FP16
    if dtype == Arithmetic.FP32 and device.silicon == "neuron" and not device.fp32:
        return Arithmetic.BF16  # the first Inferentia has no fp32 arithmetic: its compiler casts
    return dtype


def _engine(case: ForwardCase, dtype: Arithmetic) -> Engine:
    """The engine that runs: PyTorch's int8 on processors goes through the same graph library
    (oneDNN) as OpenVINO."""
    plain = case.engine in (Engine.EAGER, Engine.COMPILED)
    return Engine.OPENVINO if case.device.silicon == "cpu" and dtype == Arithmetic.INT8 and plain else case.engine


def _numbers(case: ForwardCase) -> dict[str, float]:
    """Numbers of one case."""
    work, device, num_devices = case.work, case.device, case.num_devices
    dtype = _arithmetic(case)
    splits = work.modality in ("image", "video") and case.shares_input and device.silicon != "neuron"
    shared = num_devices if splits else 1.0
    if device.silicon == "neuron" and work.stages[0].kind == "denoiser":  # each core takes one half of the guided pair
        shared = device.cores
    tensor = case.tensor if work.modality in ("text", "audio") else 0.0
    if tensor > 1:
        shared, num_devices = tensor, 1.0
    workers, in_flight = (1.0, 1.0) if shared > 1 else _workers(case)
    parallel = workers * (1.0 if work.output_bytes else num_devices)  # a host that copies large outputs gains nothing from more chips
    return {
        "batch": case.batch or usual_batch(work),
        "parallel": 1.0 if splits else parallel,
        "shared": shared,
        "in_flight": in_flight,
        "engine": float(ENGINES.index(_engine(case, dtype))),
        "dtype": float(DTYPES.index(dtype)),
        "silicon": float(SILICON.index(device.silicon)),
        "scenario": float(SCENARIOS.index(case.scenario)),
        "peak": device.peak(dtype) / device.cores,
        "peak_fp32": device.fp32 / device.cores,
        "bandwidth": device.bandwidth / (device.cores if shared > 1 else workers),  # cores that rest leave it to the others
        "l2_bytes": device.l2_bytes / device.cores,
        "tdp_w": device.tdp_w,
        "units": device.units,
        "cores": device.cores,
        "compute_dtype_stored": float(case.is_stored_wide or dtype == Arithmetic.AMP),
        "weight_bytes": case.weight_bytes,
        "tokens_out": case.tokens_out,
        "tokens_in": case.tokens_in,
        "channels_last": float(case.is_channels_last),
        "audio": float(work.modality == "audio" and len(work.stages) > 1),
        **{name: getattr(work, name) for name in ("params", "output_bytes", "pixels", "state_elements", "decode_elements", "wide_params")},
        "tensor": max(tensor, 1.0),
        "held_by": max(case.tensor, 1.0),
        "tensors_only": float(case.tensors_only),
    }


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
    host = lookup(values, "launch_s", ENGINES, case["engine"]) * lookup(values, "launch_silicon", GENERATION, case["silicon"])
    autocast = np.where(case["dtype"] == DTYPES.index("amp"), values["amp_launch"], 1.0)
    return ForwardRates.of(
        flops=flops,
        score_flops=flops * lookup(values, "score_fraction", STAGE_KINDS, kind),
        bandwidth=case["bandwidth"] * lookup(values, "bandwidth_fraction", SILICON, case["silicon"]),
        activation_bytes=activation_bytes,
        weight_bytes=_by_dtype(_WEIGHT_BYTES, case["dtype"]),
        passes=passes * np.where(cpu, values["passes_cpu"], 1.0),
        cache_bytes=case["l2_bytes"] * values["cache_fraction"],
        fill_elements=values["fill_time"] * peak * lookup(values, "fraction_silicon", SILICON, case["silicon"]),
        layer_s=scale * lookup(values, "layer_s", ENGINES, case["engine"]) * lookup(values, "layer_silicon", STARTS, case["silicon"]),
        launch_s=scale * host * autocast,
        call_s=lookup(values, "call_s", ENGINES, case["engine"]) * np.where(cases.stage["repeats"] > 1.0, 0.0, 1.0),
        mixing=values["mixing"],
        host_sharpness=facts.coefficients("operators")["host_sharpness"],
    )


def stage_work(cases: CaseColumns, values: Coefficients) -> ForwardColumns:
    """Work of one pass of every stage: one input of speech is cut into windows
    that batch together."""
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
    """Seconds of one batch on one device (or one core of a chip), all stages with their repeats
    [s], one value a case."""
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


def pass_metric_values(cases: CaseColumns, values: Coefficients | None = None) -> dict[str, Array]:
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


#: Text encoders and decoders stay in 16 bits where a denoiser is quantised.
_WIDE_BYTES = 2.0
_STORED_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "amp": 4.0, "bf16": 2.0, "int8": 1.0, "fp8": 1.0}
_HELD_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "amp": 2.0, "bf16": 2.0, "int8": 2.0, "fp8": 2.0}


def peak_bytes(cases: CaseColumns, values: Coefficients) -> Array:
    """Memory of one device [bytes]: its part of the weights and of the activations that live at a
    time, and what the runtime itself takes, where the counter sees it."""
    case = cases.case
    stored, held = _by_dtype(_STORED_BYTES, case["dtype"]), _by_dtype(_HELD_BYTES, case["dtype"])
    stored = np.where(case["weight_bytes"] > 0, case["weight_bytes"], stored)
    per_layer = cases.stage["activations"] / np.maximum(cases.stage["layers"], 1.0) * cases.stage["items"]
    widest = np.zeros(len(cases))
    np.maximum.at(widest, cases.stage_row, per_layer)
    drawn = np.maximum(widest * values["live_layers"] + case["state_elements"], case["decode_elements"])
    live: Array = case["batch"] * drawn * held
    stored_wide = np.maximum(stored, np.where(case["wide_params"] > 0, _WIDE_BYTES, 0.0))
    weights = (case["params"] - case["wide_params"]) * stored + case["wide_params"] * stored_wide
    runtime = np.where(case["silicon"] == SILICON.index("cpu"), values["runtime_cpu_bytes"], values["runtime_bytes"])
    seen = np.where(case["tensors_only"] > 0, 0.0, runtime)
    return np.asarray((weights + live) / case["held_by"] + seen, dtype=np.float64)


def fit_room(cases: CaseColumns, at: int, usable_bytes: float) -> float | None:
    """Log of what a device has over what one case holds there, its runtime too; None where the
    device's memory is not known (0)."""
    if usable_bytes <= 0:
        return None
    seen = {name: column[at : at + 1] for name, column in cases.case.items()} | {"tensors_only": np.zeros(1)}
    chosen = cases.stage_row == at
    one = CaseColumns(np.zeros(int(chosen.sum()), dtype=np.intp), {n: v[chosen] for n, v in cases.stage.items()}, seen, (cases.works[at],))
    return float(np.log(usable_bytes / peak_bytes(one, coefficients())[0]))
