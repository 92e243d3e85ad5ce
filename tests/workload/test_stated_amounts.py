"""Figures that a poster states plainly are used, however they are spelled and whatever else the
post tells: what others say, what somebody was offered, what is there now."""

from __future__ import annotations

from typing import Any

import pytest

from rightfit.workload.ask import understand
from rightfit.workload.options import read_wish

#: Before and behind what is asked: opinions, offers, moods, none of which is a requirement.
FRAMES = {
    "en": (
        "ok so maybe dumb question. {wish} A cofounder swears we need an 8xH100 box, quote was like 55/hr. What would you actually rent?",
        "Hi all, first post here. {wish} Sales push A100 at $12k a month and I don't trust them. What should I rent, and what does it cost?",
        "My boss read a blog post and now he is excited. {wish} Reddit says that anything below an H100 is a toy lol. Which GPU do I need?",
        "{wish} We are a team of 3 and nobody has done this before. Our last contractor wanted two p4d.24xlarge for it. What is a sane setup?",
        "Long-time lurker, sorry for the wall of text. {wish} I hate kubernetes with a passion. How would you run it?",
    ),
    "zh": (
        "各位大佬求助。{wish}室友说必须 A100 不然会炸显存。到底租哪张，大概要花多少？",
        "自己啥也不懂，会一点 Python。{wish}问了销售给我推 A100 包月 1.2 万。真的要 A100 吗？",
        "老板看了公众号很激动，让我来调研。{wish}网上说没有 8 张 H100 别玩。应该租什么机器？",
        "刚入门，第一次发帖。{wish}AutoDL 上看到 4090 两块多，A100 七八块，直接看懵了。怎么租划算？",
        "团队就我一个人，同事吵翻了。{wish}之前外包报价是 8 卡 A800。该怎么选？",
    ),
}

#: (language, what is stated, the options that it gives)
STATED: tuple[tuple[str, str, dict[str, str]], ...] = (
    # samples and their lengths
    (
        "en",
        "I want to fine tune llama 3.1 8b on our support tickets. We have 12k tickets, maybe 500 tokens each.",
        {"data": "12000 samples", "seq_len": "500"},
    ),
    (
        "en",
        "I want to fine-tune Llama 3.1 8B with LoRA. There are about 12,000 tickets, roughly 500 tokens each.",
        {"data": "12000 samples", "seq_len": "500"},
    ),
    (
        "en",
        "We'd like to fine-tune Mistral-7B; twelve thousand tickets of ~500 tokens each are labeled.",
        {"data": "12000 samples", "seq_len": "500"},
    ),
    ("zh", "想用 LoRA 微调 Qwen2.5-7B，数据也就 5000 条，每条差不多 1500 字。", {"data": "5000 samples", "seq_len": "1500"}),
    ("zh", "想微调 Qwen2.5-7B，手上有 1.2 万条工单，每条 500 token 左右。", {"data": "12000 samples", "seq_len": "500"}),
    # tokens of each of several runs
    ("en", "Need to rerun full finetuning of Pythia-2.8B x 5 seeds, 300M tokens each.", {"data": "300M tokens", "method": "full"}),
    ("en", "Need to finetune Pythia-2.8B with 5 seeds, 300 million tokens per seed.", {"data": "300M tokens"}),
    ("en", "I have to finetune Pythia-2.8B five times (different seeds), each on 300M tokens.", {"data": "300M tokens"}),
    ("en", "I have to finetune Pythia-2.8B for 3 seeds, 0.3B tokens per run.", {"data": "300M tokens"}),
    ("zh", "要全参微调 Pythia-2.8B，5 个随机种子，每个 3 亿 token。", {"data": "300M tokens", "method": "full"}),
    ("zh", "要微调 Pythia-2.8B，跑 5 次不同种子，每次 3 亿 token。", {"data": "300M tokens"}),
    # hours of sound of a month or a week
    (
        "en",
        "We do podcast captions with whisper, approx 900 hours of audio a month and growing, currently paying an API (0.006/min so ~$324/mo).",
        {"task": "batch", "data": "900 hours"},
    ),
    (
        "en",
        "We caption podcasts with Whisper large-v3: 900 hours of audio per month. Nobody cares if a file takes 6 hours.",
        {"task": "batch", "data": "900 hours"},
    ),
    (
        "en",
        "Whisper large-v3, roughly 900 h of recordings each month, results the next morning are fine.",
        {"task": "batch", "data": "900 hours"},
    ),
    ("en", "We get about 200 hours of calls a week to transcribe with whisper, overnight is fine.", {"task": "batch", "data": "200 hours"}),
    ("zh", "我们用 whisper 做播客字幕，每月大概 900 小时音频，晚几个小时出结果没关系。", {"task": "batch", "data": "900 hours"}),
    ("zh", "用 Whisper large-v3 转写录音，一个月 900 个小时，第二天出结果就行。", {"task": "batch", "data": "900 hours"}),
    # images of a day
    (
        "en",
        "We make product images with SDXL plus a LoRA, 5000 images a day. Before that we paid 4 cents per image.",
        {"task": "batch", "data": "5000 images"},
    ),
    ("en", "We generate about 5,000 product pictures a day with SDXL, nobody waits for them.", {"task": "batch", "data": "5000 images"}),
    ("zh", "做跨境电商的，想用 SDXL 加 LoRA 每天出 5000 张商品图，仓库在义乌，客户在美国。", {"task": "batch", "data": "5000 images"}),
    ("zh", "想用 SDXL 一天生成 5000 张商品图，晚上跑就行。", {"task": "batch", "data": "5000 images"}),
    # requests of a part of the day
    (
        "en",
        "Serving a fine-tuned 13B w/ ~40 LoRA adapters (one per customer), like 200 req in the morning then nothing.",
        {"rate": "200/day", "adapters": "40"},
    ),
    ("en", "We want to serve a 13B with 40 LoRA adapters; traffic is bursty, about 200 requests every morning.", {"rate": "200/day"}),
    ("en", "We want to serve Llama-3.1-8B in-house, around 200 calls a day.", {"rate": "200/day"}),
    ("zh", "想部署 Qwen2.5-14B 给内部用，每天早上集中来 200 个请求，其他时间没人用。", {"rate": "200/day"}),
    ("zh", "想部署 Qwen2.5-14B，一天也就 200 次调用。", {"rate": "200/day"}),
    # people, and how long their prompts are
    (
        "en",
        "Running vLLM with Qwen2.5-32B-AWQ. Works with 1 user, then at ~8 users with long prompts (10-12k) it starts preempting.",
        {"users": "8", "input_tokens": "12k"},
    ),
    ("en", "We serve Qwen2.5-32B-AWQ with vLLM for 8 users with 10-12k prompts.", {"users": "8", "input_tokens": "12k"}),
    ("en", "Need to host Qwen2.5-32B for 8 devs, prompts of 12k tokens.", {"users": "8", "input_tokens": "12k"}),
    ("zh", "想部署 Qwen2.5-32B 给 8 个人用，提示词一般 1.2 万 token。", {"users": "8", "input_tokens": "12000"}),
    ("zh", "两年前的机器跑 Qwen2.5-32B，一个人用还行，8 个人同时用、提示词 12k 就卡死。", {"users": "8", "input_tokens": "12k"}),
    # money for a time
    ("en", "We want to serve Qwen2.5-14B for 60 users, budget is $7,000 a year.", {"budget": "583.333 usd/month"}),
    ("en", "We want to serve Qwen2.5-14B for 60 users with at most $12k per year.", {"budget": "1000 usd/month"}),
    ("en", "We want to serve Qwen2.5-14B for 60 users. Boss refuses anything above $1.50 an hour.", {"budget": "1095 usd/month"}),
    (
        "en",
        "We serve Llama-3.1-8B for 20 users and pay $1,600 a month now, management allows $3,000 a month at most.",
        {"budget": "3000 usd/month"},
    ),
    ("zh", "公司想部署 Qwen2.5-14B 给 60 个人用，预算 5 万一年。", {"budget": "4166.67 cny/month"}),
    ("zh", "公司想部署 Qwen2.5-14B 给 60 个人用，一年预算五万块。", {"budget": "4166.67 cny/month"}),
    ("zh", "公司想部署 Qwen2.5-14B 给 60 个人用，每年最多 5 万元。", {"budget": "4166.67 cny/month"}),
    ("zh", "公司想部署 Qwen2.5-14B 给十来个人问，每月现在 1600 左右，领导说最多加到 3000。", {"budget": "3000 cny/month"}),
    # how it is trained
    (
        "en",
        "CUDA out of memory when fine-tuning Mistral-7B. I use Trainer with bf16=True, batch size 4, no peft, seq 2048.",
        {"method": "full", "seq_len": "2048"},
    ),
    (
        "en",
        "I fine-tune Mistral-7B without peft, max_seq_length=2048, and 20k samples.",
        {"method": "full", "seq_len": "2048", "data": "20k samples"},
    ),
    ("zh", "想微调 Mistral-7B，不用 peft，序列长度 2048，2 万条数据。", {"method": "full", "seq_len": "2048", "data": "20000 samples"}),
)

CASES = [
    pytest.param(frame.format(wish=wish), expected, id=f"{at}-{number}")
    for at, (lang, wish, expected) in enumerate(STATED)
    for number, frame in enumerate(FRAMES[lang])
]
#: What no such post asks for, several cards to compare excepted: others said or offered it.
NEVER = ("gpu", "num_gpus", "rate", "purchase", "country", "max_nodes")


def _attributes(option: str, value: Any) -> dict[str, object]:
    found = read_wish(option, str(value))
    if option == "budget":
        return {name: round(one) if isinstance(one, float) else one for name, one in found.items() if name != "budget"}
    return {name: one for name, one in found.items() if name != "data" or len(found) == 1}


@pytest.mark.parametrize(("post", "expected"), CASES)
def test_what_is_stated_is_used(post: str, expected: dict[str, str]) -> None:
    wishes = understand(post).wishes
    wrong = {
        option: (wishes.get(option), value)
        for option, value in expected.items()
        if option not in wishes or _attributes(option, wishes[option]) != _attributes(option, value)
    }
    wrong |= {
        option: (wishes[option], None) for option in NEVER if option in wishes and option not in expected and "," not in wishes[option]
    }
    assert not wrong, (wrong, understand(post).unused)


@pytest.mark.parametrize(
    ("post", "stated"),
    [
        (
            "We want to serve Llama-3.1-8B ourselves, and have no idea what that takes. Currently paying an API for 20,000 requests a day. "
            "Which server should we rent, and is it cheaper than what we have?",
            "20,000 requests a day",
        ),
        (
            "I want to fine-tune Llama-3.1-8B with LoRA and nobody could tell me what to rent. Right now I train on Colab with 50k samples. "
            "How much would a proper GPU cost me for this?",
            "50k samples",
        ),
        ("想自己部署 Qwen2.5-14B，完全不懂硬件，第一次做这种事。目前用接口一天 3 万次请求。应该租什么样的机器才够用？", "3 万次请求"),
    ],
)
def test_what_is_stated_and_not_read_leads_the_answer(post: str, stated: str) -> None:
    """The plan would assume such an amount: it is used, or the first lines say that it is not."""
    found = understand(post)
    assert {"data", "rate"} & set(found.wishes) or any(stated in words or words in stated for words in found.weighty), found


def test_a_card_that_is_named_again_is_compared_with_nothing() -> None:
    post = "想部署 Qwen2.5-14B，用 vLLM，一张 A10 24G。晚高峰大概 20 个并发，输入 2000 token，输出 300。群里有人说必须 A100。A10 能扛住吗？"
    assert understand(post).cards == (("A10 24G", 1),)
