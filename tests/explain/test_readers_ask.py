"""What readers of an article ask beside a plan: what is asked is answered, and no rule about
something else that shares its words."""

from __future__ import annotations

import re

import pytest

from rightfit import api
from rightfit.explain.fit_claims import job_on_data
from rightfit.explain.rules import all_rules, example_of
from rightfit.facts import accelerators
from rightfit.search.offers import open_priced
from rightfit.units import parse_data
from rightfit.workload.ask import understand


def asked(question: str) -> api.CheckResult:
    (found,) = api.check(question, catalog=open_priced())
    return found


@pytest.mark.parametrize("data", ["ImageNet", "CIFAR-10", "MNIST"])
@pytest.mark.parametrize("words", ["64GB 内存能训 {} 吗", "Is 64GB of RAM enough to train {}?"])
def test_memory_is_held_against_the_job_and_not_the_size_of_its_data(words: str, data: str) -> None:
    found = asked(words.format(data))
    assert found.claim == "right"
    assert found.facts["needs"]["ram"] < 64e9


@pytest.mark.parametrize("words", ["2GB 内存能训 ImageNet 吗", "Is 2GB of RAM enough to train ImageNet?"])
def test_memory_that_the_job_exceeds_is_not_enough(words: str) -> None:
    assert asked(words).claim == "wrong"


@pytest.mark.parametrize("words", ["一张 A100 配 {} 核 CPU 和 {}GB 内存够吗", "Is an A100 with {} cores and {} GB RAM enough?"])
@pytest.mark.parametrize(("cores", "memory", "claim"), [(8, 64, "right"), (16, 128, "right"), (2, 8, "wrong")])
def test_what_stands_beside_a_card_is_judged_by_a_job(words: str, cores: int, memory: int, claim: str) -> None:
    found = asked(words.format(cores, memory))
    assert found.claim == claim
    assert set(found.facts["needs"]) == {"cores", "ram"}


@pytest.mark.parametrize("thing", ["CIFAR-10", "ResNet-50"])
@pytest.mark.parametrize("words", ["{} 要用 {} 吗", "{} 需要 {} 吗", "Does {} need an {}?"])
@pytest.mark.parametrize("card", ["A100", "H100"])
def test_whether_a_card_is_needed_is_not_whether_it_does(words: str, thing: str, card: str) -> None:
    found = asked(words.format(thing, card))
    assert found.claim == "wrong"
    assert card not in found.explanation_en


def test_a_data_set_is_no_model_to_serve() -> None:
    assert job_on_data("CIFAR-10 要用 A100 吗") == {"model": "resnet50", "task": "train", "data": "CIFAR-10"}
    assert not job_on_data("BERT with an A100 on data")
    assert "部署" not in asked("CIFAR-10 要用 A100 吗").explanation_zh


@pytest.mark.parametrize("question", ["没有GPU只加内存能加快训练吗", "Does more RAM without a GPU speed up training?"])
def test_a_question_is_answered_in_its_own_sense_where_the_rule_denies(question: str) -> None:
    assert asked(question).claim == "wrong"


@pytest.mark.parametrize("question", ["梯度累积能减少显存吗"])
def test_what_holds_in_part_depends(question: str) -> None:
    assert asked(question).claim == "unknown"


@pytest.mark.parametrize("pair", [("a2-highgpu-1g", "a2-ultragpu-1g"), ("g5.xlarge", "g4dn.xlarge")])
@pytest.mark.parametrize("words", ["{} 和 {} 有什么区别", "What is the difference between {} and {}?", "{} 跟 {} 差别大吗"])
def test_a_difference_that_is_asked_is_no_claim(words: str, pair: tuple[str, str]) -> None:
    found = asked(words.format(*pair))
    assert found.claim is None
    assert all(name in found.explanation_en for name in pair)


@pytest.mark.parametrize("server", ["ecs.c7.4xlarge", "ecs.g7.2xlarge"])
@pytest.mark.parametrize("words", ["{} 训练逻辑回归够不够", "{} 训练逻辑回归行不行", "Can {} train logistic regression?"])
def test_a_server_in_a_question_is_found_and_tried(words: str, server: str) -> None:
    found = asked(words.format(server))
    assert (found.exists, found.claim) == (True, "right")


@pytest.mark.parametrize(("written", "size"), [("500G图片", 5e11), ("2T图片", 2e12), ("500G images", 5e11)])
def test_a_g_of_pictures_is_bytes(written: str, size: float) -> None:
    sentence = f"我有{written}要训练分类模型" if not written.isascii() else f"I have {written} to train a classifier"
    assert parse_data(understand(sentence).wishes["data"]).bytes == size


@pytest.mark.parametrize(("written", "count"), [("50k images", 5e4), ("1.28M images", 1.28e6), ("20万张图片", 2e5)])
def test_a_number_of_pictures_stays_one(written: str, count: float) -> None:
    assert parse_data(understand(f"train resnet50 on {written}").wishes["data"]).samples == count


@pytest.mark.parametrize("words", ["V100适合大模型训练", "V100 is suitable for training large models"])
def test_a_card_that_needs_the_memory_of_the_host_suits_no_job(words: str) -> None:
    found = asked(words)
    assert found.claim == "wrong"
    assert "offload" in found.explanation_en or found.facts.get("ratio", 0) > 1.5


def test_links_between_servers_are_tried_on_a_model_that_fills_them() -> None:
    assert "8B" in example_of(all_rules()["network_100gbps"])["model"]
    assert asked("多节点训练需要100Gbps网络").claim == "right"
    assert asked("multi-node training needs a 100 Gbps network").claim == "right"


@pytest.mark.parametrize("words", ["训练7B至少要24GB显存对吗", "Does training a 7B model need at least 24GB of VRAM?"])
def test_training_a_language_model_may_mean_each_way(words: str) -> None:
    found = asked(words)
    assert found.claim == "unknown"
    assert all(way in found.explanation_en for way in ("LoRA", "QLoRA"))


@pytest.mark.parametrize("words", ["单张 {} 部署 ChatGLM3-6B 会 OOM 吗", "Will ChatGLM3-6B run out of memory on one {}?"])
@pytest.mark.parametrize("card", ["T4", "A10"])
def test_whether_a_named_job_runs_out_of_memory_is_no_symptom(words: str, card: str) -> None:
    found = asked(words.format(card))
    assert found.kind != "term"
    assert "11.6" in found.explanation_en


@pytest.mark.parametrize(
    ("question", "term"),
    [
        ("模型加载很慢怎么办", "slow_model_loading"),
        ("Loading the model is slow, what can I do?", "slow_model_loading"),
        ("nvidia-smi 和 torch.cuda.memory_allocated 显示的显存为什么不一样", "memory_shown_apart"),
        ("why does nvidia-smi show more than torch.cuda.memory_allocated", "memory_shown_apart"),
        ("显存不够可以用内存代替吗", "memory_of_the_host_instead"),
        ("can I use system memory instead of GPU memory?", "memory_of_the_host_instead"),
    ],
)
def test_a_symptom_is_its_own(question: str, term: str) -> None:
    assert asked(question).facts["id"] == term


@pytest.mark.parametrize("card", ["A40", "T4", "H20"])
@pytest.mark.parametrize("words", ["{} 多少显存", "{} 显存多大", "How much VRAM does an {} have?"])
def test_a_figure_of_a_card_is_told(words: str, card: str) -> None:
    found = asked(words.format(card))
    names = found.facts["cards"]
    assert names
    assert all(f"{accelerators()[name].memory_bytes / 2**30:,.4g} GiB" in found.explanation_en for name in names)


@pytest.mark.parametrize("words", ["{} 比 {} 好吗", "Is the {} better than the {}?"])
@pytest.mark.parametrize("pair", [("V100", "A10"), ("L4", "T4")])
def test_which_card_is_better_is_a_comparison(words: str, pair: tuple[str, str]) -> None:
    found = asked(words.format(*pair))
    assert list(found.facts["cards"]) == list(pair)


@pytest.mark.parametrize("words", ["为什么不用 {} 训练大模型", "Why not use a {} to train large models?"])
@pytest.mark.parametrize("card", ["P100", "V100"])
def test_why_not_is_told_of_the_card(words: str, card: str) -> None:
    found = asked(words.format(card))
    assert found.facts["card"].startswith(card)
    assert "no BF16" in found.explanation_en


@pytest.mark.parametrize("words", ["{} 有没有 {}", "Does {} have the {}?"])
def test_whether_there_is_one_asks_for_it(words: str) -> None:
    wishes = understand(words.format("Lambda Labs", "H100")).wishes
    assert "avoid" not in wishes
    assert "$" in asked(words.format("Lambda Labs", "H100")).explanation_en


def test_what_somebody_knows_changes_no_answer() -> None:
    assert not understand("想微调一个客服机器人,预算500元,什么都不懂").weighty


@pytest.mark.parametrize(
    ("sentence", "answer", "said"),
    [
        ("Qwen2.5-72B 能在 ecs.gn7i-c8g1.2xlarge 上跑吗", "no", "放不下|部署不了|不能"),
        ("Can I run Llama 3.1 405B on g5.12xlarge?", "no", ""),
        ("Is an AWS t3.medium enough to run llama3.1:70b?", "", ""),
        ("Can I run Llama 3.1 70B AWQ on g5.12xlarge?", "yes", "4 x A10G"),
        ("老师说 BERT 微调要 V100 32G 才行，我有 8G 显卡能做吗", "yes", "8 GB 放得下"),
        ("gpt-oss-120b on a single H100 80GB, ok?", "yes", "MXFP4"),
        ("DeepSeek-R1 放得进 8 张 H200 吗", "yes", "FP8"),
    ],
)
def test_no_server_is_right_for_a_model_because_it_exists(sentence: str, answer: str, said: str) -> None:
    found = asked(sentence)
    told = found.explanation_zh if not sentence.isascii() else found.explanation_en
    assert "is right" not in told
    assert "正确" not in told
    assert found.claim != "right" or answer == "yes", told
    assert answer in ("", str(found.facts.get("answer", ""))), (found.facts.get("answer"), told)
    assert re.search(said, told), told


def test_no_question_is_headed_by_a_statement_that_cannot_be_judged() -> None:
    """What answers a question is headed by yes, no or nothing, also where a remark stands behind
    the mark; that a statement cannot be judged heads statements alone."""
    from rightfit.explain.messages import label, topic
    from rightfit.explain.rule_lookup import verdict_words
    from rightfit.explain.yes_or_no import is_question
    from rightfit.messages import LANGS

    asks = [ask for entry in topic("nearest")["known"].values() for ask in entry["asks"]]
    remarks = {True: "? I train 7B on two servers", False: "？我是两台 8 卡 A100 训 7B 全参"}
    asked = [ask.rstrip("?？") + remarks[ask.isascii()] for ask in asks]
    assert len(asked) > 400
    assert [one for one in asked if not is_question(one)] == []
    for one in asked:
        for lang in LANGS:
            shown = verdict_words(one, kind="market", exists=True, claim="unknown", known={"nearest": []}, lang=lang)
            assert label("check", "claim_unknown", lang) not in shown, one


def test_a_remark_behind_the_mark_does_not_turn_a_question_into_another() -> None:
    """What is told of one's job after the question is no question whether that fits."""
    network, disk = asked("多机训练必须 100 Gbps 吗？我是两台 8 卡 A100 训 7B 全参"), asked("NVMe 一定要 3GB/s 吗？我训练的是文本")
    assert "RDMA" in network.explanation_zh
    assert network.claim != "right"
    assert disk.claim == "wrong"
