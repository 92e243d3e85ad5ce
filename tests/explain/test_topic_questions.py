"""Questions about hardware, data and methods are answered by their topic, in both languages, and no
wish is taken for one."""

from __future__ import annotations

import re

import pytest

from rightfit.explain.messages import topic
from rightfit.explain.rule_lookup import verdict_of
from rightfit.explain.topic_questions import topic_question
from rightfit.explain.yes_or_no import is_open
from rightfit.facts.expressions import expression
from rightfit.market import Catalog
from rightfit.market.check import check_one
from rightfit.messages import LANGS

ASKED = {
    "data_and_vram": ("数据越多需要的显存越大吗", "Does more data need more GPU memory?"),
    "data_in_ram": ("数据放内存里训练会更快吗", "Is training faster with the dataset loaded into RAM?"),
    "method_speed": ("LoRA 比全参微调快多少", "How much faster is LoRA than full fine-tuning?"),
    "method_memory": ("LoRA 比全参能省多少显存", "How much less memory does LoRA take than full fine-tuning?"),
    "quantized_quality": ("INT8 量化会掉精度吗", "Does INT8 quantization hurt accuracy?"),
    "mixed_precision_half": ("用混合精度训练能省一半显存吗", "Does mixed precision halve GPU memory?"),
    "graph_memory": ("图神经网络为什么要大内存", "Why do graph neural networks need so much RAM?"),
    "recommender_memory": ("推荐系统为什么吃内存", "Why do recommenders need so much RAM?"),
    "dataset_size": ("ImageNet 有多大", "How big is CIFAR-10?"),
    "checkpoint_size": ("Llama-3-8B 的检查点有多大", "How large is a checkpoint of Llama-3-8B?"),
    "host_memory_of_cards": ("8×A100 需要多少内存", "How much RAM do 8 A100s need?"),
    "ram_for_data": ("100GB 的数据要多大内存", "How much RAM do I need for a 100GB dataset?"),
    "parallel_files_needed": ("2TB 视频数据训练需要 Lustre 吗", "Do I need Lustre for 2TB of video?"),
    "nvme_needed": ("20GB 图片要用 NVMe 吗", "Do I need NVMe for a 20GB image dataset?"),
    "read_rate_needed": ("数据读取需要 3GB/s 吗", "Does the data need to be read at 3 GB/s?"),
    "loading_share": ("数据加载占每步 20% 算正常吗", "Is it normal that data loading takes 20% of a step?"),
    "utilization_normal": ("GPU 利用率 70% 算正常吗", "Is 70% GPU utilization normal?"),
    "read_from_object_store": ("训练时直接读 OSS 会慢吗", "Is it slow to read S3 directly while training?"),
    "traffic_price": ("OSS 流量要钱吗", "Is traffic out of S3 free?"),
    "spot_notice": ("阿里云抢占式实例会不会突然被回收", "Will a spot instance be reclaimed suddenly?"),
    "spot_interrupted": ("训练中途 spot 被中断怎么办", "My spot server was interrupted, what should I do?"),
    "game_cards_reliable": ("推理用 RTX 3060 稳定吗", "Is an RTX 4090 reliable in production?"),
    "why_data_center_cards": ("RTX 4090 比 A100 便宜,为什么还要租 A100", "Why rent an A100 when a 4090 is cheaper?"),
    "total_memory_enough": ("总显存≥80GB，用 4 张 3090 行不行", "Is the total VRAM of two RTX 3090s enough?"),
    "train_in_integers": ("LLM.int8 能用来训练 70B 吗", "Can I train a 70B model in int8?"),
    "cards_pooled": ("两张 RTX 3090 等于 48GB 显存吗", "Do two RTX 3090s combine to 48 GB of VRAM?"),
    "sagemaker_serverless": ("SageMaker Serverless 推理支持 GPU 吗", "Does SageMaker Serverless support GPUs?"),
    "disks_compared": ("ESSD PL1 和 PL3 有什么区别", "What is the difference between gp3 and io2?"),
    "disk_enough": ("ESSD 云盘够快吗", "Is gp3 fast enough?"),
    "network_enough": ("100Gbps 网络做多机训练够吗", "Is 100 Gbps enough for multi-node training?"),
    "small_images_gpu": ("MNIST 需要 GPU 吗", "Do I need a GPU for CIFAR-10?"),
    "workers": ("num_workers 越大越好吗", "Are more num_workers always better?"),
    "own_pros": ("自建服务器和租云各有什么优缺点", "What are the pros and cons of on-prem servers?"),
    "spot_pros": ("竞价实例有什么优缺点", "What are the drawbacks of spot instances?"),
    "start_small": ("为什么要先用小配置试跑", "Why should I prototype on a small GPU first?"),
    "classical_gpu": ("用随机森林要不要 GPU", "Do I need a GPU for random forests?"),
    "why_many_cards": ("为什么训练大模型要多卡", "Why does training large language models take multi GPU servers?"),
    "cpu_inference": ("推理用 CPU 行不行", "Can I run inference on a CPU?"),
    "data_and_cards": ("500GB 数据要几张卡", "Which GPU for 10 GB of data?"),
    "scaling": ("4 张 A100 比 1 张快 4 倍吗", "Are four GPUs 4 times faster than one?"),
    "memory_map_useful": ("内存映射有用吗", "Is memory mapping useful?"),
    "loading_bottleneck": ("怎么判断数据加载是不是瓶颈", "How do I tell whether data loading is the bottleneck?"),
    "series_for_preparation": ("c 系列和 r 系列哪个适合数据预处理", "Compute-optimized or memory-optimized for preprocessing?"),
    "t4_language_models": ("T4 能跑大模型推理吗", "Can a T4 serve LLMs?"),
    "t4_large_training": ("为什么不用 T4 训练大模型", "Can a T4 train large language models?"),
    "cuda_mismatch": ("CUDA 版本不匹配怎么办", "How do I fix a CUDA version mismatch?"),
    "auto_stop_saves": ("自动启停脚本能省多少钱", "How much does auto-stop save?"),
    "auto_stop_monthly": ("包月的服务器夜间关机能省钱吗", "Does auto-stop save money with a monthly subscription?"),
    "kv_cache_size": ("Qwen2.5-72B 每个 token 的 KV cache 多大？", "How much VRAM does a 32k context take on Llama 3.1 8B?"),
    "users_of_cards": ("一张A10能同时服务多少人用7B", "How many users can one A10 serve with a 7B model?"),
    "memory_of_experts": (
        "Mixtral 只激活两个专家，显存也按激活的算吗",
        "For MoE like Mixtral 8x7B do I only need memory for the active params?",
    ),
    "disk_size": ("微调7B要多大硬盘", "How big a disk for a 70B fine-tune?"),
    "slow_on_these_cards": ("为什么 70B 在 8 张 A10 上这么慢", "Why is my 70B slow on 8x A10G?"),
    "checkpoint_interval": ("每小时存一次 checkpoint 够吗？用的是抢占式", "Is it enough to save a checkpoint every hour on spot?"),
    "out_of_memory_with_room": ("nvidia-smi 还有 6G 空闲，为什么还是 CUDA out of memory？", "Why CUDA out of memory with 6 GB free?"),
    "card_for_low_utilization": ("GPU 利用律只有 20%，要不要换 A100？", "GPU utilization is 20%, should I upgrade to a faster GPU?"),
    "tensor_parallel_size": ("张量并行设成 3 报错说不能整除，怎么办", "tensor-parallel-size 3 gives me an error, I have 3 gpus, why"),
    "memory_twice_the_model": ("推理是不是要两倍模型大小的显存", "is it true that you need twice the model size in VRAM for inference?"),
    "cards_by_task": ("T4 做推理，A100 做训练，是不是固定搭配", "T4 for inference and A100 for training, is that a fixed rule?"),
    "bf16_lacking": ("T4 能跑 Llama 3 8B 吗？bf16 报错", "Why does bf16 fail on my V100?"),
    "scale_to_zero_pitfalls": ("KEDA 能不能让 GPU pod 缩到 0？有啥坑", "Scaling GPU pods to zero, any pitfalls?"),
    "servers_add_little": ("两台机器训练只快了 1.1 倍，怎么回事？", "Training is only 1.1x faster on 2 nodes, what's wrong?"),
    "store_for_training": (
        "训练数据在 OSS 上，放云盘还是本地盘？",
        "My dataset is 2 TB of images on S3, training on p4d, loader is slow. EBS, FSx or local NVMe?",
    ),
    "network_needed": ("多机训练必须 100 Gbps 吗？我是两台 8 卡 A100 训 7B 全参", "Do I need 100 Gbps for multi-node training?"),
    "nvlink_for_serving": ("两张 4090 跑 70B 推理需要 NVLink 吗", "Do I need NVLink for 2x 4090 inference of a 70B Q4 model?"),
    "workers_by_cores": ("num_workers 设成 CPU 核数的一半行不行", "Should num_workers be half of the cores?"),
    "prefix_or_lora": ("Prefix-tuning 和 LoRA 哪个好", "Is prefix tuning better than LoRA?"),
}

WISHES = (
    "用 LoRA 微调 Qwen2.5-7B，1 万条数据，预算 300 元",
    "ResNet-50 训 ImageNet 90 轮，单卡 V100 要几天",
    "部署 BERT，每秒 100 次请求，延迟 50 毫秒",
    "Qwen2.5-7B LoRA 微调要多少显存",
    "8 张 A100 全参微调 LLaMA-7B 够吗",
    "用随机森林训练 8GB 的表格数据，需要 GPU 吗",
    "How long does ResNet-50 on ImageNet take on 8 A100s?",
    "A100 在阿里云一小时多少钱",
    "T4 和 A10 哪个便宜",
    "LoRA、QLoRA、Prefix-tuning哪个最省显存,Qwen2.5-7B",
    "LoRA 比全参微调 Qwen2.5-7B 2 万条快多少",
    "文本清洗 100GB 阿里云 用c系列还是r系列",
    "ecs.gn7i-c8g1.2xlarge 是 A10 吗",
)


def test_every_topic_is_asked_for() -> None:
    assert set(ASKED) == {one["id"] for one in topic("topic_questions")["topics"]}


@pytest.mark.parametrize("name", ASKED)
def test_questions_find_their_topic(name: str, catalog: Catalog) -> None:
    for lang, sentence in zip(("zh", "en"), ASKED[name], strict=True):
        found = topic_question(sentence, catalog)
        assert found is not None, sentence
        assert found.facts["topic"] == name, (sentence, found.facts)
        told = found.explanation_zh if lang == "zh" else found.explanation_en
        assert re.search(r"\d", told), told
        assert not re.search(r"\{|nan|- MiB", told), told


@pytest.mark.parametrize("sentence", WISHES)
def test_wishes_and_other_questions_are_no_topic(sentence: str, catalog: Catalog) -> None:
    assert topic_question(sentence, catalog) is None


def test_an_english_word_ends_where_chinese_begins() -> None:
    """ "微调完checkpoint要多大": every English word of a class is found between Chinese ones."""
    missed = []
    for name, pattern in topic("topic_questions")["classes"].items():
        for word in re.findall(r"(?<=[|'(]\\b)[a-z]{2,}(?=\\b)", pattern):
            if not expression(pattern).search(f"完{word}要"):
                missed.append((name, word))
    assert missed == []


def test_classes_are_all_used() -> None:
    table = topic("topic_questions")
    used = {name for one in table["topics"] for name in (*one["all"], *one.get("none", ()))}
    assert used == set(table["classes"])


@pytest.mark.parametrize(
    ("sentence", "is_amount"),
    [("V100 FP16 有多少 TFLOPS", True), ("7B 全参微调要几张 A100", True), ("T4 够吗", False), ("g4dn.xlarge 是不是 T4？显存多少", False)],
)
def test_an_amount_is_answered_with_no_yes(sentence: str, is_amount: bool) -> None:
    assert is_open(sentence) == is_amount


def test_an_amount_asked_of_a_server_is_no_claim(catalog: Catalog) -> None:
    found = check_one("ecs.gn7e-c16g1.8xlarge 有几张 A100", catalog=catalog)
    assert found.claim is None
    assert found.exists
    assert verdict_of(check_one("阿里云 ecs.gn7i-c8g1.4xlarge 是 A10 吗", catalog=catalog), "zh") == "不存在"


def test_no_price_is_written_into_a_topic() -> None:
    """Prices move: they are asked of the catalog when the question is."""
    written = {
        one["id"] for one in topic("topic_questions")["topics"] for lang in LANGS if re.search(r"[$¥]\s?\d|\d\s*(?:万)?[美]?元", one[lang])
    }
    assert written == set()
