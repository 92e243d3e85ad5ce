"""What own runs are worth: the tables of the accuracy page, and the bars that
every release keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from rightfit.measure import evidence
from rightfit.proof import accuracy_page

VALIDATION = Path(__file__).parents[2] / "validation"
ROWS = accuracy_page.bar_rows(VALIDATION)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1]} {row[3]}")
def test_every_bar_is_kept(row: tuple[str, str, float, str, float, bool]) -> None:
    assert row[5], row


def test_the_four_figures_of_the_bars_are_there_with_three_kinds_each() -> None:
    assert {row[0] for row in ROWS} == {"training-memory", "training-step", "time-per-token", "serving-throughput"}
    assert len(ROWS) == 4 * (1 + 1 + 4)


def test_a_bar_that_is_missed_is_told(tmp_path: Path) -> None:
    (tmp_path / "own_bars.csv").write_text("figure,rows,column,sign,limit,what,source\nlatency,3,cut,>=,0.25,cut,test\n")
    (tmp_path / "own_runs.csv").write_text("figure,rows,cut\nlatency,3,0.10\n")
    assert accuracy_page.bar_rows(tmp_path) == [("latency", "cut", 0.10, ">=", 0.25, False)]
    assert accuracy_page.bar_cells(tmp_path) == (
        ["figure", "bar", "measured", "limit", "kept"],
        [["latency", "cut", "10.0 %", ">= 25.0 %", "no"]],
    )


def test_the_table_has_a_row_for_every_figure_that_can_be_calibrated() -> None:
    cells = accuracy_page.error_cells(VALIDATION)
    assert cells is not None
    assert [row[0].replace(" ", "-") for row in cells[1]] == list(evidence.laws())


def test_a_choice_by_prediction_beats_the_cheapest_hour_and_a_random_card() -> None:
    cells = accuracy_page.decision_cells(VALIDATION)
    assert cells is not None
    none, two, cheapest, random = (float(cells[1][-1][at].split()[0]) for at in (3, 5, 6, 7))
    assert two <= none < cheapest < random


def test_without_the_tables_there_is_no_section(tmp_path: Path) -> None:
    assert accuracy_page.own_text(tmp_path) == ""
    assert accuracy_page.own_cells(tmp_path) == []
