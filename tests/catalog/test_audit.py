"""The catalog against independent sources: tests/data/audit_prices.csv and audit_servers.csv hold
what they said; of what was found wrong there nothing is left.

The tables were made from an older catalog (`bundled`). Here each row is judged again, from
the catalog of today.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from rightfit.market import PURCHASE_CODES, Catalog

DATA = Path(__file__).parents[1] / "data"
TOLERANCE = 0.05  # the auditor's own line between "minor" and "WRONG"
# Two rows say that a server has no local disk where the audit itself says of their siblings that it
# counts no local SSD.
NOT_COUNTED = "nvme"


def audited(name: str) -> list[dict[str, str]]:
    with (DATA / f"audit_{name}.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def offered(catalog: Catalog, row: dict[str, str]) -> list[float]:
    """What the catalog offers of an audited price: sound prices only."""
    server = catalog.server_rows[row["provider"], row["instance_type"]]
    offers = catalog.offers_of(server)
    keep = (offers.purchase_index == PURCHASE_CODES[row["purchase"].replace("_", "-")]) & ~offers.is_quarantined
    places = np.array([offers.regions[code] == row["region"] for code in offers.region_index.tolist()], dtype=np.bool_)
    return [float(price) for price in offers.price_usd_per_h[keep & places]]


def verdict(catalog: Catalog, row: dict[str, str]) -> str:
    """The audit's verdict on a price, from what the catalog says now; empty: nothing to object."""
    if row["verdict"] == "MISLABELLED":
        return "MISLABELLED" if offered(catalog, row) else ""
    independent = float(row["independent_usd"])
    off = [price for price in offered(catalog, row) if abs(price / independent - 1.0) > TOLERANCE]
    return "WRONG" if off else ""


@pytest.mark.parametrize("found", ["WRONG", "MISLABELLED"])
def test_no_price_is_what_the_audit_found_wrong(catalog: Catalog, found: str) -> None:
    rows = [row for row in audited("prices") if row["verdict"] == found]
    assert len(rows) == {"WRONG": 66, "MISLABELLED": 7}[found]
    assert [(row["instance_type"], row["region"]) for row in rows if verdict(catalog, row)] == []


def test_no_server_is_what_the_audit_found_wrong(catalog: Catalog) -> None:
    rows = [row for row in audited("servers") if row["verdict"].startswith("WRONG") and row["field"] != NOT_COUNTED]
    servers = catalog.servers()
    assert {row["field"] for row in rows} == {"network_gbps", "deprecated"}
    wrong = []
    for row in rows:
        at = catalog.server_rows[row["provider"], row["instance_type"]]
        if row["field"] == "deprecated":
            right = servers.status[at] == "retired"
        else:
            right = servers.network_bytes_per_s[at] * 8 / 1e9 == pytest.approx(float(row["independent"]))
        wrong += [] if right else [row["instance_type"]]
    assert wrong == []


def test_metal_servers_cost_what_their_virtual_twins_cost(catalog: Catalog) -> None:
    table, names = catalog.all_offers(), catalog.servers()
    listed = np.flatnonzero((table.purchase_index == PURCHASE_CODES["on-demand"]) & ~table.is_quarantined)
    prices: dict[tuple[str, str, float, str], dict[bool, list[float]]] = {}
    for row in listed.tolist():
        server = int(table.server_index[row])
        if names.provider[server] in ("aws", "aws-gov"):
            name, region = names.instance_type[server], table.regions[table.region_index[row]]
            key = (names.provider[server], name.split(".")[0], float(names.vcpus[server]), region)
            prices.setdefault(key, {}).setdefault(".metal" in name, []).append(float(table.price_usd_per_h[row]))
    pairs = [(min(both[True]), min(both[False])) for both in prices.values() if len(both) == 2]
    ratio = np.array([metal / twin for metal, twin in pairs])
    assert len(ratio) > 500
    assert not np.any((ratio > 1.05) & (ratio < 1.12))
    assert np.count_nonzero(np.abs(ratio - 1.0) > 0.03) <= 3


def test_google_sells_no_card_on_demand_that_it_sells_as_spot_only(catalog: Catalog) -> None:
    for name in ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a3-ultragpu-8g", "a4-highgpu-8g"):
        offers = catalog.offers_of(catalog.server_rows["gcp", name])
        assert PURCHASE_CODES["on-demand"] not in offers.purchase_index, name
    assert PURCHASE_CODES["spot"] in catalog.offers_of(catalog.server_rows["gcp", "a3-highgpu-1g"]).purchase_index


def test_spot_prices_of_accelerators_at_amazon_are_quotes(catalog: Catalog) -> None:
    table = catalog.all_offers(has_accelerator=True)
    own = np.array([name.startswith("aws") for name in table.servers.provider], dtype=np.bool_)[table.server_index]
    spot = own & (table.purchase_index == PURCHASE_CODES["spot"])
    assert np.count_nonzero(spot) > 850
    assert not table.is_estimate[spot].any()
    assert {table.as_of_dates[code] for code in table.as_of_index[spot].tolist()} == {"2026-08-10"}


def test_the_types_that_the_audit_found_retired_are_refused_by_date(catalog: Catalog) -> None:
    servers = catalog.servers()
    gone = [
        (servers.provider[at], servers.instance_type[at])
        for at in range(len(servers))
        if servers.status[at] == "retired" and "retired 2026" in servers.note[at] + servers.source[at]
    ]
    assert len(gone) >= 46
    assert ("azure", "Standard_NV12s_v3") in gone
    assert ("gcp", "z3-highmem-88") in gone
