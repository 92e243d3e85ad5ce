"""What training software does, found by name: habits of stacks, optimizers, number formats,
quantised weights, matrices that take an adapter.

What a stack keeps in memory is data: facts/data/{frameworks,optimizers,dtypes,quantizations}.csv.
The rules of frameworks.csv are applied in order, each to the jobs that match its conditions, later
ones over earlier ones.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from rightfit.facts.tables import constants, filled, meaning, occurs, says, senses, shape, table
from rightfit.facts.tables import words as word_list
from rightfit.records import dataclass

WORDS = "setup"  # table of words
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
class Optimizer:
    """Bytes of each of `states` per trained parameter (0: those of the parameter), scratch copies
    of a step, and whether states lie in managed memory."""

    states: float
    state_bytes: float
    temporary: float
    paged: bool
    gradient_kept: float
    trained_share: float


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Arithmetic of the matrix products by its code, and the bytes of a number between them."""

    code: str
    bytes: float


@dataclass(frozen=True, slots=True)
class Quantization:
    """Packed weights of a frozen base: bytes per parameter of a linear layer; `kbit`: bitsandbytes'
    kind, which keeps the inputs of layers."""

    name: str
    linear_bytes: float
    kbit: bool


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

    @property
    def per_layer(self) -> float:
        """Matrices of a layer that carry one."""
        return self.query + self.key_value + self.output + self.up + self.down


@dataclass(frozen=True, slots=True)
class Software:
    """What only the time physics reads of a stack: its class (code of speed_frameworks.csv),
    version of FlashAttention (0: what is installed), fullest expert over the mean, share of a
    packed sequence that one token attends to at most, whether a token crosses the network once a
    server, whether weights go to an inference engine each step, and bytes moved to expand one
    quantised parameter."""

    code: int
    attention_version: float
    routing_skew: float
    segment_share: float
    server_dispatch: bool
    weight_sync: bool
    dequantise_bytes: float


@dataclass(frozen=True, slots=True)
class Habits:
    """Settings of a stack; bytes are per parameter or number, None where it is the width of the
    weights (gradient, state), of the arithmetic (residual), or not set."""

    weights: float | None
    gradient: float | None
    state: float | None
    residual: float | None
    in_backward: bool
    master: float
    temporary: float
    temporary_bytes: float
    scratch_limit: float
    accumulation: float
    reduce: float
    logit: float
    logit_kept: float
    logit_tanh: float
    frozen_copies: float
    adapter: float
    adapter_dropout: float
    fused: float
    compiled: float
    dropout: float
    kbit_upcast: bool
    fused_loss: bool
    counter: str
    recompute: str
    attention: str
    attention_forced: str
    rank: float
    targets: Targets
    nf4: str
    micro_batch: float
    seq_len: float
    variable_length: float
    loads_whole: float
    layer_gradient_workspace: float
    sequence_parallel: bool
    expert_loop: float
    routed: float
    expandable: float
    fused_qkv: float
    norm_saved: float
    gelu_tensors: float
    softmax_upcast: float
    expanded_kv: float


class StackRule(NamedTuple):
    """A row of frameworks.csv: alternatives for each thing that is known of a job, and the settings
    that it gives to jobs that match all of them."""

    framework: str
    flags: str
    method: str
    strategy: str
    weights: str
    model: str
    optimizer: str
    before: str
    settings: Mapping[str, str]

    def is_of_a_name(self) -> bool:
        """Whether the rule asks for nothing but what a plan says of its stack: no flags, layout or
        stored weights that only a measured run tells, no old version."""
        return not (self.flags or self.strategy or self.before) and matches(self.weights, "")


# names --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _found(name: str, text: str) -> Mapping[str, str] | None:
    """First row of a small table whose `match` is found in the text; an empty alternative
    matches only empty text."""
    lowered = text.lower().strip()
    for row in table(name):
        for part in row["match"].split("|") if "(" not in row["match"] else [row["match"]]:
            if (part and occurs(part, lowered)) or (not part and not lowered):
                return row
    return None


@functools.lru_cache(maxsize=256)
def optimizer(name: str) -> Optimizer:
    """The optimizer that a name means; AdamW where it means none."""
    row = _found("optimizers", name) or _found("optimizers", "")
    assert row is not None  # the last row has an empty alternative
    states, state_bytes, temporary = (float(row[column] or 0.0) for column in ("states", "state_bytes", "temporary"))
    return Optimizer(states, state_bytes, temporary, row["paged"] == "1", float(row["gradient_kept"]), float(row["trained_share"]))


@functools.lru_cache(maxsize=256)
def number_format(name: str, *, has_bf16: bool = True) -> NumberFormat:
    """The arithmetic that a name means; the usual one of 16 bits where nothing is said."""
    row = _found("dtypes", name or ("bf16" if has_bf16 else "fp16")) or _found("dtypes", "bf16")
    assert row is not None
    return NumberFormat(row["code"], float(row["bytes"]))


@functools.lru_cache(maxsize=256)
def quantization(name: str) -> Quantization | None:
    """The format of packed weights that a name means; None where it means none."""
    row = _found("quantizations", name)
    return None if row is None else Quantization(row["name"], float(row["linear_bytes"]), row["kbit"] == "1")


def packed_base(name: str, *, nf4: str, always: bool) -> Quantization | None:
    """The format of a frozen base that a name packs, `nf4` being what the stack means by that name.
    `always`: the method packs it whatever is said."""
    name = (nf4 or name) if name.lower() == "nf4" else name
    if always:
        return quantization(name or "nf4-dq")
    return quantization(name) if says(WORDS, "quantised", name.lower()) else None


def adapter_targets(text: str, *, default: str = "q,v") -> Targets:
    """Adapted matrices from names such as "q,k,v,o", "all-linear", "c_attn,w1,w2",
    "DEFAULT(c_attn)" or a regular expression of module names."""
    lowered = text.lower().strip()
    if lowered.startswith("default"):
        inside = re.search(r"\((.*)\)", lowered)
        lowered = inside.group(1) if inside else default
    embeddings = float(says(WORDS, "embedding", lowered))
    head = float(not embeddings and says(WORDS, "target_head", lowered))
    if not lowered:
        lowered = default
    if re.split(r"[(+,;]", lowered)[0].strip() in senses(WORDS, "target_all"):
        return Targets(1, 2, 1, 2, 1, 1, embeddings, head)
    words = {word for word in re.split(r"[^a-z0-9_.]+", lowered) if word} | {
        f"{w}_proj" for w in re.findall(r"[a-z]+", lowered) if "_proj" in lowered and len(w) <= 4
    }
    return dataclasses.replace(_targets_from_words(words, lowered, embeddings), head=head)


def _targets_from_words(words: set[str], text: str, embeddings: float) -> Targets:
    has = {part: float(not words.isdisjoint(senses(WORDS, chosen))) for part, chosen in _TARGETS.items()}
    if has["joint"] or "qkv" in text:
        has |= {"query": 1.0, "key": 1.0, "value": 1.0}
    if "c_proj" in words:
        has |= {"output": 1.0, "down": 1.0}
    parts = "gate", "up", "down"
    if not any(has[part] for part in parts) and not words.isdisjoint(senses(WORDS, "target_mlp")):
        has |= dict.fromkeys(parts, 1.0)  # the block by its name; where matrices of it are named too, it is the path to them
    experts = float("expert" in text and "shared_expert" not in text)
    return Targets(has["query"], has["key"] + has["value"], has["output"], has["gate"] + has["up"], has["down"], experts, embeddings)


def names_target(text: str) -> bool:
    """Whether a word names any matrix that takes an adapter."""
    return names_any(adapter_targets(text, default=""))


def names_any(targets: Targets) -> bool:
    """Whether there is any matrix among them."""
    return any(dataclasses.astuple(targets))


def target_words() -> tuple[str, ...]:
    """All words that name matrices."""
    return tuple(dict.fromkeys(word for chosen in (*_TARGETS.values(), "target_all") for word in senses(WORDS, chosen)))


# stacks -------------------------------------------------------------------------------------------


@functools.cache
def stack_rules() -> tuple[StackRule, ...]:
    """Every rule of frameworks.csv, in order."""
    names = StackRule._fields[:-1]
    return tuple(StackRule(**{name: row[name] for name in names}, settings=settings_in(row["set"])) for row in table("frameworks"))


def settings_in(text: str) -> dict[str, str]:
    """Settings as a cell writes them: "master=0;gradient=weights"."""
    return dict(pair.split("=", 1) for pair in text.split(";"))


def matches(pattern: str, text: str) -> bool:
    """Whether a text holds any of the alternatives of a rule; every text does where the
    rule asks for none."""
    return not pattern or any(part == text if not part else occurs(part, text) for part in pattern.split("|"))


def stack_settings(
    *,
    framework: str = "",
    method: str = "full",
    model: str = "",
    optimizer: str = "",
    accepts: Callable[[StackRule], bool] = StackRule.is_of_a_name,
) -> dict[str, str]:
    """Settings that the rules give to a job by the names of its stack, method, model and optimizer.
    `accepts`: which rules count beside."""
    framework, model, optimizer = framework.lower(), model.lower(), optimizer.lower()
    settings: dict[str, str] = {}
    for rule in stack_rules():
        if (
            accepts(rule)
            and matches(rule.framework, framework)
            and (not rule.method or method in rule.method.split("|"))
            and matches(rule.model, model)
            and matches(rule.optimizer, optimizer)
        ):
            settings |= rule.settings
    return settings


@functools.lru_cache(maxsize=256)
def stack_habits(*, framework: str, method: str, model: str, optimizer: str) -> Habits:
    """The habits of the stack that a plan names."""
    return habits_of(stack_settings(framework=framework, method=method, model=model, optimizer=optimizer))


def habits_of(settings: Mapping[str, str]) -> Habits:
    """Settings as numbers."""

    def width(name: str, same: str) -> float | None:
        return None if settings.get(name, same) == same else float(settings[name])

    numbers = [field.name for field in dataclasses.fields(Habits) if field.type == "float"]
    rest: dict[str, Any] = {"compiled": 0.0} | {name: float(settings[name]) for name in numbers if name in settings}
    rest |= {name: settings[name] for name in ("counter", "recompute", "attention", "attention_forced")}
    return Habits(
        weights=width("weights", ""),
        gradient=width("gradient", "weights"),
        state=width("state", "weights"),
        residual=width("residual", "compute"),
        in_backward=float(settings["in_backward"]) == 1,
        kbit_upcast=float(settings["kbit_upcast"]) == 1,
        sequence_parallel=float(settings["sequence_parallel"]) == 1,
        fused_loss=settings.get("loss", "standard") == "fused",
        targets=adapter_targets(settings["targets"]),
        nf4=settings.get("nf4", ""),
        **rest,
    )


@functools.cache
def _software_rows() -> tuple[tuple[int, str, re.Pattern[str] | None], ...]:
    rows = table("speed_frameworks")
    return tuple((int(row["code"]), row["class"], re.compile(row["words"]) if row["words"] else None) for row in rows)


@functools.lru_cache(maxsize=4096)
def software_class(framework: str, flags: str = "") -> int:
    """Code of the class of software (facts/data/speed_frameworks.csv): the last row whose words
    occur in the framework or its flags."""
    text = f"{framework} {flags}".lower()
    return next((code for code, _, words in reversed(_software_rows()) if words is not None and words.search(text)), 0)


@functools.cache
def software_names() -> tuple[str, ...]:
    """Names of the classes, by code."""
    by_code = {code: name for code, name, _ in _software_rows()}
    return tuple(by_code[code] for code in sorted(by_code))


_FLASH_VERSION = re.compile(r"\bfa-?(\d)|flash[-_ ]?attn?[-_ ]?(\d)|flash[-_ ]?attention[-_ ]?(\d)")


@functools.lru_cache(maxsize=4096)
def software(framework: str, flags: str = "", *, attention: str = "", weights: str = "") -> Software:
    """What the time physics reads of a stack; the kernel of attention may name its version ("FA3"),
    the format of the weights decides how they are expanded."""
    text = f"{framework} {flags}".lower()
    version, figures = _FLASH_VERSION.search(f"{attention} {text}".lower()), constants("training_words")
    return Software(
        code=software_class(framework, flags),
        # 0 where a framework is not known to ship one and takes what is installed
        attention_version=float(version[version.lastindex or 0]) if version else _first_number("speed_kernels", "attention_version", text),
        routing_skew=figures["real_routing_skew"] if "real routing" in text else 1.0,
        segment_share=figures["packed_share"] if says(WORDS, "segmented", text) else 1.0,
        server_dispatch=says(WORDS, "server_dispatch", text),
        weight_sync=says(WORDS, "weight_sync", text),
        dequantise_bytes=_first_number("speed_quantizations", "bytes_per_parameter", f"{weights} {text}".lower()),
    )


def _first_number(name: str, column: str, text: str) -> float:
    return next((float(row[column]) for row in table(name) if occurs(row["words"], text)), 0.0)


@functools.cache
def splits_of(framework: str) -> tuple[bool, bool]:
    """Whether a stack can spread a copy of a model over accelerators, in full training and with
    adapters: the first row of facts/data/training_stacks.csv that matches."""
    for row in table("training_stacks"):
        if re.search(row["match"], framework.lower()):
            return row["splits_full"] == "1", row["splits_adapters"] == "1"
    return False, False


_TOKEN = re.compile(r"[^\s,;/()&|]+")
_SEPARATOR = re.compile(r"[-_.+=]+")
_VERSION = re.compile(r"v?\d[\w]*")


def framework_names() -> tuple[str, ...]:
    """Every name of a training framework."""
    return tuple(word.word for word in word_list("choices", "training_framework"))


def strange_words(framework: str) -> list[str]:
    """The parts of a framework in small letters that no framework is named by;
    versions are none."""
    known = framework_names()
    # names of several words may be written apart
    pieces = {piece for word in known for piece in (word, *_SEPARATOR.split(word))} | {
        word.word for word in word_list("choices", "beside_framework")
    }
    tokens = [token for token in _TOKEN.findall(framework) if token not in known]
    parts = [part for token in tokens for part in _SEPARATOR.split(token) if part and not _VERSION.fullmatch(part)]
    return [part for part in parts if part not in pieces and part.rstrip("0123456789") not in pieces]


# training on samples ------------------------------------------------------------------------------

SAMPLE_WORDS = "training"  # table of words


def sample_stack(framework: str, flags: str = "") -> str:
    """Class of software that trains on samples (estimate.vision_training.STACKS)."""
    words, flag = framework.lower(), flags.lower()
    if "mlperf" in words:
        return "tuned"
    if says(SAMPLE_WORDS, "compiled", f"{flag} ; {words}"):
        return "compiled"
    if says(SAMPLE_WORDS, "jax", words):
        return "jax"
    if "mxnet" in words:
        return "mxnet"
    if "paddle" in words:
        return "paddle"
    if "tensorflow" in words or says(SAMPLE_WORDS, "tensorflow", words):
        return "xla" if shape(SAMPLE_WORDS, r"\bxla(?!=?(?:-| )?{off}|=xla-off)").search(flag) else "tensorflow"
    if says(SAMPLE_WORDS, "nvidia_stack", words):
        return "ngc"
    return "library" if says(SAMPLE_WORDS, "library", words) else "eager"


def sample_optimizer_bytes(name: str) -> float | None:
    """Bytes of states per parameter of the optimizer that a name means; None
    where it means none."""
    size = meaning(SAMPLE_WORDS, "optimizer", name.lower())
    return float(size) if size else None


def attends(name: str) -> bool:
    """Whether the name of a model is one of those that are built of attention."""
    return says(SAMPLE_WORDS, "attention_model", name.lower())


# ---- Methods of preference and reinforcement tuning: which models and passes each needs beside the
# trained model, with sources.


@dataclass(frozen=True, slots=True)
class TuningMethod:
    """One method. A sample of the data gives `sequences` that are trained on (two of a pair, as
    many as a prompt gets answers). Beside training there are, over the same sequences: `reference`
    forward passes of a frozen reference, `policy_forwards` of the trained model itself, one of a
    reward model, one of a value model, which is trained too. `rollout`: an engine writes the
    answers. `batch`: usual sequences of a step (pairs counted once), `samples`: usual amount of
    data, called `data_name`."""

    method: str
    sequences: int
    reference: int
    policy_forwards: int
    reward: bool
    value: bool
    rollout: bool
    batch: int
    samples: int
    data_name: str
    source: str

    @property
    def is_paired(self) -> bool:
        """Whether a sample is two answers to one prompt."""
        return self.sequences == 2 and not self.rollout


@functools.cache
def tuning_methods() -> Mapping[str, TuningMethod]:
    """Every method by its name in a wish."""
    return MappingProxyType({row["method"]: filled(TuningMethod, row) for row in table("tuning_methods")})
