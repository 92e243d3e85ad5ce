"""Which cases of a walk the quick suite runs."""

from __future__ import annotations


def is_quick(at: int, length: int, count: int) -> bool:
    """Whether case `at` of a walk of so many cases is among the `count` that are quick,
    spread evenly over it."""
    return (at + 1) * count // length > at * count // length if count < length else True
