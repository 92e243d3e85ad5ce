"""Whom one rents from: tiers of sellers, believable amounts, ends of types, and prices
that may not lead."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import rightfit
from rightfit.errors import InputError, UnknownNameError
from rightfit.explain.sheets import plan_sheet
from rightfit.facts.devices import is_unreleased
from rightfit.market import names, offers, open_catalog, sellers
from rightfit.market.offers import PRICE_KINDS, PURCHASES
from rightfit.market.sellers import starts
from rightfit.search.criteria import CRITERIA
from rightfit.search.offers import NO_PLACE, open_market, whole_market
from rightfit.search.rank import behind

LORA = {"model": "Qwen/Qwen2.5-7B", "task": "finetune", "method": "lora", "data": "10Mtok"}
SERVICE = {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "rate": "2/s"}
WISHES = {
    "language": LORA,
    "samples": {"model": "resnet50", "task": "train", "data": "1Mimages"},
    "serving": SERVICE,
    "passes": {"model": "bert-base-uncased", "task": "serve", "rate": "500/s"},
    "tables": {"model": "random-forest", "task": "train", "data": "11Mrows", "columns": 28},
}


def tier(option: rightfit.Option) -> int:
    return sellers.tier_of(option.provider, option.purchase)


def first_line(found: rightfit.Plan) -> str:
    return str(plan_sheet(found, "en")[0].headline)


# ---- tiers


def test_every_seller_has_a_tier_with_its_reason_and_source() -> None:
    known = {seller for seller, _ in sellers.tiers()}
    assert set(names.names_data()["providers"]) <= known
    assert {sellers.tier_of("runpod"), sellers.tier_of("runpod", "on-demand-community")} == {3, 4}
    assert sellers.tier_of("private") == sellers.OWN
    assert all(row["criteria"] and row["source"] for row in sellers._rows("sellers"))


@pytest.mark.parametrize(
    ("words", "highest", "named"),
    [
        ((), 2, ()),
        (("major",), 2, ()),
        (("hyperscaler",), 1, ()),
        (("all",), 4, ()),
        (("RunPod", "datacrunch"), 0, ("runpod", "verda")),
        (("hyperscaler", "nebius"), 1, ("nebius",)),
    ],
)
def test_sellers_in_words(words: tuple[str, ...], highest: int, named: tuple[str, ...]) -> None:
    assert sellers.read_sellers(words) == sellers.Sellers(highest, named)


def test_an_unknown_seller_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean runpod") as caught:
        rightfit.plan(**LORA, sellers="runpodd")
    assert caught.value.field == "sellers"


@pytest.mark.parametrize("family", WISHES)
def test_the_default_is_tier_one_and_two_in_every_family(family: str) -> None:
    found = rightfit.plan(**WISHES[family], top=10)
    assert found.options
    assert {tier(option) for option in found.options} <= {1, 2}
    assert not {option.provider for option in found.options} & set(names.partitions())


@pytest.mark.parametrize("family", WISHES)
def test_sellers_that_are_named_are_the_only_ones_in_every_family(family: str) -> None:
    found = rightfit.plan(**WISHES[family], sellers=("gcp", "azure"), top=10)
    assert {option.provider for option in found.options} <= {"gcp", "azure"}
    assert found.options


def test_others_stand_below_the_line_with_the_difference() -> None:
    found = rightfit.plan(**LORA, purchase="on-demand", top=5)
    [section] = [section for section in found.sections if section.name == "sellers"]
    best = found.options[0]
    assert section.content["total_usd"] < best.cost.total_usd
    assert section.content["saving_usd"] == pytest.approx(best.cost.total_usd - section.content["total_usd"])
    assert section.content["seller_tier"] > 2 or section.reasons[0].key.startswith("by_hand")
    everybody = rightfit.plan(**LORA, purchase="on-demand", sellers="all", top=5)
    assert "sellers" not in {section.name for section in everybody.sections}
    assert min(option.cost.total_usd for option in everybody.options) <= section.content["total_usd"] + 1.0  # less does not decide


def test_a_default_that_leaves_nothing_is_widened_aloud() -> None:
    found = rightfit.plan(**LORA, gpu="RTX-4090", top=3)
    assert {option.provider for option in found.options} == {"runpod"}
    assert "sellers" in {one.field for one in found.assumptions}
    assert "seller_tier_3" in {reason.key for reason in found.options[0].warnings}
    asked = rightfit.plan(**LORA, gpu="RTX-4090", sellers="major", top=3)
    assert not asked.options
    assert "seller" in {rejection.criterion for rejection in asked.rejected}


@pytest.mark.parametrize("family", WISHES)
def test_what_leads_is_rented_by_a_launcher_in_every_family(family: str) -> None:
    found = rightfit.plan(**WISHES[family], top=10)
    assert all(starts(option.provider, option.purchase) for option in found.options)
    everybody = rightfit.plan(**WISHES[family], sellers="all", top=10)
    assert [starts(option.provider, option.purchase) for option in everybody.options] == [
        "seller_by_hand" not in {reason.key for reason in option.warnings} for option in everybody.options
    ]


def test_a_seller_without_a_launcher_stands_below_the_line_or_is_named() -> None:
    wish = {**SERVICE, "gpu": "RTX-A6000"}
    refused = rightfit.plan(**wish, sellers="major", top=1)
    assert not [option for option in refused.options if option.provider == "hyperstack"]
    named = rightfit.plan(**wish, cloud="hyperstack", top=1)
    assert [option.provider for option in named.options] == ["hyperstack"]
    assert "seller_by_hand" in {reason.key for reason in named.options[0].warnings}
    both = rightfit.plan(**SERVICE, cloud=("hyperstack", "verda"), sellers=("hyperscaler", "verda"), top=5)
    assert {option.provider for option in both.options} <= {"verda"}


def test_a_cloud_that_is_named_is_trusted() -> None:
    assert {option.provider for option in rightfit.plan(**LORA, cloud="verda", top=3).options} == {"verda"}


# ---- partitions


def test_a_cloud_does_not_mean_its_partitions() -> None:
    offers = open_market(open_catalog()).offers
    aws = np.array([name == "aws" for name in offers.servers.provider], dtype=np.bool_)[offers.server_index]
    regions = {offers.regions[code] for code in np.unique(offers.region_index[aws]).tolist()}
    assert regions
    assert not [name for name in regions if name.startswith(("cn-", "us-gov-"))]


def test_a_partition_is_taken_where_it_is_named_and_its_account_is_spoken_of() -> None:
    for wish in ({"cloud": "aws-cn"}, {"region": "cn-northwest-1"}, {"cloud": "aws-gov"}):
        best = rightfit.plan(**LORA, **wish, top=1).options[0]
        assert best.provider in names.partitions()
        assert "seller_account" in {reason.key for reason in best.warnings}


# ---- amounts


def test_amounts_fall_with_the_tier_and_spot_is_a_share() -> None:
    for accelerator in ("H100-SXM-80GB", ""):
        amounts = [sellers.most_at_once(name, accelerator, "on-demand") for name in ("aws", "hyperstack", "verda", "cudo")]
        assert amounts == sorted(amounts, reverse=True)
    assert sellers.most_at_once("aws", "H100-SXM-80GB", "spot") < sellers.most_at_once("aws", "H100-SXM-80GB", "on-demand")
    assert sellers.most_at_once("lambda", "B200-SXM-180GB", "on-demand") < sellers.most_at_once("lambda", "A10", "on-demand")
    assert sellers.most_at_once("private", "H100-SXM-80GB", "owned") == float("inf")
    assert {row["basis"] for row in sellers._rows("availability")} == {"published", "guess"}


def test_what_must_end_within_the_day_takes_what_is_found_free() -> None:
    most = [sellers.most_at_once("aws", "H100-SXM-80GB", "on-demand", at_notice=flag) for flag in (True, False)]
    assert most == sorted(most)
    assert sellers.most_at_once("aws", "H100-SXM-80GB", "reserved-1y", at_notice=True) >= most[1]
    wish = {"model": "8B", "task": "train", "data": "10Btok"}
    hurried = rightfit.plan(**wish, deadline="1h")
    assert all(option.purchase == "capacity-block" or option.num_accelerators <= most[0] for option in hurried.options)
    assert {"change_filter", "change_stock"} & {reason.key for reason in hurried.advice} or hurried.options
    promised = rightfit.plan(**wish, deadline="1h", quota="512 H100")
    assert promised.options[0].num_accelerators > most[0]
    assert "large_order" in {reason.key for reason in promised.options[0].warnings}


def test_what_a_seller_cannot_have_is_refused_for_that_and_a_quota_overrules_it() -> None:
    wish = {**SERVICE, "rate": "3000/s", "gpu": "L4", "cloud": "gcp", "purchase": "on-demand"}
    refused = rightfit.plan(**wish, top=1)
    assert "stock" in {rejection.criterion for rejection in refused.rejected}
    assert all(option.num_accelerators <= 512 for option in refused.options)
    allowed = rightfit.plan(**wish, quota="100000 L4", top=1)
    assert allowed.options
    assert "stock" not in {rejection.criterion for rejection in allowed.rejected}


def test_a_number_of_servers_that_is_allowed_overrules_the_guess() -> None:
    wish = {"model": "Qwen/Qwen2.5-7B", "task": "train", "data": "20Btok", "objective": "time", "cloud": "aws", "purchase": "spot"}
    guessed = rightfit.plan(**wish, gpu="H100", top=1).options[0]
    assert guessed.num_accelerators <= 128
    assert rightfit.plan(**wish, gpu="H100", max_nodes=64, top=1).options[0].num_accelerators >= guessed.num_accelerators


# ---- ends of types


def test_a_type_is_refused_from_the_day_and_warned_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    wish = {"model": "random-forest", "task": "train", "data": "1Mrows", "columns": 5, "cloud": "azure", "purchase": "on-demand"}
    server = "azure/Standard_F16s_v2"
    monkeypatch.setenv("RIGHTFIT_TODAY", "2028-11-14")
    before = rightfit.estimate(**wish, on=server)
    assert {"server_retires", "server_restricted"} <= {reason.key for reason in before.options[0].warnings}
    assert rightfit.why(server, **wish).standing[0].key != "why_refused"
    monkeypatch.setenv("RIGHTFIT_TODAY", "2028-11-15")
    after = rightfit.why(server, **wish)
    assert after.standing[0].params["criterion"] == "status"
    assert rightfit.check("Standard_F16s_v2")[0].explanation_en.count("2028-11-15") == 1


def test_every_pattern_of_an_end_names_a_type_or_a_family_that_is_gone() -> None:
    servers = open_catalog().servers()
    met = {
        event.family
        for provider, name in zip(servers.provider, servers.instance_type, strict=True)
        for event in offers.events_of(provider, name)
    }
    listed = {event.family for rows in offers._rows().values() for _, event in rows}
    assert listed - met <= {"Av2/Amv2", "Av2", "G", "Gs", "NP"}


# ---- prices that may not lead


@pytest.mark.parametrize("family", WISHES)
def test_a_price_that_nobody_asks_never_leads_one_that_somebody_does(family: str) -> None:
    found = rightfit.plan(**WISHES[family], sellers="all", purchase=("spot", "on-demand"), top=10)
    derived = [bool(option.facts["is_estimate"]) for option in found.options]
    assert derived == sorted(derived)
    for option in found.options:
        assert option.facts["price_kind"] in PRICE_KINDS
        assert option.to_dict()["seller_tier"] == tier(option)


def test_where_all_are_derived_they_keep_their_order_and_the_first_line_says_so() -> None:
    assert behind(np.array([2.0, 1.0]), np.array([True, True])).tolist() == [2.0, 1.0]
    assert np.argsort(behind(np.array([5.0, 1.0, 0.1, 3.0]), np.array([False, False, True, False]))).tolist() == [1, 3, 0, 2]
    found = rightfit.plan(**LORA, cloud="oci", purchase="spot", top=3)
    assert found.options[0].facts["price_kind"] == "formula"
    assert "not a quote" in first_line(found)


def test_an_old_price_says_what_was_listed_and_when() -> None:
    found = rightfit.plan(**LORA, purchase="spot", cloud="aws", top=1)
    best = found.options[0]
    assert best.facts["price_is_old"]
    assert "price_moved" in {reason.key for reason in best.warnings}
    assert f"on {best.price_as_of}" in first_line(found)
    assert "(80%)" in first_line(found)


def test_what_is_older_than_the_evidence_leads_nothing_fresh() -> None:
    market = whole_market(open_catalog())
    assert market.doubt is not None
    assert market.doubt.is_beyond.any()
    for wish in (LORA, {**LORA, "cloud": "alicloud"}, {**LORA, "country": "cn"}, {**LORA, "sellers": "all"}):
        found = rightfit.plan(**wish, top=10)
        beyond = [option.facts["price_is_beyond"] or option.facts["is_estimate"] for option in found.options]
        assert beyond == sorted(beyond), wish
        if beyond[0] and not found.options[0].facts["is_estimate"]:
            assert found.options[0].price_as_of in first_line(found)
            assert "too old to rely on" in first_line(found)


def test_no_option_is_in_a_place_that_is_none() -> None:
    offers = whole_market(open_catalog()).offers
    assert not {offers.regions[code] for code in np.unique(offers.region_index).tolist()} & set(NO_PLACE)


def test_the_criteria_have_their_place() -> None:
    assert CRITERIA.index("seller") == CRITERIA.index("cloud") + 1
    assert CRITERIA.index("stock") == CRITERIA.index("quota") + 1
    assert len(CRITERIA) < 31  # bits of an int32
    assert dataclasses.is_dataclass(sellers.Sellers)
    assert "on-demand-community" in PURCHASES


# ---- software


@pytest.mark.parametrize(
    "wish",
    [
        {"model": "resnet50", "data": "10kimages"},
        {"model": "bert-base-uncased", "task": "finetune", "data": "10ksamples"},
        {"model": "openai/clip-vit-base-patch32", "task": "finetune", "data": "10ksamples"},
        {"model": "whisper-small", "task": "batch", "data": "100h"},
    ],
    ids=lambda wish: wish["model"],
)
def test_what_no_release_runs_on_is_taken_by_name_alone(wish: dict[str, str]) -> None:
    plan = rightfit.plan(**wish)
    assert not [option.instance_type for option in plan.options if is_unreleased(option.accelerator.name)]


def test_a_card_that_no_release_runs_on_is_told_of_where_it_is_asked_for() -> None:
    best = rightfit.plan(model="resnet50", data="10kimages", gpu="T4G", top=1).options[0]
    assert best.accelerator.name == "T4G"
    assert "no_release" in {reason.key for reason in best.warnings}


# ---- the age of prices is counted by the clock


def test_prices_get_older_with_the_days(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = open_catalog()
    shares, said = [], []
    for day in ("2026-11-09", "2027-01-20", "2028-03-01", "2031-01-01"):
        monkeypatch.setenv("RIGHTFIT_TODAY", day)
        market = whole_market(catalog)
        assert market is whole_market(catalog)
        assert market.doubt is not None
        shares.append((float(np.mean(market.doubt.is_old)), float(np.mean(market.offers.is_stale))))
        best = rightfit.plan(**LORA, catalog=catalog, top=1).options[0]
        said.append({reason.key for reason in best.warnings} & {"price_moved", "price_stale"})
    assert shares == sorted(shares)
    assert shares[1][0] > shares[0][0]
    assert shares[-1][1] == 1.0
    assert said[-1] == {"price_stale"}
    assert said[0] != said[-1]


@pytest.mark.parametrize("day", ["tomorrow", "2026-13-01", "9999999", "2026-11"])
def test_a_day_that_is_none_is_said(day: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTFIT_TODAY", day)
    with pytest.raises(InputError, match="RIGHTFIT_TODAY"):
        offers.today()
