"""An estimate of GPU memory by the traced engine: live tensors as PyTorch makes them, plus what is not a tensor."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.errors import ContradictionError, InputError
from rightfit.estimate import traced
from rightfit.estimate.convert import device_columns
from rightfit.estimate.setup import TrainSettings
from rightfit.facts.own.reference import FUNCTION
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message
from rightfit.physics import memory_overheads as overheads
from rightfit.physics.columns import SetupColumns
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class TracedEstimate:
    """Bytes per GPU at the peak of a full training step with AdamW. `terms` add up to `peak_bytes`; `capacity_bytes` is None without a
    card."""

    model: str
    num_parameters: int
    micro_batch: int
    seq_len: int
    dtype: str
    recompute: bool
    shard_degree: int
    saved_activations_bytes: float
    terms: dict[str, float]
    peak_bytes: float
    accelerator: str = ""
    capacity_bytes: float | None = None

    @property
    def fits(self) -> bool | None:
        """Whether the card holds it; None without a card."""
        return None if self.capacity_bytes is None else self.peak_bytes <= self.capacity_bytes

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"engine": "traced", **dataclasses.asdict(self), "fits": self.fits}


def traced_estimate(
    model: str,
    *,
    micro_batch: int = 1,
    seq_len: int = 2048,
    dtype: str = "bf16",
    recompute: bool = False,
    shard_degree: int = 1,
    accelerator: str = "",
    settings: TrainSettings | None = None,
) -> TracedEstimate:
    """Trace `model` (config.json, folder, bundled name, or module:function) for one GPU, or for one rank of `shard_degree` under FSDP2.

    `settings` is the record that the formulas take: it decides the type of the weights, recomputation, attention and the scratch of the step.
    Adds to the live tensors the scratch of the optimizer's step (AdamW updates all parameters at once), the cuBLAS workspace, the allocator's slack and the CUDA context with the calibrated coefficients of the
    analytic engine.
    """
    if settings is not None:
        dtype, recompute = settings.dtype, settings.recompute
    for name, value in (("micro-batch", micro_batch), ("seq-len", seq_len), ("cards", shard_degree)):
        if value < 1:
            raise InputError(Message("estimate.below_one", option=name, value=value))
    shared = {"micro_batch": micro_batch, "seq_len": seq_len, "dtype": dtype, "shard_degree": shard_degree}
    if FUNCTION.fullmatch(model):
        if recompute:
            raise ContradictionError(Message("estimate.recompute_of_function", model=model))
        result = traced.trace_function(model, **shared)  # type: ignore[arg-type]
    else:
        attention = settings.attention if settings is not None else "sdpa"
        dropout = settings is None or settings.dropout
        result = traced.trace_config(config_of(model), recompute=recompute, attention=attention, dropout=dropout, **shared)  # type: ignore[arg-type]
    setup = SetupColumns.of(micro_batch=micro_batch, seq_len=seq_len, data=shard_degree, shard_degree=shard_degree)
    each = result.optimizer_bytes / 2.0 / result.num_parameters if settings is None else settings.step_temporary_bytes / shard_degree
    terms = with_overheads(result, setup, scratch=each * result.num_parameters)
    return TracedEstimate(
        model=model,
        num_parameters=result.num_parameters,
        recompute=recompute,
        saved_activations_bytes=result.saved_activations_bytes,
        terms=terms,
        peak_bytes=sum(terms.values()),
        accelerator=accelerator,
        capacity_bytes=capacity_of(accelerator) if accelerator else None,
        **shared,  # type: ignore[arg-type]
    )


def config_of(model: str) -> dict[str, Any]:
    """The Hugging Face config of a path, or of a bundled transformer."""
    path = Path(model).expanduser()
    if path.exists():
        return traced.read_config(path)
    record = facts.model(model, network=False)
    if not isinstance(record, TransformerArchitecture):
        raise ContradictionError(Message("estimate.not_traceable", model=record.name))
    return traced.config_of(record)


def capacity_of(accelerator: str) -> float:
    """What a job can use of a card [bytes]."""
    device = device_columns([facts.accelerator(accelerator)])
    return float(overheads.usable_bytes(device, coefficients=facts.coefficients("memory"))[0])


def with_overheads(result: traced.TracedMemory, setup: SetupColumns, *, scratch: float) -> dict[str, float]:
    """The tracker's kinds in our words, and the workspace, slack and context that no tracker sees [bytes].

    `scratch` [bytes] of the optimizer's step, which the tracker does not follow: it lives when the activations are gone, so the larger of the two
    makes the peak.
    """
    coefficients = facts.coefficients("memory")
    states = result.parameters_bytes + result.optimizer_bytes
    gradients = result.gradients_bytes
    moving = max(result.peak_bytes - states - gradients, 0.0)
    at_step = scratch > moving
    moving, scratch = (0.0, scratch) if at_step else (moving, 0.0)
    stored = min(result.saved_activations_bytes, moving)
    moment = {"steady": states + gradients + scratch, "stored": stored, "spikes": moving - stored, "buffers": 0.0}
    nothing = np.zeros(1)
    slack = overheads.slack_bytes({name: np.array([value]) for name, value in moment.items()}, nothing, setup, coefficients=coefficients)
    context = overheads.context_bytes(
        setup, context=coefficients["context_bytes"], per_peer=coefficients["nccl_peer_bytes"], most_peers=coefficients["nccl_most_peers"]
    )
    return {
        "weights": result.parameters_bytes,
        "optimizer": result.optimizer_bytes,
        "gradients": gradients,
        "activations": moving,
        "scratch": scratch,
        "workspace": coefficients["workspace_bytes"],
        "slack": float(slack[0]),
        "context": float(context[0]),
    }
