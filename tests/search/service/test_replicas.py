"""The grid of the search against the queue model, on step times of the same physics."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.families.serving.explore import explore
from rightfit.market import open_catalog
from rightfit.physics.queueing import LoadColumns
from rightfit.physics.waiting import latency
from rightfit.search.service.found import ServingResult
from rightfit.search.service.grid import at_load, token_grid
from rightfit.search.service.refine import replica_columns
from rightfit.workload import Workload


@pytest.fixture(scope="module")
def found() -> ServingResult:
    wish = Workload(model="meta-llama/Meta-Llama-3-8B", task="serve", rate="10/s", input_tokens=1024, output_tokens=256)
    return explore(wish, open_catalog())


def _candidate(found: ServingResult, card: str) -> int:
    names = [found.fleet.accelerators[machine].name for machine in found.space.machine]
    return next(row for row, name in enumerate(names) if name == card and found.space.tensor[row] == 1)


@pytest.mark.parametrize("card", ["H100-SXM-80GB", "A100-SXM-80GB", "A10G"])
def test_capacity_and_first_token_agree_with_the_queue_model(found: ServingResult, card: str) -> None:
    row = _candidate(found, card)
    index = np.array([row])
    rate = found.capacity.saturation_per_s[index] * 0.5
    model = latency(replica_columns(found.space.take(index)), LoadColumns.of(rate, input_tokens=1024, output_tokens=256))
    assert found.capacity.saturation_per_s[row] == pytest.approx(model.steady.capacity_per_s[0], rel=0.15)
    assert found.times is not None
    for share, percentile in enumerate((0.5, 0.95, 0.99)):
        grid = token_grid(found.times.take(index), found.wish, percentile=percentile)
        ours = at_load(grid, grid.ttft_s, rate_per_s=rate)[0]
        assert ours == pytest.approx(model.ttft_s[0, share], rel=0.25 if percentile < 0.99 else 0.4)  # the quick law only prunes


def test_step_times_rise_with_tokens(found: ServingResult) -> None:
    replicas = replica_columns(found.space.take(np.array([_candidate(found, "H100-SXM-80GB")])))
    assert np.all(np.diff(replicas.table_s[0]) >= 0)
    # 16 GB of weights through 3.35 TB/s is 4.8 ms at best.
    assert 4.8e-3 < replicas.table_s[0, 0] < 10e-3
    assert replicas.cache_tokens[0] == pytest.approx(53e9 * 1.07 / 131072, rel=0.1)
