"""What single model families do differently from the table: one small function each, before or
after the common reading."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rightfit.facts.config_classes import ClassCount, Values, config_class, spelled_layers
from rightfit.facts.config_reader import ConfigReader, families
from rightfit.facts.parameter_count import mamba_parameters, norm_parameters_of
from rightfit.facts.records import TransformerArchitecture

Fields = dict[str, Any]


@dataclasses.dataclass(slots=True)
class Draft:
    """An architecture while it is read."""

    fields: Fields
    extras: list[str] = dataclasses.field(default_factory=list)
    norms_per_layer: int = 2
    linear_layer_parameters: int = 0
    other_parameters: int = 0
    without_attention: bool = False
    embedding_width: int = 0


Before = Callable[[ConfigReader, Draft], ConfigReader]
After = Callable[[ConfigReader, Draft], None]
Extra = Callable[[ConfigReader, Mapping[str, Any]], int]


class Hook(NamedTuple):
    """`before` may rename keys or preset fields; `after` corrects what the common reading found."""

    before: Before | None = None
    after: After | None = None


def _renamed(text: ConfigReader, **values: object) -> ConfigReader:
    """The same file with some keys set, as if it had been written in the common way."""
    return dataclasses.replace(text, config={**text.config, **values})


def _norm_size(fields: Mapping[str, Any]) -> int:
    return norm_parameters_of(fields["hidden_size"], fields["norm"])


# --- before ---------------------------------------------------------------------------------------


def _qwen(text: ConfigReader, draft: Draft) -> ConfigReader:
    """Qwen 1 writes the width of gate and up projections together."""
    draft.fields["intermediate_size"] = text.integer("intermediate_size", minimum=2) // 2
    return text


def _chatglm(text: ConfigReader, draft: Draft) -> ConfigReader:
    """ChatGLM2 and later; the first ChatGLM is a post-norm GELU model with tied embeddings and
    biases everywhere."""
    if text.value("inner_hidden_size") is not None or text.value("position_encoding_2d") is not None:
        draft.fields.update(mlp_kind="gelu", norm="layernorm", tied_embeddings=True)
        draft.fields.update(qkv_bias=True, attention_out_bias=True, mlp_bias=True)
    if text.flag("multi_query_attention", default=False):
        draft.fields["num_kv_heads"] = text.integer("num_kv_heads", keys=("multi_query_group_num",))
    return text


def _gpt_bigcode(text: ConfigReader, draft: Draft) -> ConfigReader:
    if text.flag("multi_query", default=True):
        draft.fields["num_kv_heads"] = 1
    return text


def _falcon(text: ConfigReader, draft: Draft) -> ConfigReader:
    """The 40B and 180B decoder states kv heads and has two norms in parallel; the 7B has one kv
    head and one norm."""
    heads = text.integer("num_heads")
    if text.flag("new_decoder_architecture", default=False):
        draft.fields["num_kv_heads"] = text.integer("num_kv_heads", default=heads)
        draft.norms_per_layer = text.integer("norms", keys=("num_ln_in_parallel_attn",), default=2)
    else:
        draft.fields["num_kv_heads"] = 1 if text.flag("multi_query", default=True) else heads
        draft.norms_per_layer = 1 if text.flag("parallel_attn", default=True) else 2
    return text


def _mpt(text: ConfigReader, draft: Draft) -> ConfigReader:
    """MPT gives the feed-forward width as a ratio; `alibi` inside attn_config
    replaces positions."""
    ratio = text.value("expansion_ratio")
    if isinstance(ratio, int | float) and not isinstance(ratio, bool) and 0 < ratio <= 1000:
        draft.fields["intermediate_size"] = int(ratio * text.integer("hidden_size"))
    draft.fields["learned_positions"] = text.flag("learned_pos_emb", default=False) and text.value("attn_config.alibi") is False
    return text


def _t5(text: ConfigReader, draft: Draft) -> ConfigReader:
    """T5: gated only from version 1.1 on; decoder layers default to the encoder's."""
    feed = text.text("feed_forward_proj", default="relu")
    draft.fields["mlp_kind"] = "geglu" if feed.startswith("gated") else "gelu" if "gelu" in feed else "relu"
    return text


def _bart(text: ConfigReader, draft: Draft) -> ConfigReader:
    """BART and kin name encoder and decoder apart; both are as wide in every published model."""
    heads = text.integer("num_heads", keys=("encoder_attention_heads", "decoder_attention_heads", "num_attention_heads"))
    layers = text.integer("num_layers", keys=("encoder_layers", "num_hidden_layers"))
    feed = text.integer("intermediate_size", keys=("encoder_ffn_dim", "decoder_ffn_dim"), default=4 * text.integer("hidden_size"))
    draft.fields["intermediate_size"] = feed
    return _renamed(text, num_attention_heads=heads, num_hidden_layers=layers)


def _attentionless(text: ConfigReader, draft: Draft) -> ConfigReader:
    """Layers that mix tokens through a state: no keys and values are kept, whatever the sequence.
    Gates and projections of a mixer are taken as four products of the width, beside the gated
    feed-forward block; a class that was recorded says its own."""
    draft.without_attention = True
    hidden = text.integer("hidden_size")
    inner = text.integer("intermediate_size", default=4 * hidden)
    draft.fields["notes"] = "layers keep a state of fixed size; mixers counted as four products of the width"
    draft.fields["intermediate_size"] = inner
    draft.linear_layer_parameters = 4 * hidden * hidden + 3 * hidden * inner
    return text


def _mamba(text: ConfigReader, draft: Draft) -> ConfigReader:
    """A stack of Mamba-1 mixers: no heads, no feed-forward blocks. The record's feed-forward width
    holds the mixer's inner width."""
    hidden = text.integer("hidden_size")
    inner = text.integer("inner", keys=("intermediate_size",), default=hidden * text.integer("expand", keys=("expand",), default=2))
    draft.linear_layer_parameters = _mamba_mixer(text, hidden=hidden, inner=inner, prefix="")
    draft.without_attention, draft.norms_per_layer = True, 1
    draft.fields.update(mlp_kind="", norm="rmsnorm", intermediate_size=inner)
    return text


def _mamba_mixer(text: ConfigReader, *, hidden: int, inner: int, prefix: str) -> int:
    rank = text.value("time_step_rank" if not prefix else "mamba_dt_rank")
    automatic = rank is None or rank == "auto"
    key = "time_step_rank" if not prefix else "mamba_dt_rank"
    return mamba_parameters(
        hidden_size=hidden,
        inner_size=inner,
        state_size=text.integer("state", keys=("state_size", "mamba_d_state"), default=16),
        conv_kernel=text.integer("conv", keys=("conv_kernel", "mamba_d_conv"), default=4),
        time_step_rank=-(-hidden // 16) if automatic else text.integer("rank", keys=(key,)),
    )


# --- after ----------------------------------------------------------------------------------------


def _after_gated_delta(text: ConfigReader, draft: Draft) -> None:
    """Qwen3-Next: three gated delta-net layers to one of gated attention, whose query projection is
    doubled by the gate."""
    fields = draft.fields
    hidden = fields["hidden_size"]
    if not fields["num_linear_layers"]:
        every = text.integer("interval", keys=("full_attention_interval",), default=4)
        fields["num_full_attention_layers"] = fields["num_layers"] // every
        fields["num_linear_layers"] = fields["num_layers"] - fields["num_full_attention_layers"]
    key_heads, value_heads = (text.integer("heads", keys=(f"linear_num_{one}_heads",)) for one in ("key", "value"))
    key_dim, value_dim = (text.integer("dim", keys=(f"linear_{one}_head_dim",)) for one in ("key", "value"))
    kernel = text.integer("kernel", keys=("linear_conv_kernel_dim",), default=4)
    keys, values = key_heads * key_dim, value_heads * value_dim
    into = hidden * (2 * keys + 2 * values) + hidden * 2 * value_heads
    draft.linear_layer_parameters = into + kernel * (2 * keys + values) + 2 * value_heads + value_dim + values * hidden
    draft.other_parameters += fields["num_full_attention_layers"] * hidden * fields["num_heads"] * fields["head_dim"]
    draft.other_parameters += fields.get("num_moe_layers", 0) * hidden * bool(fields.get("num_shared_experts"))


def _after_gpt_neo(_: ConfigReader, draft: Draft) -> None:
    """Every second layer of GPT-Neo attends within a window."""
    sliding = draft.fields["num_layers"] // 2
    draft.fields.update(num_sliding_layers=sliding, num_full_attention_layers=draft.fields["num_layers"] - sliding, sliding_window=256)


def _after_opt(text: ConfigReader, draft: Draft) -> None:
    """OPT has two more positions than it says; the 350M projects its embeddings and is post-norm
    without a final norm."""
    fields = draft.fields
    hidden, width = fields["hidden_size"], text.integer("width", keys=("word_embed_proj_dim",), default=fields["hidden_size"])
    draft.other_parameters += 2 * hidden
    if width != hidden:
        draft.other_parameters += 2 * width * hidden - fields["vocab_size"] * (hidden - width) - _norm_size(fields)


def _after_2048_positions(_: ConfigReader, draft: Draft) -> None:
    """BLOOM's ALiBi has no limit and Falcon's files leave it out; both were trained
    with 2,048 tokens."""
    draft.fields["max_position"] = draft.fields["max_position"] or 2048


def _after_no_norm_weights(_: ConfigReader, draft: Draft) -> None:
    """OLMo 1 normalises without weights."""
    draft.other_parameters -= _norm_size(draft.fields) * (draft.fields["num_layers"] * draft.norms_per_layer + 1)


def _after_half_norm(_: ConfigReader, draft: Draft) -> None:
    """LayerNorm without shift."""
    draft.other_parameters -= draft.fields["hidden_size"] * (draft.fields["num_layers"] * draft.norms_per_layer + 1)


def _after_llama4(text: ConfigReader, draft: Draft) -> None:
    """Llama 4: dense layers have a width of their own and every MoE layer one shared expert."""
    fields = draft.fields
    expert = fields["intermediate_size"]
    fields["moe_intermediate_size"] = expert
    fields["num_shared_experts"] = 1
    fields["intermediate_size"] = text.integer("intermediate_size", keys=("intermediate_size_mlp",), default=expert)


def _after_jamba(text: ConfigReader, draft: Draft) -> None:
    """Jamba: one attention layer in eight, Mamba-1 in the rest, experts in every second."""
    fields = draft.fields
    period = text.integer("period", keys=("attn_layer_period",), default=8)
    fields["num_full_attention_layers"] = fields["num_layers"] // period
    fields["num_linear_layers"] = fields["num_layers"] - fields["num_full_attention_layers"]
    inner = fields["hidden_size"] * text.integer("expand", keys=("mamba_expand",), default=2)
    mixer = _mamba_mixer(text, hidden=fields["hidden_size"], inner=inner, prefix="mamba_")
    inner_norms = 2 * text.integer("state", keys=("mamba_d_state",), default=16) + -(-fields["hidden_size"] // 16)
    draft.linear_layer_parameters = mixer + inner_norms


def _after_small_embedding(text: ConfigReader, draft: Draft) -> None:
    """ELECTRA embeds in a smaller width and projects up."""
    fields = draft.fields
    hidden, width = fields["hidden_size"], text.integer("width", keys=("embedding_size",), default=fields["hidden_size"])
    draft.embedding_width = width
    if width != hidden:
        types = text.integer("types", keys=("type_vocab_size",), default=2, minimum=0)
        rows = fields["vocab_size"] + fields["max_position"] + types + 2
        draft.other_parameters += width * hidden + hidden - rows * (hidden - width)


def _after_albert(text: ConfigReader, draft: Draft) -> None:
    """ALBERT: all layers share one set of parameters; the embedding is narrow."""
    _after_small_embedding(text, draft)
    fields = draft.fields
    hidden, feed = fields["hidden_size"], fields["intermediate_size"]
    layer = 4 * hidden * (hidden + 1) + 2 * hidden * feed + feed + hidden + 4 * hidden
    groups = text.integer("groups", keys=("num_hidden_groups",), default=1)
    draft.other_parameters -= layer * (fields["num_layers"] - groups)


def _after_deberta(text: ConfigReader, draft: Draft) -> None:
    """DeBERTa: relative positions; the first version projects them in every layer, the second
    shares the projections."""
    fields = draft.fields
    hidden, layers = fields["hidden_size"], fields["num_layers"]
    if not text.flag("relative_attention", default=False):
        return
    buckets = text.integer("buckets", keys=("position_buckets",), default=-1, minimum=-1)
    reach = buckets if buckets > 0 else text.integer("reach", keys=("max_relative_positions",), default=-1, minimum=-1)
    draft.other_parameters += 2 * (reach if reach > 0 else fields["max_position"]) * hidden
    if text.text("model_type") == "deberta":
        # In place of the key and query biases it has one for queries and one for values, and two
        # projections of positions.
        draft.other_parameters += layers * (2 * hidden * hidden + hidden - hidden)


def _after_encoder_decoder(text: ConfigReader, draft: Draft, decoder_key: str) -> None:
    fields = draft.fields
    encoder = fields["num_layers"]
    decoder = text.integer("num_layers", keys=(decoder_key,), default=encoder)
    fields.update(num_encoder_layers=encoder, num_decoder_layers=decoder, num_layers=encoder + decoder)
    fields.update(num_full_attention_layers=encoder + decoder, num_sliding_layers=0, sliding_window=0)


def _after_t5(text: ConfigReader, draft: Draft) -> None:
    _after_encoder_decoder(text, draft, "num_decoder_layers")
    draft.other_parameters += 2 * text.integer("buckets", keys=("relative_attention_num_buckets",), default=32) * draft.fields["num_heads"]


def _after_bart(text: ConfigReader, draft: Draft) -> None:
    _after_encoder_decoder(text, draft, "decoder_layers")
    fields = draft.fields
    if text.text("model_type") in ("bart", "mbart"):
        draft.other_parameters += 2 * 2 * fields["hidden_size"] * fields["learned_positions"] + 2 * _norm_size(fields)
    if text.text("model_type") in ("bart", "marian"):
        draft.other_parameters -= 2 * _norm_size(fields)


def _after_whisper(text: ConfigReader, draft: Draft) -> None:
    """Whisper: two convolutions, 1,500 audio positions and 448 text positions."""
    _after_encoder_decoder(text, draft, "decoder_layers")
    fields = draft.fields
    hidden, mels = fields["hidden_size"], text.integer("mels", keys=("num_mel_bins",), default=80)
    audio = text.integer("max_position", keys=("max_source_positions",), default=1500)
    written = text.integer("max_position", keys=("max_target_positions",), default=448)
    fields["max_position"] = audio
    draft.other_parameters += 3 * hidden * (mels + hidden) + 2 * hidden - (audio - written) * hidden
    # Keys have no bias in any of the three kinds of attention.
    draft.other_parameters -= hidden * (fields["num_layers"] + fields["num_decoder_layers"])


HOOKS: Mapping[str, Hook] = {
    "qwen": Hook(_qwen),
    "chatglm": Hook(_chatglm),
    "windowed": Hook(),
    "alternating": Hook(),
    "gpt_bigcode": Hook(_gpt_bigcode),
    "falcon": Hook(_falcon, _after_2048_positions),
    "mpt": Hook(_mpt, _after_half_norm),
    "t5": Hook(_t5, _after_t5),
    "bart": Hook(_bart, _after_bart),
    "whisper": Hook(_bart, _after_whisper),
    "attentionless": Hook(_attentionless),
    "mamba": Hook(_mamba),
    "gated_delta": Hook(None, _after_gated_delta),
    "gpt_neo": Hook(None, _after_gpt_neo),
    "opt": Hook(None, _after_opt),
    "no_position_limit": Hook(None, _after_2048_positions),
    "no_norm_weights": Hook(None, _after_no_norm_weights),
    "half_norm": Hook(None, _after_half_norm),
    "llama4": Hook(None, _after_llama4),
    "jamba": Hook(None, _after_jamba),
    "small_embedding": Hook(None, _after_small_embedding),
    "albert": Hook(None, _after_albert),
    "deberta": Hook(None, _after_deberta),
}

EXTRAS: Mapping[str, Extra] = {
    "pooler": lambda _, fields: fields["hidden_size"] * (fields["hidden_size"] + 1),
    "token_types": lambda text, fields: fields["hidden_size"] * text.integer("types", keys=("type_vocab_size",), default=2, minimum=0),
    "task_types": lambda text, fields: (
        fields["hidden_size"] * text.integer("types", keys=("task_type_vocab_size",), default=3) * text.flag("use_task_id", default=False)
    ),
    "embedding_norm": lambda _, fields: _norm_size(fields),
    "no_final_norm": lambda _, fields: -_norm_size(fields),
    "head_bias": lambda _, fields: fields["vocab_size"],
    "router_bias": lambda _, fields: fields.get("num_moe_layers", 0) * fields.get("num_experts", 0),
    "shared_expert_gate": lambda _, fields: fields.get("num_moe_layers", 0) * fields["hidden_size"],
    "attention_sinks": lambda _, fields: fields["num_layers"] * fields["num_heads"],
}


# ---- What the class of a configuration adds to the file: values that it fills in, and its count
# of parameters.

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
    blocks = text.value("layers_block_type") or spelled_layers(text.config)
    if text.value("layer_types") is None and isinstance(blocks, list):
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
