"""From words (method, precision, optimizer, framework ...) to the numbers of SetupColumns.

What a training stack keeps in memory is data: facts/data/{dtypes,optimizers,quantizations,frameworks}.csv. The rules of
frameworks.csv are applied in order, each to the jobs that match its conditions, later ones over earlier ones.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence

from rightfit import facts
from rightfit.errors import InputError
from rightfit.estimate.convert import model_columns
from rightfit.estimate.software import speed_words
from rightfit.facts.constants import constants
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.word_tables import occurs, says, senses, shape
from rightfit.messages import Message, either
from rightfit.physics import parameters
from rightfit.physics.columns import Array, AttentionKernel, Dtype, Loss, MemoryCounter, Method, ModelColumns, Recompute
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES

METHODS = {member.name.lower(): float(member) for member in Method} | {
    "p-tuning": float(Method.PTUNING),
    "prompt": float(Method.PTUNING),
    "adapter": float(Method.LORA),
    "": float(Method.FULL),
    "pretrain": float(Method.FULL),
    "finetune": float(Method.FULL),
    "other": float(Method.FULL),
}
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
#: Settings of a stack that columns of a case state.
_STATED_BY_COLUMNS = frozenset({"recompute", "attention", "rank", "targets", "micro_batch", "seq_len", "counter", "attention_forced"})
#: Settings that are words, or a word beside a number.
_WORDED_HABITS = {"loss": ("standard", "fused"), "gradient": ("weights",), "state": ("weights",), "residual": ("compute",)}
ADAPTERS = frozenset({Method.LORA, Method.QLORA, Method.DORA})

TABLE = "setup"  # of words
_TARGETS = {
    "query": "target_query",
    "key": "target_key",
    "value": "target_value",
    "joint": "target_joint",
    "output": "target_output",
    "gate": "target_gate",
    "up": "target_up",
    "down": "target_down",
}


@dataclass(frozen=True, slots=True)
class Targets:
    """Which matrices carry an adapter; numbers as in SetupColumns.adapter_on_*."""

    query: float = 0.0
    key_value: float = 0.0
    output: float = 0.0
    up: float = 0.0
    down: float = 0.0
    experts: float = 0.0
    embeddings: float = 0.0
    head: float = 0.0


def resolve_setup(
    model: TransformerArchitecture,
    *,
    method: str = "full",
    precision: str = "",
    optimizer: str = "",
    quantization: str = "",
    weights_dtype: str = "",
    lora_rank: float = 0,
    lora_targets: str = "",
    framework: str = "",
    flags: str = "",
    strategy: str = "",
    attention: str = "",
    recompute: str = "",
    loss: str = "",
    date: str = "",
    supports_bf16: bool = True,
    supports_flash: bool = True,
) -> dict[str, float]:
    """Fields of SetupColumns that words decide; the caller adds the layout (micro_batch, seq_len, data, tensor ...).

    Empty words take the usual default of the framework. `strategy` is single, ddp, zero1, zero2, zero3, megatron or naive-mp.
    """
    method = method.lower() or "full"
    weights_dtype, adapter_dtype = split_weights(weights_dtype)
    rules = conventions(
        framework=framework,
        flags=flags,
        method=method,
        strategy=strategy,
        weights=weights_dtype,
        model=model.name,
        optimizer=optimizer,
        date=date,
    )
    rules = rules | ({"adapter": "2" if "16" in adapter_dtype else "4"} if adapter_dtype else {})
    numbers = _number_formats(method, precision, weights_dtype or quantization, rules, supports_bf16=supports_bf16)
    states = _trained_states(method, optimizer, numbers, rules)
    adapters = _adapter_fields(model, method, lora_rank, lora_targets, flags, optimizer, rules)
    states |= _mean_widths(states, numbers, adapters)
    kernels = _kernel_fields(attention, recompute, loss, rules, supports_flash=supports_flash)
    kernels["logit_bytes"] += float(rules["logit_tanh"]) * (FP32_BYTES if numbers["upcast_norms"] else numbers["activation_bytes"])
    words = speed_words(framework=framework, flags=flags, attention=attention, weights=weights_dtype or quantization)
    return {"method": METHODS.get(method, float(Method.FULL)), **words, **numbers, **states, **adapters, **kernels}


@functools.lru_cache(maxsize=4096)
def conventions(
    *,
    framework: str = "",
    flags: str = "",
    method: str = "",
    strategy: str = "",
    weights: str = "",
    model: str = "",
    optimizer: str = "",
    date: str = "",
) -> dict[str, str]:
    """Settings that frameworks.csv gives to such a job. A rule with `before` is one of old versions: it needs a date, and one before
    that."""
    weights = split_weights(weights)[0]
    subject = {
        "framework": framework.lower(),
        "flags": flags.lower(),
        "method": method.lower(),
        "strategy": strategy.lower(),
        "weights": weights.lower(),
        "model": model.lower(),
        "optimizer": optimizer.lower(),
    }
    settings: dict[str, str] = {}
    for row in facts.table("frameworks"):
        if row["before"] and not (date and date < row["before"]):
            continue
        if all(_matches(row[key], subject[key], exact=key in ("method", "strategy")) for key in subject):
            settings |= dict(pair.split("=", 1) for pair in row["set"].split(";"))
    return settings | stated_habits(flags)


@functools.cache
def _habit_names() -> tuple[str, ...]:
    """Settings of frameworks.csv that no column of a case states by itself."""
    usual = dict(pair.split("=", 1) for pair in facts.table("frameworks")[0]["set"].split(";"))
    return tuple(name for name in (*usual, "loss") if name not in _STATED_BY_COLUMNS)


def stated_habit_pattern() -> str:
    """Expression of a setting of the stack that flags give: its name and its value."""
    return rf"(?<![\w-])({'|'.join(_habit_names())})\s*=\s*([^\s;,]+)"


def _numbers_or(words: Sequence[str]) -> Message:
    """What a setting can be that is a number, or one of some words."""
    return Message("estimate.part_at_least_0_or", names=either(words)) if words else Message("estimate.part_at_least_0")


def stated_habits(flags: str) -> dict[str, str]:
    """Settings that a case gives itself, as `name=value` among its flags: they overrule what is known of the stack.

    Raises InputError for a value that is none.
    """
    found = {}
    for name, value in re.findall(stated_habit_pattern(), flags.lower()):
        allowed = _WORDED_HABITS.get(name, ())
        if value not in allowed and not re.fullmatch(r"\d+(\.\d+)?(e\d+)?", value):
            raise InputError(
                Message(
                    "estimate.habit",
                    option=name,
                    value=value[:20],
                    why=either(allowed) if name == "loss" else _numbers_or(allowed),
                )
            )
        if name == "loss" and value not in allowed:
            raise InputError(Message("estimate.habit", option="loss", value=value[:20], why=either(allowed)))
        found[name] = value
    return found


def assumed_habits(rules: Mapping[str, str], flags: str) -> str:
    """What was taken of the stack and can be overruled in the flags, as `name=value`; what the case gave itself is not among it."""
    told = stated_habits(flags)
    return "; ".join(f"{name}={rules[name]}" for name in _habit_names() if name in rules and name not in told)


def split_weights(text: str) -> tuple[str, str]:
    """Words for the stored weights as (of the base, of adapters beside it): "bf16 (adapters fp32)" holds a base of 16 bits."""
    found = re.search(r"\(?\s*adapters?\W+(?:in\s+)?(\w+)\s*\)?", text, re.IGNORECASE)
    return (text, "") if found is None else (text.replace(found[0], "").strip(" ,;+"), found[1].lower())


def parse_targets(text: str, *, default: str = "q,v") -> Targets:
    """Adapted matrices from words such as "q,k,v,o", "all-linear", "c_attn,w1,w2", "DEFAULT(c_attn)" or a regular expression of module
    names."""
    lowered = text.lower().strip()
    if lowered.startswith("default"):
        inside = re.search(r"\((.*)\)", lowered)
        lowered = inside.group(1) if inside else default
    embeddings = float(says(TABLE, "embedding", lowered))
    head = float(not embeddings and says(TABLE, "target_head", lowered))
    if not lowered:
        lowered = default
    if re.split(r"[(+,;]", lowered)[0].strip() in senses(TABLE, "target_all"):
        return Targets(1, 2, 1, 2, 1, 1, embeddings, head)
    words = {word for word in re.split(r"[^a-z0-9_.]+", lowered) if word} | {
        f"{w}_proj" for w in re.findall(r"[a-z]+", lowered) if "_proj" in lowered and len(w) <= 4
    }
    return dataclasses.replace(_targets_from_words(words, lowered, embeddings), head=head)


def names_target(text: str) -> bool:
    """Whether a word names any matrix that takes an adapter."""
    return any(dataclasses.astuple(parse_targets(text, default="")))


def target_words() -> tuple[str, ...]:
    """All words that name matrices."""
    return tuple(dict.fromkeys(word for chosen in (*_TARGETS.values(), "target_all") for word in senses(TABLE, chosen)))


def _targets_from_words(words: set[str], text: str, embeddings: float) -> Targets:
    has = {part: float(not words.isdisjoint(senses(TABLE, chosen))) for part, chosen in _TARGETS.items()}
    if has["joint"] or "qkv" in text:
        has |= {"query": 1.0, "key": 1.0, "value": 1.0}
    if "c_proj" in words:
        has |= {"output": 1.0, "down": 1.0}
    parts = "gate", "up", "down"
    if not any(has[part] for part in parts) and not words.isdisjoint(senses(TABLE, "target_mlp")):
        has |= dict.fromkeys(parts, 1.0)  # the block by its name; where matrices of it are named too, it is the path to them
    experts = float("expert" in text and "shared_expert" not in text)
    return Targets(has["query"], has["key"] + has["value"], has["output"], has["gate"] + has["up"], has["down"], experts, embeddings)


def _matches(pattern: str, text: str, *, exact: bool) -> bool:
    if not pattern:
        return True
    if exact:
        return text in pattern.split("|")
    return any(part == text if not part else occurs(part, text) for part in pattern.split("|"))


@functools.lru_cache(maxsize=1024)
def _find(table: str, text: str) -> dict[str, str]:
    """First row of a small table whose `match` is found in the text; an empty alternative matches only empty text."""
    lowered = text.lower().strip()
    for row in facts.table(table):
        for part in row["match"].split("|") if "(" not in row["match"] else [row["match"]]:
            if (part and occurs(part, lowered)) or (not part and not lowered):
                return dict(row)
    return {}


def _number_formats(method: str, precision: str, weights: str, rules: dict[str, str], *, supports_bf16: bool) -> dict[str, float]:
    """Widths of arithmetic, of stored weights and of the residual stream."""
    dtype = _find("dtypes", precision or ("bf16" if supports_bf16 else "fp16")) or _find("dtypes", "bf16")
    code = Dtype[dtype["code"]]
    compute = float(dtype["bytes"])
    weights = rules.get(weights.lower(), weights)
    packed = _find("quantizations", weights or "nf4-dq") if method == "qlora" else _quantised_base(weights)
    stored = float(rules["weights"]) if "weights" in rules else _stored_bytes(weights, compute)
    upcast = rules.get("kbit_upcast") == "1" and packed.get("kbit") == "1"
    residual = compute if rules["residual"] == "compute" else float(rules["residual"])
    return {
        "compute_dtype": float(code),
        "activation_bytes": compute,
        "linear_weight_bytes": float(packed["linear_bytes"]) if packed else stored,
        "other_weight_bytes": 4.0 if upcast else (compute if packed else stored),
        "quantized": float(bool(packed)),
        "keeps_linear_inputs": float(packed.get("kbit") == "1"),
        "residual_bytes": 4.0
        if upcast or (stored == 4 and compute == 2 and rules["residual"] == "compute" and not _is_sharded(rules))
        else residual,
        "autocast": float(stored == 4 and compute == 2),
        "upcast_norms": float(upcast),
        "gather_bytes": compute,
    }


def _is_sharded(rules: dict[str, str]) -> bool:
    """Sharded stacks cast gathered weights to the compute dtype, so the residual stream is narrow although fp32 is stored."""
    return rules.get("reduce") == "4"


def _quantised_base(weights: str) -> dict[str, str]:
    """Quantisation of a frozen base when the word for the stored weights is one of a k-bit format."""
    return _find("quantizations", weights) if says(TABLE, "quantised", weights.lower()) else {}


def _stored_bytes(weights: str, compute: float) -> float:
    lowered = weights.lower()
    if not lowered or "16" in lowered:
        return compute
    return 4.0 if "32" in lowered else compute


def _trained_states(method: str, optimizer: str, numbers: dict[str, float], rules: dict[str, str]) -> dict[str, float]:
    """Bytes per trained parameter: gradient, accumulation buffer, master copy, optimizer states, scratch of the step."""
    choice = _find("optimizers", optimizer) or _find("optimizers", "")
    adapters = METHODS.get(method, 0.0) not in (Method.FULL, Method.GALORE, Method.FREEZE)
    weight = float(rules["adapter"]) if adapters else numbers["linear_weight_bytes"]
    wide = weight if adapters else (weight if rules["state"] == "weights" else float(rules["state"]))
    state = float(choice["state_bytes"] or wide)
    gradient = weight if adapters or rules["gradient"] == "weights" else float(rules["gradient"])
    scratch = 1.0 if adapters else float(rules["temporary"])
    on_device = 0.0 if choice["paged"] == "1" else 1.0
    return {
        "gradient_bytes": 0.0 if rules["in_backward"] == "1" else gradient * float(choice["gradient_kept"]),
        "accumulation_bytes": 0.0 if adapters else float(rules["accumulation"]),
        "master_bytes": 0.0 if adapters else float(rules["master"]),
        "optimizer_bytes": float(choice["states"]) * state * on_device,
        "optimizer_temporary_bytes": 0.0
        if rules["in_backward"] == "1"
        else scratch * float(choice["temporary"]) * wide + (0.0 if adapters else float(rules["temporary_bytes"])),
        "scratch_limit": float(rules["scratch_limit"]),
        "reduce_bytes": float(rules["reduce"]),
        "adapter_weight_bytes": float(rules["adapter"]),
    }


def _adapter_fields(
    model: TransformerArchitecture, method: str, rank: float, targets: str, flags: str, optimizer: str, rules: dict[str, str]
) -> dict[str, float]:
    """Adapter size and what is trained."""
    columns = _columns_of(model)
    if METHODS.get(method) not in ADAPTERS:
        total = float(parameters.total_parameters(columns)[0])
        share = float((_find("optimizers", optimizer) or _find("optimizers", ""))["trained_share"])
        return _other_methods(columns, method, total * share, flags)
    chosen = parse_targets(targets, default=rules["targets"])
    if not any(dataclasses.astuple(chosen)):  # words that name no matrix say nothing
        chosen = parse_targets(rules["targets"])
    rank = rank or float(rules["rank"])
    embeddings = max(chosen.embeddings, float("embed" in flags.lower() and "train" in flags.lower()))
    count = _adapter_count(columns, rank, chosen)
    count += chosen.head * rank * float(columns.hidden_size[0] + columns.vocab_size[0])
    whole = embeddings * float((parameters.embedding_parameters(columns) + parameters.head_parameters(columns))[0])
    magnitude = float(
        columns.hidden_size[0] * columns.num_layers[0] * (chosen.query + chosen.key_value + chosen.output + chosen.up + chosen.down)
    )
    count += magnitude if method == "dora" else 0.0
    per_layer = chosen.query + chosen.key_value + chosen.output + chosen.up + chosen.down
    return {
        "adapter_rank": rank,
        "adapter_params": count + whole,
        "adapter_modules": per_layer * float(columns.num_layers[0]),
        "adapter_dropout": float(rules["adapter_dropout"]),
        "trainable_params": count + whole,
        "adapter_on_query": chosen.query,
        "adapter_on_key_value": chosen.key_value,
        "adapter_on_output": chosen.output,
        "adapter_on_up": chosen.up,
        "adapter_on_down": chosen.down,
        "adapter_on_experts": chosen.experts,
        "trained_embeddings": whole / max(count + whole, 1.0),
    }


def _mean_widths(states: dict[str, float], numbers: dict[str, float], adapters: dict[str, float]) -> dict[str, float]:
    """Embedding and head that are trained beside adapters keep the width of the base model, so the widths per trained parameter are
    means."""
    share = adapters.get("trained_embeddings", 0.0)
    if not share or not states["adapter_weight_bytes"]:
        return {}
    ratio = 1.0 - share + share * numbers["other_weight_bytes"] / states["adapter_weight_bytes"]
    return {
        name: states[name] * ratio for name in ("adapter_weight_bytes", "gradient_bytes", "optimizer_bytes", "optimizer_temporary_bytes")
    }


def _adapter_count(columns: ModelColumns, rank: float, chosen: Targets) -> float:
    one: dict[str, Array] = {
        name: columns.num_layers * 0.0 + getattr(chosen, name) for name in ("query", "key_value", "output", "up", "down", "experts")
    }
    return float(parameters.adapter_parameters(columns, rank=columns.num_layers * 0.0 + rank, **one)[0])


def _other_methods(columns: ModelColumns, method: str, total: float, flags: str) -> dict[str, float]:
    """Full training, frozen layers, prompts and prefixes.

    P-tuning v2 and prefix tuning train keys and values of virtual tokens for every layer (Liu et al. 2021, Li & Liang 2021), through a
    two-layer
    projection where the flags say so.
    """
    layers = max(float(columns.num_layers[0]), 1.0)
    if METHODS.get(method) in (Method.PTUNING, Method.PREFIX):
        added = _prefix_parameters(
            columns,
            _stated(flags, "{prompt_tokens}", usual=constants("training_words")["prompt_tokens"]),
            projected="projection" in flags.lower(),
        )
        return {"adapter_params": added, "trainable_params": added}
    if METHODS.get(method) == Method.FREEZE:
        trained = min(_stated(flags, r"last", usual=constants("training_words")["freeze_layers"]) / layers, 1.0)
        return {"trainable_params": float(parameters.body_parameters(columns)[0]) * trained}
    return {"trainable_params": total}


def _prefix_parameters(columns: ModelColumns, tokens: float, *, projected: bool) -> float:
    width = float((columns.num_layers * parameters.key_value_width(columns))[0])
    hidden = float(columns.hidden_size[0])
    return tokens * hidden + hidden * hidden + hidden * width if projected else tokens * width


def _stated(flags: str, name: str, *, usual: float) -> float:
    """The number that follows a word in free flags."""
    found = shape(TABLE, name + r"[\s=]*(\d+)").search(flags.lower())
    return float(found[1]) if found else usual


@functools.lru_cache(maxsize=1024)
def _columns_of(model: TransformerArchitecture) -> ModelColumns:
    return model_columns([model])


def _kernel_fields(attention: str, recompute: str, loss: str, rules: dict[str, str], *, supports_flash: bool) -> dict[str, float]:
    """Attention kernel, recomputation, loss, fused operators, counter."""
    kernel = attention.lower() if attention.lower() not in ("", "unknown", "default") else rules["attention"]
    kernel = rules["attention_forced"] or kernel
    code = KERNELS.get(kernel, AttentionKernel.FLASH if "flash" in kernel else AttentionKernel.SDPA)
    if code == AttentionKernel.FLASH and not supports_flash:
        code = AttentionKernel.SDPA
    fused = (loss or rules.get("loss", "standard")) == "fused"
    return {
        "attention": float(code),
        "recompute": float(RECOMPUTES.get((recompute or rules["recompute"]).lower(), Recompute.NONE)),
        "loss": float(Loss.FUSED if fused else Loss.STANDARD),
        "logit_bytes": float(rules["logit"]),
        "kept_logit_bytes": float(rules["logit_kept"]),
        "frozen_input_copies": float(rules["frozen_copies"]),
        "variable_length": float(rules["variable_length"]),
        "expandable_segments": float(rules["expandable"]),
        "norm_saved_bytes": float(rules["norm_saved"]),
        "gelu_tensors": float(rules["gelu_tensors"]),
        "softmax_upcast": float(rules["softmax_upcast"]),
        "expanded_key_value": float(rules["expanded_kv"]),
        "fused_query_key_value": float(rules["fused_qkv"]),
        "routed_bytes": float(rules["routed"]),
        "expert_loop": float(rules["expert_loop"]),
        "loads_whole": float(rules["loads_whole"]),
        "layer_gradient_workspace": float(rules["layer_gradient_workspace"]),
        "dropout": float(rules["dropout"]),
        "fused_kernels": float(rules["fused"]),
        "compiled": float(rules.get("compiled", "0")),
        "memory_counter": float(COUNTERS.get(rules["counter"], MemoryCounter.RESERVED)),
    }
