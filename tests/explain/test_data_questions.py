"""Time and price of moving and storing data, and what is billed of a stopped server."""

from __future__ import annotations

import pytest

from rightfit.api import check
from rightfit.explain.data_questions import data_question
from rightfit.explain.messages import topic
from rightfit.market import Catalog
from rightfit.search.offers import open_priced


@pytest.fixture(scope="module")
def market() -> Catalog:
    return open_priced()


@pytest.mark.parametrize(
    ("sentence", "size", "rate"),
    [
        ("How long does it take to download a 140GB model at 1 Gbps?", 140e9, 1e9),
        ("how long to copy 300 GB over 100 Mbit/s", 300e9, 1e8),
        ("2TB数据上传到云上要多久", 2e12, 0.0),
        ("用千兆网络传 5T 数据要几小时", 5e12, 1e9),
        ("How long does uploading 500 GB at 50 MB/s take?", 500e9, 4e8),
    ],
)
def test_a_transfer_takes_its_bytes_over_its_line(sentence: str, size: float, rate: float, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert found.facts["bytes"] == size
    assert found.facts["bits_per_s"] == rate
    assert ("Gbit/s" in found.explanation_zh) or rate


@pytest.mark.parametrize(
    ("sentence", "size", "cloud", "months"),
    [
        ("How much does it cost to store 5 TB on S3 for a month?", 5e12, "aws", 1),
        ("500GB云盘放一年多少钱", 500e9, "alicloud", 12),
        ("存 2TB 到 OSS 三个月要多少钱".replace("三", "3"), 2e12, "alicloud", 3),
    ],
)
def test_storage_is_priced_for_its_time(sentence: str, size: float, cloud: str, months: int, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    kind = "block" if "云盘" in sentence else "object"
    price = market.storage_price(cloud, topic("data_questions")["regions"][cloud], kind=kind)
    assert price is not None
    told = found.facts["costs"][f"{cloud}/{price.product}"]
    assert told == pytest.approx(price.price_usd_per_gb_month * size / 1e9 * months)


@pytest.mark.parametrize(
    ("sentence", "size"), [("What does it cost to move 10 TB out of AWS?", 10e12), ("从AWS下载1TB数据要多少流量费", 1e12)]
)
def test_what_leaves_a_cloud_is_priced_by_its_tiers(sentence: str, size: float, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    price = market.egress_price("aws", "us-east-1")
    assert price is not None
    assert found.facts["costs"] == {"aws": pytest.approx(price.cost_usd(size / 1e9))}


@pytest.mark.parametrize("sentence", ["OSS到ECS内网传输收费吗", "Do I pay for uploading my dataset to S3?"])
def test_what_enters_or_stays_is_free(sentence: str, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert found.claim == "wrong"


@pytest.mark.parametrize("row", topic("data_questions")["stopped"], ids=lambda row: row["name"]["en"])
def test_what_is_billed_of_a_stopped_server_is_told_by_provider(row: dict[str, object], market: Catalog) -> None:
    names = row["name"]
    assert isinstance(names, dict)
    for sentence in (f"{names['zh']}关机后还收费吗", f"Am I still charged when my {names['en']} instance is stopped?"):
        found = data_question(sentence, market)
        assert found is not None, sentence
        assert found.facts["places"] == [names["en"]]
        assert row["zh"] in found.explanation_zh


def test_rules_that_are_not_known_are_not_made_up(market: Catalog) -> None:
    found = data_question("恒源云关机还收费吗", market)
    assert found is not None
    assert "不在我们的表里" in found.explanation_zh


@pytest.mark.parametrize(
    "sentence", ["训练7B模型要多久", "A100 一个月多少钱", "8卡夜间自动关机能省多少钱", "500GB 数据训练 ResNet50 要多久"]
)
def test_other_questions_are_left_to_other_readers(sentence: str, market: Catalog) -> None:
    assert data_question(sentence, market) is None
