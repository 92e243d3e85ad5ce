"""Time of collective communication by the alpha-beta model over the real links.

A ring over g ranks moves (g - 1) / g of the buffer per phase through the slowest link that it
crosses (Thakur, Rabenseifner & Gropp 2005; NCCL "busbw"); all-reduce is two phases, all-gather
and reduce-scatter one. Latency is a logarithmic tree across nodes and a chain inside one, as
NCCL chooses for small messages. Ranks of one group inside a node share the node's network: a
group of which `members` live in each node, beside `siblings` other groups, gets 1 / siblings of
the node's bandwidth.

Source: Thakur et al. 2005; NVIDIA, nccl-tests, PERFORMANCE.md;
docs/decisions/speed-time-physics.md.

Pipeline parallelism: idle time at the start and end of a step, and the imbalance of stages.

1F1B and GPipe idle (p - 1) micro-batch times; interleaving v chunks per stage divides that by v
(Narayanan et al. 2021). A pipeline runs at the pace of its slowest stage: the last one also holds
the vocabulary head.

Source: Narayanan et al. 2021.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array, IntraKind, LinkColumns, SetupColumns
from rightfit.physics.operators import RateColumns
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """A communicator: `size` ranks, `members` of them in each node, `siblings` groups of its kind
    that share one node's network.

    Units: `size`, `members` [GPUs], `siblings` [1].
    """

    size: Array
    members: Array
    siblings: Array


def group(size: Array, *, stride: Array, gpus_per_node: Array) -> Group:
    """The group of `size` ranks that are `stride` apart in the order of ranks, nodes holding
    `gpus_per_node` consecutive ranks.

    `size` [GPUs], `stride` [GPUs], `gpus_per_node` [GPUs].
    """
    inside = np.clip(np.floor(gpus_per_node / stride), 1.0, size)
    siblings = np.minimum(gpus_per_node, stride * size) / inside
    return Group(size, inside, np.maximum(siblings, 1.0))


def link_bandwidth(links: LinkColumns, rates: RateColumns) -> tuple[Array, Array]:
    """Achieved bandwidth inside a node (per GPU) and between nodes (per node) ->
    [bytes/s], [bytes/s]."""
    fraction = np.where(
        links.intra_kind >= IntraKind.SWITCH,
        rates.switch_fraction,
        np.where(links.intra_kind == IntraKind.NVLINK, rates.mesh_fraction, rates.pcie_fraction),
    )
    return np.maximum(links.intra_bandwidth * fraction, 1.0), np.maximum(links.inter_bandwidth * rates.inter_fraction, 1.0)


def _bus(ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    intra, inter = link_bandwidth(links, rates)
    crosses = (links.intra_kind <= IntraKind.PCIE) & (ranks.members > rates.cards_per_socket)
    intra = np.where(crosses, intra * rates.socket_fraction, intra)
    across = ranks.size > ranks.members
    return np.where(across, np.minimum(intra, inter / ranks.siblings), intra)


def _latency(ranks: Group, links: LinkColumns) -> Array:
    nodes = np.maximum(np.ceil(ranks.size / ranks.members), 1.0)
    return links.intra_latency_s * (ranks.members - 1) + links.inter_latency_s * np.ceil(np.log2(nodes))


def _is_alone(ranks: Group) -> bool:
    """Whether no row has anybody to talk to: most set-ups use a few of the
    ways to split a model."""
    return not bool((ranks.size > 1).any())


def _nothing(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """No time, for each row."""
    return np.zeros(np.broadcast_shapes(size_bytes.shape, ranks.size.shape, links.intra_kind.shape, rates.switch_fraction.shape))


def gather_s(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds of an all-gather or reduce-scatter whose full buffer has `size_bytes`: (g - 1) / g x
    bytes / bus + latency.

    `size_bytes` [bytes] -> [s].
    """
    if _is_alone(ranks):
        return _nothing(size_bytes, ranks, links, rates)
    share = (ranks.size - 1.0) / ranks.size
    return np.where(ranks.size > 1, share * size_bytes / _bus(ranks, links, rates) + _latency(ranks, links), 0.0)


def all_reduce_s(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds of an all-reduce of `size_bytes`: reduce-scatter then all-gather.

    `size_bytes` [bytes] -> [s].
    """
    return 2.0 * gather_s(size_bytes, ranks, links, rates)


def all_to_all_s(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds of an all-to-all in which each rank holds `size_bytes`.

    `size_bytes` [bytes] -> [s].
    The part for ranks of the same node uses the inner links, the rest shares the node's network
    among all its GPUs.
    """
    if _is_alone(ranks):
        return _nothing(size_bytes, ranks, links, rates)
    intra, inter = link_bandwidth(links, rates)
    inside = (ranks.members - 1.0) / ranks.size * size_bytes / intra
    outside = (ranks.size - ranks.members) / ranks.size * size_bytes / (inter / np.maximum(ranks.siblings * ranks.members, 1.0))
    return np.where(ranks.size > 1, np.maximum(inside, outside) + _latency(ranks, links), 0.0)


def dispatch_s(token_bytes: Array, chosen: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds to send each token to its experts, or back: once to each server that holds one of
    them, from there to every chosen expert.

    `token_bytes` [bytes] of all tokens of a rank, each counted once, `chosen` [experts] of a token,
    spread evenly -> [s]. Of n servers a token needs n (1 - (1 - 1/n)^chosen) on average. Source:
    DeepSeek-AI 2024 (DeepSeek-V3, cross-node all-to-all).
    """
    if _is_alone(ranks):
        return _nothing(token_bytes * chosen, ranks, links, rates)
    intra, inter = link_bandwidth(links, rates)
    servers = np.maximum(ranks.size / ranks.members, 1.0)
    inside = (ranks.members - 1.0) / ranks.members * chosen * token_bytes / intra
    reached = (servers - 1.0) * (1.0 - (1.0 - 1.0 / servers) ** chosen)
    outside = reached * token_bytes / (inter / np.maximum(ranks.siblings * ranks.members, 1.0))
    return np.where(ranks.size > 1, np.maximum(inside, outside) + _latency(ranks, links), 0.0)


def send_s(size_bytes: Array, ranks: Group, links: LinkColumns, rates: RateColumns) -> Array:
    """Seconds to pass `size_bytes` to the next rank of the group: over the network where neighbours
    are in different nodes.

    `size_bytes` [bytes] -> [s].
    """
    if _is_alone(ranks):
        return _nothing(size_bytes, ranks, links, rates)
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
    """Expert-parallel ranks: neighbours, folded over tensor, context and data ranks (experts
    themselves are then not cut by tensor)."""
    return group(setup.expert, stride=np.ones(1), gpus_per_node=setup.gpus_per_node)


def data_group(setup: SetupColumns, *, size: Array | None = None) -> Group:
    """Data-parallel ranks (or the first `size` of them), context ranks included: they
    hold the same weights.

    `size` [GPUs].
    """
    return group(
        setup.data * setup.context if size is None else size,
        stride=setup.tensor,
        gpus_per_node=setup.gpus_per_node,
    )


def pipeline_group(setup: SetupColumns) -> Group:
    """Pipeline stages: outermost, a whole model-and-data slice apart."""
    return group(setup.pipeline, stride=setup.data * setup.tensor * setup.context, gpus_per_node=setup.gpus_per_node)


def step_parts(*, body_s: Array, head_s: Array, stages: Array, micro_batches: Array, chunks: Array, layers: Array) -> tuple[Array, Array]:
    """Busy and idle seconds of a step.

    `body_s`, `head_s` [s] of one micro-batch in all layers and in the head, `stages` [GPUs],
    `micro_batches` [micro-batches], `chunks` [1] per stage, `layers` [layers] -> [s], [s]. A full
    stage holds ceil(layers / stages) layers; the last one holds the remainder and the head (a
    remainder is usually chosen for that: 126 layers on 8 stages, 94 on 32). Busy is what one GPU
    works on average; idle the bubble plus waiting for the slowest stage.

    Source: Narayanan et al. 2021.
    """
    per_layer = body_s / np.maximum(layers, 1.0)
    full = np.ceil(layers / stages)
    last = np.maximum(layers - (stages - 1.0) * full, 0.0) * per_layer + head_s
    mean = (body_s + head_s) / stages
    slowest = np.where(stages > 1, np.maximum(full * per_layer, last), mean)
    total = micro_batches * slowest + (stages - 1.0) * mean / np.maximum(chunks, 1.0)
    busy = micro_batches * mean
    return busy, total - busy
