"""What is told of a case counts: each listed column, varied alone over usual cases, moves a figure
or is named in its assumptions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rightfit.proof.case_columns import TABLES, CaseColumn, case_columns
from rightfit.proof.predict import predict

Row = dict[str, str]
LLAMA, A100, H100 = "meta-llama/Meta-Llama-3-8B", "A100-SXM-80GB", "H100-SXM-80GB"
_TUNED = {"model": LLAMA, "gpu": A100, "micro_batch": "2", "seq_len": "2048"}
_SERVED = {"model": LLAMA, "weights_dtype": "bf16", "device": A100, "input_tokens": "1000", "output_tokens": "500"}
_SPREAD = {"dp": "1", "tp": "2", "pp": "2", "ep": "4", "grad_accum": "8", "framework": "megatron"}
_GIVEN = {"n_layers": "24", "hidden": "1024", "heads": "16", "vocab": "50257", "gpu": A100, "micro_batch": "4", "seq_len": "1024"}

#: Usual cases by kind of table.
CASES: Mapping[str, tuple[Row, ...]] = {
    "training": (
        _TUNED | {"metric": "step_time_s", "method": "lora", "n_gpus": "16", "framework": "peft", "grad_accum": "2"},
        _TUNED | {"metric": "peak_mem_gib_per_gpu", "method": "full", "n_gpus": "8", "framework": "deepspeed", "strategy": "zero3"},
        _TUNED | {"metric": "step_time_s", "model": "mistralai/Mixtral-8x7B-v0.1", "n_gpus": "64", **_SPREAD},
        _TUNED | {"metric": "time_to_train_h", "method": "lora", "n_gpus": "8", "samples": "50000", "epochs": "1"},
        _GIVEN | {"metric": "peak_mem_gib_per_gpu", "kv_heads": "16", "ffn": "4096"},
        _GIVEN | {"metric": "peak_mem_gib_per_gpu", "n_experts": "16", "topk": "2", "moe_ffn": "1024", "params": "3e9"},
    ),
    "inference": (
        _SERVED | {"metric": "output_tok_per_s_total", "engine": "vLLM", "n_devices": "4", "tp": "4", "device": "A100-PCIe-80GB"},
        _SERVED | {"metric": "ttft_ms", "engine": "SGLang", "n_devices": "16", "request_rate": "2", "model": "deepseek-ai/DeepSeek-V3"},
        _SERVED | {"metric": "output_tok_per_s_total", "engine": "vLLM", "request_rate": "inf", "num_requests": "1000"},
        _SERVED | {"metric": "peak_mem_gib", "engine": "transformers", "batch_or_concurrency": "4"},
        _SERVED | {"metric": "peak_mem_gib", "engine": "vLLM", "device": "A10G"},
        {
            "metric": "latency_ms",
            "model": "Wan2.1-T2V-1.3B",
            "device": A100,
            "image_size": "480x832",
            "frames": "81",
            "denoise_steps": "50",
        },
        {"metric": "latency_ms", "model": "bert-base-uncased", "engine": "PyTorch", "device": A100, "input_tokens": "128"},
        {"metric": "latency_ms", "model": "openai/whisper-large-v3", "engine": "PyTorch", "device": A100, "audio_s": "60"},
        {
            "metric": "images_per_s",
            "model": "nobody/net",
            "params_b": "0.05",
            "gmacs": "5",
            "device": "Xeon Platinum 8480",
            "image_size": "224",
        },
    ),
    "samples": (
        {
            "metric": "images_per_s_total",
            "task": "classification",
            "model": "resnet50",
            "gpu": A100,
            "n_gpus": "8",
            "batch_per_gpu": "128",
            "image_size": "224",
        },
        {
            "metric": "peak_mem_gib_per_gpu",
            "task": "detection",
            "model": "faster_rcnn_r50_fpn",
            "gpu": "V100-SXM-32GB",
            "batch_per_gpu": "2",
            "image_size": "800x1333",
        },
        {"metric": "s_per_iter", "model": "flux", "framework": "SimpleTuner", "gpu": H100, "batch_per_gpu": "1", "image_size": "1024"},
        {
            "metric": "time_to_train_min",
            "model": "resnet50",
            "gpu": A100,
            "n_gpus": "8",
            "batch_per_gpu": "128",
            "image_size": "224",
            "dataset": "imagenet",
        },
    ),
    "classical": (
        {"metric": "train_time_s", "library": "xgboost", "algorithm": "gbdt", "rows": "1000000", "cols": "30", "cores": "16"},
        {"metric": "peak_ram_gib", "library": "xgboost", "algorithm": "gbdt", "rows": "1000000", "cols": "300", "cores": "16"},
        {"metric": "train_time_s", "library": "scikit-learn", "algorithm": "logistic regression", "rows": "100000", "cols": "1000"},
    ),
    "loading": (
        {"metric": "images_per_s", "what": "decode", "loader": "torchvision DataLoader", "hardware": "16 vCPU Xeon", "cpu_cores": "16"},
    ),
}
#: Values of columns whose unit does not tell any.
VALUES: Mapping[str, tuple[str, ...]] = {
    "model": ("meta-llama/Llama-3.2-1B", "bert-large-uncased"),
    "gpu": ("V100-SXM-32GB",),
    "device": ("V100-SXM-32GB", "L4"),
    "framework": ("torchtune", "mmdetection", "someones own trainer"),
    "engine": ("SGLang", "TensorRT", "transformers"),
    "library": ("lightgbm",),
    "loader": ("DALI",),
    "engine_version": ("0.5.0",),
    "release": ("5.0",),
    "date": ("2022-01",),
    "interconnect": ("ethernet", "pcie", "no p2p"),
    "parallel": ("tp4",),
    "weights_dtype": ("int8", "nf4"),
    "compute_dtype": ("fp32",),
    "precision": ("fp32",),
    "kv_dtype": ("fp8",),
    "dataset": ("sharegpt",),
    "flags": ("enforce_eager", "torch.compile"),
    "extra_flags": ("gradient_checkpointing", "liger"),
    "optimizer": ("sgd",),
    "lora_targets": ("all",),
    "offload": ("optimizer", "cpu"),
    "host": ("virtual",),
    "percentile": ("p99",),
    "batch_or_concurrency": ("64",),
    "request_rate": ("4",),
    "image_size": ("512",),
    "settings": ("1000 trees depth 10",),
    "algorithm": ("random forest",),
    "hardware": ("c5.9xlarge",),
    "variant": ("exact",),
    "density": ("0.01",),
    "draft": ("eagle",),
    "gpu_memory_utilization": ("0.5",),
    "what": ("resize",),
    "sample_kind": ("jpeg 1000x750",),
    "task": ("detection",),
}
FIGURES = ("predicted", "low80", "high80", "fits", "p_fits", "error")
NUMBERS = ("2", "7")


def values_of(column: CaseColumn) -> tuple[str, ...]:
    if column.column in VALUES:
        return VALUES[column.column]
    words = tuple(column.allowed.split("|")) if column.unit in ("word", "words", "flag", "count or word") and column.allowed else ()
    return words or NUMBERS


@pytest.mark.parametrize("table", TABLES)
def test_each_listed_column_moves_a_figure_or_is_named(table: str) -> None:
    asked = [column for column in case_columns(table) if column.column not in ("id", "metric")]
    tried = [(column.column, at, value) for column in asked for at in range(len(CASES[table])) for value in values_of(column)]
    usual = predict(CASES[table])
    varied = predict([CASES[table][at] | {name: value} for name, at, value in tried])
    heard = {
        name
        for (name, at, _), after in zip(tried, varied, strict=True)
        if name in after["assumptions"] or any(usual[at][figure] != after[figure] for figure in FIGURES)
    }
    assert [column.column for column in asked if column.column not in heard] == []


SHARDED = _TUNED | {"metric": "step_time_s", "n_gpus": "8", "framework": "deepspeed", "strategy": "zero3", "recompute": "full"}


def test_links_that_are_told_slow_a_job() -> None:
    usual, pcie, host = predict([SHARDED | {"interconnect": words} for words in ("nvswitch", "pcie", "pcie, no p2p")])
    assert usual["predicted"] < pcie["predicted"] < host["predicted"]
    fabric, plain = predict([SHARDED | {"n_gpus": "32", "interconnect": words} for words in ("infiniband", "ethernet")])
    assert fabric["predicted"] < plain["predicted"]


def test_servers_that_are_told_decide_which_cards_are_linked() -> None:
    one, four = predict([SHARDED | {"n_gpus": "8", "interconnect": "ethernet", "nodes": nodes} for nodes in ("1", "4")])
    assert four["predicted"] > 1.5 * one["predicted"]


@pytest.mark.parametrize(("words", "stage"), [("zero1", "1"), ("zero2", "2"), ("zero3", "3"), ("fsdp", "3")])
def test_sharding_by_word_is_that_by_number(words: str, stage: str) -> None:
    row = {name: cell for name, cell in SHARDED.items() if name != "strategy"} | {"metric": "peak_mem_gib_per_gpu"}
    by_word, by_number = predict([row | {"sharding": words}, row | {"zero": stage}])
    assert by_word["predicted"] == by_number["predicted"]


@pytest.mark.parametrize("framework", ["someones own trainer", "our loop", "a trainer of ours"])
def test_a_framework_that_nobody_knows_is_named_and_as_wide_as_none(framework: str) -> None:
    row = _TUNED | {"metric": "peak_mem_gib_per_gpu", "method": "lora"}
    unknown, none, known = predict([row | {"framework": name} for name in (framework, "", "torchtune")])
    assert f"framework {framework!r} is not known" in unknown["assumptions"]
    assert unknown["high80"] / unknown["predicted"] == pytest.approx(none["high80"] / none["predicted"])
    assert unknown["high80"] / unknown["predicted"] > known["high80"] / known["predicted"]


@pytest.mark.parametrize("metric", ["peak_ram_gib", "train_time_s"])
@pytest.mark.parametrize("settings", ["density=0.0001", "sparsity 99.99%", "sparse, filled 0.0001"])
def test_a_share_of_filled_cells_counts_wherever_it_stands(metric: str, settings: str) -> None:
    table = {"metric": metric, "library": "scikit-learn", "algorithm": "logistic regression", "rows": "1000000", "cols": "100000"}
    column, told, dense = predict([table | {"density": "0.0001"}, table | {"settings": settings}, table])
    assert told["predicted"] == column["predicted"] < dense["predicted"] / 10


def test_a_tree_method_that_is_told_decides_over_date_and_version() -> None:
    forest = {"metric": "train_time_s", "library": "xgboost", "algorithm": "gbdt", "rows": "1000000", "cols": "30"}
    old, told, now = predict([forest | more for more in ({"date": "2016-01"}, {"date": "2016-01", "settings": "tree_method=hist"}, {})])
    assert told["predicted"] < 0.95 * old["predicted"]
    assert now["predicted"] < old["predicted"] / 2
