"""Measured training jobs, as rows of text, turned into the columns that physics reads.

Every column is optional. What a row does not say is taken from the usual default and named in its assumptions; what cannot be guessed
(an unknown model without dimensions, an unknown accelerator) makes the row refused, with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimate.case_cells import number, read_rows, word
from rightfit.estimate.case_models import listed_name, read_accelerator, read_architecture
from rightfit.estimate.convert import device_columns, model_columns
from rightfit.estimate.hardware import default_links, linked_devices
from rightfit.estimate.setup import COUNTERS, METHODS, assumed_habits, conventions, resolve_setup
from rightfit.estimate.software import is_fine_tuning_stack
from rightfit.facts.constants import constants
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.facts.word_tables import says, shape
from rightfit.physics.columns import DeviceColumns, LinkColumns, Method, ModelColumns, SetupColumns
from rightfit.records import dataclass

_OPTIMIZER_FLAGS = ("badam", "galore", "lomo", "apollo", "muon", "adafactor", "lion")


@dataclass(frozen=True, slots=True)
class TrainingCases:
    """Usable rows as columns. `index[i]` is the position in the table of row i here; `refused` holds the others with the reason.

    `assumptions[i]` lists what was taken because row i did not say it; `gpu_names[i]` is the accelerator (empty where unknown, then a
    common
    one stands in); `names[i]` the architecture; `habits[i]` what was taken of the stack and can be overruled in its flags, as name=value.
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
    return _to_columns(*read_rows(rows, _read_row), rows)


def _to_columns(cases: list[_Case], index: list[int], refused: dict[int, str], rows: Sequence[Mapping[str, str]]) -> TrainingCases:
    setup = {name: [case.setup[name] for case in cases] for name in (cases[0].setup if cases else ())}
    names = [listed_name(case.accelerator.name) for case in cases]
    setup_columns = SetupColumns.of(**setup)
    links = default_links(
        names,
        num_gpus=setup_columns.num_gpus if cases else np.zeros(0),
        gpus_per_node=setup_columns.gpus_per_node if cases else np.zeros(0),
        notes=[" ".join(word(rows[i], name) for name in ("interconnect", "extra_flags", "framework")) for i in index],
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
    strategy = _strategy_name(row, layout)
    words = (
        word(row, "framework"),
        word(row, "extra_flags"),
        _method(row, taken),
        strategy,
        word(row, "weights_dtype"),
        word(row, "date")[:7],
    )
    fixed = _resolved(arch, words, *_setup_words(row, taken), accelerator.supports_bf16, accelerator.supports_flash_attention)
    rules = conventions(
        framework=words[0], flags=words[1], method=words[2], strategy=strategy, weights=words[4], model=arch.name, date=words[5]
    )
    setup = {**_BASE, **fixed, **layout, **_batch(row, layout, rules, arch, taken), **_offload(row, layout)}
    if not number(row, "seq_len") and is_fine_tuning_stack(int(fixed["framework"])):
        setup["mean_length"] = constants("training_words")["unstated_mean"]
    setup["weight_update"] = float("forward+backward only" not in word(row, "extra_flags").lower())
    setup["token_fraction"] = _token_fraction(row, taken)
    if rules["sequence_parallel"] == "1":
        setup["sequence_parallel"] = float(setup["tensor"] > 1)
    setup["memory_counter"] = _counter(row, fixed["memory_counter"], taken)
    two = accelerator.name == "V100-SXM-32GB" and "dgx2" in words[1].lower()
    setup["gpus_per_node"] = linked_devices(accelerator.name) * (2.0 if two else 1.0)
    return _Case(arch, accelerator, known, setup, taken, assumed_habits(rules, words[1]))


_BASE = {field.name: float(getattr(SetupColumns(), field.name)[0]) for field in dataclasses.fields(SetupColumns)}


@functools.lru_cache(maxsize=8192)
def _resolved_cached(key: tuple[Any, ...]) -> dict[str, float]:
    name, words, precision, optimizer, rank, targets, attention, recompute, bf16, flash = key
    return resolve_setup(
        _ARCHITECTURES[name],
        framework=words[0],
        flags=words[1],
        method=words[2],
        strategy=words[3],
        weights_dtype=words[4],
        date=words[5],
        precision=precision,
        optimizer=optimizer,
        lora_rank=rank,
        lora_targets=targets,
        attention=attention,
        recompute=recompute,
        supports_bf16=bf16,
        supports_flash=flash,
    )


_ARCHITECTURES: dict[int, TransformerArchitecture] = {}


def _resolved(arch: TransformerArchitecture, words: tuple[str, ...], *rest: Any) -> dict[str, float]:
    _ARCHITECTURES[id(arch)] = arch
    return _resolved_cached((id(arch), words, *rest))


def _layout(row: Mapping[str, str], taken: list[str]) -> dict[str, float]:
    """Degrees of parallelism and sharding."""
    words = _layout_words(word(row, "parallel") + " " + word(row, "strategy"))
    gpus = number(row, "n_gpus")
    sizes = {key: number(row, key) or float(words.get(key, 1)) for key in ("tp", "pp", "cp", "ep")}
    ulysses = number(row, "sp") or float(words.get("sp", 0)) or _ulysses(word(row, "extra_flags"))
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
    text = f"{strategy} {word(row, 'parallel').lower()}"
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


def _setup_words(row: Mapping[str, str], taken: list[str]) -> tuple[Any, ...]:
    precision = word(row, "precision") or word(row, "compute_dtype")
    optimizer = word(row, "optimizer") or next((name for name in _OPTIMIZER_FLAGS if name in word(row, "extra_flags").lower()), "")
    for name, text in (("precision", precision), ("optimizer", optimizer)):
        if not text:
            taken.append(f"{name} not stated: the usual one taken")
    silent = [name for name in ("recompute", "attention") if word(row, name).lower() in ("", "unknown")]
    taken.extend(f"{name} not stated: the framework's usual one taken" for name in silent)
    return (
        precision.rstrip("?"),
        optimizer,
        number(row, "lora_rank"),
        word(row, "lora_targets"),
        word(row, "attention"),
        word(row, "recompute"),
    )


def _batch(
    row: Mapping[str, str], layout: dict[str, float], rules: Mapping[str, str], arch: TransformerArchitecture, taken: list[str]
) -> dict[str, float]:
    """Micro-batch, accumulation and length, each from the others where one is missing."""
    micro, accumulation, total = number(row, "micro_batch"), number(row, "grad_accum"), number(row, "global_batch")
    ranks = layout["data"]
    if not micro and total:
        micro = max(total / ranks / max(accumulation, 1.0), 1.0)
    if not micro:
        micro = float(rules["micro_batch"])
        taken.append(f"micro-batch not stated: {micro:.0f} assumed")
    if not accumulation:
        accumulation = max(round(total / (micro * ranks)), 1.0) if total else 1.0
        if layout["pipeline"] > 1 and accumulation == 1 and not layout["naive_pipeline"]:
            # A pipeline needs micro-batches: a stated local batch is what the schedule cuts into single sequences.
            accumulation, micro = (micro, 1.0) if micro > 1 else (8.0 * layout["pipeline"], micro)
            taken.append(f"micro-batches of the pipeline not stated: {accumulation:.0f} of {micro:.0f} sequences")
    length = number(row, "seq_len")
    if not length:
        length = min(float(arch.max_position) if arch.max_position > 0 else 1e9, float(rules["seq_len"]))
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
        # Of a sharded frozen base there is nothing but the weights to offload; of other jobs the states of the optimizer go first.
        frozen = METHODS.get(word(row, "method").lower(), Method.FULL) not in (Method.FULL, Method.GALORE) and layout["shard_stage"] >= 3
        named = {"optimizer": 1.0, "params": float(frozen), "activations": 0.0}
    return {f"offload_{part}": value for part, value in named.items()}


def _token_fraction(row: Mapping[str, str], taken: list[str]) -> float:
    """Part of the stated length that the longest samples of a run reach, where the source says that its data are shorter than the limit."""
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
