"""Whose a fact of a post is, and when: only what is asked of the job at hand limits it."""

from __future__ import annotations

import pytest

from rightfit.workload.ask import understand

#: A wish inside a post, and the options that it means.
WISHES = {
    "en": (
        "We build a search tool for small libraries and have never rented anything. {told} "
        "I want to fine-tune Mistral 7B with LoRA on 50k samples of 300 tokens each. What would you do?",
        {"model": "Mistral 7B", "method": "lora", "data": "50k samples", "seq_len": "300", "task": "finetune"},
    ),
    "zh": (
        "我们是一个给小图书馆做检索工具的团队，从来没租过机器。{told}想用LoRA微调Qwen2.5-7B，数据5万条，每条500字。换成你们会怎么做？",
        {"model": "Qwen2.5-7B", "method": "lora", "data": "5万条", "seq_len": "500", "task": "finetune"},
    ),
}
TOLD = {
    "en": (
        "Somebody in the lab paid 600 for 8 A100s over a weekend.",
        "Everyone in the discord is renting H100s.",
        "Another user reported success with 4 cards, but they used QLoRA.",
        "A YouTuber says 8 GPUs are needed.",
        "Our uni cluster has a two week queue.",
        "I pay a hosting bill of roughly $4.1k a month.",
        "They want a 12 month commit.",
    ),
    "zh": (
        "运维报了4台8卡V100。",
        "评论区有人说要8张A100。",
        "同事说直接上8张H20，报价一个月十几万。",
        "投资人建议买4张5090。",
    ),
}


@pytest.mark.parametrize(("lang", "told"), [(lang, told) for lang, listed in TOLD.items() for told in listed])
def test_what_others_do_and_what_is_paid_limits_nothing(lang: str, told: str) -> None:
    post, meant = WISHES[lang]
    found = understand(post.format(told=told))
    assert {name: value for name, value in found.wishes.items() if name != "currency"} == meant
    assert not found.own_machine


@pytest.mark.parametrize(
    ("lang", "told"),
    [("en", "A boutique cloud has the A100 at $1.89 each."), ("zh", "某平台A100一张11块。"), ("zh", "某云4090按时2.1元，一天才三十多块。")],
)
def test_the_price_of_a_card_is_no_budget(lang: str, told: str) -> None:
    post, meant = WISHES[lang]
    found = understand(post.format(told=told)).wishes
    assert {name: found.get(name) for name in (*meant, "budget", "rate")} == {**meant, "budget": None, "rate": None}


@pytest.mark.parametrize("number", [3, 9, 120])
def test_the_amount_of_a_past_run_gives_way_to_that_of_the_job(number: int) -> None:
    post = (
        f"We are a legal startup of four people. We fine-tuned Mistral 7B last year and it took 19 hours for {number}k examples. "
        "Now we have 40k examples of 1,500 tokens, and would do 2 epochs with LoRA. What would you rent?"
    )
    assert understand(post).wishes["data"] == "40k examples"


@pytest.mark.parametrize(("said", "times"), [("redo each one 6-8 times", 8), ("regenerate each of them 3 times", 3)])
def test_what_is_made_anew_is_so_many_times_as_much(said: str, times: int) -> None:
    post = (
        "I make short films and am not an engineer at all. I want to use HunyuanVideo to generate 60 shots of 5 seconds at 720p, and I "
        f"will probably {said} until I like it. Which card should I rent for that?"
    )
    assert understand(post).wishes["data"] == f"{60 * times}clips"


@pytest.mark.parametrize("days", [2, 4])
def test_a_time_that_may_be_waited_is_the_limit(days: int) -> None:
    post = (
        "I want to transcribe 1,100 hours of old radio shows with Whisper large on something rented. One hour took about 50 minutes "
        f"when I tried it at home. I don't mind if it runs for {days} days. What is the simplest option for a beginner?"
    )
    assert understand(post).wishes["deadline"] == f"{days} days"


def test_a_model_that_was_tuned_before_is_served() -> None:
    post = (
        "想在AWS东京跑一个面向日本用户的翻译API，模型是自己微调的Qwen2.5-14B，峰值大概8 QPS，每次输入400 token输出400 token。"
        "现在排队严重。预算每月2500美元，能不能搞定？竞价行不行？"
    )
    wishes = understand(post).wishes
    assert wishes["task"] == "serve"
    assert wishes["rate"] == "8/s"
    assert "purchase" not in wishes


def test_images_are_made_by_the_model_that_their_number_names() -> None:
    post = (
        "Has anyone compared L40S and A100 for Stable Diffusion / Flux style batch jobs? Our pipeline makes 12k Flux-dev images per day at "
        "1024, 28 steps, on two A100 80GB from a boutique cloud at $1.89 each. Which one is the better choice?"
    )
    assert understand(post).wishes["model"] == "Flux-dev"


@pytest.mark.parametrize(("thing", "count"), [("sample", 30), ("image", 12)])
def test_a_data_set_by_the_number_of_its_things(thing: str, count: int) -> None:
    post = (
        "So I've got a mining rig leftover, and I'd love to train a 7B LoRA on it. A friend claims it is basically an A100. "
        f"Is he right, or should I rent something for my {count}k-{thing} dataset? Electricity here is not exactly cheap either."
    )
    assert understand(post).wishes["data"] == f"{count}k {thing}s"


def test_features_are_taken_and_not_learned() -> None:
    post = "各位好，我们做图搜，图片1.2亿张，打算用CLIP ViT-L/14全部重新提一遍特征，两周内完成。运维报了4台8卡V100，我感觉有点夸张。想听听怎么配。"
    wishes = understand(post).wishes
    assert wishes["task"] == "batch"
    assert "epochs" not in wishes
    assert "gpu" not in wishes


def test_who_are_online_at_once_are_the_users() -> None:
    post = "公司想部署一个内部知识库问答，用Qwen2.5-14B，文档大概8万篇。实际用的人也就五六十个，同时在线估计不到10个。一个月大概多少钱？"
    assert understand(post).wishes["users"] == "10"
