"""Every public field has its row in docs/nomenclature.md, in both languages, and a unit that
agrees with its suffix."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from rightfit.estimation.figures import Figure
from rightfit.physics.columns import DeviceColumns, LinkColumns, ModelColumns, SetupColumns
from rightfit.search import answer
from rightfit.workload import Workload

PAGE = Path(__file__).parents[1] / "docs" / "nomenclature.md"
PLAN_CLASSES = [value for value in vars(answer).values() if isinstance(value, type) and value.__module__ == answer.__name__]
SECTIONS = {
    "Plan": [*PLAN_CLASSES, Figure],
    "Workload": [Workload],
    "Model columns": [ModelColumns],
    "Setup columns": [SetupColumns],
    "Device columns": [DeviceColumns],
    "Link columns": [LinkColumns],
}
SUFFIX_UNITS = {
    "_bytes": {"bytes"},
    "_per_s": {"1/s", "token/s", "sequence/s"},
    "_s": {"s"},
    "_usd": {"USD", "USD/h"},
    "_flops": {"FLOP/s"},
    "_bandwidth": {"bytes/s"},
    "_gbps": {"Gbit/s"},
    "_w": {"W"},
}


def read_page() -> dict[str, dict[str, tuple[str, str, str]]]:
    sections: dict[str, dict[str, tuple[str, str, str]]] = {}
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            sections[line[3:]] = current = {}
        elif line.startswith("| `"):
            name, unit, english, chinese = (cell.strip() for cell in line.strip("|").split("|"))
            assert name.strip("`") not in current, f"{name} stands twice"
            current[name.strip("`")] = (unit, english, chinese)
    return sections


ROWS = [(section, name, *row) for section, rows in read_page().items() for name, row in rows.items()]


def field_names(cls: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set(cls.model_fields)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_field_has_a_row_and_every_row_a_field(section: str) -> None:
    fields = set().union(*(field_names(cls) for cls in SECTIONS[section])) | ({"schema_version"} if section == "Plan" else set())
    rows = set(read_page()[section])
    assert sorted(fields - rows) == [], "add a row for each to docs/nomenclature.md: | `name` | unit | English | 中文 |"
    assert sorted(rows - fields) == [], "these rows of docs/nomenclature.md name no field any more"


def test_rows_are_complete_and_units_agree_with_suffixes() -> None:
    faults = []
    for section, name, unit, english, chinese in ROWS:
        suffix = next((ending for ending in SUFFIX_UNITS if name.endswith(ending)), None)
        whole = unit and english and re.search("[\u4e00-\u9fff]|dropout", chinese)
        if not whole or (suffix is not None and unit not in SUFFIX_UNITS[suffix]):
            faults.append(f"{section}: {name}")
    assert ROWS
    assert not faults, "; ".join(faults)


def test_one_word_means_one_thing_across_sections() -> None:
    units: dict[str, set[str]] = {}
    for section, name, unit, *_ in ROWS:
        if section in {"Plan", "Setup columns", "Workload"} and unit not in {"-", "code"}:
            units.setdefault(name, set()).add(unit)
    assert {name: found for name, found in units.items() if len(found) > 1} == {}
