"""The catalog with your own prices: what changes, by how much, and that nothing else does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rightfit.errors import FileInputError
from rightfit.market import Catalog, OfferFilter
from rightfit.market.offers import PURCHASE_CODES
from rightfit.market.price_book import read_price_book
from rightfit.market.priced import PricedCatalog


def priced(catalog: Catalog, folder: Path, text: str, **own: float) -> PricedCatalog:
    path = folder / "book.toml"
    path.write_text(text, encoding="utf-8")
    return PricedCatalog(catalog, read_price_book(path), own_usd_per_h=own)


def price(catalog: Catalog, name: str, region: str, purchase: str = "on-demand") -> float:
    found = catalog.prices(OfferFilter(regions=(region,), purchases=(purchase,), has_accelerator=None), name=name).rows()
    assert len(found) == 1
    return float(found[0]["price_usd_per_h"])


def test_an_empty_book_changes_nothing(catalog: Catalog, tmp_path: Path) -> None:
    same = priced(catalog, tmp_path, "")
    for kind in (True, False, None):
        ours, theirs = same.all_offers(has_accelerator=kind), catalog.all_offers(has_accelerator=kind)
        np.testing.assert_array_equal(ours.price_usd_per_h, theirs.price_usd_per_h)
        np.testing.assert_array_equal(ours.server_index, theirs.server_index)


def test_a_discount_holds_where_it_says_and_nowhere_else(catalog: Catalog, tmp_path: Path) -> None:
    mine = priced(
        catalog, tmp_path, '[[discount]]\nprovider = "aws"\ntype = "p4d.*"\nregion = "us-east-1"\npurchase = "on-demand"\npercent = 25\n'
    )
    assert price(mine, "p4d.24xlarge", "us-east-1") == pytest.approx(0.75 * price(catalog, "p4d.24xlarge", "us-east-1"))
    ours, theirs = mine.all_offers(), catalog.all_offers()
    changed = ours.price_usd_per_h != theirs.price_usd_per_h
    changed &= np.isfinite(theirs.price_usd_per_h)
    assert changed.sum() == 1
    row = ours.row(int(np.flatnonzero(changed)[0]))
    assert "price book" in row["source"]
    assert row["as_of"] == theirs.row(int(np.flatnonzero(changed)[0]))["as_of"]  # the list price is as old as before


def test_of_several_discounts_the_last_holds_and_is_off_the_list_price(catalog: Catalog, tmp_path: Path) -> None:
    text = '[[discount]]\nprovider = "aws"\npercent = 50\n[[discount]]\ntype = "p4d.24xlarge"\npercent = 10\n'
    mine = priced(catalog, tmp_path, text)
    assert price(mine, "p4d.24xlarge", "us-east-1") == pytest.approx(0.9 * price(catalog, "p4d.24xlarge", "us-east-1"))
    assert price(mine, "p5.48xlarge", "us-east-1") == pytest.approx(0.5 * price(catalog, "p5.48xlarge", "us-east-1"))


def test_a_price_of_one_s_own_is_fresh_and_no_estimate(catalog: Catalog, tmp_path: Path) -> None:
    mine = priced(catalog, tmp_path, 'as_of = "2026-10-10"\n[[discount]]\ntype = "p4d.24xlarge"\npurchase = "spot"\nprice = "7.2cny"\n')
    rows = mine.prices(OfferFilter(purchases=("spot",), has_accelerator=None), name="p4d.24xlarge", limit=None).rows()
    assert rows
    assert [row["price_usd_per_h"] for row in rows] == pytest.approx([1.0] * len(rows))
    assert {row["as_of"] for row in rows} == {"2026-10-10"}
    assert not any(row["is_estimate"] or row["is_stale"] for row in rows)


def test_taxes_multiply_prices_and_charges_of_their_place(catalog: Catalog, tmp_path: Path) -> None:
    mine = priced(catalog, tmp_path, '[[tax]]\ncountry = "DE"\npercent = 19\n[[tax]]\nprovider = "aws"\npercent = 10\n')
    ratio = mine.all_offers().price_usd_per_h / catalog.all_offers().price_usd_per_h
    table = catalog.all_offers()
    german = np.array([country == "DE" for country in table.region_countries])[table.region_index]
    aws = np.array([provider == "aws" for provider in table.region_providers])[table.region_index]
    known = np.isfinite(ratio)
    np.testing.assert_allclose(ratio[german & aws & known], 1.19 * 1.10)
    np.testing.assert_allclose(ratio[german & ~aws & known], 1.19)
    np.testing.assert_allclose(ratio[~german & ~aws & known], 1.0)
    places = np.array([country == "DE" for country in table.region_countries]) & np.array(
        [name != "aws" for name in table.region_providers]
    )
    np.testing.assert_allclose(
        mine.place_prices().egress_usd_per_gb[places], 1.19 * catalog.place_prices().egress_usd_per_gb[places], equal_nan=True
    )


SERVERS = """
[[server]]
name = "rack-a100"
gpu = "A100-SXM-80GB"
gpus = 8
memory = "1TB"
price = 9.5
site = "beijing"
country = "CN"
servers = 2
[[server]]
name = "plain"
vcpus = 64
memory = "256GB"
price = 0.5
[[owned]]
name = "ours"
gpu = "RTX-4090"
gpus = 4
"""


def test_added_servers_stand_among_the_others(catalog: Catalog, tmp_path: Path) -> None:
    assert ("private", "ours") not in catalog.server_rows  # asked first, so that a catalog that kept the base's answer would be found out
    mine = priced(catalog, tmp_path, SERVERS, ours=1.25)
    assert price(mine, "rack-a100", "beijing") == 9.5
    assert price(mine, "plain", "private") == 0.5
    assert price(mine, "ours", "private", "owned") == 1.25
    server = mine.find_servers(name="rack-a100").rows()[0]
    assert (server["num_accelerators"], server["memory_bytes"], server["gpu_interconnect"]) == (8.0, 1e12, "nvswitch")
    assert mine.region("own", "beijing").country == "CN"
    assert mine.place_prices().block_usd_per_gb_month[-1] == 0.0
    row = mine.server_rows["private", "ours"]
    assert [offer["purchase"] for offer in (mine.offers_of(row).row(0),)] == ["owned"]


def test_every_other_offer_keeps_its_server_and_price(catalog: Catalog, tmp_path: Path) -> None:
    mine = priced(catalog, tmp_path, SERVERS, ours=1.25)
    ours, theirs = mine.all_offers(), catalog.all_offers()
    kept = np.flatnonzero(np.array([name != "private" for name in ours.servers.provider])[ours.server_index])
    assert len(kept) == len(theirs)
    np.testing.assert_array_equal(ours.price_usd_per_h[kept], theirs.price_usd_per_h)
    picks = np.linspace(0, len(kept) - 1, 500).astype(int)
    assert [ours.row(int(kept[at])) for at in picks] == [theirs.row(int(at)) for at in picks]
    assert np.all(np.diff(ours.server_index) >= 0)  # offers_of rests on this
    assert PURCHASE_CODES["owned"] in ours.purchase_index


def test_how_many_there_are_is_a_quota(catalog: Catalog, tmp_path: Path) -> None:
    quota = priced(catalog, tmp_path, SERVERS, ours=1.25).quotas[0]
    assert (quota.most, quota.unit, quota.types) == (2, "servers", ("rack-a100",))


def test_credits_count_until_they_expire(catalog: Catalog, tmp_path: Path) -> None:
    text = '[[credit]]\nprovider = "gcp"\namount = "100usd"\n[[credit]]\nprovider = "谷歌云"\namount = "720cny"\nexpires = 2027-01-31\n'
    mine = priced(catalog, tmp_path, text)
    assert mine.credit_usd(on="2027-01-31") == {"gcp": pytest.approx(200.0)}
    assert mine.credit_usd(on="2027-02-01") == {"gcp": 100.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[discount]]\nprovider = "aws"\ntype = "p9.*"\npercent = 5\n',
            ":1: discount: no price in the catalog matches all its conditions",
        ),
        ('[[discount]]\nprovider = "lambda"\npurchase = "spot"\npercent = 5\n', "no price in the catalog matches"),
        ('[[server]]\nname = "p4d.24xlarge"\nprovider = "aws"\nprice = 1\n', ":1: name: 'p4d.24xlarge' exists already"),
        ('[[server]]\nname = "a"\nprice = 1\n[[server]]\nname = "a"\nprice = 2\n', ":4: name: 'a' exists already"),
        ('[[server]]\nname = "a"\n', ":1: price: is missing"),
        ('[[quota]]\nlimit = "eight A100"\n', ":1: quota: limit: 'eight A100' contains no number"),
        ('[[credit]]\nprovider = "gcp"\namount = "minus 5"\n', ":1: amount: cannot read 'minus 5'"),
        ('[[server]]\nname = "a"\nprice = "-2usd"\n', ":1: price: "),
    ],
)
def test_what_would_silently_do_nothing_is_refused(catalog: Catalog, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileInputError) as caught:
        priced(catalog, tmp_path, text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fixed_price_of_a_former_name_brings_it_back(catalog: Catalog, tmp_path: Path) -> None:
    """Crusoe lists l40s-48gb.1x as 1x_L40S by now; who has a price for the
    older name is sold it."""
    wanted = OfferFilter(providers=("crusoe",), gpus=("L40S",))
    assert "l40s-48gb.1x" not in {row["instance_type"] for row in catalog.prices(wanted, limit=None).rows()}
    mine = priced(catalog, tmp_path, '[[discount]]\nprovider = "crusoe"\ntype = "l40s-48gb.1x"\nprice = 0.9\n')
    back = [row for row in mine.prices(wanted, limit=None).rows() if row["instance_type"] == "l40s-48gb.1x"]
    assert {row["price_usd_per_h"] for row in back} == {0.9}
    assert {row["superseded_by"] for row in back} == {""}
    elsewhere = priced(catalog, tmp_path, '[[discount]]\nprovider = "runpod"\ntype = "*"\nprice = 0.9\n')
    assert "l40s-48gb.1x" not in {row["instance_type"] for row in elsewhere.prices(wanted, limit=None).rows()}
    cheaper = priced(catalog, tmp_path, '[[discount]]\nprovider = "crusoe"\npercent = 5\n')
    assert "l40s-48gb.1x" not in {row["instance_type"] for row in cheaper.prices(wanted, limit=None).rows()}
