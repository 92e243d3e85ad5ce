"""Questions that sizes alone decide, and figures of memory that no card has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import rightfit
from rightfit.explain.questions import question_lookup
from rightfit.market import Catalog
from rightfit.units import parse_bytes
from rightfit.workload.ask import understand

LANGS = ("en", "zh")
LOGITS = (
    ("why does Qwen2.5-0.5B OOM on my 48GB card? full finetune, batch 16, seq 2048, checkpointing on", 32_768, "151,936"),
    ("full fine-tune of Llama-3.2-1B, micro-batch 32, sequence length 1024: why out of memory on a 40 GB card?", 32_768, "128,256"),
    ("全参微调 Qwen2.5-0.5B，batch 24，序列长度 2048，为什么 48G 的卡爆显存？", 49_152, "151,936"),
)


@pytest.mark.parametrize(("sentence", "tokens", "words"), LOGITS)
def test_logits_that_fill_a_card_are_named_with_their_size(sentence: str, tokens: int, words: str, catalog: Catalog) -> None:
    found = question_lookup(sentence, catalog)
    assert found is not None
    assert found.facts["topic"] == "logits"
    for text in (found.explanation_en, found.explanation_zh):
        assert f"{tokens:,}" in text
        assert words in text
    whole = float(re.search(r"about ([\d.]+) GiB", found.explanation_en)[1])  # type: ignore[index]
    assert whole == pytest.approx(tokens * float(words.replace(",", "")) * 10 / 2**30, rel=0.01)


def test_logits_of_a_large_model_in_small_batches_are_not_blamed(catalog: Catalog) -> None:
    found = question_lookup("why does Llama-3.1-8B OOM on my 24GB card? full fine-tune, batch 1, seq 512", catalog)
    assert found is None or found.facts.get("topic") != "logits"


def test_what_vllm_reserves_is_no_leak(catalog: Catalog) -> None:
    for sentence in ("vLLM shows 43 of 48 GB used for a 0.6B model, is that a leak?", "vLLM 加载 1B 模型占了 22G 显存，是不是显存泄漏？"):
        found = question_lookup(sentence, catalog)
        assert found is not None
        assert found.facts["topic"] == "vllm_reserves"


SPARSE = (
    ("900 million rows, one-hot 3 million columns, 60 nonzeros per row, FM with k=8: how much GPU memory?", 3e6, 60, 8),
    ("4 亿行，one-hot 后 50 万维，每行平均 30 个非零，训练逻辑回归，显存要多少？同事说得上 8 卡", 5e5, 30, 0),
    ("logistic regression on 80M rows, 200k features, 0.1 % dense: how much GPU memory?", 2e5, 200, 0),
)


@pytest.mark.parametrize(("sentence", "columns", "cells", "rank"), SPARSE)
def test_a_sparse_table_needs_its_parameters_and_a_batch(
    sentence: str, columns: float, cells: float, rank: float, catalog: Catalog
) -> None:
    found = question_lookup(sentence, catalog)
    assert found is not None
    assert found.facts["topic"] == "sparse_memory"
    whole = columns * (rank + 1) * 12 + 2 * 65_536 * cells * (max(rank, 1) * 4 + 8)
    told = re.search(r"so about ([\d.,]+ [GM]iB) in all", found.explanation_en)
    assert told is not None
    assert parse_bytes(told[1].replace(",", "")) == pytest.approx(whole, rel=0.02)


@pytest.mark.parametrize(
    ("said", "columns", "settings"),
    [
        ("one-hot 2 million columns, about 45 nonzeros per row", 2_000_000, "45 nonzeros per row"),
        ("one-hot 后 200 万维，每行平均 45 个非零", 2_000_000, "45 nonzeros per row"),
        ("200k features, 0.1 % dense", 200_000, "density 0.1%"),
        ("10 万列，非零比例 2%", 100_000, "density 2%"),
    ],
)
def test_a_sparse_table_is_planned_by_its_filled_cells(said: str, columns: int, settings: str) -> None:
    found = understand(f"train logistic regression on 20 million rows, {said}")
    assert not found.weighty, found.weighty
    assert (int(found.wishes["columns"]), found.wishes["settings"]) == (columns, settings)
    plan = rightfit.plan(**{**found.wishes, "gpu": "none"})
    assert plan.best is not None
    cells = columns * float(settings.split()[1].rstrip("%")) / 100 if "density" in settings else 45
    assert plan.best.facts["data_bytes"] == pytest.approx(20e6 * cells * 12)


def stated(text: str) -> Iterator[tuple[float, float]]:
    """(Memory per GPU, memory of one) where a plan tells both."""
    for peak, memory in re.findall(r"([\d.,]+) GiB of ([\d.,]+) GiB per GPU", text):
        yield float(peak.replace(",", "")), float(memory.replace(",", ""))


WISHES = (
    "train logistic regression on 1.2 billion rows x 30 columns on 8 A100",
    "train xgboost on 2 billion rows x 40 columns on 8 A100",
    "k-means with 500 clusters on 900 million rows x 64 columns on 8 H100",
)


@pytest.mark.parametrize("wish", WISHES)
def test_no_plan_states_more_memory_of_a_card_than_it_has(wish: str, catalog: Catalog) -> None:
    plan = rightfit.plan(**understand(wish).wishes)
    assert plan.options
    for option in plan.options:
        if getattr(option.layout, "device", "") == "gpu":
            assert option.estimate["peak_memory_bytes"].mid <= option.accelerator.memory_bytes, option.instance_type
            assert option.facts["capacity_bytes"] <= option.accelerator.memory_bytes
    asked = question_lookup(f"how much GPU memory does it take to {wish}?", catalog)
    for peak, memory in stated(asked.explanation_en if asked else ""):
        assert peak <= memory
