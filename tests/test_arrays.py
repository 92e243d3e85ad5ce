"""Operations on arrays give what numpy's own give, bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rightfit.arrays import distinct_values, median

SHAPES = arrays.array_shapes(max_dims=2, max_side=12)


@given(arrays.arrays(st.sampled_from([np.int64, np.float64]), SHAPES, elements=st.integers(-5, 5)))
def test_distinct_values_are_those_of_numpy(values: np.ndarray) -> None:
    assert distinct_values(values).tolist() == np.unique(values).tolist()


@given(arrays.arrays(np.float64, SHAPES, elements=st.floats(-1e300, 1e300)))
def test_the_median_is_that_of_numpy(values: np.ndarray) -> None:
    assert median(values) == np.median(values)


def test_nothing_has_no_distinct_values() -> None:
    assert distinct_values(np.zeros(0)).tolist() == []
