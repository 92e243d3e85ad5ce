"""Context, communication library, allocator slack."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.physics import memory_peak as overheads
from rightfit.physics.columns import DeviceColumns, SetupColumns

COEFFICIENTS = {
    "slack_bytes": 1e8,
    "slack_steady_ratio": 0.01,
    "slack_moving_ratio": 0.3,
    "slack_expandable_ratio": 0.1,
    "slack_varied_ratio": 1.0,
    "slack_varied_expandable": 0.5,
    "slack_stored_ratio": 0.05,
    "slack_overlap_ratio": 0.8,
    "squeezed_ratio": 0.03,
    "usable_fraction": 0.98,
    "inline_ecc_share": 0.0625,
}
MOMENT = {"steady": np.array([10e9]), "stored": np.array([4e9]), "spikes": np.array([2e9]), "buffers": np.array([1e9])}


def slack(setup: SetupColumns) -> float:
    return float(overheads.slack_bytes(MOMENT, np.zeros(1), setup, coefficients=COEFFICIENTS)[0])


def test_slack_by_hand() -> None:
    assert slack(SetupColumns()) == pytest.approx(1e8 + 1e8 + 2e8 + 0.3 * 2e9 + 0.3 * 1e9)


def test_varying_lengths_keep_more_and_expandable_segments_less() -> None:
    plain, varied, expandable = (
        slack(setup) for setup in (SetupColumns(), SetupColumns.of(variable_length=1), SetupColumns.of(expandable_segments=1))
    )
    assert varied - plain == pytest.approx(2e9)
    assert expandable < plain


def test_left_over_lies_between_reuse_and_none() -> None:
    left = overheads.left_over_bytes(np.array([5e9]), np.array([3e9]), SetupColumns(), coefficients=COEFFICIENTS)
    assert left[0] == pytest.approx(0.8 * 3e9)
    left = overheads.left_over_bytes(np.array([0.0]), np.array([3e9]), SetupColumns(), coefficients=COEFFICIENTS)
    assert left[0] == 3e9  # without scratch the cache of the activations simply stays


def test_context_grows_with_peers_up_to_a_node() -> None:
    sizes = [float(overheads.context_bytes(SetupColumns.of(data=n), context=5e8, per_peer=1e8, most_peers=8.0)[0]) for n in (1, 2, 8, 64)]
    assert sizes == [5e8, 6e8, 12e8, 12e8]


def test_usable_memory() -> None:
    card = DeviceColumns.of(memory_bytes=80e9)
    assert overheads.usable_bytes(card, coefficients=COEFFICIENTS)[0] == pytest.approx(78.4e9)
    assert overheads.squeezed_bytes(np.array([1e9]), coefficients=COEFFICIENTS)[0] == pytest.approx(3e7)


def test_cards_with_gddr6_keep_a_sixteenth_for_error_correction() -> None:
    """A10G: 24 GiB by name, 22.05 GiB in torch; error correction of HBM lies beside it."""
    plain, inline = DeviceColumns.of(memory_bytes=24e9), DeviceColumns.of(memory_bytes=24e9, inline_ecc=1)
    whole, kept = (overheads.usable_bytes(card, coefficients=COEFFICIENTS)[0] for card in (plain, inline))
    assert kept == pytest.approx(whole * 15 / 16)


@pytest.mark.parametrize(("num_sms", "expected"), [(0, 9e8), (40, 3.32e8), (84, 6.972e8), (108, 8.964e8), (132, 9e8), (304, 9e8)])
def test_the_driver_sets_memory_aside_for_each_multiprocessor(num_sms: int, expected: float) -> None:
    found = overheads.driver_bytes(DeviceColumns.of(num_sms=num_sms), usual=9e8, per_sm=8.3e6)
    assert float(found[0]) == pytest.approx(expected)
