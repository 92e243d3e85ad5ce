"""Named checks on poisoned rows of the real market: what is wrong is found under its name, what is
right is left alone."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from rightfit.market import Catalog, OfferFilter, build, integrity, tables
from rightfit.market.integrity import CheckedMarket, Finding, run_checks
from rightfit.market.offers import PURCHASE_CODES
from rightfit.market.packed_tables import rules

RULE = rules()


@pytest.fixture(scope="module")
def market() -> CheckedMarket:
    regions = tables.region_table(tables.load_packed("regions"))
    packed_servers, packed_prices = tables.load_packed("servers"), tables.load_packed("prices")
    servers = tables.server_table(packed_servers, rule=RULE)
    prices = tables.price_columns(packed_prices, servers=servers, regions=regions, rule=RULE)
    levels = build.market_levels(tables.load_packed("market_gpu_prices"))
    return CheckedMarket(servers, prices, regions, build.accelerator_memory(), levels)


def find_price(market: CheckedMarket, instance_type: str, region: str, purchase: str = "on-demand") -> int:
    server = market.servers.instance_type.index(instance_type)
    provider = market.servers.provider[server]
    place = next(i for i, key in enumerate(zip(market.regions.provider, market.regions.region, strict=True)) if key == (provider, region))
    prices = market.prices
    found = (prices.server_index == server) & (prices.region_index == place) & (prices.purchase_index == PURCHASE_CODES[purchase])
    return int(np.flatnonzero(found)[0])


def with_price(market: CheckedMarket, row: int | NDArray[np.intp], factor: float) -> CheckedMarket:
    """The market with the price (and the price it was converted from) multiplied."""
    price, original = market.prices.price_usd_per_h.copy(), market.prices.price_original.copy()
    price[row] *= factor
    original[row] *= factor
    return dataclasses.replace(market, prices=dataclasses.replace(market.prices, price_usd_per_h=price, price_original=original))


def checks_on(findings: list[Finding], row: int) -> set[str]:
    return {finding.check for finding in findings if finding.price_row == row}


@pytest.fixture(scope="module")
def honest(market: CheckedMarket) -> list[Finding]:
    return run_checks(market, rule=RULE)


def test_the_bundled_rows_are_sound_but_for_those_known(honest: list[Finding]) -> None:
    """Each of these was looked at: Azure's Fams_v6 in New Zealand cost a tenth of everywhere else,
    START1 sizes less than a dollar a month, and Crusoe lists its former names anew."""
    errors = Counter(finding.check for finding in honest if finding.severity == "error")
    known = {"check_price_jump": 7, "check_price_outlier_per_vcpu": 2, "check_accelerator_memory_matches": 3}
    assert errors == {**known, "check_price_superseded": 8}
    jumps = {(finding.provider, finding.region) for finding in honest if finding.check == "check_price_jump"}
    assert jumps == {("azure", "newzealandnorth")}


@pytest.mark.parametrize(
    ("instance_type", "region", "factor", "check"),
    [
        ("p5.48xlarge", "us-east-1", 0.0, "check_price_positive"),
        ("p5.48xlarge", "us-east-1", -1.0, "check_price_positive"),
        ("p5.48xlarge", "us-east-1", float("nan"), "check_price_positive"),
        ("p4d.24xlarge", "us-east-1", 10.0, "check_price_jump"),
        ("p4d.24xlarge", "us-east-1", 0.1, "check_price_jump"),
        ("gpu_8x_h100_sxm5", "us-east-1", 10.0, "check_price_jump"),
        ("8x_H200-SXM-141GB", "any", 10.0, "check_price_outlier_per_gpu"),
        ("8x_H200-SXM-141GB", "any", 0.05, "check_price_outlier_per_gpu"),
        ("m5.xlarge", "us-east-1", 10.0, "check_price_jump"),
        ("a8-ram32-disk20-perf2", "ch-gva", 30.0, "check_price_outlier_per_vcpu"),
    ],
)
def test_a_poisoned_price_is_found_by_name(market: CheckedMarket, instance_type: str, region: str, factor: float, check: str) -> None:
    row = find_price(market, instance_type, region)
    assert check in checks_on(run_checks(with_price(market, row, factor), rule=RULE), row)


def test_ten_times_and_a_tenth_are_found_almost_always(market: CheckedMarket) -> None:
    rows = np.random.default_rng(0).choice(np.flatnonzero(market.of_server(market.servers.num_accelerators) > 0), 200, replace=False)
    for factor in (10.0, 0.1):
        found = run_checks(with_price(market, rows, factor), rule=RULE)
        caught = {finding.price_row for finding in found if finding.severity == "error"} & set(rows.tolist())
        assert len(caught) >= 190


def test_spot_above_on_demand_is_found(market: CheckedMarket) -> None:
    row = find_price(market, "g5.xlarge", "us-east-1", "spot")
    beside = market.prices.price_usd_per_h[find_price(market, "g5.xlarge", "us-east-1")]
    poisoned = with_price(market, row, 1.2 * beside / market.prices.price_usd_per_h[row])
    assert checks_on(run_checks(poisoned, rule=RULE), row) == {"check_spot_below_on_demand"}


def test_a_spot_price_out_of_proportion_condemns_both_since_either_may_be_wrong(market: CheckedMarket) -> None:
    row = find_price(market, "1A100.22V", "FIN-01", "spot")
    beside = find_price(market, "1A100.22V", "FIN-01")
    findings = run_checks(with_price(market, row, 0.1), rule=RULE)
    checks = checks_on(findings, row) | checks_on(findings, beside)
    assert checks & {"check_price_jump_between_purchases", "check_price_outlier_per_gpu", "check_price_jump"}


def test_a_wrong_currency_is_found(market: CheckedMarket) -> None:
    """A CNY figure taken for dollars."""
    row = find_price(market, "ecs.gn7i-c8g1.2xlarge", "cn-hangzhou")
    price = market.prices.price_usd_per_h.copy()
    price[row] *= 7.2
    poisoned = dataclasses.replace(market, prices=dataclasses.replace(market.prices, price_usd_per_h=price))
    assert checks_on(run_checks(poisoned, rule=RULE), row) == {"check_price_conversion"}


def poison_server(market: CheckedMarket, instance_type: str, **columns: float) -> tuple[CheckedMarket, int]:
    row = market.servers.instance_type.index(instance_type)
    changed = {}
    for name, value in columns.items():
        column = getattr(market.servers, name).copy()
        column[row] = value
        changed[name] = column
    return dataclasses.replace(market, servers=dataclasses.replace(market.servers, **changed)), row


@pytest.mark.parametrize(
    ("columns", "check"),
    [
        ({"accelerator_memory_bytes": 40 * 2.0**30}, "check_accelerator_memory_matches"),
        ({"accelerator_memory_bytes": 800 * 2.0**30}, "check_accelerator_memory_matches"),
        ({"vcpus": 0.0}, "check_server_shape"),
        ({"memory_bytes": -1.0}, "check_server_shape"),
        ({"num_accelerators": 800.0}, "check_server_shape"),
        ({"num_accelerators": 0.0}, "check_unknown_accelerator"),
    ],
)
def test_a_poisoned_server_is_found_by_name(market: CheckedMarket, columns: dict[str, float], check: str) -> None:
    poisoned, row = poison_server(market, "p5.48xlarge", **columns)
    assert (check, row) in {(finding.check, finding.server_row) for finding in run_checks(poisoned, rule=RULE)}


def test_an_unknown_accelerator_is_found(market: CheckedMarket) -> None:
    memory = {name: value for name, value in market.accelerator_memory_bytes.items() if name != "L4"}
    findings = run_checks(dataclasses.replace(market, accelerator_memory_bytes=memory), rule=RULE)
    assert {"g6.xlarge", "g2-standard-4"} <= {finding.instance_type for finding in findings if finding.check == "check_unknown_accelerator"}


def test_orphans_and_duplicates_are_found(market: CheckedMarket) -> None:
    orphan, twin = find_price(market, "g5.xlarge", "us-east-1"), find_price(market, "g4dn.xlarge", "us-east-1")
    server = market.prices.server_index.copy()
    server[orphan] = -1
    region = market.prices.region_index.copy()
    region[twin] = market.prices.region_index[find_price(market, "g4dn.xlarge", "us-east-2")]
    prices = dataclasses.replace(
        market.prices, server_index=server, region_index=region, orphans={orphan: ("aws", "us-east-1", "g5.tiny", "on_demand")}
    )
    findings = run_checks(dataclasses.replace(market, prices=prices), rule=RULE)
    assert [finding.instance_type for finding in findings if finding.check == "check_orphan_price"] == ["g5.tiny"]
    assert [finding.instance_type for finding in findings if finding.check == "check_duplicate_offer"] == ["g4dn.xlarge"]


def test_old_prices_are_listed_by_provider_and_date_as_warnings(honest: list[Finding]) -> None:
    stale = [finding for finding in honest if finding.check == "check_price_stale"]
    assert {finding.severity for finding in stale} == {"warning"}
    assert ("tencent", "2022-05-20", "15498 prices") in {(finding.provider, finding.had, finding.instance_type) for finding in stale}
    assert {finding.provider for finding in stale} >= {"aws", "alicloud", "tencent", "ibm"}
    assert "azure" not in {finding.provider for finding in stale}


def test_every_check_has_its_limits_reason_and_both_languages() -> None:
    names = {check.__name__ for check in integrity.SERVER_CHECKS + integrity.PRICE_CHECKS} | {"check_price_stale"}
    for name in names:
        entry = RULE["checks"][name]
        assert entry["severity"] in ("error", "warning")
        assert all(entry[key] for key in ("reason", "explanation", "explanation_zh"))
    assert set(RULE["checks"]) == names


def test_group_medians_agree_with_numpy() -> None:
    generator = np.random.default_rng(1)
    keys, values = generator.integers(0, 20, 500), generator.normal(size=500)
    medians, sizes = integrity.group_medians(keys, values)
    for key in np.unique(keys):
        assert np.allclose(medians[keys == key], np.median(values[keys == key]))
        assert set(sizes[keys == key]) == {np.count_nonzero(keys == key)}


def test_quarantined_rows_are_kept_but_never_offered(catalog: Catalog) -> None:
    wanted = OfferFilter(providers=("azure",), regions=("newzealandnorth",), has_accelerator=False)
    names = {row["instance_type"] for row in catalog.prices(wanted, limit=None).rows()}
    assert "Standard_F8ams_v6" not in names
    every = catalog.prices(dataclasses.replace(wanted, include_quarantined=True), limit=None).rows()
    assert [row["is_quarantined"] for row in every if row["instance_type"] == "Standard_F8ams_v6"] == [True]


def test_verify_reads_the_store_and_agrees_with_the_build(catalog: Catalog, honest: list[Finding]) -> None:
    found = catalog.verify()
    assert Counter(finding.check for finding in found) == Counter(finding.check for finding in honest)
