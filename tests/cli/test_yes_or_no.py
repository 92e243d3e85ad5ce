"""A question to `check` is answered in its first line, never called a wrong statement."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from rightfit import api
from rightfit.cli.commands.facts import _verdict
from rightfit.cli.output import View

ROWS = list(csv.DictReader((Path(__file__).parents[1] / "data" / "time_claims.csv").read_text(encoding="utf-8").splitlines()))

ASKED = {
    "T4 支持 bf16 吗": "不支持",
    "A10 支持 bf16 吗": "支持",
    "4090 支持 NVLink 吗": "不支持",
    "两张 A100 80G 能全参微调 7B 吗": "能，但要卸载到主机内存",
    "4 张 A100 80G 能全参数微调 7B 吗": "能",
    "T4 能不能微调 7B 模型？": "看情况",
    "does the T4 support BF16?": "no",
    "gn7i 一个月多少钱？": "",
    "包年包月还是按量划算": "",
    "ZeRO-2 和 ZeRO-3 选哪个？": "",
    "ecs.gn7i-c8g1.2xlarge 一个月多少钱": "",
}


@pytest.mark.parametrize("text", ASKED)
def test_the_first_line_answers(text: str) -> None:
    found = api.check(text)[0]
    lang = "zh" if not text.isascii() else "en"
    first = _verdict(found.to_dict(lang=lang), View(lang=lang)).splitlines()[0]
    rest = first.removeprefix(text).strip("：: .。")
    assert rest.casefold() == ASKED[text].casefold()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["sentence"])
def test_a_time_of_training_is_judged_by_the_plan_of_that_job(row: dict[str, str]) -> None:
    found = api.check(row["sentence"])[0]
    assert found.claim == row["claim"], found.explanation_zh
    assert "部署" not in found.explanation_zh


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("claim", "head"),
    [
        ("Is a T4 enough to train YOLOv8?", {"en": "? Yes.", "zh": "？"}),
        ("A 70B model in 4-bit fits on an RTX 4090", {"en": ": the claim is wrong", "zh": "：说法有误"}),
    ],
)
def test_a_verdict_is_said_once(claim: str, head: dict[str, str], lang: str, run: Any) -> None:
    """The verdict heads the answer; what is below gives reasons, and names memory where memory is
    what lacks."""
    first, second, *_ = run("check", claim, "--lang", lang).out.splitlines()
    assert head["en"] in first if lang == "en" else first.startswith(claim)
    assert not second.strip().casefold().startswith(("yes", "no;", "no,", "能；", "不能"))
    assert "latency" not in second
