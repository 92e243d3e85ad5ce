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
    assert found.wishes["data"] == "500 hours"
    assert not found.weighty
    assert "workload.assumed_each_day" in _keys(found.sentence)


@pytest.mark.parametrize("often", ["每天", "每晚", "每天跑一次,"])
def test_of_work_of_each_day_in_chinese(often: str) -> None:
    found = understand(f"{often}用Qwen2.5-14B给50万条评论写摘要")
    assert found.wishes["task"] == "batch"
    assert "rate" not in found.wishes
    assert not found.weighty
    assert "workload.assumed_each_day" in _keys(found.sentence)


@pytest.mark.parametrize("length", ["of", "with", "up to", "averaging"])
@pytest.mark.parametrize("answer", ["rollouts", "completions", "generations"])
def test_the_length_of_a_rollout_is_its_answer(answer: str, length: str) -> None:
    wishes = understand(f"GRPO on a 7B model, 8k prompts, 16 {answer} {length} 1000 tokens each").wishes
    assert (wishes["completions"], wishes["output_tokens"]) == ("16", "1000")
    assert "seq_len" not in wishes


def test_the_length_of_a_rollout_in_chinese() -> None:
    wishes = understand("GRPO训练7B模型，8000个prompt，每个prompt采样16个回答，每个1000 token").wishes
    assert (wishes["completions"], wishes["output_tokens"]) == ("16", "1000")
    assert "tpot" not in wishes


@pytest.mark.parametrize("text", ["summary", "caption", "description", "translation", "answer"])
@pytest.mark.parametrize("joint", [" ", "-"])
def test_so_many_tokens_of_a_text_that_is_written_are_no_data(text: str, joint: str) -> None:
    wishes = understand(f"run llama 3.1 70b over 2 million tickets (800 tokens each) to write a 100{joint}token {text}").wishes
    assert (wishes["data"], wishes["input_tokens"], wishes["output_tokens"]) == ("2 million samples", "800", "100")


@pytest.mark.parametrize("word", ["spot", "preemptible", "interruptible"])
def test_a_way_to_pay_that_is_denied_by_its_prefix(word: str) -> None:
    found = understand(f"train a 13B model on 1T tokens with 256 H100s, non-{word}")
    assert found.wishes["purchase"] == "on-demand"
    assert not found.weighty


@pytest.mark.parametrize("things", ["calls", "phone calls", "conversations", "streams"])
def test_so_many_at_the_same_time_are_users(things: str) -> None:
    found = understand(f"real time whisper service for a call centre: 60 {things} at the same time")
    assert found.wishes["users"] == "60"
    assert "data" not in found.wishes
    assert not found.weighty
    assert understand("同时60通电话的实时whisper语音识别").wishes["users"] == "60"


@pytest.mark.parametrize(
    ("sentence", "slowest", "other"),
    [("dedupe and tokenise 4 TB of text", "tokenize", "dedupe"), ("去重并分词4TB网页文本", "tokenize", "去重")],
)
def test_of_several_steps_the_others_are_said(sentence: str, slowest: str, other: str) -> None:
    found = understand(sentence)
    said = next(message for message in found.assumed if message.key == "workload.assumed_heaviest")
    assert found.wishes["operation"] == slowest
    assert other in str(said)


@pytest.mark.parametrize(
    ("sentence", "second"),
    [
        ("RAG: bge-m3 for embeddings and a llama 8b to answer, 3 million pages", "bge-m3"),
        ("知识库问答,50万篇文档,用bge-large-zh做向量,用Qwen2.5-14B回答,每秒1个请求", "Qwen2.5-14B"),
    ],
)
def test_a_second_model_is_named_in_the_question(sentence: str, second: str) -> None:
    question = understand(sentence).question()
    assert question.key == "workload.second_model"
    assert second in str(question)


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


@pytest.mark.parametrize("candidate", ["passages", "documents", "candidates", "chunks"])
@pytest.mark.parametrize("joint", ["each with", "with", ", each against"])
def test_a_reranker_scores_each_candidate_of_a_query(joint: str, candidate: str) -> None:
    found = understand(f"serve bge-reranker-v2-m3, 50 queries per second {joint} 20 {candidate} of 250 tokens")
    assert found.wishes["rate"] == "1000/second"
    assert found.wishes["input_tokens"] == "250"
    assert not found.weighty
    assert "workload.assumed_pairs" in _keys(found.sentence)


def test_candidates_without_a_rate_are_asked_about() -> None:
    assert understand("serve bge-reranker-v2-m3, each with 20 passages").weighty
    assert understand("用bge-reranker-v2-m3做重排,每秒30个查询,每次查询50篇文档").wishes["rate"] == "1500/秒"


@pytest.mark.parametrize("words", ["不要求实时", "不需要实时", "离线处理"])
def test_so_many_a_day_that_may_wait_are_a_job_of_each_day(words: str) -> None:
    wishes = understand(f"每天生成2万张SDXL图片,{words}").wishes
    assert (wishes["task"], wishes["data"], wishes["deadline"]) == ("batch", "2万 samples", "24h")
    assert understand("每天生成2万张SDXL图片").wishes["task"] == "serve"


@pytest.mark.parametrize("side", grammar.listed("usual_side", "quantities"))
def test_a_usual_side_alone_between_commas_is_the_size_of_images(side: str) -> None:
    wishes = understand(f"train yolo11l, 200k images, {side}, 150 epochs").wishes
    assert (wishes["image_size"], wishes["epochs"]) == (side, "150")
    wishes = understand(f"YOLO11l训练,20万张图,{side},150轮").wishes
    assert (wishes["image_size"], wishes["epochs"], wishes["data"]) == (side, "150", "20万张")


@pytest.mark.parametrize("work", ["SFT", "DPO", "RLHF", "sft"])
def test_the_name_of_a_method_is_no_model(work: str) -> None:
    assert understand(f"{work} a 72B model with LoRA on 30k pairs").wishes["model"] == "72B"


@pytest.mark.parametrize("length", ["~200 tokens", "about 200 tokens", "200 tokens each", "约200 token"])
def test_tokens_in_brackets_behind_what_is_counted_are_its_length(length: str) -> None:
    wishes = understand(f"embed 20 million passages ({length}) with bge-large-en-v1.5").wishes
    assert (wishes["data"], wishes["input_tokens"]) == ("20 million samples", "200")


@pytest.mark.parametrize("words", ["cost and days?", "cost and time?", "days and cost?"])
def test_what_a_plan_says_anyway_is_no_question(words: str) -> None:
    assert not understand(f"train a 7B model from scratch on 300 billion tokens with 128 H100s, {words}").weighty


@pytest.mark.parametrize("unit", ["reviews", "titles", "tweets", "passages", "documents"])
@pytest.mark.parametrize(
    "shape", ["classify 10 million {}, 128 tokens, with deberta-v3-base", "embed 10 million {} of 128 tokens with e5-large-v2"]
)
def test_few_tokens_beside_a_count_are_its_length(unit: str, shape: str) -> None:
    wishes = understand(shape.format(unit)).wishes
    assert wishes["data"].startswith("10 million ")
    assert wishes["input_tokens"] == "128"


@pytest.mark.parametrize("limit", ["within a day", "in a day", "in less than a day"])
def test_a_limit_of_a_day_is_no_work_of_each_day(limit: str) -> None:
    assert "workload.assumed_each_day" not in _keys(f"transcribe 1200 hours of recordings with whisper medium {limit}")


@pytest.mark.parametrize("allowed", ["is fine", "is ok", "would be okay", "is also possible"])
def test_a_term_that_may_be_is_not_a_term_that_must_be(allowed: str) -> None:
    found = understand(f"train a 30B model on 600B tokens with 512 H100s, reserved {allowed}")
    assert "purchase" not in found.wishes
    assert not found.weighty
    assert understand("train a 30B model on 600B tokens with 512 H100s, reserved").wishes["purchase"] == "reserved"


@pytest.mark.parametrize("ending", ["is not acceptable", "is unacceptable", "is not an option"])
def test_spot_that_is_not_acceptable_is_denied(ending: str) -> None:
    found = understand(f"self-host gemma 3 27b, ~1 req/s, 1k/300 tokens, spot {ending}")
    assert found.wishes["purchase"] == "on-demand"
    assert found.wishes["model"] == "gemma 3 27b"
    assert (found.wishes["input_tokens"], found.wishes["output_tokens"]) == ("1k", "300")


@pytest.mark.parametrize("night", ["in one night", "in a night", "within one night", "during the night"])
def test_one_night_is_a_deadline(night: str) -> None:
    assert understand(f"full fine-tune Phi-3-mini on 120M tokens {night}").wishes["deadline"] == "12h"


@pytest.mark.parametrize("name", ["SD 1.5", "Stable Diffusion 1.5", "Stable Diffusion 3.5 large"])
@pytest.mark.parametrize("thing", ["image generation", "images", "pictures for a shop"])
def test_the_version_of_a_model_counts_no_things(name: str, thing: str) -> None:
    assert understand(f"serve {name} {thing} at 2 requests per second").wishes["model"] == name
