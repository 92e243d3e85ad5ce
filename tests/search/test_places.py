"""Providers side by side, regions by law and distance, performance for money: against the
catalog's own rows."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import facts, lookup
from rightfit.errors import InputError, UnknownNameError
from rightfit.market import Catalog
from rightfit.search import servers
from rightfit.search.criteria import jurisdictions


def test_every_provider_with_accelerators_is_there(catalog: Catalog) -> None:
    found = {row["provider"]: row for row in servers.providers(catalog)}
    assert set(found) == set(catalog.servers(has_accelerator=True).provider)
    assert sorted(found["aws"]["own_silicon"]) == ["Inferentia", "Trainium"]
    assert found["gcp"]["largest"] == "16x A100-SXM-40GB"
    assert found["gcp"]["own_silicon"][0].startswith("TPU")
    assert any("PPU" in maker for maker in found["alicloud"]["domestic"])
    assert found["aws"]["spot"]
    assert not found["lambda"]["spot"]
    assert servers.providers(catalog, asked=["阿里云"], lang="zh")[0]["name"] == "阿里云"


def test_the_price_of_a_card_is_the_cheapest_whole_one(catalog: Catalog) -> None:
    price = next(row for row in servers.providers(catalog, asked=["lambda"]))["h100_usd_per_h"]
    offers = lookup.prices("H100", cloud="lambda", purchase="on-demand", catalog=catalog).offers
    cards = offers.servers.num_accelerators[offers.server_index]
    assert price == pytest.approx((offers.price_usd_per_h / cards)[~offers.is_quarantined].min())


def test_regions_by_law_and_distance(catalog: Catalog) -> None:
    found = servers.regions(catalog, residency=["eu"], near="Berlin")
    assert {row["country"] for row in found} <= set(jurisdictions()["eu"]["countries"].split(";"))
    assert found[0]["latency"] == "city"
    order = [row["class"] for row in facts.table("latency")]
    ranks = [order.index(row["latency"]) for row in found]
    assert ranks == sorted(ranks)
    assert {row["latency"] for row in servers.regions(catalog, near="CN", country=["CN"])} == {"country"}
    assert all("eu" in row["law"] for row in found)
    assert servers.regions(catalog, "法兰克福")[0]["country"] == "DE"
    with pytest.raises(UnknownNameError):
        servers.regions(catalog, near="atlantis")


def test_value_by_hand(catalog: Catalog) -> None:
    row = next(row for row in lookup.value("p4d.24xlarge", sort="usd_per_pflop", region="us-east-1", catalog=catalog))
    assert row["usd_per_pflop"] == pytest.approx(21.96 / (8 * 0.312), rel=1e-3)
    assert row["usd_per_gb_vram"] == pytest.approx(21.96 / (8 * 40 * 2**30 / 1e9), rel=1e-3)


@pytest.mark.parametrize("sort", ["usd_per_pflop", "usd_per_gb_vram"])
def test_best_value_first_and_the_cheapest_offer_of_each(catalog: Catalog, sort: str) -> None:
    found = lookup.value("", sort=sort, catalog=catalog)
    figures = [row[sort] for row in found]
    assert figures == sorted(figures)
    assert len({(row["provider"], row["instance_type"]) for row in found}) == len(found) > 500
    assert {row["purchase"] for row in found} == {"on-demand"}
    picked = found[10]
    cheapest = lookup.prices(f"{picked['provider']}/{picked['instance_type']}", purchase="on-demand", catalog=catalog).offers
    sound = ~cheapest.is_quarantined & ~cheapest.is_estimate
    assert picked["price_usd_per_h"] == pytest.approx(np.nanmin(cheapest.price_usd_per_h[sound]))


def test_tokens_of_a_model(catalog: Catalog) -> None:
    found = lookup.value("", sort="usd_per_mtok", model="llama-3-8b", gpu="A100,T4", catalog=catalog)
    by_card = {row["accelerator_name"]: row["usd_per_mtok"] for row in reversed(found)}
    assert 0.005 < by_card["A100-SXM-80GB"] < 0.3
    assert by_card["A100-SXM-80GB"] < by_card.get("T4", np.inf)


def test_wrong_questions(catalog: Catalog) -> None:
    with pytest.raises(InputError, match="for which model"):
        lookup.value("", sort="usd_per_mtok", catalog=catalog)
    with pytest.raises(UnknownNameError, match="unknown sort order 'price'"):
        lookup.value("", sort="price", catalog=catalog)
