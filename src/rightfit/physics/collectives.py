"""Time of collective communication by the alpha-beta model over the real links.

A ring over g ranks moves (g - 1) / g of the buffer per phase through the slowest link that it crosses (Thakur, Rabenseifner & Gropp 2005; NCCL
"busbw"); all-reduce is two phases, all-gather and reduce-scatter one. Latency is a logarithmic tree across nodes and a chain inside one, as
NCCL chooses for small messages. Ranks of one group inside a node share the node's network: a group of which `members` live in each node, beside
`siblings` other groups, gets 1 / siblings of the node's bandwidth.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from rightfit.physics.columns import Array, LinkColumns, SetupColumns
from rightfit.physics.rates import RateColumns


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """A communicator: `size` ranks, `members` of them in each node, `siblings` groups of its kind that share one node's network."""

    size: Array
    members: Array
    siblings: Array


def group(size: Array, *, stride: Array, gpus_per_node: Array) -> Group:
    """The group of `size` ranks that are `stride` apart in the order of ranks, nodes holding `gpus_per_node` consecutive ranks."""
    inside = np.clip(np.floor(gpus_per_node / stride), 1.0, size)
    siblings = np.minimum(gpus_per_node, stride * size) / inside
    return Group(size, inside, np.maximum(siblings, 1.0))


def link_bandwidth(links: LinkColumns, rates: RateColumns) -> tuple[Array, Array]:
    """Achieved bandwidth [bytes/s] inside a node (per GPU) and between nodes (per node), shape (N,)."""
    fraction = np.where(
        links.intra_kind >= 3, rates.switch_fraction, np.where(links.intra_kind == 2, rates.mesh_fraction, rates.pcie_fraction)
    )
    return np.maximum(links.intra_bandwidth * fraction, 1.0), np.maximum(links.inter_bandwidth * rates.inter_fraction, 1.0)


_CARDS_PER_SOCKET = 4.0


def _bus(ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    intra, inter = link_bandwidth(links, rates)
    crosses = (links.intra_kind <= 1) & (ranks.members > _CARDS_PER_SOCKET)
    intra = np.where(crosses, intra * rates.socket_fraction, intra)
    across = ranks.size > ranks.members
    return np.where(across, np.minimum(intra, inter / ranks.siblings), intra)


def _latency(ranks: Group, links: LinkColumns) -> Array:
    nodes = np.maximum(np.ceil(ranks.size / ranks.members), 1.0)
    return links.intra_latency_s * (ranks.members - 1) + links.inter_latency_s * np.ceil(np.log2(nodes))


def gather_s(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds of an all-gather or reduce-scatter whose full buffer has `size_bytes`, shape (N,): (g - 1) / g x bytes / bus + latency."""
    share = (ranks.size - 1.0) / ranks.size
    return np.where(ranks.size > 1, share * size_bytes / _bus(ranks, links, rates) + _latency(ranks, links), 0.0)


def all_reduce_s(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds of an all-reduce of `size_bytes`, shape (N,): reduce-scatter then all-gather."""
    return 2.0 * gather_s(size_bytes, ranks, links, rates)


def all_to_all_s(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds of an all-to-all in which each rank holds `size_bytes`, shape (N,).

    The part for ranks of the same node uses the inner links, the rest shares the node's network among all its GPUs.
    """
    intra, inter = link_bandwidth(links, rates)
    inside = (ranks.members - 1.0) / ranks.size * size_bytes / intra
    outside = (ranks.size - ranks.members) / ranks.size * size_bytes / (inter / np.maximum(ranks.siblings * ranks.members, 1.0))
    return np.where(ranks.size > 1, np.maximum(inside, outside) + _latency(ranks, links), 0.0)


def send_s(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds to pass `size_bytes` to the next rank of the group, shape (N,): over the network where neighbours are in different nodes."""
    intra, inter = link_bandwidth(links, rates)
    across = ranks.size > ranks.members
    bandwidth = np.where(across, np.minimum(intra, inter / ranks.siblings), intra)
    latency = np.where(across, links.inter_latency_s, links.intra_latency_s)
    return np.where(ranks.size > 1, size_bytes / bandwidth + latency, 0.0)


def tensor_group(setup: SetupColumns) -> Group:
    """Tensor-parallel ranks: neighbours."""
    return group(setup.tensor, stride=np.ones(1), gpus_per_node=setup.gpus_per_node)


def context_group(setup: SetupColumns) -> Group:
    """Context-parallel ranks: a tensor group apart."""
    return group(setup.context, stride=setup.tensor, gpus_per_node=setup.gpus_per_node)


def expert_group(setup: SetupColumns) -> Group:
    """Expert-parallel ranks: neighbours, folded over tensor, context and data ranks (experts themselves are then not cut by tensor)."""
    return group(setup.expert, stride=np.ones(1), gpus_per_node=setup.gpus_per_node)


def data_group(setup: SetupColumns, *, size: Array | None = None) -> Group:
    """Data-parallel ranks (or the first `size` of them), context ranks included: they hold the same weights."""
    return group(
        setup.data * setup.context if size is None else size,
        stride=setup.tensor,
        gpus_per_node=setup.gpus_per_node,
    )


def pipeline_group(setup: SetupColumns) -> Group:
    """Pipeline stages: outermost, a whole model-and-data slice apart."""
    return group(setup.pipeline, stride=setup.data * setup.tensor * setup.context, gpus_per_node=setup.gpus_per_node)
