"""From a training job of a language model (method, precision, optimizer, stack ...) to the
numbers of SetupColumns."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

import numpy as np

from rightfit import facts
from rightfit.estimation.convert import model_columns
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.tables import constants
from rightfit.facts.trainers import Habits, NumberFormat, Optimizer, Quantization, Software, Targets, names_any
from rightfit.physics import transformer
from rightfit.physics.columns import AttentionKernel, Dtype, Loss, MemoryCounter, Method, ModelColumns, Recompute
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES

RECOMPUTES = {
    "none": Recompute.NONE,
    "selective": Recompute.SELECTIVE,
    "full": Recompute.FULL,
    "block": Recompute.FULL,
    "true": Recompute.FULL,
}
KERNELS = {"eager": AttentionKernel.EAGER, "math": AttentionKernel.EAGER, "sdpa": AttentionKernel.SDPA, "xformers": AttentionKernel.SDPA}
COUNTERS = {
    "allocated": MemoryCounter.ALLOCATED,
    "allocator": MemoryCounter.ALLOCATED,
    "reserved": MemoryCounter.RESERVED,
    "nvidia-smi": MemoryCounter.DRIVER,
    "driver": MemoryCounter.DRIVER,
    "process": MemoryCounter.DRIVER,
}
ADAPTERS = frozenset({Method.LORA, Method.QLORA, Method.DORA})
#: Methods that train weights of the model itself.
_WHOLE = frozenset({Method.FULL, Method.GALORE, Method.FREEZE})


@dataclass(frozen=True, slots=True)
class TrainingCase:
    """How a language model is trained, on whatever layout. What is left out is the stack's:
    `stored_bytes` of a weight (0: that of the arithmetic), `adapter_bytes`, `rank`, `targets`,
    `attention` ("" or a kernel's name), `recompute`, `fused_loss`. `packed`: the format of a frozen
    base, which leaves `fused_experts` as they are. `prompt_tokens` and `projected` of prefixes,
    `last_layers` that are trained where the others are frozen (0: the usual number)."""

    model: TransformerArchitecture
    habits: Habits
    software: Software
    optimizer: Optimizer
    compute: NumberFormat
    method: Method = Method.FULL
    packed: Quantization | None = None
    stored_bytes: float = 0.0
    fused_experts: bool = False
    adapter_bytes: float = 0.0
    rank: float = 0.0
    targets: Targets | None = None
    trains_embeddings: bool = False
    prompt_tokens: float = 0.0
    projected: bool = False
    last_layers: float = 0.0
    attention: str = ""
    recompute: Recompute | None = None
    fused_loss: bool | None = None
    supports_flash: bool = True


def setup_fields(case: TrainingCase) -> dict[str, float]:
    """Fields of SetupColumns that a case decides; the caller adds the layout (micro_batch, seq_len,
    data, tensor ...)."""
    numbers = _number_formats(case)
    states = _trained_states(case, numbers)
    adapters = _adapter_fields(case)
    states |= _mean_widths(states, numbers, adapters)
    kernels = _kernel_fields(case)
    kernels["logit_bytes"] += case.habits.logit_tanh * (FP32_BYTES if numbers["upcast_norms"] else numbers["activation_bytes"])
    return {"method": float(case.method), **_speed_fields(case.software), **numbers, **states, **adapters, **kernels}


def _speed_fields(software: Software) -> dict[str, float]:
    """What only the time physics reads."""
    return {
        "framework": float(software.code),
        "attention_version": software.attention_version,
        "routing_skew": software.routing_skew,
        "segment_share": software.segment_share,
        "server_dispatch": float(software.server_dispatch),
        "weight_sync": float(software.weight_sync),
        "dequantise_bytes": software.dequantise_bytes,
    }


def _adapter_width(case: TrainingCase) -> float:
    return case.adapter_bytes or case.habits.adapter


def _number_formats(case: TrainingCase) -> dict[str, float]:
    """Widths of arithmetic, of stored weights and of the residual stream."""
    habits, packed, compute = case.habits, case.packed, case.compute.bytes
    stored = habits.weights if habits.weights is not None else case.stored_bytes or compute
    kbit = packed is not None and packed.kbit
    upcast = habits.kbit_upcast and kbit
    # FSDP2's stacks cast weights to the compute dtype on one card too, so the residual stream is
    # narrow although fp32 is stored (of sharded layers: memory_states.residual_bytes).
    is_sharded = habits.reduce == FP32_BYTES
    wide = upcast or (stored == 4 and compute == 2 and habits.residual is None and not is_sharded)
    return {
        "compute_dtype": float(Dtype[case.compute.code]),
        "activation_bytes": compute,
        "linear_weight_bytes": packed.linear_bytes if packed else stored,
        "expert_weight_bytes": compute if packed and case.fused_experts else 0.0,
        "other_weight_bytes": 4.0 if upcast else (compute if packed else stored),
        "quantized": float(packed is not None),
        "keeps_linear_inputs": float(kbit),
        "residual_bytes": 4.0 if wide else compute if habits.residual is None else habits.residual,
        "autocast": float(stored == 4 and compute == 2),
        "upcast_norms": float(upcast),
        "gather_bytes": compute,
    }


def _trained_states(case: TrainingCase, numbers: Mapping[str, float]) -> dict[str, float]:
    """Bytes per trained parameter: gradient, accumulation buffer, master copy, optimizer states,
    scratch of the step."""
    habits, chosen, adapters = case.habits, case.optimizer, case.method not in _WHOLE
    weight = _adapter_width(case) if adapters else numbers["linear_weight_bytes"]
    wide = weight if adapters or habits.state is None else habits.state
    gradient = weight if adapters or habits.gradient is None else habits.gradient
    scratch = 1.0 if adapters else habits.temporary
    return {
        "gradient_bytes": 0.0 if habits.in_backward else gradient * chosen.gradient_kept,
        "accumulation_bytes": 0.0 if adapters else habits.accumulation,
        "master_bytes": 0.0 if adapters else habits.master,
        "optimizer_bytes": 0.0 if chosen.paged else chosen.states * (chosen.state_bytes or wide),
        "optimizer_temporary_bytes": 0.0
        if habits.in_backward
        else scratch * chosen.temporary * wide + (0.0 if adapters else habits.temporary_bytes),
        "scratch_limit": habits.scratch_limit,
        "reduce_bytes": habits.reduce,
        "adapter_weight_bytes": _adapter_width(case),
    }


def _adapter_fields(case: TrainingCase) -> dict[str, float]:
    """Adapter size and what is trained."""
    columns = _columns_of(case.model)
    if case.method not in ADAPTERS:
        return _other_methods(case, columns)
    # names of no matrix say nothing
    chosen = case.targets if case.targets is not None and names_any(case.targets) else case.habits.targets
    rank = case.rank or case.habits.rank
    embeddings = max(chosen.embeddings, float(case.trains_embeddings))
    count = _adapter_count(columns, rank, chosen)
    count += chosen.head * rank * float(columns.hidden_size[0] + columns.vocab_size[0])
    whole = embeddings * float((transformer.embedding_parameters(columns) + transformer.head_parameters(columns))[0])
    magnitude = float(columns.hidden_size[0] * columns.num_layers[0] * chosen.per_layer)
    count += magnitude if case.method == Method.DORA else 0.0
    return {
        "adapter_rank": rank,
        "adapter_params": count + whole,
        "adapter_modules": chosen.per_layer * float(columns.num_layers[0]),
        "adapter_dropout": case.habits.adapter_dropout,
        "trainable_params": count + whole,
        "adapter_on_query": chosen.query,
        "adapter_on_key_value": chosen.key_value,
        "adapter_on_output": chosen.output,
        "adapter_on_up": chosen.up,
        "adapter_on_down": chosen.down,
        "adapter_on_experts": chosen.experts,
        "trained_embeddings": whole / max(count + whole, 1.0),
    }


def _mean_widths(states: Mapping[str, float], numbers: Mapping[str, float], adapters: Mapping[str, float]) -> dict[str, float]:
    """Embedding and head that are trained beside adapters keep the width of the base model, so the
    widths per trained parameter are means."""
    share = adapters.get("trained_embeddings", 0.0)
    if not share or not states["adapter_weight_bytes"]:
        return {}
    ratio = 1.0 - share + share * numbers["other_weight_bytes"] / states["adapter_weight_bytes"]
    return {
        name: states[name] * ratio for name in ("adapter_weight_bytes", "gradient_bytes", "optimizer_bytes", "optimizer_temporary_bytes")
    }


def _adapter_count(columns: ModelColumns, rank: float, chosen: Targets) -> float:
    zero = columns.num_layers * 0.0
    one = {name: zero + getattr(chosen, name) for name in ("query", "key_value", "output", "up", "down", "experts")}
    return float(transformer.adapter_parameters(columns, rank=zero + rank, **one)[0])


def _other_methods(case: TrainingCase, columns: ModelColumns) -> dict[str, float]:
    """Full training, frozen layers, prompts and prefixes.

    P-tuning v2 and prefix tuning train keys and values of virtual tokens for every layer (Liu et
    al. 2021, Li & Liang 2021), through a two-layer projection where the case says so.
    """
    usual = constants("training_words")
    if case.method in (Method.PTUNING, Method.PREFIX):
        added = _prefix_parameters(columns, case.prompt_tokens or usual["prompt_tokens"], projected=case.projected)
        return {"adapter_params": added, "trainable_params": added}
    if case.method == Method.FREEZE:
        trained = min((case.last_layers or usual["freeze_layers"]) / max(float(columns.num_layers[0]), 1.0), 1.0)
        return {"trainable_params": float(transformer.body_parameters(columns)[0]) * trained}
    return {"trainable_params": float(transformer.total_parameters(columns)[0]) * case.optimizer.trained_share}


def _prefix_parameters(columns: ModelColumns, tokens: float, *, projected: bool) -> float:
    width = float((columns.num_layers * transformer.key_value_width(columns))[0])
    hidden = float(columns.hidden_size[0])
    return tokens * hidden + hidden * hidden + hidden * width if projected else tokens * width


@functools.lru_cache(maxsize=1024)
def _columns_of(model: TransformerArchitecture) -> ModelColumns:
    return model_columns([model])


def _kernel_fields(case: TrainingCase) -> dict[str, float]:
    """Attention kernel, recomputation, loss, fused operators, counter."""
    habits = case.habits
    kernel = habits.attention_forced or case.attention or habits.attention
    code = KERNELS.get(kernel, AttentionKernel.FLASH if "flash" in kernel else AttentionKernel.SDPA)
    if code == AttentionKernel.FLASH and not case.supports_flash:
        code = AttentionKernel.SDPA
    fused = habits.fused_loss if case.fused_loss is None else case.fused_loss
    recompute = RECOMPUTES.get(habits.recompute.lower(), Recompute.NONE) if case.recompute is None else case.recompute
    return {
        "attention": float(code),
        "recompute": float(recompute),
        "loss": float(Loss.FUSED if fused else Loss.STANDARD),
        "logit_bytes": habits.logit,
        "kept_logit_bytes": habits.logit_kept,
        "frozen_input_copies": habits.frozen_copies,
        "variable_length": habits.variable_length,
        "expandable_segments": habits.expandable,
        "norm_saved_bytes": habits.norm_saved,
        "gelu_tensors": habits.gelu_tensors,
        "softmax_upcast": habits.softmax_upcast,
        "expanded_key_value": habits.expanded_kv,
        "fused_query_key_value": habits.fused_qkv,
        "routed_bytes": habits.routed,
        **{name: getattr(habits, name) for name in ("expert_loop", "loads_whole", "layer_gradient_workspace", "dropout")},
        "fused_kernels": habits.fused,
        "compiled": habits.compiled,
        "memory_counter": float(COUNTERS.get(habits.counter, MemoryCounter.RESERVED)),
    }


# ---- Samples that a benchmark run takes to reach its quality target, from MLPerf's reference
# convergence points.
#
# A published time to train is samples to converge over samples a second; the first depends on the
# model, the target and the global batch, never on the machine. facts/data/convergence.csv has the
# mean over the reference runs; between batch sizes it is interpolated in log-log, outside them
# held. Single runs differ from the mean by about 8 % (BERT at batch 256) to 3 % (GPT-3).


@functools.cache
def _points(model: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rows = sorted((float(row["global_batch"]), float(row["samples"])) for row in facts.table("convergence") if row["model"] == model)
    return tuple(math.log(batch) for batch, _ in rows), tuple(math.log(samples) for _, samples in rows)


def samples_to_converge(model: str, *, global_batch: float) -> float:
    """Samples to the benchmark's target for a model by hub id and a global batch [samples]; NaN for
    a model that is no benchmark."""
    batches, samples = _points(model)
    if not batches or global_batch <= 0:
        return math.nan
    return math.exp(float(np.interp(math.log(global_batch), batches, samples)))
