"""Bundled models of the four families, loaded one by one: naming one model parses one row."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rightfit.facts import tables
from rightfit.facts.records import DiffusionModel, Model, OtherModel, TransformerArchitecture, VisionModel

FAMILIES: Mapping[str, type[Model]] = {
    "transformer": TransformerArchitecture,
    "vision": VisionModel,
    "diffusion": DiffusionModel,
    "other": OtherModel,
}


class IndexEntry(NamedTuple):
    """A bundled model before its row is read."""

    family: str
    name: str
    aliases: tuple[str, ...]


@functools.cache
def index() -> tuple[IndexEntry, ...]:
    """All bundled models, in file order, transformers first."""
    rows = csv.reader(tables.read_text("models_index.csv").splitlines())
    next(rows)
    return tuple(IndexEntry(family, name, tuple(aliases.split(";")) if aliases else ()) for family, name, aliases in rows)


@functools.cache
def exact_names() -> Mapping[str, IndexEntry]:
    """Case-folded names and aliases of all bundled models; no two models share one."""
    names: dict[str, IndexEntry] = {}
    for entry in index():
        for text in (entry.name, *entry.aliases):
            names[text.casefold()] = entry
    return names


@functools.cache
def _family_text(family: str) -> tuple[list[str], str]:
    text = tables.read_text(f"models_{family}.csv")
    return text[: text.index("\n")].split(","), text


@functools.cache
def load(entry: IndexEntry) -> Model:
    """The record of one bundled model. Finds its line in the text and parses only that."""
    header, text = _family_text(entry.family)
    quoted = f'"{entry.name}"' if "," in entry.name else entry.name
    start = text.index(f"\n{quoted},") + 1
    cells = next(csv.reader([text[start : text.index("\n", start)]]))
    row = dict(zip(header, cells, strict=True))
    row["aliases"] = ";".join(entry.aliases)
    return tables.to_record(FAMILIES[entry.family], row)


class _LazyModels(Mapping[str, Model]):
    """Name -> record over all families; a record is read when it is asked for."""

    def __getitem__(self, name: str) -> Model:
        entry = _by_name().get(name)
        if entry is None:
            raise KeyError(name)
        return load(entry)

    def __iter__(self) -> Iterator[str]:
        return iter(_by_name())

    def __len__(self) -> int:
        return len(_by_name())


@functools.cache
def _by_name() -> Mapping[str, IndexEntry]:
    return {entry.name: entry for entry in index()}


def models() -> Mapping[str, Model]:
    """Every bundled model by name, in file order, loaded one by one as it is asked for."""
    return _LazyModels()
