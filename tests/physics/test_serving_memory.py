"""Memory of serving by hand: cache per token, weights by format, what fits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.physics.typical import OPERATORS

from rightfit.physics.columns import AttentionKind, DeviceColumns, Kind, ModelColumns
from rightfit.physics.serving_columns import (
    ServeColumns,
    attended_tokens,
    expert_padding,
    kv_bytes_per_token_layer,
    kv_cache_bytes,
    kv_replication,
    kv_room_bytes,
    max_sequences,
    read_bytes,
    weights_bytes,
    weights_bytes_per_device,
)

LLAMA = ModelColumns.of(
    num_layers=32,
    hidden_size=4096,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    intermediate_size=14336,
    vocab_size=128256,
    attention_kind=AttentionKind.GQA,
    params_total=8030261248,
)
DEEPSEEK = ModelColumns.of(
    kind=Kind.MOE_DECODER,
    num_layers=61,
    hidden_size=7168,
    num_heads=128,
    num_kv_heads=128,
    head_dim=192,
    attention_kind=AttentionKind.MLA,
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
    vocab_size=129280,
)
A100 = DeviceColumns.of(memory_bytes=80 * 2**30, memory_bandwidth=2.039e12)


def test_cache_per_token_by_hand() -> None:
    """Llama-3-8B: 2 x 32 layers x 8 heads x 128 x 2 bytes; DeepSeek-V3: 61 layers x
    (512 + 64) x 2 bytes."""
    two = np.full(1, 2.0)
    assert 32 * kv_bytes_per_token_layer(LLAMA, two)[0] == 131072
    assert 61 * kv_bytes_per_token_layer(DEEPSEEK, two)[0] == 70272


def test_eight_bit_cache_is_half() -> None:
    assert 32 * kv_bytes_per_token_layer(LLAMA, np.ones(1))[0] == 65536


def test_windows_cap_the_cache() -> None:
    """A window of 4,096 on half of the layers: beyond it only the other half grows."""
    model = LLAMA.replace(num_full_attention_layers=16, num_sliding_layers=16, sliding_window=4096)
    assert attended_tokens(model, np.array([4096.0]))[0] == 32 * 4096
    assert attended_tokens(model, np.array([8192.0]))[0] == 16 * 8192 + 16 * 4096


def test_a_purely_sliding_model_has_no_full_layer() -> None:
    model = LLAMA.replace(attention_kind=float(AttentionKind.SLIDING), sliding_window=4096)
    assert attended_tokens(model, np.array([32768.0]))[0] == 32 * 4096


def test_cache_is_rounded_to_blocks() -> None:
    serve = ServeColumns.of(kv_block=16, kv_bytes=2)
    assert kv_cache_bytes(LLAMA, serve, tokens=np.array([17.0]))[0] == 32 * 131072


def test_weights_in_sixteen_bit_are_two_bytes_each() -> None:
    assert weights_bytes(LLAMA, ServeColumns.of())[0] == pytest.approx(2 * 8030261248)


def test_four_bit_leaves_head_and_embedding_wide() -> None:
    """6.98 billion linear parameters at 0.52 bytes and 1.05 billion at two: 5.7 GB (AutoAWQ
    lists 5.7 GB of files)."""
    serve = ServeColumns.of(linear_bytes=0.52, attention_bytes=0.52, expert_bytes=0.52, other_bytes=2)
    assert weights_bytes(LLAMA, serve)[0] == pytest.approx(0.52 * 6.979e9 + 2 * 1.051e9, rel=0.005)


def test_tensor_and_pipeline_divide_weights() -> None:
    whole = weights_bytes_per_device(LLAMA, ServeColumns.of())
    assert weights_bytes_per_device(LLAMA, ServeColumns.of(tensor=4, pipeline=2))[0] == pytest.approx(whole[0] / 8)


def test_a_latent_cache_is_on_every_rank() -> None:
    assert kv_replication(DEEPSEEK, ServeColumns.of(tensor=8))[0] == 8
    assert kv_replication(LLAMA, ServeColumns.of(tensor=8))[0] == 1
    assert kv_replication(LLAMA, ServeColumns.of(tensor=16))[0] == 2


def test_how_many_sequences_fit_by_hand() -> None:
    """0.9 x 80 GiB - 16.06 GB weights - 1 GB - workspace, over 2,048 tokens x 131,072 bytes."""
    serve = ServeColumns.of(input_tokens=1024, output_tokens=1024, chunk_tokens=2048, max_batch=1e6)
    found = max_sequences(LLAMA, serve, A100, overhead_bytes=np.full(1, 1e9), coefficients=OPERATORS)[0]
    workspace = max(2048 * (3 * 14336 + 4 * 4096) * 2, 64 * 6 * 128256)
    assert found == np.floor((0.9 * OPERATORS["visible_share"] * 80 * 2**30 - 2 * 8030261248 - 1e9 - workspace) / (2048 * 131072))


def test_at_least_one_sequence_and_never_more_than_the_engine_allows() -> None:
    small = DeviceColumns.of(memory_bytes=2**30)
    serve = ServeColumns.of(input_tokens=1024, output_tokens=1024)
    assert max_sequences(LLAMA, serve, small, overhead_bytes=np.zeros(1), coefficients=OPERATORS)[0] == 1
    assert max_sequences(LLAMA, serve.replace(max_batch=8), A100, overhead_bytes=np.zeros(1), coefficients=OPERATORS)[0] == 8


def test_more_memory_never_fits_less() -> None:
    serve = ServeColumns.of(input_tokens=1024, output_tokens=1024, max_batch=1e9)
    devices = DeviceColumns.of(memory_bytes=np.linspace(20, 200, 50) * 2**30)
    fits = max_sequences(LLAMA, serve, devices, overhead_bytes=np.zeros(1), coefficients=OPERATORS)
    assert np.all(np.diff(fits) >= 0)


def test_a_share_of_the_card_or_of_what_is_free_on_it() -> None:
    """100 GB visible, 60 GB of weights: 0.9 of the card leaves 30 GB for the cache, 0.9 of
    what is free 36 GB."""
    model = ModelColumns.of(num_layers=1, hidden_size=0, num_heads=1, num_kv_heads=1, head_dim=1, vocab_size=1, params_total=30e9)
    device, none = DeviceColumns.of(memory_bytes=100e9 / OPERATORS["visible_share"]), np.zeros(1)
    serve = ServeColumns.of(memory_fraction=0.9, chunk_tokens=1, max_batch=1)
    assert kv_room_bytes(model, serve, device, overhead_bytes=none, coefficients=OPERATORS)[0] == pytest.approx(30e9, rel=1e-6)
    assert kv_room_bytes(model, serve.replace(fraction_of_free=1), device, overhead_bytes=none, coefficients=OPERATORS)[0] == pytest.approx(
        36e9, rel=1e-6
    )


def test_block_formats_pad_the_width_of_an_expert() -> None:
    """gpt-oss-120b: 2,880 of 3,072 on one card; 360 of 512 on eight."""
    model = ModelColumns.of(num_experts=128, moe_intermediate_size=2880)
    padded = [expert_padding(model, ServeColumns.of(expert_tile=256, tensor=ways))[0] for ways in (1, 8)]
    assert padded == pytest.approx([3072 / 2880, 512 / 360])
    assert expert_padding(model, ServeColumns.of(tensor=8))[0] == 1.0
    assert expert_padding(model, ServeColumns.of(expert_tile=256, tensor=8, expert=8))[0] == pytest.approx(3072 / 2880)


def test_graphs_lie_outside_the_share_and_never_beyond_the_card() -> None:
    """80 GB, 2 GB of graphs: a share of 0.9 loses nothing to them; of 0.99 they decide."""
    device, overhead = DeviceColumns.of(memory_bytes=80e9 / OPERATORS["visible_share"]), np.full(1, 3e9)
    model = ModelColumns.of(num_layers=1, num_heads=1, num_kv_heads=1, head_dim=1, vocab_size=1, params_total=20e9)
    serve = ServeColumns.of(memory_fraction=np.array([0.9, 0.99]), graph_bytes=2e9, chunk_tokens=1, max_batch=1)
    room = kv_room_bytes(model, serve, device, overhead_bytes=overhead, coefficients=OPERATORS)
    assert room == pytest.approx([72e9 - 40e9 - 1e9, 78e9 - 40e9 - 1e9], rel=1e-6)


#: DeepSeek-V4-Flash: 21 layers of 4 tokens an entry of which 512 are chosen, 20 of 128 tokens, all
#: with a window of 128 tokens.
COMPRESSED = ModelColumns.of(
    num_layers=43,
    num_heads=64,
    num_kv_heads=1,
    head_dim=512,
    num_full_attention_layers=41,
    num_sliding_layers=2,
    sliding_window=128,
    sparse_layers=21,
    sparse_stride=4,
    sparse_most=512,
    pooled_layers=20,
    pooled_stride=128,
    cache_bytes=5536,
    cache_window=128,
    window_bytes=44032,
    index_bytes=1344,
    num_index_layers=21,
    index_heads=64,
    index_width=128,
    key_value_share=0.5,
)


def test_compressed_attention_reads_the_entries_that_it_chooses() -> None:
    """At 300,000 tokens: 21 x (512 + 128) + 20 x (2,344 + 128) + 2 x 128 entries of 1,024 bytes,
    and the keys."""
    context = np.array([300_000.0])
    entries = 21 * (512 + 128) + 20 * (300_000 / 128 + 128) + 2 * 128
    assert attended_tokens(COMPRESSED, context)[0] == pytest.approx(entries)
    assert read_bytes(COMPRESSED, np.full(1, 2.0), context)[0] == pytest.approx(entries * 1024 + 300_000 * 1344)


def test_compressed_cache_by_hand() -> None:
    """300,000 x (5,536 + 1,344) bytes and 128 x 44,032 of the window: 2.07 GB, where 43 layers of
    two times 512 would hold 26 GB."""
    serve = ServeColumns.of(kv_block=1, kv_bytes=2)
    held = kv_cache_bytes(COMPRESSED, serve, tokens=np.array([300_000.0]))[0]
    assert held == pytest.approx(300_000 * 6880 + 128 * 44032)


def test_short_contexts_of_sparse_layers_are_those_of_full_ones() -> None:
    full = LLAMA.replace(num_full_attention_layers=32)
    sparse = full.replace(sparse_layers=32, sparse_most=2048)
    for context in (1.0, 512.0, 2048.0):
        assert attended_tokens(sparse, np.array([context]))[0] == attended_tokens(full, np.array([context]))[0]
    assert attended_tokens(sparse, np.array([65536.0]))[0] == 32 * 2048
