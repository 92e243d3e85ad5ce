"""Questions about hardware, data and methods are answered by their topic, in both languages, and no
wish is taken for one."""

from __future__ import annotations

import re

import pytest

from rightfit.api import check
from rightfit.explain.messages import topic
from rightfit.explain.rule_lookup import verdict_of
from rightfit.explain.topic_questions import topic_question
from rightfit.explain.yes_or_no import is_open
from rightfit.facts.expressions import expression
from rightfit.market import Catalog
from rightfit.market.check import check_one
from rightfit.messages import LANGS

ASKED = {
    "first_token": ("2 张 A100 80G 跑 Qwen3-32B，8k 输入，首字时间多少？", "What is the TTFT of Qwen3-32B with 8k prompts on 2 A100 80GB?"),
    "logits": (
        "全参微调 Qwen2.5-0.5B，batch 16，序列长度 2048，为什么 48G 的卡会爆显存？",
        "Why does a full fine-tune of Qwen2.5-0.5B with batch 16, seq 2048 OOM on a 48GB card?",
    ),
    "vllm_reserves": ("vLLM 跑个 1B 模型占满了显存，是泄漏吗？", "vLLM shows 22 of 24 GB used with a 1B model, is that a leak?"),
    "sparse_memory": (
        "2 亿行，one-hot 后 100 万维，每行平均 30 个非零，训逻辑回归要多少显存？",
        "How much GPU memory does logistic regression on 200M rows, one-hot 1 million columns, 30 nonzeros per row need?",
    ),
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
    "out_of_memory_in_engine": ("vLLM一启动就爆显存，怎么调", "vLLM 0.6 runs out of memory at startup, which flags?"),
    "out_of_memory_while_loading": ("加载模型的时候就显存不足，为什么", "CUDA out of memory while loading the model, why?"),
    "out_of_memory_later": ("跑了 300 步突然 OOM，什么原因", "Why does it go OOM after 300 steps?"),
    "out_of_memory_at_saving": ("保存检查点时爆显存怎么办", "Why is it out of memory when saving the model?"),
    "out_of_memory_at_evaluation": ("验证的时候爆显存怎么办", "Why OOM during validation?"),
    "out_of_memory_in_inference": ("推理长文本显存不够怎么办", "Inference with long prompts runs out of memory, what can I do?"),
    "out_of_memory_again": ("上次能跑，这次显存不足，怎么回事", "Worked yesterday, out of memory today, why?"),
    "out_of_memory_at_first": ("一开始就 OOM 怎么办", "Why OOM at the first step?"),
    "quantized_speed": ("INT4 量化一定更快吗", "Does INT8 always speed up inference?"),
    "eight_bit_floats_speed": ("H100 上 FP8 比 BF16 快一倍吗", "Is FP8 twice as fast on an H100?"),
    "context_and_memory": ("上下文翻倍显存翻倍吗", "Does twice the context need twice the memory?"),
    "lora_memory_share": ("LoRA 显存是全参的 10% 吗", "Does LoRA need 10% of the memory of full fine-tuning?"),
    "sharding_share": ("8 卡 ZeRO-3 显存能降到 8 分之一、省 8 倍吗", "Does ZeRO-3 on 8 GPUs save 8 times the memory?"),
    "flash_attention_gain": ("8K 上下文 FlashAttention 省显存吗", "Does FlashAttention save memory at 8k?"),
    "tensor_parallel_speed": ("张量并行 2 路速度翻倍吗", "Does tensor parallel 2 double the speed?"),
    "speculative_speed": ("投机解码一定更快吗", "Is speculative decoding always faster?"),
    "resolution_and_memory": ("分辨率翻倍显存翻倍吗", "Does twice the resolution need double the memory?"),
    "accumulation_same": ("梯度累积和大 batch 效果一样吗", "Is gradient accumulation the same as a large batch?"),
    "larger_model_times": ("模型大一倍显存也要一倍吗，翻倍？", "Does a model twice as large need double the memory?"),
    "max_model_len_high": ("max-model-len 设太大会怎样", "What happens if max-model-len is too high?"),
    "engine_share_high": ("gpu_memory_utilization 设成 0.99 会怎样", "Is gpu-memory-utilization 0.98 safe?"),
    "loss_is_nan": ("loss 变成 NaN 怎么办", "Why is my loss NaN in fp16?"),
    "loss_stays": ("loss 不下降，是卡的问题吗", "My loss is not decreasing, is it the GPU?"),
    "slower_on_several": ("多卡比单卡还慢，为什么", "Why is DDP on 2 GPUs no faster than one?"),
    "first_token_late": ("首 token 要 10 秒，怎么优化", "Time to first token is 9 seconds, how can I reduce it?"),
    "illegal_access": ("报 illegal memory access 怎么办", "CUDA error: device-side assert triggered, why?"),
    "no_kernel_for_card": ("5090 报 no kernel image 怎么办", "Why no kernel image is available on a 5090?"),
    "gpu_not_seen": ("容器里看不到 GPU 怎么办", "Why is torch.cuda.is_available() False?"),
    "disk_is_full": ("训练时磁盘满了怎么办", "No space left on device, what can I do?"),
    "no_stock": ("p4d 报 InsufficientInstanceCapacity 怎么办", "Why does it say out of capacity?"),
    "quota_exceeded": ("GPU 配额不足怎么办", "VcpuLimitExceeded, what now?"),
    "hangs_on_several": ("双卡训练卡住不动怎么办", "Why does vLLM with tensor-parallel-size 2 hang?"),
    "output_is_garbage": ("模型输出乱码怎么办", "Why is the output gibberish?"),
    "busy_and_slow_service": ("GPU 100% 但吞吐很低，为什么", "Throughput is low though the GPU is at 100%, why?"),
    "out_of_memory_of_running_engine": ("vLLM 跑了 5 小时突然 OOM，怎么回事", "Why does my vLLM server go OOM after a few hours?"),
    "cards_mixed": ("3090 和 4090 能混用训练吗", "Can I mix a 3090 and a 4090 in one training job?"),
    "spot_for_service": ("竞价实例适合推理服务吗", "Are spot instances good for inference?"),
    "memory_fragments": ("显存碎片怎么解决", "How do I fix CUDA memory fragmentation?"),
    "memory_full_but_idle": ("显存占满但利用率是 0，怎么回事", "Why is GPU memory full but utilization 0?"),
    "runs_on_cpu": ("为什么 Ollama 用的是 CPU", "Ollama is using CPU, why?"),
    "batch_and_throughput": ("batch 越大吞吐越高吗", "Is a bigger batch always better for throughput?"),
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


@pytest.mark.parametrize(
    ("said", "topic"),
    [
        ("OOM after 500 steps even though the first steps were fine. Why?", "out_of_memory_later"),
        ("my finetune ran out of memory at step 1200", "out_of_memory_later"),
        ("训练跑了3小时突然爆显存，什么原因", "out_of_memory_later"),
        ("CUDA out of memory happens only when saving the checkpoint, why?", "out_of_memory_at_saving"),
        ("保存checkpoint时OOM怎么办", "out_of_memory_at_saving"),
        ("OOM during evaluation but training is fine", "out_of_memory_at_evaluation"),
        ("为什么eval的时候会OOM", "out_of_memory_at_evaluation"),
        ("vLLM一启动就CUDA out of memory，参数怎么调", "out_of_memory_in_engine"),
        ("vLLM加载模型时显存不足", "out_of_memory_in_engine"),
        ("sglang serving qwen2.5-32b on 4090 out of memory", "out_of_memory_in_engine"),
        ("from_pretrained的时候显存不够", "out_of_memory_while_loading"),
        ("推理长文本的时候显存不够怎么办", "out_of_memory_in_inference"),
        ("昨天还好好的，今天一跑就显存不足", "out_of_memory_again"),
        ("QLoRA 7B on T4 OOM at the first step, batch 4", "out_of_memory_at_first"),
        ("two 4090s are slower than one for training", "slower_on_several"),
        ("多卡训练比单卡还慢，为什么", "slower_on_several"),
        ("vLLM throughput is low though GPU util is 100%", "busy_and_slow_service"),
        ("训练到一半报CUDA error: an illegal memory access怎么办", "illegal_access"),
        ("InsufficientInstanceCapacity when launching p4d", "no_stock"),
        ("docker里看不到显卡怎么办", "gpu_not_seen"),
        ("多卡训练卡住不动了", "hangs_on_several"),
    ],
)
def test_a_symptom_has_the_causes_of_its_moment_asked_or_told(said: str, topic: str, catalog: Catalog) -> None:
    (found,) = check([said], catalog=catalog)
    assert found.facts.get("topic") == topic


@pytest.mark.parametrize(
    ("sentence", "topic", "claim"),
    [
        ("8张卡训练是不是就快8倍", "scaling", "wrong"),
        ("Do two GPUs halve the training time?", "scaling", "wrong"),
        ("量化成int8/int4速度一定更快吗", "quantized_speed", "wrong"),
        ("Is a 4-bit model always 4x faster than fp16?", "quantized_speed", "wrong"),
        ("fp8 on H100 twice as fast as bf16?", "eight_bit_floats_speed", "unknown"),
        ("Does doubling the context length double the KV cache?", "context_and_memory", "right"),
        ("上下文长度翻倍显存翻倍吗", "context_and_memory", "wrong"),
        ("Does ZeRO-3 save 8 times memory on 8 GPUs?", "sharding_share", "wrong"),
        ("Is it true that LoRA needs only 50% of the memory of full fine-tuning?", "lora_memory_share", "wrong"),
        ("tp=2推理速度会翻倍吗", "tensor_parallel_speed", "wrong"),
        ("投机解码一定更快吗", "speculative_speed", "unknown"),
        ("图片分辨率翻倍显存翻倍吗", "resolution_and_memory", "wrong"),
        ("Does FlashAttention reduce memory?", "flash_attention_gain", "right"),
        ("14B模型参数翻倍，训练时间也翻倍吗", "larger_model_times", "right"),
    ],
)
def test_a_rule_of_so_many_times_is_judged_by_its_quantity(sentence: str, topic: str, claim: str, catalog: Catalog) -> None:
    (found,) = check([sentence], catalog=catalog)
    assert (found.facts.get("topic"), found.claim) == (topic, claim)


@pytest.mark.parametrize(("count", "shown"), [(2, "1.7 to 1.9"), (4, "3.4 to 3.9"), (8, "6.8 to 7.8"), (16, "14 to 16")])
def test_so_many_gpus_are_told_for_their_number(count: int, shown: str, catalog: Catalog) -> None:
    found = topic_question(f"Are {count} GPUs {count} times as fast as one?", catalog)
    assert found is not None
    assert shown in found.explanation_en
