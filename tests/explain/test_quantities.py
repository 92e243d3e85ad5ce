"""Numbers with units, as readers of each language write them."""

from __future__ import annotations

import math

import pytest

from rightfit import api
from rightfit.explain import quantities as q
from rightfit.messages import LANGS


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.04567, "0.0457"), (3.0, "3"), (12.345, "12.3"), (1234.5, "1,234"), (123456, "123,456"), (math.inf, "∞"), (math.nan, "-")],
)
def test_plain_numbers(value: float, text: str) -> None:
    assert q.plain(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(80 * 2**30, "80 GiB"), (0, "0 GiB"), (22.35 * 2**30, "22.4 GiB"), (50 * 2**20, "50 MiB"), (2000 * 2**30, "2,000 GiB")],
)
def test_memory_is_in_gib(value: float, text: str) -> None:
    assert q.memory_text(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.5e12, "1.5 TB"), (2e9, "2 GB"), (3.21e6, "3.21 MB"), (12, "12 B")])
def test_data_is_in_decimal_units(value: float, text: str) -> None:
    assert q.data_text(value) == text


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (0.32, "320 ms", "320 毫秒"),
        (12.5, "12.5 s", "12.5 秒"),
        (2520, "42 min", "42 分钟"),
        (18720, "5 h 12 min", "5 小时 12 分钟"),
        (3600 * 6, "6 h", "6 小时"),
        (3600 * 7 - 1, "7 h", "7 小时"),
        (86400 * 3.2, "3.2 days", "3.2 天"),
        (math.inf, "∞", "∞"),
    ],
)
def test_durations(seconds: float, english: str, chinese: str) -> None:
    assert q.duration_text(seconds, "en") == english
    assert q.duration_text(seconds, "zh") == chinese


@pytest.mark.parametrize(
    ("value", "english", "chinese"), [(5e7, "50 M", "5,000 万"), (1.5e12, "1.5 T", "1.5 万亿"), (3e8, "300 M", "3 亿"), (999, "999", "999")]
)
def test_counts(value: float, english: str, chinese: str) -> None:
    assert q.count_text(value, "en") == english
    assert q.count_text(value, "zh") == chinese


def test_money_in_dollars_and_yuan() -> None:
    assert q.money_text(12.3) == "$12.30"
    assert q.money_text(0.0526) == "$0.0526"
    assert q.money_text(12345.6) == "$12,346"
    assert q.money_text(10, "cny") == "¥72.00"
    assert q.money_text(-3) == "-$3.00"


def test_probabilities_claim_no_certainty() -> None:
    assert (q.probability_text(0.9999, "en"), q.probability_text(0.9999, "zh")) == ("over 99.9%", "99.9% 以上")
    assert (q.probability_text(0.0001, "en"), q.probability_text(0.0001, "zh")) == ("under 0.1%", "不到 0.1%")
    assert {q.probability_text(0.973, lang) for lang in ("en", "zh")} == {"97.3%"}


def test_nouns_agree_with_their_count() -> None:
    assert q.counted("offer", 1, "en") == "1 offer"
    assert q.counted("offer", 12431, "en") == "12,431 offers"
    assert q.counted("offer", 12431, "zh") == "12,431 个报价"


@pytest.mark.parametrize(
    "name", ["on-demand", "spot", "reserved-1y", "savings-plan-1y", "subscription-1m", "capacity-block", "on-demand-tier3"]
)
def test_ways_of_paying_have_names(name: str) -> None:
    assert q.purchase_text(name, "en") != name or name == "spot"
    assert any("\u4e00" <= letter <= "\u9fff" for letter in q.purchase_text(name, "zh"))


@pytest.mark.parametrize(
    ("times", "texts"),
    [
        ((0.03, 0.030041), ("30 ms", "30.04 ms")),
        ((0.3, 0.31), ("300 ms", "310 ms")),
        ((0.03, 0.03), ("30 ms", "30 ms")),
        ((2.0, 2.0004), ("2 s", "2.0004 s")),
    ],
)
def test_two_times_can_be_told_apart(times: tuple[float, float], texts: tuple[str, str]) -> None:
    assert q.distinct_durations(*times, "en") == texts


def test_what_costs_less_than_a_cent_says_so_and_prices_keep_their_digits() -> None:
    assert q.cost_text(0.0029, "en") == "under 1 cent"
    assert q.cost_text(0.0029, "zh") == "不到 1 美分"
    assert q.cost_text(0.011, "en") == q.money_text(0.011)
    assert q.cost_text(0.0, "en") == q.money_text(0.0)
    assert q.cost_texts(0.004, 0.002, 0.02, "en", currency="usd") == ("under 1 cent", "$0.002", "$0.02")
    assert q.cost_texts(0.001, 0.0005, 0.02, "zh", currency="cny")[0] == "不到 ¥0.01"
    assert q.money_text(0.0029) == "$0.0029"


def test_a_headline_dates_its_price_once() -> None:
    """Of options of any price: listed, moved since, old."""
    found = [
        *api.plan("Qwen2.5-72B", method="qlora", data="20Mtok", currency="cny").options,
        *api.plan("7B", method="lora", data="50Mtok").options,
    ]
    for option in found:
        for lang in LANGS:
            text = q.rent_text(option, "", lang, currency="usd")
            assert text.count(option.price_as_of) == 1, text
