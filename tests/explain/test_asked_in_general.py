"""Questions that name no model and are answered in general, from our tables and rules: never
refused for want of a model."""

from __future__ import annotations

import functools
import re

import pytest

from rightfit import api
from rightfit.explain.beside.able import on_unrented
from rightfit.explain.beside.questions import Question, without_questions
from rightfit.explain.beside.settled import Asked, settle
from rightfit.explain.open_wishes import open_wish
from rightfit.explain.questions import question_lookup
from rightfit.explain.rule_lookup import rule_lookup
from rightfit.market import open_catalog
from rightfit.search.offers import open_priced
from rightfit.workload.ask import understand


@pytest.mark.parametrize(
    ("asked", "claim"),
    [
        ("Is spot good for 3 days", "right"),
        ("Is spot safe for a 10 hour training run?", "right"),
        ("训练3天用竞价行吗", "right"),
        ("3天任务用竞价会被中断吗", "unknown"),
        ("用竞价实例跑 3 天的 LoRA 训练会不会被打断？阿里云北京", "unknown"),
        ("跑一周包月划算吗", "wrong"),
        ("Is a reserved instance worth it for 3 months?", "right"),
    ],
)
def test_a_way_to_pay_for_so_long(asked: str, claim: str) -> None:
    found = question_lookup(asked, open_catalog())
    assert found is not None
    assert found.claim == claim


def test_the_longer_the_more_spot_servers_are_taken_back() -> None:
    catalog = open_catalog()
    spans = [question_lookup(f"Is spot good for {days} days", catalog) for days in (1, 3, 30)]
    shares = [one.facts["taken_back"] for one in spans if one is not None]
    assert len(shares) == 3
    assert shares == sorted(shares)
    assert all(0 < low < high < 1 for low, high in shares)


@pytest.mark.parametrize(
    ("asked", "claim"),
    [
        ("SSD和NVMe影响大吗", "wrong"),
        ("训练需要SSD吗", "wrong"),
        ("Do I need an NVMe SSD?", "wrong"),
        ("does disk speed matter?", "wrong"),
        ("机械硬盘训练可以吗", "right"),
        ("多卡训练用PCIe行吗", "right"),
        ("Is PCIe enough for multi-GPU training?", "right"),
        ("PCIe够多卡训练用吗", "right"),
    ],
)
def test_hardware_alone_is_judged_by_a_rule(asked: str, claim: str) -> None:
    found = question_lookup(asked, open_catalog())
    assert found is not None
    assert found.kind == "rule"
    assert found.claim == claim


@pytest.mark.parametrize("said", ["NVMe和SATA SSD", "需要SSD吗", "local SSD", "an SSD or a hard disk", "SSD比机械硬盘快", "SSDs"])
def test_a_disk_is_no_model(said: str) -> None:
    assert "model" not in understand(f"{said}, 100GB").wishes


@pytest.mark.parametrize("said", ["训练SSD目标检测", "用SSD做目标检测", "train SSD on COCO", "SSD300 on COCO", "an SSD model on COCO"])
def test_a_detector_is_one(said: str) -> None:
    assert "SSD" in str(understand(said).wishes["model"])


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ("数据10GB需要多少内存", "内存"),
        ("how much RAM for 50GB of data", "memory"),
        ("数据50GB要多大硬盘", "共占"),
        ("how much disk do I need for 50GB of data", "checkpoints take"),
    ],
)
def test_what_an_amount_of_data_takes_is_told_for_each_kind(asked: str, word: str) -> None:
    found = open_wish(asked, open_catalog())
    assert found is not None
    told = found.explanation_zh if word in ("内存", "共占") else found.explanation_en
    assert told.count(word) >= len(found.facts["commands"]) > 1


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("微调7B需要64GB内存", "right"),
        ("64GB内存够微调7B", "right"),
        ("微调7B需要8GB内存", "wrong"),
        ("微调7B需要2TB内存", "wrong"),
        ("fine-tuning 7B needs 64 GB of RAM", "right"),
        ("fine-tuning 7B needs 8 GB of RAM", "wrong"),
        ("微调7B需要100GB硬盘", "right"),
    ],
)
def test_host_memory_and_disk_of_a_job_are_held_against_its_plan(said: str, claim: str) -> None:
    found = rule_lookup(said, catalog=open_priced())
    assert found is not None
    assert found.claim == claim
    assert all(need > 0 for need in found.facts["needs"].values())


@pytest.mark.parametrize(
    "asked",
    ["7B微调用T4和A10差几倍时间", "fine-tune 7B: T4 or A10, how much faster?"],
)
def test_how_many_times_as_long_is_told_as_a_ratio(asked: str) -> None:
    told = settle(asked, open_priced()).told
    ratio = re.search(r"([\d.]+) (?:倍|times as long)", told["zh" if re.search(r"[\u4e00-\u9fff]", asked) else "en"][1])
    assert ratio is not None
    assert float(ratio[1]) > 1.0


def test_a_difference_in_money_asks_for_no_time() -> None:
    assert "time" not in {one.key for one in without_questions("7B微调，T4和A10差多少钱").questions}


def test_cards_for_games_that_no_rented_server_does_it_with_are_planned_as_ones_own() -> None:
    wish = {"model": "13B", "method": "lora", "gpu": "3090", "num_gpus": 2}
    catalog = open_priced()
    rented = api.plan(**wish, catalog=catalog, top=1)
    assert rented.best is None
    again = functools.cache(api.plan)
    for lang, told in (("en", "machine of your own"), ("zh", "自有机器")):
        plan, lines = on_unrented(rented, catalog, lang, again=again, top=1)
        assert plan.best is not None
        assert plan.best.purchase == "owned"
        assert told in lines[0]
        asked = Asked("", (Question("link", "NVLink"),))
        assert asked.lines(plan, catalog, lang)[0].split(": " if lang == "en" else "：")[1].startswith("no" if lang == "en" else "不")


def test_cards_for_games_are_not_what_every_refusal_is_about() -> None:
    catalog = open_priced()
    large = api.plan(model="70B", method="full", gpu="A100", num_gpus=2, catalog=catalog, top=1)
    assert on_unrented(large, catalog, "en", again=api.plan, top=1) == (large, [])
