"""Plans as data frames of the real pandas and polars."""

from __future__ import annotations

import pytest

import rightfit
from rightfit.search.answer import Plan

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")


@pytest.fixture(scope="module", params=["training", "service", "host"])
def plan(request: pytest.FixtureRequest) -> Plan:
    """One plan of each kind."""
    if request.param == "training":
        return rightfit.plan("meta-llama/Meta-Llama-3-8B", method="qlora", data="50Mtok")
    if request.param == "service":
        return rightfit.plan("meta-llama/Meta-Llama-3-8B", task="serve", rate="5/s")
    return rightfit.plan("xgboost", data="10GB")


def test_one_row_an_option_in_base_units(plan: Plan) -> None:
    frame = plan.to_dataframe(backend="pandas")
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["rank"]) == [option.rank for option in plan.options]
    assert list(frame["instance_type"]) == [option.instance_type for option in plan.options]
    assert list(frame["hourly_usd"]) == [option.cost.hourly_usd for option in plan.options]
    assert list(frame["peak_memory_bytes"]) == [option.estimate["peak_memory_bytes"].mid for option in plan.options]
    assert (frame["peak_memory_bytes_low80"] <= frame["peak_memory_bytes"]).all()


def test_both_libraries_hold_the_same(plan: Plan) -> None:
    first, second = plan.to_dataframe(backend="pandas"), plan.to_dataframe(backend="polars")
    assert isinstance(second, polars.DataFrame)
    assert second.columns == list(first.columns)
    assert second.height == len(first)
    for name in first.columns:
        mine, theirs = first[name].tolist(), second[name].to_list()
        for one, other in zip(mine, theirs, strict=True):
            assert other == one or (other is None and (one is None or one != one)) or (one != one and other != other), name


def test_the_front_and_the_usual_library(plan: Plan) -> None:
    front = plan.to_dataframe(pareto=True)
    assert isinstance(front, pandas.DataFrame)
    assert len(front) == len(plan.pareto)
    assert {"provider", "instance_type", "hourly_usd", "total_time_s", "accelerator"} <= set(front.columns)
    assert front["accelerator"].tolist() == [option.accelerator.name for option in plan.pareto]


def test_an_empty_plan_is_an_empty_frame() -> None:
    nothing = rightfit.plan("meta-llama/Meta-Llama-3-70B", method="full", deadline="1h", budget="1usd")
    for backend in ("pandas", "polars"):
        assert len(nothing.to_dataframe(backend=backend)) == 0
