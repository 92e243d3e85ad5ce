"""Memory by moment, the largest batch that fits, and how each term is worked out, with its
source."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import label, say, topic
from rightfit.explain.plan_words import OptionText
from rightfit.explain.quantities import Column, Table
from rightfit.families.registry import name_of
from rightfit.messages import Lang
from rightfit.physics import collectives, compute, decode, loading, memory_peak, memory_states, operators, passes, serving_columns, step

if TYPE_CHECKING:
    from rightfit.search.answer import Plan, Section

#: The function of the physics that works a term out, by the key of data/formulas.toml: its source
#: stands beside the formula.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "memory_weights": memory_states.weights_bytes,
    "memory_adapters": memory_states.adapter_bytes,
    "memory_gradients": memory_states.gradients_bytes,
    "memory_optimizer": memory_states.optimizer_bytes,
    "memory_master": memory_states.master_bytes,
    "memory_activations": memory_states.layer_activations,
    "memory_logits": memory_peak.logits_bytes,
    "memory_working": memory_states.backward_scratch_bytes,
    "memory_buffers": memory_peak.gathered_bytes,
    "memory_scratch": memory_states.step_scratch_bytes,
    "memory_workspace": memory_peak.workspace_bytes,
    "memory_slack": memory_peak.squeezed_bytes,
    "memory_context": memory_peak.context_bytes,
    "memory_reference": step.frozen_bytes,
    "memory_reward_model": step.frozen_bytes,
    "memory_value_model": step.state_bytes,
    "memory_frozen_logits": step.frozen_logits_bytes,
    "memory_engine_weights": serving_columns.weights_bytes_per_device,
    "memory_engine_cache": serving_columns.kv_bytes_per_device,
    "memory_engine": serving_columns.engine_workspace_bytes,
    "memory_weights/samples": passes.memory_terms,
    "memory_states/samples": passes.memory_terms,
    "memory_activations/samples": passes.activation_elements,
    "memory_working/samples": passes.memory_terms,
    "memory_frozen_networks/samples": passes.memory_terms,
    "memory_tables/samples": passes.memory_terms,
    "memory_slack/samples": passes.memory_terms,
    "memory_context/samples": passes.memory_terms,
    "memory_weights/serving": serving_columns.weights_bytes_per_device,
    "memory_kv_cache/serving": serving_columns.kv_room_bytes,
    "memory_workspace/serving": serving_columns.engine_workspace_bytes,
    "memory_context/serving": memory_peak.context_bytes,
    "time_gemm": operators.gemm_s,
    "time_attention": operators.attention_s,
    "time_memory_bound": operators.layers_forward_s,
    "time_recompute": compute.compute_times,
    "time_dequantise": operators.dequantise_s,
    "time_adapter": compute.compute_times,
    "time_head": operators.loss_s,
    "time_launch": compute.host_s,
    "time_tensor": collectives.all_reduce_s,
    "time_expert": collectives.all_to_all_s,
    "time_context": collectives.all_to_all_s,
    "time_shard": collectives.gather_s,
    "time_data": collectives.all_reduce_s,
    "time_pipeline": collectives.step_parts,
    "time_rollout": decode.decode_times,
    "time_scoring": step.forward_s,
    "time_value": step.forward_s,
    "time_update": operators.update_s,
    "time_offload": step.communication_times,
    "time_overhead": step.step_times,
    "time_loading": loading.epochs_s,
    "time_compute/samples": passes.compute_s,
    "time_tables/samples": passes.table_s,
    "time_update/samples": passes.update_s,
    "time_data/samples": passes.communication_s,
    "time_overhead/samples": passes.joined_terms,
    "time_weights/serving": decode.product_s,
    "time_attention/serving": decode.attention_s,
    "time_head/serving": decode.product_s,
    "time_gaps/serving": decode.gaps_s,
    "time_communication/serving": decode.layers_collective_s,
    "time_experts/serving": decode.touched_experts,
    "memory_weights/passes": serving_columns.weights_bytes,
    "time_compute/passes": passes.forward_s,
}

_SOURCE = re.compile(r"Source: (.*?)(?:\. Known error|\n\s*\n|$)", re.DOTALL)


def phase_tables(plan: Plan, lang: Lang) -> Iterable[Table]:
    """What a card must hold at each moment of a step, largest first, and its share of
    what the card gives."""
    for section in _sections(plan):
        room = float(section.content["capacity_bytes"])
        held = sorted(section.content["phase_bytes"].items(), key=lambda item: -item[1])
        records = [{"moment": label("phase", name, lang), "needed": value, "of_card": value / room} for name, value in held]
        columns = (Column("moment"), Column("needed", q.memory_text, right=True), Column("of_card", q.percent_text, right=True))
        yield Table(columns, records, title=label("section", "phases", lang))


def batch_lines(plan: Plan, render: Callable[[Any], str]) -> list[str]:
    """The largest micro-batch that the card would hold."""
    return [render(reason) for section in _sections(plan) for reason in section.reasons]


def _sections(plan: Plan) -> list[Section]:
    return [section for section in plan.sections if section.name == "memory"]


def formula_lines(plan: Plan, text: OptionText, lang: Lang) -> list[str]:
    """How the terms of memory and time are worked out, with the source of each."""
    family = name_of(plan.workload)
    found = [(term.label, formula_of(kind, term.name, family)) for kind in ("memory", "time") for term in getattr(text, kind)]
    return [
        say("formulas.line", lang, name=name, formula=say(f"formulas.{key}", lang), source=source_of(FUNCTIONS[key]))
        for name, key in found
        if key
    ]


def formula_of(kind: str, term: str, family: str) -> str:
    """The key of the formula of a term in a family of work; empty where none is told."""
    name = f"{kind}_{term.removesuffix('_s')}"
    keys = (f"{name}/{family}", *([name] if family in ("language", "samples") else []))
    return next((key for key in keys if key in topic("formulas")), "")


@cache
def source_of(function: Callable[..., Any]) -> str:
    """Where the equation of a function of the physics comes from: its own source, or
    that of its module."""
    texts = (inspect.getdoc(function) or "", inspect.getdoc(inspect.getmodule(function)) or "")
    found = next(match for match in map(_SOURCE.search, texts) if match)
    return " ".join(found[1].split()).rstrip(".")
