"""What the class of a configuration adds to the file: values that it fills in, and its count of
parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rightfit.facts.config_classes import ClassCount, Values, config_class
from rightfit.facts.config_reader import ConfigReader, families
from rightfit.facts.records import TransformerArchitecture

#: Dimensions that a file must say: without them it describes no model, whatever its class would
#: take.
_ESSENTIAL = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size")
#: Keys whose default decides what a model costs: said where the class fills one in.
_TOLD = ("num_experts", "experts_per_token", "moe_intermediate_size", "num_kv_heads", "kv_lora_rank", "first_dense_layers")


def filled_from_class(
    text: ConfigReader, outer: str, config: Mapping[str, Any], *, is_listed: bool
) -> tuple[ConfigReader, list[tuple[str, Any]]]:
    """The part of a file that describes the language model with what its class fills in, and the
    keys of it that decide. `is_listed`: the family of the table says how its layers differ, so no
    list of them is made up."""
    inner = text.text("model_type")
    prefix = text.prefix
    known, values = None, None
    if prefix and (own := config_class(inner)) is not None:
        known, values, prefix = own, Values(text.config, own), ""
    elif (own := config_class(outer)) is not None:
        known, values = own, Values(config, own)
    if known is None or values is None:
        return text, []
    resolved = values.resolved(prefix)
    if not text.prefix:
        for field in _ESSENTIAL:
            _drop_unsaid(resolved, text, families()["keys"][field], known.names)
    if is_listed:
        resolved = {key: value for key, value in resolved.items() if not isinstance(value, list)}
    kept = {key: value for key, value in resolved.items() if text.config.get(key) is None}
    decisive = {key for field in _TOLD for key in families()["keys"][field]}
    told = [(key, value) for key, value in kept.items() if key in decisive and key in values.taken and not text.prefix and value]
    return dataclasses.replace(text, config={**text.config, **kept}), told


def smoothed(text: ConfigReader, counted: ClassCount, *, is_listed: bool) -> ConfigReader:
    """A file of a class whose parameters are counted, with what the common reading needs of odd
    dimensions: layers told by a list of them, the widest of a list of widths, heads that do not
    divide the width (rounded as the class does)."""
    keys = families()["keys"]
    changed: dict[str, Any] = {}
    for field in ("intermediate_size", "moe_intermediate_size", "num_experts"):
        for key in keys[field]:
            listed = text.value(key)
            if isinstance(listed, list) and listed and all(isinstance(one, int) for one in listed):
                changed[key] = max(listed)
    if not text.first(keys["num_layers"])[0]:
        listed = next((found for key in families()["layer_lists"]["keys"] if isinstance(found := text.value(key), list | str)), "")
        if listed:
            changed["num_hidden_layers"] = len(listed)
    if text.value("layer_types") is None and isinstance(blocks := text.value("layers_block_type"), list):
        layers = changed.get("num_hidden_layers") or text.first(keys["num_layers"])[1]
        if blocks and isinstance(layers, int) and 0 < layers <= 10_000:
            changed["layer_types"] = [blocks[at * len(blocks) // layers] for at in range(layers)]
    _, hidden = text.first(keys["hidden_size"])
    _, heads = text.first(keys["num_heads"])
    if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 and not (is_listed and _divides(counted)):
        if hidden % heads and not text.first(keys["head_dim"])[1]:
            changed["head_dim"] = hidden // heads or 1
        if not text.first(keys["intermediate_size"])[0]:
            changed["intermediate_size"] = 4 * hidden
    return dataclasses.replace(text, config={**text.config, **changed}) if changed else text


def _divides(counted: ClassCount) -> bool:
    """Whether the usual width of a class is divided by its heads: where it is not, the class
    rounds."""
    usual, keys = counted.known.defaults, families()["keys"]

    def first(field: str) -> int:
        named = (f"{outer}{key}" for outer in ("", "text_config.") for key in keys[field])
        return next((usual[key] for key in named if isinstance(usual.get(key), int)), 1)

    return first("hidden_size") % max(first("num_heads"), 1) == 0


def _drop_unsaid(resolved: dict[str, Any], text: ConfigReader, keys: list[str], names: Mapping[str, str]) -> None:
    """Leave out the default of a dimension that the file does not say under any of its names."""
    for key in keys:
        if text.value(key) is None and text.value(names.get(key, key)) is None:
            resolved.pop(key, None)


def with_counts(record: TransformerArchitecture, counted: ClassCount) -> TransformerArchitecture:
    """The record with the parameters of its class: experts that a token passes by are idle, towers
    are those that see and hear."""
    routed = counted.parts["x"]
    kept = record.experts_per_token / record.num_experts if record.num_experts else 1.0
    seen, heard = round(counted.parts["v"]), round(counted.parts["a"])
    is_vlm = record.kind == "vlm"
    return dataclasses.replace(
        record,
        params_total=counted.total,
        params_active=round(counted.total - routed * (1.0 - min(kept, 1.0))),
        params_vision=seen if is_vlm and seen else record.params_vision,
        params_audio=heard if is_vlm else record.params_audio,
    )
