"""The servers as physics sees them: machines that differ in nothing physics reads are
one machine class.

Prices, regions, names and host sizes do not change how fast a step is, so hundreds of server types
become a few classes, and each class is evaluated once. What a server's accelerator cannot do (an
arithmetic, training at all) is recorded here as its missing capability.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.convert import device_columns, link_columns
from rightfit.estimation.figures import normal_score
from rightfit.facts.devices import trains_and_packs
from rightfit.facts.records import Accelerator
from rightfit.physics.columns import Array, Columns, DeviceColumns, LinkColumns, Method
from rightfit.recent import Recent
from rightfit.records import dataclass
from rightfit.search.criteria import stack_of

if TYPE_CHECKING:
    from rightfit.market import ServerTable


Index = NDArray[np.intp]
AnyColumns = TypeVar("AnyColumns", bound=Columns)


@dataclass(frozen=True, slots=True)
class Variant:
    """What the accelerator decides about the setup: arithmetic and attention kernel."""

    precision: str
    flash: bool


@dataclass(frozen=True, slots=True)
class Machines:
    """Machine classes: one row each. `device` and `links` have one row a class; `variant`
    indexes `variants`."""

    accelerators: tuple[str, ...]
    gpus_per_node: Index
    memory_bytes: Array
    device: DeviceColumns
    device_code: Index
    links: LinkColumns
    variant: Index
    variants: tuple[Variant, ...]

    def __len__(self) -> int:
        return len(self.accelerators)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """(variant, accelerators per node) of each class."""
        return list(zip(self.variant.tolist(), self.gpus_per_node.tolist(), strict=True))

    def take(self, rows: Index) -> Machines:
        """The given classes."""
        return Machines(
            accelerators=tuple(self.accelerators[row] for row in rows.tolist()),
            gpus_per_node=self.gpus_per_node[rows],
            memory_bytes=self.memory_bytes[rows],
            device=self.device.take(rows),
            device_code=self.device_code[rows],
            links=self.links.take(rows),
            variant=self.variant[rows],
            variants=self.variants,
        )


@dataclass(frozen=True, slots=True)
class Fleet:
    """Every server with its machine class (-1: it cannot run this at all) and the capability that
    it lacks (empty: none)."""

    machines: Machines
    machine_index: Index
    missing: tuple[str, ...]


def behind(accelerator: Accelerator) -> Accelerator:
    """The chip that a label stands for: where a cloud hides the chip and its rates are not
    published, those of the accelerator that it equals by the cloud's own figures, with the memory
    that is published."""
    known = facts.accelerators().get(accelerator.equivalent_to)
    if known is None or (accelerator.memory_bandwidth > 0 and max(accelerator.bf16_flops, accelerator.fp16_flops) > 0):
        return accelerator
    return dataclasses.replace(known, name=accelerator.name, memory_bytes=accelerator.memory_bytes, equivalent_to=known.name)


def lacks(accelerator: Accelerator, *, method: Method, precision: str) -> str:
    """The capability that this accelerator lacks for the job; empty when it has all."""
    trains, packs = trains_and_packs(accelerator.name)
    if not trains:
        return "training"
    if method == Method.QLORA and not (packs and stack_of(accelerator)):
        return "nf4"
    rates = {"bf16": accelerator.bf16_flops, "fp16": accelerator.fp16_flops, "fp8": accelerator.fp8_flops, "tf32": accelerator.tf32_flops}
    if precision in rates and rates[precision] <= 0:
        return precision
    return "" if max(accelerator.fp32_flops, *rates.values()) > 0 and accelerator.memory_bytes > 0 else "specifications"


def variant_of(accelerator: Accelerator, *, precision: str, attention: str) -> Variant:
    """The arithmetic to use: the one asked for, else bf16, else fp16 where it
    is faster than fp32."""
    flash = accelerator.supports_flash_attention and attention in ("", "flash")
    if precision:
        return Variant(precision, flash)
    if accelerator.supports_bf16:
        return Variant("bf16", flash)
    return Variant("fp16" if accelerator.fp16_flops > accelerator.fp32_flops else "fp32", flash)


def build_fleet(servers: ServerTable, *, method: Method, precision: str = "", attention: str = "") -> Fleet:
    """Machine classes of a table of servers. Slices of an accelerator get no class: physics
    knows whole ones only."""
    known, classes = chips(servers), MachineClasses(len(servers))
    verdicts = {name: lacks(card, method=method, precision=precision) for name, card in known.items()}
    missing = []
    for server, key in enumerate(linked(servers)):
        missing.append(verdicts.get(key[0], "accelerator") or part_of_card(key[1]))
        if not missing[-1]:
            classes.put(server, key)
    return Fleet(_machines(servers, classes.first, precision=precision, attention=attention), classes.index, tuple(missing))


class MachineClasses:
    """Servers gathered by what tells them apart: the `first` server of each class, and the class of
    each server (`index`; -1: none)."""

    def __init__(self, num_servers: int) -> None:
        self.index = np.full(num_servers, -1, dtype=np.intp)
        self.first: list[int] = []
        self._known: dict[tuple[object, ...], int] = {}

    def put(self, server: int, key: tuple[object, ...]) -> bool:
        """Put a server into its class; whether it is the first there."""
        is_new = key not in self._known
        if is_new:
            self._known[key] = len(self.first)
            self.first.append(server)
        self.index[server] = self._known[key]
        return is_new


def linked(servers: ServerTable) -> Iterator[tuple[str, float, str, str, float]]:
    """Accelerators of each server and what joins them within it and beyond, as far as physics reads
    it: (name, count, link, RDMA, bytes/s)."""
    counts, network = servers.num_accelerators.tolist(), np.nan_to_num(servers.network_bytes_per_s).tolist()
    within = (link if count > 1 else "" for link, count in zip(servers.gpu_interconnect, counts, strict=True))
    return zip(servers.accelerator_name, counts, within, servers.rdma, network, strict=True)


def part_of_card(count: float) -> str:
    """What a server with a part of a card lacks; empty of whole ones."""
    return "whole accelerators" if count < 1 or count != int(count) else ""


def chips(servers: ServerTable) -> dict[str, Accelerator]:
    """The accelerators of a table of servers that the facts know, by the name used there."""
    known = facts.accelerators()
    return {name: behind(known[name]) for name in dict.fromkeys(servers.accelerator_name) if name in known}


def _machines(servers: ServerTable, first: Sequence[int], *, precision: str, attention: str) -> Machines:
    known = chips(servers)
    names = tuple(servers.accelerator_name[row] for row in first)
    distinct = tuple(dict.fromkeys(names))
    code = {name: number for number, name in enumerate(distinct)}
    wanted = {name: variant_of(known[name], precision=precision, attention=attention) for name in distinct}
    variants = tuple(dict.fromkeys(wanted[name] for name in names)) or (Variant(precision or "bf16", True),)
    device_code = np.array([code[name] for name in names], dtype=np.intp)
    device = device_columns([known[name] for name in distinct]) if distinct else DeviceColumns()
    picks = list(first)
    return Machines(
        accelerators=names,
        gpus_per_node=servers.num_accelerators[picks].astype(np.intp),
        memory_bytes=np.array([known[name].memory_bytes for name in names]),
        device=device.take(device_code),
        device_code=device_code,
        links=links_of(servers, picks),
        variant=np.array([variants.index(wanted[name]) for name in names], dtype=np.intp),
        variants=variants,
    )


def links_of(servers: ServerTable, picks: list[int]) -> LinkColumns:
    """What joins the accelerators of some servers."""
    if not picks:
        return LinkColumns()
    return link_columns(
        [servers.accelerator_name[row] for row in picks],
        num_accelerators=servers.num_accelerators[picks],
        gpu_interconnect=[servers.gpu_interconnect[row] for row in picks],
        rdma=[servers.rdma[row] for row in picks],
        network_bytes_per_s=servers.network_bytes_per_s[picks],
    )


def collapse(columns: AnyColumns) -> AnyColumns:
    """Fields that are the same in every row become one value: `take` then leaves them alone."""
    values = {field.name: getattr(columns, field.name) for field in dataclasses.fields(columns)}
    same = {name: value[:1] for name, value in values.items() if value.shape[0] > 1 and np.all(value == value[0])}
    return columns.replace(**same)


# ---- What every setup needs and how long the steps of the contenders take, kept between questions:
# neither depends on the amount of work, prices, limits or places, which are what most next
# questions change.

Codes = NDArray[Any]


def surely(high80: Array, high95: Array) -> Array:
    """The factor that an error exceeds one time in twenty, between those of one in ten and one in
    forty: where the normal law has it between them, which is no less than laws of longer tails."""
    ninety, ninety_five, further = (normal_score(share) for share in (0.9, 0.95, 0.975))
    part = (ninety_five - ninety) / (further - ninety)
    return np.asarray(high80 ** (1.0 - part) * high95**part)


class Piece(NamedTuple):
    """Contenders of some machine classes: machine class, setup, seconds of a step, and the factor
    on these where memory may not do. `num_timed` candidates were timed to find them."""

    machine: Codes
    setup: Codes
    step_s: Array
    doubt: Array
    num_timed: int


@dataclass(frozen=True, slots=True)
class Timed:
    """What each setup needs of a host, the least that any needs of an accelerator, by (machine
    class, node count), and what each machine class has of it [bytes]; the contenders among all that
    fits, in pieces."""

    host_bytes: Array
    least_bytes: Array
    capacity: Array
    pieces: Iterable[Piece]

    def with_pieces(self, pieces: Iterable[Piece]) -> Timed:
        """The same with other pieces."""
        return Timed(self.host_bytes, self.least_bytes, self.capacity, pieces)


class KeptTimes:
    """The times of the last few jobs, within a number of bytes. A job's key names all that
    its times depend on but the machine classes, which are told apart by identity. Safe
    between threads."""

    def __init__(self, most_bytes: int) -> None:
        # The machine classes are held, so that no other ones can come to have their identity.
        self._known: Recent[Hashable, tuple[Machines, Timed]] = Recent(most_bytes, size_of=lambda entry: _size_of(entry[1]))

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable, machines: Machines) -> Timed | None:
        """The times of a job on these machine classes, where they are kept."""
        found = self._known.get((key, id(machines)))
        if found is None:
            return None
        _, timed = found
        wide = (piece._replace(machine=piece.machine.astype(np.intp), setup=piece.setup.astype(np.intp)) for piece in timed.pieces)
        return timed.with_pieces(wide)

    def kept(self, key: Hashable, machines: Machines, timed: Timed) -> Timed:
        """The same times, which are kept once all pieces were taken, if they are not too large."""

        def pieces() -> Iterator[Piece]:
            narrow: list[Piece] = []
            entry = timed.with_pieces(narrow)
            for piece in timed.pieces:
                if _size_of(entry) <= self._known.largest_bytes:  # no more is copied of what will not be kept
                    narrow.append(piece._replace(machine=piece.machine.astype(np.int32), setup=piece.setup.astype(np.int32)))
                yield piece
            self._known.put((key, id(machines)), (machines, entry))

        return timed.with_pieces(pieces())

    def cache_clear(self) -> None:
        """Forget everything."""
        self._known.clear()


def _size_of(timed: Timed) -> int:
    """What kept times cost [bytes]."""
    arrays = (timed.host_bytes, timed.least_bytes, timed.capacity)
    return sum(array.nbytes for array in (*arrays, *(part for piece in timed.pieces for part in piece[:4])))


#: Some fifty jobs on the whole market.
KEPT = KeptTimes(most_bytes=64_000_000)
