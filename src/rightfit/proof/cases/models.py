"""The model and the accelerator of a measured row."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimation.convert import model_columns
from rightfit.facts.devices import half_card
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.facts.tables import constants
from rightfit.physics import transformer
from rightfit.proof.cases.reader import RefusedRowError, number, word

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
# Instruction samples (Alpaca, OpenOrca, Dolly) have 200-500 tokens: 15 % of the
# usual limit of 2,048.
_DEFAULT_GPU = "A100-SXM-80GB"


def read_architecture(row: Mapping[str, str], taken: list[str]) -> TransformerArchitecture:
    dims = tuple(number(row, name) for name in _DIMENSIONS)
    key = (word(row, "model"), word(row, "kind"), word(row, "mlp"), word(row, "tied"), dims)
    arch, assumption = _architecture_cached(key, number(row, "params_b"))
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
    """A truncated or widened variant of a known model: the row's own dimensions win over
    the published ones."""
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
    """An architecture from the dimensions in the row; what is missing follows from the others in
    the usual proportions."""
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
        vocab_size=whole.get("vocab_size") or int(constants("training_words")["usual_vocabulary"]),
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
    total = int(given.get("params_total", 0) or transformer.formula_parameters(columns)[0])
    inactive = float((1.0 - columns.experts_per_token / np.maximum(columns.num_experts, 1.0))[0]) if arch.num_experts else 0.0
    idle = int(transformer.routed_expert_parameters(columns.replace(params_total=total))[0] * inactive)
    return dataclasses.replace(arch, params_total=total, params_active=int(given.get("params_active", 0)) or total - idle)


def read_accelerator(row: Mapping[str, str], taken: list[str]) -> tuple[Accelerator, bool]:
    found, known, assumption = _accelerator_cached(word(row, "gpu"), number(row, "gpu_mem_gib"))
    if assumption:
        taken.append(assumption)
    return found, known


@functools.lru_cache(maxsize=1024)
def _accelerator_cached(name: str, memory_gib: float) -> tuple[Accelerator, bool, str]:
    if not name:
        return facts.accelerator(_DEFAULT_GPU), False, f"gpu not stated: {_DEFAULT_GPU} taken"
    exact = facts.accelerators().get(name)
    if exact is not None:
        return half_card(exact, memory_gib), True, ""
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


@functools.lru_cache(maxsize=256)
def _variant(name: str) -> Accelerator | None:
    """A card that is not rented anywhere but appears in measurements: like a known one, with its
    own memory and rates."""
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
def listed_name(name: str) -> str:
    """The accelerator of the fact base whose links a card has."""
    return next((row["like"] for row in facts.table("accelerator_variants") if row["name"] == name), name)
