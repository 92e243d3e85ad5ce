"""Distinct keys and group minima agree with NumPy's sorting versions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rightfit.search.rank import combine, distinct, distinct_rows, first_rows


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.integers(0, 1)), min_size=1, max_size=60))
def test_distinct_rows_number_the_combinations(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, dtype=np.int32) for column in zip(*rows, strict=True)]
    first, group = distinct_rows(columns)
    assert len(first) == len(set(rows))
    for row, number in zip(rows, group.tolist(), strict=True):
        assert rows[int(first[number])] == row
    assert all(row not in rows[: int(at)] for at, row in ((at, rows[int(at)]) for at in first))


def test_many_columns_are_recoded_before_the_key_overflows() -> None:
    dice = np.random.default_rng(3)
    columns = [dice.integers(0, 2000, 500).astype(np.int32) for _ in range(8)]
    first, group = distinct_rows(columns)
    expected = np.unique(np.stack(columns), axis=1).shape[1]
    assert first.shape[0] == expected
    assert (np.stack(columns)[:, first[group]] == np.stack(columns)).all()


def test_distinct_falls_back_to_sorting_for_huge_key_ranges() -> None:
    codes = np.array([5, 10**12, 5], dtype=np.intp)
    unique, position = distinct(codes, 10**13)
    assert unique.tolist() == [5, 10**12]
    assert position.tolist() == [0, 1, 0]


def test_combine_is_mixed_radix() -> None:
    codes, size = combine([np.array([0, 1]), np.array([2, 0])], [2, 3])
    assert codes.tolist() == [2, 3]
    assert size == 6


def test_first_rows() -> None:
    assert first_rows(np.array([1, 0, 1, 0, 2]), 3).tolist() == [1, 0, 4]


@given(st.lists(st.tuples(st.sampled_from([1, 1024, 65_536, 4_194_304]), st.integers(0, 5)), min_size=1, max_size=60))
def test_wide_values_are_numbered_anew(rows: list[tuple[int, int]]) -> None:
    columns = [np.array(column, dtype=np.int32) for column in zip(*rows, strict=True)]
    first, group = distinct_rows(columns)
    assert len(first) == len(set(rows))
    assert [rows[row] for row in first[group].tolist()] == rows
