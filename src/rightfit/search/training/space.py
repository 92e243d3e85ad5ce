"""The candidate space: every way to lay a job out on n servers of g accelerators, as a struct
of integer arrays.

A setup is (variant, accelerators per node, nodes, tensor, pipeline, context, expert, sharding mode,
recomputation, micro-batch). What a setup means does not depend on the server, only on the number of
accelerators and on the variant (arithmetic and attention kernel that the accelerator can run), so
the table holds each setup once; candidates are servers x the setups of their block. Rows are made
by repeating and masking integer grids, never by a Python loop over rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Method, Recompute, SetupColumns
from rightfit.records import dataclass
from rightfit.search.criteria import ADAPTER_METHODS
from rightfit.search.rank import distinct_rows, ragged_arange

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]

NODE_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)
TENSOR_DEGREES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 16)
PIPELINE_DEGREES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
CONTEXT_DEGREES = (1, 2, 4, 8, 16)
EXPERT_DEGREES = (1, 2, 4, 8, 16, 32, 64)
LONG_SEQUENCE = 16_384
BATCH_TOLERANCE = 1.25
PIPELINE_IMBALANCE = 1.125


class Sharding(IntEnum):
    """How weights, gradients and optimizer state are spread over the data-parallel ranks, and what
    is moved to the host."""

    NONE = 0
    ZERO1 = 1
    ZERO2 = 2
    ZERO3 = 3
    HYBRID = 4
    OFFLOAD_OPTIMIZER = 5
    OFFLOAD_ALL = 6


SHARDING_NAMES = ("ddp", "zero-1", "zero-2", "zero-3", "hybrid", "zero-3", "zero-3")
OFFLOAD_NAMES = ("none", "none", "none", "none", "none", "optimizer", "optimizer+parameters")
ELABORATENESS = np.array([0, 1, 1, 2, 3, 3, 4], dtype=np.int32)
SHARD_STAGE = np.array([0, 1, 2, 3, 3, 3, 3], dtype=np.int32)


@dataclass(frozen=True, slots=True)
class SpaceLimits:
    """What bounds the space: the model's divisibility, the batch, what the training stack can do
    (`splits_models`: tensor, pipeline and expert parallelism), and what the user fixed (empty
    tuple: free). `last_resort`: shardings that are taken only where nothing else but offloading
    fits, which comes last of all; neither reaches over several servers then. `apart`: one in so
    many accelerators trains, the others run an engine beside the trainer. `by_server`: memory
    depends on the accelerators of a server, too."""

    num_heads: int
    num_layers: int
    num_experts: int
    global_batch: int
    seq_len: int
    method: Method
    splits_models: bool = True
    node_counts: tuple[int, ...] = NODE_COUNTS
    tensor: tuple[int, ...] = ()
    pipeline: tuple[int, ...] = ()
    micro_batch: tuple[int, ...] = ()
    recompute: tuple[int, ...] = ()
    sharding: tuple[int, ...] = ()
    last_resort: tuple[int, ...] = ()
    apart: int = 1
    by_server: bool = False


@dataclass(frozen=True, slots=True)
class SetupTable:
    """All setups, ordered by block (variant, accelerators per node), then nodes, then from plain to
    elaborate; recomputation varies fastest.

    `memory_group`, `compute_group`: numbers of the distinct combinations of what memory and compute
    time read besides variant, micro-batch and recomputation. They are found while the table is
    still small.
    """

    variant: Codes
    gpus_per_node: Codes
    nodes: Codes
    tensor: Codes
    pipeline: Codes
    context: Codes
    expert: Codes
    data: Codes
    sharding: Codes
    shard_degree: Codes
    recompute: Codes
    micro_batch: Codes
    grad_accum: Codes
    memory_group: Codes
    compute_group: Codes

    @property
    def num_rows(self) -> int:
        """Number of setups."""
        return int(self.nodes.shape[0])

    def take(self, index: NDArray[Any]) -> SetupTable:
        """Rows `index`."""
        return SetupTable(**{name: getattr(self, name)[index] for name in FIELDS})

    @property
    def elaborateness(self) -> Codes:
        """How many moving parts each setup has: the sharding mode, and one for each further
        kind of parallelism."""
        degrees = (self.tensor, self.pipeline, self.context, self.expert)
        return np.asarray(ELABORATENESS[self.sharding] + sum((degree > 1).astype(np.int32) for degree in degrees))

    def columns(self, base: SetupColumns) -> SetupColumns:
        """These rows as the physics reads them; `base` holds, for each variant, what the method and
        the precision decide."""
        stage = SHARD_STAGE[self.sharding]
        return base.take(self.variant.astype(np.intp)).replace(
            micro_batch=self.micro_batch,
            grad_accum=self.grad_accum,
            data=self.data,
            tensor=self.tensor,
            pipeline=self.pipeline,
            context=self.context,
            expert=self.expert,
            sequence_parallel=self.tensor > 1,
            shard_stage=stage,
            shard_degree=self.shard_degree,
            offload_optimizer=self.sharding >= Sharding.OFFLOAD_OPTIMIZER,
            offload_params=self.sharding == Sharding.OFFLOAD_ALL,
            recompute=self.recompute,
            gpus_per_node=self.gpus_per_node,
        )


FIELDS = tuple(field.name for field in dataclasses.fields(SetupTable))

Grid = dict[str, Codes]


def _grid(**axes: tuple[int, ...]) -> Grid:
    """Every combination of the axes' values, the last axis fastest."""
    mesh = np.meshgrid(*(np.array(values, dtype=np.int32) for values in axes.values()), indexing="ij")
    return {name: values.ravel() for name, values in zip(axes, mesh, strict=True)}


def _keep(grid: Grid, mask: Mask) -> Grid:
    return {name: values[mask] for name, values in grid.items()}


def _cross(grid: Grid, name: str, values: tuple[int, ...]) -> Grid:
    """Each row of the grid with each value of a further axis."""
    rows = next(iter(grid.values())).shape[0]
    crossed = {key: np.repeat(column, len(values)) for key, column in grid.items()}
    return {**crossed, name: np.tile(np.array(values, dtype=np.int32), rows)}


def _balanced(layers: int, stages: Codes) -> Mask:
    """Whether the fullest pipeline stage holds at most an eighth more layers than the average."""
    return (stages <= layers) & (-(-layers // stages) * stages <= PIPELINE_IMBALANCE * layers)


def _spread(limits: SpaceLimits, gpu_counts: tuple[int, ...]) -> Grid:
    """Parallel degrees for each number of accelerators per node and of nodes.

    Tensor, pipeline and expert parallelism only where the training stack has them. Tensor
    parallelism stays within a node and divides the heads; pipelines are balanced; experts
    divide both the data ranks and the number of experts; no more data-parallel ranks than
    sequences in the batch.
    """
    experts = EXPERT_DEGREES if limits.num_experts > 1 and limits.splits_models else (1,)
    contexts = CONTEXT_DEGREES if limits.seq_len > LONG_SEQUENCE else (1,)
    pipelines = limits.pipeline or (PIPELINE_DEGREES if limits.splits_models else (1,))
    tensors = limits.tensor or (TENSOR_DEGREES if limits.splits_models else (1,))
    grid = _grid(
        gpus_per_node=gpu_counts,
        nodes=limits.node_counts,
        pipeline=pipelines,
        tensor=tensors,
        context=contexts,
        expert=experts,
    )
    model_ranks = grid["tensor"] * grid["pipeline"] * grid["context"]
    total = grid["gpus_per_node"] * grid["nodes"] // limits.apart
    data = total // model_ranks
    mask = (grid["gpus_per_node"] % grid["tensor"] == 0) & (limits.num_heads % grid["tensor"] == 0)
    mask &= (data >= 1) & (data * model_ranks == total) & (data <= limits.global_batch)
    mask &= total * limits.apart == grid["gpus_per_node"] * grid["nodes"]
    mask &= _balanced(limits.num_layers, grid["pipeline"])
    mask &= (data % grid["expert"] == 0) & ((grid["expert"] == 1) | (limits.num_experts % grid["expert"] == 0))
    return _keep({**grid, "data": data.astype(np.int32)}, mask)


def _shardings(limits: SpaceLimits) -> tuple[int, ...]:
    """Sharding modes worth a look: an adapter has next to no optimizer state
    to shard or to move."""
    if limits.sharding:
        return limits.sharding
    if limits.method in ADAPTER_METHODS:
        return (Sharding.NONE, Sharding.ZERO3, Sharding.HYBRID, Sharding.OFFLOAD_ALL)
    return tuple(Sharding)


def _sharded(limits: SpaceLimits, grid: Grid) -> Grid:
    """Each spread with each sharding that works with it. Pipelines go with ZeRO-1 at most, hybrid
    sharding needs several nodes, offloading is for plain data parallelism (that is what
    ZeRO-Offload and FSDP implement)."""
    grid = _cross(grid, "sharding", _shardings(limits))
    mode, data = grid["sharding"], grid["data"]
    local = grid["gpus_per_node"] // (grid["tensor"] * grid["context"])
    alone = (grid["tensor"] == 1) & (grid["pipeline"] == 1) & (grid["context"] == 1)
    flat = grid["pipeline"] == 1
    shared = data > 1
    rules = [
        np.ones_like(shared),
        shared,
        shared & alone,
        shared & flat,
        shared & flat & (grid["nodes"] > 1) & (local > 1),
        alone,
        alone,
    ]
    mask = np.choose(mode, rules) & ~_across_servers(limits, grid)
    degree = np.where(mode == Sharding.NONE, 1, np.where(mode == Sharding.HYBRID, local, data)).astype(np.int32)
    return _grouped(_keep({**grid, "shard_degree": degree}, mask), by_server=limits.by_server)


def _across_servers(limits: SpaceLimits, grid: Grid) -> NDArray[np.bool_]:
    """Last resorts that would fetch their weights from other servers at every micro-step: no
    published run stands behind that, so it is done only where the user says so."""
    within = set(limits.last_resort) - {Sharding.HYBRID} | {Sharding.OFFLOAD_ALL}
    barred = bool(limits.last_resort) and not limits.sharding
    return np.asarray(np.isin(grid["sharding"], sorted(within)) & (grid["nodes"] > 1) & barred)


def _grouped(grid: Grid, *, by_server: bool) -> Grid:
    """Number the distinct combinations that memory and compute time depend on (see SetupTable).
    Memory reads the number of accelerators up to eight (communication buffers), and of the data
    ranks and of the nodes (whose error is larger) only whether there are several; where ranks
    shard, the degree says the rest."""
    accelerators = np.minimum(grid["gpus_per_node"] * grid["nodes"], 8)
    server = [grid["gpus_per_node"]] if by_server else []
    model_ranks = [grid[name] for name in ("tensor", "pipeline", "context", "expert")]
    several = (grid["data"] > 1).astype(np.int32) * 2 + (grid["nodes"] > 1)
    _, memory = distinct_rows([*model_ranks, grid["sharding"], grid["shard_degree"], accelerators, several, *server])
    third = (SHARD_STAGE[grid["sharding"]] >= 3).astype(np.int32)
    _, compute = distinct_rows([grid["tensor"], grid["context"], grid["expert"], third])
    return {**grid, "memory_group": memory.astype(np.int32), "compute_group": compute.astype(np.int32)}


def _batched(limits: SpaceLimits, grid: Grid) -> Grid:
    """Each sharding with each micro-batch (powers of two up to the rank's share of the global
    batch) and recomputation. Where the ranks do not divide the batch, the step is rounded up by at
    most a quarter (the number of steps is then smaller: the work stays the same). The recomputation
    levels of a setup are consecutive rows, least first: search/evaluate.py relies on it."""
    powers = tuple(2**power for power in range(max(1, limits.global_batch.bit_length())))
    grid = _cross(grid, "micro_batch", limits.micro_batch or powers)
    one_pass = grid["data"].astype(np.int64) * grid["micro_batch"]
    accumulate = -(-limits.global_batch // one_pass)
    mask = one_pass * accumulate <= BATCH_TOLERANCE * limits.global_batch
    grid = _keep({**grid, "grad_accum": accumulate.astype(np.int32)}, mask)
    return _cross(grid, "recompute", limits.recompute or tuple(Recompute))


@dataclass(frozen=True, slots=True)
class Space:
    """Setups with the range of rows of each block (variant, accelerators per node).
    `number[variant, accelerators]` is a block's number."""

    setups: SetupTable
    limits: SpaceLimits
    number: NDArray[np.intp]
    starts: NDArray[np.intp]
    counts: NDArray[np.intp]

    def block(self, variant: NDArray[np.intp], gpus_per_node: NDArray[np.intp]) -> NDArray[np.intp]:
        """Block number of each (variant, accelerators per node)."""
        return self.number[variant, gpus_per_node]


def build_space(limits: SpaceLimits, *, blocks: Iterable[tuple[int, int]]) -> Space:
    """All setups of the given blocks (variant, accelerators per node)."""
    wanted = np.array(sorted(set(blocks)), dtype=np.intp).reshape(-1, 2)
    gpu_counts, position = np.unique(wanted[:, 1], return_inverse=True)
    grid = _batched(limits, _sharded(limits, _spread(limits, tuple(gpu_counts.tolist()))))
    ends = np.searchsorted(grid["gpus_per_node"], gpu_counts, side="right")
    lengths = np.diff(ends, prepend=0)
    counts = lengths[position]
    of_block, offset = ragged_arange(counts)
    rows = (ends - lengths)[position][of_block] + offset
    setups = SetupTable(variant=wanted[of_block, 0].astype(np.int32), **{name: grid[name][rows] for name in FIELDS if name != "variant"})
    number = np.full((int(wanted[:, 0].max(initial=0)) + 1, int(gpu_counts.max(initial=0)) + 1), -1, dtype=np.intp)
    number[wanted[:, 0], wanted[:, 1]] = np.arange(wanted.shape[0])
    return Space(setups, limits, number, np.cumsum(counts) - counts, counts)
