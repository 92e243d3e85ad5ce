"""From a workload to numbers: the model, the amount of work, the batch, and every default that
was taken on the way."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.errors import ContradictionError, InputError, UnavailableError, UnknownNameError
from rightfit.facts.records import Dataset, TransformerArchitecture
from rightfit.facts.trainers import TuningMethod, names_target, target_words, tuning_methods
from rightfit.messages import Message, either
from rightfit.physics.columns import Method
from rightfit.search.answer import Layout
from rightfit.search.criteria import assumed_framework, refuse_impossible_splits
from rightfit.search.request_checks import Notes, note_own
from rightfit.search.seen import Seen, read_pictures
from rightfit.search.training.wish import Amount, TrainingRequest, Tuning, read_framework
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.workload import Workload


# ---- Preference and reinforcement tuning as a wish says it: weights that are trained, lengths,
# amount of data, batch, reward model.

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
    """The model that rewards answers: the named one; ppo takes one like the trained model; grpo
    rewards by rules where none is named."""
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


def tuned_length(workload: Workload, tuning: Tuning, model: TransformerArchitecture, notes: Notes, *, seen: int = 0) -> int:
    """Tokens of a sequence that is trained on: prompt and answer, or the usual limit of
    trainers on preferences and so many tokens of images."""
    limit = max(model.max_position, 0) if model.certainty != "typical" else 0
    if tuning.rollout:
        wanted, field = int(tuning.prompt_tokens + tuning.answer_tokens), "output_tokens"
    else:
        wanted, field = workload.seq_len or int(facts.coefficients("tuning")["pair_seq_len"]) + seen, "seq_len"
        if not workload.seq_len:
            wanted = min(wanted, limit) if limit else wanted
            notes.take("seq_len", wanted, "pair_seq_len")
    if limit and wanted > limit:
        raise ContradictionError(
            Message("families.tokens_over_limit", option=field, tokens=wanted, model=model.name, limit=limit), field=field
        )
    return wanted


def tuned_amount(workload: Workload, tuning: Tuning, seq_len: int, notes: Notes) -> Amount:
    """Tokens that are trained on over all epochs: each pair twice its length, each prompt
    with all its answers."""
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
    """Sequences of an optimizer step. The user's batch counts pairs, or answers; no
    more than there are."""
    pair = 2 if tuning.method.is_paired else 1
    if workload.global_batch:
        return int(workload.global_batch) * pair
    chosen = min(tuning.method.batch, int(2 ** math.floor(math.log2(max(1.0, sequences / pair)))))
    chosen = max(chosen, workload.micro_batch or 1)
    notes.take("global_batch", chosen, "tuning_batch", method=tuning.method.method)
    return chosen * pair


def tuned_layout(wish: TrainingRequest, layout: Layout) -> Layout:
    """A layout in the words of the method: pairs are counted once."""
    if wish.tuning is None:
        return layout
    pair = 2 if wish.tuning.method.is_paired else 1
    return dataclasses.replace(layout, micro_batch=layout.micro_batch // pair, update=wish.tuning.update, rollout=wish.tuning.rollout)


USUAL_PATCH = 14  # pixels, where a configuration states none
FLOPS_PER_PARAMETER_AND_TOKEN = 6.0  # forward 2, backward 4: the definition used by the batch-size law


def read_wish(workload: Workload) -> TrainingRequest:
    """The workload as numbers; raises what the user must know (contradictions, things that
    are not there yet)."""
    notes = Notes()
    model = transformer(workload)
    refuse_sample_methods(workload, model.name)
    read_framework(workload, notes)
    refuse_unknown_targets(workload)
    refuse_kept_activations(workload)
    workload = settle_language_method(workload, model)
    tuning = read_tuning(workload, model, notes)
    told_notes = Notes()
    seen = read_pictures(workload, model, told_notes)
    if tuning and tuning.rollout:
        tuning = dataclasses.replace(tuning, prompt_tokens=tuning.prompt_tokens + seen.tokens)
    for field in workload.assumed:
        if field == "task" and workload.task == "train":
            notes.take("task", "train", "task_corpus", tokens=pretraining_tokens(workload))
        elif field != "currency":
            whole = field == "method" and workload.method == "full" and workload.task == "finetune"
            notes.take(field, str(getattr(workload, field)), "encoder_method" if whole else f"default_{field}")
    note_own(model, notes)
    if tuning:
        seq_len = tuned_length(workload, tuning, model, notes, seen=0 if tuning.rollout else seen.tokens)
        amount = tuned_amount(workload, tuning, seq_len, notes)
        batch = tuned_batch(workload, tuning, amount.tokens / seq_len, notes)
    else:
        seq_len = sequence_length(workload, model, notes, seen=seen.tokens)
        amount = amount_of_work(workload, model, seq_len, notes, seen=seen.tokens)
        batch = global_batch(workload, model, seq_len, amount, notes)
    notes.taken.extend(told_notes.taken)
    if seen.patches:
        model = _with_tower(model, seen, 1.0 if tuning else seq_len / sample_tokens(workload, model, seq_len, seen=seen.tokens))
    method = Method[(tuning.update if tuning else workload.method or "full").upper()]
    refuse_impossible_splits(workload, method)
    if not workload.framework:
        take_framework(workload, method, notes)
    if method in LOW_RANK:
        take_adapters(workload, method, model, notes)
    return TrainingRequest(workload, model, method, seq_len, batch, amount, tuple(notes.taken), tuning)


def _with_tower(model: TransformerArchitecture, seen: Seen, samples: float) -> TransformerArchitecture:
    """The model with a vision tower that works on all patches of a sequence of so many samples."""
    patch = model.vision_patch or USUAL_PATCH
    side = math.sqrt(seen.images * seen.patches * samples)
    return dataclasses.replace(model, vision_patch=patch, vision_image_size=round(side) * patch)


def pretraining_tokens(workload: Workload) -> float:
    """Tokens of the data where they are so many that nobody fine-tunes on them; 0 where they are
    fewer, or not known."""
    usual = facts.coefficients("planning")
    tokens = workload.data_tokens or 0.0
    if not tokens and workload.data_unit == "dataset" and workload.data:
        dataset = facts.dataset(workload.data)
        counted = 0.0 if dataset.samples or dataset.domain != "text" else (dataset.size_bytes or 0.0) / usual["bytes_per_token"]
        tokens = float(dataset.tokens or counted)  # where samples are told, bytes hold more than is learned from
    return tokens if tokens >= usual["pretraining_tokens"] else 0.0


def settle_language_method(workload: Workload, model: TransformerArchitecture) -> Workload:
    """The method where none was given: encoders, and models of embeddings as small, are fine-tuned
    whole, as their papers and examples do; others with adapters."""
    small = model.kind == "embedding" and model.params_total <= facts.coefficients("planning")["tuned_whole_params"]
    if "method" not in workload.assumed or workload.task != "finetune" or workload.quantization or not (model.kind == "encoder" or small):
        return workload
    if workload.lora_rank or workload.lora_targets:
        return workload
    return workload.settled(method="full")


def refuse_kept_activations(workload: Workload) -> None:
    """Trainers move the inputs of layers that recomputation keeps; without recomputation every
    operator's would cross the bus."""
    if workload.offload == "activations" and workload.recompute not in (None, "full"):
        raise ContradictionError(
            Message("families.activations_kept", recompute=workload.recompute),
            field="offload",
        )


def take_framework(workload: Workload, method: Method, notes: Notes) -> None:
    """The training stack that is taken where none is named: it decides whether a copy of the model
    can be split over accelerators."""
    usual = assumed_framework(workload, method)
    if usual:
        notes.take("framework", usual, "framework")
    else:
        notes.take("framework", "PyTorch", "framework_splitting")


LOW_RANK = frozenset({Method.LORA, Method.QLORA, Method.DORA})


def take_adapters(workload: Workload, method: Method, model: TransformerArchitecture, notes: Notes) -> None:
    """Rank and layers of the adapters, where nobody says them: those of the stack, which memory,
    time and exported files all have."""
    framework = workload.framework or assumed_framework(workload, method)
    usual = facts.trainers.stack_settings(framework=framework, method=method.name.lower(), model=model.name)
    if not workload.lora_rank:
        notes.take("lora_rank", int(float(usual["rank"])), "adapter_rank")
    if not workload.lora_targets:
        notes.take("lora_targets", usual["targets"], "adapter_targets")


def refuse_unknown_targets(workload: Workload) -> None:
    """Layers for adapters by names that mean none are refused with the nearest."""
    for name in workload.lora_targets:
        if not names_target(name):
            raise UnknownNameError(
                "layer",
                name,
                nearest=nearest_words(name.casefold(), target_words()),
                allowed=Message("names.for_example", names=either(("q,k,v,o", "all-linear"))),
                field="lora_targets",
            )


SAMPLE_METHODS = ("dreambooth", "textual-inversion")


def refuse_sample_methods(workload: Workload, name: str) -> None:
    """Methods that mean nothing for a language model."""
    if workload.method in SAMPLE_METHODS:
        raise ContradictionError(Message("families.method_diffusion", method=workload.method, model=name), field="method")


def transformer(workload: Workload) -> TransformerArchitecture:
    """The architecture that `workload.model` names; other kinds of models come later."""
    model = facts.model(workload.model)
    if not isinstance(model, TransformerArchitecture):
        key = {"VisionModel": "vision", "DiffusionModel": "diffusion"}.get(type(model).__name__, "this_kind")
        kind = getattr(model, "kind", "") if key == "this_kind" else ""
        raise UnavailableError(Message("families.not_a_transformer", model=model.name, problem=kind or Message(f"families.model_of_{key}")))
    return model


def sequence_length(workload: Workload, model: TransformerArchitecture, notes: Notes, *, seen: int = 0) -> int:
    """Tokens per sequence: the user's, or the usual one within the model's limit (a typical shape
    of some size has none of its own); longer where a sample with its images is."""
    limit = max(model.max_position, 0)  # -1: it has none
    if workload.seq_len is not None and seen > workload.seq_len:
        raise ContradictionError(
            Message("families.tokens_over_limit", option="images", tokens=seen, model="seq_len", limit=workload.seq_len), field="images"
        )
    if workload.seq_len is not None:
        if limit and workload.seq_len > limit and model.certainty != "typical":
            raise ContradictionError(
                Message("families.seq_len_over_limit", seq_len=workload.seq_len, model=model.name, limit=limit), field="seq_len"
            )
        return workload.seq_len
    usual = int(facts.coefficients("planning")[f"{workload.task}_seq_len"])
    if seen:
        usual = max(usual, sample_tokens(workload, model, usual, seen=seen))
    if limit and seen >= limit:
        raise ContradictionError(
            Message("families.tokens_over_limit", option="images", tokens=seen, model=model.name, limit=limit), field="images"
        )
    chosen = min(usual, limit) if limit else usual
    notes.take("seq_len", chosen, "seq_len", limit=limit)
    return chosen


def amount_of_work(workload: Workload, model: TransformerArchitecture, seq_len: int, notes: Notes, *, seen: int = 0) -> Amount:
    """Tokens over all epochs and bytes on disk, from what the user gave or
    from the usual amount."""
    per_token = facts.coefficients("planning")["bytes_per_token"]
    once = _one_pass(workload, model, seq_len, notes, per_token, seen)
    if workload.epochs is None:
        notes.take("epochs", 1.0, "epochs")
    epochs = workload.epochs or 1.0
    return dataclasses.replace(once, tokens=once.tokens * epochs, samples=once.samples * epochs)


def _one_pass(workload: Workload, model: TransformerArchitecture, seq_len: int, notes: Notes, per_token: float, seen: int) -> Amount:
    if workload.data_tokens is not None:
        return Amount(workload.data_tokens, workload.data_tokens * per_token)
    if workload.data_bytes is not None:
        tokens = workload.data_bytes / per_token
        notes.take("data_tokens", tokens, "tokens_from_bytes", bytes=workload.data_bytes, bytes_per_token=per_token)
        return Amount(tokens, workload.data_bytes)
    if workload.data_samples is not None:
        length = sample_tokens(workload, model, seq_len, seen=seen)
        return _from_samples(workload.data_samples, _unit(workload, model), length, notes, per_token, full=length == seq_len)
    if workload.data is not None:
        return _from_dataset(facts.dataset(workload.data), seq_len, notes, per_token)
    return _usual_amount(workload, model, notes, per_token)


def sample_tokens(workload: Workload, model: TransformerArchitecture, seq_len: int, *, seen: int = 0) -> int:
    """Tokens of a sample: the usual length of instruction data and its images where a decoder is
    fine-tuned and no length is said; else the full sequence, to which encoders pad."""
    if workload.task != "finetune" or workload.seq_len is not None or model.kind == "encoder":
        return seq_len
    usual = int(facts.coefficients("planning")["finetune_sample_tokens"]) + seen
    return usual if seen else min(seq_len, usual)


def _unit(workload: Workload, model: TransformerArchitecture) -> str:
    """What the data are counted in: a picture with its text is a sample of a model that sees."""
    unit = workload.data_unit or "samples"
    return "samples" if model.kind == "vlm" and unit == "images" else unit


def _from_samples(samples: float, unit: str, seq_len: int, notes: Notes, per_token: float, *, full: bool = True) -> Amount:
    if unit in ("images", "frames", "hours", "videos", "clips", "utterances", "interactions", "nodes"):
        raise InputError(Message("families.data_unit_language", unit=unit), field="data")
    tokens = samples * seq_len
    notes.take("data_tokens", tokens, "tokens_from_samples" if full else "tokens_from_usual_samples", samples=samples, seq_len=seq_len)
    return Amount(tokens, tokens * per_token, samples)


def _from_dataset(dataset: Dataset, seq_len: int, notes: Notes, per_token: float) -> Amount:
    """Tokens where the dataset's card counts them, else its bytes by the usual bytes per token,
    else full sequences."""
    if dataset.tokens:
        return Amount(float(dataset.tokens), dataset.size_bytes or dataset.tokens * per_token, float(dataset.samples))
    if dataset.domain not in ("text", "code", "preference", "instruction", "pretraining", "math"):
        raise InputError(Message("families.dataset_tokens", dataset=dataset.name, domain=dataset.domain), field="data")
    if dataset.size_bytes:
        tokens = dataset.size_bytes / per_token
        notes.take("data_tokens", tokens, "tokens_from_bytes", bytes=dataset.size_bytes, bytes_per_token=per_token)
        return Amount(tokens, dataset.size_bytes, float(dataset.samples))
    return _from_samples(float(dataset.samples), "samples", seq_len, notes, per_token)


def _usual_amount(workload: Workload, model: TransformerArchitecture, notes: Notes, per_token: float) -> Amount:
    usual = facts.coefficients("planning")
    if workload.task == "train":
        tokens = usual["train_tokens_per_parameter"] * model.params_active
        notes.take("data_tokens", tokens, "tokens_train", tokens_per_parameter=usual["train_tokens_per_parameter"])
    else:
        tokens = usual["finetune_tokens"]
        notes.take("data_tokens", tokens, "tokens_finetune")
    return Amount(tokens, tokens * per_token)


def global_batch(workload: Workload, model: TransformerArchitecture, seq_len: int, amount: Amount, notes: Notes) -> int:
    """Sequences of an optimizer step: the user's or the usual; of few data a small part of what is
    trained on, and never more than there are."""
    if workload.global_batch is not None:
        return int(workload.global_batch)
    usual = facts.coefficients("planning")
    if workload.task == "train":
        compute = FLOPS_PER_PARAMETER_AND_TOKEN * model.params_active * amount.tokens
        wanted = usual["train_batch_scale"] * compute ** usual["train_batch_exponent"] / seq_len
    else:
        share = facts.coefficients("training")["largest_batch_share"]
        wanted = min(usual["finetune_global_batch"], max(share * amount.tokens / seq_len, usual["least_global_batch"]))
    sequences = max(1.0, amount.tokens / seq_len)
    chosen = 2 ** max(0, round(math.log2(min(wanted, sequences)))) if min(wanted, sequences) >= 1 else 1
    chosen = int(min(chosen, 2 ** math.floor(math.log2(sequences))))
    chosen = max(chosen, workload.micro_batch or 1)
    notes.take("global_batch", chosen, f"batch_{workload.task}")
    return chosen
