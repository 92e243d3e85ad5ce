"""FLOPs against published formulas and hand-worked figures."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import transformer
from rightfit.physics.columns import AttentionKind, Kind, Method, Mlp, ModelColumns, SetupColumns


def gpt(*, layers: float = 96, hidden: float = 12288, heads: float = 96, vocab: float = 51200) -> ModelColumns:
    return ModelColumns.of(
        kind=Kind.DECODER,
        num_layers=layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=hidden / heads,
        intermediate_size=4 * hidden,
        vocab_size=vocab,
        mlp=Mlp.GELU,
        params_total=12 * layers * hidden**2 + vocab * hidden,
    )


LLAMA3_8B = ModelColumns.of(
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
MIXTRAL = ModelColumns.of(
    kind=Kind.MOE_DECODER,
    num_layers=32,
    hidden_size=4096,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    intermediate_size=14336,
    vocab_size=32000,
    num_experts=8,
    experts_per_token=2,
    moe_intermediate_size=14336,
    num_moe_layers=32,
    params_total=46702792704,
)


def test_megatron_formula_of_gpt3() -> None:
    """72 B s L h^2 (1 + s / 6h + V / 12 L h), Narayanan et al. 2021, without their
    recomputed forward pass."""
    layers, hidden, vocab, seq = 96.0, 12288.0, 51200.0, 2048.0
    step = transformer.step_model_flops(gpt(), SetupColumns.of(micro_batch=4, seq_len=seq))
    expected = 72 * 4 * seq * layers * hidden**2 * (1 + seq / (6 * hidden) + vocab / (12 * layers * hidden))
    assert step[0] == pytest.approx(expected, rel=1e-3)


def test_palm_formula_per_token() -> None:
    """6 N + 12 L H Q T per token (Chowdhery et al. 2022, appendix B), N the
    weights that multiply."""
    model = LLAMA3_8B
    seq = 8192.0
    per_token = transformer.step_model_flops(model, SetupColumns.of(seq_len=seq))[0] / seq
    weights = 8030261248 - 128256 * 4096 - 65 * 4096
    assert per_token == pytest.approx(6 * weights + 12 * 32 * 32 * 128 * seq, rel=1e-6)


def test_six_n_d_for_short_sequences() -> None:
    model = gpt(layers=48, hidden=8192, heads=64, vocab=1000)
    step = transformer.step_model_flops(model, SetupColumns.of(seq_len=64))[0]
    assert step / 64 == pytest.approx(6 * float(model.params_total[0]), rel=0.01)


def test_weights_of_llama_by_hand() -> None:
    """Per layer q, k, v, o and three feed-forward matrices; 2 FLOPs a weight and token."""
    per_layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
    total = sum(item.flops_per_token for item in transformer.layer_matmuls(LLAMA3_8B))
    assert total[0] == 2 * 32 * per_layer


def test_mixture_counts_active_experts_and_router() -> None:
    per_layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 2 * 3 * 4096 * 14336 + 4096 * 8
    total = sum(item.flops_per_token for item in transformer.layer_matmuls(MIXTRAL))
    assert total[0] == 2 * 32 * per_layer


def test_latent_attention_matrices() -> None:
    model = ModelColumns.of(
        num_layers=1,
        hidden_size=7168,
        num_heads=128,
        num_kv_heads=128,
        head_dim=192,
        attention_kind=AttentionKind.MLA,
        q_lora_rank=1536,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
    )
    by_name = {item.name: float(item.flops_per_token[0]) for item in transformer.layer_matmuls(model) if item.flops_per_token[0] > 0}
    assert by_name["q_down"] == 2 * 7168 * 1536
    assert by_name["q_up"] == 2 * 1536 * 128 * 192
    assert by_name["kv_down"] == 2 * 7168 * 576
    assert by_name["kv_up"] == 2 * 512 * 128 * 256
    assert by_name["out_latent"] == 2 * 128 * 128 * 7168
    assert transformer.attention_width(model)[0] == 128 * (192 + 128)


def test_causal_pairs_are_half_of_the_square() -> None:
    full, _ = transformer.attention_pairs(gpt(), np.array([2048.0]))
    square, _ = transformer.attention_pairs(gpt(), np.array([2048.0]), exact=False)
    assert full[0] == 2048 * 2049 / 2
    assert square[0] == 2048**2


def test_encoder_sees_both_sides() -> None:
    full, _ = transformer.attention_pairs(ModelColumns.of(kind=Kind.ENCODER), np.array([512.0]))
    assert full[0] == 512**2


@pytest.mark.parametrize(("window", "expected"), [(4, 4 + 3 + 2 + 1 + 4 * 4), (100, 36), (0, 36)])
def test_sliding_window_pairs_by_hand(window: float, expected: float) -> None:
    """Eight tokens: with a window of four the later ones see four each."""
    _, sliding = transformer.attention_pairs(ModelColumns.of(sliding_window=window), np.array([8.0]))
    assert sliding[0] == expected


def test_frozen_weights_skip_their_gradient() -> None:
    full = transformer.step_model_flops(LLAMA3_8B, SetupColumns.of(seq_len=2048))
    lora = transformer.step_model_flops(LLAMA3_8B, SetupColumns.of(seq_len=2048, method=Method.LORA))
    assert lora[0] / full[0] == pytest.approx(2 / 3)


def test_masked_language_model_predicts_a_share_of_tokens() -> None:
    encoder = ModelColumns.of(kind=Kind.ENCODER, hidden_size=1024, vocab_size=30522)
    assert transformer.head_matmul(encoder).flops_per_token[0] == pytest.approx(0.15 * 2 * 1024 * 30522)
    assert transformer.head_matmul(encoder.replace(has_lm_head=0)).flops_per_token[0] == 0


def test_encoder_decoder_adds_cross_attention() -> None:
    model = ModelColumns.of(
        kind=Kind.ENCODER_DECODER,
        num_layers=24,
        num_decoder_layers=12,
        hidden_size=768,
        num_heads=12,
        num_kv_heads=12,
        head_dim=64,
        mlp=Mlp.RELU,
    )
    names = {item.name: float(item.flops_per_token[0]) for item in transformer.layer_matmuls(model)}
    assert names["cross_q"] == 2 * 12 * 768 * 768
    assert names["cross_kv"] == 2 * 12 * 768 * 1536
    assert names["cross_out"] == 2 * 12 * 768 * 768


def test_layer_kinds_add_up() -> None:
    mixed = ModelColumns.of(num_layers=48, num_full_attention_layers=8, num_sliding_layers=40)
    full, sliding, linear = transformer.attention_layers(mixed)
    assert (full[0], sliding[0], linear[0]) == (8, 40, 0)
    state_space = ModelColumns.of(num_layers=24, attention_kind=AttentionKind.SSM)
    assert [value[0] for value in transformer.attention_layers(state_space)] == [0, 0, 24]
