"""The five posts' statements about cost: the figures follow from the catalog's rows, and the
verdict from the figures."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from rightfit import api
from rightfit.explain.market_statements import Statement, judge_statement, price_ratios, statements
from rightfit.explain.messages import fields_of
from rightfit.market import open_catalog
from rightfit.market.offers import PURCHASE_CODES


@functools.cache
def judged(name: str) -> Statement:
    return judge_statement(name, open_catalog())


@pytest.mark.parametrize("name", statements())
def test_every_statement_has_figures_a_verdict_and_both_languages(name: str) -> None:
    found = judged(name)
    assert found.verdict in ("holds", "fails", "misleading")
    assert all(np.isfinite(value) for value in found.figures.values())
    assert fields_of(found.entry["told"]["en"]) == fields_of(found.entry["told"]["zh"])
    assert fields_of(found.entry["told"]["en"]) <= {*found.figures, *found.texts}
    assert found.reason("en") != found.reason("zh")
    assert 0 <= found.entry["post"] <= 4


def test_ratios_are_those_of_quoted_prices_beside_each_other() -> None:
    table = open_catalog().all_offers(has_accelerator=True)
    names = list(zip(table.servers.provider, table.servers.instance_type, strict=True))
    part = table.take(table.server_index == names.index(("gcp", "a2-highgpu-1g")))
    rows = [part.row(at) for at in range(len(part)) if not part.is_quarantined[at] and not part.is_estimate[at]]
    price = {(row["region"], row["purchase"]): row["price_usd_per_h"] for row in rows}
    expected = sorted(
        value / price[region, "on-demand"] for (region, mode), value in price.items() if mode == "spot" and (region, "on-demand") in price
    )
    assert sorted(price_ratios(part, ("spot",))) == pytest.approx(expected)
    assert expected
    assert PURCHASE_CODES["spot"] == 2


def test_spot_saves_what_the_posts_say_for_most_but_not_for_all() -> None:
    found = judged("market_spot_saves_50_to_90")
    assert found.verdict == "holds"
    assert 0.5 < found.figures["share"] < 1.0
    assert found.figures["low"] < found.figures["figure"] < found.figures["high"]


def test_a_commitment_pays_from_so_many_hours() -> None:
    found = judged("market_subscription_for_long_use")
    assert found.verdict == "holds"
    assert found.figures["hours"] == pytest.approx(730 * found.figures["figure"])


def test_serverless_is_for_light_use_by_hand() -> None:
    found = judged("market_serverless_for_light_inference")
    second = 0.0001867 + 4 * 0.000018 + 16 * 0.000002
    assert found.figures["figure"] == pytest.approx(found.figures["server"] / (second * 3600))
    assert found.verdict == "holds"


def test_asked_for_in_its_own_words() -> None:
    result = api.check("serverless for light inference", catalog=open_catalog())[0]
    assert (result.kind, result.claim, result.nearest) == ("rule", "right", ("market_serverless_for_light_inference",))
    assert result.facts["verdict"] == "holds"


PASTED = """一、推荐配置
1. 小规模机器学习 / 实验性项目
- 用途:微调 LLaMA-7B、ChatGLM 等
- 推荐配置:
- CPU:4核以上
- 内存:8–16 GB
- 存储:50–100 GB SSD
- 显存:至少 200GB
2. 大模型训练 / 微调
- 内存:128 GB+
四、选型示例
BERT微调(文本分类) gn7i-c8g1.2xlarge 1×A10, 30GB内存, 100GB SSD
数据预处理流水线 r7.8xlarge 32核CPU, 128GB内存, 高吞吐存储
数据集大小 → >50GB?→ 选内存型(r 系列)或搭配OSS + 高IO实例
先从中小配置起步,监控 GPU 利用率(
nvidia-smi)和显存占用 - 根据实际负载逐步升级
"""


def test_amounts_of_a_pasted_text_are_held_against_the_job_of_their_heading() -> None:
    found = {one.query: one for one in api.check(PASTED)}
    small = {query.split("：")[1]: one for query, one in found.items() if query.startswith("小规模")}
    assert {query: one.claim for query, one in small.items()} == {
        "CPU:4核以上": "right",
        "内存:8–16 GB": "right",
        "存储:50–100 GB SSD": "right",
        "显存:至少 200GB": "wrong",
    }
    assert all("random-forest" in one.explanation_zh and "random-forest" in one.explanation_en for one in small.values())
    assert found["内存:128 GB+"].claim == "wrong"  # the next heading is about large models: the rule's own job
    assert "Llama-3-8B" in found["内存:128 GB+"].explanation_zh


def test_rows_of_a_table_carry_their_sizes_and_nothing_is_said_twice() -> None:
    found = {one.query: one for one in api.check(PASTED)}
    assert found["gn7i-c8g1.2xlarge=1xA10, 30GB内存"].claim == "right"
    assert found["r7.8xlarge=32核CPU, 128GB内存"].claim == "wrong"
    assert not any(query.startswith("用途") for query in found)
    assert found["数据集大小 → >50GB?→ 选内存型(r 系列)"].claim == "wrong"
    said = [one.explanation_zh for one in found.values()]
    assert len(said) == len(set(said))
