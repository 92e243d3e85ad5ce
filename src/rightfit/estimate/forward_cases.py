"""Rows of the measured inference table whose model does not generate token by token, as columns for the forward physics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimate.case_cells import counts_tensors
from rightfit.estimate.forward_devices import SILICON, ForwardDevice, forward_device
from rightfit.estimate.forward_models import forward_work, record_of
from rightfit.estimate.forward_records import ForwardWish, ForwardWork
from rightfit.estimate.forward_words import DTYPES, ENGINES, SCENARIOS, Batch, batch_of, dtype_of, engine_of, number, wish_of
from rightfit.estimate.pattern_tables import first_match
from rightfit.facts.constants import constants
from rightfit.facts.records import DiffusionModel, OtherModel, TracedModel, TransformerArchitecture, VisionModel
from rightfit.facts.word_tables import says
from rightfit.physics.columns import Array
from rightfit.records import dataclass

STAGE_KINDS = (
    "conv",
    "grouped",
    "depthwise",
    "convnext",
    "window",
    "transformer",
    "detection",
    "unet",
    "conv3d",
    "denoiser",
    "dit",
    "recurrent",
    "recommender",
    "decode",
)
RATE_METRICS = ("images_per_s", "sequences_per_s", "denoise_steps_per_s", "req_per_s", "total_tok_per_s", "output_tok_per_s_total")
OWN_METRICS = ("images_per_s", "sequences_per_s", "denoise_steps_per_s")
FORWARD_METRICS = (*RATE_METRICS, "latency_ms", "peak_mem_gib")

#: Numbers of one row, in the order of `_case`; there also where no row can be told.
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
    "tokens_out",
    "tokens_in",
    "channels_last",
    "audio",
    "params",
    "output_bytes",
    "pixels",
    "state_elements",
    "tensor",
    "tensors_only",
)

_TRANSFORMER_KINDS = ("encoder", "embedding", "encoder-decoder")


@dataclass(frozen=True, slots=True)
class ForwardCases:
    """Stages one under the other (`row` = position in the table each belongs to) and one line a row.

    Per stage: macs, score_macs, activations, weights, layers, repeats, items (inputs of one pass on one device), loose, pointwise, host, kind.
    Per row, in the order
    of `index`: batch, devices that share the load, devices that share one input, in_flight passes, codes of engine, dtype, silicon,
    scenario,
    device rates, and the work itself.
    """

    index: NDArray[np.intp]
    stage_row: NDArray[np.intp]
    stage: Mapping[str, Array]
    case: Mapping[str, Array]
    works: tuple[ForwardWork, ...]
    refused: Mapping[int, str]
    assumptions: Mapping[int, tuple[str, ...]]


def is_forward(row: Mapping[str, str]) -> bool:
    """Whether a row of the inference table is one of a model without token-by-token generation (or whose generation is its smaller
    part)."""
    if row.get("metric", "") in OWN_METRICS:
        return True
    name = row.get("model", "").strip()
    if not name:
        return False
    if first_match("forward_models", name, whole=True):
        return True
    record = record_of(name)
    if isinstance(record, TransformerArchitecture):
        return record.kind in _TRANSFORMER_KINDS or bool(re.search(r"\bclip\b", name, re.IGNORECASE))
    return isinstance(record, VisionModel | DiffusionModel | OtherModel | TracedModel)


def usual_batch(work: ForwardWork) -> float:
    """Batch that an engine chooses to fill a device: large for small models, small for large ones."""
    main = work.stages[0]
    if main.kind == "recurrent":
        return 2048.0  # steps that wait for each other cost the same for one input and for thousands
    figures = constants("forward_work")
    share = figures["chosen_batch_macs"] / max(main.macs + main.score_macs, 1e6)
    return float(np.clip(figures["chosen_batch"] * share**0.5, 1.0, figures["chosen_batch_most"]))


def _workers(row: Mapping[str, str], device: ForwardDevice, *, text: bool) -> tuple[float, float]:
    """Cores of a chip that run passes of their own, and passes in flight per such core: two when it runs for throughput.

    The published tables of AWS show it: throughput x latency / batch is twice the cores in their batch rows of images, the cores themselves
    in
    those of text, and one in real-time rows but for text.
    """
    if device.silicon != "neuron":
        return 1.0, 1.0
    flags = row.get("flags", "").lower()
    if "pipeline" in flags:
        return device.cores, 1.0
    if "real time" in flags or "tensor parallel" in flags:
        return (device.cores if text and device.name != "Inferentia1" else 1.0), 1.0
    return device.cores, (1.0 if text and device.name != "Inferentia1" else 2.0)


def _names(row: Mapping[str, str]) -> str:
    return f"{row.get('model', '')} {row.get('engine', '')}"


def _problem(row: Mapping[str, str], work: ForwardWork | None, device: ForwardDevice | None) -> str:
    if not row.get("model"):
        return "the row names no model"
    if work is None:
        return f"model {row['model'][:60]!r} is not known and the row states neither its arithmetic nor its parameters"
    if (
        work.assumptions
        and work.assumptions[0].startswith("model not known")
        and says("forward", "denoiser", _names(row), ignore_case=True)
    ):
        return f"model {row['model'][:60]!r} is a denoiser that is not known: how much one step of it works on cannot be told from its parameters"
    if device is None:
        return f"device {row.get('device', '')[:60]!r} is not known" if row.get("device") else "the row names no device"
    if row.get("metric") not in FORWARD_METRICS:
        return f"metric {row.get('metric', '')[:60]!r} is not predicted for a model of this kind"
    return ""


def forward_cases(rows: Sequence[Mapping[str, str]]) -> ForwardCases:
    """Columns for the rows that can be told, reasons for the others."""
    refused: dict[int, str] = {}
    assumptions: dict[int, tuple[str, ...]] = {}
    index: list[int] = []
    works: list[ForwardWork] = []
    cases: list[dict[str, float]] = []
    for position, row in enumerate(rows):
        wish = wish_of(row)
        work = _cached_work(wish) if wish.model else None
        device = _device_of(row)
        if problem := _problem(row, work, device):
            refused[position] = problem
            continue
        assert work is not None
        assert device is not None
        index.append(position)
        works.append(work)
        assumptions[position] = (*work.assumptions, *((device.assumption,) if device.assumption else ()))
        cases.append(_case(row, work, device, batch_of(row)))
    return _columns(index, works, cases, refused, assumptions)


def _device_of(row: Mapping[str, str]) -> ForwardDevice | None:
    name = row.get("device", "")
    return forward_device(name, row.get("device_mem_gib", "")) if name else None


_WORKS: dict[object, ForwardWork | None] = {}


def _cached_work(wish: ForwardWish) -> ForwardWork | None:
    if facts.own_reference(wish.model):  # a file may change, and is kept by its content
        return forward_work(wish)
    if wish not in _WORKS:
        if len(_WORKS) > 20_000:
            _WORKS.clear()
        _WORKS[wish] = forward_work(wish)
    return _WORKS[wish]


#: Kinds made of convolutions: Winograd saves multiplications in fp32, cuDNN takes TF32 by itself.
CONVOLUTIONAL = frozenset({"conv", "grouped", "depthwise", "convnext", "detection", "unet", "conv3d", "denoiser"})


_MAX_SOCKETS = 8.0


def _num_devices(row: Mapping[str, str], device: ForwardDevice) -> float:
    """Devices of a row. Of processors, the sockets where they are stated: some tables count cores or memory domains in their place."""
    count = number(row.get("n_devices", "")) or 1.0
    if device.silicon != "cpu":
        return count
    if stated := number(row.get("sockets", "")):
        return stated
    return 1.0 if device.client or count > _MAX_SOCKETS else count


#: Frameworks that compute in the dtype of the weights, which is fp32 unless one asks.
_PLAIN_ENGINES = frozenset({"eager", "eager_script", "compiled", "tensorflow", "tensorflow_xla", "mxnet", "paddle", "onnxruntime"})


def _usual_dtype(work: ForwardWork, device: ForwardDevice, engine: str) -> str:
    """Arithmetic where a row names none."""
    unasked = engine in _PLAIN_ENGINES and work.modality in ("vision", "text")
    return "fp32" if device.silicon in ("cpu", "old") or unasked else "fp16"


def _dtype(row: Mapping[str, str], work: ForwardWork, device: ForwardDevice, engine: str) -> str:
    """Arithmetic that runs: fp32 convolutions use TF32 where the card has it (cuDNN's default), and so do TensorRT and TensorFlow."""
    dtype = dtype_of(row.get("weights_dtype", ""), row.get("compute_dtype", "")) or _usual_dtype(work, device, engine)
    default_tf32 = engine in ("tensorrt", "tensorflow", "tensorflow_xla", "paddle", "mxnet") or work.stages[0].kind in CONVOLUTIONAL
    if dtype == "fp32" and device.tf32 > device.fp32 and device.silicon != "cpu" and default_tf32:
        return "tf32"
    if dtype == "bf16" and not device.bf16:
        return "fp16"
    if dtype == "fp32" and device.silicon == "neuron" and not device.fp32:
        return "bf16"  # the first Inferentia has no fp32 arithmetic: its compiler casts
    return dtype


def _case(row: Mapping[str, str], work: ForwardWork, device: ForwardDevice, batch: Batch) -> dict[str, float]:
    """Numbers of one row."""
    engine = engine_of(row.get("engine", ""), row.get("flags", ""), row.get("device", ""))
    dtype = _dtype(row, work, device, engine)
    if device.silicon == "cpu" and dtype == "int8" and engine in ("eager", "compiled"):
        engine = "openvino"  # PyTorch's int8 on processors runs through the same graph library (oneDNN)
    num_devices = _num_devices(row, device)
    splits = (
        work.modality in ("image", "video") and row.get("metric") in ("latency_ms", "denoise_steps_per_s") and device.silicon != "neuron"
    )
    shared = num_devices if splits else 1.0
    if device.silicon == "neuron" and work.stages[0].kind == "denoiser":  # each core takes one half of the guided pair
        shared = device.cores
    tensor = number(row.get("tp", "")) if work.modality in ("text", "audio") else 0.0
    if tensor > 1:
        shared, num_devices = tensor, 1.0
    workers, in_flight = (1.0, 1.0) if shared > 1 else _workers(row, device, text=work.modality == "text")
    parallel = workers * (1.0 if work.output_bytes else num_devices)  # a host that copies large outputs gains nothing from more chips
    return {
        "batch": batch.size or usual_batch(work),
        "parallel": 1.0 if splits else parallel,
        "shared": shared,
        "in_flight": in_flight,
        "engine": float(ENGINES.index(engine)),
        "dtype": float(DTYPES.index(dtype)),
        "silicon": float(SILICON.index(device.silicon)),
        "scenario": float(SCENARIOS.index(batch.scenario)),
        "peak": device.peak(dtype) / device.cores,
        "peak_fp32": device.fp32 / device.cores,
        "bandwidth": device.bandwidth / (device.cores if shared > 1 else workers),  # cores that rest leave it to the others
        "l2_bytes": device.l2_bytes / device.cores,
        "tdp_w": device.tdp_w,
        "units": device.units,
        "cores": device.cores,
        "compute_dtype_stored": float("autocast" in row.get("flags", "").lower() or dtype == "amp"),
        "tokens_out": number(row.get("output_tokens", "")),
        "tokens_in": number(row.get("input_tokens", "")),
        "channels_last": float("channels_last" in row.get("flags", "")),
        "audio": float(work.modality == "audio" and len(work.stages) > 1),
        "params": work.params,
        "output_bytes": work.output_bytes,
        "pixels": work.pixels,
        "state_elements": work.state_elements,
        "tensor": max(tensor, 1.0),
        "tensors_only": float(counts_tensors(row)),
    }


def _columns(
    index: list[int],
    works: list[ForwardWork],
    cases: list[dict[str, float]],
    refused: dict[int, str],
    assumptions: dict[int, tuple[str, ...]],
) -> ForwardCases:
    case = {name: np.array([values[name] for values in cases], dtype=np.float64) for name in CASE_COLUMNS}
    stage_row = np.array([position for position, work in enumerate(works) for _ in work.stages], dtype=np.intp)
    stages = [stage for work in works for stage in work.stages]
    names = ("macs", "score_macs", "activations", "weights", "layers", "repeats", "items", "loose", "pointwise", "host")
    stage = {name: np.array([getattr(item, name) for item in stages], dtype=np.float64) for name in names}
    stage["kind"] = np.array([float(STAGE_KINDS.index(item.kind)) for item in stages])
    return ForwardCases(np.array(index, dtype=np.intp), stage_row, stage, case, tuple(works), refused, assumptions)
