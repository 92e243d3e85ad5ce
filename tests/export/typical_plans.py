"""Eleven typical plans, made by the search itself, as dictionaries: what every
exporter is tested on."""

from __future__ import annotations

import functools
from typing import Any

from answers import stored
from kinds import STARTED

import rightfit

WISHES: dict[str, dict[str, Any]] = {
    "qlora-8b": {
        "model": "meta-llama/Meta-Llama-3-8B",
        "task": "finetune",
        "method": "qlora",
        "data": "50Mtok",
        "cloud": "verda",
        "purchase": "spot",
    },
    "lora-8b-aws": {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "lora", "data": "50Mtok", "cloud": "aws"},
    "full-8b-gcp": {
        "model": "meta-llama/Meta-Llama-3-8B",
        "task": "finetune",
        "method": "full",
        "data": "50Mtok",
        "cloud": "gcp",
        "purchase": "on-demand",
    },
    "full-70b": {
        "model": "meta-llama/Meta-Llama-3-70B",
        "task": "finetune",
        "method": "full",
        "data": "100Mtok",
        "cloud": "aws",
        "gpu": "H100",  # several servers, whatever one large one costs today
        "max_nodes": 8,
    },
    "bert-azure": {"model": "bert-base-uncased", "task": "finetune", "data": "100ksamples", "seq_len": 128, "cloud": "azure"},
    "pretrain-1b-alicloud": {
        "model": "meta-llama/Llama-3.2-1B",
        "task": "train",
        "data": "1Btok",
        "cloud": "alicloud",
        "purchase": "spot",
    },
    "chat-8b": {
        "model": "meta-llama/Meta-Llama-3-8B",
        "task": "serve",
        "rate": "10/s",
        "input_tokens": 1024,
        "output_tokens": 256,
        "ttft": "300ms",
        "tpot": "30ms",
    },
    "chat-8b-aws": {
        "model": "meta-llama/Meta-Llama-3-8B",
        "task": "serve",
        "rate": "5/s",
        "input_tokens": 512,
        "output_tokens": 128,
        "cloud": "aws",
        "gpu": "L40S",
    },
    "chat-70b-aws": {
        "model": "meta-llama/Meta-Llama-3-70B",
        "task": "serve",
        "users": 50,
        "input_tokens": 1024,
        "output_tokens": 256,
        "cloud": "aws",
    },
    "bert-service-azure": {"model": "bert-base-uncased", "task": "serve", "rate": "1000/s", "latency": "50ms", "cloud": "azure"},
    "batch-8b-tencent": {
        "model": "meta-llama/Meta-Llama-3-8B",
        "task": "batch",
        "data": "100ksamples",
        "deadline": "24h",
        "cloud": "tencent",
    },
}

CHAT: dict[str, Any] = WISHES["chat-8b"]
FURTHER: dict[str, dict[str, Any]] = {
    "chat-8b-sglang": {**CHAT, "framework": "sglang"},
    "chat-8b-tensorrt-llm": {**CHAT, "framework": "tensorrt-llm"},
    "chat-8b-tgi": {**CHAT, "framework": "tgi"},
    "chat-8b-llama-cpp": {**CHAT, "framework": "llama.cpp", "rate": "1/s", "ttft": "3s", "tpot": "100ms"},
    "resnet-gcp": {"model": "resnet50", "task": "train", "data": "imagenet", "epochs": 90, "cloud": "gcp"},
    "sdxl-aws": {"model": "sdxl", "task": "finetune", "method": "lora", "data": "2000samples", "cloud": "aws"},
    "pretrain-8b-megatron": {
        "model": "meta-llama/Meta-Llama-3-8B",
        "task": "train",
        "data": "2Btok",
        "framework": "megatron",
        "tensor_parallel": 2,
        "cloud": "aws",
        "max_nodes": 4,
    },
}
"""Plans for what no typical plan chooses by itself: server programs that are asked for by name,
images, and a model split among accelerators."""

OTHER_KINDS: dict[str, dict[str, Any]] = {
    "chat-8b-day": {**CHAT, "rate": "60/s", "profile": "office"},
    "chat-8b-drafts": {**CHAT, "speculative": "llama-3.2-1b", "adapters": 8},
    "chat-70b-fp8": {
        "model": "meta-llama/Meta-Llama-3-70B",
        "task": "serve",
        "rate": "1/s",
        "quantization": "fp8",
        "tensor_parallel": 4,
        "cloud": "aws",
    },
    "chat-deepseek-aws": {"model": "deepseek-ai/DeepSeek-V3", "task": "serve", "rate": "1/s", "cloud": "aws"},
    "lora-8b-runpod": {
        "model": "meta-llama/Meta-Llama-3-8B",
        "task": "finetune",
        "method": "lora",
        "data": "50Mtok",
        "cloud": "runpod",
        "purchase": "on-demand",
    },
    "chat-8b-runpod": {**CHAT, "rate": "1/s", "cloud": "runpod", "purchase": "on-demand"},
    "chat-two-servers-aws": {
        "model": "deepseek-ai/DeepSeek-V3",
        "task": "serve",
        "rate": "1/s",
        "cloud": "aws",
        "gpu": "H100",
        "quantization": "fp8",
    },
    "sdxl-service-aws": {"model": "sdxl", "task": "serve", "rate": "1/s", "cloud": "aws"},
    "whisper-batch-aws": {"model": "openai/whisper-large-v3", "task": "batch", "data": "10000hours", "cloud": "aws"},
    "bge-batch": {"model": "BAAI/bge-large-en-v1.5", "task": "batch", "data": "1Msamples", "cloud": "aws"},
    "whisper-train-aws": {"model": "openai/whisper-small", "task": "finetune", "data": "100hours", "cloud": "aws"},
    "wav2vec-train": {"model": "facebook/wav2vec2-base", "task": "finetune", "data": "100hours"},
    "segformer-train": {"model": "segformer-b0", "task": "finetune", "data": "10ksamples", "gpu": "L4"},
    "xgboost-service-aws": {"model": "xgboost", "task": "serve", "rate": "1000/s", "columns": 30, "cloud": "aws"},
    "xgboost-train-aws": {"model": "xgboost", "task": "train", "data": "100Mrows x 28cols", "cloud": "aws"},
    "xgboost-score-aws": {"model": "xgboost", "task": "batch", "data": "100Mrows x 28cols", "cloud": "aws"},
    "tokenize-aws": {"task": "prepare", "operation": "tokenize", "data": "500GB", "cloud": "aws"},
    "parquet-aws": {"task": "prepare", "operation": "to-parquet", "data": "500GB", "storage": "local", "cloud": "aws"},
}
"""Families of work that few exporters write files for yet, and services with
more beside the model."""

COMMON = (
    "qlora-8b",
    "lora-8b-aws",
    "full-8b-gcp",
    "chat-8b",
    "chat-8b-aws",
    "chat-70b-aws",
    "chat-8b-sglang",
    "batch-8b-tencent",
    "chat-70b-fp8",
    "chat-deepseek-aws",
)
"""The ten commonest of them."""

WITHOUT_LENGTHS: dict[str, dict[str, Any]] = {
    "chat-assumed": {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "users": 20, "gpu": "L4"},
    "chat-70b-awq": {"model": "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", "task": "serve", "users": 20},
    "chat-assumed-sglang": {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "users": 20, "framework": "sglang"},
    "chat-assumed-tgi": {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "users": 20, "framework": "tgi"},
    "chat-prompt-only": {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "users": 5, "input_tokens": 6000},
    "chat-images": {"model": "Qwen/Qwen2-VL-7B-Instruct", "task": "serve", "rate": "1/s", "images": 1, "image_size": 1024},
}
"""Services whose lengths of requests are assumed, in whole or in part."""


@functools.cache
def plan_values(name: str) -> dict[str, Any]:
    """The plan of one wish, here or of the kinds that are started, as `rightfit plan --format
    json` gives it."""
    values: dict[str, Any] = stored(
        f"typical {name}", lambda: rightfit.plan(**(WISHES | FURTHER | OTHER_KINDS | WITHOUT_LENGTHS | STARTED)[name]).to_dict()
    )
    assert values["options"], f"the typical plan {name} has no option"
    return values
