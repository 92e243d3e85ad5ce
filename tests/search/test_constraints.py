"""Failing criteria as bits, the first of them, and which sets of criteria exclude everything."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.errors import UnknownNameError
from rightfit.search.constraints import Failures, accelerators_of, first_failure, minimal_blame
from rightfit.search.criteria import CRITERIA

GPU, DEADLINE, BUDGET, MEMORY = (1 << CRITERIA.index(name) for name in ("gpu", "deadline", "budget", "gpu_memory"))


def test_bits_and_first_failure() -> None:
    fails = {"gpu": np.array([[True], [False]]), "budget": np.array([[True, False], [False, True]])}
    bits = Failures(fails, {}, {}, (2, 2)).bits()
    assert bits.tolist() == [[GPU | BUDGET, GPU], [0, BUDGET]]
    names = [(*CRITERIA, "none")[position] for position in first_failure(bits).ravel()]
    assert names == ["gpu", "gpu", "none", "budget"]


def test_margin_is_relative_and_knows_the_direction() -> None:
    needed = {"deadline": np.array([[3600.0]]), "gpu_memory": np.array([[96e9]])}
    had = {"deadline": np.array([[4680.0]]), "gpu_memory": np.array([[80e9]])}
    failures = Failures({}, needed, had, (1, 1))
    assert failures.margin("deadline")[0, 0] == pytest.approx(0.3)
    assert failures.margin("gpu_memory")[0, 0] == pytest.approx(0.2)
    assert failures.margin("cloud")[0, 0] == 0.0


@pytest.mark.parametrize(
    ("rows", "blame"),
    [
        ([0, BUDGET], ()),
        ([BUDGET, BUDGET | DEADLINE], (("budget",),)),
        ([BUDGET, DEADLINE], (("deadline", "budget"),)),
        ([BUDGET | GPU, DEADLINE | GPU], (("gpu",),)),
        ([BUDGET | GPU, DEADLINE, MEMORY], (("gpu", "deadline"), ("deadline", "budget"))),
        ([MEMORY, MEMORY | BUDGET], (("gpu_memory",),)),
    ],
)
def test_the_smallest_sets_that_exclude_everything(rows: list[int], blame: tuple[tuple[str, ...], ...]) -> None:
    assert minimal_blame(np.array(rows, dtype=np.int32)) == blame


def test_loose_gpu_names() -> None:
    assert set(accelerators_of("A100")) == {"A100-SXM-40GB", "A100-SXM-80GB", "A100-PCIe-40GB", "A100-PCIe-80GB"}
    with pytest.raises(UnknownNameError, match="did you mean"):
        accelerators_of("H1000")
