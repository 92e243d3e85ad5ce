"""The points of a chart of cost against time: every feasible offer at its best,
told again row by row."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.market import Catalog
from rightfit.planner.plan import Field, market_field, plan, search
from rightfit.workload import Workload

LORA = Workload(model="Llama-3-8B", task="finetune", method="lora", data="50k samples", cloud="aws", budget="200usd")
KINDS = {
    "finetune": LORA,
    "serve": Workload(model="Qwen2.5-7B", task="serve", users=50, cloud="aws"),
    "batch": Workload(model="Qwen2.5-7B", task="batch", data="100k samples", deadline="1day"),
    "classical": Workload(model="xgboost", task="train", data="10Mrows x 100cols"),
    "prepare": Workload(task="prepare", operation="tokenize", data="100GB", deadline="1h"),
    "embed": Workload(model="bge-large-en", task="prepare", operation="embed", data="10GB"),
}


@pytest.fixture(scope="module", params=list(KINDS))
def named_field(request: pytest.FixtureRequest, catalog: Catalog) -> tuple[str, Field]:
    return request.param, market_field(KINDS[request.param], catalog=catalog)


def test_every_point_is_whole_and_priced(named_field: tuple[str, Field]) -> None:
    name, field = named_field
    assert 0 < len(field) <= 4000
    assert field.num_feasible >= len(field)
    for column in (field.nodes, field.hourly_usd, field.total_usd, field.total_s):
        assert column.shape == (len(field),)
        assert np.isfinite(column).all()
        assert (column > 0).all()
    assert (field.nodes == np.round(field.nodes)).all()
    if name == "finetune":
        assert set(field.provider) == {"aws"}
        assert field.total_usd.max() <= 200.0


def test_no_point_beats_the_front_and_the_front_is_marked_fully(named_field: tuple[str, Field]) -> None:
    _, field = named_field
    points = list(zip(field.total_usd.tolist(), field.total_s.tolist(), strict=True))
    for position in np.flatnonzero(field.is_front).tolist():
        usd, seconds = points[position]
        assert not any((a <= usd and b < seconds) or (a < usd and b <= seconds) for a, b in points)
    front = {points[position] for position in np.flatnonzero(field.is_front).tolist()}
    for usd, seconds in points:
        assert any(a <= usd and b <= seconds for a, b in front)


def test_the_cheapest_point_is_the_plan_s_best(catalog: Catalog) -> None:
    field, best = market_field(LORA, catalog=catalog), plan(LORA, catalog=catalog, top=3).best
    assert best is not None
    # Estimated prices count as more in the ranking than in the bill, so the plan's best may stand a
    # little above the cheapest point.
    same = [
        row
        for row in range(len(field))
        if (field.instance_type[row], field.region[row], field.purchase[row]) == (best.instance_type, best.region, best.purchase)
    ]
    assert any(field.total_usd[row] == pytest.approx(best.cost.total_usd, rel=1e-9) for row in same)


def test_every_feasible_offer_has_a_point(catalog: Catalog) -> None:
    found = search(LORA, catalog=catalog)
    offers = np.flatnonzero((found.bits == 0).any(axis=1))
    field = market_field(LORA, catalog=catalog)
    known = {
        (found.market.offers.row(at)["instance_type"], found.market.offers.row(at)["region"], found.market.offers.row(at)["purchase"])
        for at in offers.tolist()
    }
    assert set(zip(field.instance_type, field.region, field.purchase, strict=True)) == known
    assert len(field) >= offers.shape[0]
    at = int(offers[0])
    row = found.market.offers.row(at)
    usd = found.bill.total_usd[at][found.bits[at] == 0].min()
    mine = [
        n
        for n in range(len(field))
        if (field.instance_type[n], field.region[n], field.purchase[n]) == (row["instance_type"], row["region"], row["purchase"])
    ]
    assert field.total_usd[mine].min() == pytest.approx(usd)


def test_where_points_are_left_out_each_server_keeps_its_cheapest_place(catalog: Catalog) -> None:
    whole, some = market_field(LORA, catalog=catalog), market_field(LORA, catalog=catalog, most=300)
    assert len(some) == 300
    assert some.num_feasible == whole.num_feasible
    cheapest: dict[tuple[str, str], float] = {}
    for name, purchase, usd in zip(whole.instance_type, whole.purchase, whole.total_usd.tolist(), strict=True):
        cheapest[name, purchase] = min(usd, cheapest.get((name, purchase), np.inf))
    kept = set(zip(some.instance_type, some.purchase, strict=True))
    assert kept == set(cheapest)
    assert some.is_front.sum() == whole.is_front.sum()


def test_nothing_feasible_gives_no_points(catalog: Catalog) -> None:
    field = market_field(
        Workload(model="Llama-3-70B", task="finetune", method="full", data="50k samples", gpu="T4", max_nodes=1), catalog=catalog
    )
    assert len(field) == 0
    assert field.num_feasible == 0
