"""Plans with your own prices and limits: what wins, what is refused and by how little, who pays."""

from __future__ import annotations

from pathlib import Path

import pytest

from rightfit.errors import FileInputError, UnknownNameError
from rightfit.market import Catalog
from rightfit.planner.plan import plan
from rightfit.search.offers import open_priced, with_price_book
from rightfit.workload import Workload

WISH = {"model": "7B", "data": "50Mtok", "gpu": ("A100",), "cloud": ("aws",), "purchase": ("on-demand",)}
BOOK = """
[[server]]
name = "rack"
gpu = "A100-SXM-80GB"
gpus = 8
memory = "1TB"
price = 4
country = "CN"
servers = 1
[[owned]]
name = "ours"
gpu = "RTX-4090"
gpus = 4
memory = "256GB"
[[credit]]
provider = "gcp"
amount = "3usd"
"""


@pytest.fixture
def mine(catalog: Catalog, tmp_path: Path) -> Catalog:
    (tmp_path / "book.toml").write_text(BOOK, encoding="utf-8")
    return with_price_book(catalog, tmp_path / "book.toml")


def test_own_servers_are_planned_and_paid_by_the_second(mine: Catalog) -> None:
    best = plan(Workload(model="7B", data="50Mtok", gpu=("A100-SXM-80GB",), cloud=("own",)), catalog=mine, top=1).best
    assert best is not None
    assert (best.provider, best.instance_type, best.nodes) == ("private", "rack", 1)
    assert best.cost.total_usd == pytest.approx(4 * best.estimate["total_time_s"].mid / 3600, rel=0.01)
    owned = plan(Workload(model="7B", method="qlora", data="50Mtok", purchase=("owned",)), catalog=mine, top=1).best
    assert owned is not None
    assert (owned.instance_type, owned.purchase) == ("ours", "owned")


def test_one_server_cannot_be_two(mine: Catalog) -> None:
    found = plan(Workload(model="7B", data="50Mtok", cloud=("own",), purchase=("on-demand",)), catalog=mine, top=20)
    assert {option.nodes for option in found.options} == {1}


def test_a_credit_pays_and_is_a_term(mine: Catalog, catalog: Catalog) -> None:
    wish = Workload(**{**WISH, "cloud": ("gcp",)})
    ours, theirs = plan(wish, catalog=mine, top=1).best, plan(wish, catalog=catalog, top=1).best
    assert ours is not None
    assert theirs is not None
    assert ours.cost.terms["credit_usd"] == pytest.approx(-3.0)
    assert sum(ours.cost.terms.values()) == pytest.approx(ours.cost.total_usd)
    assert ours.cost.total_usd == pytest.approx(theirs.cost.total_usd - 3.0)


def test_a_quota_refuses_with_the_least_change(catalog: Catalog) -> None:
    found = plan(Workload(**WISH, quota="4 A100 on aws"), catalog=catalog, top=3)
    assert found.best is None
    refusal = next(rejection for rejection in found.rejected if rejection.criterion == "quota")
    assert (refusal.needed, refusal.had) == (4.0, 8.0)
    assert refusal.nearest is not None
    assert refusal.nearest.change.key == "change_quota"
    assert refusal.nearest.change.params == {"count": 8.0, "allowed": 4.0}
    assert all("quota" in group for group in found.blame)
    assert plan(Workload(**WISH, quota="8 A100 on aws"), catalog=catalog, top=1).best is not None


def test_services_keep_quotas_too(catalog: Catalog) -> None:
    wish = {**WISH, "task": "serve", "rate": "3/s"}
    wish.pop("data")
    refused = plan(Workload(**wish, quota="4 A100"), catalog=catalog, top=1)
    assert refused.best is None
    assert any(rejection.criterion == "quota" for rejection in refused.rejected)


def test_data_stay_where_the_law_holds(catalog: Catalog) -> None:
    wish = {**WISH, "cloud": ()}
    found = plan(Workload(**wish, residency="eu"), catalog=catalog, top=30)
    assert found.options
    assert {option.facts["country"] for option in found.options} <= {"DE", "FR", "NL", "IE", "SE", "FI", "IT", "ES", "PL", "BE"}
    assert (
        plan(Workload(**{**WISH, "cloud": ("runpod",)}, residency="eu"), catalog=catalog, top=1).best is None
    )  # says nowhere where it stands
    assert plan(Workload(**wish, residency="eu", country="US"), catalog=catalog, top=1).best is None
    with pytest.raises(UnknownNameError, match="unknown residency 'moon'; allowed: eu, eea, gdpr, cn-mainland"):
        plan(Workload(**wish, residency="moon"), catalog=catalog)


def test_the_book_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTFIT_PRICE_BOOK", str(tmp_path / "nowhere.toml"))
    with pytest.raises(FileInputError, match=r"nowhere.toml: No such file"):
        open_priced()
    assert not hasattr(open_priced("none"), "book")
