"""A question gets one answer at the command line, from the MCP tool, over HTTP and on the page."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from rightfit import api
from rightfit.cli.run import run
from rightfit.mcp import tools
from rightfit.planner.plan import default_catalog
from rightfit.rest import answers as rest_answers
from rightfit.web.answers import Answers

#: Questions that need no plan, and wishes that do; both languages, in the words of readers.
TOLD = (
    "70B QLoRA 一张A100 80G能微调吗",
    "CPU 跑 7B int4 行不行",
    "RTX 3090 能微调 7B 吗",
    "2080 Ti 能跑 SDXL 吗",
    "训练一个医疗模型",
    "想做一个法律问答模型",
    "图像分类训练,10万张图片",
    "T4 每天用6小时,一个月多少钱",
    "什么是 NVLink",
    "哪些云有 H100",
    "which is cheaper, T4 or L4?",
    "does 13B QLoRA fit in 24 GB",
)
PLANNED = (
    "LoRA微调Qwen2.5-7B需要多少内存",
    "微调LLaMA-2-13B要不要NVLink多卡",
    "每天处理50万张图片,必须在4小时内跑完 ResNet50",
    "BERT-base 微调 5万条 T4 还是 A10",
    "how much RAM do I need to fine-tune a 7B model",
    "16个worker 训练resnet50 imagenet",
    "训练ResNet50 imagenet 三天内完成",
    "Qwen2.5-7B 部署 每秒2个请求",
)


def by_command(sentence: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    code = run(["plan", "--ask", sentence, "--lang", "zh", "-f", "json"])
    out = capsys.readouterr().out
    assert code == 0, out
    found = json.loads(out)
    return found if isinstance(found, list) else [found]


def by_page(sentence: str) -> Any:
    """What the page does with a sentence: the answer to a question, else a plan and its lines."""

    async def whole() -> Any:
        answers = Answers(answer_s=300.0)
        try:
            if (told := await answers.question(sentence)) is not None:
                return told.to_dict(lang="zh")["explanation"]
            asked = await answers.settled(sentence)
            wishes = {**api.understand(asked.wish).wishes, **asked.chosen}
            plan = await answers.plan(wishes)
            return plan, await answers.asked(asked, wishes, plan, "zh")
        finally:
            answers.close()

    return asyncio.run(whole())


@pytest.mark.parametrize("sentence", TOLD)
def test_what_is_told_without_a_plan_is_told_alike(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    paged = by_page(sentence)
    tool = tools.plan({"ask": sentence, "lang": "zh", "top": 3})
    served = rest_answers.question({"ask": sentence}, "zh", default_catalog())
    assert served is not None
    assert tool.text == paged == served["items"][0]["explanation"]
    (first, *others) = by_command(sentence, capsys)
    if "explanation" in first:
        assert first["explanation"] == paged
    else:  # typical models: their plans, with all that belongs to them
        assert all(one["workload"]["model"] in paged for one in (first, *others))


@pytest.mark.parametrize("sentence", PLANNED)
def test_what_is_planned_is_planned_alike(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    paged, lines = by_page(sentence)
    tool = tools.plan({"ask": sentence, "lang": "zh", "top": 3})
    (told,) = by_command(sentence, capsys)
    place = [(one["provider"], one["instance_type"], one["region"], one["purchase"]) for one in told["options"]][:1]
    assert [(one.provider, one.instance_type, one.region, one.purchase) for one in paged.options[:1]] == place
    assert tool.data["options"][0]["instance_type"] == place[0][1]
    assert tool.data.get("answers", []) == lines
    assert told.get("answers", []) == lines
