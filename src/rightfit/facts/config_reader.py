"""Dimensions out of a configuration object, each checked: a whole number within what a transformer can have, or a line naming the key."""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from rightfit.errors import FileInputError
from rightfit.facts import tables
from rightfit.messages import Message, at_place
from rightfit.records import dataclass

# Ten times the largest of any published model, so that a slip of the keyboard is caught and a new record is not.
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
    """A configuration object with the file's name for errors and, for nested objects, the path of keys to it."""

    config: Mapping[str, Any]
    label: str
    prefix: str = ""
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def fail(self, message: Message) -> NoReturn:
        """Stop with one line that names the file."""
        raise FileInputError(at_place(self.label, message))

    def value(self, key: str) -> Any:
        """The value at a dotted key, from the class defaults where the file is silent; None when nowhere."""
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
        """The whole number of `field`, under any of the keys it goes by; `default` when the file does not say."""
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
        """The object at `key`, with the class defaults of its model type; None when there is none."""
        found = self.value(key)
        if found is None:
            return None
        if not isinstance(found, Mapping):
            self.fail(Message("facts.config_object", word=f"{self.prefix}{key}", found=_shorten(found)))
        inner = ConfigReader(found, self.label, f"{self.prefix}{key}.")
        kind = family_name(inner.text("model_type"))
        return dataclasses.replace(inner, defaults=families()["class_defaults"].get(kind, {}))

    def trait(self, name: str, family: Mapping[str, Any]) -> Any:
        """A trait of the family: fixed, or read from the file under the key that the family names."""
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
