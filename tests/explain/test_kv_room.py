"""What a KV cache holds is told in tokens and requests, the first token alone and of many, and one
method against another."""

from __future__ import annotations

import re

import pytest

import rightfit
from rightfit.explain.beside.answers import answers
from rightfit.explain.beside.questions import without_questions
from rightfit.explain.kv_room import kv_text, requests_held, tokens_held, waiting_text
from rightfit.explain.questions import question_lookup
from rightfit.market import Catalog
from rightfit.messages import LANGS

SERVED = {"model": "Qwen3-32B", "task": "serve", "gpu": "H100-SXM-80GB", "num_gpus": 1, "input_tokens": 8000, "output_tokens": 192}


def test_tokens_of_the_cache_are_its_bytes_over_those_of_a_token() -> None:
    best = rightfit.plan(**SERVED, users=2).best
    assert best is not None
    each = 64 * 2 * 8 * 128 * 2  # layers, keys and values, heads, width, bytes
    assert tokens_held(best, 8192) == pytest.approx(best.memory_terms["kv_cache"] / each, rel=0.01)
    assert requests_held(best, 4096) == pytest.approx(2 * requests_held(best, 8192), rel=0.01)
    assert requests_held(best, 20_000) == pytest.approx(tokens_held(best, 8192) / 20_000, rel=0.01)


def test_who_waits_for_room_is_told_with_the_room() -> None:
    """More users than the cache holds requests of."""
    crowded, roomy = (rightfit.plan(**SERVED, users=users, think="5min") for users in (12, 2))
    assert crowded.best is not None
    assert roomy.best is not None
    held = crowded.best.layout.max_batch * crowded.best.layout.replicas
    assert held < 12
    for lang in LANGS:
        text = waiting_text(crowded.best, crowded.workload, lang)
        assert f"{12 - held}" in text
        assert kv_text(crowded.best, lang) in text
        assert not waiting_text(roomy.best, roomy.workload, lang)


ASKED = (
    ("how many tokens of KV do I really get", "KV 缓存总共能存多少 token"),
    ("can it run the full 128k", "能开满 128k 吗"),
    ("how many users at 32k", "几个人一起用 32k"),
)


@pytest.mark.parametrize("pair", ASKED)
def test_what_the_cache_holds_is_answered_beside_a_plan(pair: tuple[str, str], catalog: Catalog) -> None:
    plan = rightfit.plan(**SERVED, users=2)
    for words, wish, lang in zip(pair, ("serve Qwen3-32B on one H100, {}", "一张 H100 部署 Qwen3-32B，{}"), LANGS, strict=True):
        beside = without_questions(wish.format(words))
        assert [one.key for one in beside.questions] == ["kv"], words
        told = answers(beside.questions, plan, catalog, lang)
        lengths = re.findall(r"\d+(?=k)", words)
        assert any("token" in line for line in told)
        assert all(f"{int(length) * 1024:,}" in told[0] for length in lengths)


@pytest.mark.parametrize(
    "sentence",
    ["how many people can share 2 A100 80GB with Llama-3.1-70B at 16k context?", "2 张 A100 80G 跑 Qwen2.5-72B，几个人一起用 16k？"],
)
def test_the_users_of_some_cards_and_their_cache_are_one_story(sentence: str, catalog: Catalog) -> None:
    """Neither one user beside hundreds of requests nor a context that was not asked about."""
    found = question_lookup(sentence, catalog)
    assert found is not None
    if found.facts.get("topic") != "users_of_cards":
        pytest.skip("another answer stands first")
    assert "16,384" in found.explanation_en
    assert "tokens per replica" in found.explanation_en


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("what is the ttft of Qwen3-32B with 16k prompts on 2 H100, for one request and 6 at once?", 6),
        ("2 张 H100 跑 Qwen3-32B，16k 输入单请求首字时间多少？6 个人同时发又是多少", 6),
    ],
)
def test_the_first_token_alone_and_of_many_at_once(sentence: str, count: int, catalog: Catalog) -> None:
    found = question_lookup(sentence, catalog)
    assert found is not None
    assert found.facts["topic"] == "first_token"
    seconds = [float(value) for value in re.findall(r"([\d.]+) s(?: alone| on average| for the last)", found.explanation_en)]
    assert seconds
    for alone, mean, last in zip(seconds[::3], seconds[1::3], seconds[2::3], strict=True):
        assert mean == pytest.approx(alone * (count + 1) / 2, rel=0.05)
        assert last == pytest.approx(alone * count, rel=0.05)


def test_what_dora_costs_over_lora_is_worked_out(catalog: Catalog) -> None:
    job = {
        "model": "Llama-3.1-8B",
        "task": "finetune",
        "data": "60Mtok",
        "method": "dora",
        "lora_targets": "all-linear",
        "gpu": "A100-PCIe-80GB",
        "num_gpus": 1,
    }
    plan = rightfit.plan(**job)
    for words, lang in (("what does DoRA cost me over LoRA in time", "en"), ("DoRA 比 LoRA 慢多少", "zh")):
        beside = without_questions(f"DoRA fine-tune Llama-3.1-8B, 5M tokens, {words}")
        assert [one.key for one in beside.questions] == ["methods"]
        [told] = answers(beside.questions, plan, catalog, lang)  # type: ignore[arg-type]
        ratio = re.search(r"takes ([\d.]+) times|的 ([\d.]+) 倍", told)
        assert ratio is not None
        assert 1.1 < float(ratio[1] or ratio[2]) < 3.0
