"""Bundled models of the four families, loaded one by one: naming one model parses one row."""

from __future__ import annotations

import csv
import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rightfit.errors import AmbiguousNameError, UnknownNameError
from rightfit.facts import tables
from rightfit.facts.records import Dataset, DiffusionModel, Model, OtherModel, TransformerArchitecture, VisionModel
from rightfit.messages import Message

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


# ---- Public data sets: their samples, tokens and bytes on disk.


@functools.cache
def datasets() -> Mapping[str, Dataset]:
    """Every bundled data set by name, in file order."""
    aliases = {row["name"]: row["aliases"] for row in tables.table("dataset_aliases")}
    rows = tables.read_rows(tables.read_text("datasets.csv"))
    return tables.to_records(Dataset, ({**row, "aliases": aliases.get(row["name"], "")} for row in rows))


@functools.cache
def _exact_names() -> Mapping[str, str]:
    names: dict[str, str] = {}
    for record in datasets().values():
        for text in (record.name, *record.aliases):
            names[_key(text)] = record.name
    return names


def _key(text: str) -> str:
    return "".join(tables.tokens(tables.base_name(text))) or text.casefold()


def dataset(name: str) -> Dataset:
    """The data set called `name`: its name or an alias however spelt, or words that
    only one name holds."""
    exact = _exact_names().get(_key(name))
    if exact is not None:
        return datasets()[exact]
    wanted = set(tables.tokens(name))
    found = [one for one in datasets() if wanted and wanted <= set(tables.tokens(one))]
    if len(found) == 1:
        return datasets()[found[0]]
    if found:
        raise AmbiguousNameError("dataset", name, found)
    close = nearest_datasets(name)
    raise UnknownNameError("dataset", name, nearest=close, allowed="" if close else Message("names.datasets"))


def exact_dataset(name: str) -> Dataset | None:
    """The data set whose name or alias this is, however spelt; None of words that only occur in
    one."""
    exact = _exact_names().get(_key(name))
    return None if exact is None else datasets()[exact]


def nearest_datasets(name: str) -> tuple[str, ...]:
    """Names of the data sets most like `name`."""
    known = {text: record.name for record in datasets().values() for text in (record.name, *record.aliases)}
    close = tables.nearest(name, known, count=9)
    return tuple(dict.fromkeys(known[text] for text in close))[:3]
