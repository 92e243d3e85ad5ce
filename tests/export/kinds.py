"""Every kind of work that a plan can be made for, one small wish each: what some export must start,
or refuse in a line that says why."""

from __future__ import annotations

import functools
from typing import Any

from answers import stored

import rightfit

QWEN = {"model": "Qwen/Qwen2.5-7B", "task": "finetune", "cloud": "aws"}
SAMPLES = {"task": "finetune", "data": "10ksamples", "cloud": "aws"}
AFRESH = {**SAMPLES, "task": "train"}

STARTED: dict[str, dict[str, Any]] = {
    "dpo": {**QWEN, "method": "dpo", "data": "10ksamples"},
    "dpo-lora": {**QWEN, "method": "dpo", "update": "lora", "data": "10ksamples"},
    "orpo": {**QWEN, "method": "orpo", "update": "lora", "data": "10ksamples"},
    "kto": {**QWEN, "method": "kto", "update": "lora", "data": "10ksamples"},
    "reward": {**QWEN, "method": "reward", "update": "lora", "data": "10ksamples"},
    "grpo": {**QWEN, "method": "grpo", "update": "lora", "data": "7ksamples"},
    "grpo-full": {**QWEN, "method": "grpo", "data": "7ksamples"},
    "moe-qlora": {"model": "Qwen/Qwen3-30B-A3B", "task": "finetune", "method": "qlora", "data": "10Mtok"},
    "detr": {**SAMPLES, "model": "facebook/detr-resnet-50"},
    "rt-detr": {**SAMPLES, "model": "rt-detr-r50"},
    "faster-rcnn": {**SAMPLES, "model": "torchvision/fasterrcnn_resnet50_fpn"},
    "yolo": {**SAMPLES, "model": "yolo11n"},
    "yolo-seg": {**SAMPLES, "model": "yolov8n-seg"},
    "deeplab": {**SAMPLES, "model": "torchvision/deeplabv3_resnet50"},
    "sdxl-lora": {"model": "sdxl", "task": "finetune", "method": "lora", "data": "2000samples", "cloud": "aws"},
    "flux-lora": {"model": "flux.1-dev", "task": "finetune", "method": "lora", "data": "2000samples", "cloud": "aws"},
    "flux-lora-fp8": {
        "model": "flux.1-dev",
        "task": "finetune",
        "method": "lora",
        "quantization": "fp8",
        "sharding": "none",
        "data": "2000samples",
    },
    "flux-lora-swapped": {"model": "flux.1-dev", "task": "finetune", "method": "lora", "offload": "params", "data": "2000samples"},
    "wan-lora": {"model": "Wan-AI/Wan2.1-T2V-14B", "task": "finetune", "method": "lora", "data": "200samples", "frames": 17},
    "dlrm": {"model": "dlrm", "task": "train", "data": "100Msamples", "cloud": "aws"},
    "dcn": {"model": "dcnv2", "task": "train", "data": "100Msamples", "cloud": "aws"},
    "graphsage": {"model": "graphsage", "task": "train", "data": "100ksamples", "cloud": "aws"},
    "vision": {**AFRESH, "model": "resnet50"},
    "speech": {"model": "openai/whisper-small", "task": "finetune", "data": "100hours", "cloud": "aws"},
    "speech-lora": {"model": "openai/whisper-large-v3", "task": "finetune", "method": "lora", "data": "100hours", "cloud": "aws"},
    "segmentation-lora": {**SAMPLES, "model": "segformer-b0", "method": "lora"},
    "vision-full": {**SAMPLES, "model": "google/vit-base-patch16-224"},
    "vision-lora": {**SAMPLES, "model": "google/vit-base-patch16-224", "method": "lora"},
    "vision-dora": {**SAMPLES, "model": "timm/vit_base_patch16_224", "method": "dora"},
    "clip": {**SAMPLES, "model": "openai/clip-vit-large-patch14"},
    "clip-lora": {**SAMPLES, "model": "openai/clip-vit-large-patch14", "method": "lora"},
    "siglip-lora": {**SAMPLES, "model": "google/siglip-base-patch16-224", "method": "lora"},
    "vision-frozen": {**SAMPLES, "model": "resnet50", "method": "freeze"},
    "clip-frozen": {**SAMPLES, "model": "openai/clip-vit-large-patch14", "method": "freeze"},
    "segmentation-frozen": {**SAMPLES, "model": "segformer-b0", "method": "freeze"},
    "detr-frozen": {**SAMPLES, "model": "facebook/detr-resnet-50", "method": "freeze"},
    "yolo-frozen": {**SAMPLES, "model": "yolo11n", "method": "freeze"},
    "speech-frozen": {"model": "facebook/wav2vec2-base", "task": "finetune", "method": "freeze", "data": "100hours"},
    "table-train": {"model": "lightgbm", "task": "train", "data": "10Mrows x 28cols", "cloud": "aws"},
    "table-batch": {"model": "xgboost", "task": "batch", "data": "100Mrows x 28cols", "cloud": "aws"},
    "table-service": {"model": "xgboost", "task": "serve", "rate": "1000/s", "columns": 30, "cloud": "aws"},
    "forest-service": {"model": "random-forest", "task": "serve", "rate": "100/s", "columns": 30, "cloud": "aws"},
    "image-service": {"model": "sdxl", "task": "serve", "rate": "1/s", "cloud": "aws"},
    "clip-service": {"model": "Wan-AI/Wan2.1-T2V-1.3B", "task": "serve", "rate": "0.001/s", "frames": 17},
    "speech-service": {"model": "openai/whisper-large-v3", "task": "serve", "rate": "1/s", "cloud": "aws"},
    "embeddings": {"model": "BAAI/bge-large-en-v1.5", "task": "serve", "rate": "100/s", "latency": "100ms", "cloud": "aws"},
    "embedding-pairs": {"model": "BAAI/bge-large-en-v1.5", "task": "finetune", "data": "100ksamples", "cloud": "aws"},
    "reranker": {"model": "BAAI/bge-reranker-base", "task": "finetune", "data": "100ksamples", "cloud": "aws"},
    "text-to-text": {"model": "google/flan-t5-base", "task": "finetune", "data": "100ksamples", "cloud": "aws"},
    "text-to-text-lora": {"model": "facebook/bart-large", "task": "finetune", "method": "lora", "data": "100ksamples", "cloud": "aws"},
    "translation": {"model": "facebook/nllb-200-distilled-600M", "task": "finetune", "data": "100ksamples"},
    "long-text": {"model": "allenai/led-base-16384", "task": "finetune", "data": "10ksamples"},
    "vision-language": {"model": "Qwen/Qwen2-VL-7B-Instruct", "task": "finetune", "method": "lora", "data": "20ksamples", "cloud": "aws"},
    "prepare": {"task": "prepare", "operation": "tokenize", "data": "500GB", "cloud": "aws"},
}
"""Kinds that some export starts."""

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "ppo": ({**QWEN, "method": "ppo", "data": "7ksamples"}, "--method grpo"),
    "grpo-apart": ({**QWEN, "method": "grpo", "rollout": "separate", "data": "7ksamples"}, "--rollout colocated"),
    "ptuning": ({**QWEN, "method": "ptuning", "data": "10Mtok"}, "method"),
    "galore": ({**QWEN, "method": "galore", "data": "10Mtok"}, "method"),
    "yolox": ({**SAMPLES, "model": "yolox-s"}, "none of Transformers or torchvision"),
    "flux2": ({"model": "flux.2-dev", "task": "finetune", "method": "lora", "data": "200samples"}, "FLUX.1-dev"),
    "ncf": ({"model": "ncf", "task": "train", "data": "20Msamples"}, "DLRM and DCNv2"),
    "gat": ({"model": "gat", "task": "train", "data": "100ksamples"}, "GraphSAGE"),
    "video": ({**AFRESH, "model": "slowfast"}, "repository"),
    "gan": ({**AFRESH, "model": "cyclegan"}, "repository"),
    "points": ({**AFRESH, "model": "pointnet"}, "repository"),
    "answering-reranker": ({"model": "Qwen/Qwen3-Reranker-0.6B", "task": "finetune", "data": "100ksamples"}, "a score"),
    "whisper-frozen": ({"model": "openai/whisper-small", "task": "finetune", "method": "freeze", "data": "100hours"}, "full, lora, dora"),
    "embeddings-with-dense": (
        {"model": "sentence-transformers/gtr-t5-large", "task": "finetune", "data": "100ksamples"},
        "sentence-transformers",
    ),
    "images-without-template": (
        {"model": "HuggingFaceTB/SmolVLM2-2.2B-Instruct", "task": "finetune", "method": "lora", "data": "20ksamples"},
        "no chat template",
    ),
    "dreambooth": ({"model": "sdxl", "task": "finetune", "method": "dreambooth", "data": "20samples"}, "dreambooth"),
}
"""Kinds that nothing here starts, and what is said of them."""


@functools.cache
def kind_plan(name: str) -> dict[str, Any]:
    """The plan of a kind, as `rightfit plan --format json` gives it."""
    wish = STARTED[name] if name in STARTED else REFUSED[name][0]
    values: dict[str, Any] = stored(f"kind {name}", lambda: rightfit.plan(**wish).to_dict())
    assert values["options"], f"the plan of the kind {name} has no option"
    return values
