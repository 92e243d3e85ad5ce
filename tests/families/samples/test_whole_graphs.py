"""A graph is held whole by each server, unless it is larger than most of them."""

from __future__ import annotations

import pytest

import rightfit
from rightfit import facts

WIDE = {"model": "graphsage", "task": "train", "top": 8}


@pytest.mark.parametrize("objective", ["cost", "time"])
@pytest.mark.parametrize("cloud", ["alicloud", "aws", "gcp"])
def test_each_server_of_several_has_the_memory_for_the_whole_graph(cloud: str, objective: str) -> None:
    found = rightfit.plan(**WIDE, data="ogbn-papers100M", cloud=cloud, objective=objective, max_nodes=4)
    assert found.options
    held = min(one.estimate["host_memory_bytes"].mid for one in found.options)
    alone = rightfit.plan(**WIDE, data="ogbn-papers100M", max_nodes=1).best
    assert alone is not None
    each = facts.coefficients("training")["host_bytes_per_accelerator"]
    assert held >= alone.estimate["host_memory_bytes"].mid - each * max(alone.accelerator.count_per_node, 1)


def test_a_graph_of_terabytes_is_divided() -> None:
    found = rightfit.plan(**WIDE, data="igbh-full").best
    assert found is not None
    assert found.nodes > 1
    assert found.estimate["host_memory_bytes"].mid * found.nodes > facts.coefficients("training")["whole_graph_bytes"]
