"""Rollouts of reinforcement tuning: how long an engine takes to answer the prompts of one iteration, by the physics of serving.

The engine is vLLM with 16-bit weights, as TRL, verl and OpenRLHF use it: either inside the trainer, in the memory that its states leave, or
on accelerators of its own.
"""

from __future__ import annotations

import numpy as np

from rightfit.estimate.serving import serving_columns
from rightfit.estimate.serving_case import ServingCase, is_latent, serving_fields
from rightfit.facts.devices import architecture_names
from rightfit.facts.engines import engine_class, on_device, weight_formats
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Load, ServeColumns
from rightfit.records import dataclass

ENGINE = "vllm"
#: Steps in which the share of memory is told apart: finer ones would only make more rows of the same.
SHARE_STEPS = 64.0


@dataclass(frozen=True, slots=True)
class Rollout:
    """The answers of one iteration on one engine: `gpus` of it, `answers` that it gives, `share` of the card's memory that it may take."""

    gpus: Array
    answers: Array
    share: Array
    prompt_tokens: float
    answer_tokens: float


def _values(family: str, arch: TransformerArchitecture, half: str) -> dict[str, float]:
    engine = on_device(engine_class(ENGINE), family, ENGINE)
    return serving_fields(ServingCase(engine, family, weight_formats()[half], is_latent=is_latent(arch), is_mixture=arch.num_experts > 0))


def rollout_s(
    arch: TransformerArchitecture,
    model: ModelColumns,
    device: DeviceColumns,
    links: LinkColumns,
    rollout: Rollout,
    *,
    gpus_per_node: Array,
) -> Array:
    """Seconds until the last answer of an iteration is there: answers over what the engine gives a second, all prompts coming at once and
    answers differing in length. Rows that differ in nothing that matters are timed once."""
    keys = np.broadcast_arrays(
        device.architecture, device.memory_bytes, device.memory_bandwidth, device.bf16_flops, device.fp16_flops, device.tdp_w,
        links.intra_bandwidth, links.intra_kind, gpus_per_node, rollout.gpus, np.ceil(rollout.answers),
        np.floor(rollout.share * SHARE_STEPS),
    )  # fmt: skip
    _, first, inverse = np.unique(np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True)
    rows = first.astype(np.intp)
    size = keys[0].shape[0]
    chosen_device, chosen_links = device.take(rows) if device.num_rows == size else device, links
    if links.num_rows == size:
        chosen_links = links.take(rows)
    serve = _serve(arch, chosen_device, rows.shape[0]).replace(
        tensor=keys[9][rows],
        gpus_per_node=keys[8][rows],
        requests=np.maximum(keys[10][rows], 1.0),
        memory_fraction=np.maximum(keys[11][rows], 1.0) / SHARE_STEPS,
        input_tokens=rollout.prompt_tokens,
        output_tokens=rollout.answer_tokens,
        load=Load.OFFLINE,
        batch=0.0,
        varied_lengths=1.0,
    )
    times = serving_columns(model, serve, chosen_device, chosen_links)
    return np.asarray((serve.requests / np.maximum(times.requests_per_s, 1e-12))[inverse.reshape(-1)])


def _serve(arch: TransformerArchitecture, device: DeviceColumns, size: int) -> ServeColumns:
    """What engine and format decide, by the family of each card."""
    codes, halves = (np.broadcast_to(column, size) for column in (device.architecture, device.bf16_flops > 0))
    names, kinds = architecture_names(), list(zip(codes.tolist(), halves.tolist(), strict=True))
    known = {(code, half): _values(names[int(code)], arch, "bf16" if half else "fp16") for code, half in dict.fromkeys(kinds)}
    return ServeColumns.of(**{name: [known[kind][name] for kind in kinds] for name in known[kinds[0]]})
