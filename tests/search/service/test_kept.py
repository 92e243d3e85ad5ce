"""What is kept between questions about services changes no answer, and its key holds
all that was read."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit.recent import exact_key
from rightfit.search.service import grid, refine
from rightfit.search.service.grid import Kept
from rightfit.search.service.refine import replica_columns

SERVICE: dict[str, Any] = {"model": "meta-llama/Meta-Llama-3-8B", "task": "serve", "rate": "10/s"}
CHANGES: tuple[dict[str, Any], ...] = (
    {"rate": "11/s"},
    {"office_hours": 100},
    {"budget": "4000usd/month"},
    {"cloud": "aws"},
    {"input_tokens": 700},
    {"output_tokens": 100},
    {"input_tokens": "mean=700,cv=0.8"},
    {"quantization": "fp8"},
    {"kv_cache": "fp8"},
    {"framework": "sglang"},
    {"ttft": "200ms"},
    {"latency": "20s", "percentile": 99},
    {"prefix_share": 0.5},
    {"adapters": 8},
    {"speculative": "ngram", "acceptance": 0.4},
    {"tensor_parallel": 2},
    {"slice": "1/2"},
    {"model": "Qwen/Qwen2.5-7B"},
)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known from before."""
    monkeypatch.setattr(grid, "_TIMES", Kept(32_000_000, size_of=lambda _: 1))
    monkeypatch.setattr(refine, "_KNOWN", Kept(4_000_000, size_of=lambda _: 1))


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_an_answer_does_not_depend_on_what_was_asked_before(change: dict[str, Any]) -> None:
    asked = {**SERVICE, **change}
    alone = rightfit.plan(**asked).to_dict()
    grid._TIMES.known.clear()
    refine._KNOWN.known.clear()
    rightfit.plan(**SERVICE)
    assert rightfit.plan(**asked).to_dict() == alone
    assert rightfit.plan(**asked).to_dict() == alone


@pytest.mark.usefixtures("fresh")
def test_times_and_queues_are_not_worked_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rightfit.plan(**SERVICE)
    assert len(grid._TIMES.known) > 0
    assert len(refine._KNOWN.known) > 0
    for module, name in ((grid, "_times"), (refine, "_queue")):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("worked out again"))
    rightfit.plan(**SERVICE, office_hours=200)


def test_each_value_that_is_read_has_a_part_in_the_key() -> None:
    from rightfit.families.serving.explore import explore
    from rightfit.workload import Workload

    found = explore(Workload(**SERVICE), rightfit.planner.plan.default_catalog())
    space = found.space.take(np.arange(3))
    for record in (space.model, space.serve, space.device, space.links, replica_columns(space)):
        seen = {exact_key(record)}
        for field in dataclasses.fields(record):
            array = getattr(record, field.name)
            other = array.copy()
            other.flat[-1] += 1.0
            seen |= {
                exact_key(dataclasses.replace(record, **{field.name: other})),
                exact_key(dataclasses.replace(record, **{field.name: array[:, None]})),
            }
        assert len(seen) == 1 + 2 * len(dataclasses.fields(record))
    assert exact_key(space.extras) != exact_key(dataclasses.replace(space.extras, adapters=1.0))
    assert exact_key(np.ones(2), np.ones(1)) != exact_key(np.ones(1), np.ones(2))
