"""Preference and reinforcement tuning as a wish says it: weights that are trained, lengths, amount of data, batch, reward model."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.errors import ContradictionError, InputError
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.tuning import TuningMethod, tuning_methods
from rightfit.messages import Message
from rightfit.search.answer import Layout
from rightfit.search.notes import Notes
from rightfit.search.training.wish import Amount, TrainingWish, Tuning

if TYPE_CHECKING:
    from rightfit.workload import Workload

DECODERS = ("decoder", "moe-decoder", "vlm")
FEW_BITS = ("nf4", "fp4", "int4")


def read_tuning(workload: Workload, model: TransformerArchitecture, notes: Notes) -> Tuning | None:
    """What the method adds to training; None for methods that learn from examples."""
    method = tuning_methods().get(workload.method or "")
    if method is None:
        return None
    if model.kind not in DECODERS and method.method != "reward":
        raise ContradictionError(
            Message("families.method_writes_text", method=method.method, model=model.name),
            field="method",
        )
    if workload.offload == "activations":
        raise ContradictionError(
            Message("families.activations_tuned", method=method.method),
            field="offload",
        )
    if workload.offload in ("params", "all"):
        raise ContradictionError(
            Message("families.offload_method", offload=workload.offload, method=method.method),
            field="offload",
        )
    update = _update(workload, notes)
    if not method.rollout:
        notes.take("uncalibrated", method.method, "tuning_uncalibrated", method=method.method)
        return Tuning(method, update)
    usual = facts.coefficients("tuning")
    completions = workload.completions or method.sequences
    if not workload.completions:
        notes.take("completions", completions, "completions")
    if not workload.rollout:
        notes.take("rollout", "colocated", "rollout")
    tuning = Tuning(
        method,
        update,
        rollout=workload.rollout or "colocated",
        completions=completions,
        prompt_tokens=_length(workload.input_tokens, "input_tokens", usual["prompt_tokens"], notes),
        answer_tokens=_length(workload.output_tokens, "output_tokens", usual["answer_tokens"], notes),
        reward_model=_reward_model(workload, method, model, notes),
    )
    notes.take("uncalibrated", method.method, "tuning_uncalibrated", method=method.method)
    return tuning


def _update(workload: Workload, notes: Notes) -> str:
    """The weights that are trained: as said, as an adapter's options imply, else all."""
    if workload.update:
        return workload.update
    few = workload.quantization in FEW_BITS
    chosen = "qlora" if few else "lora" if workload.lora_rank or workload.lora_targets else "full"
    notes.take("update", chosen, "update")
    return chosen


def _length(given: int | None, field: str, usual: float, notes: Notes) -> float:
    if given:
        return float(given)
    notes.take(field, usual, f"rollout_{field}")
    return usual


def _reward_model(workload: Workload, method: TuningMethod, model: TransformerArchitecture, notes: Notes) -> TransformerArchitecture | None:
    """The model that rewards answers: the named one; ppo takes one like the trained model; grpo rewards by rules where none is named."""
    if workload.reward_model:
        found = facts.model(workload.reward_model, field="reward_model")
        if not isinstance(found, TransformerArchitecture):
            raise InputError(Message("families.reward_model", found=found.name, model=model.name), field="reward_model")
        return found
    if method.reward:
        notes.take("reward_model", model.name, "reward_model")
        return model
    notes.take("reward_model", "rules", "reward_rules")
    return None


def tuned_length(workload: Workload, tuning: Tuning, model: TransformerArchitecture, notes: Notes) -> int:
    """Tokens of a sequence that is trained on: prompt and answer, or the usual limit of trainers on preferences."""
    limit = model.max_position if model.certainty != "typical" else 0
    if tuning.rollout:
        wanted, field = int(tuning.prompt_tokens + tuning.answer_tokens), "output_tokens"
    else:
        wanted, field = workload.seq_len or int(facts.coefficients("tuning")["pair_seq_len"]), "seq_len"
        if not workload.seq_len:
            wanted = min(wanted, limit) if limit else wanted
            notes.take("seq_len", wanted, "pair_seq_len")
    if limit and wanted > limit:
        raise ContradictionError(
            Message("families.tokens_over_limit", option=field, tokens=wanted, model=model.name, limit=limit), field=field
        )
    return wanted


def tuned_amount(workload: Workload, tuning: Tuning, seq_len: int, notes: Notes) -> Amount:
    """Tokens that are trained on over all epochs: each pair twice its length, each prompt with all its answers."""
    if workload.epochs is None:
        notes.take("epochs", 1.0, "epochs")
    epochs, per_token = workload.epochs or 1.0, facts.coefficients("planning")["bytes_per_token"]
    sequences = float(tuning.completions if tuning.rollout else tuning.method.sequences)
    read = tuning.prompt_tokens if tuning.rollout else seq_len * sequences  # of a sample, from disk
    if workload.data_samples is None and (workload.data_tokens or workload.data_bytes):
        samples = (workload.data_tokens or (workload.data_bytes or 0.0) / per_token) / read
        notes.take("data_samples", samples, "tuning_samples_of_tokens", per_sample=read)
    elif workload.data_samples is not None:
        samples = workload.data_samples
    else:
        samples = float(tuning.method.samples)
        notes.take("data", samples, f"tuning_samples_{'prompts' if tuning.rollout else 'pairs'}")
    return Amount(samples * sequences * seq_len * epochs, samples * read * per_token, samples * epochs)


def tuned_batch(workload: Workload, tuning: Tuning, sequences: float, notes: Notes) -> int:
    """Sequences of an optimizer step. The user's batch counts pairs, or answers; no more than there are."""
    pair = 2 if tuning.method.is_paired else 1
    if workload.global_batch:
        return int(workload.global_batch) * pair
    chosen = min(tuning.method.batch, int(2 ** math.floor(math.log2(max(1.0, sequences / pair)))))
    chosen = max(chosen, workload.micro_batch or 1)
    notes.take("global_batch", chosen, "tuning_batch", method=tuning.method.method)
    return chosen * pair


def tuned_layout(wish: TrainingWish, layout: Layout) -> Layout:
    """A layout in the words of the method: pairs are counted once."""
    if wish.tuning is None:
        return layout
    pair = 2 if wish.tuning.method.is_paired else 1
    return dataclasses.replace(layout, micro_batch=layout.micro_batch // pair, update=wish.tuning.update, rollout=wish.tuning.rollout)
