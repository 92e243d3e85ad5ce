"""Rows and columns as people write them."""

from __future__ import annotations

import pytest

from rightfit.errors import QuantityError
from rightfit.workload.amounts import is_table, parse_table_size
from rightfit.workload.options import read_wish


@pytest.mark.parametrize(
    ("text", "rows", "cols"),
    [
        ("11Mrows x 28cols", 11e6, 28),
        ("11M rows x 28 columns", 11e6, 28),
        ("11M x 28", 11e6, 28),
        ("28 features × 1.5M samples", 1.5e6, 28),
        ("100000*20", 1e5, 20),
        ("1100万行x28列", 11e6, 28),
        ("1B rows, 40 cols", 1e9, 40),
    ],
)
def test_sizes_in_many_forms(text: str, rows: float, cols: float) -> None:
    size = parse_table_size(text)
    assert (size.rows, size.cols) == (pytest.approx(rows), cols)


def test_bytes_become_rows() -> None:
    # 8 GB of 100 columns of 8 bytes: ten million rows.
    size = parse_table_size("8GB x 100cols")
    assert (size.rows, size.cols, size.size_bytes) == (pytest.approx(1e7), 100, 8e9)
    assert parse_table_size("8GB x 100cols", cell_bytes=4.0).rows == pytest.approx(2e7)


@pytest.mark.parametrize("text", ["11M rows", "", "rows x cols", "0 x 28", "10 x 0", "5 cols x 6 cols", "3 rows x 4 rows"])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_table_size(text)


@pytest.mark.parametrize(
    "text",
    [
        "11M rows x 28 cols",
        "11Mrowsx28cols",
        "5 million rows x 200 cols",
        "1100万行 x 28列",
        "11M x 28",
        "5GB x 100cols",
        "1B rows, 40 cols",
    ],
)
def test_tables_are_told_from_amounts(text: str) -> None:
    assert is_table(text)


@pytest.mark.parametrize("text", ["5k examples", "1,000 rows", "1,000,000 tokens", "1.28Mimages", "10万条", "5GB", "11M rows", "3 x", "2x"])
def test_amounts_are_no_tables(text: str) -> None:
    assert not is_table(text)


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        ("11M rows x 28 cols", 11e6, 28),
        ("5 million rows x 200 cols", 5e6, 200),
        ("1100万行 x 28列", 11e6, 28),
        ("28 columns x 11M rows", 11e6, 28),
    ],
)
def test_the_data_option_reads_tables(text: str, rows: float, columns: int) -> None:
    assert read_wish("data", text) == {"data": text, "data_samples": pytest.approx(rows), "data_unit": "rows", "data_columns": columns}


def test_a_size_in_bytes_stays_one_until_its_cells_are_known() -> None:
    assert read_wish("data", "5GB x 100cols") == {"data": "5GB x 100cols", "data_bytes": 5e9, "data_unit": "bytes", "data_columns": 100}


@pytest.mark.parametrize("text", ["10 x 2.5 cols", "1e18 x 5", "10 x 1e9"])
def test_tables_that_make_no_sense(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^data: "):
        read_wish("data", text)
