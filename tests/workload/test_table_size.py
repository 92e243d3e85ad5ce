"""Rows and columns as people write them."""

from __future__ import annotations

import pytest

from rightfit.errors import QuantityError
from rightfit.workload.table_size import parse_table_size


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
