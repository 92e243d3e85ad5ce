"""Lines of programs, logs and settings that a text quotes: paths, modules, speeds of networks and
places of states are no options, and a setting keeps its own value."""

from __future__ import annotations

import itertools

import pytest

from rightfit.units import parse_duration
from rightfit.workload.ask import understand

TUNED = "Fine-tune CodeLlama-34B with LoRA on 10M tokens"


@pytest.mark.parametrize(
    "quoted",
    [
        "NET/Plugin", "NET/Socket", "bf16/gpu", "examples/deepspeed/ds_z2_config.json", "configs/train/base.yaml", "logs/run-3/out.txt", "fp16/bf16",
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [True, False])
def test_a_path_or_module_is_no_model_beside_one(quoted: str, *, before: bool) -> None:
    text = f"{quoted}: {TUNED}" if before else f"{TUNED}, {quoted}"
    assert understand(text).wishes["model"] == "CodeLlama-34B"


@pytest.mark.parametrize("name", ["Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-R1-0528", "someone/own-model"])
def test_a_repository_is_a_model(name: str) -> None:
    assert understand(f"serve {name} to 20 users").wishes["model"] == name


SETTINGS = {
    "imgsz=640": ("image_size", "640"),
    "epochs=100": ("epochs", "100"),
    "batch=16": ("global_batch", "16"),
    "workers=8": ("workers", "8"),
}


@pytest.mark.parametrize("order", list(itertools.permutations(SETTINGS)))
def test_each_setting_keeps_its_value(order: tuple[str, ...]) -> None:
    found = understand(f"train yolov8m on 20000 images: yolo detect train {' '.join(order)}").wishes
    assert {option: found.get(option) for option, _ in SETTINGS.values()} == dict(SETTINGS.values())
    assert found["data"] == "20000 images"
    assert "users" not in found


@pytest.mark.parametrize("unit", ["Gbps", "Mbps", "Gbit", "TFLOPS", "lanes", "ports", "warnings", "errors"])
def test_figures_of_a_machine_are_no_samples(unit: str) -> None:
    assert "data" not in understand(f"Fine-tune CodeLlama-34B with LoRA, the nodes have 3200 {unit}").wishes


@pytest.mark.parametrize(
    "said",
    [
        '"offload_optimizer": {"device": "cpu", "pin_memory": true}', "offload_param: {device: cpu}", "with optimizer states offloaded to CPU",
        "optimizer offload to the CPU", "device_map=cpu", "优化器状态卸载到CPU", "参数offload到CPU",
    ],
)  # fmt: skip
def test_where_states_are_kept_is_no_wish_for_a_processor(said: str) -> None:
    assert "gpu" not in understand(f"{TUNED}, {said}").wishes


@pytest.mark.parametrize(
    "said",
    [
        "One epoch takes 1h50m now", "a run takes 2h 30m", "It took us 3 weeks to label them", "labelling took me a month", "（标注花了我一个月）",
        "，清洗花了我们两周", "，一个epoch要四十多分钟", "，一轮要40多分钟",
    ],
)  # fmt: skip
def test_a_time_that_something_took_ends_nothing(said: str) -> None:
    found = understand(f"Train ResNet-101 on 1.1M images for 90 epochs. {said}.").wishes
    assert "deadline" not in found
    assert found["epochs"] == "90"


@pytest.mark.parametrize(
    ("said", "is_data"),
    [
        ("6 students", False), ("5 researchers", False), ("12 engineers", False), ("4 devs", False), ("6个学生", False), ("8名工程师", False),
        ("3 million customers", True), ("20000 patients", True), ("20万用户", True),
    ],
)  # fmt: skip
def test_a_few_people_are_no_samples(said: str, *, is_data: bool) -> None:
    assert ("data" in understand(f"{said}, fine-tune a 7B model").wishes) == is_data


@pytest.mark.parametrize(
    ("window", "hours"),
    [
        ("夜里12点到早上8点", "8h"), ("半夜12点到早上6点", "6h"), ("晚上12点到早上7点", "7h"), ("晚上10点到早上6点", "8h"), ("凌晨1点到早上8点", "7h"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("beside", ["", "做电话客服质检，", "不需要实时，"])
def test_sound_of_a_day_within_a_night(window: str, hours: str, beside: str) -> None:
    found = understand(f"{beside}每天新增录音3000小时，{window}转完，用whisper large-v3")
    assert (found.wishes["task"], found.wishes["data"], found.wishes["deadline"]) == ("batch", "3000 hours", hours)
    assert not found.weighty


@pytest.mark.parametrize(
    "said",
    [
        "nobody should wait more than 15 s", "no one waits longer than 15 seconds", "no user should have to wait more than 15 s", "wait at most 15 s",
        "别让人等超过15秒", "不能让用户等超过15秒", "用户最多等15秒", "等待不超过15秒", "等待时间控制在15秒",
    ],
)  # fmt: skip
def test_how_long_anybody_waits_is_the_latency(said: str) -> None:
    found = understand(f"Flux dev image API, 3,000 images a day, {said}")
    assert parse_duration(found.wishes["latency"]) == 15.0
    assert not found.weighty


@pytest.mark.parametrize(
    ("said", "option"),
    [
        ("real-time voice agent with an 8B LLM, 30 simultaneous calls, reply in under 800 ms", "ttft"),
        ("voice assistant, Qwen3-8B, 20 users, response within 600 ms", "ttft"), ("语音助手，Qwen3-8B，同时30路通话，回复要在800毫秒内", "ttft"),
        ("a chatbot with an 8B LLM, 30 users, latency under 800 ms", "latency"), ("voice assistant, Qwen3-8B, 20 users, latency under 10 s", "latency"),
    ],
)  # fmt: skip
def test_a_voice_waits_for_its_first_words(said: str, option: str) -> None:
    found = understand(said)
    assert {"ttft", "latency"} & set(found.wishes) == {option}
    assert any(one.key == "workload.assumed_spoken" for one in found.assumed) == (option == "ttft")


@pytest.mark.parametrize(
    ("said", "term"),
    [
        ("包月", "subscription-1m"), ("按月付费", "subscription-1m"), ("月付", "subscription-1m"), ("包月付款", "subscription-1m"),
        ("billed monthly", "subscription-1m"), ("monthly subscription", "subscription-1m"), ("包年包月", "subscription-1m,subscription-1y"), ("包年", "subscription"),
    ],
)  # fmt: skip
def test_by_the_month_is_a_month(said: str, term: str) -> None:
    assert understand(f"腾讯云{said}，部署 Qwen3-8B，并发 10").wishes["purchase"] == term
