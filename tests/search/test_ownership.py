"""Buy or rent against the catalog: rents that compare, break-evens that follow, and the
section of a plan."""

from __future__ import annotations

import math

import pytest

from rightfit.errors import QuantityError, UnknownNameError
from rightfit.estimation.ownership import own_server
from rightfit.market import Catalog
from rightfit.planner.plan import plan
from rightfit.search.ownership import own_of, own_section, rents
from rightfit.workload import Workload


def test_rents_are_of_as_many_cards_and_quoted(catalog: Catalog) -> None:
    server = own_server("A100-SXM-80GB", 8)
    for rent in rents(catalog, server, cloud="aws"):
        assert rent.instance_type == "p4de.24xlarge"
        assert (rent.purchase == "spot") <= (rent.as_of == "2026-08-10")  # quotes of the spot feed, no estimates
        if rent.is_committed:
            assert math.isnan(rent.break_even)
            assert rent.rent_year_usd == pytest.approx(rent.usd_per_h * 8760)
        else:
            cost = server.cost().total_usd(rent.break_even)
            assert cost[0] == pytest.approx(rent.usd_per_h * 8760 * rent.break_even)
            assert rent.break_even_low < rent.break_even < rent.break_even_high


def test_a_name_means_a_card_or_a_server(catalog: Catalog) -> None:
    assert own_of("H100", catalog=catalog).content["count"] == 8
    one = own_of("gcp/a2-highgpu-1g", catalog=catalog).content
    assert (one["accelerator"], one["count"], one["is_part"]) == ("A100-SXM-40GB", 1, True)
    with pytest.raises(UnknownNameError, match="unknown accelerator or server 'Q900'"):
        own_of("Q900", catalog=catalog)


def test_figures_as_people_write_them(catalog: Catalog) -> None:
    texts = {"money": {"capex_usd": "720000cny"}, "share": {"utilisation": "50%"}, "number": {"years": 5}}
    section = own_of("A100", catalog=catalog, texts=texts, rent="20usd")
    assert section.content["capex_usd"] == pytest.approx(100_000)
    assert section.content["utilisation"] == 0.5
    assert [rent["usd_per_h"] for rent in section.content["rents"]] == [20.0]
    with pytest.raises(QuantityError, match="rent: cannot read '20'"):
        own_of("A100", catalog=catalog, rent="20")
    with pytest.raises(QuantityError, match="utilisation: cannot read 'half' as a share"):
        own_of("A100", catalog=catalog, texts={"share": {"utilisation": "half"}})


def test_a_plan_with_its_own_section(catalog: Catalog) -> None:
    found = plan(Workload(model="7B", data="50Mtok", gpu=("A100",), cloud=("aws",), purchase=("on-demand",)), catalog=catalog, top=1)
    section = own_section(found, catalog)
    assert section is not None
    assert found.best is not None
    job = section.content["job"]
    hours = found.best.estimate["total_time_s"].mid / 3600
    server = own_server(found.best.accelerator.name, found.best.accelerator.count_per_node)
    assert job["own_usd"] == pytest.approx(found.best.nodes * hours * server.usd_per_busy_h)
    assert job["rent_usd"] == found.best.cost.total_usd
    keys = [reason.key for reason in section.reasons]
    assert keys[:2] == ["own_hour", "own_job"]
    assert keys[-2:] == ["own_security", "own_elasticity"]


def test_what_cannot_be_bought_is_said(catalog: Catalog) -> None:
    found = plan(Workload(model="7B", task="serve", rate="1/s", gpu=("TPU-v5e",)), catalog=catalog, top=1)
    section = own_section(found, catalog)
    assert section is None or [reason.key for reason in section.reasons] == ["own_unsold"]
