"""Statements of posts about figures: cards, memory, networks, data sets, disks, spot servers, ZeRO.
What is true is never called wrong, and what nobody understands is not judged."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rightfit import api

ROWS = list(csv.DictReader((Path(__file__).parents[1] / "data" / "figure_claims.csv").read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["sentence"])
def test_a_statement_is_judged_as_it_stands_to_the_figures(row: dict[str, str]) -> None:
    found = api.check(row["sentence"])[0]
    assert found.claim == row["claim"], found.explanation_zh
    assert "{" not in found.explanation_en + found.explanation_zh


def test_what_is_said_of_a_thing_that_nobody_knows_is_never_wrong() -> None:
    """Invented subjects x claims x ways to join them."""
    subjects = ("某某卡", "机箱", "QX9000", "the Zorbulator", "插座", "a frobnicator", "我的电脑")
    claims = ("24GB", "8 张 A100", "600GB/s", "T4", "参数量 x 7.3", "32 核 128G", "$3.06/小时", "8B", "700W", "支持 bf16", "3 小时")
    wrong = [
        text
        for subject in subjects
        for claim in claims
        for joint in ("=", " 是 ", "：")
        if api.check(text := f"{subject}{joint}{claim}")[0].claim == "wrong"
    ]
    assert not wrong


@pytest.mark.parametrize("text", ["H100 性价比比 A100 高", "推荐系统训练主要吃内存", "H100 和 A100 都是好卡", "T4 便宜又好用"])
def test_a_rule_about_the_same_thing_is_no_verdict_on_another_statement(text: str) -> None:
    found = api.check(text)[0]
    assert found.claim == "unknown"
    assert not found.facts.get("id")


def test_both_halves_of_what_a_card_suits_are_judged() -> None:
    found = api.check("A10适合推理，不适合训练")[0]
    assert next(part["verdict"] for part in found.facts["parts"]) == "right"
    assert len(found.facts["parts"]) == 2
