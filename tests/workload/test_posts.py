"""Posts: what somebody tells beside a wish neither limits it nor stops its answer."""

from __future__ import annotations

import itertools

import pytest

from rightfit.workload.ask import understand

#: A wish, and the options that it means.
WISHES = {
    "en": (
        "I want to fine-tune Mistral 7B with LoRA on 50k samples of 300 tokens each, within 2 days.",
        {"model": "Mistral 7B", "method": "lora", "data": "50k samples", "seq_len": "300", "deadline": "2 days", "task": "finetune"},
    ),
    "zh": (
        "我们是一个做法律问答的小团队，想用LoRA微调Qwen2.5-7B，数据1万条，每条500字，两天内训完。",
        {"model": "Qwen2.5-7B", "method": "lora", "data": "1万条", "seq_len": "500", "deadline": "两天", "task": "finetune"},
    ),
}
STORIES = {
    "en": (
        "I keep getting CUDA out of memory even with batch size 1.",
        "Right now I'm getting about 2 tok/s and utilization is at 100%.",
        "We currently pay OpenAI around $600/month for this.",
        "Someone told me it needs at least 4 GPUs.",
        "My friend finished something like it on 2x H100 in 3 hours.",
        "On Colab it runs at about 4x realtime.",
    ),
    "zh": (
        "之前试过ollama跑14B，速度只有20 token/s。",
        "听说至少要4张A100才行。",
        "看了下阿里云A10的价格好贵。",
        "现在用的3060一张图要二十几秒，太慢了。",
    ),
}
#: What a post must not leave out, with the word that is asked about.
DEMANDS = {
    "en": (("It has to be HIPAA compliant.", "HIPAA"), ("No Kubernetes please.", "Kubernetes"), ("It should autoscale.", "autoscale")),
    "zh": (("要求高可用。", "高可用"), ("必须通过等保。", "等保"), ("只能用autodl平台。", "autodl")),
}


@pytest.mark.parametrize(("lang", "story"), [(lang, story) for lang, stories in STORIES.items() for story in stories])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_story_changes_nothing_and_is_listed(lang: str, story: str, *, is_first: bool) -> None:
    wish, meant = WISHES[lang]
    found = understand(f"{story} {wish}" if is_first else f"{wish} {story}")
    assert found.wishes == meant
    assert not found.weighty
    assert not found.own_machine
    assert any(message.key in ("workload.assumed_told", "workload.assumed_run") for message in found.assumed)
    assert found.unused


@pytest.mark.parametrize("lang", WISHES)
def test_two_stories_change_nothing(lang: str) -> None:
    wish, meant = WISHES[lang]
    for first, last in itertools.permutations(STORIES[lang], 2):
        found = understand(f"{first} {wish} {last}")
        assert found.wishes == meant, (first, last)
        assert not found.weighty


@pytest.mark.parametrize(("lang", "said", "word"), [(lang, *one) for lang, listed in DEMANDS.items() for one in listed])
def test_a_demand_stops_a_post_too(lang: str, said: str, word: str) -> None:
    found = understand(f"{STORIES[lang][0]} {WISHES[lang][0]} {said}")
    assert any(word in piece for piece in found.weighty), found


@pytest.mark.parametrize(
    ("post", "options"),
    [
        (
            "We want to serve Llama 3.1 8B. It is around 40k emails per day, about 800 tokens in and 150 out. Nothing else runs there.",
            {"rate": "40k/day"},
        ),
        (
            "How would I run Qwen3-30B-A3B for a single user? 15 tok/s is plenty. I use it for an hour or so, mostly for writing code.",
            {"tpot": "66.67ms"},
        ),
        ("想租机器跑Qwen2.5-72B的int4推理，就自己一个人用。每天大概用2、3个小时，有没有便宜点的方案？", {"office_hours": "91.25"}),
        ("有没有人试过在8张910B上微调70B的模型？我们只能用国产卡，数据大概2亿token，想一周之内训完。", {"gpu": "Ascend-910B"}),
    ],
)
def test_numbers_go_to_what_they_count(post: str, options: dict[str, str]) -> None:
    wishes = understand(post).wishes
    assert {name: wishes.get(name) for name in options} == options


def test_pages_of_documents_are_counted() -> None:
    for sentence in ("OCR 5,000 PDFs of about 8 pages each with Qwen2-VL-7B", "用Qwen2-VL-7B识别5000份合同，每份约8页"):
        assert understand(sentence).wishes["data"] == "40000 samples"


def test_other_cards_than_ones_own_are_said() -> None:
    found = understand("I have a 3090 at home. Fine-tune Llama-3-8B with LoRA on 10k samples, or should it be an H100?")
    assert found.own_machine.startswith("1x3090")
    assert "gpu" not in found.wishes
