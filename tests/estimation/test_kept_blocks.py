"""What the backward pass keeps of a block, against counts by hand and against measured runs."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

import rightfit
from rightfit.estimation.pass_records import NetworkInput
from rightfit.estimation.sample_training import PRECISIONS, TrainSetup, train_devices, training_memory, work_columns
from rightfit.estimation.sample_work import train_work

_OWN = Path(__file__).resolve().parents[2] / "validation" / "own_h100" / "vision_train.csv"
#: Name, patches, width and blocks (arXiv 2010.11929, table 1; arXiv 2304.07193).
_PLAIN = [
    ("timm/vit_base_patch16_224", (224 / 16) ** 2 + 1, 768, 12),
    ("timm/vit_large_patch16_224", (224 / 16) ** 2 + 1, 1024, 24),
    ("timm/deit_base_patch16_224", (224 / 16) ** 2 + 1, 768, 12),
    ("timm/vit_large_patch14_clip_224", (224 / 14) ** 2 + 1, 1024, 24),
]


def _kept_bytes(name: str, precision: str) -> float:
    """Bytes that one sample adds to the peak."""
    work = work_columns([train_work(NetworkInput(name))])
    devices = train_devices(["H100-SXM-80GB"])
    pure = 1.0 if precision == "bf16" else 0.0

    def terms(batch: float) -> float:
        setup = TrainSetup.of(batch=[batch], precision=[PRECISIONS.index(precision)], pure=[pure])
        return float(training_memory(work, setup, devices)[0]["activations"][0])

    return (terms(64.0) - terms(32.0)) / 32.0


@pytest.mark.parametrize(("name", "tokens", "width", "blocks"), _PLAIN)
@pytest.mark.parametrize(("precision", "each"), [("fp32", 64.0), ("amp", 36.0), ("bf16", 32.0)])
def test_a_plain_transformer_keeps_sixteen_widths_a_token(
    name: str, tokens: float, width: int, blocks: int, precision: str, each: float
) -> None:
    assert _kept_bytes(name, precision) == pytest.approx(tokens * width * blocks * each, rel=0.08)


@pytest.mark.parametrize("name", ["resnet50", "timm/resnext50_32x4d", "timm/efficientnet_b0"])
def test_convolutions_keep_half_as_much_under_autocast(name: str) -> None:
    assert _kept_bytes(name, "amp") == pytest.approx(0.5 * _kept_bytes(name, "fp32"), rel=0.01)


def _measured(holds: Callable[[dict[str, str]], bool]) -> list[float]:
    """Predicted over measured of the rows that hold."""
    with _OWN.open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "peak_mem_gib_per_gpu" and holds(row)]
    hidden = ("measured", "notes", "source", "source_where")
    answers = rightfit.predict([{name: cell for name, cell in row.items() if name not in hidden} for row in rows])
    return [float(answer["predicted"]) / float(row["measured"]) for row, answer in zip(rows, answers, strict=True)]


@pytest.mark.parametrize("family", ["vit_", "swin_", "convnext", "resnet", "efficientnet"])
def test_measured_peaks_of_large_batches_are_met(family: str) -> None:
    ratios = _measured(lambda row: row["model"].startswith(family) and float(row["batch_per_gpu"]) >= 128)
    assert ratios
    assert 0.85 <= median(ratios) <= 1.2
    assert max(ratios) < 1.25


@pytest.mark.parametrize(("told", "params"), [("FLUX.2-klein-base-4B", ""), ("FLUX.2-other", "4e9"), ("Wan2.9-30B", "")])
def test_a_denoiser_of_another_size_is_scaled_and_said(told: str, params: str) -> None:
    row = {"metric": "peak_mem_gib_per_gpu", "task": "diffusion_finetune", "model": told, "params": params, "precision": "bf16"}
    row |= {"extra_flags": "lora rank 32;gradient_checkpointing", "image_size": "512", "batch_per_gpu": "1", "gpu": "H100-80GB"}
    (answer,) = rightfit.predict([row])
    size = 4.0 if "4" in told + params else 30.0
    weights_gib = size * 1e9 * 2 / 2**30
    assert weights_gib < float(answer["predicted"]) < 2.0 * weights_gib + 4.0
    assert f"scaled to {size:g}B parameters" in answer["assumptions"]
