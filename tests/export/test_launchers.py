"""The sellers that a plan takes by default are those that a launch target rents at:
catalog/data/launchers.csv against the targets."""

from __future__ import annotations

import pytest

from rightfit.catalog import names, sellers
from rightfit.catalog.offers import PURCHASES
from rightfit.export import skypilot_words
from rightfit.export.registry import all_targets
from rightfit.export.targets import dstack, terraform_alicloud, terraform_tencent

ROWS = sellers.launchers()


def can(launcher: str, seller: str) -> dict[str, bool]:
    """What a target does at a seller."""
    if launcher == "skypilot":
        return {"spot": "spot" not in skypilot_words.lacks(seller), "subscription": False} if seller in skypilot_words.CLOUDS else {}
    if launcher == "dstack":
        return {"spot": True, "subscription": False} if seller in dstack.BACKENDS else {}
    module = {"terraform-alicloud": terraform_alicloud, "terraform-tencent": terraform_tencent}[launcher]
    return {"spot": True, "subscription": True} if module.TARGET.name.endswith(seller) else {}


@pytest.mark.parametrize("seller", ROWS)
def test_a_row_is_what_its_target_does(seller: str) -> None:
    row = ROWS[seller]
    assert all_targets()[row["launcher"]].group == "launch"
    assert {kind: row[kind] == "1" for kind in ("spot", "subscription")} == can(row["launcher"], seller)
    assert row["source"]


def test_every_seller_of_the_catalog_that_a_target_knows_has_a_row() -> None:
    known = set(names.names_data()["providers"])
    assert known & (set(skypilot_words.CLOUDS) | set(dstack.BACKENDS)) <= set(ROWS)
    assert set(ROWS) <= known


def test_what_starts_by_the_way_it_is_paid() -> None:
    assert sellers.starts("aws", "spot")
    assert sellers.starts("aws", "reserved-1y")  # a commitment is a discount on servers that are started on demand
    assert sellers.starts("tencent", "subscription-1m")
    assert not sellers.starts("lambda", "spot")
    assert not any(sellers.starts("hyperstack", way) for way in PURCHASES if way != "owned")
    assert sellers.starts("private", "on-demand")
    assert not sellers.is_major("aws-cn")
    assert sellers.is_major("volcengine")
