"""Words of the field: each is found, says the same in both languages, and its command runs."""

from __future__ import annotations

import collections
import json
import re
import shlex
from typing import Any

import pytest

from rightfit.explain.glossary import defined_terms, glossary, symptoms_in, term_lookup, term_text, terms_in
from rightfit.explain.questions import question_lookup
from rightfit.planner.plan import default_catalog

TERMS = glossary()


def test_no_word_means_two_things_and_every_word_is_found() -> None:
    counts = collections.Counter(word.casefold() for entry in TERMS.values() for word in entry["words"])
    assert not [word for word, count in counts.items() if count > 1]
    for name, entry in TERMS.items():
        for word in entry["words"]:
            for asked in (word, f"what is {word}?", f"什么是{word}", f"{word}是什么意思"):
                found = term_lookup(asked)
                assert found is not None, asked
                assert found.facts["id"] == name, asked


def test_both_languages_tell_the_same_figures_and_end_with_a_command() -> None:
    for name, entry in TERMS.items():
        told = [set(re.findall(r"\{[\w.-]+\}", entry[lang])) for lang in ("en", "zh")]
        assert told[0] == told[1], name
        assert term_text(name, "zh").endswith(f"`{entry['ask']}`"), name
        assert "{" not in term_text(name, "en"), name


@pytest.mark.parametrize("name", sorted(name for name, entry in TERMS.items() if not entry["ask"].startswith("rightfit export")))
def test_the_command_of_a_term_runs(name: str, run: Any) -> None:
    words = shlex.split(TERMS[name]["ask"])[1:]
    done = run(*words, "--format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)


def test_exports_that_terms_name_exist() -> None:
    from rightfit.exports.registry import all_targets

    named = {shlex.split(entry["ask"])[4] for entry in TERMS.values() if entry["ask"].startswith("rightfit export")}
    assert named
    assert named <= set(all_targets())


@pytest.mark.parametrize(
    "sentence",
    [
        "what is LoRA?",
        "什么是NVLink",
        "does 70B QLoRA fit on one A100 80GB?",
        "p4d有NVLink吗",
        "为什么不能用T4训练7B",
        "CUDA out of memory",
    ],
)
def test_a_question_is_answered_and_not_planned(sentence: str, run: Any) -> None:
    done = run("plan", "--ask", sentence, "--format", "json")
    assert done.code == 0, done.err
    [answer] = json.loads(done.out)
    assert answer["kind"] in ("term", "rule", "server", "accelerator")
    assert answer["explanation"]


@pytest.mark.parametrize("sentence", ["QLoRA of Llama-3-8B on one A100 with 10M tokens", "用4090微调Qwen2.5-7B，1000条数据"])
def test_a_wish_that_names_a_card_is_planned(sentence: str, run: Any) -> None:
    assert "options" in json.loads(run("plan", "--ask", sentence, "--format", "json").out)


def test_a_term_is_told_whatever_else_a_question_about_it_asks() -> None:
    for name, entry in TERMS.items():
        for word in entry["words"]:
            for asked in (f"什么是{word}，微调 7B 需要吗", f"what is {word} and do I need it", f"{word}是什么意思，会变慢吗"):
                assert defined_terms(asked) == [name], asked


def test_a_symptom_is_found_in_a_sentence_that_does_not_ask_why() -> None:
    for name, entry in TERMS.items():
        for word in entry["words"] if entry.get("is_symptom") else ():
            assert terms_in(f"我们的任务{word}，该加机器吗？") == [name], word


@pytest.mark.parametrize(
    ("sentence", "term"),
    [
        ("什么是 NVLink，微调 7B 需要吗", "nvlink"),
        ("LoRA 和 QLoRA 有什么区别，哪个快", "lora"),
    ],
)
def test_questions_without_a_plan_are_answered_by_their_terms(sentence: str, term: str) -> None:
    found = question_lookup(sentence, default_catalog())
    assert found is not None
    assert term in str(found.facts.get("id") or found.facts["known"])


@pytest.mark.parametrize("sentence", ["微调 Llama-3-8B LoRA，10万条 50ms", "显存要多少？", "用 LoRA 微调，10 万条数据，预算 500 元"])
def test_a_wish_gets_no_definition_instead_of_a_plan(sentence: str) -> None:
    assert question_lookup(sentence, default_catalog()) is None


@pytest.mark.parametrize(
    ("post", "name"),
    [
        ("vllm says: ValueError: No available memory for the cache blocks. Would a third 3090 solve this?", "cache_too_small"),
        ("起来之后报 KV cache pool is full. Retract requests，是不是要换卡？", "cache_too_small"),
        ("ValueError: Your setup doesn't support bf16/gpu. Can the T4 do it at all?", "no_bf16"),
        ("NCCL INFO NET/Socket : Using [0]eth0:10.0.12.31<0>. Should we rent more nodes?", "network_not_used"),
        ("nginx经常 504 Gateway Time-out，要不要换A100？", "gateway_timeout"),
        ("load checkpoint shards 到 6/8 的时候挂的，是不是batch还太大？", "shards_while_loading"),
        ("nvidia-smi shows GPU-Util bouncing between 0% and 90%. Do I need a bigger GPU?", "low_utilization"),
        ("read_csv 跑到一半就 Killed，退出码137，A100能解决吗？", "host_out_of_memory"),
    ],
)
def test_the_sign_of_a_fault_in_a_post_is_known(post: str, name: str) -> None:
    assert name in symptoms_in(post)
