"""Dimensions out of a configuration object, each checked: a whole number within what a transformer
can have, or a line naming the key."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from rightfit.errors import FileInputError
from rightfit.facts import tables
from rightfit.facts.parameter_count import vision_tower_parameters
from rightfit.messages import Message, at_place
from rightfit.records import dataclass

# Ten times the largest of any published model, so that a slip of the keyboard is caught and a
# new record is not.
_LARGEST: Mapping[str, int] = MappingProxyType(
    {
        "num_layers": 10_000,
        "hidden_size": 1_000_000,
        "num_heads": 10_000,
        "num_kv_heads": 10_000,
        "head_dim": 100_000,
        "intermediate_size": 100_000_000,
        "vocab_size": 100_000_000,
        "max_position": 2_000_000_000,
        "sliding_window": 2_000_000_000,
        "num_experts": 100_000,
    }
)
_LARGEST_OTHER = 10_000_000


@functools.cache
def families() -> Mapping[str, Any]:
    """The table data/config_families.toml."""
    return MappingProxyType(tomllib.loads(tables.read_text("config_families.toml")))


@dataclass(frozen=True, slots=True)
class ConfigReader:
    """A configuration object with the file's name for errors and, for nested objects, the
    path of keys to it."""

    config: Mapping[str, Any]
    label: str
    prefix: str = ""
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def fail(self, message: Message) -> NoReturn:
        """Stop with one line that names the file."""
        raise FileInputError(at_place(self.label, message))

    def value(self, key: str) -> Any:
        """The value at a dotted key, from the class defaults where the file is silent;
        None when nowhere."""
        found: Any = self.config
        for part in key.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return self.defaults.get(key) if found is None else found

    def first(self, keys: Sequence[str]) -> tuple[str, Any]:
        """The first of `keys` that has a value; ('', None) when none has."""
        for key in keys:
            found = self.value(key)
            if found is not None:
                return key, found
        return "", None

    def integer(self, field: str, *, default: int | None = None, minimum: int = 1, keys: Sequence[str] = ()) -> int:
        """The whole number of `field`, under any of the keys it goes by; `default` when the
        file does not say."""
        candidates = keys or families()["keys"][field]
        key, found = self.first(candidates)
        if not key:
            if default is None:
                self.fail(Message("facts.config_key_missing", word=f"{self.prefix}{candidates[0]}"))
            return default
        return self.checked(key, found, minimum=minimum, maximum=_LARGEST.get(field, _LARGEST_OTHER))

    def checked(self, key: str, value: Any, *, minimum: int, maximum: int) -> int:
        """`value` as a whole number from `minimum` to `maximum`."""
        shown = _shorten(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(Message("facts.config_whole_number", word=f"{self.prefix}{key}", found=shown))
        if value != value or value in (float("inf"), float("-inf")) or value != int(value):
            self.fail(Message("facts.config_whole_number", word=f"{self.prefix}{key}", found=shown))
        if not minimum <= value <= maximum:
            self.fail(Message("facts.config_range", word=f"{self.prefix}{key}", found=shown, low=minimum, high=maximum))
        return int(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """A true or false value; 0 and 1 count too."""
        found = self.value(key)
        if found is None:
            return default
        if not isinstance(found, bool) and found not in (0, 1):
            self.fail(Message("facts.config_flag", word=f"{self.prefix}{key}", found=_shorten(found)))
        return bool(found)

    def text(self, key: str, *, default: str = "") -> str:
        """A text value."""
        found = self.value(key)
        if found is None:
            return default
        if not isinstance(found, str):
            self.fail(Message("facts.config_text", word=f"{self.prefix}{key}", found=_shorten(found)))
        return found

    def nested(self, key: str) -> ConfigReader | None:
        """The object at `key`, with the class defaults of its model type; None
        when there is none."""
        found = self.value(key)
        if found is None:
            return None
        if not isinstance(found, Mapping):
            self.fail(Message("facts.config_object", word=f"{self.prefix}{key}", found=_shorten(found)))
        inner = ConfigReader(found, self.label, f"{self.prefix}{key}.")
        kind = family_name(inner.text("model_type"))
        return dataclasses.replace(inner, defaults=families()["class_defaults"].get(kind, {}))

    def trait(self, name: str, family: Mapping[str, Any]) -> Any:
        """A trait of the family: fixed, or read from the file under the key
        that the family names."""
        rule = family.get(name, families()["traits"].get(name))
        if not isinstance(rule, Mapping):
            return rule
        return self.flag(rule["key"], default=rule["default"]) != rule.get("invert", False)


def family_name(model_type: str) -> str:
    """The family a model type is read as."""
    renamed: str = families()["text_types"].get(model_type, model_type)
    return renamed


@functools.cache
def family_traits(name: str) -> Mapping[str, Any] | None:
    """Traits of a family, `same_as` resolved; None for one that is not in the table."""
    found = families()["family"].get(name)
    if found is None:
        return None
    base = family_traits(found["same_as"]) if "same_as" in found else {}
    return MappingProxyType({**(base or {}), **found})


def _shorten(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."


# ---- The vision tower of a vision-language model, read from its vision_config.

_GATED_TYPES = frozenset({"qwen2_5_vl_vision", "qwen2_5_vl", "pixtral", "glm4v_vision", "glm4v_moe_vision"})
_ROTARY_TYPES = frozenset({"qwen2_vl_vision", "qwen2_vl", "qwen2_5_vl_vision", "qwen2_5_vl", "pixtral"})


def vision_fields(vision: ConfigReader, *, top: ConfigReader, hidden_size: int) -> dict[str, Any]:
    """Record fields of the tower and its projector. Counted as a plain vision transformer: within a
    few percent of the tower itself."""
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
    """The projector: a merger of neighbouring patches where the tower names one, else two layers
    (LLaVA) or one (Gemma 3, PaliGemma)."""
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
