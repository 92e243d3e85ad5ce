"""Processors and GPUs as classical machine learning sees them, from columns of rentable servers and the records of cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rightfit.facts.constants import constant_group, constants
from rightfit.facts.machines import HostProcessor, OlderCard, UnrentedCard
from rightfit.facts.records import Accelerator
from rightfit.physics.classical import CpuColumns, GpuColumns
from rightfit.physics.columns import Array
from rightfit.records import dataclass

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
    """fp32 operations of one multiprocessor and cycle: 2 x its fp32 units. The chips for computing of two generations have half of those of
    the others."""
    computing = {("Ampere", 8.0): "Ampere A100", ("Pascal", 6.0): "Pascal P100"}.get((architecture, capability), architecture)
    return constant_group("classical_usual", "fp32_per_sm").get(computing, constants("classical_usual")["fp32_per_sm_other"])


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """multiprocessors x clock [Hz], fp32 rate [FLOP/s], bandwidth [bytes/s], memory [bytes] of one card, and how many there are. The clock is what the published
    fp32 peak implies."""

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
