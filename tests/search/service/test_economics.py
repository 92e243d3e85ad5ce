"""Other ways to pay for a service: APIs, serverless, spot with fallback, weight formats."""

from __future__ import annotations

import datetime
import itertools
import math
from typing import Any

import pytest

import rightfit
from rightfit.errors import ContradictionError, InputError
from rightfit.facts import table
from rightfit.facts.api_prices import api_prices, bare_name, family_and_size, generation, price_to_expect
from rightfit.physics import scaling
from rightfit.search.answer import Plan

LLAMA = "meta-llama/Meta-Llama-3-8B"
CHAT: dict[str, Any] = {"task": "serve", "rate": "10/s", "input_tokens": 1000, "output_tokens": 250}
MONTH_S = 730 * 3600


def section(plan: Plan, name: str) -> dict[str, Any]:
    found = {one.name: one for one in plan.sections}
    return dict(found[name].content)


@pytest.fixture(scope="module")
def chat() -> Plan:
    return rightfit.plan(LLAMA, **CHAT, api_price="0.5/1.5", top=1)


def test_api_month_by_hand(chat: Plan) -> None:
    api = section(chat, "api")
    assert api["price"]["match"] == "user"
    assert api["api_usd"] == pytest.approx(10 * MONTH_S * (1000 * 0.5 + 250 * 1.5) / 1e6)


def test_api_break_even_is_where_both_cost_the_same(chat: Plan) -> None:
    api, best = section(chat, "api"), chat.best
    assert best is not None
    unit_usd = best.cost.total_usd / best.nodes * best.facts["servers_per_replica"]
    requests = unit_usd / ((1000 * 0.5 + 250 * 1.5) / 1e6)
    assert api["break_even_tokens_per_month"] == pytest.approx(requests * 1250)
    assert api["break_even_rate_per_s"] == pytest.approx(requests / MONTH_S)


def test_api_that_costs_next_to_nothing_is_never_beaten() -> None:
    plan = rightfit.plan(LLAMA, **CHAT, api_price="0.001/0.001", top=1)
    assert math.isinf(section(plan, "api")["break_even_tokens_per_month"])
    assert plan.to_dict()["sections"]["api"]["break_even_tokens_per_month"] is None
    assert "serve_api_never" in {reason.key for one in plan.sections for reason in one.reasons}


def test_price_in_yuan_is_a_price_in_dollars_at_the_dated_rate() -> None:
    from rightfit.workload import Workload
    from rightfit.workload.amounts import exchange_rate

    rate = exchange_rate("cny").units_per_usd
    workload = Workload(model="7B", task="serve", api_price="1/4cny")
    assert workload.api_input_usd_per_million == pytest.approx(1 / rate)
    assert workload.api_output_usd_per_million == pytest.approx(4 / rate)
    assert Workload(model="7B", task="serve", api_price="$0.2").api_input_usd_per_million == 0.2


@pytest.mark.parametrize("text", ["a/b", "1/2/3", "-1/2", "1/", "", "0/0", "1e9/1", "1/2btc"])
def test_prices_that_are_none_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as raised:
        rightfit.plan(LLAMA, task="serve", api_price=text)
    assert "\n" not in str(raised.value)


def test_names_of_one_model_are_one() -> None:
    assert bare_name("meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo") == bare_name("Llama-3.1-8B") == "llama-3-1-8b"
    assert bare_name("Qwen/Qwen3-235B-A22B-fp8-tput") == bare_name("Qwen3-235B-A22B")
    assert bare_name("llama-3-8b") != bare_name("llama-3.1-8b")
    assert bare_name("llama3.1-8b-instruct") == bare_name("meta-llama/Llama-3.1-8B")
    assert bare_name("mistralai/Mistral-7B-Instruct-v0.3") == bare_name("Mistral-7B-v0.1")
    versions = ("DeepSeek-V2.5", "DeepSeek-V3", "DeepSeek-V3.1", "DeepSeek-V3.2", "DeepSeek-V4-Flash", "DeepSeek-R1")
    assert len({bare_name(f"deepseek-ai/{name}") for name in versions}) == len(versions)
    assert family_and_size("mistralai/Mixtral-8x7B-Instruct-v0.1") == ("mixtral", "8x7")
    assert family_and_size("Qwen/Qwen3-30B-A3B") == ("qwen", "30-3")


def test_published_prices_are_of_the_model_or_say_that_they_are_not() -> None:
    assert {price.match for price in api_prices("meta-llama/Meta-Llama-3-8B")} == {"same"}
    assert {price.match for price in api_prices("hfl/llama-3-chinese-8b")} == {"similar"}
    assert api_prices("no-such-thing") == ()
    for model in ("meta-llama/Meta-Llama-3-8B", "hfl/llama-3-chinese-8b"):
        assert all(price.source and price.as_of and price.output_usd_per_million > 0 for price in api_prices(model))


def test_no_price_of_another_generation_stands_for_a_model() -> None:
    """Of every name of the table with something after it, so that none is the model itself."""
    judged = 0
    for model in sorted({row["model"] for row in table("api_prices")}):
        found = [one for one in api_prices(f"{model}-zz") if one.match == "similar"]
        assert {generation(one.model) for one in found} <= {generation(model)}, model
        assert {family_and_size(one.model) for one in found} <= {family_and_size(model)}, model
        judged += bool(found)
    assert judged > 100


def test_llama_2_and_drafts_say_nothing_of_llama_3_1() -> None:
    asked = "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4"
    assert {bare_name(one.model) for one in api_prices(asked)} == {"llama-3-1-70b"}
    assert generation("llama-v2-70b") == generation("Llama2-70b-chat") == "2" != generation("Llama-3.1-70B") == "3"
    assert family_and_size("llama-v3.1-70b-instruct-1b") == ("", "")


def test_a_seller_has_one_price_for_a_model_and_none_is_out_of_date() -> None:
    rows = table("api_prices")
    keys = [(row["model"].casefold(), row["provider"]) for row in rows]
    assert len(set(keys)) == len(keys)
    dates = sorted(datetime.date.fromisoformat(row["as_of"]) for row in rows)
    assert dates[-1] - dates[0] <= datetime.timedelta(days=180)


def test_a_price_that_no_other_seller_bears_out_does_not_decide() -> None:
    """Of every model of the table with two sellers or more."""
    judged = 0
    for model in {row["model"] for row in table("api_prices")}:
        prices = api_prices(model)
        each = sorted(one.usd_of(4.0, 1.0) for one in prices)
        expected = price_to_expect(prices, input_tokens=4.0, output_tokens=1.0).usd_of(4.0, 1.0)
        if len(prices) < 2:
            assert expected == each[0]
            continue
        judged += 1
        half = each[len(each) // 2] / 2.0
        assert expected <= each[len(each) // 2]
        if expected < each[-1]:
            assert expected >= half or min(one for one in each if one > expected or each.count(one) > 1) <= 1.5 * expected
        for one, following in itertools.pairwise(each):
            assert one >= expected or (one < half and following > 1.5 * one)
    assert judged > 100


def test_model_without_a_price_says_so() -> None:
    plan = rightfit.plan("1.7B", task="serve", rate="1/s", top=1)
    assert section(plan, "api") == {"prices": [], "price": None}


def test_serverless_is_cheaper_below_its_break_even_rate_only() -> None:
    rare = rightfit.plan("qwen2.5-0.5b", task="serve", rate="5/day", top=1)
    busy = rightfit.plan("qwen2.5-0.5b", task="serve", rate="5/s", top=1)
    for plan, expected in ((rare, True), (busy, False)):
        assert plan.best is not None
        for offer in section(plan, "serverless")["offers"]:
            if offer["monthly_usd"] is not None:
                assert (offer["monthly_usd"] < plan.best.cost.total_usd) is expected
                assert (plan.best.facts["rate_per_s"] < offer["break_even_rate_per_s"]) is expected
                assert offer["cold_start_s"] > 60


def test_serverless_without_a_price_is_listed_without_figures() -> None:
    plan = rightfit.plan("qwen2.5-0.5b", task="serve", rate="1/s", top=1)
    offers = {offer["product"] + offer["accelerator"]: offer for offer in section(plan, "serverless")["offers"]}
    unknown = offers["Cloud Run GPURTX PRO 6000"]
    assert unknown["monthly_usd"] is None
    assert "not found" in unknown["note"]


def test_spot_mix_is_that_of_the_formula() -> None:
    plan = rightfit.plan(LLAMA, **CHAT, cloud="aws", top=1)
    spot, best = section(plan, "spot"), plan.best
    assert best is not None
    servers = best.nodes
    month = best.cost.by_purchase  # type: ignore[attr-defined]
    up = 1.0 / (1.0 - math.log1p(-spot["interrupted_share_per_month"]) / 730 * spot["restore_s"] / 3600)
    assert spot["shortfall_probability"] == pytest.approx(scaling.binomial_below(spot["spot"], up, servers - spot["on_demand"]), rel=1e-6)
    assert spot["shortfall_probability"] <= 0.001
    expected = month["on-demand"] / servers * spot["on_demand"] + month["spot"] / servers * spot["spot"]
    assert spot["monthly_usd"] == pytest.approx(expected)
    assert spot["saving_usd"] == pytest.approx(best.cost.terms["servers_usd"] - expected)


def test_formats_say_memory_speed_cost_and_evidence() -> None:
    plan = rightfit.plan(LLAMA, task="serve", rate="10/s", top=1)
    rows = {row["format"]: row for row in section(plan, "formats")["formats"]}
    assert rows["fp8"]["weights_bytes"] == pytest.approx(8.03e9, rel=0.01)
    assert rows["int4-awq"]["weights_bytes"] == pytest.approx(4.015e9, rel=0.01)
    assert all(row["evidence"] and row["source"] and row["monthly_usd"] > 0 and row["tpot_s"] > 0 for row in rows.values())


def test_no_formats_where_the_user_chose_one() -> None:
    plan = rightfit.plan(LLAMA, task="serve", rate="10/s", quantization="awq", top=1)
    assert "formats" not in {one.name for one in plan.sections}


def test_batch_jobs_are_held_against_an_api_too() -> None:
    plan = rightfit.plan(LLAMA, task="batch", data="100ksamples", input_tokens=1000, output_tokens=250, api_price="0.1/0.2", top=1)
    assert section(plan, "api")["api_usd"] == pytest.approx(1e5 * (1000 * 0.1 + 250 * 0.2) / 1e6)


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"adapter_rank": 8}, "add adapters"),
        ({"draft_tokens": 3}, "add speculative"),
        ({"prefix_share": 0.5, "cached_tokens": 100}, "give one"),
        ({"cached_tokens": 2000, "input_tokens": 1000}, "at most 999"),
    ],
)
def test_options_that_need_or_exclude_one_another(wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(ContradictionError, match=words):
        rightfit.plan(LLAMA, task="serve", **wishes)


@pytest.mark.parametrize("place", [{"residency": "eu"}, {"residency": "gdpr"}, {"country": "IN"}, {"country": "CN"}])
def test_no_api_stands_against_a_wish_that_is_bound_to_an_area(place: dict[str, str]) -> None:
    """Nobody says where an API computes: it is neither the first line nor a section, unless the
    user gives its price."""
    bound = rightfit.plan("Qwen/Qwen2.5-32B-Instruct", task="serve", rate="2/s", top=1, **place)
    assert bound.best is not None
    assert section(bound, "api")["price"] is None
    assert not [one for one in bound.sections if one.name == "serverless"]
    given = rightfit.plan("Qwen/Qwen2.5-32B-Instruct", task="serve", rate="2/s", top=1, api_price="0.5/1.5", **place)
    assert section(given, "api")["price"]["match"] == "user"
