"""Rates of libraries: coefficients/classical.toml as columns for the physics of
classical machine learning.

A coefficient is looked up from the special to the general: `operation_ns.boost_hist.xgboost`,
`operation_ns.boost_hist`, `operation_ns.xgboost`, `operation_ns`. What the file does not know falls
to the general value.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.facts.machines import HostProcessor, OlderCard, UnrentedCard
from rightfit.facts.records import Accelerator
from rightfit.facts.tables import constant_group, constants
from rightfit.physics.classical import ClassicalRates, CpuColumns, GpuColumns, GpuRates
from rightfit.physics.classical_work import Algorithm, ClassicalMemoryRates
from rightfit.physics.columns import Array
from rightfit.records import dataclass

Coefficients = Mapping[str, float]


class ClassicalKind(NamedTuple):
    """What a rate may depend on: library, algorithm, and whether a GPU does the work."""

    library: str
    algorithm: Algorithm


def coefficients() -> Coefficients:
    """The bundled coefficients."""
    return facts.coefficients("classical")


def counts() -> Coefficients:
    """What algorithms count and keep where nobody says so; never fitted."""
    return facts.coefficients("classical_counts")


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(facts.coefficient_entries("classical"))


@functools.lru_cache(maxsize=16384)
def key_of(name: str, library: str, algorithm: Algorithm) -> str:
    """The most special coefficient of this name that the file has."""
    kind = algorithm.name.lower()
    for key in (f"{name}.{kind}.{library}", f"{name}.{kind}", f"{name}.{library}"):
        if key in _names():
            return key
    return name


class ClassicalKinds(tuple[ClassicalKind, ...]):
    """Kinds of N rows, compared by identity, so that what belongs to them can be remembered while a
    fit changes the coefficients."""

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@functools.lru_cache(maxsize=128)
def _keys(name: str, kinds: ClassicalKinds) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    keys = [key_of(name, kind.library, kind.algorithm) for kind in kinds]
    unique = tuple(dict.fromkeys(keys))
    place = {key: position for position, key in enumerate(unique)}
    return unique, np.array([place[key] for key in keys], dtype=np.intp)


def rate_column(name: str, kinds: ClassicalKinds, values: Coefficients) -> Array:
    """One coefficient for every row, shape (N,)."""
    unique, place = _keys(name, kinds)
    return np.array([values[key] for key in unique], dtype=np.float64)[place]


#: Threads that some solvers use however many there are: scikit-learn's coordinate descent, LIBSVM,
#: naive Bayes, exact boosting, R.
_ONE_THREAD = {Algorithm.LINEAR_COORDINATE, Algorithm.KERNEL_SVM, Algorithm.ONE_PASS}
_ONE_THREAD_LIBRARIES = {"r", "vw", "libsvm"}


def most_threads(kind: ClassicalKind) -> float:
    """Threads that the library can use for this; 0 = all."""
    if kind.library in _ONE_THREAD_LIBRARIES or kind.algorithm == Algorithm.HDBSCAN:
        return 1.0
    exact_boosting = kind.algorithm == Algorithm.BOOST_EXACT and kind.library == "sklearn"
    single = exact_boosting or (kind.library == "sklearn" and kind.algorithm in (*_ONE_THREAD, Algorithm.LINEAR_ITERATIVE))
    return 1.0 if single else 0.0


def classical_rates(kinds: ClassicalKinds, values: Coefficients) -> ClassicalRates:
    """Rates on processors of N rows."""

    def one(name: str) -> Array:
        return rate_column(name, kinds, values)

    nanosecond = 1e-9 * values["core_scale"]
    return ClassicalRates(
        operation_s=one("operation_ns") * nanosecond,
        row_s=one("row_ns") * nanosecond,
        setup_s=one("setup_ns") * nanosecond,
        split_s=one("split_ns") * nanosecond,
        flop_fraction=one("flop_fraction"),
        base_s=one("base_s"),
        round_s=one("round_ms") * 1e-3,
        serial=np.clip(one("serial"), 0.0, 1.0),
        barrier_s=one("barrier_us") * 1e-6,
        max_threads=np.array([most_threads(kind) for kind in kinds]),
        socket_loss=one("socket_loss"),
        smt_gain=one("smt_gain"),
    )


def gpu_rates(kinds: ClassicalKinds, values: Coefficients) -> GpuRates:
    """Rates on GPUs of N rows."""

    def one(name: str) -> Array:
        return rate_column(name, kinds, values)

    return GpuRates(
        operations_per_lane=one("gpu_operations_per_lane"),
        row_bytes=one("gpu_move_bytes"),
        flop_fraction=one("gpu_flop_fraction"),
        region_s=one("gpu_region_us") * 1e-6,
        base_s=one("gpu_base_s"),
        transfer_bandwidth=one("gpu_transfer_gbps") * 1e9,
    )


def memory_rates(kinds: ClassicalKinds, values: Coefficients) -> ClassicalMemoryRates:
    """What libraries keep in memory, of N rows."""

    def one(name: str) -> Array:
        return rate_column(name, kinds, values)

    return ClassicalMemoryRates(
        base_bytes=one("mem_base_mib") * 2.0**20,
        input_copies=1.0 + one("mem_extra_copies"),
        index_bytes=one("mem_index_bytes"),
        row_bytes=one("mem_row_bytes"),
        node_bytes=one("mem_node_bytes"),
        bin_bytes=one("mem_bin_bytes"),
        thread_bytes=one("mem_thread_mib") * 2.0**20,
        category_bytes=one("mem_category_bytes"),
        headroom=one("mem_headroom"),
    )


# ---- Processors and GPUs as classical machine learning sees them, from columns of rentable servers
# and the records of cards.

#: A Skylake core at this clock is the unit of `CpuColumns.speed`.
UNIT_CLOCK_GHZ = 3.0


class Host(NamedTuple):
    """A processor at work: physical cores, threads, sockets, and memory of the machine [bytes]."""

    processor: HostProcessor
    cores: float
    threads: float
    sockets: float
    memory_bytes: float


def host_columns(hosts: Sequence[Host]) -> CpuColumns:
    """Hosts under one another."""
    names = ("cores", "threads", "sockets", "memory_bytes")
    cores, threads, sockets, memory = (np.array([float(getattr(host, name)) for host in hosts]) for name in names)
    return _columns([host.processor for host in hosts], cores=cores, threads=threads, sockets=sockets, memory_bytes=memory)


def _columns(processors: Sequence[HostProcessor], *, cores: Array, threads: Array, sockets: Array, memory_bytes: Array) -> CpuColumns:
    def number(name: str) -> Array:
        return np.array([float(getattr(one, name)) for one in processors])

    clock_ghz = number("clock_hz") / 1e9
    share = np.clip(
        cores / (number("cores") * sockets), constants("classical_usual")["least_bus_share"], 1.0
    )  # a quarter of the cores can already draw much of the bus
    return CpuColumns(
        cores=cores,
        threads=threads,
        sockets=sockets,
        speed=clock_ghz / UNIT_CLOCK_GHZ * number("work_per_cycle"),
        flops=clock_ghz * 1e9 * number("fp32_per_cycle"),
        bandwidth=number("bandwidth") * sockets * np.sqrt(share),
        memory_bytes=memory_bytes,
    )


def cpu_columns(processors: Sequence[HostProcessor], *, vcpus: Array, memory_bytes: Array) -> CpuColumns:
    """Rentable servers as processors; vcpus, memory_bytes: (N,).

    A vCPU is a hardware thread; where the processor has two a core, half as many cores do the work.
    """
    per_core = np.array([one.threads_per_core for one in processors])
    cores = np.maximum(np.asarray(vcpus, dtype=np.float64) / per_core, 1.0)
    return _columns(
        processors,
        cores=cores,
        threads=np.asarray(vcpus, dtype=np.float64),
        sockets=np.ceil(cores / np.array([one.cores for one in processors])),
        memory_bytes=np.asarray(memory_bytes, dtype=np.float64),
    )


def _fp32_per_sm(architecture: str, capability: float) -> float:
    """fp32 operations of one multiprocessor and cycle: 2 x its fp32 units. The chips for computing
    of two generations have half of those of the others."""
    computing = {("Ampere", 8.0): "Ampere A100", ("Pascal", 6.0): "Pascal P100"}.get((architecture, capability), architecture)
    return constant_group("classical_usual", "fp32_per_sm").get(computing, constants("classical_usual")["fp32_per_sm_other"])


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """multiprocessors x clock [Hz], fp32 rate [FLOP/s], bandwidth [bytes/s], memory [bytes] of one
    card, and how many there are. The clock is what the published fp32 peak implies."""

    lanes: float
    flops: float
    bandwidth: float
    memory_bytes: float
    count: float = 1.0


def card_figures(card: Accelerator | UnrentedCard | OlderCard, *, count: float = 1.0) -> GpuFigures:
    """A card of one of the tables of cards."""
    if isinstance(card, OlderCard):
        return GpuFigures(card.multiprocessors * card.clock_hz, card.fp32_flops, card.bandwidth, card.memory_bytes, count)
    record = card.like if isinstance(card, UnrentedCard) else card
    lanes = card.fp32_flops / _fp32_per_sm(record.architecture, record.compute_capability)
    bandwidth = card.bandwidth if isinstance(card, UnrentedCard) else card.memory_bandwidth
    return GpuFigures(lanes, card.fp32_flops, bandwidth, card.memory_bytes, count)


def gpu_columns(cards: Sequence[GpuFigures]) -> GpuColumns:
    """Cards under one another."""
    return GpuColumns(**{name: np.array([float(getattr(card, name)) for card in cards]) for name in _GPU_FIELDS})


_GPU_FIELDS = ("lanes", "flops", "bandwidth", "memory_bytes", "count")
