"""What is asked beside a wish is taken out of it, answered from the plan of the rest, and read by
every face."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex

import pytest

from rightfit import api
from rightfit.explain.beside.answers import answers
from rightfit.explain.beside.questions import Question, terms_told, without_questions, words_table
from rightfit.explain.beside.settled import Asked, settle
from rightfit.explain.quantities import money_text
from rightfit.explain.questions import question_lookup
from rightfit.explain.trials import cost_text
from rightfit.messages import LANGS
from rightfit.workload.ask import understand

ASKED = [
    ("微调LLaMA-2-13B要不要NVLink多卡", ["link"]),
    ("训练ResNet50,2GB CSV,4核够吗", ["cores"]),
    ("两台8卡A100微调LLaMA-65B,网络要多大带宽", ["network"]),
    ("ImageNet训练ResNet-50,数据放本地NVMe还是云盘", ["data"]),
    ("2TB数据放在OSS上训练ViT,怎么读取", ["data", "data"]),
    ("用竞价实例训练BERT-large,会被中断吗", ["interrupted"]),
    ("医院影像分割 nnU-Net 3D，我们打算买机器", ["to_buy"]),
    ("Train nnU-Net on 500 scans, we plan to buy a workstation", ["to_buy"]),
    ("竞价实例被中断怎么办,训练Llama-3-8B全参", ["interrupted"]),
    ("每天只有100次请求的ResNet50接口,用函数计算还是租服务器", ["serverless"]),
    ("T4 加 32GB 内存 200GB SSD 训练ResNet50 5万张 够吗", ["memory", "disk"]),
    ("V100还值得租吗,训练BERT-large", ["worth"]),
    ("DLRM在线推理,每秒2000次,自动扩缩容", ["scaling"]),
    ("DP还是DDP,两张3090训练ResNet50", ["parallel"]),
    ("阿里云抢占式实例训练BERT-large 能省多少", ["saving"]),
    ("微调Llama-3-8B磁盘需要多少IOPS", ["iops"]),
    ("checkpoint多久存一次,Llama-3-8B全参数微调", ["checkpoint"]),
    ("用随机森林训练8GB的表格,需要GPU吗", ["gpu"]),
    ("Fine-tune Llama-3-8B on 50k samples, is 32 GB of RAM enough?", ["memory"]),
    ("LoRA on Llama-3-8B, do I need a GPU", ["gpu"]),
    ("微调Qwen2.5-7B 2万条,画个决策流程图", ["chart"]),
    ("阿里云上部署Qwen2.5-7B用哪个机型", ["which"]),
    ("A100 1到8张微调Qwen-14B,选几张", ["count", "count"]),
    ("用Optimum加速BERT推理,每秒500次", ["optimum"]),
    ("一张 A10 部署 Qwen2.5-7B,延迟多少", ["latency"]),
    ("What is the latency of BERT on a T4?", ["latency"]),
    ("checkpoint多大,Llama-3-8B全参数微调", ["checkpoint"]),
    ("train resnet50 on imagenet on spot, how often should I save checkpoints", ["checkpoint"]),
    ("7B模型微调要多少显存", ["vram"]),
    ("预训练70B模型 1万亿token H100 多节点 要多少钱多久", ["cost", "time"]),
    ("微调 Llama-3-70B QLoRA 需要几张 A100 80G", ["count"]),
    ("how long does ResNet-50 on ImageNet take on one V100?", ["time"]),
    ("RTX4090训练ViT-B,50万张图,云上哪家有", ["sellers"]),
    ("ResNet50训练ImageNet,要用r系列吗", ["series"]),
    ("train resnet50 on one L4, which clouds have it?", ["sellers"]),
    ("Qwen2.5-7B 每天5万次调用，一个月多少钱", ["cost"]),
    ("部署Qwen2.5-7B,每天1万条评论,每月费用多少", ["cost"]),
]
WISHES = [
    "微调ChatGLM-6B,3万条对话,预算300元",
    "4块A100全参数微调LLaMA-7B",
    "用自己的2张3090微调Llama-3-8B",
    "fine-tune Llama-3-8B with LoRA on 50k samples within 2 days, under $200",
    "serve Qwen2.5-7B for 200 users on one A10",
]


@pytest.mark.parametrize(("sentence", "keys"), ASKED)
def test_questions_are_taken_out_and_the_rest_is_a_whole_wish(sentence: str, keys: list[str]) -> None:
    found = without_questions(sentence)
    assert list(dict.fromkeys(question.key for question in found.questions)) == list(dict.fromkeys(keys))
    assert "model" in understand(found.wish).wishes
    assert not understand(found.wish).weighty


@pytest.mark.parametrize("sentence", WISHES)
def test_a_wish_without_a_question_is_left_as_it_is(sentence: str) -> None:
    assert without_questions(sentence).wish == sentence


@pytest.mark.parametrize("asked", ["一个月多少钱", "每月要多少钱", "每个月大概多少钱", "一年费用多少", "每天成本是多少"])
def test_the_period_of_a_cost_is_no_deadline(asked: str) -> None:
    wishes = understand(without_questions(f"Qwen2.5-7B 每天5万次调用，{asked}").wish).wishes
    assert wishes == {"model": "Qwen2.5-7B", "rate": "5万/天", "task": "serve"}


def test_a_sentence_that_is_all_question_stays() -> None:
    assert without_questions("需要GPU吗").questions == ()


def test_every_question_is_answered_in_both_languages() -> None:
    train = api.plan(model="resnet50", task="train", data="imagenet", purchase="spot")
    serve = api.plan(model="bert-base-uncased", task="serve", rate="1/s")
    for sentence, _ in ASKED:
        plan = serve if any(word in sentence for word in ("函数计算", "推理")) else train
        asked = without_questions(sentence).questions
        for lang in ("en", "zh"):
            told = answers(asked, plan, plan_catalog(), lang)
            assert told
            assert all(question.words.casefold().removesuffix(" does") in "".join(told).casefold() for question in asked[:1])
            assert not any("nan" in line or "inf " in line or "{" in line for line in told), told


def test_an_amount_is_held_against_what_the_job_needs() -> None:
    plan = api.plan(model="meta-llama/Meta-Llama-3-8B", method="lora", data="50ksamples")
    need = plan.best.estimate["host_memory_bytes"].high80 / 2**30
    few, many = (
        answers_asked(f"LoRA Llama-3-8B, {size}GB内存够吗", plan, plan_catalog(), "zh")[0] for size in (int(need) - 2, int(need) + 2)
    )
    assert "不够" in few
    assert "不够" not in many
    assert "够" in many


def test_a_card_that_costs_more_than_another_is_not_worth_it() -> None:
    dear = api.plan(model="bert-large-uncased", task="train", data="1GB", gpu="V100")
    assert "不值" in answers_asked("V100值得租吗,训练BERT-large", dear, plan_catalog(), "zh")[0]
    best = api.plan(model="bert-large-uncased", task="train", data="1GB")
    assert "值得：" in answers_asked("这张卡值得租吗,训练BERT-large", best, plan_catalog(), "zh")[0]


WAYS = [
    ("fine-tune Llama-3-8B with LoRA, aws or gcp", {"AWS", "Google Cloud"}),
    ("Llama-3-8B用LoRA还是QLoRA微调,1万条", {"LoRA", "QLoRA"}),
    ("LoRA、QLoRA、Prefix-tuning哪个最省显存,Qwen2.5-7B", {"LoRA", "QLoRA", "Prefix-tuning"}),
    ("Llama-3-8B 用 vLLM 还是 TensorRT-LLM 部署,每秒10次", {"vLLM", "TensorRT-LLM"}),
    ("ResNet-50 ImageNet 一天内训练完,和一周内训练完差多少钱", {"一天", "一周"}),
    ("fine-tune Llama-3-8B with LoRA or QLoRA on 10k samples", {"LoRA", "QLoRA"}),
    ("微调Qwen2.5-7B 全参数还是LoRA,1万条", {"全参数", "LoRA"}),
    ("Qwen2.5-7B 部署 用AWQ还是FP8量化,每秒5次", {"AWQ", "FP8"}),
    ("p4d.24xlarge 和 a2-highgpu-8g 哪个训练BERT-large便宜", {"p4d.24xlarge", "a2-highgpu-8g"}),
    ("g5.xlarge和g4dn.xlarge哪个用LoRA微调Qwen2.5-1.5B便宜", {"g5.xlarge", "g4dn.xlarge"}),
]


@pytest.mark.parametrize(("sentence", "names"), WAYS)
def test_ways_to_choose_between_are_each_planned_and_the_first_costs_least(sentence: str, names: set[str]) -> None:
    asked = settle(sentence, plan_catalog())
    rows = asked.told["zh"][1:]
    assert {row.split("：")[0] for row in rows} == names
    assert len(set(rows)) == len(rows)
    for row in rows:
        words = shlex.split(row.split("`")[1])
        assert words[0] == "rightfit"
    paid = {name for name in ("按量付费", "竞价实例") if any(f"（{name}）" in row for row in rows)}
    assert len(paid) <= 1 or "竞价" in sentence, "pricing models are compared in place of what was asked"
    if "显存" not in sentence:
        costs = [float(re.search(r"\$([\d,.]+)", row)[1].replace(",", "")) for row in rows]  # type: ignore[index]
        assert costs == sorted(costs)
    assert understand(asked.wish).wishes


@pytest.mark.parametrize(
    "sentence",
    [
        "RTX 4090 or A100 80GB for LoRA of Qwen2.5-7B on 20,000 samples of 1,000 tokens?",
        "Which is cheaper for serving Qwen2.5-14B at 5 requests per second, L40S or 4090?",
    ],
)
def test_ways_are_compared_at_the_same_sellers(sentence: str) -> None:
    rows = settle(sentence, plan_catalog()).told["en"][1:]
    assert len({"--sellers all" in row for row in rows}) == 1


@pytest.mark.parametrize(
    "sentence",
    ["g4dn.xlarge 和 p4d.24xlarge 哪个全量微调Llama-3-8B便宜", "V100 or H100 for full fine-tuning of Llama-3-8B on 1M tokens, one GPU"],
)
def test_a_way_that_cannot_be_done_says_what_excludes_it(sentence: str) -> None:
    told = settle(sentence, plan_catalog()).told
    for lang in LANGS:
        head, first, last = told[lang]
        assert "$" in first
        assert re.search(r"[(（](?:host RAM|主机内存|number of GPUs|卡数|GPU 数量)[)）]", last)
        assert "$" not in last
        assert shlex.split(last.split("`")[1])[1] in ("plan", "estimate")
        assert re.split("[:：]", first)[0] in head


@pytest.mark.parametrize("sentence", [*WISHES, "用竞价还是按量训练BERT-large"])
def test_what_a_plan_compares_by_itself_is_no_choice_of_ways(sentence: str) -> None:
    assert not settle(sentence, plan_catalog()).told


LISTED = [
    (
        "4090 or A100 40GB for fine-tuning Mistral-7B with LoRA, 100k samples of 700 tokens? Which is cheaper overall?",
        {"4090", "A100 40GB"},
    ),
    ("Which is cheaper for serving Qwen2.5-14B at 5 requests per second, L40S or 4090?", {"L40S", "4090"}),
    ("L20和4090哪个更适合跑Qwen2.5-14B的推理？每秒5个请求，输入1000输出300", {"L20", "4090"}),
    ("Which is cheaper for LoRA of Mistral-7B on 70M tokens, AWS or Google Cloud?", {"AWS", "Google Cloud"}),
    ("LoRA微调Qwen2.5-7B 5000万token，阿里云还是腾讯云便宜", {"阿里云", "腾讯云"}),
]


@pytest.mark.parametrize(("sentence", "names"), LISTED)
def test_cards_and_clouds_to_choose_between_are_planned_each_with_what_was_said(sentence: str, names: set[str]) -> None:
    assert question_lookup(sentence, plan_catalog()) is None  # no claim about a model of the tables
    asked = settle(sentence, plan_catalog())
    wishes = understand(sentence).settled()
    for lang in ("en", "zh"):
        head, *rows = asked.told[lang]
        assert {re.split("[:：]", row)[0] for row in rows} == names
        costs = [float(found[1].replace(",", "")) for row in rows if (found := re.search(r"\$([\d,.]+)", row))]
        assert costs
        assert costs == sorted(costs)
        assert re.split("[:：]", rows[0])[0] in head
        for row in rows:
            words = shlex.split(row.split("`")[1])
            assert words[2] == wishes["model"]
            assert "$" not in row or re.search(r"[(（](on demand|spot|按量付费|竞价实例)[)）]", row)
            assert ("no server" not in row and "没有可行" not in row) or re.search(r"[(（].+[)）]", row)


@pytest.mark.parametrize("key", [key for key, entry in words_table()["questions"].items() if entry.get("answer") == "cost"])
def test_what_rows_of_ways_give_is_not_answered_again(key: str) -> None:
    """A question about cost beside two ways: each row has its cost, and the first is the choice."""
    best = api.plan(model="bert-large-uncased", task="train", data="1GB", top=1)
    asked = Asked("", (Question(key, "what does"),), dict.fromkeys(LANGS, ("a or b: a.",)))
    for lang in LANGS:
        assert asked.lines(best, plan_catalog(), lang) == ["a or b: a."]
        assert len(dataclasses.replace(asked, told={}).lines(best, plan_catalog(), lang)) == 1


def test_names_of_one_way_are_no_choice() -> None:
    """Words that change nothing in the request are not compared with themselves."""
    assert not settle("summarize 1M documents with Llama-3.1-8B by tomorrow, API or own server?", plan_catalog()).told


@pytest.mark.parametrize(
    "wishes",
    [{"task": "serve", "rate": "5/s"}, {"task": "batch", "data": "10Mtok", "deadline": "24h"}, {"task": "finetune", "data": "10Mtok"}],
)
def test_only_a_service_costs_by_the_month(wishes: dict[str, str]) -> None:
    best = api.plan("meta-llama/Llama-3.1-8B", top=1, **wishes).best
    assert best is not None
    told = cost_text(best)
    assert ("month" in told["en"], "每月" in told["zh"]) == ((wishes["task"] == "serve",) * 2)


WHOLE = [
    "Can 8 A800s fully fine-tune Qwen2.5-32B on 200k samples of 1500 tokens each in 3 days?",
    "Can I fine-tune Qwen2.5-1.5B on my 3000 chat examples on an RTX 4060 8GB?",
    "一张T4能微调Qwen2.5-7B吗，数据5000条?",
    "is a 4090 faster than an A100 for LoRA of Mistral-7B on 70M tokens?",
]


@pytest.mark.parametrize("sentence", WHOLE)
def test_a_model_with_amounts_is_planned_and_not_judged(sentence: str) -> None:
    assert question_lookup(sentence, plan_catalog()) is None


@pytest.mark.parametrize(
    ("wish", "have", "starts"),
    [
        (
            {"model": "32B", "method": "qlora", "data": "20Mtok", "deadline": "3d"},
            "2xRTX-3090@home",
            ("Yes: your own machine, ", "可以：自有机器，"),
        ),
        ({"model": "32B", "method": "full", "data": "20Mtok"}, "2xRTX-3090@home", ("No, not on your own machine", "自有机器不行")),
        ({"model": "7B", "method": "lora", "data": "20Mtok", "gpu": "T4", "deadline": "5d"}, "", ("", "")),
        ({"model": "70B", "method": "full", "data": "20Mtok", "gpu": "T4", "num_gpus": "1", "max_nodes": "1"}, "", ("No.", "不行。")),
        ({"model": "7B", "method": "lora", "data": "20Mtok"}, "", None),
    ],
    ids=str,
)
def test_a_question_whether_it_can_be_done_begins_with_yes_or_no(wish: dict[str, str], have: str, starts: tuple[str, str] | None) -> None:
    from rightfit.planner.cards import plan_on_own
    from rightfit.workload import Workload

    work = Workload(task="finetune", **wish)
    found = plan_on_own(work, have, api.plan, plan_catalog()) if have else api.plan(work, catalog=plan_catalog())
    for at, lang in enumerate(("en", "zh")):
        lines = Asked("", is_able=True).lines(found, plan_catalog(), lang)
        if starts is None:
            assert not lines
            continue
        assert lines[0].startswith(starts[at])
        if found.best is not None:
            assert money_text(found.best.cost.total_usd) in lines[0]
    assert not Asked("").lines(found, plan_catalog(), "en")


@pytest.mark.parametrize(
    "sentence", ["xgboost训练2亿行100列的数据，用CPU还是GPU", "train xgboost on 20 million rows with 80 features - do I even need a GPU?"]
)
def test_cpu_or_gpu_names_the_winner_and_the_loser_with_time_and_cost(sentence: str) -> None:
    asked = settle(sentence, plan_catalog())
    found = api.plan(**understand(asked.wish).settled())
    (line,) = asked.lines(found, plan_catalog(), "en")
    first, second = (float(cost.replace(",", "")) for cost in re.findall(r"\$([\d,.]+\d)", line))
    assert first <= second
    assert first == pytest.approx(found.best.cost.total_usd, rel=0.02)
    assert len(re.findall(r"\d (?:s|min|h)\b", line)) >= 2


def test_training_and_serving_are_one_request_with_one_total() -> None:
    sentence = "微调Qwen2.5-7B 1万条,然后用低配长期部署,总共多少钱"
    asked = settle(sentence, plan_catalog())
    assert asked.wish.startswith("微调Qwen2.5-7B 1万条")
    plan = api.plan(**understand(asked.wish).settled())
    (line,) = asked.lines(plan, plan_catalog(), "zh")
    served = api.plan(model="Qwen2.5-7B", task="serve", rate="1/s")
    total = plan.best.cost.total_usd + served.best.cost.total_usd
    assert money_text(total) in line


@pytest.mark.parametrize(("letter", "cloud", "starts"), [("r", "", "不用：r 系列没有 GPU"), ("g", "alicloud", "不用：g 系列没有 GPU")])
def test_a_series_is_right_where_the_plan_takes_one_of_it(letter: str, cloud: str, starts: str) -> None:
    asked = without_questions(f"ResNet50训练ImageNet,要用{letter}系列吗")
    plan = api.plan(**understand(asked.wish).settled(), **({"cloud": cloud} if cloud else {}))
    (line,) = answers(asked.questions, plan, plan_catalog(), "zh")
    assert line.partition("：")[2].startswith(starts)
    assert plan.best.instance_type in line


def test_reads_of_a_disk_are_counted() -> None:
    asked = without_questions("ResNet50训练ImageNet,磁盘需要多少IOPS")
    plan = api.plan(**understand(asked.wish).settled())
    (line,) = answers(asked.questions, plan, plan_catalog(), "en")
    count = float(re.search(r"about ([\d,]+) IOPS", line)[1].replace(",", ""))
    assert count == pytest.approx(plan.best.data_path["needed_bytes_per_s"] / 16384, rel=0.01)


CARDS = ("T4", "A10", "L4", "A40")


@pytest.mark.parametrize("objective", ["", "最快", "性价比最高"])
def test_the_plan_below_two_ways_is_that_of_the_way_that_is_chosen(objective: str) -> None:
    for first, second in itertools.pairwise(CARDS):
        asked = settle(f"训练ResNet18 10万张,选{first}还是{second},{objective}".rstrip(","), plan_catalog())
        assert asked.told["zh"][0].count(asked.chosen["gpu"]) >= 2
        best = api.plan(**{**understand(asked.wish).settled(), **asked.chosen}).best
        assert best is not None
        assert asked.chosen["gpu"] in asked.told["zh"][1].partition("：")[0]
        assert money_text(best.cost.total_usd) in asked.told["zh"][1]


@pytest.mark.parametrize("words", ["用函数计算还是租服务器", "SageMaker Serverless合适吗"])
def test_serverless_is_weighed_by_the_product_that_is_named(words: str) -> None:
    asked = settle(f"部署BERT 每小时50次,{words}", plan_catalog())
    plan = api.plan(**understand(asked.wish).settled())
    (line,) = asked.lines(plan, plan_catalog(), "zh")
    assert ("SageMaker Serverless Inference 运行此任务的价格" in line) == ("SageMaker" in words)
    assert money_text(plan.best.cost.total_usd) in line


def test_a_card_that_nobody_rents_is_no_card_that_is_too_small() -> None:
    from rightfit.market.offers import OfferFilter

    catalog = plan_catalog()
    for card, able in (("RTX-3060", True), ("GTX-1080-Ti", True)):
        assert not len(catalog.offers(OfferFilter(gpus=(card,))))
        plan = api.plan(model="resnet50", task="serve", rate="1/s", gpu=card)
        for lang, told in (("en", "No cloud of the catalog rents"), ("zh", "没有云出租")):
            (line,) = Asked("", is_able=True).lines(plan, catalog, lang)
            assert told in line
            assert ("--have" in line) == able


def test_a_word_of_the_field_needs_no_plan() -> None:
    assert "580" in terms_told(without_questions("H100要用哪个CUDA版本").questions, "zh")[0]


def answers_asked(sentence, plan, catalog, lang):  # type: ignore[no-untyped-def]
    return settle(sentence, catalog).lines(plan, catalog, lang)


def plan_catalog():  # type: ignore[no-untyped-def]
    from rightfit.planner.plan import default_catalog

    return default_catalog()


def test_training_before_serving_is_fine_tuning() -> None:
    sentence = "训练用高配跑两天,然后推理用低配长期部署,Qwen2.5-7B,总共多少钱"
    assert settle(sentence, plan_catalog()).chosen == {"task": "finetune"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("How long does it take to", "How long does it take: 1 h."),
        ("what does it cost", "What does it cost: 1 h."),
        ("how long does", "How long: 1 h."),
    ],
)
def test_an_answer_stands_under_whole_words_of_its_question(words: str, told: str) -> None:
    """The question is cut out of a sentence: where the wish goes on, words hang loose."""
    from rightfit.explain.beside.questions import line

    assert line(words, "1 h.", "en") == told
    assert line("要多久", "1 小时。", "zh") == "要多久：1 小时。"


def test_what_is_not_evaluated_says_why_in_words() -> None:
    """The criterion that refused a job before its memory was looked at has words, no key."""
    from types import SimpleNamespace
    from typing import cast

    from rightfit.explain.trials import SetupOutcome, _why_not, outcome_text
    from rightfit.search.answer import Plan

    refused = cast("Plan", SimpleNamespace(rejected=(SimpleNamespace(criterion="capability"),)))
    outcome = SetupOutcome("aws/p3.2xlarge", fits=None, why=_why_not(refused, "en"), why_zh=_why_not(refused, "zh"))
    assert outcome_text(outcome, "en") == "aws/p3.2xlarge could not be evaluated (the GPU or its software cannot run this)"
    assert "capability" not in outcome_text(outcome, "zh")
