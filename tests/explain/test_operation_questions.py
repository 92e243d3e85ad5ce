"""What goes wrong while a server is used is answered by its cause, told or asked."""

from __future__ import annotations

import pytest

from rightfit.api import check
from rightfit.explain.messages import topic
from rightfit.market import Catalog
from rightfit.search.offers import open_priced


@pytest.fixture(scope="module")
def market() -> Catalog:
    return open_priced()


ASKED = {
    "training_waits_for_data": (
        "5TB数据在OSS上，训练一直在等数据，要换更好的卡吗",
        "5TB dataset on S3, training stalls waiting on data, do I need a bigger gpu?",
    ),
    "several_on_one_gpu": ("一张卡上跑两个vllm实例可以吗", "can I run two vllm instances on one gpu?"),
    "wrong_gpu_is_full": (
        "8卡A100机器别人占了4张，我在空闲的卡上跑也 out of memory，为什么",
        "a colleague uses gpu 0 and 1 of our 4x 3090, my job on the free cards dies with CUDA out of memory, why?",
    ),
    "choose_the_gpu": ("所有进程都跑到0号卡上了怎么办", "how do I make my script use only gpu 2 and 3?"),
    "driver_errors": ("机器报Xid 79是什么意思", "Xid 13 in dmesg while training, is the GPU broken?"),
    "host_memory_gone": (
        "训练时系统内存爆了，进程直接Killed",
        "the dataloader eats all the RAM and the process is killed with exit code 137",
    ),
    "driver_too_old": ("驱动版本太低跑不了新版pytorch怎么办", "The NVIDIA driver on your system is too old (found version 11040)"),
    "many_small_files": (
        "1200万张小图放OSS直接读，GPU利用率只有20%，是卡不行吗",
        "3 million jpegs on EFS and the gpu is at 25%, would an H100 help?",
    ),
    "memory_is_held": ("程序杀了显存还占着，nvidia-smi里看不到进程", "killed my training with ctrl-c but the GPU memory is still in use"),
    "latency_has_spikes": (
        "triton服务p99延迟隔几分钟就飙一下，L4利用率才35%",
        "p99 latency spikes every few minutes on our L4, gpu util is only 35%",
    ),
    "servers_slower_than_one": (
        "两台单卡4090做分布式，居然比一台还慢，为啥",
        "two servers with one A100 each over 10GbE are slower than one, why?",
    ),
    "gpu_throttles": ("4090跑一会就降频，温度87度", "my GPU is thermal throttling at 88C, what now?"),
    "session_is_closed": ("ssh断了训练就停了怎么办", "my ssh session dropped and the training died"),
    "shared_memory_small": ("dataloader报bus error，共享内存不足", "DataLoader worker is killed by signal: Bus error"),
    "gpu_stays_unused": ("训练时GPU利用率一直是0，好像跑在CPU上", "gpu usage is at 0% while training, it is not using the gpu"),
    "bill_is_higher": ("云账单比预期高很多，为什么", "my cloud bill is twice what I expected, why?"),
    "hub_is_slow": ("huggingface下载太慢一直超时", "huggingface downloads are slow and keep timing out"),
    "run_goes_on": ("训练中断之后怎么从检查点接着训？", "how do I resume training from a checkpoint after a crash?"),
    "ever_slower_run": ("A100上训练越跑越慢怎么回事", "training gets slower and slower on our A100, why?"),
    "nvidia_smi_is_slow": ("H100机器上nvidia-smi要卡几秒才返回", "why does nvidia-smi take 10 seconds on our server?"),
    "first_request_is_slow": ("vLLM每天早上第一个请求特别慢", "the first request after idle is slow on our L4, why?"),
    "package_does_not_build": ("flash-attn编译失败装不上", "building flash-attn takes hours, then it fails"),
}


def test_every_operation_is_asked_for() -> None:
    assert set(ASKED) == {one["id"] for one in topic("operation_questions")["topics"]}


@pytest.mark.parametrize("name", ASKED)
def test_what_goes_wrong_is_answered_by_its_cause(name: str, market: Catalog) -> None:
    for sentence in ASKED[name]:
        (found,) = check([sentence], catalog=market)
        assert found.facts.get("topic") == name, (sentence, found.explanation_en)


def test_classes_are_all_used() -> None:
    table = topic("operation_questions")
    used = {name for one in table["topics"] for name in (*one["all"], *one.get("none", ()))}
    assert used - set(topic("topic_questions")["classes"]) == set(table["classes"])


@pytest.mark.parametrize("number", [name for name in topic("operation_questions")["xids"] if name != "none"])
def test_each_number_of_the_driver_is_told_by_its_own_row(number: str, market: Catalog) -> None:
    row = topic("operation_questions")["xids"][number]
    for sentence, lang in ((f"Xid {number} 是什么意思", "zh"), (f"what does Xid {number} mean?", "en")):
        (found,) = check([sentence], catalog=market)
        told = found.explanation_zh if lang == "zh" else found.explanation_en
        assert told.startswith(row[lang])
        assert topic("operation_questions")["whose"][row["kind"]][lang] in told


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("12M small images on S3 are slow to read", "12 M files at 20 ms each take 2.78 days"),
        ("100万张小图读取很慢", "32 路并行也要 10 分"),
        ("two servers over 25 Gbit/s are slower than one for a 7B", "2 s at 25 Gbit/s"),
        ("两台机器万兆网跑13B比一台还慢", "10 Gbit/s 要 52 秒"),
    ],
)
def test_figures_of_the_question_are_reckoned_with(sentence: str, told: str, market: Catalog) -> None:
    (found,) = check([sentence], catalog=market)
    assert told in found.explanation_en + found.explanation_zh, found.explanation_en
