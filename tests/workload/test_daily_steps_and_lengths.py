"""How often work comes, how long its answers are, which of several steps and models is planned."""

from __future__ import annotations

import pytest

from rightfit.messages import Message
from rightfit.workload.ask import grammar, understand

def _keys(text: str) -> list[str]:
    return [message.key for message in understand(text).assumed if isinstance(message, Message)]


_OFTEN = [word for name in ("each_day", "once_a_day") for word in grammar.listed(name, "quantities") if word.replace(" ", "").isalpha()]


@pytest.mark.parametrize("often", [*_OFTEN, "once a day", "twice a week"])
def test_of_work_of_each_day_the_plan_is_one_day(often: str) -> None:
    if often == "twice a week":  # another period is no day
        assert "workload.assumed_each_day" not in _keys(f"transcribe 500 hours of audio {often} with whisper large v3")
        return
    found = understand(f"transcribe 500 hours of audio {often} with whisper large v3")
    assert found.wishes["data"] == "500 hours" and not found.weighty
    assert "workload.assumed_each_day" in _keys(found.sentence)


@pytest.mark.parametrize("often", ["每天", "每晚", "每天跑一次,"])
def test_of_work_of_each_day_in_chinese(often: str) -> None:
    found = understand(f"{often}用Qwen2.5-14B给50万条评论写摘要")
    assert found.wishes["task"] == "batch" and "rate" not in found.wishes and not found.weighty
    assert "workload.assumed_each_day" in _keys(found.sentence)


@pytest.mark.parametrize("length", ["of", "with", "up to", "averaging"])
@pytest.mark.parametrize("answer", ["rollouts", "completions", "generations"])
def test_the_length_of_a_rollout_is_its_answer(answer: str, length: str) -> None:
    wishes = understand(f"GRPO on a 7B model, 8k prompts, 16 {answer} {length} 1000 tokens each").wishes
    assert (wishes["completions"], wishes["output_tokens"]) == ("16", "1000") and "seq_len" not in wishes


def test_the_length_of_a_rollout_in_chinese() -> None:
    wishes = understand("GRPO训练7B模型，8000个prompt，每个prompt采样16个回答，每个1000 token").wishes
    assert (wishes["completions"], wishes["output_tokens"]) == ("16", "1000") and "tpot" not in wishes


@pytest.mark.parametrize("text", ["summary", "caption", "description", "translation", "answer"])
@pytest.mark.parametrize("joint", [" ", "-"])
def test_so_many_tokens_of_a_text_that_is_written_are_no_data(text: str, joint: str) -> None:
    wishes = understand(f"run llama 3.1 70b over 2 million tickets (800 tokens each) to write a 100{joint}token {text}").wishes
    assert (wishes["data"], wishes["input_tokens"], wishes["output_tokens"]) == ("2 million samples", "800", "100")


@pytest.mark.parametrize("word", ["spot", "preemptible", "interruptible"])
def test_a_way_to_pay_that_is_denied_by_its_prefix(word: str) -> None:
    found = understand(f"train a 13B model on 1T tokens with 256 H100s, non-{word}")
    assert found.wishes["purchase"] == "on-demand" and not found.weighty


@pytest.mark.parametrize("things", ["calls", "phone calls", "conversations", "streams"])
def test_so_many_at_the_same_time_are_users(things: str) -> None:
    found = understand(f"real time whisper service for a call centre: 60 {things} at the same time")
    assert found.wishes["users"] == "60" and "data" not in found.wishes and not found.weighty
    assert understand("同时60通电话的实时whisper语音识别").wishes["users"] == "60"


@pytest.mark.parametrize(
    ("sentence", "slowest", "other"),
    [("dedupe and tokenise 4 TB of text", "tokenize", "dedupe"), ("去重并分词4TB网页文本", "tokenize", "去重")],
)
def test_of_several_steps_the_others_are_said(sentence: str, slowest: str, other: str) -> None:
    found = understand(sentence)
    said = next(message for message in found.assumed if message.key == "workload.assumed_heaviest")
    assert found.wishes["operation"] == slowest and other in str(said)


@pytest.mark.parametrize(
    ("sentence", "second"),
    [
        ("RAG: bge-m3 for embeddings and a llama 8b to answer, 3 million pages", "bge-m3"),
        ("知识库问答,50万篇文档,用bge-large-zh做向量,用Qwen2.5-14B回答,每秒1个请求", "Qwen2.5-14B"),
    ],
)
def test_a_second_model_is_named_in_the_question(sentence: str, second: str) -> None:
    question = understand(sentence).question()
    assert question.key == "workload.second_model" and second in str(question)


@pytest.mark.parametrize("word", ["人民币", "欧元", "euros", "yuan"])
def test_a_currency_that_is_asked_for_is_used(word: str) -> None:
    head = "部署Qwen2.5-7B，50并发，每月多少钱" if not word.isascii() else "serve Qwen2.5-7B to 50 users, monthly cost"
    assert understand(f"{head} ({word})").wishes["currency"] == word
    assert understand(f"serve Qwen2.5-7B to 50 users: {'how many ' if word.isascii() else '多少'}{word}").wishes["currency"] == word


@pytest.mark.parametrize("asked", ["what gpu do I need for", "which card should I rent for", "what hardware for"])
def test_what_is_needed_for_a_model_is_to_run_it(asked: str) -> None:
    assert understand(f"{asked} stable diffusion").wishes["task"] == "serve"
    assert understand(f"{asked} fine-tuning stable diffusion").wishes["task"] == "finetune"


def test_the_side_of_counted_pictures_in_chinese() -> None:
    wishes = understand("训练ResNet50，200万张224的图片，90轮").wishes
    assert (wishes["data"], wishes["image_size"]) == ("200万张", "224")
