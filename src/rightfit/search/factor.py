"""Distinct keys of many rows, without sorting: how a million candidates cost a few thousand evaluations.

A candidate's memory does not depend on its price, nor its arithmetic on its network. So each physics function is called on the distinct
combinations of what it reads, found without sorting: combinations are numbered by mixed radix, and a flag array marks those that occur.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

LARGEST_FLAG_TABLE = 16_000_000
RECODE_ABOVE = 4_000_000
FEW_VALUES = 64


def combine(codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> tuple[Index, int]:
    """One integer for each combination of small codes (mixed radix), and the number of possible ones."""
    combined = np.zeros(np.broadcast(*codes).shape, dtype=np.intp)
    size = 1
    for code, radix in zip(codes, sizes, strict=True):
        combined *= radix
        combined += code
        size *= radix
    return combined, size


def distinct(codes: Index, size: int) -> tuple[Index, Index]:
    """The codes that occur, ascending, and for each row the position of its code among them. Linear in rows plus `size`."""
    if size > LARGEST_FLAG_TABLE:
        unique, inverse = np.unique(codes, return_inverse=True)
        return unique.astype(np.intp), inverse.astype(np.intp)
    flags = np.zeros(size, dtype=bool)
    flags[codes] = True
    unique = np.flatnonzero(flags)
    position = np.empty(size, dtype=np.intp)
    position[unique] = np.arange(unique.shape[0])
    return unique, position[codes]


def dense(column: NDArray[np.integer]) -> tuple[NDArray[np.integer], int]:
    """A column with its number of possible values: one with few but large values (powers of two) is numbered anew, so that tables stay
    small."""
    radix = int(column.max(initial=0)) + 1
    if radix <= FEW_VALUES or radix > RECODE_ABOVE:
        return column, radix
    unique, codes = distinct(column.astype(np.intp), radix)
    return codes, max(1, unique.shape[0])


def distinct_rows(columns: Sequence[NDArray[np.integer]]) -> tuple[Index, Index]:
    """For small-integer columns of N rows: one representative row for each distinct combination, and each row's group."""
    codes, size = np.zeros(columns[0].shape[0], dtype=np.intp), 1
    for wide in columns:
        column, radix = dense(wide)
        if size > 1 and size * radix > RECODE_ABOVE:
            unique, codes = distinct(codes, size)
            size = max(1, unique.shape[0])
        codes, size = codes * radix + column, size * radix
    unique, inverse = distinct(codes, size)
    return first_rows(inverse, unique.shape[0]), inverse


def first_rows(group: Index, size: int) -> Index:
    """The first row of each group."""
    first = np.zeros(size, dtype=np.intp)
    first[group[::-1]] = np.arange(group.shape[0])[::-1]
    return first


def ragged_arange(counts: Index) -> tuple[Index, Index]:
    """For groups of `counts` rows: each row's group and its position within the group."""
    group = np.repeat(np.arange(counts.shape[0]), counts)
    ends = np.cumsum(counts)
    return group, np.arange(int(ends[-1]) if ends.shape[0] else 0) - np.repeat(ends - counts, counts)
