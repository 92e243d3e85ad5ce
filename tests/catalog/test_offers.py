"""Offers and their filters on the real catalog."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit.errors import UnknownNameError
from rightfit.market import PURCHASES, Catalog, OfferFilter
from rightfit.market.offers import DERIVED_KINDS, INTERRUPTION_BANDS, PRICE_KINDS
from rightfit.market.tables import newest_date, parse_date, stale_dates

GIB = 2.0**30


def types(catalog: Catalog, wanted: OfferFilter) -> set[str]:
    offers = catalog.offers(wanted)
    return {offers.servers.instance_type[row] for row in np.unique(offers.server_index).tolist()}


def test_a_price_is_the_whole_server_with_its_source_and_date(catalog: Catalog) -> None:
    rows = catalog.prices(OfferFilter(regions=("us-east-1",), purchases=("on-demand",)), name="p4d.24xlarge").rows()
    assert len(rows) == 1
    assert rows[0]["price_usd_per_h"] == pytest.approx(21.9576)
    assert (rows[0]["as_of"], rows[0]["is_estimate"], rows[0]["is_stale"]) == ("2026-10-10", False, False)
    assert "ewyluda/gpu-price-index" in rows[0]["source"]


def test_a_server_is_in_base_units(catalog: Catalog) -> None:
    server = catalog.servers().row(catalog.server_rows["aws", "p4d.24xlarge"])
    assert (server["vcpus"], server["memory_bytes"]) == (96, 1152 * GIB)
    assert (server["accelerator_name"], server["num_accelerators"], server["accelerator_memory_bytes"]) == ("A100-SXM-40GB", 8, 40 * GIB)
    assert (server["network_bytes_per_s"], server["rdma"], server["gpu_interconnect"]) == (50e9, "efa", "nvswitch")


def test_accelerated_servers_come_first_and_keep_their_row(catalog: Catalog) -> None:
    accelerated, every = catalog.servers(has_accelerator=True), catalog.servers()
    assert len(accelerated) >= 1012
    assert every.instance_type[: len(accelerated)] == accelerated.instance_type
    assert not np.any(every.num_accelerators[len(accelerated) :])


@pytest.mark.parametrize("name", ["p3.2xlarge", "p3.8xlarge", "p3.16xlarge", "p2.xlarge", "Standard_NC6s_v3", "Standard_NC24rs_v3"])
def test_servers_on_their_way_out_are_never_recommended(catalog: Catalog, name: str) -> None:
    assert name not in types(catalog, OfferFilter(has_accelerator=None))
    assert name in types(catalog, OfferFilter(has_accelerator=None, include_not_recommended=True))


def test_second_names_slices_and_unpriced_servers_are_left_out(catalog: Catalog) -> None:
    offered = types(catalog, OfferFilter())
    assert "Standard_ND96asr_v4" in offered
    assert "Standard_ND96asr_A100_v4" not in offered
    assert "Standard_NV6ads_A10_v5" not in offered
    assert "Standard_NV6ads_A10_v5" in types(catalog, OfferFilter(include_slices=True))
    reasons = catalog.servers().not_recommended
    assert reasons[catalog.server_rows["otc", "p2s.2xlarge.8"]] == "no price"


def test_every_provider_and_purchase_of_the_source_is_reachable(catalog: Catalog) -> None:
    table = catalog.offers(OfferFilter(has_accelerator=None))
    pairs = {
        (table.servers.provider[server], PURCHASES[mode])
        for server, mode in zip(table.server_index.tolist(), table.purchase_index.tolist(), strict=True)
    }
    everything = catalog.all_offers()
    all_pairs = {
        (everything.servers.provider[server], PURCHASES[mode])
        for server, mode in zip(everything.server_index.tolist(), everything.purchase_index.tolist(), strict=True)
    }
    assert pairs == all_pairs
    assert len(pairs) == 63


def test_a_region_never_matches_a_pseudo_region(catalog: Catalog) -> None:
    offers = catalog.offers(OfferFilter(regions=("eastus", "us-central1", "ap-guangzhou"), has_accelerator=None))
    assert {offers.regions[i] for i in offers.region_index.tolist()} == {"eastus", "us-central1", "ap-guangzhou"}
    assert not offers.is_pseudo_region.any()


def test_a_pseudo_region_can_be_asked_for_by_its_name(catalog: Catalog) -> None:
    offers = catalog.offers(OfferFilter(regions=("cheapest-listed",), providers=("azure",)))
    assert len(offers) > 0
    assert offers.is_pseudo_region.all()


def test_a_country_keeps_providers_with_one_price_everywhere_and_flags_them(catalog: Catalog) -> None:
    offers = catalog.offers(OfferFilter(countries=("DE",)))
    countries = {offers.region_countries[i] for i in offers.region_index[~offers.is_pseudo_region].tolist()}
    flagged = {offers.servers.provider[i] for i in offers.server_index[offers.is_pseudo_region].tolist()}
    assert countries == {"DE"}
    assert {"runpod", "oci"} <= flagged
    assert not flagged & {"aws", "azure", "gcp", "alicloud", "tencent"}


def test_estimates_and_old_prices_are_flagged(catalog: Catalog) -> None:
    spot = catalog.offers(OfferFilter(providers=("aws",), purchases=("spot",)))
    assert not spot.is_estimate.any()
    processors = catalog.offers(OfferFilter(providers=("aws",), purchases=("spot",), has_accelerator=False, regions=("us-east-1",)))
    assert processors.is_estimate.all()
    assert processors.is_stale.all()
    plan = catalog.offers(OfferFilter(providers=("azure",), purchases=("savings-plan-1y",), has_accelerator=None))
    assert not plan.is_estimate.any()
    fresh = catalog.prices(OfferFilter(providers=("tencent",), include_stale=False), limit=None).rows()
    assert {row["as_of"] for row in fresh} == {"2026-06-15"}


def test_interruption_bands_follow_the_advisor(catalog: Catalog) -> None:
    offers = catalog.prices(OfferFilter(purchases=("spot",), regions=("us-east-1",), providers=("aws",)), name="g5.xlarge").offers
    low, high = offers.interruption_range
    assert (low.tolist(), high.tolist()) == ([0.2], [1.0])
    on_demand = catalog.offers(OfferFilter(purchases=("on-demand",)))
    assert set(on_demand.interruption_band.tolist()) == {len(INTERRUPTION_BANDS) - 1}


def test_names_are_resolved_and_wrong_ones_refused_with_the_nearest(catalog: Catalog) -> None:
    assert types(catalog, OfferFilter(providers=("阿里云",))) == types(catalog, OfferFilter(providers=("alibaba",)))
    assert len(catalog.offers(OfferFilter(purchases=("reserved",)))) > len(catalog.offers(OfferFilter(purchases=("reserved-1y",))))
    for wanted, hint in (
        (OfferFilter(providers=("amazn",)), "aws"),
        (OfferFilter(regions=("us-east-11",)), "us-east-1"),
        (OfferFilter(gpus=("H100",)), "H100-SXM-80GB"),
        (OfferFilter(purchases=("on-demnd",)), "on-demand"),
        (OfferFilter(countries=("Atlantis",)), "CN"),
    ):
        with pytest.raises(UnknownNameError, match=hint):
            catalog.offers(wanted)


@settings(max_examples=12, deadline=None)
@given(
    providers=st.sets(st.sampled_from(["aws", "gcp", "azure", "lambda", "runpod"]), max_size=2),
    purchases=st.sets(st.sampled_from(PURCHASES), max_size=3),
    accelerated=st.sampled_from([True, False, None]),
    stale=st.booleans(),
)
def test_a_filter_equals_filtering_row_by_row(
    catalog: Catalog, providers: set[str], purchases: set[str], accelerated: bool | None, stale: bool
) -> None:
    wanted = OfferFilter(providers=tuple(providers), purchases=tuple(purchases), has_accelerator=accelerated, include_stale=stale)
    table, servers = catalog.all_offers(), catalog.servers()
    allowed_providers = providers or set(servers.provider)
    allowed_modes = {PURCHASES.index(name) for name in purchases} or set(range(len(PURCHASES)))
    by_hand = sum(
        servers.provider[server] in allowed_providers
        and mode in allowed_modes
        and (accelerated is None or (servers.num_accelerators[server] > 0) == accelerated)
        and (stale or not old)
        and not bad
        and not servers.not_recommended[server]
        and not 0 < servers.num_accelerators[server] < 1
        for server, mode, old, bad in zip(
            table.server_index.tolist(), table.purchase_index.tolist(), table.is_stale.tolist(), table.is_quarantined.tolist(), strict=True
        )
    )
    assert len(catalog.offers(wanted)) == by_hand


def test_dates_that_name_only_a_year_are_taken_in_its_middle() -> None:
    assert [parse_date(text).isoformat() for text in ("2025", "2025-03", "2025-03-04")] == ["2025-01-01", "2025-03-01", "2025-03-04"]
    assert newest_date(["2026", "2025-01-02", "2024-12-31"]).isoformat() == "2025-01-02"
    assert stale_dates(["2026-10-24", "2025-10-25", "2025-10-23", "2025", ""], max_age_days=365).tolist() == [
        False,
        False,
        True,
        True,
        True,
    ]


# ---- how a price is known ------------------------------------------------------------------------


def test_every_price_has_a_kind_and_a_whole_date(catalog: Catalog) -> None:
    table = catalog.all_offers()
    assert set(np.unique(table.kind_index).tolist()) == set(range(len(PRICE_KINDS)))
    derived = np.isin(table.kind_index, [PRICE_KINDS.index(name) for name in DERIVED_KINDS])
    assert np.array_equal(derived, table.is_estimate)
    assert all(len(text) == 10 and parse_date(text).isoformat() == text for text in table.as_of_dates)


@pytest.mark.parametrize(
    ("provider", "name", "purchase", "kind"),
    [
        ("aws", "p5.48xlarge", "spot", "quote"),
        ("aws", "p5.48xlarge", "on-demand", "list"),
        ("verda", "1A100.22V", "spot", "formula"),
        ("nebius", "gpu-h100-sxm_8gpu-128vcpu-1600gb", "spot", "floor"),
        ("nebius", "gpu-b200-sxm_8gpu-160vcpu-1792gb", "on-demand", "list"),
        ("runpod", "1x_H100-SXM-80GB", "on-demand-community", "quote"),
        ("coreweave", "gd-8xh100ib-i128", "spot", "quote"),
        ("aws", "m5.large", "spot", "estimate"),
    ],
)
def test_the_kind_of_a_price(catalog: Catalog, provider: str, name: str, purchase: str, kind: str) -> None:
    wanted = OfferFilter(providers=(provider,), purchases=(purchase,), has_accelerator=None)
    kinds = [row["kind"] for row in catalog.prices(wanted, name=name, limit=None).rows() if row["instance_type"] == name]
    assert max(set(kinds), key=kinds.count) == kind
