"""What posts say in turns of their own: pasted errors, hardware that is to be bought, parts of a
prompt, tokens of a day, cards that cannot be had."""

from __future__ import annotations

import pytest

from rightfit.workload.ask import understand

ERRORS = [
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB (GPU 0; 23.69 GiB total capacity; 21.02 GiB already allocated; "
    "1.03 GiB free; 21.47 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid "
    "fragmentation.",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 270.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 148.00 MiB is free. "
    "Including non-PyTorch memory, this process has 23.49 GiB memory in use. Of the allocated memory 22.80 GiB is allocated by PyTorch, and "
    "230.15 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
    "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 14.76 GiB total capacity; 13.52 GiB already allocated)",
]
POSTS = [
    "I am fine-tuning Llama-2-7b-hf with LoRA on an A100 40GB, 10k samples of 500 tokens each. {} What should I change?",
    "{}\n\nI am fine-tuning Llama-2-7b-hf with LoRA on an A100 40GB, 10k samples of 500 tokens each. What should I change?",
    "用 LoRA 微调 Llama-2-7b-hf，数据1万条，每条500 token，用一张 A100 40GB。报错：{}。请问怎么改？",
]


@pytest.mark.parametrize("post", POSTS)
@pytest.mark.parametrize("error", ERRORS)
def test_a_pasted_error_sets_no_option(post: str, error: str) -> None:
    found, bare = understand(post.format(error)), understand(post.format("CUDA out of memory"))
    assert found.wishes == bare.wishes
    assert not found.weighty
    assert any(one.key == "workload.assumed_memory_error" and "GiB" in str(one.fields["had"]) for one in found.assumed)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("gradient checkpointing on", "full"),
        ("with gradient checkpointing", "full"),
        ("gradient_checkpointing=True", "full"),
        ("without gradient checkpointing", "none"),
        ("gradient checkpointing off", "none"),
        ("would gradient checkpointing help", None),
        ("开了梯度检查点", "full"),
        ("没开梯度检查点", "none"),
        ("开梯度检查点能省多少", None),
    ],
)
def test_recomputation_is_read_where_it_is_said(said: str, value: str | None) -> None:
    assert understand(f"LoRA of Qwen2.5-7B on 10M tokens, {said}, sequence length 2048").wishes.get("recompute") == value


@pytest.mark.parametrize(
    "said",
    [
        "We have a budget of $15k for a workstation.",
        "We want to buy a server, budget of $15k.",
        "公司预算15万元采购一台机器。",
    ],
)
def test_money_for_hardware_is_no_limit_of_a_rental(said: str) -> None:
    found = understand(f"We are a team of 6 and want to host Qwen2.5-32B for all of us as a code assistant. {said} Which GPU do we need?")
    assert "budget" not in found.wishes
    assert any(one.key == "workload.assumed_purchase" for one in found.assumed)
    rented = understand("We are a team of 6 and want to host Qwen2.5-32B for all of us in the cloud. Budget of $15k. Which GPU do we need?")
    assert "budget" in rented.wishes


@pytest.mark.parametrize(
    "said",
    [
        "Each review is about 120 tokens, the system prompt is 500 tokens and always the same",
        "There is a 500 token system prompt, and each review is about 120 tokens",
    ],
)
def test_parts_of_a_prompt_are_one(said: str) -> None:
    found = understand(f"I have to label 3 million customer reviews with Llama-3.1-8B-Instruct. {said}, and the output is about 10 tokens.")
    assert {name: found.wishes[name] for name in ("input_tokens", "cached_tokens", "output_tokens")} == {
        "input_tokens": "620",
        "cached_tokens": "500",
        "output_tokens": "10",
    }


@pytest.mark.parametrize(
    "said",
    [
        "每天大约 2000 万 token 输入，300 万 token 输出",
        "每天输入2000万token，输出300万token",
        "we use 20 million tokens in and 3 million tokens out per day",
    ],
)
def test_tokens_of_a_day_are_requests_of_a_usual_length(said: str) -> None:
    post = f"We call an API and think about hosting it ourselves. {said}. Would a server with Qwen3-32B be cheaper? What would it take?"
    found = understand(post).wishes
    assert (found["rate"], found["input_tokens"], found["output_tokens"]) == ("20000/day", "1000", "150")


@pytest.mark.parametrize("said", ["are never available", "are always sold out", "are out of stock"])
def test_cards_that_cannot_be_had_are_avoided(said: str) -> None:
    post = f"I want to fine-tune Phi-3-mini with LoRA on 20M tokens on GCP. I know A100s work, but they {said} in my region. What else?"
    found = understand(post).wishes
    assert found["avoid"] == "A100"
    assert "gpu" not in found


@pytest.mark.parametrize(("said", "is_asked"), [("is he right?", True), ("who knows.", False)])
def test_hearsay_that_is_doubted_is_a_question(said: str, is_asked: bool) -> None:
    post = f"I want to host Qwen2.5-7B-Instruct for 30,000 requests a day of 800 tokens in and 200 out. My friend says that a single L4 is enough, {said}"
    assert ("gpu" in understand(post).wishes) == is_asked


def test_the_size_of_counted_pictures_is_no_second_amount() -> None:
    found = understand("Train a ResNet-50 from scratch on 1.2 million product photos (60 GB on disk), 90 epochs")
    assert found.wishes["data"] == "1.2 million images"
    assert "60 GB" in found.unused


def test_a_context_before_a_comma_is_read() -> None:
    post = "Can I LoRA fine-tune Qwen2.5-7B at a sequence length of 4096, and how long would 30,000 samples of 1,200 tokens take? I have a week."
    assert understand(post).wishes["seq_len"] == "4096"


@pytest.mark.parametrize("said", ["Common Voice in Hindi (about 20 hours)", "Common Voice (20 hours)"])
def test_hours_in_brackets_are_those_of_the_data_set(said: str) -> None:
    assert understand(f"Fine-tune whisper-small on {said} in under one hour").wishes["data"] == "20 hours"


def test_steps_over_pictures_without_a_batch_take_one_each() -> None:
    post = "I want to train a LoRA of FLUX.1-dev on 25 pictures of my dog, 2000 steps at 1024x1024. How long does it take on RunPod? Four times in all."
    found = understand(post)
    assert (found.wishes["epochs"], found.wishes["global_batch"]) == ("80", "1")
    assert any(one.key == "workload.assumed_steps_usual" for one in found.assumed)


@pytest.mark.parametrize("said", ["4090够不够", "4090够不够用？", "4090行不行，"])
def test_a_card_that_is_asked_about_is_none_on_which_it_failed(said: str) -> None:
    post = f"想用LoRA微调Qwen2.5-7B，3000条，每条300字。自己的笔记本是4060 8G显存，一跑就报 CUDA out of memory。请问租什么卡合适？{said}大概要跑多久"
    assert understand(post).wishes["gpu"] == "4090"


@pytest.mark.parametrize(
    ("sentence", "read"),
    [
        ("ComfyUI 跑 SDXL，每天用三四个小时", {"users": "1", "latency": "1min"}),
        ("I run SDXL in ComfyUI all day as a service", {"users": "1", "latency": "1min"}),
        ("部署 qwen3:32b，用 ollama", {"users": "1"}),
        ("部署 qwen3:32b，用 ollama，20 人用", {"users": "20"}),
        ("serve Qwen2.5-7B, low traffic", {"rate": "1/min"}),
        ("部署 Qwen2.5-7B 服务，访问量不大", {"rate": "1/min"}),
        ("serve Qwen2.5-7B at 5 requests/s, low traffic at night", {"rate": "5/s"}),
    ],
)
def test_a_tool_of_one_person_and_little_traffic_say_how_many(sentence: str, read: dict[str, str]) -> None:
    wishes = understand(sentence).wishes
    assert {name: wishes.get(name) for name in read} == read
