"""What an entry of data/rules.toml must hold: judged before a rule is made of it, so that what is missing is named and not stumbled
over."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from rightfit.explain.measures import Measures
from rightfit.explain.messages import LANGS, fields_of

REASONS = ("holds", "fails", "misleading")
NEEDED = ("post", "kind", "figure", "unit", "statement", *REASONS)
UNITS = ("memory", "data", "bandwidth", "percent", "duration", "usd", "rate", "count")
# What a kind of rule needs besides; a rule of any other kind claims something, as a value or as a factor of a figure.
NEEDED_BY_KIND: Mapping[str, tuple[str, ...]] = {"fixed": ("verdict",), "setup": ("servers", "setup"), "gpus": (), "term": ()}
_LISTS = ("models", "methods", "tasks")
_MEASURES = tuple(field.name for field in dataclasses.fields(Measures))


def entry_problems(
    name: str, entry: Mapping[str, Any], *, allowed: Collection[str], kinds: Collection[str], table: Mapping[str, Any]
) -> list[str]:
    """What is wrong with one entry, one line each; `allowed` are the keys that an entry may have, `table` holds posts and examples."""
    lines = [*_missing(entry), *_unknown(entry, keys=allowed, kinds=kinds, table=table), *_texts(entry)]
    return [f"explain/data/rules.toml: {name} {line}" for line in lines]


def _missing(entry: Mapping[str, Any]) -> Iterator[str]:
    kind = str(entry.get("kind", ""))
    missing = [key for key in (*NEEDED, *NEEDED_BY_KIND.get(kind, ())) if key not in entry]
    if kind and kind not in NEEDED_BY_KIND and "value" not in entry and "base" not in entry:
        missing.append("value (or base and factor)")
    if missing:
        yield f"lacks {', '.join(missing)}"


def _unknown(entry: Mapping[str, Any], *, keys: Collection[str], kinds: Collection[str], table: Mapping[str, Any]) -> Iterator[str]:
    for key in entry:
        if key not in keys:
            yield f"has a key {key!r} that nothing reads{_nearest(key, keys)}"
    choices: Mapping[str, Collection[str]] = {
        "kind": kinds,
        "figure": _MEASURES,
        "base": _MEASURES,
        "unit": UNITS,
        "post": table["posts"],
        "example": table["examples"],
    }
    for key, allowed in choices.items():
        if key in entry and str(entry[key]) not in allowed:
            yield f"has the {key} {entry[key]!r}{_nearest(str(entry[key]), allowed)}; choose one of {', '.join(allowed)}"
    for key in entry.get("applies", {}):
        bound, _, figure = key.partition("_")
        if key not in _LISTS and not (bound in ("min", "max") and figure in (*_MEASURES, "gpus")):
            yield f"applies by {key!r}, which is neither min_ or max_ of a figure nor one of {', '.join(_LISTS)}"


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    for key in ("statement", *REASONS):
        texts = entry.get(key, dict.fromkeys(LANGS, ""))
        absent = [lang for lang in LANGS if lang not in texts]
        if absent:
            yield f"has no {' and no '.join(absent)} text in {key}"
        elif fields_of(texts["en"]) != fields_of(texts["zh"]) or bool(texts["en"]) != bool(texts["zh"]):
            yield f"names other fields in the en than in the zh text of {key}"


def _nearest(name: str, allowed: Collection[str]) -> str:
    near = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {near[0]}?" if near else ""
