"""One server under two names of a seller: the newer price holds, the older one is found and never
recommended; sizes of their own stay.

tests/data/stale_twins.csv holds what a review of the market of 2026-11-26 said of 83 old prices: it
compared the catalog of that day with price pages and lists read since (each correction names its
own in catalog/data/amendments). `superseded`: a former name. `corrected`: read anew. `unknown`:
nobody states it any more. `kept`: a size of its own, or a price that nothing newer speaks against;
`why` says so.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rightfit.cli import main
from rightfit.market import Catalog, OfferFilter, build, integrity, tables
from rightfit.market.check import check
from rightfit.market.integrity import CheckedMarket
from rightfit.market.offers import PRICE_KINDS, PURCHASE_CODES
from rightfit.market.packed_tables import rules

RULE = rules()["checks"]["check_price_superseded"]
TABLE = Path(__file__).parents[1] / "data/stale_twins.csv"
EVERYTHING = OfferFilter(has_accelerator=None, include_slices=True, include_not_recommended=True, include_quarantined=True)
CRUSOE = ("a100-80gb.1x", "a100-80gb.2x", "a100-80gb.4x", "a100-80gb.8x", "l40s-48gb.1x", "l40s-48gb.2x")


def reviewed(verdict: str) -> list[dict[str, str]]:
    with TABLE.open(newline="", encoding="utf-8") as stream:
        return [row for row in csv.DictReader(stream) if row["verdict"] == verdict]


def listed(catalog: Catalog, row: dict[str, str]) -> dict[str, Any] | None:
    """The price of the catalog that a reviewed row speaks of."""
    offers = catalog.offers_of(catalog.server_rows[row["provider"], row["instance_type"]])
    found = [offers.row(at) for at in range(len(offers))]
    return next((one for one in found if (one["region"], one["purchase"]) == (row["region"], row["purchase"])), None)


# ---- what the review said ------------------------------------------------------------------------


def test_former_names_are_superseded(catalog: Catalog) -> None:
    rows = reviewed("superseded")
    assert len(rows) == 8
    for row in rows:
        found = listed(catalog, row)
        assert found is not None
        assert found["is_quarantined"]
        assert found["superseded_by"] == row["newer_instance_type"]
        newer = listed(catalog, {**row, "instance_type": row["newer_instance_type"], "region": "any"})
        assert newer is not None
        assert not newer["is_quarantined"]


def test_prices_that_were_read_anew_are_those_of_that_day_or_later(catalog: Catalog) -> None:
    rows = reviewed("corrected")
    assert len(rows) == 55
    for row in rows:
        found = listed(catalog, row)
        assert found is not None
        assert not found["is_quarantined"], row
        assert found["as_of"] >= row["newer_as_of"], row
        if found["as_of"] == row["newer_as_of"]:
            assert found["price_usd_per_h"] == pytest.approx(float(row["newer_usd_hour"])), row


def test_a_price_that_nobody_states_any_more_is_gone(catalog: Catalog) -> None:
    [row] = reviewed("unknown")
    assert listed(catalog, row) is None
    assert catalog.servers().not_recommended[catalog.server_rows[row["provider"], row["instance_type"]]] == "no price"


def test_sizes_of_their_own_stay(catalog: Catalog) -> None:
    rows = reviewed("kept")
    assert len(rows) == 19
    assert all(row["why"] for row in rows)
    for row in rows:
        found = listed(catalog, row)
        assert found is not None
        assert not found["is_quarantined"], row
        assert catalog.servers().not_recommended[catalog.server_rows[row["provider"], row["instance_type"]]] == "", row


# ---- the whole catalog ---------------------------------------------------------------------------


def old_pairs(catalog: Catalog) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of prices that may be recommended of one seller, card, count and way to pay under two
    names, of which one has no host, in one place, and over the limit apart: as the rule has it,
    told by hand."""
    offers = catalog.offers()
    servers, groups = offers.servers, {}
    hostless = np.isnan(servers.vcpus) & np.isnan(servers.memory_bytes)
    for at, server in enumerate(offers.server_index.tolist()):
        key = (servers.provider[server], servers.accelerator_name[server], float(servers.num_accelerators[server]))
        groups.setdefault((*key, int(offers.purchase_index[at])), []).append(at)
    days = np.array([np.datetime64(text or "NaT") for text in offers.as_of_dates])[offers.as_of_index]
    for rows in groups.values():
        if not hostless[offers.server_index[rows]].any():
            continue
        for one, other in itertools.combinations(rows, 2):
            pair = offers.server_index[[one, other]]
            regions = {offers.regions[offers.region_index[at]] for at in (one, other)}
            apart = abs((days[one] - days[other]) / np.timedelta64(1, "D"))
            if (
                pair[0] != pair[1]
                and hostless[pair].any()
                and (len(regions) == 1 or regions & {"any", "global"})
                and apart > RULE["apart_days"]
            ):
                yield offers.row(one), offers.row(other)


def test_no_two_recommended_prices_are_an_old_and_a_new_one_of_the_same_cards(catalog: Catalog) -> None:
    assert not [pair for pair in old_pairs(catalog) if not any(one["is_estimate"] for one in pair)]


def test_only_former_names_of_crusoe_are_superseded_today(catalog: Catalog) -> None:
    offers = catalog.offers(EVERYTHING)
    rows = [one for one in map(offers.row, np.flatnonzero(offers.is_quarantined).tolist()) if one["superseded_by"]]
    assert {(one["provider"], one["instance_type"]) for one in rows} == {("crusoe", name) for name in CRUSOE}
    assert len(rows) == 8


def test_the_checks_say_the_same_of_the_store_as_at_its_build(catalog: Catalog) -> None:
    found = [one for one in catalog.verify() if one.check == "check_price_superseded"]
    assert {one.instance_type for one in found} == set(CRUSOE)
    one = next(one for one in found if one.instance_type == "l40s-48gb.1x")
    assert one.had == "1 USD/h of 2025-01-01"
    assert one.limit == "1x_L40S at 1.5 USD/h of 2026-10-10"


# ---- the rule ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def market() -> CheckedMarket:
    regions = tables.region_table(tables.load_packed("regions"))
    servers = tables.server_table(tables.load_packed("servers"), rule=rules())
    prices = tables.price_columns(tables.load_packed("prices"), servers=servers, regions=regions, rule=rules())
    return CheckedMarket(servers, prices, regions, build.accelerator_memory())


def rows_of(market: CheckedMarket, provider: str, name: str, purchase: str = "on-demand") -> list[int]:
    server = next(
        at for at, key in enumerate(zip(market.servers.provider, market.servers.instance_type, strict=True)) if key == (provider, name)
    )
    keep = (market.prices.server_index == server) & (market.prices.purchase_index == PURCHASE_CODES[purchase])
    return np.flatnonzero(keep).tolist()  # type: ignore[no-any-return]


def dated(market: CheckedMarket, rows: list[int], date: str) -> CheckedMarket:
    """The market with prices of another day."""
    dates = (*market.prices.as_of_dates, date)
    index = market.prices.as_of_index.copy()
    index[rows] = len(dates) - 1
    return dataclasses.replace(market, prices=dataclasses.replace(market.prices, as_of_dates=dates, as_of_index=index))


def with_prices(market: CheckedMarket, **columns: Any) -> CheckedMarket:
    return dataclasses.replace(market, prices=dataclasses.replace(market.prices, **columns))


def superseded(market: CheckedMarket) -> set[int]:
    sound = np.ones(len(market.prices), dtype=np.bool_)
    return set(tables.superseded(market.servers, market.prices, market.regions, sound=sound, rule=RULE))


@pytest.mark.parametrize(
    ("provider", "names"),
    [
        ("aws", ("g5.xlarge", "g5.2xlarge", "g5.4xlarge", "g5.8xlarge", "g5.16xlarge")),  # one card, hosts of 4 to 64 cores
        ("aws", ("p4d.24xlarge", "p4de.24xlarge")),  # the same host, other cards
        ("gcp", ("n1-standard-4-t4", "n1-standard-8-t4")),
        ("azure", ("Standard_ND96is_flex_H100_v5", "Standard_ND96is_noIB_H100_v5", "Standard_ND96isr_H100_v5")),
        ("ovh", ("t2-45", "t2-le-45")),  # the same cores, memory and card at 2.4 times the price
        ("nebius", ("gpu-l40s-a_1gpu-16vcpu-64gb", "gpu-l40s-d_1gpu-16vcpu-96gb")),
    ],
)
def test_sizes_that_state_their_host_are_never_one_server(market: CheckedMarket, provider: str, names: tuple[str, ...]) -> None:
    known = set(zip(market.servers.provider, market.servers.instance_type, strict=True))
    names = tuple(name for name in names if (provider, name) in known)
    for old in names:
        assert not superseded(dated(market, rows_of(market, provider, old), "2019-01-01")) & {
            row for name in names for row in rows_of(market, provider, name)
        }


def test_the_newer_price_wins_whichever_of_the_names_has_it(market: CheckedMarket) -> None:
    stated, plain = rows_of(market, "crusoe", "l40s-48gb.1x"), rows_of(market, "crusoe", "1x_L40S")
    assert superseded(market) >= set(stated)
    assert not superseded(market) & set(plain)
    turned = superseded(dated(market, stated, "2027-01-01"))
    assert turned >= set(plain)
    assert not turned & set(stated)


@pytest.mark.parametrize(("date", "is_old"), [("2026-08-12", False), ("2026-08-11", False), ("2026-08-10", True), ("", False)])
def test_prices_of_about_the_same_time_stand_beside_each_other(market: CheckedMarket, date: str, is_old: bool) -> None:
    """The newer one is of 2026-10-10, 60 days after 2026-08-11; without a date nothing is known."""
    rows = rows_of(market, "crusoe", "l40s-48gb.1x")
    assert bool(superseded(dated(market, rows, date)) & set(rows)) is is_old


def test_another_way_to_pay_or_place_says_nothing(market: CheckedMarket) -> None:
    old, [new] = rows_of(market, "crusoe", "l40s-48gb.1x"), rows_of(market, "crusoe", "1x_L40S")
    purchase, region = market.prices.purchase_index.copy(), market.prices.region_index.copy()
    purchase[new] = PURCHASE_CODES["spot"]
    assert not superseded(with_prices(market, purchase_index=purchase)) & set(old)
    region[new] = region[old[0]]
    assert superseded(with_prices(market, region_index=region)) & set(old) == {old[0]}


def test_a_price_of_a_continent_holds_in_its_regions(market: CheckedMarket) -> None:
    places = {key: at for at, key in enumerate(zip(market.regions.provider, market.regions.region, strict=True))}
    old, [new] = rows_of(market, "crusoe", "l40s-48gb.1x"), rows_of(market, "crusoe", "1x_L40S")
    region = market.prices.region_index.copy()
    region[old], region[new] = [places["ovh", "FRA"], places["ovh", "BHS"]], places["ovh", "eu"]
    assert superseded(with_prices(market, region_index=region)) & set(old) == {old[0]}


@pytest.mark.parametrize("change", ["floor", "retired", "unsound"])
def test_what_may_not_lead_does_not_replace_what_may(market: CheckedMarket, change: str) -> None:
    old, [new] = rows_of(market, "crusoe", "l40s-48gb.1x"), rows_of(market, "crusoe", "1x_L40S")
    sound = np.ones(len(market.prices), dtype=np.bool_)
    if change == "floor":
        kinds, estimate = market.prices.kind_index.copy(), market.prices.is_estimate.copy()
        kinds[new], estimate[new] = PRICE_KINDS.index("floor"), True
        market = with_prices(market, kind_index=kinds, is_estimate=estimate)
    elif change == "retired":
        reasons = list(market.servers.not_recommended)
        reasons[market.prices.server_index[new]] = "retired"
        market = dataclasses.replace(market, servers=dataclasses.replace(market.servers, not_recommended=tuple(reasons)))
    else:
        sound[new] = False
    assert not set(tables.superseded(market.servers, market.prices, market.regions, sound=sound, rule=RULE)) & set(old)


def test_a_server_with_another_price_that_holds_is_no_former_name(market: CheckedMarket) -> None:
    rows = rows_of(market, "crusoe", "l40s-48gb.1x")
    sound = np.ones(len(market.prices), dtype=np.bool_)
    newer = tables.superseded(market.servers, market.prices, market.regions, sound=sound, rule=RULE)
    server = int(market.prices.server_index[rows[0]])
    assert tables.marked(market.servers, market.prices, newer, sound=sound).not_recommended[server] == "superseded by 1x_L40S"
    del newer[rows[0]]
    assert tables.marked(market.servers, market.prices, newer, sound=sound).not_recommended[server] == ""


def test_the_rule_runs_with_the_other_checks() -> None:
    assert integrity.PRICE_CHECKS[-1] is integrity.check_price_superseded
    assert RULE["severity"] == "error"


# ---- what people see -----------------------------------------------------------------------------


def test_a_former_name_is_found_by_its_name_alone(catalog: Catalog) -> None:
    from rightfit import lookup

    named = lookup.prices("l40s-48gb.1x", catalog=catalog).rows()
    assert {one["superseded_by"] for one in named} == {"1x_L40S"}
    assert lookup.prices("crusoe/l40s-48gb.1x", catalog=catalog).total == len(named) == 2
    assert not [one for one in lookup.prices("", gpu="L40S", cloud="crusoe", catalog=catalog).rows() if one["superseded_by"]]
    assert lookup.prices("48gb.1x", catalog=catalog).total == 0


def test_check_says_what_the_server_is_called_now(catalog: Catalog) -> None:
    [found] = check(["crusoe/l40s-48gb.1x"], catalog=catalog)
    assert found.exists
    assert "1x_L40S" in found.explanation_en
    assert "1x_L40S" in found.explanation_zh
    assert found.nearest[0].endswith("1x_L40S")


def test_the_old_price_of_crusoe_leads_no_list(catalog: Catalog) -> None:
    found = catalog.offers(OfferFilter(providers=("crusoe",), gpus=("L40S",), purchases=("on-demand",)))
    assert found.price_usd_per_h.min() == pytest.approx(1.5)


@pytest.mark.parametrize(("lang", "said"), [("en", "superseded by 1x_L40S"), ("zh", "已由 1x_L40S 取代")])
def test_lists_on_the_screen_say_so(lang: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")  # a narrow screen has no column of remarks
    for command in ("servers", "prices"):
        assert main([command, "l40s-48gb.1x", "--lang", lang]) == 0
        assert said in capsys.readouterr().out
