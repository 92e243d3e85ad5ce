"""What a listed price means today: laws by kind of seller, the centre of a server type, ages."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rightfit.market import open_catalog
from rightfit.market.expected import BOUNDS, expected, group_of, laws
from rightfit.market.offers import PURCHASES, OfferTable, ages_of_dates, today

SPOT = PURCHASES.index("spot")


@pytest.fixture(scope="module")
def table() -> OfferTable:
    whole = open_catalog().all_offers(has_accelerator=True)
    return whole.take(np.flatnonzero(~whole.is_quarantined & np.isfinite(whole.price_usd_per_h)))


def named(table: OfferTable, server: str) -> np.ndarray:
    """Spot rows of a server."""
    names = np.array(table.servers.instance_type)[table.server_index]
    return np.flatnonzero((names == server) & (table.purchase_index == SPOT))


@pytest.mark.parametrize("group", sorted(laws()))
def test_a_law_starts_today_and_its_interval_holds_its_middle(group: str) -> None:
    law = laws()[group]
    assert law.ages[0] == 0
    assert np.all(np.diff(law.ages) > 0)
    assert np.all((law.columns["trust"] >= 0) & (law.columns["trust"] <= 1))
    assert law.columns["trust"][0] == 1.0
    assert abs(law.columns["drift"][0]) < 0.01
    low80, high80, low95, high95 = (law.columns[name] for name in BOUNDS)
    assert np.all(low95 <= low80)
    assert np.all(low80 <= 0)
    assert np.all(high80 >= 0)
    assert np.all(high95 >= high80)


def test_every_price_of_the_catalog_is_of_a_kind_or_agreed(table: OfferTable) -> None:
    kinds = {
        group_of(table.servers.provider[server], PURCHASES[way])
        for server, way in {*zip(table.server_index.tolist(), table.purchase_index.tolist(), strict=True)}
    }
    assert kinds == set(laws())
    assert group_of("private", "on-demand") == group_of("aws", "owned") == ""


def test_the_least_of_many_regions_is_drawn_towards_the_others(table: OfferTable) -> None:
    """The class of the p5en that one region quotes at a third of the others: of every AWS type with
    four regions or more, the least quote is expected above what it says where it is under half of
    the middle one, and the order of regions stays."""
    found, walked = expected(table, among=table), 0
    for server in {table.servers.instance_type[row] for row in np.unique(table.server_index) if table.servers.provider[row] == "aws"}:
        rows = named(table, server)
        if rows.size < 4:
            continue
        quote, mid = table.price_usd_per_h[rows], found.usd_per_h[rows]
        least = int(np.argmin(quote))
        if quote[least] < 0.5 * np.median(quote):
            walked += 1
            assert mid[least] > 1.2 * quote[least], server
    assert walked > 10
    p5en = named(table, "p5en.48xlarge")
    seoul = [row for row in p5en.tolist() if table.regions[table.region_index[row]] == "ap-northeast-2"]
    assert table.price_usd_per_h[seoul[0]] < 11.0
    assert found.usd_per_h[seoul[0]] > 18.0


def test_no_spot_price_is_expected_over_on_demand_beside_it(table: OfferTable) -> None:
    found = expected(table, among=table)
    whole = {}
    for row in np.flatnonzero(table.purchase_index == PURCHASES.index("on-demand")).tolist():
        key = (int(table.server_index[row]), int(table.region_index[row]))
        whole[key] = min(whole.get(key, np.inf), float(table.price_usd_per_h[row]))
    for row in np.flatnonzero(table.purchase_index == SPOT).tolist():
        most = whole.get((int(table.server_index[row]), int(table.region_index[row])))
        if most is not None:
            limit = max(most, float(table.price_usd_per_h[row])) * (1 + 1e-9)
            assert found.usd_per_h[row] * found.factors[row].max() <= limit


def youngest(table: OfferTable) -> float:
    """Age of the newest price [days]."""
    return float(ages_of_dates(table.as_of_dates, today())[table.as_of_index].min())


def test_a_price_gets_less_sure_with_its_days_counted_from_today(table: OfferTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTFIT_TODAY", "2026-11-09")
    assert youngest(table) == 0.0
    first = expected(table, among=table)
    monkeypatch.setenv("RIGHTFIT_TODAY", "2027-06-01")
    later = expected(table, among=table)
    assert np.all(later.is_old >= first.is_old)
    assert np.all(later.is_beyond >= first.is_beyond)
    assert later.is_beyond.mean() > first.is_beyond.mean()
    lists = np.array([group_of(name, "on-demand") == "gpu-cloud-list" for name in table.servers.provider])[table.server_index]
    young = lists & (table.purchase_index == PURCHASES.index("on-demand")) & ~table.is_estimate & ~first.is_old
    assert np.all(later.usd_per_h[young] >= first.usd_per_h[young])  # lists of GPU clouds rise
    monkeypatch.setenv("RIGHTFIT_TODAY", "2026-01-01")
    assert youngest(table) == 0.0  # a day to come is today


def test_rows_of_one_kind_and_day_are_judged_alike(table: OfferTable) -> None:
    found = expected(table, among=table)
    verdicts: dict[tuple[str, str], set[tuple[bool, bool]]] = {}
    for row in range(len(table)):
        server = int(table.server_index[row])
        group = group_of(table.servers.provider[server], PURCHASES[int(table.purchase_index[row])])
        key = (group, table.as_of_dates[int(table.as_of_index[row])])
        verdicts.setdefault(key, set()).add((bool(found.is_old[row]), bool(found.is_beyond[row])))
    assert {key: seen for key, seen in verdicts.items() if len(seen) > 1} == {}


def test_a_row_without_a_day_is_older_than_any_evidence(table: OfferTable) -> None:
    undated = dataclasses.replace(table, as_of_dates=("",) * len(table.as_of_dates))
    assert expected(undated, among=undated).is_beyond.all()
