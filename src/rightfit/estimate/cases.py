"""Measured training jobs, as rows of text, turned into the columns that physics reads.

Every column is optional. What a row does not say is taken from the usual default and named in its assumptions; what cannot be guessed
(an unknown model without dimensions, an unknown accelerator) makes the row refused, with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimate.convert import device_columns, model_columns
from rightfit.estimate.hardware import default_links
from rightfit.estimate.setup import COUNTERS, METHODS, conventions, resolve_setup
from rightfit.estimate.software import is_fine_tuning_stack
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.physics import parameters
from rightfit.physics.columns import DeviceColumns, LinkColumns, ModelColumns, SetupColumns

_MAX_COUNT = 1e15
_LAYOUT_WORD = re.compile(r"(tp|pp|cp|dp|ep|vp|sp|zero)[-_= ]?(\d+)")
_DIMENSIONS = {
    "n_layers": "num_layers",
    "hidden": "hidden_size",
    "heads": "num_heads",
    "kv_heads": "num_kv_heads",
    "head_dim": "head_dim",
    "ffn": "intermediate_size",
    "vocab": "vocab_size",
    "max_pos": "max_position",
    "n_experts": "num_experts",
    "topk": "experts_per_token",
    "n_shared": "num_shared_experts",
    "moe_ffn": "moe_intermediate_size",
    "params": "params_total",
    "active": "params_active",
}
# Instruction samples (Alpaca, OpenOrca, Dolly) have 200-500 tokens: 15 % of the usual limit of 2,048.
_UNSTATED_MEAN = 0.15
_DEFAULT_GPU = "A100-SXM-80GB"
_OPTIMIZER_FLAGS = ("badam", "galore", "lomo", "apollo", "muon", "adafactor", "lion")


class RefusedRowError(Exception):
    """A row that cannot be turned into a case; the message is the reason."""


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingCases:
    """Usable rows as columns. `index[i]` is the position in the table of row i here; `refused` holds the others with the reason.

    `assumptions[i]` lists what was taken because row i did not say it; `gpu_names[i]` is the accelerator (empty where unknown, then a common
    one stands in); `names[i]` the architecture.
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


@dataclasses.dataclass(slots=True)
class _Case:
    """One row while it is read."""

    arch: TransformerArchitecture
    accelerator: Accelerator
    gpu_known: bool
    setup: dict[str, float]
    assumptions: list[str]


def training_cases(rows: Sequence[Mapping[str, str]]) -> TrainingCases:
    """Parse rows of the measured training tables (memory or throughput)."""
    cases: list[_Case] = []
    index: list[int] = []
    refused: dict[int, str] = {}
    for position, row in enumerate(rows):
        try:
            cases.append(_read_row(row))
            index.append(position)
        except RefusedRowError as reason:
            refused[position] = str(reason)
        except RightfitError as error:
            refused[position] = str(error)
    return _to_columns(cases, index, refused, rows)


def _to_columns(cases: list[_Case], index: list[int], refused: dict[int, str], rows: Sequence[Mapping[str, str]]) -> TrainingCases:
    setup = {name: [case.setup[name] for case in cases] for name in (cases[0].setup if cases else ())}
    names = [_listed_name(case.accelerator.name) for case in cases]
    setup_columns = SetupColumns.of(**setup)
    links = default_links(
        names,
        num_gpus=setup_columns.num_gpus if cases else np.zeros(0),
        gpus_per_node=setup_columns.gpus_per_node if cases else np.zeros(0),
        notes=[f"{rows[i].get('extra_flags', '')} {rows[i].get('notes', '')} {rows[i].get('framework', '')}" for i in index],
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
    arch = _architecture(row, taken)
    accelerator, known = _accelerator(row, taken)
    layout = _layout(row, taken)
    strategy = _strategy_name(row, layout)
    words = (
        _word(row, "framework"),
        _word(row, "extra_flags"),
        _method(row, taken),
        strategy,
        _word(row, "weights_dtype"),
        _word(row, "date")[:7],
    )
    fixed = _resolved(arch, words, *_setup_words(row, taken), accelerator.supports_bf16, accelerator.supports_flash_attention)
    rules = conventions(
        framework=words[0], flags=words[1], method=words[2], strategy=strategy, weights=words[4], model=arch.name, date=words[5]
    )
    setup = {**_BASE, **fixed, **layout, **_batch(row, layout, rules, arch, taken), **_offload(row)}
    if not _number(row, "seq_len") and is_fine_tuning_stack(int(fixed["framework"])):
        setup["mean_length"] = _UNSTATED_MEAN
    setup["weight_update"] = float("forward+backward only" not in _word(row, "flags").lower())
    setup["token_fraction"] = _token_fraction(row, taken)
    if rules["sequence_parallel"] == "1":
        setup["sequence_parallel"] = float(setup["tensor"] > 1)
    setup["memory_counter"] = _counter(row, fixed["memory_counter"], taken)
    setup["gpus_per_node"] = 16.0 if accelerator.name == "V100-SXM-32GB" and "dgx2" in words[1].lower() else 8.0
    return _Case(arch, accelerator, known, setup, taken)


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


def _word(row: Mapping[str, str], name: str) -> str:
    value = row.get(name)
    return str(value).strip() if value is not None else ""


def _number(row: Mapping[str, str], name: str) -> float:
    """A cell as a number, 0 where it is empty; nonsense is refused."""
    return _parse_number(name, _word(row, name))


@functools.lru_cache(maxsize=65536)
def _parse_number(name: str, text: str) -> float:
    if not text or text.lower() in ("nan", "none", "unknown", "?"):
        return 0.0
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise RefusedRowError(f"{name} {text[:40]!r} is not a number") from None
    if not math.isfinite(value) or value < 0 or value > _MAX_COUNT:
        raise RefusedRowError(f"{name} {text[:40]!r} is not a sensible number")
    return value


def _architecture(row: Mapping[str, str], taken: list[str]) -> TransformerArchitecture:
    dims = tuple(_number(row, name) for name in _DIMENSIONS)
    key = (_word(row, "model"), _word(row, "kind"), _word(row, "mlp"), _word(row, "tied"), dims)
    arch, assumption = _architecture_cached(key, _number(row, "params_b"))
    if assumption:
        taken.append(assumption)
    return arch


@functools.lru_cache(maxsize=4096)
def _architecture_cached(key: tuple[Any, ...], params_b: float) -> tuple[TransformerArchitecture, str]:
    name, kind, mlp, tied, dims = key
    given = {target: value for target, value in zip(_DIMENSIONS.values(), dims, strict=True) if value > 0}
    known = _known_architecture(name)
    if known is not None:
        return _adjusted(known, name, given), ""
    if "num_layers" in given and "hidden_size" in given:
        return _from_dimensions(name, kind, mlp, tied, given), "" if "vocab_size" in given else "vocabulary not stated: 32,000 assumed"
    count = given.get("params_total", params_b * 1e9)
    if count:
        typical = _known_architecture(f"{count / 1e9:.4g}B")
        if typical is not None:
            return typical, f"model {name or 'not stated'} unknown: typical shape of {count / 1e9:.3g}B parameters taken"
    if not name:
        raise RefusedRowError("neither a model nor its dimensions are given")
    raise RefusedRowError(_unknown_model(name))


def _unknown_model(name: str) -> str:
    try:
        found = facts.model(name, network=False)
    except RightfitError as error:
        return f"{error}; give n_layers and hidden, or params"
    return f"model {name!r} is not a transformer ({type(found).__name__})"


@functools.lru_cache(maxsize=4096)
def _known_architecture(name: str) -> TransformerArchitecture | None:
    base = name.split("@")[0].strip()
    if not base:
        return None
    try:
        found = facts.model(base, network=False)
    except RightfitError:
        return None
    return found if isinstance(found, TransformerArchitecture) else None


def _adjusted(arch: TransformerArchitecture, name: str, given: dict[str, float]) -> TransformerArchitecture:
    """A truncated or widened variant of a known model: the row's own dimensions win over the published ones."""
    layers = int(given.get("num_layers", arch.num_layers))
    if arch.kind == "encoder-decoder" or layers == arch.num_layers:
        return arch
    if "@" not in name and abs(layers - arch.num_layers) <= 0:
        return arch
    scale = layers / max(arch.num_layers, 1)
    moe = round(arch.num_moe_layers * scale) if "@" not in name else max(layers - (arch.num_layers - arch.num_moe_layers), 0)
    values: dict[str, Any] = {
        "num_layers": layers,
        "num_moe_layers": min(moe, layers) if arch.num_experts else 0,
        "num_full_attention_layers": round(arch.num_full_attention_layers * scale),
        "num_sliding_layers": round(arch.num_sliding_layers * scale),
        "num_linear_layers": round(arch.num_linear_layers * scale),
        "name": name,
    }
    cut = dataclasses.replace(arch, **values, params_total=0, params_active=0)
    return _with_counts(cut, given)


def _from_dimensions(name: str, kind: str, mlp: str, tied: str, given: dict[str, float]) -> TransformerArchitecture:
    """An architecture from the dimensions in the row; what is missing follows from the others in the usual proportions."""
    whole = {key: int(value) for key, value in given.items()}
    hidden = whole["hidden_size"]
    heads = whole.get("num_heads") or max(hidden // 128, 1)
    experts = whole.get("num_experts", 0)
    feed = whole.get("intermediate_size") or 4 * hidden
    arch = TransformerArchitecture(
        name=name or "given dimensions",
        kind=kind or ("moe-decoder" if experts else "decoder"),
        num_layers=whole["num_layers"],
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=whole.get("num_kv_heads") or heads,
        head_dim=whole.get("head_dim") or hidden // heads,
        intermediate_size=feed,
        vocab_size=whole.get("vocab_size") or 32000,
        max_position=whole.get("max_position", 0),
        tied_embeddings=tied in ("1", "true", "True"),
        attention_kind="gqa" if whole.get("num_kv_heads", heads) not in (0, heads) else "mha",
        mlp_kind=mlp or ("swiglu" if feed != 4 * hidden else "gelu"),
        norm="layernorm" if (mlp or "gelu") == "gelu" else "rmsnorm",
        params_total=0,
        params_active=0,
        params_embedding=0,
        source="given",
        num_experts=experts,
        experts_per_token=whole.get("experts_per_token", 0),
        num_shared_experts=whole.get("num_shared_experts", 0),
        moe_intermediate_size=whole.get("moe_intermediate_size") or (feed if experts else 0),
        num_moe_layers=whole["num_layers"] if experts else 0,
        certainty="given",
    )
    return _with_counts(arch, given)


def _with_counts(arch: TransformerArchitecture, given: dict[str, float]) -> TransformerArchitecture:
    """Fill in the parameter counts: the row's where it states them, else by formula."""
    columns = model_columns([arch])
    total = int(given.get("params_total", 0) or parameters.formula_parameters(columns)[0])
    inactive = float((1.0 - columns.experts_per_token / np.maximum(columns.num_experts, 1.0))[0]) if arch.num_experts else 0.0
    idle = int(parameters.routed_expert_parameters(columns.replace(params_total=total))[0] * inactive)
    return dataclasses.replace(arch, params_total=total, params_active=int(given.get("params_active", 0)) or total - idle)


def _accelerator(row: Mapping[str, str], taken: list[str]) -> tuple[Accelerator, bool]:
    found, known, assumption = _accelerator_cached(_word(row, "gpu"), _number(row, "gpu_mem_gib"))
    if assumption:
        taken.append(assumption)
    return found, known


@functools.lru_cache(maxsize=1024)
def _accelerator_cached(name: str, memory_gib: float) -> tuple[Accelerator, bool, str]:
    if not name:
        return facts.accelerator(_DEFAULT_GPU), False, f"gpu not stated: {_DEFAULT_GPU} taken"
    exact = facts.accelerators().get(name)
    if exact is not None:
        return _half_card(exact, memory_gib), True, ""
    variant = _variant(name)
    if variant is not None:
        return variant, True, ""
    matches = facts.match_accelerators(name)
    if not matches:
        facts.accelerator(name)  # raises, naming the nearest
        raise RefusedRowError(f"unknown accelerator {name!r}")
    found = [facts.accelerators()[match] for match in matches]
    best = min(found, key=lambda item: (abs(item.memory_bytes / 2**30 - memory_gib) if memory_gib else 0.0, item.form == "pcie"))
    return best, True, "" if len(found) == 1 else f"gpu {name!r} taken as {best.name}"


def _half_card(card: Accelerator, memory_gib: float) -> Accelerator:
    """One die of a two-die card (MI250) where the stated memory is half of the card's: software sees each die as a device."""
    if not memory_gib or memory_gib * 2.0**30 > 0.55 * card.memory_bytes:
        return card
    halves = ("memory_bytes", "memory_bandwidth", "fp32_flops", "tf32_flops", "fp16_flops", "bf16_flops", "fp8_flops", "tdp_w", "l2_bytes")
    values: dict[str, Any] = {name: getattr(card, name) / 2 for name in halves}
    return dataclasses.replace(card, num_sms=card.num_sms // 2, **values)


@functools.lru_cache(maxsize=256)
def _variant(name: str) -> Accelerator | None:
    """A card that is not rented anywhere but appears in measurements: like a known one, with its own memory and rates."""
    row = next((row for row in facts.table("accelerator_variants") if row["name"].lower() == name.lower()), None)
    if row is None:
        return None
    units = {"memory_gib": ("memory_bytes", 2.0**30), "memory_bw_gbps": ("memory_bandwidth", 1e9), "fp32_tflops": ("fp32_flops", 1e12)}
    units |= {
        "fp16_dense_tflops": ("fp16_flops", 1e12),
        "bf16_dense_tflops": ("bf16_flops", 1e12),
        "tdp_w": ("tdp_w", 1.0),
        "sm_count": ("num_sms", 1.0),
    }
    values: dict[str, Any] = {field: float(row[column]) * unit for column, (field, unit) in units.items() if row[column]}
    return dataclasses.replace(facts.accelerators()[row["like"]], name=row["name"], source=row["source"], **values)


@functools.lru_cache(maxsize=256)
def _listed_name(name: str) -> str:
    """The accelerator of the fact base whose links a card has."""
    return next((row["like"] for row in facts.table("accelerator_variants") if row["name"] == name), name)


def _layout(row: Mapping[str, str], taken: list[str]) -> dict[str, float]:
    """Degrees of parallelism and sharding."""
    words = _layout_words(_word(row, "parallel") + " " + _word(row, "strategy"))
    gpus = _number(row, "n_gpus")
    sizes = {key: _number(row, key) or float(words.get(key, 1)) for key in ("tp", "pp", "cp", "ep")}
    ulysses = _number(row, "sp") or float(words.get("sp", 0)) or _ulysses(_word(row, "extra_flags"))
    if ulysses > 1 and sizes["tp"] == 1 and sizes["cp"] == 1:
        sizes["cp"] = ulysses
    model_parallel = sizes["tp"] * sizes["pp"] * sizes["cp"]
    data = _number(row, "dp") or float(words.get("dp", 0))
    strategy = _word(row, "strategy").lower()
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
    degree = _number(row, "shard_degree") or 1.0
    ranks = data * sizes["cp"]
    layout = {"data": data, "tensor": sizes["tp"], "pipeline": sizes["pp"], "context": sizes["cp"], "expert": sizes["ep"]}
    interleaved = 2.0 if "interleaved" in _word(row, "extra_flags").lower() else 1.0
    layout |= {"virtual_pipeline": max(_number(row, "vp"), interleaved), "naive_pipeline": float(naive), "shard_stage": stage}
    layout["sequence_parallel"] = float(sizes["tp"] > 1 and "sequence" in _word(row, "extra_flags").lower())
    layout["shard_degree"] = (degree if degree > 1 else ranks) if stage else 1.0
    return layout


@functools.lru_cache(maxsize=4096)
def _ulysses(flags: str) -> float:
    """Degree of Ulysses sequence parallelism from words such as sequence_parallel_size=8."""
    found = re.search(r"(?:sequence_parallel_size|ulysses\w*)[= ]+(\d+)", flags.lower())
    return float(found[1]) if found else 0.0


@functools.lru_cache(maxsize=4096)
def _layout_words(text: str) -> dict[str, str]:
    return dict(_LAYOUT_WORD.findall(text.lower()))


def _shard_stage(row: Mapping[str, str], words: dict[str, str], strategy: str) -> float:
    stated = _number(row, "zero") or float(words.get("zero", 0))
    if stated:
        return min(stated, 3.0)
    text = f"{strategy} {_word(row, 'parallel').lower()}"
    if "fsdp" in text or "gemini" in text or "zero3" in text:
        return 3.0
    return 2.0 if "low_level_zero" in text else 0.0


def _strategy_name(row: Mapping[str, str], layout: dict[str, float]) -> str:
    """One of single, ddp, zero1, zero2, zero3, megatron, naive-mp."""
    stated = _word(row, "strategy").lower()
    if stated in ("megatron", "naive-mp"):
        return stated
    if layout["shard_stage"]:
        return f"zero{layout['shard_stage']:.0f}"
    if layout["tensor"] * layout["pipeline"] > 1:
        return "megatron"
    return "single" if layout["data"] * layout["context"] <= 1 else "ddp"


def _method(row: Mapping[str, str], taken: list[str]) -> str:
    text = _word(row, "method").lower()
    if not text:
        taken.append("method not stated: full training assumed")
        return "full"
    if text in ("other", "adapter") and "adapter" in _word(row, "extra_flags").lower():
        taken.append("adapter method taken as a prefix")
        return "prefix"
    return text if text in METHODS else "full"


def _setup_words(row: Mapping[str, str], taken: list[str]) -> tuple[Any, ...]:
    precision = _word(row, "precision") or _word(row, "compute_dtype")
    optimizer = _word(row, "optimizer") or next((word for word in _OPTIMIZER_FLAGS if word in _word(row, "extra_flags").lower()), "")
    for name, text in (("precision", precision), ("optimizer", optimizer)):
        if not text:
            taken.append(f"{name} not stated: the usual one taken")
    silent = [name for name in ("recompute", "attention") if _word(row, name).lower() in ("", "unknown")]
    taken.extend(f"{name} not stated: the framework's usual one taken" for name in silent)
    return (
        precision.rstrip("?"),
        optimizer,
        _number(row, "lora_rank"),
        _word(row, "lora_targets"),
        _word(row, "attention"),
        _word(row, "recompute"),
    )


def _batch(
    row: Mapping[str, str], layout: dict[str, float], rules: Mapping[str, str], arch: TransformerArchitecture, taken: list[str]
) -> dict[str, float]:
    """Micro-batch, accumulation and length, each from the others where one is missing."""
    micro, accumulation, total = _number(row, "micro_batch"), _number(row, "grad_accum"), _number(row, "global_batch")
    ranks = layout["data"]
    if not micro and total:
        micro = max(total / ranks / max(accumulation, 1.0), 1.0)
    if not micro:
        micro = float(rules["micro_batch"])
        taken.append(f"micro-batch not stated: {micro:.0f} assumed")
    if not accumulation:
        accumulation = max(round(total / (micro * ranks)), 1.0) if total else 1.0
        if layout["pipeline"] > 1 and accumulation == 1 and micro > 1 and not layout["naive_pipeline"]:
            # A pipeline needs micro-batches: what is stated is the local batch that the schedule cuts into single sequences.
            accumulation, micro = micro, 1.0
            taken.append("micro-batches of the pipeline not stated: one sequence each")
    length = _number(row, "seq_len")
    if not length:
        length = float(min(arch.max_position or 1e9, float(rules["seq_len"])))
        taken.append(f"sequence length not stated: {length:.0f} assumed")
    return {"micro_batch": micro, "grad_accum": accumulation, "seq_len": length}


def _offload(row: Mapping[str, str]) -> dict[str, float]:
    text = _word(row, "offload").lower()
    if not text or text in ("0", "none", "no"):
        return {}
    if "activation" in text:
        return {"offload_activations": 1.0}
    params = float("param" in text)
    return {"offload_optimizer": float(text != "cpu-params"), "offload_params": params}


def _token_fraction(row: Mapping[str, str], taken: list[str]) -> float:
    """Part of the stated length that the longest samples of a run reach, where the source says that its data are shorter than the limit."""
    text = f"{_word(row, 'flags')} {_word(row, 'notes')} {_word(row, 'extra_flags')}".lower()
    if "shorter than max" in text or "real lengths vary" in text or "dynamic padding" in text:
        taken.append("data shorter than the stated length: the usual part of it taken")
        return facts.coefficients("memory")["short_data_fraction"]
    return 1.0


def _counter(row: Mapping[str, str], usual: float, taken: list[str]) -> float:
    stated = COUNTERS.get(_word(row, "mem_kind").lower())
    if stated is None:
        if _word(row, "metric").startswith("peak_mem"):
            taken.append("kind of memory figure not stated: the framework's usual one taken")
        return usual
    return float(stated)


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """Values in order of first appearance, once each."""
    return tuple(dict.fromkeys(values))
