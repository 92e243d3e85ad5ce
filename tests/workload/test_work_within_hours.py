"""So many a day with an hour by which they are done is a batch of each day; what loads data is no
data; four bits on a CPU are those that CPUs run."""

from __future__ import annotations

import pytest

from rightfit.workload.ask import understand


@pytest.mark.parametrize("amount", ["每天100万条文本", "每天处理 50万张图片", "2M documents per day"])
@pytest.mark.parametrize(
    ("limit", "hours"), [("4小时内跑完", "4"), ("凌晨2点到6点跑完", "4"), ("夜里22点到6点处理", "8"), ("within 3 hours", "3")]
)
@pytest.mark.parametrize("model", ["BERT", "bge-m3"])
def test_a_daily_amount_with_a_limit_is_a_batch(amount: str, limit: str, hours: str, model: str) -> None:
    found = understand(f"{amount}, {limit}, {model}").wishes
    assert "rate" not in found
    assert found["task"] == "batch"
    assert found["deadline"].startswith(hours)
    assert not understand(f"{amount}, {limit}, {model}").weighty


def test_a_daily_amount_without_a_limit_is_a_rate() -> None:
    assert understand("BERT 推理服务 每天100万次请求").wishes["rate"] == "100万/天"


@pytest.mark.parametrize(
    ("said", "workers"),
    [
        ("16个dataloader进程", "16"),
        ("num_workers=8", "8"),
        ("8个进程加载数据", "8"),
        ("16个worker", "16"),
        ("12 data loader workers", "12"),
        ("workers 设为 4", "4"),
    ],
)
def test_what_loads_data_is_no_data(said: str, workers: str) -> None:
    found = understand(f"训练 resnet50, {said}").wishes
    assert found["workers"] == workers
    assert "data" not in found


@pytest.mark.parametrize(
    "thing", ["医疗模型", "法律问答模型", "客服系统", "推荐平台", "OCR 服务", "分类器", "聊天机器人", "垃圾分类的图像识别模型"]
)
def test_one_thing_that_is_made_is_no_sample(thing: str) -> None:
    assert "data" not in understand(f"想训练一个{thing}").wishes


@pytest.mark.parametrize("said", ["CPU 跑 7B int4 行不行", "没有GPU，7B int4 推理", "serve 7B int4 on CPU"])
def test_four_bits_on_a_cpu(said: str) -> None:
    found = understand(said).wishes
    assert found["quantization"].startswith("gguf-q4")
    assert "data" not in found


@pytest.mark.parametrize("joined", ["和", "还是", "、", " or ", " vs "])
@pytest.mark.parametrize(("card", "sizes"), [("A100", ("40G", "80G")), ("V100", ("16GB", "32GB"))])
def test_two_sizes_of_a_card_are_two_cards(joined: str, card: str, sizes: tuple[str, str]) -> None:
    found = understand(f"微调13B {card} {sizes[0]}{joined}{sizes[1]}").wishes
    assert found["gpu"].split(",") == [f"{card} {size}" for size in sizes]


@pytest.mark.parametrize("bits", ["int4", "int8", "AWQ", "GPTQ"])
def test_weights_in_few_bits_are_served(bits: str) -> None:
    assert understand(f"ChatGLM3-6B {bits} 需要什么卡").wishes["task"] == "serve"
    assert understand(f"LoRA 微调 ChatGLM3-6B {bits}").wishes["task"] == "finetune"
