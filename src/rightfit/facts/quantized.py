"""The format of quantised checkpoints, as the configuration beside their weights states it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Keys under which publishers describe how weights are stored.
KEYS = ("quantization_config", "compression_config")


def stated_quantization(model: str) -> str:
    """Words for the format that a local config.json (or a folder with one) states, as in names of checkpoints: "awq", "gptq int8"; else empty."""
    path = Path(model) if model else None
    try:
        if path is None or not path.exists():
            return ""
        text = (path / "config.json" if path.is_dir() else path).read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError):
        return ""
    stated = next((found[key] for key in KEYS if isinstance(found, dict) and isinstance(found.get(key), dict)), None)
    return quantization_words(stated) if stated else ""


def quantization_words(stated: Mapping[str, Any]) -> str:
    """Words for a `quantization_config`: its method and, where it is not the method's usual one, the width."""
    method = str(stated.get("quant_method") or stated.get("quant_algo") or "").lower()
    bits = stated.get("bits") or stated.get("w_bit")
    if method == "bitsandbytes":
        return "bnb-4bit" if stated.get("load_in_4bit") else "int8"
    if method in ("compressed-tensors", "modelopt"):
        return _grouped(stated)
    return f"{method} int8" if bits == 8 and method in ("gptq", "awq") else method


def _grouped(stated: Mapping[str, Any]) -> str:
    """Formats that are told for groups of layers: the weights of the first group."""
    algorithm = str(stated.get("quant_algo") or stated.get("format") or "").lower()
    groups = stated.get("config_groups")
    first: Any = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if isinstance(weights, Mapping):
        width = f"{weights.get('type')}{weights.get('num_bits')}"
        return {"float8": "fp8", "float4": "nvfp4", "int8": "int8", "int4": "w4a16"}.get(width, "")
    return next((word for word in ("nvfp4", "fp8", "w4a16", "int8") if word in algorithm), "")
