"""Reading a model's config.json strictly: from a file, a folder or bytes; whatever is wrong is one
line naming file and key."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError
from rightfit.facts.config_classes import ClassCount, count
from rightfit.facts.config_hooks import EXTRAS, HOOKS, Draft, filled_from_class, smoothed, with_counts
from rightfit.facts.config_reader import ConfigReader, families, family_name, family_traits, vision_fields
from rightfit.facts.parameter_count import count_parameters
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message, foreign, system_problem

# ---- From a configuration object to an architecture record with counted parameters.

_TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config", "generator", "decoder", "decoder_config")
_GATED_KINDS = frozenset({"swiglu", "geglu"})


def architecture_from_config(config: Mapping[str, Any], *, name: str, label: str, source: str) -> TransformerArchitecture:
    """The architecture that a config.json describes.

    `label` names the file in errors. Parameters are those of the class of transformers that the
    file names, where that was recorded, else counted from the dimensions. A model type that is not
    in our table is read as its nearest relative, and `notes` says so; `fields_without_source` lists
    keys that the class fills in."""
    top = ConfigReader(config, label)
    if not any(key in config for key in ("model_type", "architectures", *_TEXT_KEYS, *_dimension_keys())):
        top.fail(Message("facts.config_of_nothing", names="model_type, architectures, num_hidden_layers, hidden_size"))
    outer = top.text("model_type")
    lookalike = next((row for row in families()["lookalikes"] if row["type"] == outer and top.value(row["key"]) is not None), None)
    counted = count(config, outer) if lookalike is None else None
    text = _text_part(top)
    model_type = text.text("model_type") or outer
    _refuse_unreadable(top, text, model_type, is_counted=counted is not None)
    family = family_name(lookalike["family"] if lookalike else model_type)
    traits = family_traits(family)
    text, taken = filled_from_class(text, outer, config, is_listed=traits is not None)
    used = traits if traits is not None else _relative(text, counted)
    draft = _drafted(text, top, used or {}, counted, is_listed=traits is not None)
    if traits is None:
        told = "" if counted and not _is_strange(text) else _unknown_note(model_type, counted)
        draft.fields["notes"] = told or ("" if counted else draft.fields.get("notes", ""))
    elif counted is not None:
        draft.fields["notes"] = ""  # what a hook takes for its mixers the class says itself
    draft.fields["fields_without_source"] = ", ".join(f"{key}={value}" for key, value in taken)
    if vision := top.nested("vision_config"):
        draft.fields.update(_seen(vision, top, draft, counted), kind="vlm")
    record = _finish(draft, name=name, source=source, family=model_type)
    # A family of the table knows what its flags do together; the class was recorded with each
    # turned alone.
    return record if counted is None or (traits is not None and counted.is_turned) else with_counts(record, counted)


def _dimension_keys() -> list[str]:
    """The keys that say how deep and how wide a model is."""
    keys = families()["keys"]
    return [key for field in ("num_layers", "hidden_size", "num_heads", "vocab_size") for key in keys[field]]


def _seen(vision: ConfigReader, top: ConfigReader, draft: Draft, counted: ClassCount | None) -> dict[str, Any]:
    """Fields of the tower that sees; its parameters alone where its layout is another than a vision
    transformer's."""
    try:
        return vision_fields(vision, top=top, hidden_size=draft.fields["hidden_size"])
    except FileInputError:
        if counted is None or any(vision.value(key) is not None for key in ("depth", "num_hidden_layers", "layers")):
            raise
        return {"params_vision": round(counted.parts["v"])}


def _relative(text: ConfigReader, counted: ClassCount | None) -> Mapping[str, Any] | None:
    """Traits of the family that an unlisted class is most like, by what it does and its keys."""
    if counted is None:
        return None
    for row in families()["relatives"]:
        if counted.known.task in row["tasks"] and (not row.get("key") or text.value(row["key"]) is not None):
            return family_traits(row["family"])
    return None


def _unknown_note(model_type: str, counted: ClassCount | None) -> str:
    shown = f"model type {model_type[:40]!r} is not in our table" if model_type else "the file names no model type"
    if counted is not None:
        return f"{shown}; counted as {counted.known.model_class}, its attention read as a Llama-like decoder's"
    return f"{shown}; read as a Llama-like decoder, so its parameter count may be off"


def _is_strange(text: ConfigReader) -> bool:
    """Whether a file has keys of mixers that plain attention has not."""
    return any(text.value(key) for key in families()["mixers"]["keys"])


def _text_part(top: ConfigReader) -> ConfigReader:
    for key in _TEXT_KEYS:
        if isinstance(top.value(key), str) or not (inner := top.nested(key)):
            continue
        if deeper := next((one for one in _TEXT_KEYS if isinstance(inner.value(one), Mapping)), ""):
            found = inner.nested(deeper)
            assert found is not None
            return found
        if inner.value("model_type") is None and not inner.defaults:
            family = family_name(top.text("model_type"))
            return dataclasses.replace(inner, defaults={"model_type": family, **families()["class_defaults"].get(family, {})})
        return inner
    return top


def _refuse_unreadable(top: ConfigReader, text: ConfigReader, model_type: str, *, is_counted: bool) -> None:
    """Refuse what would be read wrong: layers that no record holds, mixers and mixtures that nobody
    described."""
    if is_counted:
        return
    for one in (model_type, top.text("model_type")):
        if reason := families()["refused"].get(one):
            top.fail(Message("facts.config_unreadable", word=one, problem=reason))
    if family_traits(family_name(model_type)) is not None:
        return
    if strange := next((key for key in families()["mixers"]["keys"] if text.value(key)), ""):
        top.fail(Message("facts.config_mixer", word=model_type or "?", key=f"{text.prefix}{strange}"))
    experts = next((key for key in families()["mixers"]["experts"] if text.value(key)), "")
    if experts and not text.first(families()["keys"]["num_experts"])[0]:
        top.fail(Message("facts.config_experts_missing", word=f"{text.prefix}num_experts", key=f"{text.prefix}{experts}"))


def _drafted(text: ConfigReader, top: ConfigReader, traits: Mapping[str, Any], counted: ClassCount | None, *, is_listed: bool) -> Draft:
    """The architecture as its family reads it; of a counted class without heads, as layers that
    keep no keys."""
    if counted is not None:
        text = smoothed(text, counted, is_listed=is_listed)
    try:
        return _draft(text, top, traits)
    except FileInputError:
        if counted is None or is_listed or text.first(families()["keys"]["num_heads"])[0]:
            raise
        return _draft(text, top, {**traits, "hook": "attentionless"})


def _draft(text: ConfigReader, top: ConfigReader, traits: Mapping[str, Any]) -> Draft:
    draft = Draft(fields={"kind": traits.get("kind", "decoder")}, extras=list(traits.get("extras", ())))
    draft.norms_per_layer = traits.get("norms_per_layer", 2)
    for name in ("mlp_kind", "norm", "learned_positions", "qkv_bias", "attention_out_bias", "mlp_bias", "qk_norm"):
        draft.fields[name] = text.trait(name, traits)
    tie_reader = text if text.value("tie_word_embeddings") is not None else top
    draft.fields["tied_embeddings"] = tie_reader.trait("tied_embeddings", traits)
    hook = HOOKS.get(traits.get("hook", ""))
    if hook is not None and hook.before is not None:
        text = hook.before(text, draft)
    _read_dimensions(text, draft)
    _read_experts(text, draft)
    _read_layers(text, draft, traits)
    if hook is not None and hook.after is not None:
        hook.after(text, draft)
    for extra in draft.extras:
        draft.other_parameters += EXTRAS[extra](text, draft.fields)
    return draft


def _read_dimensions(text: ConfigReader, draft: Draft) -> None:
    fields = draft.fields
    fields["num_layers"] = text.integer("num_layers")
    fields["hidden_size"] = hidden = text.integer("hidden_size")
    fields["vocab_size"] = text.integer("vocab_size")
    fields["max_position"] = text.integer("max_position", default=0)
    if not draft.without_attention:
        _read_heads(text, fields)
    if "intermediate_size" not in fields:
        plain = fields["mlp_kind"] not in _GATED_KINDS
        has_experts_only = text.integer("num_experts", default=0, minimum=0) and text.first(families()["keys"]["moe_intermediate_size"])[0]
        fields["intermediate_size"] = text.integer("intermediate_size", default=4 * hidden if plain else 0 if has_experts_only else None)


def _read_heads(text: ConfigReader, fields: dict[str, Any]) -> None:
    hidden = fields["hidden_size"]
    fields["num_heads"] = heads = text.integer("num_heads")
    if "num_kv_heads" not in fields:
        fields["num_kv_heads"] = text.integer("num_kv_heads", default=heads)
    if heads % fields["num_kv_heads"]:
        text.fail(Message("facts.config_kv_heads", given=text.prefix, kv=fields["num_kv_heads"], heads=heads))
    for field in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        fields[field] = text.integer(field, default=0, minimum=0)
    if fields["kv_lora_rank"]:
        _read_latent_heads(text, fields)
        return
    fields["head_dim"] = text.integer("head_dim", default=0) or _even_share(text, hidden, heads)
    fields.update(q_lora_rank=0, qk_nope_head_dim=0, qk_rope_head_dim=0, v_head_dim=0)


def _read_latent_heads(text: ConfigReader, fields: dict[str, Any]) -> None:
    for field in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        fields[field] = text.integer(field, minimum=0 if field == "qk_rope_head_dim" else 1)  # some give positions no part
    fields["head_dim"] = fields["qk_nope_head_dim"] + fields["qk_rope_head_dim"]


def _even_share(text: ConfigReader, hidden: int, heads: int) -> int:
    if hidden % heads:
        text.fail(Message("facts.config_head_dim", given=text.prefix, hidden=hidden, heads=heads))
    return hidden // heads


def _read_experts(text: ConfigReader, draft: Draft) -> None:
    fields = draft.fields
    experts = text.integer("num_experts", default=0, minimum=0)
    if experts <= 1:
        return
    size = text.integer("moe_intermediate_size", default=fields["intermediate_size"])
    if size <= 0:
        text.fail(Message("facts.config_key_missing", word=f"{text.prefix}moe_intermediate_size"))
    shared_width = text.integer("shared_expert_size", default=0, minimum=0)
    shared = -(-shared_width // size) if shared_width else text.integer("num_shared_experts", default=0, minimum=0)
    kept = text.integer("experts_per_token", default=families()["experts_kept"].get(text.text("model_type")))
    if kept > experts:
        text.fail(Message("facts.config_experts_kept", given=text.prefix, kept=kept, experts=experts))
    moe_layers = count_moe_layers(text, fields["num_layers"])
    fields.update(num_experts=experts, experts_per_token=kept, moe_intermediate_size=size, num_shared_experts=shared)
    fields.update(num_moe_layers=moe_layers, first_dense_layers=text.integer("first_dense_layers", default=0, minimum=0))
    if moe_layers < fields["num_layers"] and not fields["intermediate_size"]:
        text.fail(Message("facts.config_key_missing", word=f"{text.prefix}intermediate_size"))
    fields["intermediate_size"] = fields["intermediate_size"] or size
    if fields["kind"] == "decoder":
        fields["kind"] = "moe-decoder"


def count_moe_layers(text: ConfigReader, layers: int) -> int:
    """Layers that hold experts: a list says which, or all after the first dense ones, or
    every n-th of those."""
    for key in ("moe_layer_freq", "moe_layers"):
        if isinstance(listed := text.value(key), list):
            return min(layers, sum(1 for item in listed if item) if key == "moe_layer_freq" else len(listed))
    dense = text.integer("first_dense_layers", default=0, minimum=0)
    every = text.integer("moe_layer_interval", default=text.integer("moe_layer_interval", keys=("moe_layer_freq",), default=1))
    without = text.value("mlp_only_layers")
    return max((layers - dense) // every - (len(without) if isinstance(without, list) else 0), 0)


def _read_layers(text: ConfigReader, draft: Draft, traits: Mapping[str, Any]) -> None:
    """How many layers attend fully, within a window, or without attention."""
    fields = draft.fields
    layers = fields["num_layers"]
    window = text.integer("sliding_window", default=0, minimum=0)
    listed = text.value("layer_types")
    if listed is not None:
        counts = _count_layer_types(text, listed, layers)
    elif draft.without_attention:
        counts = {"linear": layers}
    else:
        sliding = _sliding_layers(text, traits, layers) if window else 0
        counts = {"full": layers - sliding, "sliding": sliding}
    fields["num_full_attention_layers"] = counts.get("full", 0)
    fields["num_sliding_layers"] = counts.get("sliding", 0)
    fields["num_linear_layers"] = counts.get("linear", 0)
    fields["sliding_window"] = window if counts.get("sliding") else 0


def _count_layer_types(text: ConfigReader, listed: object, layers: int) -> dict[str, int]:
    if not isinstance(listed, Sequence) or isinstance(listed, str) or len(listed) < layers:
        text.fail(Message("facts.config_layer_types", given=text.prefix, layers=layers))
    counts: dict[str, int] = {}
    for item in listed[:layers]:
        kind = families()["layer_kinds"].get(item) if isinstance(item, str) else None
        if kind is None:
            text.fail(
                Message("facts.config_layer_type", given=text.prefix, word=str(item)[:40], names=", ".join(families()["layer_kinds"]))
            )
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def _sliding_layers(text: ConfigReader, traits: Mapping[str, Any], layers: int) -> int:
    if traits.get("hook") == "windowed":
        if not text.flag("use_sliding_window", default=False):
            return 0
        return max(layers - text.integer("num_layers", keys=("max_window_layers",), default=layers, minimum=0), 0)
    patterns = ("sliding_window_pattern", "_sliding_window_pattern")
    every = text.integer("num_layers", keys=patterns, default=traits.get("pattern", 0), minimum=0)
    return layers - layers // every if every else layers


def _attention_kind(fields: Mapping[str, Any]) -> str:
    if fields.get("num_linear_layers"):
        return "hybrid-ssm" if fields["num_full_attention_layers"] else "ssm"
    if fields.get("kv_lora_rank"):
        return "mla"
    if fields["num_sliding_layers"] and not fields["num_full_attention_layers"]:
        return "sliding"
    if fields["num_kv_heads"] == fields["num_heads"]:
        return "mha"
    return "mqa" if fields["num_kv_heads"] == 1 else "gqa"


def _finish(draft: Draft, *, name: str, source: str, family: str) -> TransformerArchitecture:
    fields = draft.fields
    for absent in ("num_heads", "num_kv_heads", "head_dim"):
        fields.setdefault(absent, 0)
    fields["attention_kind"] = _attention_kind(fields)
    fields["qk_norm_full"] = fields["qk_norm"] == "full"
    fields["qk_norm"] = bool(fields["qk_norm"])
    fields.update(params_total=0, params_active=0, params_embedding=0, certainty="config")
    bare = TransformerArchitecture(name=name, source=source, family=family, **fields)
    count = count_parameters(
        bare,
        norms_per_layer=draft.norms_per_layer,
        linear_layer_parameters=draft.linear_layer_parameters,
        other_parameters=draft.other_parameters,
    )
    embedding = bare.vocab_size * draft.embedding_width if draft.embedding_width else count.embedding
    return dataclasses.replace(bare, params_total=count.total, params_active=count.active, params_embedding=embedding)


# The largest real config.json files (quantisation maps of every layer) are under 1 MB.
LARGEST_CONFIG_BYTES = 5_000_000
FILE_NAME = "config.json"


def read_bytes(file: Path) -> bytes:
    """A configuration file's bytes, if it is there and no larger than one is."""
    try:
        if not file.is_file():
            raise FileInputError(Message("facts.no_config", path=file, file=FILE_NAME))
        size = file.stat().st_size
        if size > LARGEST_CONFIG_BYTES:
            raise FileInputError(
                Message("facts.config_larger", path=file, megabytes=size / 1000000.0, limit=LARGEST_CONFIG_BYTES / 1000000.0)
            )
        with file.open("rb") as stream:
            return stream.read(LARGEST_CONFIG_BYTES + 1)
    except (OSError, ValueError) as error:
        raise FileInputError(Message("facts.unreadable_file", path=file, error=system_problem(error))) from None


def parse_config(data: bytes, *, label: str) -> dict[str, Any]:
    """The JSON object in `data`; `label` names the file in errors. Repeated keys are refused;
    infinities and NaN, which Python writes, are refused where a dimension is one."""
    if len(data) > LARGEST_CONFIG_BYTES:
        raise FileInputError(Message("facts.config_too_large", label=label, megabytes=LARGEST_CONFIG_BYTES / 1000000.0))
    text = _decode(data, label)
    if not text.strip():
        raise FileInputError(Message("facts.file_empty", label=label))
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, label))
    except json.JSONDecodeError as error:
        raise FileInputError(
            Message("facts.config_not_json", label=label, row=error.lineno, column=error.colno, error=foreign(error.msg))
        ) from None
    except RecursionError:
        raise FileInputError(Message("facts.config_too_deep", label=label)) from None
    except ValueError as error:
        raise FileInputError(Message("facts.config_bad_number", label=label, error=foreign(str(error)[:80]))) from None
    if not isinstance(value, dict):
        raise FileInputError(Message("facts.config_no_object", label=label, problem=_json_type(value)))
    return value


def _decode(data: bytes, label: str) -> str:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise FileInputError(Message("facts.config_not_text", label=label, byte=error.start)) from None


def _object(pairs: list[tuple[str, Any]], label: str) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FileInputError(Message("facts.config_key_twice", label=label, word=repeated[:60]))
    return values


def _json_type(value: object) -> Message:
    names = {list: "list", str: "string", bool: "flag", int: "number", float: "number"}
    return Message(f"facts.json_{names.get(type(value), 'null')}")


# ---- The format of quantised checkpoints, as the configuration beside their weights states it.

#: Keys under which publishers describe how weights are stored.
KEYS = ("quantization_config", "compression_config")
_WIDTHS = {"4": "w4a16", "8": "int8"}


def stated_quantization(model: str) -> str:
    """Words for the format that a local config.json (or a folder with one) states, as in names of
    checkpoints: "awq", "gptq int8"; else empty."""
    path = Path(model) if model else None
    try:
        if path is None or not path.exists():
            return ""
        text = (path / "config.json" if path.is_dir() else path).read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, ValueError):
        return ""
    if not isinstance(found, dict):
        return ""
    stated = next((found[key] for key in KEYS if isinstance(found.get(key), dict)), None)
    # ChatGLM and its kind say the width alone, beside the dimensions.
    return quantization_words(stated) if stated else _WIDTHS.get(str(found.get("quantization_bit")), "")


def quantization_words(stated: Mapping[str, Any]) -> str:
    """Words for a `quantization_config`: its method and, where it is not the method's
    usual one, the width."""
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
