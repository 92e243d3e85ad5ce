"""Gathered weights, gradients on their way, buckets, dequantised layers."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import memory_peak as buffers
from rightfit.physics import memory_states as states
from rightfit.physics.columns import Method, ModelColumns, Recompute, SetupColumns

LLAMA = ModelColumns.of(
    num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128, intermediate_size=14336, vocab_size=128256,
    params_total=8_030_261_248, params_embedding=525_336_576,
)  # fmt: skip
LAYER = (8_030_261_248 - 2 * 525_336_576) / 32
SHARDED = {"data": 8, "shard_stage": 3, "shard_degree": 8}


def share(setup: SetupColumns) -> states.ParameterShare:
    return states.parameter_share(LLAMA, setup, first=True, last=True)


def test_stage_3_gathers_a_layer_and_the_next() -> None:
    setup = SetupColumns.of(**SHARDED)
    assert buffers.gathered_bytes(share(setup), LLAMA, setup, prefetched_layers=1.0)[0] == pytest.approx(2 * 2 * LAYER)
    assert buffers.root_bytes(share(setup), setup)[0] == 2 * 2 * 525_336_576
    assert buffers.unsharded_gradient_bytes(share(setup), LLAMA, setup)[0] == pytest.approx(2 * LAYER)


def test_nothing_is_gathered_without_sharding() -> None:
    setup = SetupColumns.of(data=8)
    for count in (
        buffers.gathered_bytes(share(setup), LLAMA, setup, prefetched_layers=1.0),
        buffers.root_bytes(share(setup), setup),
        buffers.unsharded_gradient_bytes(share(setup), LLAMA, setup),
    ):
        assert count[0] == 0


def test_fp32_reduction_needs_a_second_copy() -> None:
    narrow, wide = (SetupColumns.of(reduce_bytes=width, **SHARDED) for width in (2, 4))
    ours = [buffers.unsharded_gradient_bytes(share(setup), LLAMA, setup)[0] for setup in (narrow, wide)]
    assert ours[1] == pytest.approx(3 * ours[0])


def test_pipelines_of_sharded_stages_keep_the_stage() -> None:
    setup = SetupColumns.of(pipeline=4, reduce_bytes=4, **SHARDED)
    assert buffers.gathered_bytes(share(setup), LLAMA, setup, prefetched_layers=1.0)[0] == pytest.approx(2 * 8 * LAYER)
    assert buffers.unsharded_gradient_bytes(share(setup), LLAMA, setup)[0] == pytest.approx((4 * 8 + 2) * LAYER)


def test_autocast_copies() -> None:
    stored = SetupColumns.of(autocast=1, recompute=Recompute.NONE, method=Method.LORA)
    everything = 2 * (8_030_261_248 - 525_336_576)
    forward, backward = buffers.autocast_copies(share(stored), LLAMA, stored)
    assert forward[0] == backward[0] == pytest.approx(everything, rel=1e-3)  # norms stay in fp32
    forward, backward = buffers.autocast_copies(share(stored), LLAMA, stored.replace(recompute=Recompute.FULL))
    assert forward[0] == backward[0] == pytest.approx(2 * LAYER)
    assert buffers.autocast_copies(share(stored), LLAMA, stored.replace(autocast=0))[0][0] == 0


def test_ddp_buckets_hold_the_gradients_again() -> None:
    trained = np.array([1e9])
    assert buffers.bucket_bytes(trained, SetupColumns.of(data=8), bucket_elements=5e8)[0] == 2e9
    assert buffers.bucket_bytes(trained, SetupColumns.of(data=1), bucket_elements=5e8)[0] == 0
    zero = SetupColumns.of(data=8, shard_stage=2, shard_degree=8)
    assert buffers.bucket_bytes(trained, zero, bucket_elements=5e8)[0] == 5e8 * 2 * 2


def test_dequantised_matrix() -> None:
    assert buffers.dequantised_bytes(LLAMA, SetupColumns.of(quantized=1))[0] == 2 * 4096 * 14336
    assert buffers.dequantised_bytes(LLAMA, SetupColumns())[0] == 0


def test_gradient_workspace_of_transformer_engine() -> None:
    setup = SetupColumns.of(layer_gradient_workspace=1)
    assert buffers.gradient_workspace_bytes(share(setup), LLAMA, setup)[0] == pytest.approx(2 * LAYER)
