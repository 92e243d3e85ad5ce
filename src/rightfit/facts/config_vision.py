"""The vision tower of a vision-language model, read from its vision_config."""

from __future__ import annotations

from typing import Any

from rightfit.facts.config_reader import ConfigReader
from rightfit.facts.parameter_count import vision_tower_parameters

_GATED_TYPES = frozenset({"qwen2_5_vl_vision", "qwen2_5_vl", "pixtral", "glm4v_vision", "glm4v_moe_vision"})
_ROTARY_TYPES = frozenset({"qwen2_vl_vision", "qwen2_vl", "qwen2_5_vl_vision", "qwen2_5_vl", "pixtral"})


def vision_fields(vision: ConfigReader, *, top: ConfigReader, hidden_size: int) -> dict[str, Any]:
    """Record fields of the tower and its projector. Counted as a plain vision transformer: within a few percent of the tower itself."""
    kind = vision.text("model_type") or f"{top.text('model_type')}_vision"
    layers = vision.integer("num_layers", keys=("depth", "num_hidden_layers", "layers"))
    width = vision.integer("hidden_size", keys=("embed_dim", "hidden_size", "width"))
    patch = _side(vision, "patch_size", default=0)
    image = _side(vision, "image_size", default=0)
    ratio = vision.value("mlp_ratio")
    by_ratio = int(ratio * width) if isinstance(ratio, int | float) and not isinstance(ratio, bool) and 0 < ratio < 100 else 4 * width
    # GLM-4V's blocks are as wide inside as the text model; its intermediate_size is the merger's.
    feed_keys = ("out_hidden_size",) if kind.startswith("glm4v") else ("intermediate_size",)
    feed = vision.integer("intermediate_size", keys=feed_keys, default=by_ratio)
    channels = vision.integer("channels", keys=("num_channels", "in_channels", "in_chans"), default=3)
    channels *= vision.integer("temporal", keys=("temporal_patch_size",), default=1)
    tower = vision_tower_parameters(
        layers=layers,
        hidden_size=width,
        intermediate_size=feed,
        patch=patch,
        channels=channels,
        positions=_positions(vision, kind, patch=patch, image=image),
        gated=kind in _GATED_TYPES,
    )
    return {
        "params_vision": tower + _projector(vision, top, width=width, hidden_size=hidden_size),
        "vision_layers": layers,
        "vision_hidden": width,
        "vision_patch": patch,
        "vision_image_size": image,
    }


def _side(vision: ConfigReader, key: str, *, default: int) -> int:
    """Pixels of one side, given as one number or as [height, width]."""
    found = vision.value(key)
    if isinstance(found, list) and found:
        found = found[0]
    return default if found is None else vision.checked(key, found, minimum=1, maximum=100_000)


def _positions(vision: ConfigReader, kind: str, *, patch: int, image: int) -> int:
    given = vision.integer("positions", keys=("num_position_embeddings",), default=0)
    if given or kind in _ROTARY_TYPES or not patch:
        return given
    return (image // patch) ** 2 + 1


def _projector(vision: ConfigReader, top: ConfigReader, *, width: int, hidden_size: int) -> int:
    """The projector: a merger of neighbouring patches where the tower names one, else two layers (LLaVA) or one (Gemma 3, PaliGemma)."""
    merge = vision.integer("merge", keys=("spatial_merge_size",), default=0) or top.integer(
        "merge", keys=("spatial_merge_size",), default=0
    )
    out = vision.integer("out", keys=("out_hidden_size",), default=hidden_size)
    if merge and top.text("model_type").startswith("glm4v"):
        inner = vision.integer("intermediate_size", keys=("intermediate_size",))
        return merge * merge * width * out + out * out + 3 * out * inner
    if merge:
        merged = width * merge * merge
        deep = vision.value("deepstack_visual_indexes")
        return (merged * merged + merged * out) * (1 + (len(deep) if isinstance(deep, list) else 0))
    if top.text("model_type") in ("gemma3", "paligemma"):
        return width * hidden_size
    return width * hidden_size + hidden_size * hidden_size
