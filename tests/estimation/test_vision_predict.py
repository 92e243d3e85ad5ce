"""Predictions for rows of training that is not of language models."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from rightfit.estimation.sample_figures import parent_of, sample_interval_group, vision_interval
from rightfit.proof.predict import predict

TRUTH = Path(__file__).parents[2] / "validation/truth"


def rows_of(table: str) -> list[dict[str, str]]:
    with gzip.open(TRUTH / f"{table}.csv.gz", "rt", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_every_row_is_answered_or_refused_with_a_reason() -> None:
    rows = rows_of("vision_train")[::7]
    answers = predict(rows)
    assert all((answer["predicted"] is None) == bool(answer["error"]) for answer in answers)
    assert np.mean([answer["predicted"] is not None for answer in answers]) > 0.94
    assert not any("cannot be computed" in answer["error"] for answer in answers)


def test_intervals_hold_the_figure_and_nest() -> None:
    for answer in predict(rows_of("vision_train")[::41]):
        if answer["predicted"] is not None:
            assert answer["low95"] <= answer["low80"] <= answer["high80"] <= answer["high95"]
            assert answer["low95"] < answer["predicted"] < answer["high95"]


def test_detection_memory_is_near_what_was_published() -> None:
    rows = [row for row in rows_of("vision_train") if row["metric"] == "peak_mem_gib_per_gpu" and "mmdetection" in row["source"]]
    pairs = [(answer["predicted"], float(row["measured"])) for answer, row in zip(predict(rows), rows, strict=True) if answer["predicted"]]
    assert len(pairs) > 340
    assert np.median([abs(predicted / measured - 1) for predicted, measured in pairs]) < 0.15


def test_published_statements_get_a_verdict() -> None:
    answers = predict(rows_of("vision_oom"))
    verdicts = [answer["fits"] for answer in answers if not answer["error"]]
    assert len(verdicts) > 60
    assert {0, 1} == set(verdicts)


def test_terms_are_shares() -> None:
    rows = [row for row in rows_of("vision_train") if row["model"] == "resnet50v1.5"][:5]
    for answer in predict(rows):
        if answer["predicted"] is not None:
            assert sum(answer["terms"].values()) == pytest.approx(1.0)


def test_unknown_inputs_are_named_and_widen() -> None:
    row = {"metric": "images_per_s_total", "task": "classification", "model": "resnet50", "gpu": "A100-SXM4-80GB", "image_size": "224"}
    known = {"batch_per_gpu": "128", "precision": "amp", "n_gpus": "1", "framework": "PyTorch"}
    vague, exact = predict([row, row | known])
    assert "batch not stated" in vague["assumptions"]
    assert vague["high80"] / vague["low80"] > exact["high80"] / exact["low80"]


def test_a_guessed_counter_widens_memory_and_the_card_does_not() -> None:
    row = {"metric": "peak_mem_gib_per_gpu", "task": "detection", "model": "faster_rcnn_r50_fpn_1x_coco", "image_size": "1333x800"}
    row |= {"batch_per_gpu": "2", "precision": "fp32", "n_gpus": "8", "framework": "PyTorch"}
    guessed, stated, carded = predict([row, row | {"extra_flags": "nvidia-smi"}, row | {"extra_flags": "nvidia-smi", "gpu": "V100"}])
    width = [np.log(answer["high80"] / answer["low80"]) for answer in (guessed, stated, carded)]
    assert width[0] > 1.15 * width[1]
    assert "taken as" in carded["assumptions"]
    assert width[2] == pytest.approx(width[1], rel=1e-3)


def test_groups() -> None:
    assert sample_interval_group("peak_mem_gib_per_gpu", "detection") == "memory-images"
    assert sample_interval_group("fits", "classification") == "memory-images"
    assert sample_interval_group("peak_mem_gib_per_gpu", "diffusion") == "memory-diffusion"
    assert sample_interval_group("images_per_s_total", "gan") == "time-diffusion"
    assert sample_interval_group("images_per_s_total", "classification") == "time-vision"
    assert sample_interval_group("time_to_train_min", "speech") == "run-speech"
    assert parent_of("memory-other") == "memory"
    assert parent_of("run-other") == "time"


def test_a_stranger_takes_the_parent() -> None:
    figures = vision_interval("images_per_s_total", np.array([100.0]), modality="never heard of", doubts=np.zeros(1))
    assert figures.low95[0] <= figures.low80[0] < 100 < figures.high80[0] <= figures.high95[0]


@pytest.mark.parametrize("junk", ["nan", "-1", "1e400", "x" * 3000, "=1+1", "0"])
def test_junk_cells_never_raise(junk: str) -> None:
    row = rows_of("vision_train")[100]
    for name in ("batch_per_gpu", "n_gpus", "image_size", "gpu", "precision", "extra_flags", "notes", "framework", "model"):
        (answer,) = predict([row | {name: junk}])
        assert (answer["predicted"] is None) == bool(answer["error"])
