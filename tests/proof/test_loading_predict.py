"""Rows of the table of measured loaders: read from words, predicted, refused."""

from __future__ import annotations

import csv
import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rightfit import facts
from rightfit.estimation.loading import bytes_per_pixel, image_core_s, sample_load
from rightfit.facts.tables import constants
from rightfit.proof.cases.forward import loader_named, photograph_pixels, read_loading_case
from rightfit.proof.predict import predict

TRUTH = Path(__file__).parents[2] / "validation" / "truth" / "data_loading.csv.gz"


def one(**cells: str) -> dict[str, Any]:
    row = {"id": "a", "metric": "images_per_s", "what": "", "loader": "", "hardware": "", "cpu_cores": "", "sample_kind": "", "notes": ""}
    return predict([row | cells])[0]


def decode_rate(speed: float, *, pixels: float, file_bytes: float, factor: float = 1.0) -> float:
    usual = facts.coefficients("loading")
    return speed / (pixels * usual["jpeg_s_per_pixel"] + file_bytes * usual["jpeg_s_per_byte"]) / factor


def test_decoding_on_one_core_by_hand() -> None:
    """500 x 400 pixels, 100 kB, on a Genoa core of speed 3.7 x 1.4 = 5.18."""
    answer = one(
        what="JPEG decode, 1 thread", loader="simplejpeg", hardware="AMD EPYC 9B14, 16 vCPU", cpu_cores="1", sample_kind="500x400 100 kB"
    )
    assert answer["predicted"] == pytest.approx(decode_rate(5.18, pixels=2e5, file_bytes=1e5), rel=1e-4)
    assert answer["low95"] < answer["low80"] < answer["predicted"] < answer["high80"] < answer["high95"]


def test_slower_decoders_take_their_factor() -> None:
    cells = {"what": "JPEG decode from bytes, 1 thread", "hardware": "Graviton3", "cpu_cores": "1", "sample_kind": "500x400 100 kB"}
    assert one(**cells, loader="PIL")["predicted"] == pytest.approx(one(**cells, loader="libjpeg-turbo")["predicted"] / 1.25, rel=1e-4)


def test_rates_saturate_with_workers() -> None:
    rates = [
        one(
            what="PyTorch DataLoader, JPEG decode only",
            loader=f"opencv + torch DataLoader num_workers={n}",
            hardware="EPYC 9B14, 16 vCPU",
            cpu_cores=str(n),
        )["predicted"]
        for n in (2, 4, 8, 16, 64)
    ]
    assert all(a <= b for a, b in itertools.pairwise(rates))
    assert rates[4] < 1.2 * rates[3]
    assert rates[1] < 2 * rates[0]


def test_a_disk_limits_raw_pictures() -> None:
    """Raw pictures of 256 x 256 are 196,608 bytes: from a bought-up gp3 volume of 1,000 MB/s at
    most 5,086 a second."""
    answer = one(
        what="loading, data in EBS", loader="FFCV", hardware="p3dn.24xlarge 96 vCPU, EBS", cpu_cores="48", sample_kind="256x256 RAW"
    )
    assert answer["predicted"] == pytest.approx(1e9 / (3 * 65536), rel=0.02)


def test_emulated_accelerators_follow_from_their_configuration() -> None:
    """Batch 400 in 0.224 s of 114,660.07 bytes."""
    per = one(metric="required_MB_per_s_per_accelerator", loader="DLIO", hardware="H100", sample_kind="resnet50")
    assert per["predicted"] == pytest.approx(400 / 0.224 * 114660.07 / 1e6, rel=1e-5)
    total = one(metric="throughput", unit="MiB/s", loader="DLIO", hardware="8 x H100 emulated", sample_kind="unet3d")
    assert total["predicted"] == pytest.approx(8 * 7 / 0.323 * 146600628 / 2**20 * 0.95, rel=1e-5)


def test_sizes_of_data_sets() -> None:
    answer = one(metric="dataset_size", unit="GB", what="train set", loader="FFCV", sample_kind="500x400 RAW", samples="1000000")
    assert answer["predicted"] == pytest.approx(600.0)


@pytest.mark.parametrize(
    "cells", [{"metric": "joules"}, {"metric": ""}, {"metric": "ram_needed", "sample_kind": "nothing known"}, {"metric": "dataset_size"}]
)
def test_what_cannot_be_told_says_so(cells: dict[str, str]) -> None:
    answer = one(loader="x", **{k: v for k, v in cells.items() if k != "loader"})
    assert answer["predicted"] is None
    assert answer["error"]


@pytest.mark.parametrize(
    ("words", "work"),
    [
        ("DALI nvJPEG pipeline", "gpu"),
        ("torchvision ImageFolder DataLoader", "decode"),
        ("PyTorch DataLoader", "recipe"),
        ("MosaicML Streaming", "recipe"),
        ("FFCV", "crop"),
        ("something never heard of", "recipe"),
    ],
)
def test_loaders_by_their_names(words: str, work: str) -> None:
    assert loader_named(words.casefold()).work == work


@pytest.mark.parametrize("text", ["", "0x0", "99999999999x99999999999", "\U0001f600" * 50, "-5 cores, nan MB, 1e999 images"])
def test_odd_words_are_survived(text: str) -> None:
    for column in ("what", "loader", "hardware", "cpu_cores", "sample_kind", "notes"):
        answer = one(**{column: text})
        assert answer["error"] or np.isfinite(answer["predicted"])


def test_photographs() -> None:
    """Small sides are filled to 0.675 of a square, huge ones give the photographs as they are."""
    assert photograph_pixels(100) == pytest.approx(6750, rel=1e-3)
    assert photograph_pixels(1e5) == pytest.approx(2.05e5, rel=1e-3)
    assert bytes_per_pixel(90) < bytes_per_pixel(95) < bytes_per_pixel(100)


def test_decoders_of_a_plan_in_order() -> None:
    cost = {word: image_core_s(word, pixels=2e5, file_bytes=1.1e5) for word in ("dali", "raw", "ffcv", "opencv", "pillow")}
    assert list(cost) == sorted(cost, key=lambda word: cost[word])
    assert cost["dali"] == 0


def test_a_case_is_read() -> None:
    told = read_loading_case(
        {"loader": "WebDataset", "hardware": "p4d.24xlarge (96 vCPU), S3", "cpu_cores": "48", "sample_kind": "ImageNet 512px JPEG 90"}
    )
    case = told.case
    assert (case.workers, case.vcpus, case.place, case.hands_over) == (48, 96, "object", True)


def test_bundled_coefficients_predict_the_bundled_rows() -> None:
    with gzip.open(TRUTH, "rt", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    answers = predict(rows)
    ratio = np.array(
        [answer["predicted"] / float(row["measured"]) for answer, row in zip(answers, rows, strict=True) if answer["predicted"]]
    )
    assert len(ratio) >= 400
    assert np.median(np.abs(ratio - 1)) < 0.12


def test_the_load_of_pictures_by_hand() -> None:
    """A million pictures of 110 kB by Pillow, as large as their bytes say: a quarter over
    libjpeg-turbo, and the recipe."""
    usual = facts.coefficients("loading")
    load = sample_load("vision", samples=1e6, dataset_bytes=1.1e11, epochs=3)
    pixels = 1.1e5 / bytes_per_pixel(constants("loading_words")["quality"])
    jpeg = pixels * usual["jpeg_s_per_pixel"] + 1.1e5 * usual["jpeg_s_per_byte"]
    assert load.core_s == pytest.approx(1.25 * jpeg + usual["recipe_s"])
    assert (load.reads_per_sample, load.decode) == (1.0, "pillow")


def test_loads_of_other_data() -> None:
    usual = facts.coefficients("loading")
    assert sample_load("speech", samples=10, dataset_bytes=1e6, epochs=1, seconds=12).core_s == pytest.approx(12 * usual["audio_s_per_s"])
    assert sample_load("tabular", samples=1e6, dataset_bytes=1e8, epochs=1).core_s == pytest.approx(100 * usual["copy_s_per_byte"])
    assert sample_load("video", samples=10, dataset_bytes=1e8, epochs=1, seconds=10, decode="dali").core_s == 0
