"""Evaluate a function once for each distinct key and gather: how a million candidates cost a few thousand evaluations.

A candidate's memory does not depend on its price, nor its arithmetic on its network. So each physics function is called on the distinct
combinations of what it reads, found without sorting: combinations are numbered by mixed radix, and a flag array marks those that occur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]

LARGEST_FLAG_TABLE = 64_000_000


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


def distinct_rows(columns: Sequence[NDArray[np.integer]]) -> tuple[Index, Index]:
    """For small-integer columns of N rows: one representative row for each distinct combination, and each row's group."""
    dense = [distinct(column.astype(np.intp), int(column.max(initial=0)) + 1) for column in columns]
    codes, size = combine([inverse for _, inverse in dense], [max(1, unique.shape[0]) for unique, _ in dense])
    unique, inverse = distinct(codes, size)
    first = np.empty(unique.shape[0], dtype=np.intp)
    first[inverse[::-1]] = np.arange(codes.shape[0])[::-1]
    return first, inverse


def factored(function: Callable[[Index], Mapping[str, Array]], columns: Sequence[NDArray[np.integer]]) -> dict[str, Array]:
    """`function` of every row, evaluated once for each distinct combination of `columns`.

    `function` gets the row numbers of the representatives and returns arrays of that length (or of length one); the result has one
    value for each row. The caller promises that `function` reads nothing but `columns`.
    """
    first, inverse = distinct_rows(columns)
    values = function(first)
    return {name: value if value.shape[0] == 1 else value[inverse] for name, value in values.items()}


def group_minimum(values: Array, starts: Index) -> tuple[Array, Index]:
    """Smallest value of each group of consecutive rows, and the first row that has it. `starts`: first row of each group."""
    minimum = np.minimum.reduceat(values, starts)
    lengths = np.diff(np.append(starts, values.shape[0]))
    group = np.repeat(np.arange(starts.shape[0]), lengths)
    hits = np.flatnonzero(values == minimum[group])
    row = np.empty(starts.shape[0], dtype=np.intp)
    row[group[hits[::-1]]] = hits[::-1]
    return minimum, row


def ragged_arange(counts: Index) -> tuple[Index, Index]:
    """For groups of `counts` rows: each row's group and its position within the group."""
    group = np.repeat(np.arange(counts.shape[0]), counts)
    ends = np.cumsum(counts)
    return group, np.arange(int(ends[-1]) if ends.shape[0] else 0) - np.repeat(ends - counts, counts)
