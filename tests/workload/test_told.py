"""What a sentence tells of a run or a machine that is there is no limit and no amount of the wish,
whatever figures stand in it; and figures keep the noun that they stand beside."""

from __future__ import annotations

import itertools

import pytest

from rightfit import facts
from rightfit.explain.beside.questions import without_questions
from rightfit.explain.questions import question_lookup
from rightfit.planner.plan import default_catalog
from rightfit.units import parse_data
from rightfit.workload.ask import Understood, understand

TIMES = ("15 hours", "3.5 - 4 hours", "3 days", "40 minutes", "20-30 minutes", "2.5 hours")
TIMES_ZH = ("15 小时", "3天", "40分钟")


def keys(found: Understood) -> set[str]:
    return {message.key for message in found.assumed}


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize(
    "told",
    ["It took {}.", "One epoch takes {}.", "It takes about {} now.", "It has been running for {}.", "Training took us {} per epoch."],
)
@pytest.mark.parametrize("limit", ["", " I need it within 8 hours."])
def test_the_time_of_a_run_is_no_limit(time: str, told: str, limit: str) -> None:
    found = understand(f"Fine-tune Llama-3-8B with LoRA on 10k samples. {told.format(time)}{limit}")
    assert found.wishes.get("deadline") == ("8 hours" if limit else None)
    assert found.wishes["data"] == "10k samples"
    assert not found.weighty
    assert "workload.assumed_run" in keys(found)
    assert any(time in words for words in found.unused)


@pytest.mark.parametrize("time", TIMES_ZH)
@pytest.mark.parametrize("told", ["跑了 {}", "一共花了{}", "耗时接近{}", "目前需要{}"])
def test_the_time_of_a_run_is_no_limit_in_chinese(time: str, told: str) -> None:
    found = understand(f"用 LoRA 微调 Llama-3-8B，1万条数据，{told.format(time)}，怎么加快")
    assert "deadline" not in found.wishes
    assert found.wishes["data"] == "1万条"
    assert "workload.assumed_run" in keys(found)


@pytest.mark.parametrize("said", ["within 8 hours", "it must take at most 8 hours", "in under 8 hours", "deadline 8 hours"])
def test_a_limit_stays_one(said: str) -> None:
    assert understand(f"Fine-tune Llama-3-8B on 10k samples, {said}").wishes["deadline"] == "8 hours"


PROCESSORS = ("i3 5005U CPU", "Intel Core i5-7400", "i7-9700K", "Core i9-13900K", "Ryzen 9 7950X", "AMD Ryzen 5 5600X")
MEMORIES = ("8GB RAM", "32 GB of RAM", "64GB memory")


@pytest.mark.parametrize(("processor", "memory"), list(itertools.product(PROCESSORS, MEMORIES)))
def test_the_host_of_an_own_machine_is_told_of(processor: str, memory: str) -> None:
    """The processor is no series of servers, its memory no data; the card is one's own."""
    said = f"I have an {processor} with {memory} and an RTX 2080 Ti, can I fine-tune a 7B with QLoRA on 5k samples?"
    found = understand(said)
    assert found.own_machine == "1xRTX 2080 Ti"
    assert found.wishes["data"] == "5k samples"
    assert not found.weighty
    assert "workload.assumed_host" in keys(found)
    named = question_lookup(f"I have an {processor}, {memory}. How long will it take to train YOLO with 10,000 images?", default_catalog())
    assert named is None or "ecs." not in named.explanation_en


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("demand", ["a server with at least", "I need a machine with", "the server must have"])
def test_memory_that_a_server_must_have_is_asked_about(memory: str, demand: str) -> None:
    assert understand(f"Fine-tune 7B on my 5k samples, {demand} {memory}").weighty


CARDS = [("V100", "16"), ("V100", "32"), ("A100", "40"), ("A100", "80"), ("RTX 3090", "24"), ("A800", "80"), ("L40", "48")]
BESIDE = ["{count} x {card} ({size}G)", "{count} x {card} {size}GB", "{count} x {size}G {card}", "{count} {card} ({size} GB each)"]


@pytest.mark.parametrize(("card", "size"), CARDS)
@pytest.mark.parametrize("shape", BESIDE)
def test_the_memory_beside_a_card_is_the_cards(card: str, size: str, shape: str) -> None:
    found = understand(f"train bert-base-uncased with 100k samples on {shape.format(count=4, card=card, size=size)}")
    assert not found.weighty
    assert found.wishes["data"] == "100k samples"
    assert found.wishes["num_gpus"] == "4"
    assert set(facts.match_accelerators(found.wishes["gpu"])) <= set(facts.accelerators_of_memory(f"{size}GB"))


@pytest.mark.parametrize("server", ["DGX-A100", "NVIDIA DGX A100", "HGX A100", "DGX H100"])
@pytest.mark.parametrize("count", [2, 96])
def test_a_whole_server_has_eight_cards(server: str, count: int) -> None:
    found = understand(f"Train a 70B on 400B tokens on {count} x {server}")
    assert (found.wishes["num_gpus"], found.wishes["max_nodes"]) == (str(8 * count), str(count))
    assert not found.weighty


@pytest.mark.parametrize(("count", "kind", "size", "total"), [(100, "parquet files", "500MB", 50e9), (20, "shards", "1.5 GB", 30e9)])
@pytest.mark.parametrize("shape", ["{count} {kind} of {size} each", "{count} {kind}, each about {size} in size"])
def test_files_of_so_much_each_are_so_much_together(count: int, kind: str, size: str, total: float, shape: str) -> None:
    found = understand(f"Deduplicate {shape.format(count=count, kind=kind, size=size)}")
    assert parse_data(found.wishes["data"]).bytes == pytest.approx(total)
    assert not found.weighty


@pytest.mark.parametrize("number", ["10,000", "2,250,000", "1,281,167"])
@pytest.mark.parametrize(
    "question", ["How much VRAM do I need to fine-tune 7B on {} samples?", "Fine-tune 7B on {} samples, how long will it take?"]
)
def test_a_question_beside_a_wish_leaves_its_numbers_whole(number: str, question: str) -> None:
    beside = without_questions(question.format(number))
    assert beside.questions
    assert understand(beside.wish).wishes["data"] == f"{number} samples"


@pytest.mark.parametrize(
    "said",
    [
        "fine-tune 7B without LoRA on 10k samples",
        "在非lora的情况下微调 7B，1万条数据",
        "不用 LoRA 微调 7B，1万条数据",
    ],
)
def test_training_without_adapters_is_of_all_weights(said: str) -> None:
    found = understand(said)
    assert found.wishes["method"] == "full"
    assert not found.weighty


@pytest.mark.parametrize(("images", "repeats", "epochs"), [(63, 8, 8), (20, 10, 10), (39, 20, 4)])
def test_pictures_shown_again_make_more_epochs(images: int, repeats: int, epochs: int) -> None:
    for steps in ("", f", {images * repeats * epochs} steps in total"):
        found = understand(f"SDXL LoRA with {images} images, {repeats} repeats each and {epochs} epochs{steps}")
        assert found.wishes["epochs"] == f"{repeats * epochs}"
        assert found.wishes["data"] == f"{images} images"
        assert not found.weighty


@pytest.mark.parametrize("length", [("3 hour", 3.0), ("90-minute", 1.5)])
@pytest.mark.parametrize("thing", ["podcast", "lecture", "meeting recording"])
def test_one_recording_is_as_long_as_is_said(length: tuple[str, float], thing: str) -> None:
    said, hours = length
    found = understand(f"Transcribe a {said} {thing} with whisper large-v3")
    assert "deadline" not in found.wishes
    assert found.wishes["data"] == f"{hours:g} hours"


@pytest.mark.parametrize(("power", "amount"), [("10^6", 1e6), ("2 x 10^5", 2e5), ("5×10**4", 5e4)])
def test_a_power_of_ten_is_a_number(power: str, amount: float) -> None:
    assert parse_data(understand(f"embed {power} documents with bge-m3").wishes["data"]).samples == pytest.approx(amount)


@pytest.mark.parametrize("said", ["20M 1024d vectors", "5 million 768-dim embeddings", "2000万个768维向量"])
def test_vectors_to_search_are_asked_about(said: str) -> None:
    found = understand(f"search {said}")
    assert found.weighty
    assert not {"deadline", "model", "data"} & set(found.wishes)


@pytest.mark.parametrize("brand", ["GTX", "RTX", "Titan", "Quadro"])
@pytest.mark.parametrize("number", ["480", "1080", "9999"])
def test_the_number_of_a_card_is_no_count(brand: str, number: str) -> None:
    assert understand(f"train resnet50 on 50k images with one {brand} {number} GPU").wishes.get("num_gpus") != number


@pytest.mark.parametrize(("first", "second"), [("一张24G的A10", "四张16G的V100"), ("2 x A100", "8 x V100")])
def test_counted_cards_with_or_between_are_ways_to_compare(first: str, second: str) -> None:
    joint = "或" if "张" in first else " or "
    found = understand(f"fine-tune 7B with LoRA on {first}{joint}{second}")
    assert not found.weighty
    assert len(dict(found.cards)) == 2
    assert "num_gpus" not in found.wishes
    assert "data" not in found.wishes


@pytest.mark.parametrize("forms", [("2x {one}", "4x {other}"), ("two {one}s", "four {other}s"), ("2 {one}", "4 {other}")])
@pytest.mark.parametrize("joint", [" or ", " vs ", ", or "])
@pytest.mark.parametrize(("one", "other"), [("A100", "L40S"), ("3090", "4090"), ("H100", "H200")])
def test_each_counted_card_keeps_its_count(forms: tuple[str, str], joint: str, one: str, other: str) -> None:
    said = joint.join(form.format(one=one, other=other) for form in forms)
    assert understand(f"Fine-tune Llama-3-8B with LoRA on 20k samples, {said}?").cards == ((one, 2), (other, 4))


@pytest.mark.parametrize(
    ("said", "counts"),
    [("8 A100 or H100", (8, 8)), ("8x A100 or an H100", (8, 1)), ("8 卡 A100 还是 H100", (8, 8)), ("8 张 A100 还是单张 H100", (8, 1))],
)
def test_a_number_before_or_counts_either_card(said: str, counts: tuple[int, int]) -> None:
    assert tuple(count for _, count in understand(f"全参微调 Qwen2.5-7B，1 亿 token，{said}").cards) == counts


@pytest.mark.parametrize("form", ["batch size {n}", "batch_size={n}", "batch {n}", "批大小 {n}"])
@pytest.mark.parametrize(
    ("number", "option"), [(1, "micro_batch"), (2, "micro_batch"), (4, "micro_batch"), (16, "global_batch"), (64, "global_batch")]
)
def test_a_batch_of_a_few_texts_is_that_of_each_gpu(form: str, number: int, option: str) -> None:
    told = form.format(n=number)
    assert understand(f"fine-tune Llama-3-8B with LoRA on 20k samples, {told}").wishes.get(option) == str(number)
    assert understand(f"train resnet50 on 50k images, {told}").wishes.get("global_batch") == str(number)
    assert understand(f"fine-tune Llama-3-8B with LoRA on 20k samples, global batch size {number}").wishes.get("global_batch") == str(
        number
    )


@pytest.mark.parametrize(("said", "columns"), [("300 numeric features", "300"), ("40 input columns", "40"), ("120 个数值特征", "120")])
def test_columns_with_a_word_before_them(said: str, columns: str) -> None:
    assert understand(f"train XGBoost on 12M rows and {said}").wishes.get("columns") == columns


@pytest.mark.parametrize(
    "said", ["我们想租一个月服务器部署 Qwen2.5-14B，20 人用", "rent a server for a month to serve Qwen2.5-14B to 20 users"]
)
def test_the_term_of_a_service_is_no_limit(said: str) -> None:
    found = understand(said)
    assert not found.weighty
    assert "deadline" not in found.wishes


def test_a_quoted_line_end_ends_a_line() -> None:
    assert understand("Issue\\nQLoRA of Qwen2.5-7B on 20k samples").wishes["method"] == "qlora"


@pytest.mark.parametrize("cores", ["64-core CPU", "8 cores", "16-core AMD EPYC"])
def test_cores_beside_a_job_are_no_wish_for_a_processor(cores: str) -> None:
    found = understand(f"I have a {cores} and 128GB memory, fine-tune 7B with LoRA on 10k samples")
    assert "gpu" not in found.wishes
    assert not found.weighty


def test_hours_before_a_data_set_are_its_size() -> None:
    found = understand("train a conformer on the 960 hours librispeech")
    assert found.wishes["data"] == "960 hours"
    assert "deadline" not in found.wishes


@pytest.mark.parametrize("card", ["H100", "RTX 4090", "L40"])
def test_a_card_that_is_rented_is_not_said_to_be_missing(card: str) -> None:
    found = question_lookup(f"Can I run Wan2.1 I2V 14B at 480p on an {card}, is it possible?", default_catalog())
    assert found is None or "is known" not in found.explanation_en


@pytest.mark.parametrize("joint", ["的不超过", "提问的最多", "在线大约", "使用的不超过"])
@pytest.mark.parametrize("number", [8, 20, 150])
def test_how_many_are_there_at_once_goes_before_how_many_there_are(joint: str, number: int) -> None:
    found = understand(f"部署 Qwen2.5-14B，大概 900 人，同时{joint} {number} 人")
    assert found.wishes["users"] == str(number)
    assert not found.weighty


@pytest.mark.parametrize("form", ["白天集中在 {n} 个小时", "主要在 {n} 个小时", "集中在{n}小时"])
@pytest.mark.parametrize("number", [6, 10])
def test_hours_that_hold_the_load_are_no_deadline(form: str, number: int) -> None:
    found = understand(f"部署 Qwen2.5-7B，一天 5 万次调用，{form.format(n=number)}")
    assert "deadline" not in found.wishes
    assert found.wishes["rate"] == "5 万/天"
    assert float(found.wishes["office_hours"]) == pytest.approx(number * 730 / 24, rel=0.01)


@pytest.mark.parametrize("form", ["{a} 点到 {b} 点", "{a}点到{b}点", "{a} 点到 {b} 点之间"])
def test_a_window_of_hours_with_spaces(form: str) -> None:
    said = form.format(a=1, b=6)
    assert understand(f"每天 2 万分钟的音频，在凌晨 {said}用 whisper-large-v3 转写完").wishes["deadline"] == "5h"
    served = understand(f"部署 Qwen2.5-7B，同时在线 60 人，晚上 {said}用")
    assert float(served.wishes["office_hours"]) == pytest.approx(5 * 730 / 24, rel=0.01)


@pytest.mark.parametrize(("amount", "hours"), [("2 万分钟", "333.333 hours"), ("3 千小时", "3000 hours"), ("1.5 万小时", "15000 hours")])
def test_a_multiplier_before_a_unit_of_time(amount: str, hours: str) -> None:
    assert understand(f"用 whisper-large-v3 转写 {amount}的音频").wishes["data"] in (hours, amount)


@pytest.mark.parametrize(
    ("said", "data"), [("40 million Wikipedia paragraphs", "40 million samples"), ("300k GSM8K problems", "300k samples")]
)
def test_things_of_a_named_data_set_are_the_amount(said: str, data: str) -> None:
    found = understand(f"embed {said} with e5-large-v2")
    assert found.wishes["data"] == data
    assert not found.weighty


@pytest.mark.parametrize("size", ["1B", "7B", "0.5B"])
def test_a_reward_model_by_its_size(size: str) -> None:
    found = understand(f"PPO on Llama-3-8B with a {size} reward model, 20k prompts")
    assert (found.wishes["reward_model"], found.wishes["model"]) == (size, "Llama-3-8B")
    assert not found.weighty


@pytest.mark.parametrize("side", [224, 384])
def test_the_side_of_images_behind_their_number(side: int) -> None:
    found = understand(f"训练 ResNet101，30 万张 {side} 图片，epochs 90，batch 64")
    assert {name: found.wishes.get(name) for name in ("image_size", "data", "epochs")} == {
        "image_size": str(side),
        "data": "30 万张",
        "epochs": "90",
    }


@pytest.mark.parametrize(("said", "own"), [("有 4 张 2080Ti", "4x2080Ti"), ("实验室有 2 张 3090", "2x3090"), ("阿里云有 2 张 A10", "")])
def test_cards_that_are_there_by_their_number(said: str, own: str) -> None:
    assert understand(f"{said}，部署 Qwen2.5-14B 给 10 个人用").own_machine == own


@pytest.mark.parametrize(
    ("form", "servers"), [("两台服务器，每台 {n} 张 A100", 2), ("三台机器，每台 {n} 张 A100", 3), ("2 servers, each with {n} A100", 2)]
)
@pytest.mark.parametrize("number", [4, 8])
def test_cards_of_each_server_are_counted_over_all_servers(form: str, servers: int, number: int) -> None:
    found = understand(f"{form.format(n=number)}, full fine-tune Qwen2.5-14B, 100M tokens").wishes
    assert (found["num_gpus"], found["max_nodes"]) == (str(servers * number), str(servers))


@pytest.mark.parametrize("form", ["每个 prompt 采样 {n} 个", "每条提示采样 {n} 个回答", "每个问题生成 {n} 次"])
@pytest.mark.parametrize("number", [4, 16])
def test_answers_drawn_for_each_prompt(form: str, number: int) -> None:
    assert understand(f"Qwen2.5-7B 做 GRPO，{form.format(n=number)}，5000 条 prompt").wishes["completions"] == str(number)


@pytest.mark.parametrize("ask", ["比哪个快、哪个便宜", "相比哪个好"])
def test_cards_apart_from_one_another_are_compared(ask: str) -> None:
    found = understand(f"用 4 张 A100 40G 训练 SD3.5 的 LoRA，3000 张图，想知道和 1 张 H100 {ask}")
    assert found.cards == (("A100 40G", 4), ("H100", 1))
    assert not found.weighty
    assert "num_gpus" not in found.wishes
