"""Requests to classical models: seconds of a core, waiting requests, memory of workers."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics.classical import pass_s, request_core_s, worker_bytes


def test_a_request_is_the_sum_of_its_parts_over_the_speed_of_the_core() -> None:
    found = request_core_s(
        web_s=np.array([400e-6]),
        cell_s=np.array([1e-6]),
        cols=np.array([30.0]),
        call_s=np.array([100e-6]),
        tree_s=np.array([20e-6]),
        trees=np.array([100.0]),
        operations=np.array([600.0]),
        operation_s=np.array([50e-9]),
        stream_bytes=np.array([0.0]),
        core_bandwidth=np.array([1e10]),
        speed=np.array([1.0, 2.0]),
    )
    whole = 400e-6 + 30e-6 + 100e-6 + 2000e-6 + 30e-6
    assert found == pytest.approx([whole, whole / 2.0])


def test_a_model_that_is_read_whole_takes_the_time_of_the_memory_at_least() -> None:
    nothing = np.zeros(1)
    found = request_core_s(
        web_s=nothing,
        cell_s=nothing,
        cols=nothing,
        call_s=nothing,
        tree_s=nothing,
        trees=nothing,
        operations=np.array([30e6]),
        operation_s=np.array([0.1e-9]),
        stream_bytes=np.array([240e6, 1e6]),
        core_bandwidth=np.array([12e9]),
        speed=np.array([1.0]),
    )
    assert found == pytest.approx([0.02, 0.003])


def test_workers_share_what_waits_and_one_request_is_never_split() -> None:
    seconds = pass_s(np.array([[0.01], [0.02]]), waiting=np.array([[1.0, 4.0, 8.0]]), workers=np.array([[4.0], [2.0]]))
    assert seconds == pytest.approx(np.array([[0.01, 0.01, 0.02], [0.02, 0.04, 0.08]]))


def test_every_worker_has_its_own_copy() -> None:
    assert worker_bytes(runtime_bytes=np.array([200.0]), model_bytes=np.array([50.0]), workers=np.array([1.0, 8.0])) == pytest.approx(
        [250.0, 2000.0]
    )
