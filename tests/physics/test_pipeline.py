"""Pipeline bubbles by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import collectives


def parts(
    *, body: float = 8.0, head: float = 0.0, stages: float = 4, micro: float = 8, chunks: float = 1, layers: float = 32
) -> tuple[float, float]:
    busy, idle = collectives.step_parts(
        body_s=np.array([body]),
        head_s=np.array([head]),
        stages=np.array([stages]),
        micro_batches=np.array([micro]),
        chunks=np.array([chunks]),
        layers=np.array([layers]),
    )
    return float(busy[0]), float(idle[0])


def test_bubble_of_one_forward_one_backward() -> None:
    """(p - 1) / m of the ideal time (Narayanan et al. 2021)."""
    busy, idle = parts()
    assert busy == 16
    assert idle / busy == pytest.approx(3 / 8)


def test_interleaving_divides_the_bubble() -> None:
    assert parts(chunks=4)[1] == pytest.approx(parts()[1] / 4)


def test_one_stage_never_waits() -> None:
    assert parts(stages=1, head=3.0) == (8 * 11.0, 0.0)


def test_uneven_layers_wait_for_the_slowest_stage() -> None:
    """30 layers on 4 stages: one stage has 8 layers, the mean is 7.5."""
    assert parts(layers=30)[1] > parts(layers=32)[1]


def test_a_remainder_makes_room_for_the_head() -> None:
    """31 layers on 4 stages leave 7 for the last one: a head as long as one layer costs no waiting
    beyond the bubble."""
    busy, idle = parts(body=31.0, layers=31, head=1.0)
    assert busy == pytest.approx(8 * 8.0)
    assert idle == pytest.approx(3 * 8.0)


def test_head_makes_the_last_stage_slow() -> None:
    busy, idle = parts(head=1.0)
    assert busy == pytest.approx(8 * 9 / 4)
    assert idle == pytest.approx(8 * 3.0 - 18 + 3 * 9 / 4)
