"""Posts: what somebody tells beside a wish neither limits it nor stops its answer."""

from __future__ import annotations

import itertools

import pytest

from rightfit.errors import InputError
from rightfit.search.ownership import read_machine
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


#: What somebody tells of prices and of power beside a wish, with what is listed of it.
TOLD_PRICES = {
    "en": (
        ("My landlord offers a box for $2.20/h.", "$2.20/h"),
        ("Electricity here is $0.25/kWh.", "0.25/kWh"),
        ("Each card pulls 300W.", "300W"),
        ("The API takes $0.27 / $1.10 per million tokens.", "per million"),
        ("I found a machine for around $18 per hour.", "$18 per hour"),
    ),
    "zh": (
        ("有人报价一小时 18 元。", "18 元"),
        ("这边电费 0.6 元一度。", "0.6 元一度"),
        ("每张卡功耗 300W。", "300W"),
        ("API 是 0.5元/百万token。", "0.5元/百万token"),
        ("API 每百万 token 输入 0.5 元输出 1 元。", "每百万 token"),
    ),
}


@pytest.mark.parametrize(("lang", "told", "words"), [(lang, *one) for lang, listed in TOLD_PRICES.items() for one in listed])
@pytest.mark.parametrize("is_first", [True, False])
def test_prices_and_power_that_are_told_are_no_limits(lang: str, told: str, words: str, *, is_first: bool) -> None:
    wish, meant = WISHES[lang]
    found = understand(f"{told} {wish}" if is_first else f"{wish} {told}")
    assert found.wishes == meant
    assert not found.weighty
    assert any(words in piece for piece in found.unused)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("Fine-tune Mistral 7B with LoRA on 10M tokens, at most $2.20/h", "$2.20/h"),
        ("Serve Qwen2.5-7B-Instruct at 8 requests/s for less than $0.3 per million tokens", "$0.3 per million tokens"),
        ("微调 Qwen2.5-7B,1万条数据,每小时不超过 8 元", "8 元"),
        ("部署 Qwen2.5-7B-Instruct,每秒 8 个请求,不超过 0.5元/百万token", "0.5元/百万token"),
    ],
)
def test_the_most_that_is_paid_is_asked_about(wish: str, words: str) -> None:
    found = understand(wish)
    assert any(words in piece for piece in found.weighty)
    assert "budget" not in found.wishes


@pytest.mark.parametrize(
    ("wish", "options"),
    [
        ("Serve Llama-3.1-8B to 500 concurrent users, about 30 seconds between messages", {"think": "30 seconds", "users": "500"}),
        ("Serve Llama-3.1-8B to 500 concurrent users, each sending a message every 30 seconds", {"think": "30 seconds", "rate": None}),
        ("部署 Qwen3-32B,500 人同时在线,两次提问间隔约 30 秒", {"think": "30 秒", "users": "500"}),
        ("部署 Qwen3-32B,500 人同时在线,每人 30 秒问一次", {"think": "30 秒", "rate": None}),
        ("Qwen3-32B 部署给公司 300 人用,同时在线 50 人左右", {"users": "50"}),
        ("公司300人同时在线,部署 Qwen3-32B", {"users": "300"}),
        ("Serve Qwen3-32B to a company of 300 people, about 50 concurrent users", {"users": "50"}),
        ("Serve Qwen3-32B for 300 employees, 50 of them at the same time", {"users": "50"}),
        ("用 LLaMA-Factory 微调 GLM-4-9B,5 万条数据,一张 4090 够不够,租一天多少钱?", {"deadline": None, "gpu": "4090"}),
        ("Fine-tune GLM-4-9B on 50k samples on a 4090, how much is renting it for a day?", {"deadline": None, "gpu": "4090"}),
        ("Full fine-tune Llama-3.1-70B on 100M tokens on AWS p5", {"cloud": "aws", "gpu": "H100"}),
        ("LoRA fine-tune Llama-3-8B on 100M tokens on a p4d instance", {"gpu": "A100 40GB"}),
        ("用 AWS 的 p5 实例全参微调 Llama-3.1-70B,1亿token", {"cloud": "aws", "gpu": "H100"}),
        ("我们有两台8卡A800,想全参微调Qwen2.5-72B,2亿token", {"gpu": "A800", "num_gpus": "16", "max_nodes": "2"}),
        ("We have 2 servers with 8x A800, full fine-tune Qwen2.5-72B on 200M tokens", {"gpu": "A800", "num_gpus": "16", "max_nodes": "2"}),
        ("训练一个 VITS 中文语音合成,50 小时数据", {"data": "50 小时", "deadline": None}),
        ("Train VITS text to speech on 50 hours of data", {"data": "50 hours", "deadline": None}),
        ("Train VITS text to speech within 50 hours", {"data": None, "deadline": "50 hours"}),
        ("Serve 72B-AWQ for 10 users", {"model": "72B", "quantization": "awq"}),
        ("部署 72B-AWQ,10 人用", {"model": "72B", "quantization": "awq"}),
    ],
)
def test_words_beside_a_wish_are_what_they_say(wish: str, options: dict[str, str | None]) -> None:
    found = understand(wish)
    assert {name: found.wishes.get(name) for name in options} == options
    assert not found.weighty


@pytest.mark.parametrize("wish", ["微调 GLM-4-9B,5 万条数据,租一个月", "Fine-tune GLM-4-9B on 50k samples, renting it for a month"])
def test_a_time_of_rent_that_nobody_asks_the_price_of_is_asked_about(wish: str) -> None:
    assert understand(wish).weighty


@pytest.mark.parametrize("text", ["2x8xA800", "2 x 8 x A800"])
def test_several_machines_of_ones_own_are_named_as_rented_ones(text: str) -> None:
    with pytest.raises(InputError, match=r"--gpu A800 --num-gpus 16 --max-nodes 2"):
        read_machine(text)


#: What was tried, seen or asked beside a wish, and what it must leave as the wish has it.
TRIED = {
    "en": (
        "LoRA r=16 works with 24 GB but the quality on my domain is not good enough.",
        "With more than 2 or 3 people at the same time it crawls to 8 tok/s.",
        "The V100 does not support bf16 and the loss gets nan.",
        "I've tried LightGBM on a 10% sample, 25 minutes on 8 cores.",
        "Is it really just a couple of dollars?",
        "The moment I push it to 32k it refuses to start.",
    ),
    "zh": ("不过 V100 不支持 bf16，loss 经常 nan。", "并发到 16 就开始排队。", "真的只要 20 元吗？", "batch size 2 就爆显存。"),
}


@pytest.mark.parametrize(("lang", "told"), [(lang, told) for lang, listed in TRIED.items() for told in listed])
def test_what_was_tried_sets_nothing(lang: str, told: str) -> None:
    wish, meant = WISHES[lang]
    found = understand(f"{wish} {told}")
    assert found.wishes == meant
    assert not found.weighty
    assert not found.own_machine


@pytest.mark.parametrize(
    ("post", "options", "own"),
    [
        (
            "Trying to train a FLUX.1-dev LoRA on my RTX 4080 16GB. 30 images, resolution 1024, 2000 steps, batch size 1. It still dies with "
            "CUDA out of memory at step 0. What is the cheapest cloud GPU where this just works?",
            {"model": "FLUX.1-dev", "gpu": None},
            "",
        ),
        (
            "We have 2x RTX A6000 48GB and want to give 25 colleagues a coding assistant with Qwen3-30B-A3B, and with more than 2 or 3 people "
            "at the same time it crawls. Will switching to vLLM do the trick on this box or do we need to buy an H100?",
            {"users": "25", "gpu": None},
            "2xRTX A6000 48GB",
        ),
        (
            "Full fine-tune Llama-3.1-8B on a single A100 80GB, bf16. I get CUDA OOM at something like 78 GB. LoRA works with 24 GB but the "
            "quality is not good enough. My dataset is 60M tokens, 2 epochs. How many A100s do I need?",
            {"method": "full", "data": "60M tokens"},
            "",
        ),
        (
            "公司内部用 4 张 4090 跑 Qwen2.5-72B-Instruct-AWQ，平均输入 2000 token 输出 500 token。32 个人一起用的时候很慢。"
            "老板问要不要换成租 2 张 A100 80G 或者 2 张 H20。",
            {"gpu": None, "num_gpus": None},
            "4x4090",
        ),
        (
            "We serve Mistral-Small-24B with vLLM for our users. At peak we see 40 concurrent requests, prompts are 1.5k tokens and outputs "
            "300 tokens. TTFT went up last week. Would an A100 be enough or should we go for an H100?",
            {"users": "40", "input_tokens": "1.5k", "output_tokens": "300", "gpu": "A100,H100"},
            "",
        ),
        (
            "Kaggle comp: 4M images at 384x384, ConvNeXt-Base, 10 epochs. My 3080 does 90 img/s so I'd need five days. Is there a spot "
            "instance that gets it done overnight?",
            {"deadline": "12h", "epochs": "10", "purchase": "spot"},
            "",
        ),
        (
            "手上只有一张 3060 12G，想微调 Qwen2.5-7B，数据 3 万条。用 QLoRA 显存够，但是一个 epoch 要二十几个小时。三个 epoch 大概多少钱？",
            {"epochs": "3", "deadline": None, "method": "qlora"},
            "1x3060 12G",
        ),
        (
            "I currently rent 2x H100 on RunPod for Llama-3.3-70B. Load is 25 concurrent users, 3k prompts and 500 token outputs. "
            "Is there something cheaper that keeps TTFT below 2 s?",
            {"gpu": None, "num_gpus": None, "cloud": None, "users": "25", "ttft": "2 s"},
            "",
        ),
        (
            "We fine-tune YOLOv8m on 60k images for 300 epochs. My own 3060 does batch 4 and takes 40 minutes an epoch, way too slow. "
            "I want to rent a single 4090 or an A100, done in 3 days.",
            {"global_batch": None, "deadline": "3 days"},
            "",
        ),
        (
            "I am trying to full fine-tune Llama-3.1-8B on one A100 80GB (Colab / Lambda). I get CUDA OOM at the first step. "
            "My dataset is 60M tokens. How many A100s do I actually need?",
            {"cloud": None, "method": "full", "data": "60M tokens"},
            "",
        ),
        (
            "QLoRA of Qwen2.5-32B-Instruct on RTX 4090 24GB, 20k samples. I get torch.cuda.OutOfMemoryError after loading the weights. "
            "What is the smallest GPU that can do it safely?",
            {"gpu": None, "method": "qlora"},
            "",
        ),
        (
            "做缺陷检测，数据 6 万张图，YOLOv8m，输入 1280，想跑 300 个 epoch。自己的 3060 12G 一个 epoch 要 40 分钟，实在等不起。"
            "想租服务器在 3 天内跑完。请问租单张 4090 够吗？还是要上 A100 或者多卡？CPU 有没有要求？",
            {"image_size": "1280", "input_tokens": None, "gpu": "4090,A100", "num_gpus": None, "deadline": "3 天"},
            "",
        ),
        (
            "实验室有一台老机器，8 卡 V100 32G，想全参微调 Qwen2.5-7B，数据大约 3 亿 token，跑 1 个 epoch。想问这台机器大概要跑多久？"
            "如果去租 8 卡 A100 或者 H100，大概要多少钱？",
            {"gpu": None, "precision": None},
            "8xV100 32G",
        ),
        (
            "I run DeepSeek V3 on a box at work. Would it fit on 8x H100 80GB? My usage is perhaps 5 million tokens in and 500k out per day, "
            "and the API is at $0.27 / $1.10 per million. Somebody offered the server for $18/h. Which is cheaper to serve it with?",
            {"input_tokens": "1000", "output_tokens": "100", "rate": "5000/day", "budget": None, "num_gpus": "8"},
            "",
        ),
        (
            "My train set has 12M rows and 300 numeric features, parquet 9 GB. I want XGBoost, 2000 rounds, depth 8. Should I rent a GPU "
            "machine or rather a big CPU machine? I've tried LightGBM on a 10% sample, 25 minutes on 8 cores.",
            {"model": "XGBoost", "trees": "2000", "gpu": None, "deadline": None, "data": "12M rows"},
            "",
        ),
    ],
)
def test_machines_and_numbers_of_a_post_go_where_they_belong(post: str, options: dict[str, str | None], own: str) -> None:
    found = understand(post)
    assert {name: found.wishes.get(name) for name in options} == options
    assert found.own_machine == own
    assert not found.weighty
