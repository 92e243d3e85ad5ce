"""A figure moves the way that physics moves it: each column of generated cases is varied alone."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from rightfit.proof.predict import predict

Row = dict[str, str]


class Way(NamedTuple):
    """How `metric` moves while `column` takes `values` in turn: up (1), down (-1) or not at all
    (0); a step back of `slack` is let pass (tiles, waves), and of neighbouring counts no step of
    more than `cliff` beyond what the count itself grows by."""

    metric: str
    column: str
    values: Sequence[Any]
    sign: int
    slack: float = 0.02
    cliff: float = math.inf


COUNTS = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)
LENGTHS = (512, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 3000, 4095, 4096, 4097, 8191, 8192, 8193)
TRAINED = (
    Way("peak_mem_gib_per_gpu", "micro_batch", COUNTS, 1, cliff=0.15),
    Way("peak_mem_gib_per_gpu", "seq_len", LENGTHS, 1, cliff=0.15),
    Way("peak_mem_gib_per_gpu", "lora_rank", (4, 8, 16, 32, 64, 128), 1),
    Way("peak_mem_gib_per_gpu", "precision", ("fp16", "bf16"), 0),
    Way("peak_mem_gib_per_gpu", "recompute", ("full", "selective", "none"), 1, slack=0.03),
    Way("peak_mem_gib_per_gpu", "sharding", ("zero3", "zero2", "zero1"), 1),
    Way("step_time_s", "micro_batch", COUNTS, 1),
    Way("step_time_s", "seq_len", LENGTHS, 1, cliff=0.15),
    Way("step_time_s", "grad_accum", (1, 2, 3, 4, 8, 16), 1),
    Way("tokens_per_s_per_gpu", "recompute", ("full", "selective", "none"), 1),
    Way("tokens_per_s_per_gpu", "gpu", ("T4", "V100-SXM-32GB", "A100-SXM-80GB", "H100-SXM-80GB"), 1),
    Way("tokens_per_s_per_gpu", "n_gpus", (8, 16, 32, 64, 128), -1, slack=0.04),
)
SERVED = (
    Way("ttft_ms", "input_tokens", LENGTHS, 1, cliff=0.15),
    Way("latency_ms", "output_tokens", LENGTHS, 1, cliff=0.15),
    Way("latency_ms", "input_tokens", LENGTHS, 1, cliff=0.15),
    Way("tpot_ms", "batch_or_concurrency", COUNTS, 1, cliff=0.15),
    Way("output_tok_per_s_total", "batch_or_concurrency", COUNTS, 1, cliff=0.15),
    Way("output_tok_per_s_total", "weights_dtype", ("fp16", "bf16"), 0),
    Way("tpot_ms", "device", ("A100-SXM-80GB", "H100-SXM-80GB", "H200-SXM-141GB"), -1),
    Way("ttft_ms", "device", ("L4", "L40S", "H100-SXM-80GB"), -1),
)
OPEN = (
    Way("ttft_ms", "request_rate", (0.2, 0.5, 1, 1.5, 2, 3, 4, 5), 1),
    Way("tpot_ms", "request_rate", (0.2, 0.5, 1, 1.5, 2, 3, 4, 5), 1),
    Way("latency_ms", "output_tokens", LENGTHS[:6], 1, cliff=0.15),
    Way("ttft_ms", "percentile", ("p50", "p90", "p95", "p99"), 1),
    Way("ttft_ms", "prefix_share", (0, 0.2, 0.5, 0.9), -1),
)
OFFLINE = (
    Way("output_tok_per_s_total", "num_requests", (64, 100, 255, 256, 257, 499, 500, 501, 511, 512, 513, 1000, 2000), 1, cliff=0.15),
    Way("output_tok_per_s_total", "output_tokens", (100, 127, 128, 129, 255, 256, 257, 258, 300), 0, slack=9.0, cliff=0.15),
    Way("output_tok_per_s_total", "input_tokens", (100, 127, 128, 129, 255, 256, 257, 258, 300, 511, 512, 513), -1, cliff=0.15),
)
PASSED = (
    Way("latency_ms", "batch_or_concurrency", COUNTS, 1, cliff=0.15),
    Way("sequences_per_s", "batch_or_concurrency", COUNTS, 1, slack=0.05, cliff=0.15),
    Way("latency_ms", "input_tokens", (32, 64, 127, 128, 129, 255, 256, 257, 384, 512), 1, cliff=0.15),
    Way("latency_ms", "weights_dtype", ("fp16", "bf16"), 0, slack=0.07),
    Way("latency_ms", "device", ("T4", "V100-SXM-32GB", "A100-SXM-80GB", "H100-SXM-80GB"), -1, slack=0.05),
)
HELD = (
    Way("peak_mem_gib", "input_tokens", LENGTHS, 1, cliff=0.15),
    Way("peak_mem_gib", "batch_or_concurrency", COUNTS, 1, cliff=0.15),
    Way("peak_mem_gib", "weights_dtype", ("int4", "int8", "bf16", "fp32"), 1),
    Way("peak_mem_gib", "weights_dtype", ("fp16", "bf16"), 0),
)
DRAWN = (
    Way("peak_mem_gib", "weights_dtype", ("nf4", "int4", "fp8", "bf16", "fp32"), 1),
    Way("peak_mem_gib", "image_size", (256, 511, 512, 513, 768, 1024), 1, cliff=0.15),
    Way("latency_ms", "denoise_steps", (1, 4, 20, 28, 50), 1),
)
LEARNT = (
    Way("peak_mem_gib_per_gpu", "batch_per_gpu", COUNTS, 1, cliff=0.15),
    Way("s_per_iter", "batch_per_gpu", COUNTS, 1),
    Way("s_per_iter", "precision", ("fp16", "bf16"), 0),
    Way("s_per_iter", "gpu", ("T4", "V100-SXM-32GB", "A100-SXM-80GB", "H100-SXM-80GB"), -1, slack=0.1),
)
LEARNT_PICTURES = (
    *LEARNT,
    Way("peak_mem_gib_per_gpu", "image_size", (128, 192, 223, 224, 225, 255, 256, 257, 384, 512), 1, cliff=0.15),
    Way("s_per_iter", "image_size", (128, 192, 223, 224, 225, 255, 256, 257, 384, 512), 1, cliff=0.15),
    Way("s_per_iter", "n_gpus", (1, 2, 4, 8, 16, 32), 1),
    Way("images_per_s_total", "n_gpus", (1, 2, 4, 8, 16, 32), 1),
    Way("peak_mem_gib_per_gpu", "precision", ("bf16", "fp32"), 1),
)
TABLES = (
    Way("train_time_s", "rows", (10**4, 10**5 - 1, 10**5, 10**5 + 1, 10**6, 10**7), 1),
    Way("peak_ram_gib", "rows", (10**4, 10**5 - 1, 10**5, 10**5 + 1, 10**6, 10**7), 1),
    Way("peak_ram_gib", "cols", (10, 31, 32, 33, 100, 255, 256, 257, 1000), 1),
    Way("peak_ram_gib", "density", (0.001, 0.01, 0.1, 0.5, 0.9, 1), 1),
    Way("train_time_s", "density", (0.001, 0.01, 0.1, 0.5, 0.9, 1), 1),
    Way("train_time_s", "cores", (1, 2, 4, 8, 16), -1),
)

WORLDS: Mapping[str, tuple[tuple[Way, ...], Mapping[str, Sequence[str]]]] = {
    "training": (
        TRAINED,
        {
            "model": ("meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-3B", "mistralai/Mixtral-8x7B-v0.1", "google/gemma-2-9b"),
            "method": ("full", "lora", "qlora"), "framework": ("", "trl", "torchtune", "deepspeed"), "gpu": ("A100-SXM-80GB", "H100-SXM-80GB"),
            "n_gpus": ("8",), "sharding": ("zero3", "zero2"), "micro_batch": ("1", "4"), "seq_len": ("2048",), "lora_rank": ("16",),
            "offload": ("", "activations"), "mem_kind": ("allocated",), "precision": ("bf16",), "weights_dtype": ("bf16",),
        },
    ),
    "serving": (
        SERVED,
        {
            "model": ("meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-14B", "mistralai/Mixtral-8x7B-v0.1"), "engine": ("vLLM", "SGLang", "TensorRT-LLM"),
            "device": ("H100-SXM-80GB",), "n_devices": ("2",), "tp": ("2",), "weights_dtype": ("bf16",), "input_tokens": ("512", "1024"),
            "output_tokens": ("128", "256"), "batch_or_concurrency": ("4", "16"),
        },
    ),
    "open": (
        OPEN,
        {
            "model": ("meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-14B"), "engine": ("vLLM", "SGLang"), "device": ("H100-SXM-80GB", "A100-SXM-80GB"),
            "weights_dtype": ("bf16",), "input_tokens": ("512", "1024"), "output_tokens": ("128", "256"), "request_rate": ("1", "2"),
            "percentile": ("mean", "p95"),
        },
    ),
    "offline": (
        OFFLINE,
        {
            "model": ("meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-14B"), "engine": ("vLLM", "SGLang", "TensorRT-LLM"), "device": ("H100-SXM-80GB",),
            "weights_dtype": ("bf16",), "input_tokens": ("512", "256"), "output_tokens": ("128", "256"), "request_rate": ("inf",),
            "num_requests": ("1000",),
        },
    ),
    "passes": (
        PASSED,
        {
            "model": ("bert-base-uncased", "bert-large-uncased", "BAAI/bge-large-en-v1.5"), "engine": ("PyTorch", "ONNX Runtime", "TensorRT"),
            "device": ("A100-SXM-80GB",), "batch_or_concurrency": ("8", "32"), "input_tokens": ("128",), "weights_dtype": ("fp16",),
        },
    ),
    "held": (
        HELD,
        {
            "model": ("meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-14B"), "engine": ("transformers",), "device": ("A100-SXM-80GB",),
            "input_tokens": ("1024",), "output_tokens": ("128",), "batch_or_concurrency": ("1", "4"), "weights_dtype": ("bf16",),
        },
    ),
    "drawing": (
        DRAWN,
        {
            "model": ("black-forest-labs/FLUX.1-dev", "stabilityai/stable-diffusion-xl-base-1.0", "THUDM/CogVideoX-2b"), "engine": ("diffusers",),
            "device": ("A100-SXM-80GB",), "batch_or_concurrency": ("1",), "image_size": ("1024",), "denoise_steps": ("28",), "weights_dtype": ("bf16",),
        },
    ),
    "pictures": (
        LEARNT_PICTURES,
        {
            "task": ("classification",), "model": ("resnet50", "vit_base_patch16_224", "swin_base_patch4_window7_224", "efficientnet_b0"),
            "framework": ("", "PyTorch", "timm"), "gpu": ("A100-SXM-80GB", "L40S"), "n_gpus": ("1", "8"), "batch_per_gpu": ("16", "64"),
            "precision": ("bf16", "fp32"), "image_size": ("224",),
        },
    ),
    "adapters of denoisers": (
        LEARNT,
        {
            "task": ("diffusion_finetune",), "model": ("stabilityai/stable-diffusion-xl-base-1.0", "black-forest-labs/FLUX.1-dev", "Sana"),
            "framework": ("PyTorch SimpleTuner", "diffusers"), "gpu": ("A100-SXM-80GB",), "batch_per_gpu": ("4",), "precision": ("bf16",),
            "image_size": ("1024", "512"), "extra_flags": ("lora;base=bf16;rank=16", "lora;base=bf16;rank=64;checkpointing=none"),
        },
    ),
    "tables": (
        TABLES,
        {
            "library": ("xgboost", "lightgbm", "scikit-learn"), "algorithm": ("gbdt", "logistic regression", "random forest"), "rows": ("1000000",),
            "cols": ("100",), "cores": ("16",), "settings": ("", "100 trees depth 8", "max_iter 100"),
        },
    ),
}  # fmt: skip


def _cases(parts: Mapping[str, Sequence[str]], count: int, chance: random.Random) -> list[Row]:
    return [{name: value for name, values in parts.items() if (value := chance.choice(values))} for _ in range(count)]


def _wrong(way: Way, case: Row) -> list[str]:
    """Steps of one column that go the wrong way or too far."""
    rows = [{**case, "metric": way.metric, way.column: str(value)} for value in way.values]
    found = [(value, answer["predicted"]) for value, answer in zip(way.values, predict(rows, is_piece=True), strict=True)]
    wrong = []
    for (before, low), (after, high) in itertools.pairwise(found):
        if not low or not high:
            continue
        step = math.log(high / low)
        back = abs(step) if way.sign == 0 else -step * way.sign
        near = isinstance(before, int) and isinstance(after, int) and before >= 8 and after - before <= 2
        far = near and abs(step) > way.cliff + 2.0 * math.log(after / before)
        if back > way.slack or far:
            wrong.append(f"{way.metric} by {way.column} {before} -> {after}: {low:.4g} -> {high:.4g} in {case}")
    return wrong


@pytest.mark.parametrize("world", WORLDS)
def test_each_column_moves_a_figure_the_way_that_physics_moves_it(world: str) -> None:
    ways, parts = WORLDS[world]
    cases = _cases(parts, 5, random.Random(f"directions {world}"))
    assert [line for way in ways for case in cases for line in _wrong(way, case)] == []


def test_a_short_last_piece_of_a_prompt_costs_what_its_tokens_do() -> None:
    """llama.cpp takes 512 tokens at a time: four prompts of 129 are 512 tokens and four more."""
    case = {
        "metric": "prefill_tok_per_s",
        "model": "Qwen/Qwen3-30B-A3B",
        "engine": "llama.cpp",
        "weights_dtype": "gguf-q8_0",
        "batch_or_concurrency": "4",
    }
    even, more = (
        row["predicted"] for row in predict([case | {"device": "L40S", "input_tokens": length} for length in ("128", "129")], is_piece=True)
    )
    assert even / 1.4 < more < even


@pytest.mark.parametrize("flags", ["tiled-mlp", "tiled_mlp=true"])
def test_a_tiled_feed_forward_block_holds_one_tile(flags: str) -> None:
    case = {
        "metric": "peak_mem_gib_per_gpu",
        "model": "meta-llama/Meta-Llama-3-8B",
        "gpu": "H200-SXM-141GB",
        "method": "full",
        "micro_batch": "1",
    }
    case |= {
        "seq_len": "200000",
        "offload": "optimizer, params, activations",
        "recompute": "full",
        "extra_flags": "chunked-ce",
        "mem_kind": "allocated",
    }
    plain, tiled = (row["predicted"] for row in predict([case, case | {"extra_flags": f"liger chunked-ce, {flags}"}], is_piece=True))
    assert tiled < 0.75 * plain


def test_a_degree_in_the_flags_counts_beside_a_column_of_one() -> None:
    case = {
        "metric": "peak_mem_gib_per_gpu",
        "model": "Qwen/Qwen2.5-3B",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "8",
        "method": "lora",
        "seq_len": "65536",
    }
    told = case | {"extra_flags": "sequence_parallel_size=8"}
    alone, split, beside = (row["predicted"] for row in predict([case, told, told | {"sp": "1", "dp": "8"}], is_piece=True))
    assert split == beside < alone / 3


@pytest.mark.parametrize(("batch", "measured"), [("4", 37.4), ("8", 41.0), ("16", 56.2)])
def test_gathered_layers_put_out_what_they_compute_in(batch: str, measured: float) -> None:
    """Stored in fp32 and sharded, computed in 16 bits: each layer's kept input takes 2 bytes a
    value, 4 on one card."""
    case = {
        "metric": "peak_mem_gib_per_gpu",
        "model": "meta-llama/Meta-Llama-3-8B",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "4",
        "method": "full",
    }
    case |= {
        "framework": "HF Trainer",
        "weights_dtype": "fp32",
        "precision": "bf16",
        "recompute": "full",
        "attention": "flash",
        "mem_kind": "allocated",
    }
    case |= {"seq_len": "4096", "micro_batch": batch, "extra_flags": "liger chunked-ce", "strategy": "fsdp"}
    found = predict([case], is_piece=True)[0]["predicted"]
    assert found == pytest.approx(measured, rel=0.12)
