"""A decode step by hand, and how it grows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.physics.typical import shapes_of

from rightfit.physics.columns import DeviceColumns, Kind, LinkColumns, ModelColumns
from rightfit.physics.decode import (
    decode_times,
    expert_groups,
    extra_kernels_s,
    group_link,
    layers_collective_s,
    on_host,
    peak_ops,
    product_s,
    soft_max,
    step_s,
    touched_experts,
)
from rightfit.physics.serving_columns import Math, ServeColumns, ServeRates

LLAMA = ModelColumns.of(
    num_layers=32,
    hidden_size=4096,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    intermediate_size=14336,
    vocab_size=128256,
    params_total=8030261248,
)
MIXTRAL = ModelColumns.of(
    kind=Kind.MOE_DECODER,
    num_layers=32,
    hidden_size=4096,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    num_experts=8,
    experts_per_token=2,
    moe_intermediate_size=14336,
    vocab_size=32000,
    params_total=46702792704,
)
A100 = DeviceColumns.of(memory_bytes=80 * 2**30, memory_bandwidth=2.039e12, fp32_flops=19.5e12, fp16_flops=312e12, bf16_flops=312e12)
SWITCH = LinkColumns.of(intra_bandwidth=300e9, intra_kind=3)
RATES = ServeRates.of(**shapes_of(ServeRates), stream_fraction=1, attention_stream=1, gemm_fraction=1, gemm_ramp=0, format_stream=1)


def step(model: ModelColumns, *, batch: float = 1.0, context: float = 1.0, rates: ServeRates = RATES, **serve: float) -> float:
    columns = ServeColumns.of(**serve)
    times = decode_times(model, columns, A100, SWITCH, rates, batch=np.array([batch]), context=np.array([context]))
    return float(step_s(times, model, columns, rates)[0])


def test_one_stream_is_weights_over_bandwidth() -> None:
    """Llama-3-8B in 16 bit on an A100: 7.5 billion parameters read (all but the embedding), 15.0
    GB / 2.039 TB/s = 7.36 ms."""
    assert step(LLAMA) == pytest.approx(2 * (8030261248 - 128256 * 4096) / 2.039e12, rel=0.002)


def test_the_cache_is_read_once_a_step() -> None:
    """Batch 64 at 8,192 tokens: 64 x 8,192 x 131,072 bytes more."""
    grown = step(LLAMA, batch=64, context=8192) - step(LLAMA, batch=64, context=1)
    assert grown == pytest.approx(64 * 8191 * 131072 / 2.039e12, rel=0.01)


def test_large_batches_are_bound_by_arithmetic() -> None:
    """At 4,096 rows two operations a weight and row take over: 2 x 7.5e9 x 4,096 /
    312 TFLOP/s = 197 ms."""
    assert step(LLAMA, batch=4096) == pytest.approx(2 * 7.505e9 * 4096 / 312e12, rel=0.02)


def test_experts_touched_by_a_batch() -> None:
    """Two of eight experts: one token touches 1/4, two tokens 1 - (3/4)^2."""
    share = touched_experts(MIXTRAL, np.array([1.0, 2.0, 1000.0]), np.ones(1))
    assert share == pytest.approx([0.25, 0.4375, 1.0])


def test_one_stream_of_a_mixture_reads_the_active_parameters() -> None:
    """Mixtral reads 12.6 of 46.7 billion parameters: 24.8 GB / 2.039 TB/s."""
    expected = 2 * (46702792704 * 1 - 6 / 8 * 32 * 8 * 3 * 4096 * 14336 - 32000 * 4096) / 2.039e12
    assert step(MIXTRAL) == pytest.approx(expected, rel=0.005)


def test_tensor_parallel_divides_reading_and_adds_collectives() -> None:
    rates = RATES.replace(all_reduce_s=5e-6, link_fraction=1)
    alone, eight = step(LLAMA, rates=rates), step(LLAMA, rates=rates, tensor=8)
    message = 2 * 7 / 8 * 4096 * 2 / 300e9
    assert eight == pytest.approx(alone / 8 + 64 * (3 * 5e-6 + message), rel=0.01)


def test_pipeline_stages_do_not_speed_up_one_stream() -> None:
    assert step(LLAMA, pipeline=4, layer_split=1) == pytest.approx(step(LLAMA), rel=0.001)


def test_launching_bounds_small_models() -> None:
    rates = RATES.replace(launch_s=7e-4, step_s=2e-3)
    assert step(LLAMA, rates=rates) == pytest.approx(32 * 7e-4 + 2e-3)


def test_graphs_end_at_their_limit() -> None:
    rates = RATES.replace(ungraphed_s=1e-3)
    assert step(LLAMA, rates=rates, graph_limit=8192, input_tokens=4096) < 0.01
    assert step(LLAMA, rates=rates, graph_limit=8192, input_tokens=14336) == pytest.approx(0.032)


def test_missing_arithmetic_falls_to_the_next_wider() -> None:
    maths = np.array([float(Math.FP8), float(Math.FP4), float(Math.BF16), float(Math.FP32)])
    assert peak_ops(A100, maths, RATES) == pytest.approx([312e12, 312e12, 312e12, 19.5e12])


@given(st.floats(1e-9, 1e3), st.floats(1e-9, 1e3))
def test_soft_maximum_is_a_little_over_the_larger(first: float, second: float) -> None:
    found = float(soft_max(np.array([first]), np.array([second]), sharpness=np.full(1, 4.0))[0])
    assert max(first, second) * (1 - 1e-9) <= found <= 2**0.25 * max(first, second) * (1 + 1e-9)


@given(st.floats(1, 512), st.floats(1, 512), st.floats(1, 1e5))
def test_a_larger_batch_never_takes_less_time(first: float, second: float, context: float) -> None:
    small, large = sorted((first, second))
    assert step(MIXTRAL, batch=small, context=context) <= step(MIXTRAL, batch=large, context=context) * (1 + 1e-9)


def test_few_rows_waste_as_much_again() -> None:
    """One weight matrix of 1e9 parameters, ramp 64: eight rows count 8 + 64 x 8 / 72 = 15.1, 4,096
    rows 4,096 + 63.0."""
    serve, rates = ServeColumns.of(), RATES.replace(gemm_ramp=np.array([64.0]))
    for rows, counted in ((8.0, 8 + 64 * 8 / 72), (4096.0, 4096 + 64 * 4096 / 4160)):
        found = product_s(
            parameters_read=np.array([1.0]),
            parameters_used=np.array([1e9]),
            weight_bytes=np.array([2.0]),
            rows=np.array([rows]),
            num_products=np.ones(1),
            serve=serve,
            device=A100,
            rates=rates,
        )
        assert found[0] == pytest.approx(2e9 * counted / 312e12, rel=1e-6)


def test_rows_spread_over_experts_waste_their_last_tiles() -> None:
    """All 8 experts of which each token takes 2: four groups, 16 rows wasted in each,
    at half of the rate."""
    rates = RATES.replace(expert_ramp=np.array([16.0]))
    share = touched_experts(MIXTRAL, np.array([1e6]), np.ones(1))
    assert expert_groups(MIXTRAL, share)[0] == pytest.approx(4.0)
    found = product_s(
        parameters_read=np.array([1.0]),
        parameters_used=np.array([1e9]),
        weight_bytes=np.array([2.0]),
        rows=np.array([100.0]),
        num_products=np.ones(1),
        serve=ServeColumns.of(),
        device=A100,
        rates=rates,
        groups=np.array([4.0]),
        grouped=0.5,
    )
    assert found[0] == pytest.approx(2e9 * (100 + 4 * 16) / 156e12, rel=1e-6)
    assert expert_groups(LLAMA, share)[0] == 0.0


def test_hosts_of_desktop_cards_are_faster() -> None:
    rates = RATES.replace(step_s=np.array([1e-3]), launch_s=np.array([2e-4]), layer_s=np.array([3e-5]), desktop_host=np.array([0.6]))
    desktop = on_host(rates, A100.replace(price_class=np.array([1.0])))
    server = on_host(rates, A100)
    assert (desktop.step_s[0], desktop.launch_s[0], desktop.layer_s[0]) == pytest.approx((6e-4, 1.2e-4, 3e-5))
    assert server.step_s[0] == 1e-3


def test_pcie_groups_beyond_one_processor_pass_the_link_between_sockets() -> None:
    rates = RATES.replace(link_fraction=np.ones(1), socket_crossing=np.array([0.5]))
    pcie = LinkColumns.of(intra_bandwidth=32e9, host_bandwidth=32e9, intra_kind=1)
    assert group_link(ServeColumns.of(tensor=4), pcie, rates)[0] == 32e9
    assert group_link(ServeColumns.of(tensor=8), pcie, rates)[0] == 16e9
    assert group_link(ServeColumns.of(tensor=8), SWITCH, rates)[0] == 300e9


def test_cards_that_read_one_another_pay_neither_the_host_nor_the_socket() -> None:
    rates = RATES.replace(link_fraction=np.ones(1), socket_crossing=np.array([0.5]), host_staging=np.array([0.25]))
    pcie = LinkColumns.of(intra_bandwidth=32e9, host_bandwidth=32e9, intra_kind=1)
    assert group_link(ServeColumns.of(tensor=8, peer_access=1), pcie, rates)[0] == 32e9
    assert group_link(ServeColumns.of(tensor=4), pcie, rates)[0] == 8e9
    assert group_link(ServeColumns.of(tensor=8), pcie, rates)[0] == 4e9


def test_bytes_that_meet_in_the_host_are_counted_once() -> None:
    """GeForce cards at PCIe 4: half bandwidth is the staging itself; two cards have one CPU."""
    rates = RATES.replace(link_fraction=np.ones(1), socket_crossing=np.array([0.5]), host_staging=np.array([0.5]))
    geforce = LinkColumns.of(intra_bandwidth=16e9, host_bandwidth=32e9, intra_kind=1)
    found = [
        group_link(ServeColumns.of(tensor=ranks, gpus_per_node=gpus), geforce, rates)[0] for ranks, gpus in ((2, 2), (4, 8), (4, 4), (8, 8))
    ]
    assert found == [16e9, 16e9, 8e9, 8e9]


def test_the_indexer_of_sparse_attention_adds_its_kernels() -> None:
    """40 microseconds in each of 32 layers."""
    rates = RATES.replace(index_layer_s=np.array([4e-5]))
    sparse = MIXTRAL.replace(num_index_layers=np.array([32.0]))
    assert extra_kernels_s(sparse, rates)[0] - extra_kernels_s(MIXTRAL, rates)[0] == pytest.approx(32 * 4e-5)


def test_attention_data_ranks_exchange_tokens_with_experts() -> None:
    """Mixtral over four ranks, 400 tokens: each sends 100 x 2 x 3/4 copies of 4,096 elements, one
    byte there and two back, in 32 layers."""
    rates = RATES.replace(link_fraction=np.ones(1), all_reduce_s=np.zeros(1))
    found = layers_collective_s(MIXTRAL, ServeColumns.of(attention_data=4), SWITCH, rates, rows=np.array([400.0]))
    assert found[0] == pytest.approx(32 * 100 * 1.5 * 4096 * 3 / 300e9, rel=1e-6)


def test_mixed_fp4_runs_at_the_rate_of_8_bit_where_the_device_has_fp4() -> None:
    math = np.array([float(Math.MX)])
    assert peak_ops(A100.replace(fp8_flops=np.array([624e12])), math, RATES)[0] == 312e12
    assert peak_ops(A100.replace(fp8_flops=np.array([624e12]), fp4_flops=np.array([1248e12])), math, RATES)[0] == 624e12
