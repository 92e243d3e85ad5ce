"""Questions that name no model and are answered in general, from our tables and rules: never
refused for want of a model."""

from __future__ import annotations

import pytest

from rightfit.explain.open_wishes import open_wish
from rightfit.explain.questions import question_lookup
from rightfit.market import open_catalog
from rightfit.workload.ask import understand


@pytest.mark.parametrize(
    ("asked", "claim"),
    [
        ("Is spot good for 3 days", "right"),
        ("Is spot safe for a 10 hour training run?", "right"),
        ("训练3天用竞价行吗", "right"),
        ("3天任务用竞价会被中断吗", "unknown"),
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
