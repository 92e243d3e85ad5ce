"""The candidate space holds exactly the layouts that the rules allow."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rightfit.physics.columns import Method, Recompute
from rightfit.search.training.space import NODE_COUNTS, Sharding, SpaceLimits, build_space

LLAMA = SpaceLimits(num_heads=32, num_layers=32, num_experts=0, global_batch=128, seq_len=2048, method=Method.FULL)


def _space(limits: SpaceLimits = LLAMA, counts: tuple[int, ...] = (1, 2, 4, 8)):
    return build_space(limits, blocks=[(variant, count) for variant in (0, 1) for count in counts])


def test_every_row_uses_every_accelerator_and_makes_the_batch() -> None:
    setups = _space().setups
    assert (setups.data * setups.tensor * setups.pipeline * setups.context == setups.gpus_per_node * setups.nodes).all()
    batch = setups.data * setups.micro_batch * setups.grad_accum
    assert batch.min() >= 128
    assert batch.max() <= 160


def test_tensor_parallel_stays_in_a_node_and_divides_the_heads() -> None:
    setups = _space(dataclasses.replace(LLAMA, num_heads=12), counts=(8,)).setups
    assert set(setups.tensor.tolist()) == {1, 2, 4}


def test_pipelines_are_balanced() -> None:
    setups = _space(dataclasses.replace(LLAMA, num_layers=61), counts=(8,)).setups
    stages = np.unique(setups.pipeline)
    assert (np.ceil(61 / stages) * stages <= 1.125 * 61).all()
    assert 4 in stages
    assert 24 not in stages


@pytest.mark.parametrize(
    ("mode", "rule"),
    [
        (Sharding.ZERO2, lambda s: (s.tensor == 1) & (s.pipeline == 1) & (s.data > 1)),
        (Sharding.ZERO3, lambda s: (s.pipeline == 1) & (s.data > 1) & (s.shard_degree == s.data)),
        (Sharding.HYBRID, lambda s: (s.nodes > 1) & (s.shard_degree == s.gpus_per_node // s.tensor)),
        (Sharding.OFFLOAD_ALL, lambda s: (s.tensor == 1) & (s.pipeline == 1)),
    ],
)
def test_sharding_goes_only_with_what_supports_it(mode: Sharding, rule) -> None:
    setups = _space().setups
    rows = setups.sharding == mode
    assert rows.any()
    assert rule(setups)[rows].all()


def test_adapters_do_not_shard_optimizer_state_alone() -> None:
    setups = _space(dataclasses.replace(LLAMA, method=Method.LORA)).setups
    assert set(setups.sharding.tolist()) == {Sharding.NONE, Sharding.ZERO3, Sharding.HYBRID, Sharding.OFFLOAD_ALL}


def test_experts_divide_ranks_and_experts() -> None:
    setups = _space(dataclasses.replace(LLAMA, num_experts=8)).setups
    assert set(setups.expert.tolist()) == {1, 2, 4, 8}
    assert (setups.data % setups.expert == 0).all()


def test_context_parallelism_is_for_long_sequences() -> None:
    assert set(_space().setups.context.tolist()) == {1}
    assert max(_space(dataclasses.replace(LLAMA, seq_len=65_536)).setups.context.tolist()) == 16


def test_what_the_user_fixed_is_the_only_choice() -> None:
    limits = dataclasses.replace(LLAMA, micro_batch=(4,), recompute=(int(Recompute.FULL),), tensor=(2,), node_counts=(2,))
    setups = _space(limits).setups
    assert set(setups.micro_batch.tolist()) == {4}
    assert set(setups.recompute.tolist()) == {2}
    assert set(setups.tensor.tolist()) == {2}
    assert set(setups.nodes.tolist()) == {2}


def test_recomputation_levels_are_consecutive_rows() -> None:
    setups = _space().setups
    assert (setups.recompute.reshape(-1, 3) == [0, 1, 2]).all()
    assert (np.diff(setups.micro_batch.reshape(-1, 3), axis=1) == 0).all()


def test_blocks_cover_the_table_and_hold_one_kind_of_server() -> None:
    space = _space()
    assert int(space.counts.sum()) == space.setups.num_rows
    block = space.block(np.array([1]), np.array([4]))[0]
    rows = slice(int(space.starts[block]), int(space.starts[block] + space.counts[block]))
    assert set(space.setups.gpus_per_node[rows].tolist()) == {4}
    assert set(space.setups.variant[rows].tolist()) == {1}
    assert set(space.setups.nodes[rows].tolist()) == set(NODE_COUNTS)


def test_only_the_wanted_blocks_are_built() -> None:
    space = build_space(LLAMA, blocks=[(0, 8), (2, 4), (0, 8)])
    assert space.counts.shape == (2,)
    assert space.block(np.array([2, 0]), np.array([4, 8])).tolist() == [1, 0]
    pairs = set(zip(space.setups.variant.tolist(), space.setups.gpus_per_node.tolist(), strict=True))
    assert pairs == {(0, 8), (2, 4)}
    assert build_space(LLAMA, blocks=[]).setups.num_rows == 0


def test_no_duplicate_setups() -> None:
    setups = _space().setups
    names = [field.name for field in dataclasses.fields(setups)]
    table = np.stack([getattr(setups, name) for name in names])
    assert np.unique(table, axis=1).shape[1] == setups.num_rows


def test_an_impossible_pipeline_leaves_no_rows() -> None:
    assert _space(dataclasses.replace(LLAMA, pipeline=(64,))).setups.num_rows == 0
