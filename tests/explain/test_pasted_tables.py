"""Statements about servers with several figures, and rows of pasted tables: every column is held
against the catalog, and what is not judged is listed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rightfit import api
from rightfit.explain.rule_lookup import statements_in

DATA = Path(__file__).parents[1] / "data"
ROWS = list(csv.DictReader((DATA / "server_claims.csv").read_text(encoding="utf-8").splitlines()))

POST = """# 选型指南
## 机型对照表
| 机型 | GPU | 显存/卡 | vCPU | 按需价格 |
|---|---|---|---|---|
| 阿里云 ecs.gn7i-c8g1.2xlarge | 1×A10 | 24GB | 8 | 约 9.5 元/小时 |
| 阿里云 ecs.gn6v-c8g1.16xlarge | 8×V100 | 32GB | 64 | 约 211 元/小时 |
| AWS g5.12xlarge | 4×A10G | 24GB | 24 | $5.672/小时 |

| 显卡 | 显存 | 显存带宽 |
|---|---|---|
| A10 | 24GB | 600GB/s |
| T4 | 16GB | 900GB/s |

- 25Gbps 网络做多机没有问题，通信可以忽略。
- 祝大家选型顺利，早日上线。
"""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["sentence"])
def test_every_figure_of_a_server_is_judged(row: dict[str, str]) -> None:
    found = api.check(row["sentence"])[0]
    assert found.claim == row["claim"], found.explanation_zh


def test_every_column_of_a_row_is_judged_and_the_rest_listed() -> None:
    found = api.check(POST)
    claims = {result.query.split("=")[0].split(" ")[0]: result for result in found if result.claim}
    assert {name: one.claim for name, one in claims.items()} == {
        "ecs.gn7i-c8g1.2xlarge": "right",
        "ecs.gn6v-c8g1.16xlarge": "wrong",
        "g5.12xlarge": "wrong",
        "A10": "right",
        "T4": "wrong",
    }
    assert [part["verdict"] for part in claims["ecs.gn6v-c8g1.16xlarge"].facts["claims"]] == ["right", "wrong", "right", "right"]
    assert [part["verdict"] for part in claims["g5.12xlarge"].facts["claims"]] == ["right", "right", "wrong", "right"]
    assert [len(one.facts[name]) for one in found for name in ("not_judged", "no_claim") if name in one.facts] == [1, 1]
    assert "no_claim" in found[-1].facts


@pytest.mark.parametrize(
    ("line", "claim"),
    [
        ("| Lambda Labs | GPU Cloud | 专做 GPU 云服务,价格较便宜 |", "right"),
        ("| AWS | p4d.24xlarge | 成熟生态,价格较便宜 |", "wrong"),
        ("| Azure | NDv4 | 与微软生态集成好,支持 InfiniBand |", "right"),
        ("- 单机 4x/8x A100(如 AWS p4d, Azure NDv4)", "right"),
        ("- 单机 16x A100(如 AWS p4d)", "wrong"),
        ("- 超大模型 → H100", "right"),
        ("- FP32、FP16、Tensor Core性能影响训练速度", "right"),
    ],
)
def test_a_line_with_a_claim_is_judged(line: str, claim: str) -> None:
    head = "| 服务商 | 机型 | 特点 |\n|---|---|---|\n" if line.startswith("|") else ""
    found = api.check(f"一、选择\n{head}{line}\n结语")
    assert claim in [one.claim for one in found]
    assert all("not_judged" not in one.facts for one in found)


@pytest.mark.parametrize(
    "line",
    ["一些核心的考量因素", "建议挂载独立高性能存储卷", "使用 TensorRT、vLLM 等优化推理引擎", "结合成本选择实例类型", "网络带宽至关重要"],
)
def test_a_line_without_a_claim_is_counted(line: str) -> None:
    found = api.check(f"一、选择\n- {line}\n- g5.xlarge (1xT4)")
    assert found[-1].facts == {"no_claim": [line]}


def test_a_wrong_price_says_the_current_one() -> None:
    assert "21.96" in (found := api.check("p4d.24xlarge 按需 $32.77/小时")[0]).explanation_zh
    assert "us-east-1" in found.explanation_zh
    assert found.claim == "wrong"


def test_separators_and_headers_of_tables_state_nothing() -> None:
    assert not any("---" in text or "机型" in text for text in statements_in(POST))
