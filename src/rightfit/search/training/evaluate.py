"""Candidates = machine classes x setups; memory and time of each, evaluated on the distinct keys
that they depend on.

Memory depends on the setup and hardly on the machine, so it is computed per distinct setup and
compared with every machine's capacity as an outer product. Only what fits gets a time. Of the
recomputation levels of one setup only the least that fits is timed, and the least that does with
room to spare: the others recompute more at the same layout and micro-batch, and physics.step gives
them at least the same time, because a
longer backward pass adds its whole length and hides at most `overlap` <= 1 of it in communication
(so no best answer is lost; the brute-force test evaluates them all). The result is, for each
machine class, node count and host-memory tier, the setup that takes least time.

One minimum is enough for every objective: with the server, the number of nodes, the region and the
purchase mode given, the cost grows with the run time (rent is non-decreasing in billed time,
storage is linear in it, the expected time under interruptions grows with the work), and so does the
time itself; so the fastest setup that fits is also the cheapest, and also best for any objective
that grows in both. Loading data sets a floor under the run time of each server and node count
afterwards (estimate/data_path.py), which keeps the order of setups.

"Fastest" gives way to plainness: each degree of elaborateness (space.SetupTable.elaborateness)
counts as `plain_preference` more time, so that two cards run DDP and not ZeRO-3 where that gains a
hundredth; and what may not fit counts as `tight_factor` times as long. Times in the answer are the
real ones of the setup taken.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.physics.columns import Array, Columns, DeviceColumns, LinkColumns, Recompute, SetupColumns, once
from rightfit.records import dataclass
from rightfit.search.rank import combine, distinct, distinct_rows
from rightfit.search.training.machines import KEPT, Machines, Piece, Timed, collapse
from rightfit.search.training.space import SetupTable, Sharding, Space

Index = NDArray[np.intp]
Mask = NDArray[np.bool_]

CHUNK_ROWS = 16_384
LARGEST_BATCH = 2_000_000


class Physics(Protocol):
    """What the search asks of estimate/: the real one is search.engine.Engine,
    tests bring their own."""

    @property
    def key(self) -> Hashable:
        """Names all that memory and times depend on beside setups and machines, so that they can be
        kept; None where nothing is kept."""
        ...

    def memory(self, setup: SetupColumns) -> Array:
        """Peak memory of each setup on one accelerator whose driver takes the most [bytes]."""

    def spared(self, device: DeviceColumns) -> Array:
        """What the driver of each accelerator takes less than the most [bytes]."""

    def safety(self, setup: SetupColumns, device: DeviceColumns, *, sure: bool = False) -> Array:
        """Factor on the peak memory of each setup that makes it fit `device` (one row) with the
        wanted probability, or surely (`sure`)."""

    def caution(self, device: DeviceColumns) -> Index:
        """Accelerators with the same number have the same `safety`."""

    def host(self, setup: SetupColumns) -> Array:
        """Host memory of each setup on one node [bytes]."""

    def capacity(self, device: DeviceColumns) -> Array:
        """What of each accelerator's memory a job can use [bytes]."""

    def compute(self, setup: SetupColumns, device: DeviceColumns) -> Columns:
        """Times of one micro-batch that do not depend on links, nodes, pipeline or accumulation."""

    def step_s(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, compute: Columns) -> Array:
        """Seconds of one optimizer step from `compute` and everything else."""


@dataclass(frozen=True, slots=True)
class Best:
    """The setup to take, by (machine class, node count, host tier): `run_s` of the work alone,
    `setup` row (-1: none fits), and whether its memory may not do (`is_tight`).

    A host tier t holds setups that need at most `tiers[t]` bytes of host memory. By (machine class,
    node count): `least_bytes`, the least memory on an accelerator (safety included) that any layout
    needs (infinite: no layout), and `least_host_bytes` of what fits.
    """

    run_s: Array
    setup: Index
    tiers: Array
    least_bytes: Array
    least_host_bytes: Array
    capacity_bytes: Array
    is_tight: NDArray[np.bool_]
    num_candidates: int
    num_timed: int

    def tier_of(self, host_memory: Array) -> Index:
        """The highest tier that a host can use, -1 for none; a host of unknown size
        (NaN) can use all."""
        amounts = np.where(np.isfinite(host_memory), host_memory, np.inf)
        return np.searchsorted(self.tiers, amounts, side="right") - 1


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What each setup needs [bytes]: on one accelerator at the peak, the same with the margin
    for safety and the one with which it surely fits, shape (caution class, setup), and on one host.
    `caution`: each machine's class, of those that have safety and the driver's share in common."""

    peak_bytes: Array
    safe_bytes: Array
    sure_bytes: Array
    host_bytes: Array
    caution: Index


def memory_key(setups: SetupTable) -> tuple[Index, Index]:
    """A representative setup of each distinct memory key, and each setup's key.

    Besides the group: variant, micro-batch, recomputation, and of the accumulation only whether
    there is any and how many micro-batches fill a pipeline.
    """
    accumulate = np.minimum(setups.grad_accum, np.maximum(setups.pipeline, 2))
    return distinct_rows([setups.variant, setups.memory_group, setups.recompute, accumulate, setups.micro_batch])


def resolved() -> float:
    """What of a need must find room: nothing is left out over less of it than is known [1]."""
    return 1.0 - float(facts.coefficients("planning")["memory_resolution"])


def memory_of(setups: SetupTable, base: SetupColumns, machines: Machines, physics: Physics) -> MemoryNeed:
    """Memory of every setup, evaluated once for each distinct key; host memory depends on
    accelerators per node too."""
    first, inverse = memory_key(setups)
    columns = collapse(setups.take(first).columns(base))
    peak = np.broadcast_to(physics.memory(columns), first.shape)
    cautions = np.broadcast_to(physics.caution(machines.device), (len(machines),))
    _, careful, caution = np.unique(cautions, return_index=True, return_inverse=True)
    devices = [machines.device.take(row[None]) for row in careful]
    spared = np.broadcast_to(physics.spared(machines.device), (len(machines),))
    shares, share = np.unique(spared, return_inverse=True)
    kinds, kind = np.unique(caution * shares.shape[0] + share, return_inverse=True)
    of_caution, of_share = np.divmod(kinds, shares.shape[0])
    least = np.maximum(peak - shares[of_share, None], 0.0)
    safe, sure = (
        (least * np.stack([np.broadcast_to(physics.safety(columns, one, sure=is_sure), first.shape) for one in devices])[of_caution])[
            :, inverse
        ]
        for is_sure in (False, True)
    )
    host_first, host_inverse = distinct_rows(
        [setups.variant, setups.sharding, setups.gpus_per_node, setups.nodes, (setups.tensor * setups.pipeline > 1).astype(np.int32)]
    )
    host = physics.host(collapse(setups.take(host_first).columns(base)))
    safe = safe * resolved()
    return MemoryNeed(peak[inverse], safe, sure, np.broadcast_to(host, host_first.shape)[host_inverse], kind)


def work_steps(setups: SetupTable, *, tokens: float, seq_len: int) -> Array:
    """Optimizer steps for the whole work: ceil(tokens / tokens per step), at least one. A layout
    whose batch was rounded up takes fewer."""
    batch = setups.data * setups.micro_batch.astype(np.float64) * setups.grad_accum
    return np.maximum(np.ceil(tokens / (batch * seq_len) - 1e-9), 1.0)


def batches(space: Space, machines: Machines) -> Iterator[Index]:
    """Machine classes in groups of at most LARGEST_BATCH candidates (or one class), so that memory
    stays bounded whatever the size of the table."""
    block = space.block(machines.variant, machines.gpus_per_node)
    order = np.argsort(block, kind="stable")
    number = (np.cumsum(space.counts[block[order]]) - 1) // LARGEST_BATCH
    for one in once(number):
        yield order[number == one]


def fitting_rows(
    space: Space, machines: Machines, need: MemoryNeed, capacity: Array, *, members: Index, every_level: bool = False
) -> tuple[Index, Index]:
    """(machine class, setup) of every candidate of `members` that fits, at the first level of
    recomputation at which it does, and at which it surely does; with `every_level` dominated ones
    too."""
    levels = 1 if every_level else len(space.limits.recompute) or len(Recompute)
    block = space.block(machines.variant[members], machines.gpus_per_node[members])
    caution = need.caution[members]
    kind, number = distinct(block * need.safe_bytes.shape[0] + caution, space.counts.shape[0] * need.safe_bytes.shape[0])
    found = [(np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp))]
    for position, one in enumerate(kind.tolist()):
        at, careful = divmod(one, need.safe_bytes.shape[0])
        same = members[number == position]
        rows = slice(int(space.starts[at]), int(space.starts[at] + space.counts[at]))
        room = capacity[same, None]
        fits = first_level(need.safe_bytes[careful, None, rows] <= room, levels)
        fits |= first_level(need.sure_bytes[careful, None, rows] <= room, levels)
        machine, setup = np.nonzero(fits)
        found.append((same[machine], setup + rows.start))
    return np.concatenate([machine for machine, _ in found]), np.concatenate([setup for _, setup in found])


def first_level(fits: Mask, levels: int) -> Mask:
    """Keep, of each run of `levels` consecutive setups, the first that fits."""
    shaped = fits.reshape(fits.shape[0], -1, levels).copy()
    taken = shaped[:, :, 0].copy()
    for level in range(1, levels):
        shaped[:, :, level] &= ~taken
        taken |= shaped[:, :, level]
    return shaped.reshape(fits.shape)


def chunks(size: int, rows: int = CHUNK_ROWS) -> Iterator[slice]:
    """Slices of at most `rows`: small enough that a column stays in the processor's cache, and
    memory stays bounded."""
    for start in range(0, size, rows):
        yield slice(start, min(start + rows, size))


@dataclass(frozen=True, slots=True)
class Timer:
    """Times candidates: the compute part once for each distinct (accelerator, compute key), the
    rest row by row in chunks."""

    columns: SetupColumns
    machines: Machines
    physics: Physics
    position: NDArray[np.int32]
    compute: Columns
    compute_key: Index
    num_keys: int

    def step_s(self, machine: Index, setup: Index) -> Array:
        """Seconds of one step for each candidate."""
        out = np.empty(machine.shape[0])
        for piece in chunks(machine.shape[0]):
            rows, setups = machine[piece], setup[piece]
            code = self.machines.device_code[rows] * self.num_keys + self.compute_key[setups]
            compute = self.compute.take(self.position[code].astype(np.intp))
            chosen = self.columns.take(setups)
            out[piece] = self.physics.step_s(chosen, self.machines.device.take(rows), self.machines.links.take(rows), compute)
        return out


def compute_key(setups: SetupTable) -> tuple[Index, int, Index]:
    """Each setup's compute key, the number of keys, and a representative setup of each."""
    first, inverse = distinct_rows([setups.variant, setups.compute_group, setups.recompute, setups.micro_batch])
    return inverse, first.shape[0], first


def build_timer(
    columns: SetupColumns, keys: tuple[Index, int, Index], machines: Machines, physics: Physics, *, machine: Index, setup: Index
) -> Timer:
    """Evaluate the compute part of the given candidates. `columns`: every setup as the physics
    reads it; `keys`: compute_key of the table."""
    key, num_keys, first = keys
    device_code = machines.device_code
    codes, size = combine([device_code[machine], key[setup]], [int(device_code.max(initial=0)) + 1, num_keys])
    unique, _ = distinct(codes, size)
    position = np.zeros(size, dtype=np.int32)
    position[unique] = np.arange(unique.shape[0], dtype=np.int32)
    representative = np.zeros(int(device_code.max(initial=0)) + 1, dtype=np.intp)
    representative[device_code[::-1]] = np.arange(device_code.shape[0])[::-1]
    parts = []
    for piece in chunks(unique.shape[0], CHUNK_ROWS // 2):
        device_row, key_row = np.divmod(unique[piece], num_keys)
        parts.append(physics.compute(columns.take(first[key_row]), machines.device.take(representative[device_row])))
    compute = collapse(type(parts[0]).stack(parts)) if parts else physics.compute(columns.take(first[:0]), machines.device.take(first[:0]))
    return Timer(columns, machines, physics, position, compute, key, num_keys)


def host_tiers(host_bytes: Array, host_memory: Array) -> tuple[Array, Index]:
    """Tiers of host memory: the distinct amounts that servers have, as far as setups differ in
    them. Each setup's tier is the smallest amount that holds it; the last tier (there is always
    one) is for what no server holds."""
    amounts = np.append(once(host_memory[np.isfinite(host_memory)]), np.inf)
    last = amounts.shape[0] - 1
    used, tier = distinct(np.append(np.searchsorted(amounts, host_bytes), last), amounts.shape[0])
    return amounts[used], tier[:-1]


def preference(setups: SetupTable, *, last_resort: tuple[int, ...] = ()) -> Array:
    """Factor on each setup's time when setups are compared: over 1 for elaborate ones, and so
    large that anything else that fits goes before it for what is a last resort, offloading
    the very last."""
    usual = facts.coefficients("planning")
    last = np.isin(setups.sharding, last_resort).astype(np.int32) + 2 * (setups.sharding >= Sharding.OFFLOAD_OPTIMIZER)
    return np.asarray((1.0 + usual["plain_preference"] * setups.elaborateness) * usual["last_resort_factor"] ** np.minimum(last, 2))


@dataclass(frozen=True, slots=True)
class Leaders:
    """The setup to take of each place, found so far: `weighed` time (with the preference), real
    `run_s`, `setup` row, shape (T, ...) with host tiers first. Filled in place."""

    weighed: Array
    run_s: Array
    setup: Index

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Leaders:
        """No setup anywhere yet."""
        return cls(np.full(shape, np.inf), np.full(shape, np.inf), np.full(shape, -1, dtype=np.intp))

    def enter(self, *, place: Index, weighed: Array, run_s: Array, setup: Index) -> None:
        """Take the candidates that are best at their place (flat index); of
        equal ones the first."""
        least = self.weighed.reshape(-1)
        np.minimum.at(least, place, weighed)
        winners = np.flatnonzero(weighed == least[place])[::-1]
        self.setup.reshape(-1)[place[winners]] = setup[winners]
        self.run_s.reshape(-1)[place[winners]] = run_s[winners]

    def share_tiers(self) -> None:
        """A server with more host memory may also use the setups of lower tiers: running minimum
        over the first axis."""
        for tier in range(1, self.weighed.shape[0]):
            lower = self.weighed[tier - 1] <= self.weighed[tier]
            for values in (self.weighed, self.run_s, self.setup):
                np.copyto(values[tier], values[tier - 1], where=lower)


def search_setups(
    space: Space,
    machines: Machines,
    base: SetupColumns,
    physics: Physics,
    *,
    tokens: float,
    host_memory: Array,
    every_level: bool = False,
) -> Best:
    """Memory, fit and time of every candidate; the best by (machine class, node
    count, host tier)."""
    setups = space.setups
    if not len(machines):
        return nothing(len(space.limits.node_counts))
    timed = time_setups(space, machines, base, physics, every_level=every_level)
    tiers, tier = host_tiers(timed.host_bytes, host_memory)
    node = node_index(space)
    shape = (tiers.shape[0], len(machines), len(space.limits.node_counts))
    leaders, factor = Leaders.none(shape), preference(setups, last_resort=space.limits.last_resort)
    least_host = np.full(shape[1:], np.inf)
    steps = work_steps(setups, tokens=tokens, seq_len=int(base.seq_len[0]))
    num_timed = 0
    for machine, setup, step_s, doubt, count in timed.pieces:
        seconds = step_s * steps[setup]
        place = machine * shape[2] + node[setup]
        leaders.enter(place=tier[setup] * least_host.size + place, weighed=seconds * factor[setup] * doubt, run_s=seconds, setup=setup)
        np.minimum.at(least_host.reshape(-1), place, timed.host_bytes[setup])
        num_timed += count
    leaders.share_tiers()
    sure = leaders.run_s * np.append(factor, 1.0)[leaders.setup] * (1.0 + 1e-9)
    block = space.block(machines.variant, machines.gpus_per_node)
    return Best(
        run_s=np.moveaxis(leaders.run_s, 0, -1),
        setup=np.moveaxis(leaders.setup, 0, -1),
        tiers=tiers,
        least_bytes=timed.least_bytes,
        least_host_bytes=least_host,
        capacity_bytes=timed.capacity,
        is_tight=np.moveaxis(leaders.weighed > sure, 0, -1),
        num_candidates=int(space.counts[block].sum()),
        num_timed=num_timed,
    )


def time_setups(space: Space, machines: Machines, base: SetupColumns, physics: Physics, *, every_level: bool) -> Timed:
    """What setups need, and the times of the contenders among all candidates that fit; from before
    where the job is known."""
    key = None
    if physics.key is not None:
        key = (physics.key, space.limits, base.content(), every_level)
        known = KEPT.get(key, machines)
        if known is not None:
            return known
    need = memory_of(space.setups, base, machines, physics)
    capacity = np.broadcast_to(physics.capacity(machines.device), (len(machines),))

    def pieces() -> Iterator[Piece]:
        columns, keys = collapse(space.setups.columns(base)), compute_key(space.setups)
        alike, factor = alike_setups(space, need.host_bytes), preference(space.setups, last_resort=space.limits.last_resort)
        for members in batches(space, machines):
            machine, setup = fitting_rows(space, machines, need, capacity, members=members, every_level=every_level)
            step_s = build_timer(columns, keys, machines, physics, machine=machine, setup=setup).step_s(machine, setup)
            doubt = tight_factor(need, capacity, machine=machine, setup=setup)
            first = contenders(alike, machine=machine, setup=setup, weighed=step_s * factor[setup] * doubt)
            yield Piece(machine[first], setup[first], step_s[first], doubt[first], machine.shape[0])

    timed = Timed(need.host_bytes, least_memory(space, machines, need), capacity, pieces())
    return timed if key is None else KEPT.kept(key, machines, timed)


def tight_factor(need: MemoryNeed, capacity: Array, *, machine: Index, setup: Index) -> Array:
    """Factor on the time of candidates whose memory may not do: a smaller batch that surely fits
    goes before them."""
    is_tight = need.sure_bytes[need.caution[machine], setup] > capacity[machine]
    return np.where(is_tight, facts.coefficients("planning")["tight_factor"], 1.0)


def alike_setups(space: Space, host_bytes: Array) -> Index:
    """A number for each setup; those of a block with the same servers, samples in a step and host
    memory share it. However much work there is, they take the same number of steps and the same
    hosts, so that of one machine class only the fastest of them can be chosen."""
    setups = space.setups
    batch = np.unique(setups.data.astype(np.int64) * setups.micro_batch * setups.grad_accum, return_inverse=True)[1]
    host = np.unique(host_bytes, return_inverse=True)[1]
    return distinct_rows([setups.nodes, batch, host])[1]


def contenders(alike: Index, *, machine: Index, setup: Index, weighed: Array) -> Index:
    """Of the candidates of each machine class whose setups are alike, the one of least `weighed`
    time (of equal ones the first) -> rows."""
    code, size = combine([machine, alike[setup]], [int(machine.max(initial=0)) + 1, int(alike.max(initial=0)) + 1])
    unique, code = distinct(code, size)
    least = np.full(unique.shape[0], np.inf)
    np.minimum.at(least, code, weighed)
    best = np.flatnonzero(weighed == least[code])[::-1]
    first = np.empty(unique.shape[0], dtype=np.intp)
    first[code[best]] = best
    return np.sort(first)


def nothing(num_node_counts: int) -> Best:
    """The answer where no server can run the job at all."""
    empty = np.zeros((0, num_node_counts))
    shape = (0, num_node_counts, 1)
    rows, flags = np.zeros(shape, dtype=np.intp), np.zeros(shape, dtype=np.bool_)
    return Best(empty[:, :, None], rows, np.array([np.inf]), empty, empty, np.zeros(0), flags, 0, 0)


def node_index(space: Space) -> Index:
    """The place of each setup's number of servers among those of the space."""
    return np.searchsorted(np.array(space.limits.node_counts), space.setups.nodes)


def least_memory(space: Space, machines: Machines, need: MemoryNeed) -> Array:
    """Least safe memory of any setup, by (machine class, node count); infinite where
    there is no setup."""
    blocks, nodes = space.counts.shape[0], len(space.limits.node_counts)
    place = np.repeat(np.arange(blocks), space.counts) * nodes + node_index(space)
    least = np.full((need.safe_bytes.shape[0], blocks * nodes), np.inf)
    for caution, safe in enumerate(need.safe_bytes):
        np.minimum.at(least[caution], place, safe)
    return least.reshape(-1, blocks, nodes)[need.caution, space.block(machines.variant, machines.gpus_per_node)]
