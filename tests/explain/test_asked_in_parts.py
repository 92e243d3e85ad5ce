"""Questions between cards for a model, in two parts, about a price and why, and between series."""

from __future__ import annotations

import pytest

from rightfit.api import check
from rightfit.explain.between_cards import between_cards, stack_lines
from rightfit.explain.messages import topic
from rightfit.explain.server_questions import server_question
from rightfit.facts import accelerators
from rightfit.market import Catalog
from rightfit.search.offers import open_priced


@pytest.fixture(scope="module")
def market() -> Catalog:
    return open_priced()


@pytest.mark.parametrize(
    ("sentence", "counts"),
    [
        ("MI300X or H100 for serving a 70B in bf16?", [1, 2]),
        ("L4 or A10G for serving an 8B model?", [1, 1]),
        ("H200 or B200 for inference of 70B?", [2, 1]),
        ("跑Qwen2.5-32B推理用L20还是A100", [2, 1]),
        ("Qwen2.5-7B 推理选 T4 还是 A10", [2, 1]),
    ],
)
def test_cards_are_compared_by_as_many_as_hold_the_model(sentence: str, counts: list[int], market: Catalog) -> None:
    found = between_cards(sentence, market)
    assert found is not None
    assert found.facts["counts"] == counts
    assert found.facts["chosen"] in found.explanation_en.splitlines()[0]
    assert len(found.explanation_en.splitlines()) == len(found.explanation_zh.splitlines())


@pytest.mark.parametrize(
    "sentence", ["A100 or H100 to train a 7B?", "L4 or A10G for 8B at 20 requests/s?", "T4 or A10?", "租 A10 还是 L20 跑 7B，100 个用户"]
)
def test_loads_and_training_are_left_to_a_plan(sentence: str, market: Catalog) -> None:
    assert between_cards(sentence, market) is None


def test_every_other_maker_of_cards_has_its_software_told() -> None:
    """A card that is no NVIDIA's never stands in for one without it."""
    makers = {card.vendor for card in accelerators().values()} - {"NVIDIA", "undisclosed", "Apple", "Qualcomm", "vendor"}
    assert makers == set(topic("between_cards")["stack"])
    assert all(stack_lines([card], "zh") for card in accelerators().values() if card.vendor in makers)


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("MoE模型显存是按激活参数算吗，Qwen3-30B-A3B用什么卡", ("全部专家", "Qwen3-30B-A3B 最低")),
        ("Do MoE models need memory for all experts? And which GPU for Mixtral 8x7B?", ("全部专家", "Mixtral 8x7B 最低")),
        ("Can I run Qwen2.5-14B on a 4090, and how many tokens per second?", ("有余量", "单用户")),
        ("T4现在还值得租吗，支持bf16吗", ("适合：", "没有 BF16")),
    ],
)
def test_both_parts_of_a_question_are_answered(sentence: str, shown: tuple[str, str], market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert all(one in found.explanation_zh for one in shown), found.explanation_zh


@pytest.mark.parametrize(
    ("sentence", "others", "cloud"),
    [
        ("现在H100租一小时大概多少钱，为啥AWS上贵那么多", "RunPod", "aws"),
        ("A100 80G多少钱一小时，为什么阿里云这么贵", "RunPod", "alicloud"),
        ("4090按小时多少钱，阿里云为什么没有", "RunPod", "alicloud"),
        ("How much is an L40S per hour, and why is it so expensive on AWS?", "RunPod", "aws"),
    ],
)
def test_a_cloud_of_the_question_why_chooses_no_price(sentence: str, others: str, cloud: str, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert found.facts["clouds"] == [cloud]
    assert others in found.explanation_zh


@pytest.mark.parametrize(
    ("sentence", "apart"),
    [
        ("What's the difference between g6 and g6e?", "8 x L4 / 8 x L40S"),
        ("p4d vs p4de, what's the actual difference?", "8 x A100-SXM-40GB / 8 x A100-SXM-80GB"),
        ("aws的p5en是什么配置，跟p5e差在哪", "EFAv3"),
    ],
)
def test_series_are_told_apart_first(sentence: str, apart: str, market: Catalog) -> None:
    found = server_question(sentence, market)
    assert found is not None
    assert apart in "\n".join(found.explanation_en.splitlines()[:2])
    assert "no GPU" not in found.explanation_en


@pytest.mark.parametrize("sentence", ["Is mixed precision a tax deduction?"])
def test_a_definition_does_not_pass_for_an_answer(sentence: str, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert found.explanation_en.startswith("No direct answer") or found.claim == "unknown"


@pytest.mark.parametrize(
    ("sentence", "counts"),
    [
        ("How many L4s do I need for Llama 3.1 70B in int4?", {"told_bits": 2}),
        ("跑Qwen2.5-32B要几张4090", {"bits_16": 4, "bits_8": 2, "bits_4": 1}),
    ],
)
def test_so_many_gpus_are_counted_by_memory(sentence: str, counts: dict[str, int], market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert found.facts["counts"] == counts
