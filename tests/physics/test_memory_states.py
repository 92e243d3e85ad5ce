"""Weights, gradients and optimizer states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit.physics import memory_states as states
from rightfit.physics.columns import Array, Method, ModelColumns, SetupColumns

LLAMA_8B = ModelColumns.of(
    num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128, intermediate_size=14336, vocab_size=128256,
    params_total=8_030_261_248, params_active=8_030_261_248, params_embedding=525_336_576,
)  # fmt: skip
MIXED = {"linear_weight_bytes": 2, "other_weight_bytes": 2, "gradient_bytes": 2, "master_bytes": 4, "optimizer_bytes": 8}


def all_states(model: ModelColumns, setup: SetupColumns) -> Array:
    share = states.parameter_share(model, setup, first=True, last=True)
    dense, experts = states.trained_share(share, model, setup)
    total = states.weights_bytes(share, setup) + states.adapter_bytes(dense, setup) + states.gradients_bytes(dense, experts, setup)
    return total + states.optimizer_bytes(dense, experts, setup) + states.master_bytes(dense, experts, setup)


def test_mixed_precision_adamw_is_16_bytes_a_parameter() -> None:
    assert all_states(LLAMA_8B, SetupColumns.of(**MIXED))[0] == pytest.approx(16 * 8_030_261_248)


@pytest.mark.parametrize(("stage", "bytes_each"), [(0, 16.0), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)])
def test_zero_stages_as_in_the_paper(stage: int, bytes_each: float) -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 B parameters on 64 GPUs need 120,
    31.4, 16.6 and 1.9 GB."""
    model = LLAMA_8B.replace(params_total=7.5e9)
    setup = SetupColumns.of(data=64, shard_degree=64, shard_stage=stage, **MIXED)
    assert all_states(model, setup)[0] == pytest.approx(bytes_each * 7.5e9)
    assert all_states(model, setup)[0] / 1e9 == pytest.approx({0: 120, 1: 31.4, 2: 16.6, 3: 1.9}[stage], rel=0.02)


def test_tensor_parallelism_divides_matrices() -> None:
    one, eight = (all_states(LLAMA_8B, SetupColumns.of(tensor=tensor, **MIXED))[0] for tensor in (1, 8))
    assert eight == pytest.approx(one / 8, rel=0.001)  # norms are replicated


def test_pipeline_stage_holds_its_layers_and_one_end() -> None:
    setup = SetupColumns.of(pipeline=4)
    first = states.parameter_share(LLAMA_8B, setup, first=True, last=False)
    last = states.parameter_share(LLAMA_8B, setup, first=False, last=True)
    assert (first.linear + first.other)[0] == pytest.approx(6_979_588_096 / 4)
    assert first.embedding[0] == 525_336_576
    assert first.head[0] == 0
    assert last.head[0] == 128256 * 4096
    assert last.embedding[0] == 0


def test_expert_parallelism_divides_only_experts() -> None:
    mixtral = ModelColumns.of(
        num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128, intermediate_size=14336, vocab_size=32000, num_experts=8,
        experts_per_token=2, moe_intermediate_size=14336, num_moe_layers=32, params_total=46_702_792_704, params_embedding=131_072_000,
    )  # fmt: skip
    whole = states.parameter_share(mixtral, SetupColumns.of(data=8), first=True, last=True)
    split = states.parameter_share(mixtral, SetupColumns.of(data=8, expert=8), first=True, last=True)
    assert whole.experts[0] == 32 * 8 * 3 * 4096 * 14336
    assert split.experts[0] == whole.experts[0] / 8
    assert split.linear[0] == whole.linear[0]
    sharded = SetupColumns.of(data=8, expert=8, shard_stage=3, shard_degree=8)
    assert states.expert_shards(sharded, stage=3.0)[0] == 1.0  # the eight ranks hold different experts: nothing left to divide


def test_adapters_train_only_themselves() -> None:
    setup = SetupColumns.of(method=Method.LORA, adapter_params=1e7, adapter_weight_bytes=4, gradient_bytes=4, optimizer_bytes=8)
    assert all_states(LLAMA_8B, setup)[0] == pytest.approx(2 * 8_030_261_248 + 16 * 1e7)


def test_offloaded_optimizer_leaves_the_gpu() -> None:
    kept, gone = (all_states(LLAMA_8B, SetupColumns.of(offload_optimizer=flag, **MIXED))[0] for flag in (0, 1))
    assert kept - gone == pytest.approx(12 * 8_030_261_248)


def test_scratch_of_the_step_can_be_limited() -> None:
    dense, none = np.array([8e9]), np.zeros(1)
    whole = states.step_scratch_bytes(dense, none, SetupColumns.of(optimizer_temporary_bytes=4))
    limited = states.step_scratch_bytes(dense, none, SetupColumns.of(optimizer_temporary_bytes=4, scratch_limit=1e9))
    assert (whole[0], limited[0]) == (32e9, 4e9)


@settings(max_examples=60, deadline=None)
@given(stage=st.integers(0, 3), degree=st.integers(1, 64), tensor=st.sampled_from([1, 2, 4, 8]), pipeline=st.integers(1, 8))
def test_more_sharding_never_needs_more(stage: int, degree: int, tensor: int, pipeline: int) -> None:
    setup = SetupColumns.of(shard_stage=stage, shard_degree=degree, tensor=tensor, pipeline=pipeline, **MIXED)
    more = [setup.replace(shard_stage=min(stage + 1, 3)), setup.replace(shard_degree=2 * degree), setup.replace(tensor=2 * tensor)]
    for other in more:
        assert all_states(LLAMA_8B, other)[0] <= all_states(LLAMA_8B, setup)[0] * (1 + 1e-12)
