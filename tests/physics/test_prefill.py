"""Prompt passes by hand."""

from __future__ import annotations

import numpy as np
import pytest
from tests.physics.typical import shapes_of

from rightfit.physics.columns import DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.prefill import attention_flops, prefill_s, prefill_times, prompt_ranks
from rightfit.physics.serving_columns import ServeColumns, ServeRates

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
A100 = DeviceColumns.of(memory_bandwidth=2.039e12, fp32_flops=19.5e12, fp16_flops=312e12, bf16_flops=312e12)
LINKS = LinkColumns.of(intra_bandwidth=300e9, intra_kind=3)
RATES = ServeRates.of(**shapes_of(ServeRates), stream_fraction=1, gemm_fraction=1, gemm_ramp=0, flash_fraction=1, pass_bytes=0)


def seconds(prompt: float, *, sequences: float = 1.0, rates: ServeRates = RATES, **serve: float) -> float:
    columns = ServeColumns.of(**serve)
    times = prefill_times(LLAMA, columns, A100, LINKS, rates, prompt=np.array([prompt]), sequences=np.array([sequences]))
    return float(prefill_s(times, LLAMA, columns, rates)[0])


def test_causal_attention_by_hand() -> None:
    """Half of the pairs, two products of 128 over 32 heads in 32 layers."""
    assert attention_flops(LLAMA, prompt=np.array([8192.0]))[0] == pytest.approx(2 * 8192**2 / 2 * 32 * 256 * 32)


def test_windows_cut_the_pairs() -> None:
    model = LLAMA.replace(num_full_attention_layers=0, num_sliding_layers=32, sliding_window=1024)
    pairs = 8192 * 1024 - 1024**2 / 2
    assert attention_flops(model, prompt=np.array([8192.0]))[0] == pytest.approx(2 * pairs * 32 * 256 * 32)


def test_a_long_prompt_is_two_operations_a_weight_and_token() -> None:
    """2 x 6.98e9 x 4,096 FLOP and attention at 312 TFLOP/s, and the head's read: 0.197 s."""
    linear, attention = 2 * 6.979e9 * 4096, 2 * 4096**2 / 2 * 32 * 256 * 32
    assert seconds(4096) == pytest.approx((linear + attention) / 312e12, rel=0.01)


def test_a_short_prompt_reads_the_weights_once() -> None:
    assert seconds(1) == pytest.approx(2 * 7.505e9 / 2.039e12, rel=0.01)


def test_pieces_read_the_weights_again() -> None:
    one, sixteen = seconds(256), seconds(256, chunk_tokens=16)
    assert sixteen > 4 * one


def test_prompts_together_cost_less_than_one_by_one() -> None:
    assert seconds(64, sequences=16) < 0.5 * 16 * seconds(64)


def test_overlapping_stages_speed_up_many_pieces_only() -> None:
    """Four stages: eight pieces take (8 + 3) / (8 x 4) of the time, one piece all of it."""
    whole = seconds(4096, chunk_tokens=512)
    split = seconds(4096, chunk_tokens=512, pipeline=4, layer_split=1, pipelined_prefill=1)
    assert split == pytest.approx(whole * 11 / 32, rel=0.02)
    assert seconds(512, chunk_tokens=512, pipeline=4, pipelined_prefill=1) == pytest.approx(seconds(512, chunk_tokens=512), rel=0.01)


def test_twice_the_prompt_takes_at_least_twice_the_time() -> None:
    for prompt in (1024.0, 4096.0, 16384.0):
        assert seconds(2 * prompt) >= 1.95 * seconds(prompt)


def test_a_prompt_keeps_to_its_tensor_group_under_attention_data_parallelism() -> None:
    """Four ranks that attend apart treat one prompt no faster than one device does, and four
    prompts in little more than that."""
    alone, four = seconds(4096.0, attention_data=4.0), seconds(4096.0, attention_data=4.0, sequences=4.0)
    assert alone >= seconds(4096.0)
    assert four == pytest.approx(alone, rel=0.35)  # their exchange is four times as large
    assert four < seconds(4096.0, sequences=4.0) / 2.5


def test_ranks_that_attend_apart_share_their_prompts() -> None:
    columns = ServeColumns.of(tensor=2.0, attention_data=4.0)
    assert [float(prompt_ranks(columns, sequences=np.array([count]))[0]) for count in (1.0, 3.0, 4.0, 9.0)] == [2, 6, 8, 8]
