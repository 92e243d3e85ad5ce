"""Questions about the market that name no job are answered from the catalog; wishes are not taken
for them."""

from __future__ import annotations

import re

import pytest

from rightfit import api, facts, lookup
from rightfit.explain.market_questions import market_question
from rightfit.explain.quantities import memory_text
from rightfit.explain.questions import question_lookup
from rightfit.planner.plan import default_catalog

#: Sentence, and what its answer names.
ASKED = [
    ("which GPU families has Tencent", ["T4", "GN7"]),
    ("腾讯云有哪些GPU", ["T4", "GN7", "V100"]),
    ("阿里云有哪些A10机型", ["ecs.gn7i-c8g1.2xlarge"]),
    ("A100在AWS一小时多少钱", ["p4d.24xlarge"]),
    ("cheapest H100 today", ["H100", "$"]),
    ("H100多少钱一个月", ["730"]),
    ("哪些云有H100", ["Lambda", "库存"]),
    ("哪家云有4090", ["RunPod"]),
    ("阿里云有A40吗", ["没有 A40", "RunPod"]),
    ("北京地域8卡A100竞价多少钱", ["8 卡整机"]),
    ("who rents MI300X", ["Azure"]),
    ("腾讯云A100价格", ["GT4"]),
    ("自建8卡A100划算还是租", ["8 张 A100-SXM-80GB", "rightfit own 8xA100"]),
    ("buy H100 servers or rent them", ["H100-SXM-80GB", "rightfit own 1xH100"]),
    ("T4和A10哪个好", ["16 GiB", "24 GiB", "1.9"]),
    ("V100 vs A100", ["no BF16", "links"]),
]
NO_QUESTIONS = [
    "A100训练ResNet50多少钱",
    "微调7B多少钱",
    "用A100还是H100微调LLaMA-7B",
    "g5.xlarge or g6.xlarge",
    "4090能跑7B吗",
    "fine-tune Llama-3-8B on one A100",
]


@pytest.mark.parametrize(("sentence", "words"), ASKED)
def test_a_question_about_the_market_is_answered(sentence: str, words: list[str]) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert found.kind == "market"
    told = found.explanation_zh if any("\u4e00" <= one <= "\u9fff" for one in sentence) else found.explanation_en
    assert not [word for word in words if word not in told], told
    assert "{" not in told


@pytest.mark.parametrize("sentence", NO_QUESTIONS)
def test_a_wish_is_no_question_about_the_market(sentence: str) -> None:
    assert market_question(sentence, default_catalog()) is None


def test_prices_ascend_and_a_month_is_730_hours() -> None:
    hour, month = (market_question(f"H100 price {period}", default_catalog()) for period in ("per hour", "a month"))
    assert hour is not None
    assert month is not None

    def prices(text: str) -> list[float]:
        return [float(line.split("$")[1].split(" ")[0].replace(",", "")) for line in text.splitlines() if ": $" in line]

    first, second = prices(hour.explanation_en), prices(month.explanation_en)
    assert first == sorted(first)
    assert len(first) > 3
    assert second == pytest.approx([730 * price for price in first], rel=0.01)


@pytest.mark.parametrize(
    ("sentence", "kind", "word"),
    [
        ("p3.2xlarge现在还能用吗", "server", "下线"),
        ("ecs.gn7e-c16g1.4xlarge是什么卡", "server", "A100"),
        ("混合精度能省显存吗", "rule", "激活值"),
        ("DP还是DDP", "market", "DDP"),
        ("小图片随机读取,用Lustre还是Ceph还是OSS", "term", "对象存储"),
        ("H100要用哪个CUDA版本", "term", "580"),
        ("H100比A100快多少", "market", "倍"),
    ],
)
def test_other_questions_without_a_job_are_answered_as_check_does(sentence: str, kind: str, word: str) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert found.kind == kind
    assert word in found.explanation_zh


def test_check_answers_the_same() -> None:
    (found,) = api.check("A100在AWS一小时多少钱")
    assert found.kind == "market"


@pytest.mark.parametrize("pair", [("A10", "L4"), ("H100", "H200"), ("RTX-4090", "L40S")])
def test_any_two_cards_are_compared(pair: tuple[str, str]) -> None:
    found = market_question(f"{pair[0]} or {pair[1]}", default_catalog())
    assert found is not None
    for name in pair:
        assert memory_text(facts.accelerator(name, typical=True).memory_bytes) in found.explanation_en


@pytest.mark.parametrize(("daily", "pays"), [(4, "按量"), (8, "按量"), (12, "按量"), (20, "包月"), (24, "包月")])
@pytest.mark.parametrize("way", ["按量", "包月"])
def test_hours_of_a_day_are_held_against_those_of_a_month(daily: int, pays: str, way: str) -> None:
    (found,) = api.check(f"每天用 {daily} 小时,{way}更划算")
    assert found.claim == ("right" if way == pays else "wrong")
    assert f"{daily * 730 / 24:.0f}" in found.explanation_zh


@pytest.mark.parametrize(
    ("said", "claim"),
    [("包年比按量便宜一半", "wrong"), ("竞价实例一般打3折", "right"), ("竞价实例打9折", "wrong"), ("包月比按量便宜 35%", "right")],
)
def test_a_saving_without_its_figure_is_read(said: str, claim: str) -> None:
    (found,) = api.check(said)
    assert found.claim == claim, found.explanation_zh


def test_a_price_for_hours_of_each_day() -> None:
    (found,) = api.check("T4 每天用6小时,一个月多少钱")
    assert "182.5" in found.explanation_zh


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("T4比V100省电", "right"),
        ("H100比T4省电", "wrong"),
        ("A100显存比V100大", "right"),
        ("L4带宽比A100高", "wrong"),
        ("an H100 has more memory than a T4", "right"),
        ("a T4 draws less power than an A100", "right"),
    ],
)
def test_two_cards_are_compared_by_a_figure(said: str, claim: str) -> None:
    (found,) = api.check(said)
    assert found.claim == claim, found.explanation_zh


@pytest.mark.parametrize("asked", ["阿里云gn6i一个月多少钱", "how much is ecs.gn6i-c4g1.xlarge a month"])
def test_a_month_is_told_at_the_price_of_its_subscription(asked: str) -> None:
    """Where the catalog has one; by the hour for 730 hours beside it."""
    catalog = default_catalog()
    found = market_question(asked, catalog)
    assert found is not None
    subscribed, hourly = (float(one.replace(",", "")) for one in re.findall(r"\$([\d,.]+\d)", found.explanation_en.splitlines()[0]))
    rows = lookup.prices("ecs.gn6i-c4g1.xlarge", purchase="subscription-1m", catalog=catalog).offers
    monthly = [price * 730 for price in rows.price_usd_per_h.tolist()]
    assert monthly
    assert any(abs(subscribed - price) < 0.01 * price for price in monthly)
    assert subscribed < hourly
