"""The user's wish: validated once, then frozen. All quantities are in base units."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from rightfit import units
from rightfit.workload import rules
from rightfit.workload.attributes import Attributes
from rightfit.workload.options import OPTIONS, overrules, raise_problems, read_wishes


class Workload(Attributes):
    """What the user wants to run, on how much data, by when, for how much.

    The constructor takes the option names of `rightfit plan` with friendly values (`deadline="24h"`, `budget="1500cny/month"`,
    `cloud="aws,gcp"`), or
    the attributes in base units (`deadline_s=86400.0`). `assumed` names the attributes that the user left open and rightfit chose.
    """

    __slots__ = ()

    def __init__(self, **wishes: Any) -> None:
        chosen_by_us = wishes.pop("assumed", ())  # from to_dict(): those are chosen afresh
        for side in ("input", "output"):  # from to_dict(): the law says more than its mean beside it
            if wishes.get(f"{side}_law"):
                wishes[f"{side}_tokens"] = wishes.pop(f"{side}_law")
        given = read_wishes({key: value for key, value in wishes.items() if key not in chosen_by_us})
        given |= rules.as_typed(given)
        raise_problems(rules.contradictions(given))
        defaults = rules.defaults(given)
        super().__init__(**given, **defaults, assumed=tuple(defaults))

    @classmethod
    def from_file(cls, path: str | Path, **wishes: Any) -> Self:
        """Read a YAML, TOML or JSON file; `wishes` given here win over the file."""
        from rightfit.workload.files import load

        return cls(**load(path, wishes))

    def save(self, path: str | Path) -> Path:
        """Write the wish to a YAML, TOML or JSON file (by its ending) that from_file reads back to an equal Workload."""
        from rightfit.workload.files import save

        return save(path, self.wishes())

    def wishes(self) -> dict[str, Any]:
        """What the user gave, by option name in friendly form; defaults taken are left out."""
        found = {name: self._friendly(name) for name in OPTIONS if name not in self.assumed}
        return {name: value for name, value in found.items() if value is not None}

    def with_changes(self, **wishes: Any) -> Self:
        """The same wish with some options changed, validated again; None takes an option away."""
        overruled = {attribute for key in wishes for attribute in overrules(key)}
        kept = {key: value for key, value in self._given().items() if key not in overruled}
        return type(self)(**{**kept, **wishes})

    @property
    def is_tuning_assumed(self) -> bool:
        """Whether fine-tuning is our reading: neither task nor method was given."""
        return "task" in self.assumed and "method" in self.assumed and self.task != "train"

    def from_the_start(self) -> Workload:
        """The same wish, to train all weights from the start."""
        return self.settled(task="train", method="full")

    def settled(self, **attributes: Any) -> Self:
        """The same wish with attributes that we settled, which are taken as they are; what a user says goes through `with_changes`."""
        unknown = attributes.keys() - _NAMES
        if unknown:
            raise TypeError(f"a workload has no attribute {', '.join(sorted(unknown))}")
        found = object.__new__(type(self))
        for name in _NAMES:
            object.__setattr__(found, name, attributes[name] if name in attributes else getattr(self, name))
        return found

    def to_dict(self) -> dict[str, Any]:
        """All attributes that are set, in base units; Workload(**result) is equal."""
        values = {name: getattr(self, name) for name in _NAMES}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value not in (None, (), "")}

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _NAMES if name not in self.assumed and name != "assumed"}
        return {name: value for name, value in values.items() if value is not None and value not in ((), "")}

    def _friendly(self, name: str) -> Any:
        option = OPTIONS[name]
        value = getattr(self, option.attributes[0])
        if value is None or value in ((), ""):
            return None
        if option.kind == "lengths":
            return getattr(self, option.attributes[1]) or value
        if option.kind == "duration":
            return units.exact_duration(value)
        if option.kind == "rate":
            return f"{units.exact_number(value)}/s"
        if option.kind in ("money", "price_pair"):
            return self.budget if option.kind == "money" else self.api_price
        return list(value) if isinstance(value, tuple) else value


#: All attributes, in their order.
_NAMES: Mapping[str, None] = dict.fromkeys(field.name for field in dataclasses.fields(Workload))
