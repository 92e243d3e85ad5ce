"""Orderings that physics does not allow to be other: a card that has more of everything is never
slower, whatever runs on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pytest

from rightfit import facts
from rightfit.estimation.convert import is_consumer
from rightfit.proof.predict import predict

Row = Mapping[str, str]

#: Years by which drivers, hosts and clocks differ: an older generation in a younger card is not
#: asked to be as quick to launch.
GENERATIONS = {"Volta": 0, "Turing": 1, "Ampere": 2, "Ada": 3, "Hopper": 3, "Blackwell": 4}
#: What a card must have as much of: memory, its rate, caches, links, power, and arithmetic.
MORE = (
    "memory_bytes",
    "memory_bandwidth",
    "l2_bytes",
    "nvlink_bandwidth",
    "pcie_generation",
    "tdp_w",
    "fp32_flops",
    "tf32_flops",
    "bf16_flops",
    "fp16_flops",
)
_LARGE = 15e9
#: Products of few tiles leave multiprocessors idle, the more of them a card has; fractions of peaks
#: are by family of chips.
SLACK = 0.10
#: Products in fp32 take the fraction of a peak that was fitted on tensor cores
#: (docs/decisions/refuted-terms.md).
SLACK_FP32 = 0.25


def _number(row: Row, name: str) -> float:
    return float(row[name] or 0.0)


def _cards() -> list[Row]:
    rows = [row for row in facts.table("accelerators") if row["vendor"] == "NVIDIA" and row["architecture"].split()[0] in GENERATIONS]
    return [row for row in rows if _number(row, "memory_bytes") >= _LARGE and _number(row, "fp16_flops") > 0]


def has_more(card: Row, other: Row) -> bool:
    """Whether a card has as much of everything as another one that stands in such a server."""
    in_a_socket = ("sxm", "oam")
    if is_consumer(card["name"]) != is_consumer(other["name"]) or (other["form"] in in_a_socket and card["form"] not in in_a_socket):
        return False
    younger = GENERATIONS[card["architecture"].split()[0]] >= GENERATIONS[other["architecture"].split()[0]]
    return card is not other and younger and all(_number(card, name) >= _number(other, name) for name in MORE)


class Kind(NamedTuple):
    """A kind of work: the columns of its cases but the card's, which `device` names; `sign` 1
    where its metric grows with time."""

    name: str
    cells: Mapping[str, str]
    device: str
    sign: int = 1


def _training() -> Iterator[Kind]:
    usual = {"metric": "step_time_s", "precision": "bf16", "recompute": "full", "attention": ""}
    for model, method, (micro, length), gpus in itertools.product(
        ("Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.1-8B"), ("full", "lora", "qlora"), ((1, 128), (1, 512), (8, 2048)), (1, 8)
    ):
        shape = {"micro_batch": str(micro), "seq_len": str(length), "n_gpus": str(gpus), "strategy": "zero3" if gpus > 1 else ""}
        yield Kind(f"training-{model}-{method}-{micro}x{length}-{gpus}", {**usual, **shape, "model": model, "method": method}, "gpu")


def _serving() -> Iterator[Kind]:
    shapes = (("1", "32", "32"), ("1", "1024", "128"), ("8", "1024", "128"))
    metrics = (("tpot_ms", 1), ("ttft_ms", 1), ("output_tok_per_s_total", -1))
    for engine, (batch, prompt, answer), (metric, sign) in itertools.product(("", "vllm", "transformers", "tensorrt-llm"), shapes, metrics):
        cells = {"model": "Qwen/Qwen2.5-0.5B", "weights_dtype": "bf16", "n_devices": "1", "engine": engine, "metric": metric}
        load = {"batch_or_concurrency": batch, "input_tokens": prompt, "output_tokens": answer}
        yield Kind(f"serving-{engine}-{metric}-{batch}x{prompt}", cells | load, "device", sign)


def _passes() -> Iterator[Kind]:
    models = ("bert-base", "resnet50", "vit-b-16", "yolov8s", "stable-diffusion-xl", "whisper-large-v3")
    for model, batch, precision in itertools.product(models, ("1", "8", "64"), ("fp16", "fp32")):
        cells = {
            "metric": "latency_ms",
            "engine": "pytorch",
            "model": model,
            "weights_dtype": precision,
            "batch_or_concurrency": batch,
            "n_devices": "1",
        }
        yield Kind(f"pass-{model}-{batch}-{precision}", cells, "device")


def _samples() -> Iterator[Kind]:
    models = ("resnet50", "bert-base", "vit-b-16", "stable-diffusion-xl")
    for model, batch, precision in itertools.product(models, ("1", "8", "32"), ("fp16", "fp32")):
        cells = {
            "metric": "samples_per_s_total",
            "task": "",
            "image_size": "",
            "model": model,
            "precision": precision,
            "batch_per_gpu": batch,
            "n_gpus": "1",
        }
        yield Kind(f"samples-{model}-{batch}-{precision}", cells, "gpu", -1)


@pytest.mark.parametrize("kinds", [_training, _serving, _passes, _samples])
def test_a_card_with_more_of_everything_is_never_slower(kinds: Callable[[], Iterator[Kind]]) -> None:
    cards, asked = _cards(), list(kinds())
    answers = iter(predict([{**kind.cells, kind.device: card["name"]} for kind in asked for card in cards], is_piece=True))
    wrong, pairs = [], [(i, j) for i, j in itertools.permutations(range(len(cards)), 2) if has_more(cards[i], cards[j])]
    assert len(pairs) > 200
    for kind in asked:
        values = [next(answers)["predicted"] for _ in cards]
        times = [value**kind.sign if value else 0.0 for value in values]
        slack = SLACK_FP32 if kind.name.endswith("fp32") else SLACK
        found = [(times[i] / times[j], i, j) for i, j in pairs if times[i] > 0 and times[j] > 0]
        assert found, kind.name
        wrong += [
            f"{kind.name}: {cards[i]['name']} {ratio:.2f} times as slow as {cards[j]['name']}"
            for ratio, i, j in found
            if ratio > 1.0 + slack
        ]
    assert not wrong, "\n".join(wrong[:20])


DENSE_AND_EXPERTS = (
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen2.5-14B",
    "Qwen/Qwen3-30B-A3B",
    "mistralai/Mixtral-8x7B-v0.1",
    "openai/gpt-oss-20b",
)


@pytest.mark.parametrize("model", DENSE_AND_EXPERTS)
@pytest.mark.parametrize(("gpu", "gpus"), [("H100-SXM-80GB", 8), ("A100-SXM-80GB", 1), ("H200-SXM-141GB", 1)])
def test_an_adapter_is_never_slower_than_full_training(model: str, gpu: str, gpus: int) -> None:
    """Where the device decides, and recomputation is told or assumed alike; launches of adapters
    may make small models slower."""
    shapes = [(4, 2048), (1, 4096)]
    cases = [
        {"metric": "step_time_s", "model": model, "method": method, "gpu": gpu, "n_gpus": str(gpus), "micro_batch": str(micro), "seq_len": str(length),
         "precision": "bf16", "strategy": "zero3" if gpus > 1 else "", "recompute": recompute}
        for micro, length in shapes for recompute in ("full", "none") for method in ("full", "lora")
    ]  # fmt: skip
    found = [answer["predicted"] for answer in predict(cases)]
    assert all(adapter <= full for full, adapter in zip(found[::2], found[1::2], strict=True)), found


def test_what_does_not_fit_without_recomputation_runs_with_it() -> None:
    """Full training whose recomputation nobody states takes it where the GPU that is named is
    too small without."""
    case = {
        "metric": "step_time_s",
        "model": "Qwen/Qwen2.5-7B",
        "method": "full",
        "n_gpus": "8",
        "strategy": "zero3",
        "precision": "bf16",
        "seq_len": "4096",
    }
    small, large = predict([{**case, "gpu": "A100-SXM-80GB", "micro_batch": micro} for micro in ("16", "1")])
    assert "recompute not stated: full taken" in small["assumptions"]
    assert "recompute not stated: none taken" in large["assumptions"]
    (told,) = predict([{**case, "gpu": "A100-SXM-80GB", "micro_batch": "16", "recompute": "none"}])
    assert told["terms"]["recompute_s"] == 0.0 < small["terms"]["recompute_s"]
