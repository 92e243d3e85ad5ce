"""Host RAM, checkpoints and disk."""

from __future__ import annotations

import pytest

from rightfit.physics import memory_states as host
from rightfit.physics.columns import Array, Method, ModelColumns, SetupColumns

LLAMA = ModelColumns.of(num_layers=32, hidden_size=4096, vocab_size=128256, params_total=8e9, params_embedding=525e6)
MIXED = {"gradient_bytes": 2, "master_bytes": 4, "optimizer_bytes": 8, "trainable_params": 8e9}


def ram(setup: SetupColumns) -> Array:
    known = {"host_process_bytes": 4e9, "host_workers": 2, "host_worker_bytes": 1e9, "host_file_bytes": 5e9}
    return host.host_bytes(LLAMA, setup, coefficients=known)


def test_each_process_loads_its_own_copy() -> None:
    assert ram(SetupColumns.of(data=8))[0] == 8 * 6e9 + 8 * 16e9


def test_quantised_models_load_file_by_file() -> None:
    assert ram(SetupColumns.of(method=Method.QLORA, quantized=1))[0] == 6e9 + 5e9


def test_quantised_weights_are_read_at_sixteen_bits_and_kept_packed() -> None:
    packed = SetupColumns.of(data=2, shard_stage=3, shard_degree=2, method=Method.QLORA, quantized=1, linear_weight_bytes=0.5)
    wide = packed.replace(other_weight_bytes=4.0)  # norms and embeddings are widened, the checkpoint is not
    assert host.stored_bytes(LLAMA, wide)[0] == 16e9
    embedding = 525e6
    held = 0.5 * (8e9 - embedding) + 4 * embedding
    assert (ram(wide.replace(offload_params=1)) - ram(wide))[0] == pytest.approx(held)


def test_sharded_stacks_load_one_copy() -> None:
    assert ram(SetupColumns.of(data=8, shard_stage=3, shard_degree=8))[0] == 8 * 6e9 + 16e9


def test_offloaded_states_lie_in_host_memory() -> None:
    kept = SetupColumns.of(data=8, shard_stage=3, shard_degree=8, **MIXED)
    assert (ram(kept.replace(offload_optimizer=1)) - ram(kept))[0] == 8e9 * (2 + 4 + 8 + 4)
    assert (ram(kept.replace(offload_params=1)) - ram(kept))[0] == 16e9


def test_two_nodes_share_what_is_offloaded() -> None:
    one = SetupColumns.of(data=8, shard_stage=3, shard_degree=8, offload_params=1)
    two = SetupColumns.of(data=16, shard_stage=3, shard_degree=16, offload_params=1)
    assert ram(one)[0] - ram(two)[0] == pytest.approx(8e9)


def test_checkpoint_of_a_full_run_resumes_it() -> None:
    assert host.checkpoint_file_bytes(LLAMA, SetupColumns.of(**MIXED))[0] == 8e9 * (2 + 4 + 8)


def test_checkpoint_of_an_adapter_is_small() -> None:
    setup = SetupColumns.of(method=Method.LORA, adapter_params=1e7, adapter_weight_bytes=4, master_bytes=0, optimizer_bytes=8)
    assert host.checkpoint_file_bytes(LLAMA, setup)[0] == 1e7 * 12
    assert host.disk_bytes(LLAMA, setup, kept_checkpoints=2)[0] == 16e9 + 2 * 1.2e8


def test_disk_of_a_full_run() -> None:
    assert host.disk_bytes(LLAMA, SetupColumns.of(**MIXED), kept_checkpoints=2)[0] == 16e9 + 2 * 112e9 + 16e9
