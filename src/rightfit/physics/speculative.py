"""Speculative decoding: a cheap draft proposes tokens, the model checks them in one step.

Source: Leviathan et al., Fast Inference from Transformers via Speculative Decoding, ICML 2023; Chen et al., Accelerating Large Language
Model Decoding with Speculative Sampling, 2023.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def expected_tokens(acceptance: Array, *, drafted: Array) -> Array:
    """Tokens that one step yields in the mean.

    `acceptance` [1] probability that a drafted token is accepted, the same for each, `drafted` [tokens] in a step -> [tokens], 1 to drafted
    + 1.
    (1 - a^(k + 1)) / (1 - a), Leviathan et al. (2023) equation 1; k + 1 where a = 1. Example: a = 0.8, k = 4: 3.36.
    Known error: acceptance falls along the draft and differs between requests (Jensen): up to 10 % too many for k above 4.
    """
    acceptance, drafted = np.broadcast_arrays(np.asarray(acceptance, dtype=np.float64), np.asarray(drafted, dtype=np.float64))
    sure = acceptance >= 1.0 - 1e-12
    rest = np.where(sure, 1.0, 1.0 - acceptance)
    return np.where(sure, drafted + 1.0, (1.0 - acceptance ** (drafted + 1.0)) / rest)


def token_s(verify_s: Array, *, draft_s: Array, drafted: Array, acceptance: Array) -> Array:
    """Seconds per token that is kept: (verify + k x draft) / expected tokens.

    `verify_s` [s] of a step of the model over the drafted tokens and one more of each sequence, `draft_s` [s] of one step of the draft (0
    for n-grams), `drafted` [tokens], `acceptance` [1] -> [s].
    Theorem 3.8 of Leviathan et al. (2023) without their assumption that checking k + 1 tokens takes as long as one.
    """
    return np.asarray((verify_s + drafted * draft_s) / expected_tokens(acceptance, drafted=drafted))
