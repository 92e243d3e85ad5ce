"""Rows that people add to the packed tables, correct or retire: text that can be reviewed line by line.

Each topic has a folder of its own, so that two people never write to one file: data/amendments/TOPIC/TABLE.csv. A row says what it does
(`action`: add, correct, retire), which row it means (the key columns of the table), where that was read (`source`) and when (`as_of`, a
whole date; of a
retirement: the day from which the row no longer holds). A file names only the columns that it fills. `correct` changes the cells that
are not empty; "-" says that a cell is known to be empty (the provider does not publish it); `*` in a key column of `correct` or `retire`
stands for anything. `correct` and `retire` say in `note` why.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import functools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.catalog.names import names_data
from rightfit.catalog.offers import PURCHASE_CODES
from rightfit.catalog.package_data import amendment_files, data_bytes, rules
from rightfit.facts import fuzzy
from rightfit.records import dataclass

ACTIONS = ("add", "correct", "retire")
EMPTY = "-"
OWN_COLUMNS = ("action", "source", "as_of", "note")


@dataclass(frozen=True, slots=True)
class TableRule:
    """What the rows of one table are: `key` names a row, `needed` must be filled by a new one, `usual` is what an empty cell of a new one
    means."""

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
        return f"catalog/data/amendments/{self.file}:{self.line}: {text}"


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
        problems += [f"catalog/data/amendments/{file}: {wrong}"] if wrong else []
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
        yield amendment.problem(f"no cloud is called {name}{_nearest(name, providers)}; a new one wants a line in catalog/data/names.toml")
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
    """The row with what follows from its cells: usual values of a new row, dollars from the original price or the other way round."""
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
    """Dollars, original price and its currency: whichever are missing follow from those that are there."""
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
    near = fuzzy.nearest(name, names)
    return f"; did you mean {', '.join(near)}?" if near else ""
