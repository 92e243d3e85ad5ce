"""Looking around in prices, servers, regions and charges."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.errors import UnknownNameError
from rightfit.market import Catalog, OfferFilter, packed_tables, tables
from rightfit.market.charges import BASES, EgressPrice, EgressTier
from rightfit.market.names import resolve_provider


@pytest.mark.parametrize("sort", ["price", "price_per_gpu", "price_per_vcpu", "date", "name"])
@pytest.mark.parametrize("descending", [False, True])
def test_the_first_fifty_are_those_of_a_full_sort(catalog: Catalog, sort: str, descending: bool) -> None:
    every = catalog.prices(OfferFilter(), sort=sort, limit=None, descending=descending)
    first = catalog.prices(OfferFilter(), sort=sort, limit=50, descending=descending)
    assert first.total == every.total == len(every.offers)
    assert first.rows() == every.rows()[:50]


def test_prices_are_sorted_and_limited(catalog: Catalog) -> None:
    found = catalog.prices(OfferFilter(gpus=("H100-SXM-80GB",), purchases=("on-demand",)), limit=20)
    prices = [row["price_usd_per_h"] for row in found.rows()]
    assert len(prices) == 20
    assert prices == sorted(prices)
    assert found.total > 100
    assert catalog.prices(limit=0).rows() == []


def test_a_name_is_text_or_a_pattern(catalog: Catalog) -> None:
    assert {row["instance_type"] for row in catalog.find_servers(name="p5.48").rows()} == {"p5.48xlarge"}
    matched = {row["instance_type"] for row in catalog.find_servers(name="p5*.48xlarge").rows()}
    assert matched == {"p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"}
    assert [row["provider"] for row in catalog.find_servers(name="P5EN.48XLARGE").rows()] == ["aws", "aws-gov"]
    assert catalog.find_servers(name="nothing-like-this").rows() == []


def test_servers_can_be_filtered_by_where_they_are_sold(catalog: Catalog) -> None:
    everywhere = catalog.find_servers(OfferFilter(providers=("aws",)), limit=None)
    here = catalog.find_servers(OfferFilter(providers=("aws",), regions=("ap-southeast-3",)), limit=None)
    assert 0 < here.total < everywhere.total
    largest = catalog.find_servers(OfferFilter(), sort="gpus", descending=True, limit=1).rows()[0]
    assert largest["num_accelerators"] >= 16


def test_an_unknown_sort_order_is_refused(catalog: Catalog) -> None:
    with pytest.raises(UnknownNameError, match="price_per_gpu"):
        catalog.prices(sort="speed")
    with pytest.raises(UnknownNameError, match="gpu_memory"):
        catalog.find_servers(sort="speed")


def test_the_offers_of_one_server(catalog: Catalog) -> None:
    offers = catalog.offers_of(catalog.server_rows["azure", "Standard_ND96asr_v4"])
    assert len(offers) == 13
    assert {offers.servers.instance_type[i] for i in offers.server_index.tolist()} == {"Standard_ND96asr_v4"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("aws", "aws"),
        ("amazon", "aws"),
        ("Amazon Web Services", "aws"),
        ("亚马逊", "aws"),
        ("阿里云", "alicloud"),
        ("alibaba", "alicloud"),
        ("Alibaba_Cloud", "alicloud"),
        ("google", "gcp"),
        ("GCP", "gcp"),
        ("谷歌云", "gcp"),
        ("腾讯云", "tencent"),
        ("datacrunch", "verda"),
        ("Lambda GPU Cloud", "lambda"),
    ],
)
def test_providers_by_the_names_people_use(text: str, code: str) -> None:
    assert resolve_provider(text) == code


def test_a_provider_that_is_missing_is_said_to_be(catalog: Catalog) -> None:
    with pytest.raises(UnknownNameError, match="has no servers from it"):
        resolve_provider("百度智能云")
    with pytest.raises(UnknownNameError, match="did you mean azure"):
        resolve_provider("azur")


@pytest.mark.parametrize(
    ("text", "provider", "codes"),
    [
        ("us-east-1", "aws", {"us-east-1"}),
        ("US-EAST-1", "aws", {"us-east-1"}),
        ("us-east1", "gcp", {"us-east1"}),
        ("Frankfurt", "aws", {"eu-central-1"}),
        ("法兰克福", "alicloud", {"eu-central-1"}),
        ("杭州", "alicloud", {"cn-hangzhou"}),
        ("Silicon Valley", "tencent", {"na-siliconvalley"}),
        ("中国香港", "alicloud", {"cn-hongkong"}),
    ],
)
def test_regions_by_code_city_and_both_languages(catalog: Catalog, text: str, provider: str, codes: set[str]) -> None:
    assert {region.region for region in catalog.find_regions(text, providers=[provider])} == codes


def test_a_region_knows_its_names(catalog: Catalog) -> None:
    region = catalog.region("阿里云", "cn-hangzhou")
    assert (region.country, region.display_en, region.display_zh, region.is_pseudo) == ("CN", "China (Hangzhou)", "中国杭州", False)
    assert catalog.region("oci", "global").is_pseudo
    with pytest.raises(UnknownNameError, match="cn-hangzhou"):
        catalog.region("alicloud", "cn-hangzou")


def test_storage_says_how_near_its_price_is(catalog: Catalog) -> None:
    exact = catalog.storage_price("aws", "us-east-1")
    elsewhere = catalog.storage_price("aws", "eu-central-1")
    nobody = catalog.storage_price("leafcloud", "europe-nl")
    assert exact is not None
    assert elsewhere is not None
    assert nobody is not None
    assert (exact.price_usd_per_gb_month, exact.product, exact.basis) == (0.08, "gp3", "exact")
    assert (elsewhere.price_usd_per_gb_month, elsewhere.basis) == (0.08, "provider")
    assert nobody.basis == "market"
    assert catalog.storage_price_usd_per_gb_month("aws", "us-east-1", "object") == 0.023
    assert catalog.storage_price_usd_per_gb_month("gcp", "europe-west4", "object") == 0.02


def test_a_provider_without_block_storage_lends_its_own_file_storage(catalog: Catalog) -> None:
    price = catalog.storage_price("runpod", "any")
    assert price is not None
    assert (price.price_usd_per_gb_month, price.product, price.basis) == (0.07, "network-volume", "substitute")


def test_an_unknown_storage_kind_is_refused(catalog: Catalog) -> None:
    with pytest.raises(UnknownNameError, match="block"):
        catalog.storage_price("aws", "us-east-1", kind="tape")


def test_egress_is_charged_by_tier() -> None:
    price = EgressPrice((EgressTier(0, 0.09), EgressTier(10240, 0.085), EgressTier(51200, 0.07)), 100, "r", "", "", "exact")
    assert price.cost_usd(50) == 0
    assert price.cost_usd(1100) == pytest.approx(90.0)
    assert price.cost_usd(100 + 10240 + 1000) == pytest.approx(10240 * 0.09 + 1000 * 0.085)
    assert price.cost_usd(100 + 60000) == pytest.approx(10240 * 0.09 + 40960 * 0.085 + 8800 * 0.07)


@pytest.mark.parametrize(
    ("provider", "region", "first_tier", "free_gb"),
    [
        ("aws", "us-east-1", 0.09, 100),
        ("gcp", "us-central1", 0.12, 0),
        ("azure", "westeurope", 0.087, 100),
        ("azure", "japaneast", 0.12, 100),
        ("azure", "brazilsouth", 0.181, 100),
        ("alicloud", "cn-beijing", 0.11111, 0),
        ("tencent", "ap-shanghai", 0.11111, 0),
        ("oci", "global", 0.0085, 10240),
        ("lambda", "us-east-1", 0.0, 0),
    ],
)
def test_egress_by_region_and_price_area(catalog: Catalog, provider: str, region: str, first_tier: float, free_gb: float) -> None:
    price = catalog.egress_price(provider, region)
    assert price is not None
    assert (price.tiers[0].price_usd_per_gb, price.free_gb, price.basis) == (first_tier, free_gb, "exact")


def test_charges_of_all_regions_at_once_are_those_of_each(catalog: Catalog) -> None:
    table, places = catalog.all_offers(has_accelerator=True), catalog.place_prices()
    assert len(places.block_usd_per_gb_month) == len(table.regions) >= 298
    for row in range(0, len(table.regions), 7):
        provider, region = table.region_providers[row], table.regions[row]
        storage, egress = catalog.storage_price(provider, region), catalog.egress_price(provider, region)
        assert storage is not None
        assert egress is not None
        assert storage.price_usd_per_gb_month == places.block_usd_per_gb_month[row]
        assert storage.basis == BASES[places.block_basis[row]]
        assert egress.tiers[0].price_usd_per_gb == places.egress_usd_per_gb[row]
        assert egress.basis == BASES[places.egress_basis[row]]


def test_egress_grows_with_the_amount(catalog: Catalog) -> None:
    for provider, region in (("aws", "us-east-1"), ("gcp", "asia-east1"), ("azure", "westeurope"), ("scaleway", "fr-par-1")):
        price = catalog.egress_price(provider, region)
        assert price is not None
        costs = [price.cost_usd(amount) for amount in (0, 10, 1e3, 1e4, 1e5, 1e6)]
        assert costs[0] == 0
        assert np.all(np.diff(costs) >= 0)


def test_interruptions_and_discounts(catalog: Catalog) -> None:
    assert catalog.interruption("gcp", "us-central1", "a2-highgpu-1g") is None
    assert len(catalog.discounts()) >= 240
    assert {row["mechanism"] for row in catalog.discounts("gcp")} >= {"spot", "sustained_use"}


def test_status_counts_and_dates_everything(catalog: Catalog) -> None:
    status = catalog.status()
    servers, prices = tables.load_packed("servers"), tables.load_packed("prices")
    assert (status.servers, status.prices) == (len(servers["provider"]), len(prices["provider"]))
    assert status.quarantined_prices == 17  # each was looked at (tests/catalog/test_integrity.py)
    assert status.rows["interruptions"] == len(packed_tables.load_unamended("interruptions")["provider"])
    assert status.newest == tables.newest_date(prices["as_of"].labels).isoformat()
    by_name = {entry.provider: entry for entry in status.providers}
    assert set(by_name) == set(servers["provider"].labels)
    of_aws = [count for name, count in zip(servers["provider"].texts(), servers["gpu_count"].texts(), strict=True) if name == "aws"]
    assert (by_name["aws"].servers, by_name["aws"].accelerated_servers) == (len(of_aws), sum(count != "0" for count in of_aws))
    assert by_name["aws"].prices == prices["provider"].texts().count("aws")
    assert (by_name["tencent"].oldest, by_name["tencent"].newest) == ("2022-05-20", "2026-06-15")
    assert by_name["otc"].prices == 0
    assert sum(entry.prices for entry in status.providers) == status.prices
    assert catalog.as_of()["gcp"] == "2026-10-13"
    assert status.to_dict()["fingerprint"] == status.fingerprint


def test_the_history_of_a_bundled_price_shows_what_it_was_before(catalog: Catalog) -> None:
    from rightfit.market.refresh_rows import price_history

    for provider, name, before, now in (
        ("nebius", "gpu-b200-sxm_8gpu-160vcpu-1792gb", 44.0, 68.0),
        ("verda", "1H100.80S.32V", 2.29, 4.4868),
    ):
        rows = catalog.prices(OfferFilter(providers=(provider,), purchases=("on-demand",)), name=name).rows()
        points = price_history(rows)
        assert [point.price_usd_per_h for point in points] == [before, now]
        assert [point.as_of for point in points] == sorted(point.as_of for point in points)
        assert points[-1].change == pytest.approx(now / before - 1)


def test_the_age_of_each_sellers_prices_is_counted_by_the_clock(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day later every seller's prices are a day older in the middle; who has none has no age."""
    monkeypatch.setenv("RIGHTFIT_TODAY", "2026-11-27")
    first = {one.provider: one.median_age_days for one in catalog.status().providers}
    monkeypatch.setenv("RIGHTFIT_TODAY", "2026-11-28")
    second = {one.provider: one.median_age_days for one in catalog.status().providers}
    assert {name for name, age in first.items() if age is None} == {one.provider for one in catalog.status().providers if not one.prices}
    assert all(age is None or second[name] == age + 1 for name, age in first.items())
    assert first["lambda"] < 60 < first["tencent"]
