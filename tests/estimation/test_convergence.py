"""Samples to converge and the time to train that follows."""

from __future__ import annotations

import math

import pytest

from rightfit.estimation.training_setup import samples_to_converge
from rightfit.proof.predict import predict


def test_reference_points_and_between_them() -> None:
    assert samples_to_converge("google-bert/bert-large-uncased", global_batch=448) == pytest.approx(2410630)
    between = samples_to_converge("meta-llama/Llama-2-70b-hf", global_batch=64)
    assert (
        samples_to_converge("meta-llama/Llama-2-70b-hf", global_batch=32)
        < between
        < samples_to_converge("meta-llama/Llama-2-70b-hf", global_batch=128)
    )
    assert math.isnan(samples_to_converge("Qwen/Qwen2.5-7B", global_batch=64))


def test_time_to_train_is_samples_over_rate() -> None:
    job = {
        "model": "meta-llama/Llama-2-70b-hf",
        "gpu": "H100-SXM-80GB",
        "n_gpus": "8",
        "method": "lora",
        "global_batch": "8",
        "seq_len": "8192",
    }
    job |= {"dataset": "MLPerf", "tp": "4", "dp": "2", "micro_batch": "1", "framework": "NeMo"}
    hours, rate = predict([{**job, "metric": "time_to_train_h"}, {**job, "metric": "samples_per_s"}])
    assert hours["predicted"] == pytest.approx(samples_to_converge(job["model"], global_batch=8) / rate["predicted"] / 3600, rel=1e-3)
    assert "reference convergence points" in hours["assumptions"]
