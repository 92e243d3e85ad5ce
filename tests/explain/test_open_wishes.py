"""A wish without a model is answered by typical ones, or by questions with defaults; a question
that only a plan answers is answered by `check` too."""

from __future__ import annotations

import re

import pytest

from rightfit import api
from rightfit.explain.open_wishes import open_wish, vague_wish, wishes_by_model, wishes_by_step
from rightfit.explain.questions import question_lookup
from rightfit.planner.plan import default_catalog
from rightfit.workload.ask import understand


@pytest.mark.parametrize(
    "sentence", ["训练一个医疗模型", "我想做AI,租什么服务器", "train a medical model", "I want to build a classifier, which server"]
)
def test_a_vague_wish_gets_three_questions_with_defaults(sentence: str) -> None:
    found = vague_wish(sentence, default_catalog())
    assert found is not None
    for told in (found.explanation_en, found.explanation_zh):
        assert [line[:2] for line in told.splitlines()[1:4]] == ["1.", "2.", "3."]
        assert all(f"`{command}`" in told for command in found.facts["commands"])
    assert len(found.facts["commands"]) == 3


@pytest.mark.parametrize("sentence", ["今天天气怎么样", "hello", "微调 Llama-3-8B", "训练 GPT-7 turbo ultra", "H100 现在多少钱"])
def test_what_is_no_vague_wish_gets_none(sentence: str) -> None:
    assert vague_wish(sentence, default_catalog()) is None


def test_the_kind_of_data_names_the_models() -> None:
    found = open_wish("想做一个法律问答模型", default_catalog())
    assert found is not None
    assert "Qwen2.5-7B-Instruct" in found.explanation_zh


@pytest.mark.parametrize(
    "sentence", ["微调Llama-3-8B需要多少内存", "LoRA微调Qwen2.5-7B要几张卡", "how much RAM does LoRA of a 7B model need?"]
)
def test_check_answers_a_question_about_a_job(sentence: str) -> None:
    (found,) = api.check(sentence)
    assert found.claim is None
    assert "`rightfit plan " in found.explanation_zh
    assert question_lookup(sentence, default_catalog()) is None


@pytest.mark.parametrize("sentence", ["CPU 跑 7B int4 行不行", "Can I run Llama-3-8B on CPU only?", "没有显卡能跑 Qwen2.5-7B 吗"])
def test_a_cpu_serves_one_user(sentence: str) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert found.claim == "right"
    assert "tokens per second" in found.explanation_en


@pytest.mark.parametrize(("one", "other", "card"), [("T4", "A100 80GB", "T4"), ("3090", "A100 80GB", "RTX 3090")])
@pytest.mark.parametrize("form", ["{}能跑多大的模型", "how large a model can I serve on one {}?"])
def test_more_memory_takes_a_larger_model(one: str, other: str, card: str, form: str) -> None:
    sizes = []
    for name in (one, other):
        found = question_lookup(form.format(name), default_catalog())
        assert found is not None
        sizes.append([float(size) for size in re.findall(r"About ([\d.]+)B at most", found.explanation_en)])
    assert len(sizes[0]) == len(sizes[1]) == 2
    assert sizes[0] < sizes[1]
    assert sizes[0][0] <= sizes[0][1]


@pytest.mark.parametrize("sentence", ["预算每月3000元,能部署多大的模型", "24G显存能微调多大的模型"])
def test_money_and_memory_take_a_largest_model(sentence: str) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert "最大约" in found.explanation_zh


@pytest.mark.parametrize("sentence", ["数据在上海OSS 500GB,服务器租在北京,流量费多少", "egress cost of 2TB from us-east-1 S3"])
def test_moving_data_has_a_price(sentence: str) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert len(re.findall(r"\$\d", found.explanation_en)) == 2


@pytest.mark.parametrize("card", ["T4", "A100", "H100"])
def test_cores_and_memory_beside_a_card_are_told(card: str) -> None:
    found = question_lookup(f"每张{card}配多少核CPU多少内存合适", default_catalog())
    assert found is not None
    assert found.claim is None
    assert "GiB" in found.explanation_zh


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("LoRA 微调 13B 需要 40GB 显存", "right"),
        ("QLoRA 微调 7B 需要 80GB 显存", "wrong"),
        ("LoRA 微调 13B 需要 16GB 显存", "wrong"),
        ("BERT-base 推理只要 1.5GB 显存", "right"),
        ("p4d.24xlarge 有 320GB 显存", "right"),
        ("p4d.24xlarge 显存 80GB", "wrong"),
        ("Azure NC24ads A100 v4 是单卡 A100 80G", "right"),
        ("Azure NC24ads A100 v4 是单卡 T4", "wrong"),
        ("A10 24GB 显存, 31.2 TFLOPS", "right"),
        ("A10 24GB 显存, 99 TFLOPS", "wrong"),
    ],
)
def test_an_amount_beside_a_name_is_judged(said: str, claim: str) -> None:
    (found,) = api.check(said)
    assert found.claim == claim, found.explanation_zh


@pytest.mark.parametrize("server", ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"])
def test_what_a_server_is_able_to_at_all_needs_no_load(server: str) -> None:
    found = question_lookup(f"{server} 能跑 Stable Diffusion 吗", default_catalog())
    assert found is not None
    assert found.claim == "right", found.explanation_zh


@pytest.mark.parametrize(
    "sentence", ["没有NVLink的4090能多卡训练吗", "没有 InfiniBand 可以多卡训练吗", "can I train on several GPUs without NVLink?"]
)
def test_what_a_wrong_rule_asks_for_can_be_done_without(sentence: str) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert found.claim == "right", found.explanation_zh


SEVERAL = {
    "Which server for a RAG backend: bge-m3 for embeddings at 20 requests/s plus Qwen2.5-14B-Instruct answering 3 requests/s with 4k context": [
        {"model": "bge-m3", "rate": "20/s", "task": "serve"},
        {"model": "Qwen2.5-14B-Instruct", "rate": "3/s", "input_tokens": "4k", "task": "serve"},
    ],
    "RAG over 200k PDF pages: embed with e5-large and answer with Llama-3.1-8B for 15 people": [
        {"model": "e5-large", "data": "200k samples", "task": "batch"},
        {"model": "Llama-3.1-8B", "users": "15", "task": "serve"},
    ],
    "RAG 知识库：bge-m3 向量化加 Qwen2.5-14B 回答，30 个人用": [
        {"model": "bge-m3", "rate": "1/s", "task": "serve"},
        {"model": "Qwen2.5-14B", "users": "30", "task": "serve"},
    ],
    "RAG chatbot over 500k PDF pages with bge-m3 embeddings and an 8B LLM, about 30 users": [
        {"model": "bge-m3", "data": "500k samples", "task": "batch"},
        {"model": "8B", "users": "30", "task": "serve"},
    ],
    "知识库问答，bge-m3 做向量，50万页文档，再加一个 8B 模型回答，30 个用户": [
        {"model": "bge-m3", "data": "50万条", "task": "batch"},
        {"model": "8B", "users": "30", "task": "serve"},
    ],
    "fine-tune Qwen2.5-7B and Llama-3.1-8B with LoRA on 10M tokens": [
        {"model": "Qwen2.5-7B", "data": "10M tokens", "method": "lora", "task": "finetune"},
        {"model": "Llama-3.1-8B", "data": "10M tokens", "method": "lora", "task": "finetune"},
    ],
}


@pytest.mark.parametrize("sentence", SEVERAL)
def test_each_model_of_a_sentence_is_planned_with_its_own_amounts(sentence: str) -> None:
    found = wishes_by_model(understand(sentence))
    assert found == SEVERAL[sentence]


@pytest.mark.parametrize("sentence", ["QLoRA of Qwen2.5-7B on 10M tokens", "bge-m3 Qwen2.5-14B for 30 users"])
def test_a_sentence_of_one_model_or_without_clauses_is_no_list_of_models(sentence: str) -> None:
    assert wishes_by_model(understand(sentence)) == []


@pytest.mark.parametrize(
    ("sentence", "steps"),
    [
        ("Deduplicate and tokenize 2 TB of web text, which CPU machines?", ["dedup-text", "tokenize"]),
        ("对 500GB 中文网页去重、清洗并分词，用什么服务器", ["dedup-text", "filter", "tokenize"]),
        ("tokenize 300 GB of text", []),
    ],
)
def test_each_step_of_a_sentence_is_planned(sentence: str, steps: list[str]) -> None:
    found = wishes_by_step(understand(sentence))
    assert [one["operation"] for one in found] == steps
    assert len({one["data"] for one in found}) <= 1
