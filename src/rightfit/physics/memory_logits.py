"""Logits and the cross-entropy spike.

Source: accounting of each copy; docs/decisions/memory-physics.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, Kind, Loss, ModelColumns, SetupColumns
from rightfit.physics.memory_states import is_full
from rightfit.units import FP32_BYTES


def logits_bytes(model: ModelColumns, setup: SetupColumns, tokens: Array, *, masked_fraction: float) -> Array:
    """Logits and all their copies at the peak of the loss.

    `tokens` [tokens] on this GPU, `masked_fraction` [1] of positions that encoders predict -> [bytes].
    STANDARD: tokens x vocabulary / tensor x `logit_bytes` (the 16-bit logits, their fp32 copy, log-softmax, gradient). FUSED (Liger, cut
    cross-entropy): logits exist in pieces of about tokens x hidden elements; the gradient of the hidden state is kept, and of the head
    where it is trained.
    """
    vocabulary = model.vocab_size / setup.tensor
    positions = tokens * np.where(model.kind == Kind.ENCODER, masked_fraction, 1.0)
    standard = positions * vocabulary * setup.logit_bytes
    piece = np.minimum(positions * model.hidden_size, positions * vocabulary) * (FP32_BYTES + setup.activation_bytes)
    head = is_full(setup) * vocabulary * model.hidden_size * setup.activation_bytes
    fused = piece + positions * model.hidden_size * setup.activation_bytes + head
    return np.where(setup.loss == Loss.FUSED, np.minimum(fused, standard), standard) * model.has_lm_head


def kept_logits_bytes(model: ModelColumns, setup: SetupColumns, tokens: Array, *, masked_fraction: float) -> Array:
    """Copies of the logits that a stack does not let go of while the layers' backward passes run.

    `tokens` [tokens], `masked_fraction` [1] -> [bytes].
    """
    positions = tokens * np.where(model.kind == Kind.ENCODER, masked_fraction, 1.0)
    kept = positions * model.vocab_size / setup.tensor * setup.kept_logit_bytes * model.has_lm_head
    return np.where(setup.loss == Loss.FUSED, 0.0, kept)


def final_hidden_bytes(model: ModelColumns, setup: SetupColumns, tokens: Array) -> Array:
    """Last hidden state, its fp32 copy in the final normalisation, and the head's input.

    `tokens` [tokens] -> [bytes].
    """
    return tokens * model.hidden_size * (setup.residual_bytes + FP32_BYTES * (1.0 - setup.fused_kernels))
