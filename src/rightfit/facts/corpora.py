"""Public data sets: their samples, tokens and bytes on disk."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from rightfit.errors import AmbiguousNameError, UnknownNameError
from rightfit.facts import fuzzy, tables
from rightfit.facts.records import Dataset
from rightfit.messages import Message


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
    return "".join(fuzzy.tokens(fuzzy.base_name(text))) or text.casefold()


def dataset(name: str) -> Dataset:
    """The data set called `name`: its name or an alias however spelt, or words that only one name holds."""
    exact = _exact_names().get(_key(name))
    if exact is not None:
        return datasets()[exact]
    wanted = set(fuzzy.tokens(name))
    found = [one for one in datasets() if wanted and wanted <= set(fuzzy.tokens(one))]
    if len(found) == 1:
        return datasets()[found[0]]
    if found:
        raise AmbiguousNameError("dataset", name, found)
    close = nearest_datasets(name)
    raise UnknownNameError("dataset", name, nearest=close, allowed="" if close else Message("names.part_datasets"))


def nearest_datasets(name: str, *, count: int = 3) -> tuple[str, ...]:
    """Names of the data sets most like `name`."""
    known = {text: record.name for record in datasets().values() for text in (record.name, *record.aliases)}
    close = fuzzy.nearest(name, known, count=3 * count)
    return tuple(dict.fromkeys(known[text] for text in close))[:count]
