"""Saved activations by operator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit.physics import memory_states as activations
from rightfit.physics.columns import AttentionKernel, Dtype, Method, Mlp, ModelColumns, Norm, SetupColumns


def gpt(hidden: int, heads: int) -> ModelColumns:
    return ModelColumns.of(
        num_layers=24, hidden_size=hidden, num_heads=heads, num_kv_heads=heads, head_dim=hidden / heads, intermediate_size=4 * hidden,
        vocab_size=51200, mlp=Mlp.GELU, norm=Norm.LAYERNORM,
    )  # fmt: skip


def megatron(**layout: float) -> SetupColumns:
    values = {"compute_dtype": Dtype.FP16, "seq_len": 2048, "attention": AttentionKernel.EAGER, "dropout": 0.1}
    return SetupColumns.of(**(values | layout))


@pytest.mark.parametrize(("hidden", "heads", "length"), [(1024, 16, 1024), (6144, 64, 2048), (12288, 96, 2048)])
def test_gpt_layer_as_korthikanti_et_al(hidden: int, heads: int, length: int) -> None:
    """Korthikanti et al. 2022, equation 1: s b h (34 + 5 a s / h) bytes a layer in fp16."""
    ours = activations.layer_activations(gpt(hidden, heads), megatron(seq_len=length)).total[0]
    assert ours == pytest.approx(hidden * (34 + 5 * heads * length / hidden), abs=1.0)


def test_tensor_parallel_layer_as_korthikanti_et_al() -> None:
    """Equations 2 and 4: s b h (10 + 24 / t + 5 a s / (h t)), and all of it divided by t with
    sequence parallelism."""
    model, t = gpt(6144, 64), 8
    plain = activations.layer_activations(model, megatron(tensor=t)).total[0]
    assert plain == pytest.approx(6144 * (10 + 24 / t + 5 * 64 * 2048 / (6144 * t)), abs=1.0)
    spread = activations.layer_activations(model, megatron(tensor=t, sequence_parallel=1)).total[0]
    assert spread == pytest.approx(6144 * (34 + 5 * 64 * 2048 / 6144) / t, abs=1.0)


def test_selective_recomputation_drops_the_scores() -> None:
    """Equation 6: s b h 34 bytes a layer are left."""
    assert activations.selective_bytes(gpt(6144, 64), megatron())[0] == pytest.approx(34 * 6144, abs=1.0)


def test_full_recomputation_keeps_the_input() -> None:
    assert activations.checkpoint_bytes(gpt(6144, 64), megatron())[0] == 2 * 6144


LLAMA = ModelColumns.of(
    num_layers=32, hidden_size=4096, num_heads=32, num_kv_heads=8, head_dim=128, intermediate_size=14336, vocab_size=128256, mlp=Mlp.SWIGLU
)


def test_llama_layer_by_hand() -> None:
    """Full training in bf16 with FlashAttention and the operators of
    transformers, bytes a token."""
    parts = activations.layer_activations(LLAMA, SetupColumns.of(attention=AttentionKernel.FLASH))
    assert parts.norms[0] == 2 * (4 + 2) * 4096  # fp32 input and normalised bf16 tensor of both RMSNorms
    assert parts.attention[0] == 2 * 4096 + 2 * (4096 + 2 * 1024 + 4096) + 4 * 32  # input, Q, K and V, output, log-sum-exp
    assert parts.feed_forward[0] == 2 * 4096 + 4 * 2 * 14336  # input, gate, activated gate, up, product
    assert parts.scores[0] == parts.adapters[0] == 0


def test_frozen_layers_keep_less_than_trained_ones() -> None:
    trained = activations.layer_activations(LLAMA, SetupColumns.of()).total[0]
    frozen = activations.layer_activations(LLAMA, SetupColumns.of(method=Method.LORA, adapter_weight_bytes=2)).total[0]
    kept = activations.layer_activations(LLAMA, SetupColumns.of(method=Method.LORA, adapter_weight_bytes=2, keeps_linear_inputs=1)).total[0]
    assert trained - frozen == 2 * 2 * 4096 + 2 * 2 * 4096 + 2 * 14336  # two inputs, two normalised tensors, the product
    assert frozen < kept < trained


def test_eager_attention_grows_with_the_square_of_the_length() -> None:
    short, long = (activations.score_bytes(LLAMA, SetupColumns.of(seq_len=s, attention=AttentionKernel.EAGER))[0] for s in (1024, 4096))
    assert long == 4 * short  # per token
    assert short == (4 + 2) * 32 * 1024


def test_experts_see_as_many_copies_as_are_chosen() -> None:
    mixture = LLAMA.replace(num_experts=8, experts_per_token=2, moe_intermediate_size=14336, num_moe_layers=32)
    setup = SetupColumns.of(routed_bytes=4)
    dense = activations.feed_forward_bytes(LLAMA, setup)[0]
    routed = activations.feed_forward_bytes(mixture, setup)[0]
    assert routed - dense == 4 * 2 * 14336 + 2 * 4 * 4096 + 4 * 3 * 8


@settings(max_examples=60, deadline=None)
@given(
    kernel=st.sampled_from(list(AttentionKernel)),
    method=st.sampled_from([Method.FULL, Method.LORA]),
    fused=st.integers(0, 1),
    length=st.integers(64, 65536),
)
def test_recomputation_never_keeps_more(kernel: AttentionKernel, method: Method, fused: int, length: int) -> None:
    setup = SetupColumns.of(attention=kernel, method=method, fused_kernels=fused, seq_len=length)
    whole = activations.layer_activations(LLAMA, setup).total[0]
    selective = activations.selective_bytes(LLAMA, setup)[0]
    assert activations.checkpoint_bytes(LLAMA, setup)[0] <= selective <= whole
