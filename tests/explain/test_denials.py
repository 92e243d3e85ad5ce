"""A statement and its denial: never both right, never both wrong, and the same verdict in every way
to say it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rightfit import api, facts
from rightfit.market import open_catalog
from rightfit.market.denials import affirmed, turned

DATA = Path(__file__).parents[1] / "data"


def pairs(name: str) -> list[list[tuple[str, str]]]:
    """Twins of a file: statements with their verdicts."""
    lines = (line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if line and line[0] not in "#[")
    return [[(text.strip(), verdict.strip()) for text, _, verdict in (one.rpartition("=") for one in line.split(" | "))] for line in lines]


def verdict_on(text: str) -> str | None:
    (found,) = api.check(text)
    return found.claim


TWINS = {two[0][0]: two for name in ("statements_judged.txt", "statements_judged_fresh.txt") for two in pairs(name)}


@pytest.mark.parametrize("twins", TWINS.values(), ids=list(TWINS))
def test_statements_and_their_twins_are_judged_as_a_careful_reader_would(twins: list[tuple[str, str]]) -> None:
    assert {text: verdict_on(text) for text, _ in twins} == dict(twins)


FORMS = (
    ("{server} 是 {card}", "{server} 不是 {card}"),
    ("{server} 有 {card}", "{server} 并没有 {card}"),
    ("{server} has {card}", "{server} does not have {card}"),
    ("{server} is {card}", "{server} isn't {card}"),
    ("{card} 的显存是 {size}GB", "{card} 的显存不是 {size}GB"),
    ("{card} has {size} GB of memory", "{card} doesn't have {size} GB of memory"),
    ("{card} 支持 {feature}", "{card} 不支持 {feature}"),
    ("{card} supports {feature}", "{card} does not support {feature}"),
)


def test_a_statement_and_its_denial_never_get_the_same_verdict() -> None:
    """Forms x servers x cards x sizes x features, drawn once for all."""
    servers, rng, wrong = open_catalog().servers(), random.Random(11), []
    rows = [
        row for row in range(len(servers)) if servers.num_accelerators[row] >= 1 and servers.provider[row] in ("aws", "alicloud", "gcp")
    ]
    cards = [name for name in facts.accelerators() if facts.match_accelerators(name) == (name,) and name.isascii()]
    for _ in range(12):
        row = rng.choice(rows)
        card = rng.choice([servers.accelerator_name[row], rng.choice(cards)])
        size = rng.choice([round(facts.accelerators()[card].memory_bytes / 2**30), 24, 80])
        fields = {"server": servers.instance_type[row], "card": card, "size": size, "feature": rng.choice(["BF16", "FP8", "NVLink"])}
        for form, denied in FORMS:
            said, other = form.format(**fields), denied.format(**fields)
            verdicts = verdict_on(said), verdict_on(other)
            if verdicts[1] != turned(verdicts[0]) or verdicts[0] not in ("right", "wrong", "unknown"):
                wrong.append((said, other, verdicts))
    assert not wrong


#: Ways to say the same, and ways to deny it.
ENOUGH = ("放得下", "装得下", "够用", "足够", "就够")
SHORT = ("放不下", "装不下", "放不进", "不够", "远远不够", "不够用", "跑不动", "跑不起来", "不足以")


@pytest.mark.parametrize(
    ("subject", "fits"),
    [("7B 模型全参数微调，一张 24GB 显卡", False), ("7B 模型 QLoRA 微调一张 24GB 显卡", True), ("13B 模型全参微调一张 A100 80GB", False)],
)
def test_all_ways_to_say_that_a_job_fits_or_does_not_agree(subject: str, fits: bool) -> None:
    subject = subject.replace("，", "")
    assert {words: verdict_on(f"{subject}{words}") for words in ENOUGH} == dict.fromkeys(ENOUGH, "right" if fits else "wrong")
    assert {words: verdict_on(f"{subject}{words}") for words in SHORT} == dict.fromkeys(SHORT, "wrong" if fits else "right")


@pytest.mark.parametrize(
    "text",
    [
        "显存不足会导致 OOM",
        "显存不够就用梯度累积",
        "数据加载不超过单步时间的 20%",
        "T4 支不支持 BF16",
        "A10 不支持 NVLink 吗",
        "does the T4 not support BF16",
        "推荐 DDP 而不是 DP",
        "no more than 20 % of a step",
        "不同的卡价格不同",
    ],
)
def test_what_only_looks_like_a_denial_is_none(text: str) -> None:
    assert affirmed(text) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("g5.xlarge 不是 T4，而是 A10G", "g5.xlarge 是 A10G"),
        ("T4 没有 BF16", "T4 有 BF16"),
        ("13B 放不进 24GB 显卡", "13B 放得下 24GB 显卡"),
        ("The T4 does not support BF16", "The T4 supports BF16"),
        ("spot is never interrupted", "spot is interrupted"),
        ("RAM 不需要 4 倍显存", "RAM 需要 4 倍显存"),
    ],
)
def test_what_a_denial_denies(text: str, meant: str) -> None:
    assert affirmed(text) == meant


def test_a_denial_about_what_does_not_exist_is_not_right() -> None:
    assert verdict_on("ecs.gn7i-c8g1.20xlarge 不是 T4") == "unknown"
