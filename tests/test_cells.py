"""No writer of tables hands a spreadsheet a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import rightfit
from rightfit.cli.output import _csv
from rightfit.files import safe_cell
from rightfit.proof.tables import write_predictions
from rightfit.rest.reading import written

FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1")
PLAIN = ("7B", "-3.5", "+2e9", "", 4, -4.0, None, True, "a=b")


@pytest.mark.parametrize("value", FORMULAS)
def test_a_formula_is_told_to_be_text(value: str) -> None:
    assert safe_cell(value) == "'" + value.replace("\r", "\n")


@pytest.mark.parametrize("value", PLAIN)
def test_all_else_stays(value: object) -> None:
    assert safe_cell(value) is value


@pytest.mark.parametrize("formula", FORMULAS)
def test_every_writer(formula: str, tmp_path: Path) -> None:
    (row,) = rightfit.predict([{"metric": "nothing", "id": formula, formula: formula}])
    write_predictions(tmp_path / "out.csv", [row])
    texts = [
        (tmp_path / "out.csv").read_bytes().decode(),
        written([row], "csv", columns=list(row), is_first=True).decode(),
        _csv([row, {"list": [formula]}]),
    ]
    for text in texts:
        cells = [cell for line in csv.reader(io.StringIO(text, newline="")) for cell in line]
        assert any(formula.strip() in cell for cell in cells)
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\n", "\r"))]
