"""Weights of several models, formats or tags against GPU memory that a question names."""

from __future__ import annotations

import pytest

from rightfit.explain.questions import question_lookup
from rightfit.explain.rule_lookup import verdict_of
from rightfit.explain.weight_questions import weight_question
from rightfit.market import Catalog
from rightfit.search.offers import open_priced
from rightfit.units import GIB


@pytest.fixture(scope="module")
def market() -> Catalog:
    return open_priced()


@pytest.mark.parametrize(
    ("sentence", "answer", "models"),
    [
        ("Qwen2.5-72B 和 Llama3.3-70B 都想同时部署 int4，两张A100 80G够吗", "yes", 2),
        ("Can I run qwen2.5:72b and llama3.3:70b at the same time on one A100 80GB?", "no", 2),
        ("Can I run qwen2.5:14b and SDXL together on one RTX 4090?", "yes", 2),
        ("一张 24G 的卡能同时跑 Qwen2.5-7B 和 bge-m3 吗", "yes", 2),
        ("On one ecs.gn6i (T4), stable diffusion + ollama qwen2.5:7b at the same time, ok?", "depends", 2),
        ("qwen3:32b 3090 行吗", "yes", 1),
        ("Does llama3.1:70b run on a 24GB GPU?", "no", 1),
    ],
)
def test_weights_are_summed_and_held_against_the_memory(sentence: str, answer: str, models: int, market: Catalog) -> None:
    found = weight_question(sentence, market)
    assert found is not None
    assert found.facts["answer"] == answer
    assert len(found.facts["models"]) == models
    assert len(found.explanation_en.splitlines()) == len(found.explanation_zh.splitlines())


@pytest.mark.parametrize("memory", [6, 8, 12, 16, 24, 48])
def test_of_several_formats_the_largest_that_fits_is_taken(memory: int, market: Catalog) -> None:
    formats = ("Q8_0", "Q6_K", "Q4_K_M", "Q2_K")
    found = weight_question(f"{', '.join(formats)} of llama 8b, which for a {memory}GB card?", market)
    assert found is not None
    sizes = dict(zip(formats, found.facts["bytes"], strict=True))
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    chosen = found.explanation_en.splitlines()[-1].split()[1].rstrip(":")
    assert sizes[chosen] < memory * GIB
    larger = [one for one in formats if sizes[one] > sizes[chosen]]
    assert all(
        f"{one} weights; does not fit" in found.explanation_en or f"{one} weights; just fits" in found.explanation_en for one in larger
    )


def test_a_tag_is_the_checkpoint_that_it_pulls(market: Catalog) -> None:
    found = weight_question("deepseek-r1:7b 和 deepseek-r1:671b 是一回事吗，我 16G 显存能跑哪个", market)
    assert found is not None
    assert found.facts["models"] == ["deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "deepseek-ai/DeepSeek-R1"]
    assert verdict_of(found, "zh") == ""


@pytest.mark.parametrize(
    "sentence",
    [
        "用 LoRA 微调 Qwen2.5-7B，1 万条数据，预算 300 元",
        "How many users can one A10 serve with a 7B model?",
        "Qwen2.5-7B 和 Qwen2.5-14B 哪个便宜？",
        "Which is faster on an A100, AWQ or GPTQ for Llama-3-8B?",
        "serve Qwen2.5-7B and bge-m3 at 5 requests/s",
    ],
)
def test_other_questions_are_left_to_other_readers(sentence: str, market: Catalog) -> None:
    assert weight_question(sentence, market) is None


def test_every_face_gets_it(market: Catalog) -> None:
    sentence = "Q8_0 vs Q4_K_M of llama 8b, which for 8GB card?"
    found, other = question_lookup(sentence, market), weight_question(sentence, market)
    assert found is not None
    assert other is not None
    assert found.explanation_en == other.explanation_en


@pytest.mark.parametrize(
    ("sentence", "answer", "instead"),
    [
        ("Can one H100 run Llama 3.3 70B in FP8?", "just", True),
        ("两张4090能跑Qwen2.5-72B的int4吗", "just", False),
        ("两张A100 80G能跑Llama3-70B fp16吗", "just", True),
        ("Is a 16GB T4 enough for Llama 3.1 8B in fp16?", "no", True),
        ("一张A100 40G能跑Qwen2.5-72B int4吗", "no", False),
        ("L20能跑Qwen3-32B的FP8吗", "yes", False),
        ("Does Llama 3.1 405B fit on 8x H100 in FP8?", "yes", False),
        ("can two 3090s run llama 70b in 4 bit?", "yes", False),
        ("8张H20能跑满血R1吗", "yes", False),
        ("gpt-oss-120b一张80G够吗", "yes", False),
        ("R1蒸馏的32B一张4090跑得动吗", "depends", False),
    ],
)
def test_a_format_that_is_told_is_judged_by_the_room_that_it_leaves(sentence: str, answer: str, instead: bool, market: Catalog) -> None:
    found = weight_question(sentence, market)
    assert found is not None
    assert found.facts["answer"] == answer
    assert ("it fits with room" in found.explanation_en) is instead
    assert verdict_of(found, "zh") == {"just": "勉强能"}.get(answer, verdict_of(found, "zh"))
    if answer in ("just", "no"):  # and how many GPUs would do
        assert "With room in" in found.explanation_en
        assert "要有余量" in found.explanation_zh


def test_eight_bits_are_integers_on_a_card_without_kernels_for_floats(market: Catalog) -> None:
    found = weight_question("4张T4能跑32B吗", market)
    assert found is not None
    assert "FP8" not in found.explanation_en
    assert "INT8" in found.explanation_en
