"""Nothing is dropped in silence: every default and every word that was not understood is said, and
words count only where they stand for themselves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rightfit.proof.case_columns import TABLES, case_columns, visible, without_comparison
from rightfit.proof.predict import predict
from rightfit.proof.remarks import not_understood, unknown_words
from rightfit.proof.tables import read_table

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
MEASURED_TABLES = [name for names in TABLES.values() for name in names]
TRAINING = {
    "metric": "peak_mem_gib_per_gpu", "model": "meta-llama/Meta-Llama-3-8B", "method": "full", "gpu": "H100-SXM-80GB", "n_gpus": "8", "strategy": "zero3",
    "micro_batch": "1", "seq_len": "4096", "precision": "bf16", "framework": "PyTorch FSDP",
}  # fmt: skip
SERVING = {
    "metric": "tpot_ms",
    "model": "meta-llama/Meta-Llama-3-8B",
    "engine": "vLLM",
    "device": "H100-SXM-80GB",
    "n_devices": "2",
    "input_tokens": "512",
}
SAMPLES = {
    "metric": "images_per_s_total",
    "model": "resnet50",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "framework": "PyTorch",
    "image_size": "224",
}
TABULAR = {
    "metric": "train_time_s",
    "library": "xgboost",
    "algorithm": "gradient boosting",
    "rows": "1e6",
    "cols": "50",
    "settings": "",
    "hardware": "8 vCPU",
}
LOADING = {"metric": "images_per_s", "what": "decode", "loader": "torchvision", "hardware": "", "cpu_cores": "", "sample_kind": ""}
CASES = {"training": TRAINING, "inference": SERVING, "samples": SAMPLES, "classical": TABULAR, "loading": LOADING}
FREE_TEXT = {"training": "extra_flags", "inference": "flags", "samples": "extra_flags", "classical": "settings"}


def one(**cells: str) -> dict[str, object]:
    return predict([{"id": "a", **cells}])[0]


@pytest.mark.parametrize("table", MEASURED_TABLES)
def test_every_predicted_case_says_what_was_assumed_of_an_empty_column(table: str) -> None:
    """Each cell of a case that is emptied changes nothing in silence: a figure that moves has more
    assumptions than before."""
    chance = random.Random(table)
    rows = [visible(row, next(kind for kind, names in TABLES.items() if table in names)) for row in read_table(VALIDATION / "truth", table)]
    rows = chance.sample(rows, min(60, len(rows)))
    pairs = [
        (row, column) for row in rows for column in row if row[column] and column not in ("id", "metric", "date", "gpu", "device", "model")
    ]
    pairs = chance.sample(pairs, min(250, len(pairs)))
    before, after = predict([row for row, _ in pairs]), predict([row | {column: ""} for row, column in pairs])
    silent = [
        (column, old["predicted"], new["predicted"], new["assumptions"])
        for (_, column), old, new in zip(pairs, before, after, strict=True)
        if new["predicted"]
        and old["predicted"]
        and abs(new["predicted"] / old["predicted"] - 1) > 0.02
        and new["assumptions"] == old["assumptions"]
    ]
    assert len(silent) <= 0.02 * len(pairs), silent[:12]


@pytest.mark.parametrize("kind", FREE_TEXT)
def test_words_that_nobody_knows_are_said(kind: str) -> None:
    column = FREE_TEXT[kind]
    answer = (
        one(**CASES[kind], **{column: "frobnicate=3; zorblax"})
        if column not in CASES[kind]
        else one(**CASES[kind] | {column: "frobnicate=3; zorblax"})
    )
    assert "frobnicate=3, zorblax" in str(answer["assumptions"])


@pytest.mark.parametrize("kind", CASES)
def test_a_word_that_a_column_does_not_allow_is_said(kind: str) -> None:
    """Each column of one word, of every table."""
    for column in case_columns(kind):
        if column.unit != "word" or not column.allowed or column.column in ("metric", "kind", "mlp", "unit", "task"):
            continue
        answer = one(**CASES[kind] | {column.column: "zorblax"})
        said = f"{answer['assumptions']} {answer['error']}"
        assert "zorblax" in said or column.column in said, (column, answer)


def test_default_columns_come_with_their_values() -> None:
    said = str(one(**SERVING)["assumptions"])
    for words in ("tp not stated: 2 taken", "kv_dtype not stated: 2 bytes", "arrival not stated: static", "output length not stated: 128"):
        assert words in said, said
    said = str(one(**TRAINING)["assumptions"])
    for words in (
        "attention not stated: sdpa taken",
        "recompute not stated:",
        "held by the conventions of the stack, bytes each: weights",
        "mem_kind not stated",
    ):
        assert words.replace("mem_kind", "kind of memory figure") in said, said


@pytest.mark.parametrize(
    ("flags", "same"),
    [("float8nocompile", ""), ("no-compile", ""), ("compile=False", ""), ("torch.compile", "compile"), ("torch_compile=1", "compile")],
)
def test_compiled_only_where_it_is_said(flags: str, same: str) -> None:
    timed = TRAINING | {"metric": "tokens_per_s_per_gpu", "framework": "HF Trainer"}
    figures = [one(**timed, extra_flags=text)["predicted"] for text in (flags, same)]
    assert figures[0] == figures[1]
    assert one(**timed, extra_flags="compile")["predicted"] != one(**timed)["predicted"]
    pictures = SAMPLES | {"precision": "amp"}
    assert one(**pictures, extra_flags=flags)["predicted"] == one(**pictures, extra_flags=same)["predicted"]


def test_precomputed_latents_are_no_recomputation() -> None:
    denoiser = SAMPLES | {
        "metric": "peak_mem_gib_per_gpu",
        "model": "SDXL",
        "task": "diffusion finetune",
        "image_size": "1024x1024",
        "batch_per_gpu": "4",
    }
    cached, plain = (
        one(**denoiser, extra_flags=text)["predicted"] for text in ("precomputed latents;opt=adamw", "cached latents;opt=adamw")
    )
    assert cached == plain
    assert one(**denoiser, extra_flags="cached latents;opt=adamw;recompute")["predicted"] < plain  # type: ignore[operator]


@pytest.mark.parametrize("words", ["adamw-8bit", "adamw 8bit", "8-bit adam", "opt=adamw-8bit", "optimizer: adamw (8-bit)", "adamw_8bit"])
def test_eight_bit_optimizers(words: str) -> None:
    denoiser = SAMPLES | {
        "metric": "peak_mem_gib_per_gpu",
        "model": "SDXL",
        "task": "diffusion finetune",
        "image_size": "1024x1024",
        "batch_per_gpu": "4",
    }
    assert one(**denoiser, extra_flags=words)["predicted"] == one(**denoiser, extra_flags="opt=adamw_8bit")["predicted"]
    assert one(**denoiser, extra_flags=words)["predicted"] < one(**denoiser, extra_flags="opt=adamw")["predicted"]  # type: ignore[operator]


def test_optimizer_offload_is_not_weight_offload() -> None:
    one_card = TRAINING | {"strategy": "single", "n_gpus": "1"}
    none, states, weights, both, everything = (
        one(**one_card, offload=text)["predicted"]
        for text in ("", "optimizer", "params", "optimizer,params", "optimizer-cpu+params-cpu+activations-cpu")
    )
    assert none > states > both > everything  # type: ignore[operator]
    assert none > weights > both  # type: ignore[operator]
    assert one(**one_card, extra_flags="offload-opt-m,offload-opt-v")["predicted"] == states
    frozen = TRAINING | {"method": "lora"}
    assert one(**frozen, offload="optimizer")["predicted"] > one(**frozen, offload="params")["predicted"]  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    [
        "HF Trainer (compared with torchtune)",
        "HF Trainer vs torchtune",
        "HF Trainer, faster than torchtune",
        "HF Trainer instead of torchtune",
    ],
)
def test_a_comparison_names_nothing_that_ran(text: str) -> None:
    assert without_comparison(text)[0] == "HF Trainer"
    answer, plain = one(**TRAINING | {"framework": text}), one(**TRAINING | {"framework": "HF Trainer"})
    assert answer["predicted"] == plain["predicted"]
    assert "torchtune" in str(answer["assumptions"])


def test_known_words_are_not_called_unknown() -> None:
    assert unknown_words("training", "packing,compile,chunked-ce,optimizer-in-bwd") == ()
    assert unknown_words("samples", "lora;rank=64;checkpointing=layer;opt=adamw_bf16") == ()
    assert unknown_words("inference", "torch.compile; channels_last") == ()
    assert unknown_words("classical", "500 trees, depth 8, 64 leaves") == ()
    assert not not_understood("training", {"precision": "bf16", "optimizer": "adamw", "attention": "flash", "offload": "cpu"})


@pytest.mark.parametrize("metric", ["latency_ms", "req_per_s", "peak_mem_gib"])
def test_a_language_model_of_unknown_name_is_not_one_forward_pass(metric: str) -> None:
    case = {
        "metric": metric,
        "params_b": "70",
        "engine": "vLLM (ROCm)",
        "device": "MI300X",
        "n_devices": "8",
        "tp": "8",
        "input_tokens": "2048",
        "output_tokens": "2048",
    }
    strange, plain = one(**case, model="Zorblax-70B-Instruct"), one(**case, model="meta-llama/Llama-3.1-70B")
    assert 0.7 < strange["predicted"] / plain["predicted"] < 1.4  # type: ignore[operator]


@pytest.mark.parametrize("engine", ["xDiT", "diffusers"])
def test_an_unknown_denoiser_is_refused(engine: str) -> None:
    case = {"metric": "latency_ms", "model": "Zorblax-T2V", "engine": engine, "device": "H20", "batch_or_concurrency": "1"}
    assert "is a denoiser that is not known" in str(one(**case)["error"])
    assert "the nearest relative" in str(one(**case, params_b="30")["assumptions"])


@pytest.mark.parametrize(
    ("case", "more", "reason"),
    [
        (SAMPLES | {"metric": "time_to_train_min", "epochs": "90"}, {"dataset": "zorblax"}, "how much data"),
        (SAMPLES | {"metric": "time_to_train_min", "task": "classification"}, {"task": "classification finetune"}, "how much data"),
        (TABULAR, {"density": "sparse"}, "how many cells of the sparse table are filled"),
        (TABULAR | {"metric": "peak_ram_gib"}, {"nodes": "10"}, "how a cluster divides"),
        (LOADING | {"cpu_cores": "8"}, {"cpu_cores": ""}, "how many cores load"),
    ],
)
def test_total_ignorance_is_refused(case: dict[str, str], more: dict[str, str], reason: str) -> None:
    assert reason in str(one(**case | more)["error"])
    assert reason not in str(one(**case)["error"])


def test_sparse_tables_are_told_by_their_share() -> None:
    wide = TABULAR | {"cols": "5000", "library": "liblinear", "algorithm": "logistic regression"}
    dense, sparse = one(**wide), one(**wide, density="0.01")
    assert sparse["predicted"] < 0.5 * dense["predicted"]  # type: ignore[operator]
