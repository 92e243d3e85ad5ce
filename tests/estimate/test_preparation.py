"""Data preparation: operations by words, columns, bottlenecks, advice."""

from __future__ import annotations

import numpy as np
import pytest
from tests.classical_tasks import named_hosts

from rightfit import facts
from rightfit.errors import InputError, UnknownNameError
from rightfit.estimate.preparation import FAMILY, preparation_columns, preparation_task
from rightfit.explain.messages import has
from rightfit.facts.preparation import operations
from rightfit.physics.classical import CpuColumns


def servers(*vcpus: float, gib: float = 64.0) -> CpuColumns:
    return named_hosts(*["Intel Xeon 8488C"] * len(vcpus), vcpus=list(vcpus), memory_bytes=[gib * 2.0**30] * len(vcpus))


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("tokenize", "tokenize"),
        ("Tokenization", "tokenize"),
        ("train tokenizer", "train-tokenizer"),
        ("csv to parquet", "convert"),
        ("minhash dedup of documents", "dedup-fuzzy"),
        ("deduplicate text", "dedup-text"),
        ("resize images", "resize-images"),
        ("decode", "decode-images"),
        ("feature engineering", "features"),
        ("group by", "group"),
        ("filter documents", "filter-text"),
    ],
)
def test_operations_by_their_words(text: str, operation: str) -> None:
    # The first library that has a rate: the point here is the operation.
    library = next(row["library"] for row in facts.table("preparation_rates") if row["operation"] == operation)
    assert preparation_task(text, data_bytes=1e9, library=library).operation == operation


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError):
        preparation_task("frobnicate", data_bytes=1e9)
    with pytest.raises(UnknownNameError):
        preparation_task("tokenize", data_bytes=1e9, library="excel")
    with pytest.raises(InputError, match="no measured rate"):
        preparation_task("tokenize", data_bytes=1e9, library="pandas")
    with pytest.raises(InputError, match="positive"):
        preparation_task("tokenize", data_bytes=0)
    with pytest.raises(InputError, match="--task serve"):
        preparation_task("embed documents", data_bytes=1e9)


def test_every_operation_has_a_rate_for_some_library() -> None:
    rated = {row["operation"] for row in facts.table("preparation_rates")}
    assert set(operations()) <= rated


def test_time_goes_with_bytes_and_cores() -> None:
    small = preparation_columns(preparation_task("tokenize", data_bytes=1e10), servers(8, 64))
    large = preparation_columns(preparation_task("tokenize", data_bytes=1e11), servers(8, 64))
    assert large.time_s.mid / small.time_s.mid == pytest.approx([10.0, 10.0])
    task = preparation_task("tokenize", data_bytes=1e10)
    # Four Sapphire Rapids cores with two threads each: 5 cores' worth, 2 % serial.
    gain = 1.0 / (0.02 + 0.98 / 5.0)
    assert small.time_s.mid[0] == pytest.approx(1e10 / (task.core_rate * 3.1 / 3.0 * 1.2 * gain))


def test_a_slow_disk_is_the_bottleneck() -> None:
    task = preparation_task("dedup text", data_bytes=1e12, library="python")
    found = preparation_columns(task, servers(96), read_rate=np.array([1e8]))
    assert found.bottleneck == ("disk",)
    assert FAMILY[found.bottleneck[0]] == "storage"
    assert "faster-disk" in found.advice[0]


def test_an_operation_that_holds_all_rows_wants_memory() -> None:
    task = preparation_task("sort", data_bytes=1e11, library="spark")
    held = preparation_columns(task, servers(16, gib=1024.0))
    # Parquet is three times as large in memory: 300 GB, twice for a sort: 600 GB.
    assert held.bottleneck == ("cpu",)
    short = preparation_columns(task, servers(16, gib=32.0), read_rate=np.array([5e8]))
    assert short.bottleneck == ("memory",)
    assert short.fits.tolist() == [True]  # Spark spills
    assert short.disk_bytes[0] > held.disk_bytes[0]


def test_a_disk_too_small_does_not_fit() -> None:
    found = preparation_columns(preparation_task("tokenize", data_bytes=1e12), servers(8), disk_bytes=np.array([1e12]))
    assert found.fits.tolist() == [False]
    assert "more-disk" in found.advice[0]


def test_every_code_of_advice_has_a_reason() -> None:
    found = preparation_columns(preparation_task("tokenize", data_bytes=1e13), servers(2, 8))
    assert all(has(f"host.host_tip_{code.replace('-', '_')}") for codes in found.advice for code in codes)
