"""Measured training jobs, as rows of text, turned into the columns that physics reads.

Every column is optional. What a row does not say is taken from the usual default and named in its
assumptions; what cannot be guessed (an unknown model without dimensions, an unknown accelerator)
makes the row refused, with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import InputError
from rightfit.estimation.convert import default_links, device_columns, linked_devices, model_columns
from rightfit.estimation.training import memory_columns
from rightfit.estimation.training_setup import COUNTERS, RECOMPUTES, TrainingCase, setup_fields
from rightfit.facts import trainers
from rightfit.facts.engine_releases import model_class, numbers
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.facts.tables import constants, says, shape
from rightfit.facts.trainers import Habits, StackRule
from rightfit.messages import Message, either
from rightfit.physics.columns import DeviceColumns, LinkColumns, Method, ModelColumns, Recompute, SetupColumns
from rightfit.proof.cases.models import listed_name, read_accelerator, read_architecture
from rightfit.proof.cases.reader import interconnect, number, read_rows, word
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES

METHODS = {member.name.lower(): member for member in Method} | {
    "p-tuning": Method.PTUNING,
    "prompt": Method.PTUNING,
    "adapter": Method.LORA,
    "": Method.FULL,
    "pretrain": Method.FULL,
    "finetune": Method.FULL,
    "other": Method.FULL,
}
#: Settings of a stack that columns of a case state.
_STATED_BY_COLUMNS = frozenset({"recompute", "attention", "rank", "targets", "micro_batch", "seq_len", "counter", "attention_forced"})
#: Settings that are words, or a word beside a number.
_WORDED_HABITS = {"loss": ("standard", "fused"), "gradient": ("weights",), "state": ("weights",), "residual": ("compute",)}
#: Classes of software that are used on instruction data of short samples unless told otherwise.
_SHORT_SAMPLES = ("eager", "unsloth", "deepspeed")
_OPTIMIZER_FLAGS = ("badam", "galore", "lomo", "apollo", "muon", "adafactor", "lion")


@dataclass(frozen=True, slots=True)
class TrainingCases:
    """Usable rows as columns. `index[i]` is the position in the table of row i here; `refused`
    holds the others with the reason.

    `assumptions[i]` lists what was taken because row i did not say it; `gpu_names[i]` is the
    accelerator (empty where unknown, then a common one stands in); `names[i]` the architecture;
    `habits[i]` what was taken of the stack and can be overruled in its flags, as name=value.
    """

    model: ModelColumns
    setup: SetupColumns
    device: DeviceColumns
    links: LinkColumns
    index: NDArray[np.intp]
    refused: dict[int, str]
    assumptions: tuple[tuple[str, ...], ...]
    gpu_names: tuple[str, ...]
    names: tuple[str, ...]
    habits: tuple[str, ...]


@dataclasses.dataclass(slots=True)
class _Case:
    """One row while it is read."""

    arch: TransformerArchitecture
    accelerator: Accelerator
    gpu_known: bool
    setup: dict[str, float]
    assumptions: list[str]
    habits: str


def training_cases(rows: Sequence[Mapping[str, str]]) -> TrainingCases:
    """Parse rows of the measured training tables (memory or throughput)."""
    return _held(_to_columns(*read_rows(rows, _read_row), rows), rows)


#: Metrics of a job that runs.
_TIMED = ("tokens_per_s_per_gpu", "samples_per_s", "step_time_s", "tflops_per_gpu", "mfu", "time_to_train_h")


def _held(cases: TrainingCases, rows: Sequence[Mapping[str, str]]) -> TrainingCases:
    """The cases with full recomputation where it is not stated and the job would not fit the GPU
    that is named without: a job whose time is asked for runs. Whether it fits is asked of it as it
    is."""
    asked_of = [rows[int(i)] for i in cases.index]
    silent = [word(row, "recompute").lower() in ("", "unknown") and word(row, "metric") in _TIMED for row in asked_of]
    named = np.array([bool(name) for name in cases.gpu_names], dtype=np.bool_)
    asked = np.flatnonzero(np.array(silent, dtype=np.bool_) & named & (cases.setup.recompute == Recompute.NONE))
    if not asked.size:
        return cases
    short = asked[~memory_columns(cases.model.take(asked), cases.setup.take(asked), cases.device.take(asked)).fits]
    recompute = np.broadcast_to(cases.setup.recompute, cases.index.shape).copy()
    recompute[short] = float(Recompute.FULL)
    told = set(short.tolist())
    habits = tuple(text.replace("recompute=none", "recompute=full") if i in told else text for i, text in enumerate(cases.habits))
    return dataclasses.replace(cases, setup=cases.setup.replace(recompute=recompute), habits=habits)


def _to_columns(cases: list[_Case], index: list[int], refused: dict[int, str], rows: Sequence[Mapping[str, str]]) -> TrainingCases:
    setup = {name: [case.setup[name] for case in cases] for name in (cases[0].setup if cases else ())}
    names = [listed_name(case.accelerator.name) for case in cases]
    setup_columns = SetupColumns.of(**setup)
    links = default_links(
        names,
        num_gpus=setup_columns.num_gpus if cases else np.zeros(0),
        gpus_per_node=setup_columns.gpus_per_node if cases else np.zeros(0),
        notes=[" ".join((interconnect(rows[i]), *(word(rows[i], name) for name in ("extra_flags", "framework")))) for i in index],
    )
    return TrainingCases(
        model=_gather(cases, "arch", model_columns, ModelColumns),
        setup=setup_columns,
        device=_gather(cases, "accelerator", device_columns, DeviceColumns),
        links=links,
        index=np.asarray(index, dtype=np.intp),
        refused=refused,
        assumptions=tuple(tuple(case.assumptions) for case in cases),
        gpu_names=tuple(case.accelerator.name if case.gpu_known else "" for case in cases),
        names=tuple(case.arch.name for case in cases),
        habits=tuple(case.habits for case in cases),
    )


def _gather(cases: list[_Case], attribute: str, convert: Any, empty: Any) -> Any:
    """Convert each distinct record once and repeat it for its rows."""
    order: dict[int, int] = {}
    distinct: list[Any] = []
    rows = np.empty(len(cases), dtype=np.intp)
    for position, case in enumerate(cases):
        record = getattr(case, attribute)
        if id(record) not in order:
            order[id(record)] = len(distinct)
            distinct.append(record)
        rows[position] = order[id(record)]
    if not distinct:
        return empty.of(**{field.name: [] for field in dataclasses.fields(empty)})
    columns = convert(distinct)
    return empty(**{field.name: np.broadcast_to(getattr(columns, field.name), len(distinct))[rows] for field in dataclasses.fields(empty)})


def _read_row(row: Mapping[str, str]) -> _Case:
    taken: list[str] = []
    arch = read_architecture(row, taken)
    accelerator, known = read_accelerator(row, taken)
    layout = _layout(row, taken)
    flags = word(row, "extra_flags")
    words: SettingWords = {
        "framework": word(row, "framework"),
        "flags": flags,
        "method": _method(row, taken),
        "strategy": _strategy_name(row, layout),
        "weights_dtype": word(row, "weights_dtype"),
        "date": word(row, "date")[:7],
        "release": word(row, "release"),
        **_setup_words(row, taken),
        "supports_bf16": accelerator.supports_bf16,
        "supports_flash": accelerator.supports_flash_attention,
    }
    case, settings = _read_settings(arch, **words)
    fixed = setup_fields(case)
    setup = {**_BASE, **fixed, **layout, **_batch(row, layout, case.habits, arch, taken), **_offload(row, layout)}
    if not number(row, "seq_len") and trainers.software_names()[case.software.code] in _SHORT_SAMPLES:
        setup["mean_length"] = constants("training_words")["unstated_mean"]
    setup["weight_update"] = float("forward+backward only" not in flags.lower())
    setup["token_fraction"] = _token_fraction(row, taken)
    if word(row, "lengths").lower() == "full":
        setup |= {"variable_length": 0.0, "mean_length": 1.0, "token_fraction": 1.0}
    if case.habits.sequence_parallel:
        setup["sequence_parallel"] = float(setup["tensor"] > 1)
    if says("setup", "tiled_feed_forward", flags):  # the usual number of tiles: as long as the model is wide
        setup["feed_forward_tiles"] = max(math.ceil(setup["seq_len"] / setup["context"] / arch.hidden_size), 1.0)
    setup["memory_counter"] = _counter(row, fixed["memory_counter"], taken)
    two = accelerator.name == "V100-SXM-32GB" and "dgx2" in flags.lower()
    setup["gpus_per_node"] = cards_of_server(row, setup, linked_devices(accelerator.name) * (2.0 if two else 1.0))
    return _Case(arch, accelerator, known, setup, taken, assumed_habits(settings, flags))


def cards_of_server(row: Mapping[str, str], setup: Mapping[str, float], usual: float) -> float:
    """Cards that the links of one server join: those of the job over its servers, where they are
    told."""
    servers = number(row, "nodes")
    cards = setup["data"] * setup["tensor"] * setup["pipeline"] * setup["context"]
    return float(min(usual, max(np.ceil(cards / servers), 1.0))) if servers else usual


_BASE = {field.name: float(getattr(SetupColumns(), field.name)[0]) for field in dataclasses.fields(SetupColumns)}


class SettingWords(TypedDict, total=False):
    """What a row says of its trainer, in the words of its columns."""

    method: str
    precision: str
    optimizer: str
    weights_dtype: str
    lora_rank: float
    lora_targets: str
    framework: str
    flags: str
    strategy: str
    attention: str
    recompute: str
    date: str
    release: str
    supports_bf16: bool
    supports_flash: bool


def training_case(model: TransformerArchitecture, **words: Unpack[SettingWords]) -> TrainingCase:
    """The case that words mean for a model; empty ones take the usual default of the framework.
    Raises InputError for a setting among the flags that has no such value."""
    return _read_settings(model, **words)[0]


@functools.lru_cache(maxsize=8192)
def _read_settings(model: TransformerArchitecture, **words: Unpack[SettingWords]) -> tuple[TrainingCase, Mapping[str, str]]:
    flags, method = words.get("flags", ""), words.get("method", "").lower() or "full"
    weights, beside = split_weights(words.get("weights_dtype", ""))
    settings = row_settings(
        framework=words.get("framework", ""),
        flags=flags,
        method=method,
        strategy=words.get("strategy", ""),
        weights=weights,
        model=model.name,
        optimizer=words.get("optimizer", ""),
        date=words.get("date", ""),
    )
    lowered, attention, recompute = flags.lower(), words.get("attention", ""), words.get("recompute", "")
    habits = trainers.habits_of(settings)
    case = TrainingCase(
        model,
        habits,
        software=trainers.software(words.get("framework", ""), flags, attention=attention, weights=weights),
        optimizer=trainers.optimizer(words.get("optimizer", "")),
        compute=trainers.number_format(words.get("precision", ""), has_bf16=words.get("supports_bf16", True)),
        method=METHODS.get(method, Method.FULL),
        packed=trainers.packed_base(weights, nf4=habits.nf4, always=method == "qlora"),
        fused_experts=fuses_experts(
            model, framework=words.get("framework", ""), flags=f"{lowered} release {words.get('release', '')}", date=words.get("date", "")
        ),
        stored_bytes=FP32_BYTES if "32" in weights and "16" not in weights else 0.0,
        adapter_bytes=0.0 if not beside else 2.0 if "16" in beside else FP32_BYTES,
        rank=words.get("lora_rank", 0.0),
        targets=trainers.adapter_targets(words.get("lora_targets", ""), default=settings["targets"]),
        trains_embeddings="embed" in lowered and "train" in lowered,
        prompt_tokens=_stated(lowered, "{prompt_tokens}"),
        projected="projection" in lowered,
        last_layers=_stated(lowered, "last"),
        attention="" if attention.lower() in ("unknown", "default") else attention.lower(),
        recompute=RECOMPUTES.get(recompute.lower(), Recompute.NONE) if recompute else None,
        supports_flash=words.get("supports_flash", True),
    )
    return case, settings


#: Transformers 5 keeps the experts of a layer as one tensor, which bitsandbytes replaces no more.
_FUSED_FROM, _FUSED_VERSION = "2026-02", (5,)


@functools.lru_cache(maxsize=4096)
def fuses_experts(model: TransformerArchitecture, *, framework: str = "", flags: str = "", date: str = "") -> bool:
    """Whether a stack on Transformers keeps a model's experts in one tensor a layer, which loading
    in 4 or 8 bits leaves in 16: by its version where that is told, else by the date of the run and
    the first version that has the model's class."""
    if model.num_experts <= 1 or says("setup", "packs_experts", flags, ignore_case=True):
        return False
    if framework and not says("setup", "on_transformers", framework, ignore_case=True):
        return False
    if stated := shape("setup", r"{version_word}\s*[=v]*\s*(\d+)\.\d").search(f"{framework} {flags}".lower()):
        return int(stated[1]) >= _FUSED_VERSION[0]
    known = model_class(model.name)
    return date >= _FUSED_FROM or bool(known and known.transformers and numbers(known.transformers) >= _FUSED_VERSION)


def _stated(flags: str, name: str) -> float:
    """The number that follows a word in free flags; 0 where there is none."""
    found = shape("setup", name + r"[\s=]*(\d+)").search(flags)
    return float(found[1]) if found else 0.0


def split_weights(text: str) -> tuple[str, str]:
    """Words for the stored weights as (of the base, of adapters beside it): "bf16 (adapters fp32)"
    holds a base of 16 bits."""
    found = re.search(r"\(?\s*adapters?\W+(?:in\s+)?(\w+)\s*\)?", text, re.IGNORECASE)
    return (text, "") if found is None else (text.replace(found[0], "").strip(" ,;+"), found[1].lower())


# settings of the stack ----------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def row_settings(
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
    """Settings that frameworks.csv gives to such a job, and those that its flags state. A rule with
    `before` is one of old versions: it needs a date, and one before that."""
    lowered, strategy, weights = flags.lower(), strategy.lower(), split_weights(weights)[0].lower()

    def accepts(rule: StackRule) -> bool:
        return (
            (not rule.before or bool(date and date < rule.before))
            and trainers.matches(rule.flags, lowered)
            and (not rule.strategy or strategy in rule.strategy.split("|"))
            and trainers.matches(rule.weights, weights)
        )

    found = trainers.stack_settings(framework=framework, method=method.lower(), model=model, optimizer=optimizer, accepts=accepts)
    return found | stated_habits(flags)


@functools.cache
def _habit_names() -> tuple[str, ...]:
    """Settings of frameworks.csv that no column of a case states by itself."""
    usual = trainers.stack_rules()[0].settings
    return tuple(name for name in (*usual, "loss") if name not in _STATED_BY_COLUMNS)


def stated_habit_pattern() -> str:
    """Expression of a setting of the stack that flags give: its name and its value."""
    return rf"(?<![\w-])({'|'.join(_habit_names())})\s*=\s*([^\s;,]+)"


def _numbers_or(words: Sequence[str]) -> Message:
    """What a setting can be that is a number, or one of some words."""
    return Message("estimate.at_least_0_or", names=either(words)) if words else Message("estimate.at_least_0")


def stated_habits(flags: str) -> dict[str, str]:
    """Settings that a case gives itself, as `name=value` among its flags: they overrule what is
    known of the stack.

    Raises InputError for a value that is none.
    """
    found = {}
    for name, value in re.findall(stated_habit_pattern(), flags.lower()):
        allowed = _WORDED_HABITS.get(name, ())
        if value not in allowed and not re.fullmatch(r"\d+(\.\d+)?(e\d+)?", value):
            why = either(allowed) if name == "loss" else _numbers_or(allowed)
            raise InputError(Message("estimate.habit", option=name, value=value[:20], why=why))
        if name == "loss" and value not in allowed:
            raise InputError(Message("estimate.habit", option="loss", value=value[:20], why=either(allowed)))
        found[name] = value
    return found


def assumed_habits(settings: Mapping[str, str], flags: str) -> str:
    """What was taken of the stack and can be overruled in the flags, as `name=value`; what the case
    gave itself is not among it."""
    told = stated_habits(flags)
    return "; ".join(f"{name}={settings[name]}" for name in _habit_names() if name in settings and name not in told)


# columns ------------------------------------------------------------------------------------------


def _layout(row: Mapping[str, str], taken: list[str]) -> dict[str, float]:
    """Degrees of parallelism and sharding."""
    words = _layout_words(word(row, "parallel") + " " + word(row, "strategy"))
    gpus = number(row, "n_gpus")
    sizes = {key: number(row, key) or float(words.get(key, 1)) for key in ("tp", "pp", "cp", "ep")}
    ulysses = max(number(row, "sp"), float(words.get("sp", 0)), _ulysses(word(row, "extra_flags")))
    if ulysses > 1 and sizes["tp"] == 1 and sizes["cp"] == 1:
        sizes["cp"] = ulysses
    model_parallel = sizes["tp"] * sizes["pp"] * sizes["cp"]
    data = number(row, "dp") or float(words.get("dp", 0))
    strategy = word(row, "strategy").lower()
    naive = strategy == "naive-mp"
    if not gpus:
        gpus = max(data, 1.0) * model_parallel
        if not data:
            taken.append(f"number of GPUs not stated: {gpus:.0f} assumed")
    if naive and sizes["pp"] == 1:
        sizes["pp"] = max(gpus, 1.0)
        data, model_parallel = 1.0, sizes["tp"] * sizes["pp"] * sizes["cp"]
    if not data or data * model_parallel > gpus * 1.001 or data * model_parallel < gpus * 0.999:
        data = max(gpus / model_parallel, 1.0)
    stage = _shard_stage(row, words, strategy)
    degree = number(row, "shard_degree") or 1.0
    ranks = data * sizes["cp"]
    layout = {"data": data, "tensor": sizes["tp"], "pipeline": sizes["pp"], "context": sizes["cp"], "expert": sizes["ep"]}
    interleaved = 2.0 if "interleaved" in word(row, "extra_flags").lower() else 1.0
    layout |= {"virtual_pipeline": max(number(row, "vp"), interleaved), "naive_pipeline": float(naive), "shard_stage": stage}
    layout["sequence_parallel"] = float(sizes["tp"] > 1 and "sequence" in word(row, "extra_flags").lower())
    layout["shard_degree"] = (degree if degree > 1 else ranks) if stage else 1.0
    return layout


@functools.lru_cache(maxsize=4096)
def _ulysses(flags: str) -> float:
    """Degree of Ulysses sequence parallelism from words such as sequence_parallel_size=8."""
    found = shape("setup", r"{ulysses}[= ]+(\d+)").search(flags.lower())
    return float(found[1]) if found else 0.0


@functools.lru_cache(maxsize=4096)
def _layout_words(text: str) -> dict[str, str]:
    return dict(shape("setup", r"({layout})[-_= ]?(\d+)").findall(text.lower()))


def _shard_stage(row: Mapping[str, str], words: dict[str, str], strategy: str) -> float:
    stated = number(row, "zero") or float(words.get("zero", 0))
    if stated:
        return min(stated, 3.0)
    text = f"{strategy} {word(row, 'parallel')} {word(row, 'sharding')}".lower()
    if found := re.search(r"zero[-_ ]?([123])", word(row, "sharding").lower()):
        return float(found[1])
    if "fsdp" in text or "gemini" in text or "zero3" in text:
        return 3.0
    return 2.0 if "low_level_zero" in text else 0.0


def _strategy_name(row: Mapping[str, str], layout: dict[str, float]) -> str:
    """One of single, ddp, zero1, zero2, zero3, megatron, naive-mp."""
    stated = word(row, "strategy").lower()
    if stated in ("megatron", "naive-mp"):
        return stated
    if layout["shard_stage"]:
        return f"zero{layout['shard_stage']:.0f}"
    if layout["tensor"] * layout["pipeline"] > 1:
        return "megatron"
    return "single" if layout["data"] * layout["context"] <= 1 else "ddp"


def _method(row: Mapping[str, str], taken: list[str]) -> str:
    text = word(row, "method").lower()
    if not text:
        taken.append("method not stated: full training assumed")
        return "full"
    if text in ("other", "adapter") and "adapter" in word(row, "extra_flags").lower():
        taken.append("adapter method taken as a prefix")
        return "prefix"
    return text if text in METHODS else "full"


def _setup_words(row: Mapping[str, str], taken: list[str]) -> SettingWords:
    precision = word(row, "precision") or word(row, "compute_dtype")
    optimizer = word(row, "optimizer") or next((name for name in _OPTIMIZER_FLAGS if name in word(row, "extra_flags").lower()), "")
    for name, text in (("precision", precision), ("optimizer", optimizer)):
        if not text:
            taken.append(f"{name} not stated: the usual one taken")
    silent = [name for name in ("recompute", "attention") if word(row, name).lower() in ("", "unknown")]
    taken.extend(f"{name} not stated: the framework's usual one taken" for name in silent)
    return {
        "precision": precision.rstrip("?"),
        "optimizer": optimizer,
        "lora_rank": number(row, "lora_rank"),
        "lora_targets": word(row, "lora_targets"),
        "attention": word(row, "attention"),
        "recompute": word(row, "recompute"),
    }


def _batch(
    row: Mapping[str, str], layout: dict[str, float], habits: Habits, arch: TransformerArchitecture, taken: list[str]
) -> dict[str, float]:
    """Micro-batch, accumulation and length, each from the others where one is missing."""
    micro, accumulation, total = number(row, "micro_batch"), number(row, "grad_accum"), number(row, "global_batch")
    ranks = layout["data"]
    if not micro and total:
        micro = max(total / ranks / max(accumulation, 1.0), 1.0)
    if not micro:
        micro = habits.micro_batch
        taken.append(f"micro-batch not stated: {micro:.0f} assumed")
    if not accumulation:
        accumulation = max(round(total / (micro * ranks)), 1.0) if total else 1.0
        if layout["pipeline"] > 1 and accumulation == 1 and not layout["naive_pipeline"]:
            # A pipeline needs micro-batches: a stated local batch is what the schedule cuts
            # into single sequences.
            accumulation, micro = (micro, 1.0) if micro > 1 else (8.0 * layout["pipeline"], micro)
            taken.append(f"micro-batches of the pipeline not stated: {accumulation:.0f} of {micro:.0f} sequences")
    length = number(row, "seq_len")
    if not length:
        length = min(float(arch.max_position) if arch.max_position > 0 else 1e9, habits.seq_len)
        taken.append(f"sequence length not stated: {length:.0f} assumed")
    return {"micro_batch": micro, "grad_accum": accumulation, "seq_len": length}


def _offload(row: Mapping[str, str], layout: dict[str, float]) -> dict[str, float]:
    text = word(row, "offload").lower()
    text = "" if text in ("0", "none", "no") else text
    flags = " ".join(part for part in re.split(r"[;,]", word(row, "extra_flags").lower()) if says("setup", "offloads", part))
    named = {part: float(says("setup", f"offloaded_{part}", f"{text} {flags}")) for part in ("optimizer", "params", "activations")}
    if not text and not any(named.values()):
        return {}
    if not any(named.values()):
        # Of a sharded frozen base there is nothing but the weights to offload; of other jobs the
        # states of the optimizer go first.
        frozen = METHODS.get(word(row, "method").lower(), Method.FULL) not in (Method.FULL, Method.GALORE) and layout["shard_stage"] >= 3
        named = {"optimizer": 1.0, "params": float(frozen), "activations": 0.0}
    return {f"offload_{part}": value for part, value in named.items()}


def _token_fraction(row: Mapping[str, str], taken: list[str]) -> float:
    """Part of the stated length that the longest samples of a run reach, where the source says that
    its data are shorter than the limit."""
    text = f"{word(row, 'lengths')} {word(row, 'extra_flags')}".lower()
    if says("setup", "shorter", text):
        taken.append("data shorter than the stated length: the usual part of it taken")
        return facts.coefficients("memory")["short_data_fraction"]
    return 1.0


def _counter(row: Mapping[str, str], usual: float, taken: list[str]) -> float:
    stated = COUNTERS.get((word(row, "mem_kind") or word(row, "counter")).lower())
    if stated is None:
        if word(row, "metric").startswith("peak_mem"):
            taken.append("kind of memory figure not stated: the framework's usual one taken")
        return usual
    return float(stated)


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """Values in order of first appearance, once each."""
    return tuple(dict.fromkeys(values))
