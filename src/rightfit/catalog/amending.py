"""Laying amendments over the packed tables: cells are replaced, rows come and go, all other rows stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import numpy as np

from rightfit.catalog import amendments
from rightfit.catalog.amendments import EMPTY, TABLES, Amendment
from rightfit.catalog.offers import Indices
from rightfit.catalog.pack import PackedColumn, PackedTable
from rightfit.catalog.package_data import load_unamended
from rightfit.errors import CatalogError
from rightfit.facts import fuzzy

Places = Sequence[Indices]
Changes = Mapping[int, Mapping[str, str]]


def amended(name: str, base: dict[str, PackedColumn]) -> dict[str, PackedColumn]:
    """The table with its amendments; CatalogError, naming file and line, where one of them cannot be laid over it."""
    if name not in TABLES:
        return base
    found, problems = amendments.read()
    own = [amendment for amendment in found if amendment.table == name]
    if not own:
        return base
    places = _places(base, own)
    wrong = [*problems, *_place_problems(base, own, places)]
    if wrong:
        raise CatalogError(wrong[0])
    return _laid_over(base, own, places)


def problems() -> list[str]:
    """Everything that is wrong with the amendments by themselves and against the packed tables, one line each."""
    found, lines = amendments.read()
    if lines:
        return list(lines)
    wrong: list[str] = []
    for name in dict.fromkeys(amendment.table for amendment in found):
        own, base = [amendment for amendment in found if amendment.table == name], load_unamended(name)
        wrong += _place_problems(base, own, _places(base, own))
    return wrong or _joins(found)


def _joins(amendments: Sequence[Amendment]) -> list[str]:
    """Prices that are added for a server or in a place that nobody lists."""
    new = [amendment for amendment in amendments if amendment.table == "prices" and amendment.action == "add"]
    wrong = []
    for table, column in (("servers", "instance_type"), ("regions", "region")) if new else ():
        packed = amended(table, load_unamended(table))
        known = dict.fromkeys(zip(packed["provider"].texts(), packed[column].texts(), strict=True))
        for amendment in new:
            key = (amendment.cells["provider"], amendment.cells[column])
            if key not in known:
                near = fuzzy.nearest(key[1], (name for provider, name in known if provider == key[0]))
                hint = f"; did you mean {', '.join(near)}?" if near else ""
                wrong.append(amendment.problem(f"{table} has no {'/'.join(key)}{hint}; a new one wants a row in {table}.csv"))
    return wrong


def _places(base: PackedTable, own: Sequence[Amendment]) -> list[Indices]:
    """The rows that each amendment means."""
    key = TABLES[own[0].table].key
    exact = _exact_places(base, key, [amendment.key for amendment in own if not amendment.is_pattern])
    none = np.zeros(0, dtype=np.intp)
    return [_pattern_places(base, key, one.key) if one.is_pattern else exact.get(one.key, none) for one in own]


def _exact_places(base: PackedTable, key: Sequence[str], keys: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], Indices]:
    """Rows by key; only rows whose every cell is one of the wanted ones are looked at one by one."""
    near = np.ones(len(base[key[0]]), dtype=np.bool_)
    for name, cells in zip(key, zip(*keys, strict=True), strict=False):
        among = set(cells)
        near &= np.array([label in among for label in base[name].labels], dtype=np.bool_)[base[name].codes]
    rows = np.flatnonzero(near)
    found: dict[tuple[str, ...], list[int]] = {}
    columns = ([base[name].labels[code] for code in base[name].codes[rows].tolist()] for name in key)
    for row, cells in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
        found.setdefault(cells, []).append(row)
    return {cells: np.array(own, dtype=np.intp) for cells, own in found.items()}


def _pattern_places(base: PackedTable, key: Sequence[str], names: Sequence[str]) -> Indices:
    fits = np.ones(len(base[key[0]]), dtype=np.bool_)
    for name, cell in zip(key, names, strict=True):
        pattern = cell.replace("[", "[[]").replace("?", "[?]")  # only the star is a wildcard
        fits &= np.array([fnmatchcase(label, pattern) for label in base[name].labels], dtype=np.bool_)[base[name].codes]
    return np.flatnonzero(fits)


def _place_problems(base: PackedTable, own: Sequence[Amendment], places: Places) -> Iterator[str]:
    """Rows that are added although they are there, or changed although they are not, or changed into what they are."""
    for amendment, rows in zip(own, places, strict=True):
        name = "/".join(cell or "(empty)" for cell in amendment.key)
        if amendment.action == "add" and len(rows):
            yield amendment.problem(f"{amendment.table} has {name} already; use the action correct")
        if amendment.action != "add" and not len(rows):
            known = ("/".join(cells) for cells in zip(*(base[column].texts() for column in TABLES[amendment.table].key), strict=True))
            near = fuzzy.nearest(name, (text for text in known if text.startswith(f"{amendment.key[0]}/")), count=2)
            hint = f"; did you mean {' or '.join(near)}?" if near and not amendment.is_pattern else ""
            yield amendment.problem(f"{amendment.table} has no {name}{hint}")
        if amendment.action == "correct" and len(rows) and not _new_cells(amendment):
            yield amendment.problem("corrects nothing: no cell beside the key is filled")


def _new_cells(amendment: Amendment) -> dict[str, str]:
    """The facts that a correction states."""
    rule = TABLES[amendment.table]
    left_out = {*rule.key, "source", "as_of", "note", "action"}
    return {name: "" if cell == EMPTY else cell for name, cell in amendment.cells.items() if name in rule.columns and name not in left_out}


def _laid_over(base: PackedTable, own: Sequence[Amendment], places: Places) -> dict[str, PackedColumn]:
    changes: dict[int, dict[str, str]] = {}
    gone: list[int] = []
    for amendment, rows in zip(own, places, strict=True):
        if amendment.action == "retire" and amendment.table != "servers":
            gone += rows.tolist()
        elif amendment.action != "add":
            for row in rows.tolist():
                before = changes.get(row) or {name: column.labels[column.codes[row]] for name, column in base.items()}
                changes[row] = {**before, **_changed(amendment, before)}
    kept = np.setdiff1d(np.arange(len(next(iter(base.values())))), np.array(gone, dtype=np.intp))
    added = [amendment.cells for amendment in own if amendment.action == "add"]
    return {name: _column(column, name, changes=changes, kept=kept, added=added) for name, column in base.items()}


def _changed(amendment: Amendment, before: Mapping[str, str]) -> dict[str, str]:
    """What a correction or a retirement does to a row: a server that is gone stays in the list as retired, so that asking for it is
    answered.

    A dated row was read anew, so that source, date and note are those of the amendment. A row without date keeps what it said: the
    amendment's source and note join it.
    """
    cells = amendment.cells
    new = {"status": "retired"} if amendment.action == "retire" else _new_cells(amendment)
    said = {"source": cells["source"], "as_of": cells["as_of"], "note": cells["note"]}
    if "as_of" not in before:
        word = f"retired {cells['as_of']}" if amendment.action == "retire" else f"{', '.join(new)} {cells['as_of']}"
        said = {name: _joined(before.get(name, ""), f"{word}: {text}") for name, text in said.items()}
    return {name: text for name, text in {**said, **new}.items() if name in before}


def _joined(before: str, text: str) -> str:
    return f"{before}; {text}" if before else text


def _column(column: PackedColumn, name: str, *, changes: Changes, kept: Indices, added: Sequence[Mapping[str, str]]) -> PackedColumn:
    """One column of the amended table, without labels that no row uses any more (the newest date is sought among labels)."""
    places: dict[str, int] = {}
    labels = list(column.labels)
    for code, label in enumerate(labels):
        places.setdefault(label, code)

    def code_of(label: str) -> int:
        if label not in places:
            places[label] = len(labels)
            labels.append(label)
        return places[label]

    codes = column.codes.copy()
    for row, cells in changes.items():
        codes[row] = code_of(cells[name])
    new = np.array([code_of(cells.get(name, "")) for cells in added], dtype=codes.dtype)
    codes = np.concatenate([codes[kept], new])
    used, relabelled = np.unique(codes, return_inverse=True)
    return PackedColumn(tuple(labels[code] for code in used.tolist()), relabelled.reshape(-1).astype(np.int32))
