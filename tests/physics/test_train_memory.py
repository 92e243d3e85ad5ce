"""Memory of training, against figures computed by hand."""

from __future__ import annotations

import pytest

from rightfit.physics.columns import MemoryCounter
from rightfit.physics.passes import MemoryWork, TrainMemoryRates, activation_elements, memory_terms


def test_states_of_a_network_that_learns() -> None:
    terms = memory_terms(
        MemoryWork.of(params=25e6, trained=25e6), TrainMemoryRates.of(weight_bytes=4, state_bytes=12), batch=MemoryWork.of(params=1).params
    )
    assert terms["weights"][0] == 1e8
    assert terms["states"][0] == 3e8  # gradient, two moments of Adam


def test_recomputation_keeps_inputs_and_one_block() -> None:
    work = MemoryWork.of(kept=1000, block_inputs=100, block=50)
    assert activation_elements(work, TrainMemoryRates.of(recompute=0).recompute)[0] == 1000
    assert activation_elements(work, TrainMemoryRates.of(recompute=1).recompute)[0] == 150
    assert activation_elements(work, TrainMemoryRates.of(recompute=0.5).recompute)[0] == 575


def test_opened_weights() -> None:
    rates = TrainMemoryRates.of(weight_bytes=1, opened_bytes=2, recompute=[0, 1, 0], offload=[0, 0, 0.5])
    terms = memory_terms(MemoryWork.of(params=1e9), rates, batch=MemoryWork.of(params=1).params)
    assert list(terms["weights"]) == [3e9, 1e9, 1.5e9]


def test_recomputation_never_adds() -> None:
    work = MemoryWork.of(kept=100, block_inputs=90, block=50)
    assert activation_elements(work, TrainMemoryRates.of(recompute=1).recompute)[0] == 100


@pytest.mark.parametrize(
    ("counter", "total"), [(MemoryCounter.ALLOCATED, 1000.0), (MemoryCounter.RESERVED, 1100.0), (MemoryCounter.DRIVER, 1600.0)]
)
def test_counters(counter: MemoryCounter, total: float) -> None:
    work = MemoryWork.of(fixed_bytes=1000)
    terms = memory_terms(work, TrainMemoryRates.of(slack=0.1, context_bytes=500, counter=counter), batch=work.kept + 1)
    assert sum(value[0] for value in terms.values()) == pytest.approx(total)


def test_offload_moves_weights_not_states() -> None:
    work = MemoryWork.of(params=1e9, trained=1e6)
    terms = memory_terms(work, TrainMemoryRates.of(weight_bytes=2, state_bytes=12, offload=0.75), batch=work.kept + 1)
    assert terms["weights"][0] == 5e8
    assert terms["states"][0] == 1.2e7


def test_moving_average_frozen_networks_and_tables() -> None:
    work = MemoryWork.of(params=10, trained=10, beside=100, tables=1000)
    terms = memory_terms(work, TrainMemoryRates.of(weight_bytes=4, ema=1, beside_bytes=2, table_bytes=4), batch=work.kept + 1)
    assert (terms["weights"][0], terms["frozen_networks"][0], terms["tables"][0]) == (80, 200, 4000)
