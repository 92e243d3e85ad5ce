"""The cross-entropy spike."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import memory_peak as logits
from rightfit.physics.columns import Kind, Loss, Method, ModelColumns, SetupColumns

LLAMA = ModelColumns.of(hidden_size=4096, vocab_size=128256, num_layers=32)
TOKENS = np.array([8192.0])


def test_standard_loss_holds_all_copies() -> None:
    """8192 tokens of a 128,256-word vocabulary at 12 bytes a logit: 12.6 GB."""
    spike = logits.logits_bytes(LLAMA, SetupColumns.of(logit_bytes=12), TOKENS, masked_fraction=0.15)
    assert spike[0] == 8192 * 128256 * 12


def test_tensor_parallelism_splits_the_vocabulary() -> None:
    one, four = (logits.logits_bytes(LLAMA, SetupColumns.of(tensor=t), TOKENS, masked_fraction=0.15)[0] for t in (1, 4))
    assert one == 4 * four


def test_fused_loss_is_a_small_part() -> None:
    fused = SetupColumns.of(loss=Loss.FUSED, method=Method.LORA)
    standard = logits.logits_bytes(LLAMA, SetupColumns.of(), TOKENS, masked_fraction=0.15)[0]
    assert logits.logits_bytes(LLAMA, fused, TOKENS, masked_fraction=0.15)[0] < 0.05 * standard
    assert logits.kept_logits_bytes(LLAMA, fused.replace(kept_logit_bytes=8), TOKENS, masked_fraction=0.15)[0] == 0


def test_encoders_predict_masked_positions_only() -> None:
    bert = LLAMA.replace(kind=Kind.ENCODER)
    whole = logits.logits_bytes(LLAMA, SetupColumns.of(), TOKENS, masked_fraction=0.15)[0]
    assert logits.logits_bytes(bert, SetupColumns.of(), TOKENS, masked_fraction=0.15)[0] == pytest.approx(0.15 * whole)


def test_embedding_models_have_no_logits() -> None:
    assert logits.logits_bytes(LLAMA.replace(has_lm_head=0), SetupColumns.of(), TOKENS, masked_fraction=0.15)[0] == 0


def test_final_hidden_state() -> None:
    assert logits.final_hidden_bytes(LLAMA, SetupColumns.of(), TOKENS)[0] == 8192 * 4096 * 6
    assert logits.final_hidden_bytes(LLAMA, SetupColumns.of(fused_kernels=1), TOKENS)[0] == 8192 * 4096 * 2
