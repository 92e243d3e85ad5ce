"""Data preparation against numbers computed by hand."""

from __future__ import annotations

import pytest

from rightfit.physics.loading import (
    PreparationHosts,
    PreparationRates,
    PreparationWork,
    peak_ram_bytes,
    preparation_terms,
    spilled_bytes,
    working_cores,
)


def test_cores_share_the_bytes() -> None:
    # 100 GB at 10 MB/s and core on 10 cores of unit speed without a serial part: 1000 s.
    work = PreparationWork.of(worked_bytes=1e11)
    rates = PreparationRates.of(core_rate=1e7, serial=0.0)
    assert preparation_terms(work, rates, PreparationHosts.of(cores=10, threads=10))["compute"][0] == pytest.approx(1000.0)


def test_a_second_thread_a_core_and_a_limit_of_threads() -> None:
    rates = PreparationRates.of(serial=0.0, smt_gain=0.25, max_threads=[0, 1])
    assert working_cores(PreparationHosts.of(cores=4, threads=8), rates).tolist() == [5.0, 1.0]


def test_the_parts_of_an_operation() -> None:
    work = PreparationWork.of(input_bytes=1e11, worked_bytes=1e11, output_bytes=5e10)
    host = PreparationHosts.of(cores=100, threads=100, read_rate=1e8, write_rate=1e8)
    terms = preparation_terms(work, PreparationRates.of(core_rate=1e8, serial=0.0), host)
    assert {name: float(value[0]) for name, value in terms.items()} == pytest.approx({"compute": 10.0, "read": 1000.0, "write": 500.0})


def test_what_does_not_fit_spills_or_not() -> None:
    work = PreparationWork.of(held_bytes=1e11)
    host = PreparationHosts.of(memory_bytes=5e10, threads=1)
    rates = PreparationRates.of(ram_factor=1.0, thread_bytes=0, base_bytes=0, spills=[0, 1])
    assert peak_ram_bytes(work, rates, host)[0] == 1e11
    assert spilled_bytes(work, rates, host).tolist() == [0.0, 5e10]


def test_spilled_data_cross_the_disk_again() -> None:
    work = PreparationWork.of(input_bytes=1e10, held_bytes=1e11)
    host = PreparationHosts.of(memory_bytes=5e10, read_rate=1e9, write_rate=1e9)
    rates = PreparationRates.of(ram_factor=1.0, thread_bytes=0, base_bytes=0, spills=1)
    terms = preparation_terms(work, rates, host)
    assert float(terms["read"][0]) == pytest.approx(60.0)
    assert float(terms["write"][0]) == pytest.approx(50.0)
