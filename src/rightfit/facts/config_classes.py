"""How many parameters a configuration gives in the class of transformers that it names: sums of
products of its keys (data/config_classes.jsonl), recorded from the classes themselves by
scripts/record_config_classes.py.

The classes' defaults stand for what a file leaves out, as they do when the file is loaded; which of
them were taken is told."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rightfit.facts import tables
from rightfit.records import dataclass

_FILE = "config_classes.jsonl"
#: Keys of other configurations, with the model type of each where the outer one does not say.
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers", "encoder_layers", "depth")
#: Words of flags that add or leave out a part, whatever the other flags say.
_ADDING = ("bias", "tie", "norm", "pool", "head")
#: Words that decide how many matrices a block has; only their default was recorded.
_SHAPING = ("feed_forward_proj",)
_MOST_ELEMENTS = 100_000
#: Keys of lists with the kind of each layer, and the letters that stand for kinds where a file
#: spells such a list as one word.
_LISTS_OF_KINDS = ("layers_block_type", "layer_types")
_LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


@dataclass(frozen=True, slots=True)
class ConfigClass:
    """A class of transformers: its `task`, the model type of each nested configuration, what its
    keys are called elsewhere, the defaults of its keys (a list of words as the count of each),
    those that follow other keys, and the terms of its parameters: (part, coefficient, ((key,
    power), ...), ((flag, value), ...)).

    `work` is the arithmetic of one input at the default size, counted by running the class on
    tensors without data (empty where it could not be counted). Parts: e embeddings, x routed
    experts, v what sees, a what hears, t the rest."""

    model_type: str
    task: str
    model_class: str
    subtypes: Mapping[str, str]
    names: Mapping[str, str]
    defaults: Mapping[str, Any]
    follows: Mapping[str, Any]
    terms: Sequence[Any]
    work: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClassCount:
    """Parameters of a configuration by part, the keys that were taken from the class because the
    file does not say them, and whether a flag that reshapes matrices is otherwise than usual."""

    known: ConfigClass
    parts: Mapping[str, float]
    taken: tuple[tuple[str, Any], ...] = ()
    is_turned: bool = False

    @property
    def total(self) -> int:
        """All parameters."""
        return round(sum(self.parts.values()))


@functools.cache
def _lines() -> Mapping[str, str]:
    """Model type -> its line of the table, not yet parsed."""
    lines = tables.read_text(_FILE).splitlines()
    return {line.split('"', 4)[3]: line for line in lines if line}


@functools.cache
def config_class(model_type: str) -> ConfigClass | None:
    """The class of a model type; None where it was not recorded."""
    line = _lines().get(model_type)
    if line is None:
        return None
    row = json.loads(line)
    return ConfigClass(
        row["type"], row["task"], row["class"], MappingProxyType(row["subtypes"]), MappingProxyType(row["names"]),
        MappingProxyType(row["defaults"]), MappingProxyType(row["follows"]), tuple(row["terms"]),
        MappingProxyType(row.get("work") or {}),
    )  # fmt: skip


def known_types() -> tuple[str, ...]:
    """Every model type that was recorded."""
    return tuple(_lines())


def spelled_layers(config: Any) -> list[str] | None:
    """The kinds of layers that a file spells with a letter each ("M-M*-"); None where it spells
    none, or with letters of others."""
    spelled = config.get("hybrid_override_pattern") if isinstance(config, Mapping) else None
    if not isinstance(spelled, str) or not spelled or any(letter not in _LETTERS for letter in spelled):
        return None
    return [_LETTERS[letter] for letter in spelled[:_MOST_ELEMENTS]]


def find(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key of a configuration; None where there is none."""
    found: Any = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


class Values:
    """The values of a configuration's keys as its class reads them."""

    def __init__(self, config: Mapping[str, Any], known: ConfigClass) -> None:
        self.config, self.known = config, known
        self.taken: dict[str, Any] = {}
        self._found: dict[str, float] = {}
        self._names = {native: other for other, native in known.names.items()}

    def written(self, key: str) -> Any:
        """What the file says under a key, or under another name of it; nested keys may stand
        outside where the file has no such object (older files of vision-language models)."""
        found = find(self.config, key)
        if found is None and key in self._names:
            found = find(self.config, self._names[key])
        outer, _, inner = key.rpartition(".")
        if found is None and inner in _LISTS_OF_KINDS:
            found = spelled_layers(find(self.config, outer) if outer else self.config)
        if found is None and outer and find(self.config, outer) is None:
            found = find(self.config, inner)
        if found is None and key == "num_labels" and isinstance(labels := self.config.get("id2label"), Mapping):
            return len(labels)
        return found

    def number(self, key: str) -> float:
        """The value of a key as a number: of the file, else what follows from other keys, else the
        default."""
        if key not in self._found:
            self._found[key] = 0.0  # a default that follows itself ends here
            self._found[key] = self._number(key)
        return self._found[key]

    def _number(self, key: str) -> float:
        if "=" in key:
            return self._count_of(*key.split("=", 1))
        if key.endswith("#"):
            return self._element(*key[:-1].rpartition(".")[::2])
        found = self.written(key)
        if isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found):
            return float(found)
        if key in self.known.follows:
            return self._following(self.known.follows[key])
        default = self.known.defaults.get(key)
        if not isinstance(default, int | float) or isinstance(default, bool):
            return 0.0
        self.taken[key] = default
        return float(default)

    def _following(self, terms: Sequence[Any]) -> float:
        try:
            return float(sum(c * math.prod(self.number(one) ** power for one, power in powers) for c, powers in terms))
        except ZeroDivisionError:
            return 0.0

    def is_undone(self, key: str) -> bool:
        """Whether the file takes a key away ("q_lora_rank": null) that the class has and nothing
        else gives."""
        if key in self.known.follows or "=" in key or key.endswith("#") or self.written(key) is not None:
            return False
        outer, _, inner = key.rpartition(".")
        place = find(self.config, outer) if outer else self.config
        return isinstance(place, Mapping) and inner in place and place[inner] is None

    def _element(self, key: str, at: str) -> float:
        found = self.written(key)
        listed = found if isinstance(found, Sequence) and not isinstance(found, str) else self.known.defaults.get(key, ())
        index = int(at)
        one = listed[index] if isinstance(listed, Sequence) and index < len(listed) else 0
        return float(one) if isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one) else 0.0

    def _count_of(self, key: str, word: str) -> float:
        """How many layers are of a kind; of the default's share where the file does not list
        them."""
        found = self.written(key)
        if isinstance(found, Sequence) and not isinstance(found, str):
            return float(sum(one == word for one in found[:_MOST_ELEMENTS]))
        counts = self.known.defaults.get(key) or {}
        if not isinstance(counts, Mapping):
            return 0.0
        layers = self._layers_beside(key)
        usual = sum(counts.values())
        return float(counts.get(word, 0) * (self.number(layers) / usual if layers and usual else 1.0))

    def _listed(self, key: str, counts: Mapping[str, int]) -> list[str]:
        """A list of kinds of layers as long as the class would make it, in the default's shares."""
        layers = self._layers_beside(key)
        wanted = round(self.number(layers)) if layers else sum(counts.values())
        found = [word for word in counts for _ in range(round(self._count_of(key, word)))]
        most = max(counts, key=lambda word: counts[word])
        return [*found, *[most] * (wanted - len(found))][:_MOST_ELEMENTS]

    def _layers_beside(self, key: str) -> str:
        """The key that counts the layers of a list; empty where none does."""
        outer = key.rpartition(".")[0]
        named = (f"{outer}.{one}" if outer else one for one in _LAYERS)
        return next((one for one in named if one in self.known.defaults), "")

    def flag(self, key: str) -> bool:
        """The value of a key that is true or false."""
        found = self.written(key)
        return bool(self.known.defaults.get(key) if found is None else found)

    def resolved(self, prefix: str = "") -> dict[str, Any]:
        """Every key below `prefix` (ending in a dot, or empty) with its value: numbers of the file,
        of what follows or of the class; words and flags of the class where the file has none."""
        found: dict[str, Any] = {}
        for key, default in self.known.defaults.items():
            inner = key.removeprefix(prefix)
            if not key.startswith(prefix) or "." in inner:
                continue
            written = self.written(key)
            if written is not None:
                found[inner] = written
            elif self.is_undone(key):
                continue
            elif isinstance(default, Mapping):
                found[inner] = self._listed(key, default)
            elif isinstance(default, int | float) and not isinstance(default, bool):
                number = self.number(key)
                if isinstance(default, float) or number == int(number):
                    found[inner] = number if isinstance(default, float) else int(number)
            else:
                found[inner] = default
        for other, native in self.known.names.items():
            if not prefix and native in found:
                found.setdefault(other, found[native])
        return found


def count(config: Mapping[str, Any], model_type: str) -> ClassCount | None:
    """Parameters of a configuration by its class; None where the class was not recorded, or the
    dimensions give no model. A nested configuration of another type than the class's usual one is
    counted by its own class."""
    known = config_class(model_type)
    if known is None:
        return None
    values = Values(config, known)
    parts = dict.fromkeys("exvat", 0.0)
    if _is_beyond(values, known):
        return None
    try:
        for part, coefficient, powers, flags in known.terms:
            if all(values.flag(key) == wanted for key, wanted in flags):
                parts[part] += coefficient * math.prod(values.number(key) ** power for key, power in powers)
        for key, usual in known.subtypes.items():
            parts = _swapped(parts, config.get(key), usual, model_type)
    except (ZeroDivisionError, OverflowError):
        return None
    if not math.isfinite(sum(parts.values())) or sum(parts.values()) <= 0:
        return None
    return ClassCount(known, parts, tuple(values.taken.items()), bool(_turned(values, known)))


def _is_beyond(values: Values, known: ConfigClass) -> bool:
    """Whether a file is built otherwise than the terms were recorded for: a part taken away, the
    size of heads said where the class was recorded without, two flags turned that each change the
    same shapes."""
    keys = {key for _, _, powers, _ in known.terms for key, _ in powers}
    if any(values.is_undone(key) for key in keys):
        return True
    for outer in ("", "text_config."):
        beside = f"{outer}num_attention_heads" in known.defaults and f"{outer}head_dim" not in known.defaults
        if beside and isinstance(head := values.written(f"{outer}head_dim"), int):
            heads = values.number(f"{outer}num_attention_heads")
            if head * heads != values.number(f"{outer}hidden_size"):
                return True
    return len(_turned(values, known)) > 1


def _turned(values: Values, known: ConfigClass) -> set[str]:
    """Flags of a file that are otherwise than usual and do more than add or leave out a part."""
    reshaping = {key for _, _, _, flags in known.terms for key, _ in flags if not any(word in key for word in _ADDING)}
    turned = {key for key in reshaping if values.flag(key) != known.defaults.get(key)}
    words = {key for key in _SHAPING if key in known.defaults and values.written(key) not in (None, known.defaults[key])}
    tied = {key for _, _, _, flags in known.terms for key, _ in flags if key.startswith("tie_")}
    if not tied and values.written("tie_word_embeddings") is False and known.task in ("seq2seq", "speech"):
        words.add("tie_word_embeddings")  # the class ties whatever the file says, the checkpoint does not
    return turned | words


def _swapped(parts: dict[str, float], nested: Any, usual: str, outer: str) -> dict[str, float]:
    """The parts with a nested configuration counted by its own class in place of the usual one's.
    One that is called as the whole (older files) is the usual one: no model is a part of itself."""
    kind = nested.get("model_type") if isinstance(nested, Mapping) else None
    if not isinstance(kind, str) or kind in (usual, outer):
        return parts
    before, after = count(nested, usual), count(nested, kind)
    if before is None or after is None:
        return parts
    changed = {part: parts[part] - before.parts[part] + after.parts[part] for part in parts}
    return changed if min(changed.values()) >= 0 else {**parts, "t": parts["t"] + after.total - before.total}


def does(model_type: str, task: str) -> bool:
    """Whether a model type's class is one for a task ("speech")."""
    known = config_class(model_type)
    return known is not None and known.task == task
