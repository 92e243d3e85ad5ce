"""Samples of whole runs."""

from __future__ import annotations

import math

import pytest

from rightfit.estimation.pass_records import NetworkInput
from rightfit.estimation.sample_work import train_work
from rightfit.proof.cases.samples import audio_seconds, benchmark_samples, epoch_samples, run_samples, usual_batch

RESNET = train_work(NetworkInput("resnet50", task="classification", height=224))


def samples(flags: str, *, model: str = "resnet50", batch: float = 256, dataset: str = "") -> float:
    return run_samples({"extra_flags": flags, "model": model, "dataset": dataset}, RESNET, global_batch=batch)


def test_epochs_of_a_data_set() -> None:
    assert samples("epochs=16") == 16 * 1281167
    assert samples("dataset=LibriSpeech clean-100;epochs=2") == 2 * 28539


def test_steps() -> None:
    assert samples("dataset=CommonVoice11 hi;steps=5000", batch=16) == 80000


def test_the_usual_run_of_the_model() -> None:
    assert samples("dali") == 90 * 1281167


def test_reference_points_of_the_benchmark() -> None:
    assert benchmark_samples("resnet50", global_batch=3264) == pytest.approx(45097078)
    between = benchmark_samples("resnet50", global_batch=10000)
    assert 53.8e6 < between < 58.2e6
    assert samples("", dataset="MLPerf", batch=3264) == pytest.approx(45097078)
    assert math.isnan(benchmark_samples("alexnet", global_batch=256))


def test_data_sets() -> None:
    assert epoch_samples("ImageNet-21k") == 14197122
    assert epoch_samples("nothing known") == 0
    assert audio_seconds("SUPERB KS") == 1.0


def test_stylegan_shares_its_batch() -> None:
    work = train_work(NetworkInput("stylegan2-ada", task="gan", height=1024))
    # max(min(gpus x min(4096 / 1024, 32), 64), gpus) / gpus
    assert usual_batch(work, {"image_size": "1024"}, 8) == 4
    assert usual_batch(work, {"image_size": "128"}, 8) == 8
