"""Steps of models that are not language models, against figures computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.physics.typical import RATES as TYPICAL
from tests.physics.typical import shapes_of

from rightfit.physics.columns import Array, LinkColumns
from rightfit.physics.passes import (
    ForwardRates,
    StepLayout,
    StepRates,
    StepWork,
    compute_s,
    joined_terms,
    matrix_factor,
    pass_times,
    straggler_factor,
    stream_s,
    table_s,
    update_s,
)

RATES = ForwardRates.of(**shapes_of(ForwardRates), flops=1e14, score_flops=5e13, bandwidth=1e12, activation_bytes=2, passes=4, mixing=20.0)
LINKS = LinkColumns.of(intra_bandwidth=1e11, inter_bandwidth=1e10, intra_kind=3)
BUS = TYPICAL.replace(switch_fraction=1.0, inter_fraction=1.0)


def test_three_forward_passes_of_arithmetic() -> None:
    work = StepWork.of(macs=4e9, activations=1.0, layers=1)
    # 3 x 2 x 100 x 4e9 FLOP over 1e14 FLOP/s
    assert compute_s(work, StepLayout.of(batch=100), RATES, StepRates.of(least_exposed=0.05))[0] == pytest.approx(0.024, rel=1e-3)


def test_adapters_save_a_third_and_recomputation_adds_one_pass() -> None:
    assert matrix_factor(StepLayout.of(input_gradients_only=1))[0] == 2.0
    assert matrix_factor(StepLayout.of(recompute=1))[0] == 4.0
    assert matrix_factor(StepLayout.of(recompute=[0, 0.5]))[1] == 3.5


def test_the_host_pays_for_recomputation_by_its_share_of_the_forward_pass() -> None:
    rates = RATES.replace(launch_s=np.array([1e-4]))
    work, step = StepWork.of(macs=1.0, activations=1.0, layers=100), StepRates.of(least_exposed=0.05, host_forward=0.6)
    # 3 x 100 layers x 0.1 ms, and 0.6 of that once more
    assert compute_s(work, StepLayout.of(recompute=[0, 1]), rates, step) == pytest.approx([0.03, 0.048], rel=1e-3)


def test_weights_in_host_memory_travel_once_a_pass() -> None:
    work, links = StepWork.of(macs=1.0, activations=1.0, streamed_bytes=16e9), LinkColumns.of(host_bandwidth=5e10)
    # forward and backward pass: 2 x 16 GB over 50 GB/s; with recomputation three times
    assert stream_s(work, StepLayout.of(recompute=[0, 1]), links) == pytest.approx([0.64, 0.96])
    assert stream_s(StepWork.of(macs=1.0), StepLayout.of(), links)[0] == 0.0


def test_traffic_bound_step() -> None:
    work = StepWork.of(macs=1.0, activations=1e7, layers=1)
    # forward 4 crossings x 2 bytes, backward twice that: 100 x 1e7 x 8 x 3 over 1e12 bytes/s
    assert compute_s(work, StepLayout.of(batch=100), RATES, StepRates.of(least_exposed=0.05, backward_traffic=2.0))[0] == pytest.approx(
        0.024, rel=1e-3
    )


def test_frozen_parts_cost_one_pass() -> None:
    base = StepWork.of(macs=1e6, activations=1.0, frozen_macs=0.0)
    more = base.replace(frozen_macs=4e9)
    layout = StepLayout.of(batch=100)
    gain = compute_s(more, layout, RATES, StepRates.of(least_exposed=0.05)) - compute_s(
        base, layout, RATES, StepRates.of(least_exposed=0.05)
    )
    assert gain[0] == pytest.approx(0.008, rel=0.02)  # 2 x 100 x 4e9 / 1e14


def test_host_bound_when_launches_are_slow() -> None:
    work = StepWork.of(macs=1e6, activations=1.0, layers=100)
    slow = RATES.replace(launch_s=1e-4)
    assert compute_s(work, StepLayout.of(batch=1), slow, StepRates.of(least_exposed=0.05))[0] == pytest.approx(
        0.03, rel=1e-3
    )  # 3 x 100 x 0.1 ms


def test_tables_and_optimizer_cost_bytes() -> None:
    work = StepWork.of(gathered=3328, trained=1e9)
    step = StepRates.of(least_exposed=0.05, gather_bytes=24, update_bytes=20)
    assert table_s(work, StepLayout.of(batch=65536), RATES, step)[0] == pytest.approx(65536 * 3328 * 24 / 1e12)
    assert update_s(work, RATES, step)[0] == pytest.approx(0.02)


def terms_of(work: StepWork, layout: StepLayout, step: StepRates) -> dict[str, Array]:
    """Seconds of a step by part."""
    return joined_terms(pass_times(work, layout, RATES, step), work, layout, step, links=LINKS, bus=BUS)


def test_terms_add_up_and_the_backward_pass_hides_gradients() -> None:
    work = StepWork.of(macs=4e9, activations=1.0, layers=1, trained=25e6)
    layout = StepLayout.of(batch=100, num_gpus=[1, 8], gpus_per_node=8)
    terms = terms_of(work, layout, StepRates.of(least_exposed=0.05, gradient_bytes=4, overlap=0.7))
    assert terms["communication"][0] == 0.0
    # 2 x 7/8 x 25e6 x 4 bytes over 1e11 bytes/s = 1.75 ms hides behind 16 ms of backward pass
    # but for a twentieth
    assert terms["communication"][1] == pytest.approx(0.05 * 1.75e-3, rel=1e-6)


def test_loading_fills_up_to_the_slower_pipeline() -> None:
    work = StepWork.of(macs=1.0, activations=1.0, layers=1)
    terms = terms_of(work, StepLayout.of(batch=100), StepRates.of(least_exposed=0.05, loader_s=1e-3))
    assert sum(value[0] for value in terms.values()) == pytest.approx(0.1)
    assert terms["loading"][0] > 0.09


def test_straggling_grows_with_doublings() -> None:
    step = StepRates.of(least_exposed=0.05, local_straggler=0.02, straggler=0.05)
    factor = straggler_factor(StepLayout.of(num_gpus=[1, 8, 32], gpus_per_node=8), step)
    assert factor == pytest.approx([1.0, 1.06, 1.16])


def test_split_tables_exchange_rows() -> None:
    work = StepWork.of(gathered=1000, exchanged=1000)
    terms = terms_of(work, StepLayout.of(batch=1000, num_gpus=8), StepRates.of(least_exposed=0.05, exchange_bytes=4))
    # two all-to-alls of 4 MB, 7/8 of it over 1e11 bytes/s
    assert terms["communication"][0] == pytest.approx(2 * 7 / 8 * 4e6 / 1e11, rel=1e-6)


def test_columns_broadcast() -> None:
    work = StepWork.of(macs=1e9, activations=1e6, layers=50)
    layout = StepLayout.of(batch=np.arange(1, 100))
    seconds = compute_s(work, layout, RATES, StepRates.of(least_exposed=0.05))
    assert seconds.shape == (99,)
    assert np.all(np.diff(seconds) > 0)
