"""A name in a question does not answer it: Macs, batch sizes, ports, series of a cloud, tables and
prices of one card are answered as they are asked."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.api import check
from rightfit.explain.apple_questions import apple_question
from rightfit.explain.batch_questions import batch_question
from rightfit.explain.cloud_series import cloud_series
from rightfit.explain.market_questions import single_price
from rightfit.explain.messages import topic
from rightfit.market import Catalog
from rightfit.search.offers import open_priced


@pytest.fixture(scope="module")
def market() -> Catalog:
    return open_priced()


@pytest.mark.parametrize("form", ["Can {m} run on an Apple {c} {g}gb?", "{c} {g}G 的 mac 能跑 {m} 吗"])
def test_a_mac_is_judged_by_its_memory_and_its_bandwidth(form: str, market: Catalog) -> None:
    answers, speeds = [], []
    for chip, size in (("M1", 8), ("M2", 16), ("M3 Max", 64), ("M2 Ultra", 192)):
        found = apple_question(form.format(m="llama 3.1 8b", c=chip, g=size), market)
        assert found is not None
        assert found.facts["memory_gb"] == size
        answers.append(("no", "tight", "yes").index(found.facts["answer"]))
        speeds.append(chip)
        assert (
            f"{topic('apple_questions')['chips'][chip.split()[0]][chip.split()[1] if ' ' in chip else 'base']} GB/s" in found.explanation_en
        )
    assert answers == sorted(answers)
    large = apple_question(form.format(m="llama 3.3 70b", c="M2", g=16), market)
    assert large is not None
    assert large.claim == "wrong"


@pytest.mark.parametrize(
    "sentence", ["what is tencent M2.14XLARGE448?", "can gemma 3 12b run on an L4?", "is M2 a bert model?", "M3 有什么特点"]
)
def test_other_names_are_no_macs(sentence: str, market: Catalog) -> None:
    assert apple_question(sentence, market) is None


def test_a_larger_card_takes_a_larger_batch(market: Catalog) -> None:
    sizes = []
    for card in ("RTX 4090", "A100 40GB", "H100", "H200"):
        found = batch_question(f"LoRA of a 7B at 2k on one {card}, what batch size?", market)
        assert found is not None
        sizes.append(found.facts["micro_batches"]["lora"])
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    both = batch_question("Can a single A100 40GB full-finetune a 1.3B model at 4k seq? what batch size", market)
    assert both is not None
    assert both.claim == "right"
    assert set(both.facts["micro_batches"]) == {"full"}
    none = batch_question("4090 能全参微调 7B 吗，batch size 多大", market)
    assert none is not None
    assert none.claim == "wrong"


@pytest.mark.parametrize("vendor", ["Ascend 910B", "Gaudi 2", "MI300X"])
@pytest.mark.parametrize("form", ["can I run my CUDA pytorch code on {} directly?", "{}能直接跑我的pytorch代码吗"])
def test_code_for_cuda_is_told_what_it_takes(form: str, vendor: str, market: Catalog) -> None:
    (found,) = check([form.format(vendor)], catalog=market)
    assert found.claim == ("right" if vendor == "MI300X" else "wrong")
    stack = topic("between_cards")["stack"][facts.accelerator(vendor, typical=True).vendor]
    assert stack["en"] in found.explanation_en
    assert stack["zh"] in found.explanation_zh


@pytest.mark.parametrize(
    ("sentence", "series"),
    [
        (
            "which azure VM series has A10, which T4, which H100, and what's the catch with NV vs NC vs ND?",
            ("A10 (", "T4 (", "H100-SXM-80GB (", "NV:", "NC:", "ND:"),
        ),
        ("AWS哪个实例系列是L4，哪个是A10G，哪个是H100", ("g6", "g5", "p5")),
        ("what google cloud machine types have L4, T4 and A100?", ("g2-standard", "n1", "a2-")),
        ("阿里云A10和V100和L20分别是什么规格", ("gn7i", "gn6v", "gn8is")),
    ],
)
def test_each_card_has_its_series(sentence: str, series: tuple[str, ...], market: Catalog) -> None:
    found = cloud_series(sentence, market)
    assert found is not None
    assert [one for one in series if one not in found.explanation_en] == []


@pytest.mark.parametrize(
    ("sentence", "card"),
    [
        ("price of a single H100 on AWS? i only ever see the 8x p5.48xlarge", "1 x H100"),
        ("how much for one A100 on GCP? the a2-highgpu-8g has 8", "1 x A100"),
        ("腾讯云单张A100多少钱，只看到GT4.41XLARGE948是8卡", "1 x A100"),
    ],
)
def test_the_price_of_one_card_is_told_though_a_server_is_named(sentence: str, card: str, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert found.facts == single_price(sentence, market).facts  # type: ignore[union-attr]
    assert card in found.explanation_en
    assert found.claim is None


@pytest.mark.parametrize(
    ("sentence", "claim"),
    [
        ("Do I need H100s for TabPFN / FT-Transformer with 20k rows lol", "wrong"),
        ("需要A100吗，表格数据2万行用xgboost", "wrong"),
        ("is a GPU necessary for lightgbm with 200k rows and 80 columns?", "wrong"),
        ("4000万行 x 60列 跑xgboost 有必要上显卡吗", "unknown"),
    ],
)
def test_a_table_is_judged_by_its_rows(sentence: str, claim: str, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert found.claim == claim


@pytest.mark.parametrize("card", ["L4", "A100", "T4", "H100"])
@pytest.mark.parametrize(
    "form",
    [
        "our {} answers look odd since the new release of our app",
        "my {} job got a strange loss since monday",
        "{}上跑的服务最近结果有点奇怪，上周还正常",
    ],
)
def test_that_a_card_exists_answers_nothing_else(form: str, card: str, market: Catalog) -> None:
    (found,) = check([form.format(card)], catalog=market)
    assert f"{card} exists" not in found.explanation_en


def test_a_generation_is_the_series_of_it(market: Catalog) -> None:
    (found,) = check(["AWS的g5、g6、p4、p5有什么区别"], catalog=market)
    assert [one for one in ("A10G", "L4", "A100-SXM-40GB", "H100") if one not in found.explanation_zh] == []
