"""Limits of an account in words, and which offers break them."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.errors import QuantityError
from rightfit.market import Catalog
from rightfit.market.sellers import read_quota, worst_excess


@pytest.mark.parametrize(
    ("text", "most", "unit", "where"),
    [
        ("max 8 A100 in us-east-1", 8, "accelerators", {"regions": ("us-east-1",)}),
        ("8xA100@aws", 8, "accelerators", {"providers": ("aws",)}),
        ("最多8张A100在us-east-1", 8, "accelerators", {"regions": ("us-east-1",)}),
        ("192 vcpus on aws spot", 192, "vcpus", {"providers": ("aws",), "purchases": ("spot",)}),
        ("at most 2 p4d.24xlarge", 2, "servers", {"types": ("p4d.24xlarge",)}),
        ("64 GPUs in Germany", 64, "accelerators", {"countries": ("DE",)}),
        ("3 servers on 阿里云", 3, "servers", {"providers": ("alicloud",)}),
    ],
)
def test_in_words(catalog: Catalog, text: str, most: float, unit: str, where: dict[str, tuple[str, ...]]) -> None:
    regions = catalog.regions()
    quota = read_quota(text, regions, types=catalog.servers().instance_type, countries={"germany": "DE"})
    assert (quota.most, quota.unit) == (most, unit)
    for name in ("types", "providers", "regions", "countries", "purchases"):
        assert getattr(quota, name) == where.get(name, ())
    assert ("A100-SXM-80GB" in quota.gpus) == ("A100" in text)


@pytest.mark.parametrize(
    ("text", "message"), [("eight A100", "contains no number"), ("8 Q900 on aws", "cannot read 'q900'"), ("", "contains no number")]
)
def test_what_cannot_be_read(catalog: Catalog, text: str, message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        read_quota(text, catalog.regions())


def test_the_tightest_of_several_limits_is_named(catalog: Catalog) -> None:
    offers = catalog.all_offers(has_accelerator=True)
    names = list(zip(offers.servers.provider, offers.servers.instance_type, strict=True))
    at = np.flatnonzero(offers.server_index == names.index(("aws", "p4d.24xlarge")))[:1]
    one = offers.take(at)
    regions, types = catalog.regions(), offers.servers.instance_type
    quotas = [read_quota(text, regions, types=types) for text in ("16 A100", "8 p4d.24xlarge", "96 vcpus on aws", "0 H100")]
    limit, taken, over = worst_excess(quotas, one, np.array([[1.0, 2.0, 4.0, np.inf]]))
    assert over.tolist() == [[False, True, True, False]]
    assert (limit[0, 1], taken[0, 1]) == (96.0, 192.0)  # 192 of 96 vCPUs is worse than 16 of 16 cards
    assert (limit[0, 2], taken[0, 2]) == (96.0, 384.0)


def test_a_quota_of_nothing_refuses_all_it_speaks_about(catalog: Catalog) -> None:
    offers = catalog.all_offers(has_accelerator=True)
    quota = read_quota("0 A100", catalog.regions())
    _, _, over = worst_excess([quota], offers, np.ones((1, 1)))
    cards = np.array([name.startswith("A100") for name in offers.servers.accelerator_name])[offers.server_index]
    np.testing.assert_array_equal(over[:, 0], cards)
