"""The verdict of a memory row follows the probability, and says the threshold; of services too."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from rightfit.estimation.intervals import interval_law
from rightfit.proof.predict import predict

CASE = {
    "model": "meta-llama/Meta-Llama-3-8B",
    "method": "full",
    "n_gpus": "8",
    "strategy": "fsdp",
    "gpu": "H100-SXM-80GB",
    "micro_batch": "1",
}


@pytest.mark.parametrize("seq_len", [1024, 8192, 65536, 262144])
def test_fits_is_the_probability_against_the_threshold_that_is_said(seq_len: int) -> None:
    (answer,) = predict([{**CASE, "seq_len": str(seq_len)}])
    most = interval_law().most_risk("memory")
    assert answer["fits"] == int(1.0 - answer["p_fits"] < most)
    assert f"fits: the risk of running out of memory is below {most:.0%}" in answer["assumptions"]


def test_longer_samples_never_fit_better() -> None:
    answers = predict([{**CASE, "seq_len": str(length)} for length in (1024, 4096, 16384, 65536, 262144)])
    chances = [answer["p_fits"] for answer in answers]
    assert chances == sorted(chances, reverse=True)
    assert answers[0]["fits"] == 1
    assert answers[-1]["fits"] == 0


# ---- Serving: services that started in public and that did not.

STARTS = Path(__file__).resolve().parents[1] / "data" / "serving_starts.csv"
#: What the rows do not tell decides these: releases before chunked prompts, a share above the
#: default, checkpoints that widen what others quantise, layouts that a source does not state.
UNDECIDED = {"to-0002", "to-0003", "to-0007", "to-0008", "to-0013", "to-0018"}
SERVICE = {
    "metric": "peak_mem_gib",
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "engine": "vLLM",
    "device": "A100-SXM-80GB",
    "n_devices": "1",
    "input_tokens": "1024",
    "output_tokens": "128",
}


def starts() -> list[dict[str, str]]:
    with STARTS.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("row", starts(), ids=lambda row: row["id"])
def test_public_starts_and_failures_of_services(row: dict[str, str]) -> None:
    (answer,) = predict([{name: cell for name, cell in row.items() if name not in ("is_oom", "measured")}])
    assert answer["fits"] in (0, 1)
    if row["id"] not in UNDECIDED:
        assert answer["fits"] == 1 - int(row["is_oom"])


@pytest.mark.parametrize("engine", ["vLLM", "SGLang", "TensorRT-LLM", "TGI", "LMDeploy", "transformers", "llama.cpp", ""])
@pytest.mark.parametrize("device", ["T4", "L4", "A100-SXM-80GB", "MI300X", "RTX-4090"])
def test_every_memory_row_of_a_service_says_whether_it_fits(engine: str, device: str) -> None:
    (answer,) = predict([SERVICE | {"engine": engine, "device": device}])
    assert answer["fits"] == int(device != "T4")
    assert 0 <= answer["p_fits"] <= 1


@pytest.mark.parametrize("model", ["bert-base-uncased", "black-forest-labs/FLUX.1-dev", "openai/whisper-large-v3", "timm/resnet50"])
def test_memory_rows_of_one_forward_pass_say_it_too(model: str) -> None:
    small, large = predict([{"metric": "peak_mem_gib", "model": model, "device": device} for device in ("T4", "H100-SXM-80GB")])
    assert (small["fits"], large["fits"]) == (int("FLUX" not in model), 1)


def test_a_device_that_nobody_named_is_not_judged() -> None:
    (answer,) = predict([{name: cell for name, cell in SERVICE.items() if name != "device"}])
    assert answer["fits"] is None


@pytest.mark.parametrize(
    ("engine", "flags"),
    [("vLLM", "--gpu-memory-utilization 0.5"), ("SGLang", "mem_fraction_static=0.5"), ("vLLM", "gpu_memory_utilization=0.5")],
)
def test_the_share_of_the_memory_is_an_input(engine: str, flags: str) -> None:
    told, column, usual = predict(
        [SERVICE | {"engine": engine, "device": "A10G", **more} for more in ({"flags": flags}, {"gpu_memory_utilization": "0.5"}, {})]
    )
    assert (told["fits"], column["fits"], usual["fits"]) == (0, 0, 1)
    assert told["p_fits"] == column["p_fits"]
    assert "not understood" not in told["assumptions"]


def test_a_longer_request_never_starts_better() -> None:
    answers = predict([SERVICE | {"device": "L4", "cache_tokens": str(tokens)} for tokens in (1024, 8192, 32768, 131072)])
    chances = [answer["p_fits"] for answer in answers]
    assert chances == sorted(chances, reverse=True)
    assert (answers[0]["fits"], answers[-1]["fits"]) == (1, 0)
