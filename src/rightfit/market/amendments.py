"""Rows that people add to the packed tables, correct or retire: text that can be
reviewed line by line.

Each topic has a folder of its own, so that two people never write to one file:
data/amendments/TOPIC/TABLE.csv. A row says what it does (`action`: add, correct, retire), which row
it means (the key columns of the table), where that was read (`source`) and when (`as_of`, a whole
date; of a retirement: the day from which the row no longer holds). A file names only the columns
that it fills. `correct` changes the cells that are not empty; "-" says that a cell is known to be
empty (the provider does not publish it); `*` in a key column of `correct` or `retire` stands for
anything. `correct` and `retire` say in `note` why.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from rightfit.errors import CatalogError
from rightfit.facts import tables
from rightfit.market.names import names_data
from rightfit.market.offers import PURCHASE_CODES, Indices
from rightfit.market.packed_tables import PackedColumn, PackedTable, amendment_files, data_bytes, load_unamended, rules
from rightfit.records import dataclass

ACTIONS = ("add", "correct", "retire")
EMPTY = "-"
OWN_COLUMNS = ("action", "source", "as_of", "note")


@dataclass(frozen=True, slots=True)
class TableRule:
    """What the rows of one table are: `key` names a row, `needed` must be filled by a new one,
    `usual` is what an empty cell of a new one means."""

    columns: tuple[str, ...]
    key: tuple[str, ...]
    needed: tuple[str, ...] = ()
    usual: Mapping[str, str] = dataclasses.field(default_factory=dict)
    numbers: tuple[str, ...] = ()
    may_be_empty: tuple[str, ...] = ()  # of the key
    price: str = ""  # the column of US dollars that follows from price_original and currency_original


def _rule(entry: Mapping[str, Any]) -> TableRule:
    apart = {name: entry[name] for name in ("usual", "price") if name in entry}
    several: dict[str, Any] = {name: tuple(words.split()) for name, words in entry.items() if name not in apart}
    return TableRule(**several, **apart)


#: Every table of the catalog that may be amended (data/amended_tables.toml).
TABLES: Mapping[str, TableRule] = {name: _rule(entry) for name, entry in tomllib.loads(data_bytes("amended_tables.toml").decode()).items()}


@dataclass(frozen=True, slots=True)
class Amendment:
    """One row of a file of amendments: its filled cells, and where it stands."""

    table: str
    file: str
    line: int
    cells: Mapping[str, str]

    @property
    def action(self) -> str:
        return self.cells.get("action", "")

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.cells.get(name, "") for name in TABLES[self.table].key)

    @property
    def is_pattern(self) -> bool:
        """Whether it means every row that a `*` fits."""
        return any("*" in cell for cell in self.key)

    def problem(self, text: str) -> str:
        """A line that says what is wrong and where."""
        return f"market/data/amendments/{self.file}:{self.line}: {text}"


def read() -> tuple[tuple[Amendment, ...], tuple[str, ...]]:
    """Every amendment in order of file and line, and what cannot be read, one line each."""
    return _read(tuple(amendment_files().items()))


@functools.lru_cache(maxsize=4)
def _read(files: tuple[tuple[str, str], ...]) -> tuple[tuple[Amendment, ...], tuple[str, ...]]:
    """What the files say, read once for all tables."""
    found: list[Amendment] = []
    problems: list[str] = []
    for file, text in files:
        name = file.split("/")[1].removesuffix(".csv")
        lines = list(csv.reader(text.splitlines()))
        wrong = _header_problem(name, lines[0] if lines else [])
        problems += [f"market/data/amendments/{file}: {wrong}"] if wrong else []
        found += [] if wrong else _rows(name, file, lines)
    problems += [problem for amendment in found for problem in cell_problems(amendment)]
    return tuple(_filled(amendment) for amendment in found), (*problems, *_written_twice(found))


def _rows(table: str, file: str, lines: Sequence[Sequence[str]]) -> Iterator[Amendment]:
    for number, cells in enumerate(lines[1:], start=2):
        named = zip(lines[0], cells, strict=False)
        surplus = {"": "more cells"} if len(cells) > len(lines[0]) else {}
        if any(cells):
            yield Amendment(table, file, number, {**{name: cell.strip() for name, cell in named if cell.strip()}, **surplus})


def _header_problem(table: str, header: Sequence[str]) -> str:
    """What is wrong with a file's name or its first line."""
    if table not in TABLES:
        return f"no table is called {table}{_nearest(table, TABLES)}; the tables are {', '.join(TABLES)}"
    known = dict.fromkeys((*OWN_COLUMNS, *TABLES[table].columns))
    for name in header:
        if name not in known:
            return f"{table} has no column {name!r}{_nearest(name, known)}"
    missing = [name for name in ("action", *TABLES[table].key, "source", "as_of") if name not in header]
    return f"the first line lacks {', '.join(missing)}" if missing else ""


def cell_problems(amendment: Amendment) -> Iterator[str]:
    """What is wrong with the cells of one row by themselves."""
    cells, rule = amendment.cells, TABLES[amendment.table]
    if "" in cells:
        yield amendment.problem("has more cells than the first line; quote a cell that holds a comma")
    if amendment.action not in ACTIONS:
        yield amendment.problem(f"action is {amendment.action!r}; choose one of {', '.join(ACTIONS)}")
    yield from (amendment.problem(f"{name} is empty") for name in _empty_cells(amendment))
    if amendment.is_pattern and amendment.action == "add":
        yield amendment.problem("a row that is added must be named whole, without *")
    for name in rule.numbers:
        if cells.get(name, EMPTY) != EMPTY and not (_number(cells[name]) >= 0 or name == "savings_pct"):
            yield amendment.problem(f"{name} is {cells[name]!r}, which is no number of 0 or more")
    yield from _date_problems(amendment)
    yield from _name_problems(amendment)


def _empty_cells(amendment: Amendment) -> list[str]:
    rule, is_new = TABLES[amendment.table], amendment.action == "add"
    needed = [name for name in rule.key if name not in rule.may_be_empty and name not in rule.usual]
    if is_new:
        needed += [name for name in rule.needed if name != rule.price or "price_original" not in amendment.cells]
    said = ("source", "as_of", *(() if is_new else ("note",)))
    nothing = ("", EMPTY)
    missing = [name for name in needed if not amendment.cells.get(name)]
    return missing + [name for name in said if amendment.cells.get(name, "") in nothing]


def _date_problems(amendment: Amendment) -> Iterator[str]:
    text = amendment.cells.get("as_of", "")
    try:
        date = datetime.date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        date = None
    if text and date is None:
        yield amendment.problem(f"as_of is {text!r}; write the whole date, as 2026-09-30")
    if date and date > datetime.datetime.now(tz=datetime.UTC).date():
        yield amendment.problem(f"as_of is {text}, a day to come; a row counts from the day on which it is true")


def _name_problems(amendment: Amendment) -> Iterator[str]:
    """Names that the rest of the catalog must know."""
    cells = amendment.cells
    providers = names_data()["providers"]
    if amendment.table in ("servers", "regions") and amendment.action == "add" and cells.get("provider", "") not in providers:
        name = cells.get("provider", "")
        yield amendment.problem(f"no cloud is called {name}{_nearest(name, providers)}; a new one wants a line in market/data/names.toml")
    if amendment.table == "prices" and not amendment.is_pattern and _mode(cells.get("purchase", "")) not in PURCHASE_CODES:
        name = cells.get("purchase", "")
        yield amendment.problem(f"no purchase mode is called {name!r}{_nearest(name, PURCHASE_CODES)}")
    if amendment.table == "servers" and cells.get("gpu_name", EMPTY) != EMPTY and cells["gpu_name"] not in _accelerators():
        yield amendment.problem(
            f"no accelerator is called {cells['gpu_name']}{_nearest(cells['gpu_name'], _accelerators())}; "
            "a new one wants a row in facts/data/accelerators.csv"
        )


def _written_twice(amendments: Sequence[Amendment]) -> Iterator[str]:
    first: dict[tuple[str, tuple[str, ...]], Amendment] = {}
    for amendment in amendments:
        before = first.setdefault((amendment.table, amendment.key), amendment)
        if before is not amendment:
            yield amendment.problem(f"{'/'.join(amendment.key)} is amended twice; change {before.file}:{before.line} instead")


def _filled(amendment: Amendment) -> Amendment:
    """The row with what follows from its cells: usual values of a new row, dollars from the
    original price or the other way round."""
    rule, cells = TABLES[amendment.table], dict(amendment.cells)
    if amendment.action == "add":
        cells = {**rule.usual, **{name: "" if cell == EMPTY else cell for name, cell in cells.items()}}
        if cells.get("gpu_name") in _accelerators():
            cells.setdefault("gpu_memory_gib_each", f"{_accelerators()[cells['gpu_name']]:.10g}")
    if amendment.table == "servers" and cells.get("gpu_interconnect"):
        cells["nvlink"] = str(int(cells["gpu_interconnect"] in ("nvlink", "nvswitch")))
    if amendment.table == "prices":
        cells["purchase"] = cells.get("purchase", "").replace("-", "_")
    if rule.price and not {rule.price, "price_original", "currency_original"}.isdisjoint(cells):
        cells.update(_priced(cells, price=rule.price))
    return dataclasses.replace(amendment, cells=cells)


def _priced(cells: Mapping[str, str], *, price: str) -> dict[str, str]:
    """Dollars, original price and its currency: whichever are missing follow from
    those that are there."""
    currency = cells.get("currency_original", "USD")
    per_usd = _units_per_usd().get(currency, float("nan"))
    original = cells.get("price_original") or f"{_number(cells.get(price, '')) * per_usd:.10g}"
    return {price: cells.get(price) or f"{_number(original) / per_usd:.10g}", "price_original": original, "currency_original": currency}


@functools.cache
def _units_per_usd() -> Mapping[str, float]:
    units: Mapping[str, float] = rules()["checks"]["check_price_conversion"]["units_per_usd"]
    return units


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _mode(text: str) -> str:
    return text.replace("_", "-")


@functools.cache
def _accelerators() -> Mapping[str, float]:
    """Memory of every known accelerator [GiB]."""
    from rightfit import facts

    return {name: record.memory_bytes / 2**30 for name, record in facts.accelerators().items()}


def _nearest(name: str, names: Mapping[str, object]) -> str:
    near = tables.nearest(name, names)
    return f"; did you mean {', '.join(near)}?" if near else ""


# ---- Laying amendments over the packed tables: cells are replaced, rows come and go, all other
# rows stay as they are.

Places = Sequence[Indices]
Changes = Mapping[int, Mapping[str, str]]


def amended(name: str, base: dict[str, PackedColumn]) -> dict[str, PackedColumn]:
    """The table with its amendments; CatalogError, naming file and line, where one of them
    cannot be laid over it."""
    if name not in TABLES:
        return base
    found, problems = read()
    own = [amendment for amendment in found if amendment.table == name]
    if not own:
        return base
    places = _places(base, own)
    wrong = [*problems, *_place_problems(base, own, places)]
    if wrong:
        raise CatalogError(wrong[0])
    return _laid_over(base, own, places)


def problems() -> list[str]:
    """Everything that is wrong with the amendments by themselves and against the packed
    tables, one line each."""
    found, lines = read()
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
                near = tables.nearest(key[1], (name for provider, name in known if provider == key[0]))
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
    """Rows by key; only rows whose every cell is one of the wanted ones are
    looked at one by one."""
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
    """Rows that are added although they are there, or changed although they are not, or changed
    into what they are."""
    for amendment, rows in zip(own, places, strict=True):
        name = "/".join(cell or "(empty)" for cell in amendment.key)
        if amendment.action == "add" and len(rows):
            yield amendment.problem(f"{amendment.table} has {name} already; use the action correct")
        if amendment.action != "add" and not len(rows):
            known = ("/".join(cells) for cells in zip(*(base[column].texts() for column in TABLES[amendment.table].key), strict=True))
            near = tables.nearest(name, (text for text in known if text.startswith(f"{amendment.key[0]}/")), count=2)
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
    """What a correction or a retirement does to a row: a server that is gone stays in the list as
    retired, so that asking for it is answered.

    A dated row was read anew, so that source, date and note are those of the amendment. A row
    without date keeps what it said: the amendment's source and note join it.
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
    """One column of the amended table, without labels that no row uses any more (the newest date is
    sought among labels)."""
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
