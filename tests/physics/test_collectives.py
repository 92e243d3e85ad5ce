"""Collectives over real links."""

from __future__ import annotations

import numpy as np
import pytest
from tests.physics.typical import RATES as TYPICAL

from rightfit.physics import collectives
from rightfit.physics.columns import LinkColumns, SetupColumns

DGX = LinkColumns.of(intra_bandwidth=300e9, inter_bandwidth=200e9, intra_kind=3, inter_kind=2)
SLOW = LinkColumns.of(intra_bandwidth=300e9, inter_bandwidth=1.25e9, intra_kind=3, inter_kind=0)
CARDS = LinkColumns.of(intra_bandwidth=31.5e9, inter_bandwidth=12.5e9, intra_kind=1)
RATES = TYPICAL.replace(switch_fraction=0.8, pcie_fraction=0.5, socket_fraction=0.4, inter_fraction=0.8)
GIGABYTE = np.array([1e9])


def group(size: float, *, stride: float = 1, per_node: float = 8) -> collectives.Group:
    return collectives.group(np.array([size]), stride=np.array([stride]), gpus_per_node=np.array([per_node]))


def test_ring_all_reduce_by_hand() -> None:
    """2 (g - 1) / g x bytes / bus: 1 GB over 8 GPUs at 240 GB/s."""
    assert collectives.all_reduce_s(GIGABYTE, group(8), DGX, RATES)[0] == pytest.approx(2 * 7 / 8 * 1e9 / 240e9)


def test_gather_is_half_of_all_reduce() -> None:
    assert 2 * collectives.gather_s(GIGABYTE, group(8), DGX, RATES)[0] == pytest.approx(
        collectives.all_reduce_s(GIGABYTE, group(8), DGX, RATES)[0]
    )


def test_one_rank_says_nothing() -> None:
    for collective in (collectives.all_reduce_s, collectives.gather_s, collectives.all_to_all_s, collectives.send_s):
        assert collective(GIGABYTE, group(1), DGX, RATES)[0] == 0


def test_ring_over_nodes_runs_at_the_network() -> None:
    """16 GPUs of two nodes in one ring: 200 GB/s x 0.8 a node is below the switch."""
    assert collectives.gather_s(GIGABYTE, group(16), DGX, RATES)[0] == pytest.approx(15 / 16 * 1e9 / 160e9)


def test_siblings_share_the_network() -> None:
    """Data-parallel groups of a tensor-parallel-8 job: eight rings, one GPU a node each."""
    one = group(4, stride=8)
    assert (one.members[0], one.siblings[0]) == (1, 8)
    assert collectives.gather_s(GIGABYTE, one, DGX, RATES)[0] == pytest.approx(3 / 4 * 1e9 / 20e9)


def test_ten_gigabit_is_slow() -> None:
    assert (
        collectives.all_reduce_s(GIGABYTE, group(16), SLOW, RATES)[0] > 100 * collectives.all_reduce_s(GIGABYTE, group(8), SLOW, RATES)[0]
    )


def test_eight_cards_cross_sockets() -> None:
    four = collectives.all_reduce_s(GIGABYTE, group(4), CARDS, RATES)[0]
    eight = collectives.all_reduce_s(GIGABYTE, group(8), CARDS, RATES)[0]
    assert eight / four == pytest.approx((7 / 8) / (3 / 4) / 0.4)


def test_all_to_all_outside_shares_the_node() -> None:
    """16 ranks on two nodes: half of the data leaves, a GPU has an eighth of its node's network."""
    inside_only = collectives.all_to_all_s(GIGABYTE, group(8), DGX, RATES)[0]
    both = collectives.all_to_all_s(GIGABYTE, group(16), DGX, RATES)[0]
    assert inside_only == pytest.approx(7 / 8 * 1e9 / 240e9)
    assert both == pytest.approx(8 / 16 * 1e9 / 20e9)


def test_latency_counts_for_small_buffers() -> None:
    late = DGX.replace(intra_latency_s=3e-6, inter_latency_s=10e-6)
    assert collectives.gather_s(np.array([0.0]), group(64), late, RATES)[0] == pytest.approx(7 * 3e-6 + 3 * 10e-6)


def test_groups_of_a_layout() -> None:
    setup = SetupColumns.of(data=4, tensor=4, pipeline=4, gpus_per_node=8)
    assert collectives.tensor_group(setup).members[0] == 4
    assert collectives.data_group(setup).members[0] == 2
    assert collectives.data_group(setup).siblings[0] == 4
    assert collectives.pipeline_group(setup).members[0] == 1


@pytest.mark.parametrize("size", [2, 4, 8, 16, 64, 512])
def test_more_bytes_never_take_less_time(size: float) -> None:
    small = collectives.all_reduce_s(GIGABYTE, group(size), DGX, RATES)[0]
    assert collectives.all_reduce_s(2 * GIGABYTE, group(size), DGX, RATES)[0] > small
