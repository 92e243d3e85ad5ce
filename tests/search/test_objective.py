"""Scores and the Pareto front."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rightfit.search.rank import pareto_front, scores, time_classes


def test_scores_by_hand() -> None:
    usd, seconds = np.array([10.0, 12.0, 25.0]), np.array([36000.0, 5400.0, 1440.0])
    assert int(np.argmin(scores("cost", total_usd=usd, total_s=seconds))) == 0
    assert int(np.argmin(scores("time", total_usd=usd, total_s=seconds))) == 2
    assert int(np.argmin(scores("balanced", total_usd=usd, total_s=seconds))) == 1


def test_front_by_hand() -> None:
    usd = np.array([1.0, 1.0, 2.0, 3.0, 3.0, 4.0])
    seconds = np.array([9.0, 8.0, 8.0, 7.0, 6.0, 6.0])
    assert pareto_front(usd, seconds).tolist() == [1, 4]


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=40))
def test_front_is_exact(points: list[tuple[int, int]]) -> None:
    usd, seconds = (np.array(values, dtype=float) for values in zip(*points, strict=True))
    front = [(usd[row], seconds[row]) for row in pareto_front(usd, seconds)]
    expected = {(a, b) for a, b in points if not any((c <= a and d <= b) and (c, d) != (a, b) for c, d in points)}
    assert set(front) == expected
    assert len(front) == len(set(front))
    assert front == sorted(front)


def test_rows_that_cannot_run_are_not_on_the_front() -> None:
    assert pareto_front(np.array([np.inf, 5.0]), np.array([np.inf, 2.0])).tolist() == [1]


def test_equally_fast_rows_are_one_class() -> None:
    assert time_classes(np.array([100.9, 100.0, 101.0, 102.0, 103.1, 50.0])).tolist() == [1, 1, 1, 2, 3, 0]
    assert time_classes(np.zeros(0)).tolist() == []


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=60))
def test_classes_of_time_keep_the_order(times: list[float]) -> None:
    seconds = np.array(times)
    classes = time_classes(seconds)
    order = np.argsort(seconds)
    assert (np.diff(classes[order]) >= 0).all()
    for number in set(classes.tolist()):
        members = seconds[classes == number]
        assert members.max() <= members.min() * 1.01
