"""Tokens and time of speculative decoding."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import decode


def test_expected_tokens_are_the_mean_of_the_law_of_accepted_runs() -> None:
    acceptance, drafted = 0.8, 4
    by_hand = sum((run + 1) * acceptance**run * (1 - acceptance) for run in range(drafted)) + (drafted + 1) * acceptance**drafted
    assert decode.expected_tokens(np.array([acceptance]), drafted=np.array([drafted]))[0] == pytest.approx(by_hand)
    assert by_hand == pytest.approx(3.3616)


def test_ends_of_the_law() -> None:
    tokens = decode.expected_tokens(np.array([0.0, 1.0, 0.5]), drafted=np.array([5.0, 5.0, 0.0]))
    np.testing.assert_allclose(tokens, [1.0, 6.0, 1.0])


def test_simulated_runs_agree() -> None:
    random = np.random.default_rng(5)
    accepted = random.random((200_000, 3)) < 0.7
    runs = np.cumprod(accepted, axis=1).sum(axis=1) + 1
    assert decode.expected_tokens(np.array([0.7]), drafted=np.array([3.0]))[0] == pytest.approx(runs.mean(), rel=5e-3)


def test_token_time_by_hand() -> None:
    time = decode.token_s(np.array([0.030]), draft_s=np.array([0.002]), drafted=np.array([3.0]), acceptance=np.array([0.7]))
    assert time[0] == pytest.approx((0.030 + 3 * 0.002) / (1 + 0.7 + 0.49 + 0.343))
