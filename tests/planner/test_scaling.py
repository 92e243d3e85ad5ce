"""One server type at growing numbers of servers."""

from __future__ import annotations

import itertools

import pytest

import rightfit
from rightfit.explain.listings import scale_line, scale_table
from rightfit.market import open_catalog
from rightfit.planner.given import COUNTS, scaling


def test_a_point_is_what_that_many_servers_are_estimated_at() -> None:
    catalog = open_catalog()
    work = rightfit.Workload(model="Llama-3-8B", task="finetune", method="lora", data="50Mtok")
    points = scaling(work, on="aws/g6e.12xlarge", catalog=catalog)
    assert [point.nodes for point in points] == list(COUNTS)
    four = rightfit.estimate(work, on="aws/g6e.12xlarge", nodes=4, catalog=catalog).best
    assert four is not None
    (point,) = [point for point in points if point.nodes == 4]
    assert point.time_s.mid == pytest.approx(four.estimate["total_time_s"].mid)
    assert point.usd.mid == pytest.approx(four.cost.total_usd)
    assert point.gain == pytest.approx(points[0].time_s.mid / point.time_s.mid)
    assert point.share == pytest.approx(point.gain / 4)
    assert all(earlier.time_s.mid > later.time_s.mid for earlier, later in itertools.pairwise(points))
    assert all(point.share <= 1.001 for point in points)
    lines = scale_table(points, "en", currency="usd").records
    assert [line["scale_nodes"] for line in lines] == list(COUNTS)
    assert lines[0]["of_ideal"] == "100%"
    good = [point for point in points if point.share >= 0.7][-1]
    assert f"pays off up to {good.nodes}:" in scale_line(points, "en")


def test_a_service_carries_more_requests() -> None:
    points = scaling(rightfit.Workload(model="Qwen2.5-7B", task="serve", users=200), on="aws/g6e.xlarge", catalog=open_catalog())
    assert points[-1].requests_per_s is not None
    assert points[-1].gain == pytest.approx(16, rel=0.05)
    assert "16 倍" in scale_line(points, "zh")
    assert {"requests", "capacity"} <= {column.key for column in scale_table(points, "zh", currency="cny").columns}


def test_work_of_one_machine_stays_on_one() -> None:
    work = rightfit.Workload(model="xgboost", task="train", data="10Mrows", columns=100)
    points = scaling(work, on="aws/m7i.4xlarge", catalog=open_catalog())
    assert [point.nodes for point in points] == [1]
    assert scale_line(points, "en") == "It runs on 1 only; adding servers does not help."
    assert scale_line((), "zh").startswith("任何数量")


def test_what_is_too_large_for_one_begins_where_it_fits() -> None:
    work = rightfit.Workload(model="meta-llama/Llama-3.3-70B-Instruct", task="finetune", method="full", data="10Mtok", offload="none")
    points = scaling(work, on="aws/p4d.24xlarge", catalog=open_catalog())
    assert points[0].nodes > 1
    assert points[0].share == pytest.approx(1.0)
