"""Memory and time of LoRA adapters that are served together."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import facts
from rightfit.estimation.convert import model_columns
from rightfit.physics import serving_columns

LLAMA = model_columns([facts.model("meta-llama/Meta-Llama-3-8B")])


def test_bytes_of_an_adapter_by_hand() -> None:
    attention = (4096 + 4096) * 2 + 2 * (4096 + 1024)
    feed = 3 * (4096 + 14336)
    assert serving_columns.adapter_bytes(LLAMA, rank=np.array([16.0]))[0] == pytest.approx(2 * 16 * 32 * (attention + feed))


def test_touched_adapters_are_those_of_random_draws() -> None:
    random = np.random.default_rng(3)
    drawn = np.mean([np.unique(random.integers(0, 20, 12)).size for _ in range(20_000)])
    assert serving_columns.adapters_touched(np.array([20.0]), batch=np.array([12.0]))[0] == pytest.approx(drawn, rel=0.01)
    assert serving_columns.adapters_touched(np.array([1.0]), batch=np.array([50.0]))[0] == pytest.approx(1.0)
    assert serving_columns.adapters_touched(np.array([0.0]), batch=np.array([50.0]))[0] == 0.0


def step(count: float, rank: float, batch: float) -> float:
    values = {"adapters": count, "rank": rank, "batch": batch, "kernel_s": 8.9e-6, "bandwidth": 8e11, "devices": 1.0}
    return float(serving_columns.adapter_step_s(LLAMA, **{name: np.array([value]) for name, value in values.items()})[0])


def test_few_small_adapters_cost_their_launches_and_many_large_ones_their_reading() -> None:
    assert step(4, 8, 4) == pytest.approx(32 * 7 * 8.9e-6)
    read = (
        serving_columns.adapters_touched(np.array([500.0]), batch=np.array([200.0]))
        * serving_columns.adapter_bytes(LLAMA, rank=np.array([64.0]))
        / 8e11
    )
    assert step(500, 64, 200) == pytest.approx(read[0])
    assert step(0, 16, 8) == 0.0
