"""Rates of libraries: coefficients/classical.toml as columns for the physics of classical machine learning.

A coefficient is looked up from the special to the general: `operation_ns.boost_hist.xgboost`, `operation_ns.boost_hist`,
`operation_ns.xgboost`,
`operation_ns`. What the file does not know falls to the general value.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.physics.classical import ClassicalRates, GpuRates
from rightfit.physics.classical_memory import ClassicalMemoryRates
from rightfit.physics.classical_work import Algorithm
from rightfit.physics.columns import Array

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
    """Kinds of N rows, compared by identity, so that what belongs to them can be remembered while a fit changes the coefficients."""

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


#: Threads that some solvers use however many there are: scikit-learn's coordinate descent, LIBSVM, naive Bayes, exact boosting, R.
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
