"""Data preparation: operations by words, columns, bottlenecks, advice."""

from __future__ import annotations

from typing import Any

import pytest
from tests.classical_tasks import named_hosts

from rightfit import facts
from rightfit.errors import InputError, UnknownNameError
from rightfit.estimation.preparation import advice_of, preparation_task, rates_of, work_of
from rightfit.explain.messages import has
from rightfit.facts.classical import operations
from rightfit.physics.loading import PreparationHosts, preparation_terms


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
    host = named_hosts("Intel Xeon 8488C", vcpus=[8], memory_bytes=[64 * 2.0**30])
    cores = PreparationHosts.of(cores=host.cores, threads=host.threads, speed=host.speed)
    tasks = [preparation_task("tokenize", data_bytes=size) for size in (1e10, 1e11)]
    small, large = (float(preparation_terms(work_of(task), rates_of(task), cores)["compute"][0]) for task in tasks)
    assert large / small == pytest.approx(10.0)
    # Four Sapphire Rapids cores with two threads each: 5 cores' worth, 2 % serial.
    gain = 1.0 / (0.02 + 0.98 / 5.0)
    assert small == pytest.approx(1e10 / (tasks[0].core_rate * 3.1 / 3.0 * 1.2 * gain))


@pytest.mark.parametrize(
    ("operation", "library", "case", "code"),
    [
        ("dedup text", "python", {"bottleneck": "disk"}, "faster-disk"),
        ("sort", "spark", {"in_ram": False}, "streaming-engine"),
        ("tokenize", "", {"on_disk": False}, "more-disk"),
        ("tokenize", "", {"hours": 5.0}, "use-more-cores"),
        ("tokenize", "", {"hours": 500.0}, "spark"),
    ],
)
def test_advice_says_what_holds_an_operation_back(operation: str, library: str, case: dict[str, Any], code: str) -> None:
    task = preparation_task(operation, data_bytes=1e10, library=library)
    usual: dict[str, Any] = {"bottleneck": "cpu", "in_ram": True, "on_disk": True, "hours": 0.1}
    assert code in advice_of(task, **{**usual, **case})
    assert code not in advice_of(task, **usual)
    assert all(has(f"host.host_tip_{one.replace('-', '_')}") for one in advice_of(task, **{**usual, **case}))
