"""Processors and GPUs as classical machine learning sees them: from free words about a machine, or from columns of rentable servers."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts.constants import constant_group, constants
from rightfit.facts.machines import unrented_card
from rightfit.facts.word_tables import shape
from rightfit.physics.classical import CpuColumns, GpuColumns
from rightfit.physics.columns import Array

#: A Skylake core at this clock is the unit of `CpuColumns.speed`.
UNIT_CLOCK_GHZ = 3.0
_VCPUS_PER_XLARGE = constants("classical_usual")["vcpus_per_xlarge"]
_SIZES = {"large": 2.0, "medium": 1.0, "xlarge": _VCPUS_PER_XLARGE}


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    return tuple((re.compile(row["pattern"], re.IGNORECASE), row) for row in facts.table("classical_cpus"))


@functools.cache
def processor(text: str) -> dict[str, str]:
    """The row of facts/data/classical_cpus.csv whose words the text holds; the last row matches everything."""
    return next(row for pattern, row in _patterns() if pattern.search(text or "-"))


def is_known_processor(text: str) -> bool:
    """Whether some row but the last ones names this processor."""
    return processor(text)["name"].endswith(("unknown generation", "usual server")) is False


def _columns(rows: Sequence[dict[str, str]], *, cores: Array, threads: Array, sockets: Array, memory_bytes: Array) -> CpuColumns:
    def number(name: str) -> Array:
        return np.array([float(row[name]) for row in rows])

    clock = number("clock_ghz")
    share = np.clip(
        cores / (number("cores_per_socket") * sockets), constants("classical_usual")["least_bus_share"], 1.0
    )  # a quarter of the cores can already draw much of the bus
    return CpuColumns(
        cores=cores,
        threads=threads,
        sockets=sockets,
        speed=clock / UNIT_CLOCK_GHZ * number("work_per_cycle"),
        flops=clock * 1e9 * number("fp32_per_cycle"),
        bandwidth=number("bandwidth_gbps") * 1e9 * sockets * np.sqrt(share),
        memory_bytes=memory_bytes,
    )


def cpu_columns(cpu_models: Sequence[str], *, vcpus: Array, memory_bytes: Array) -> CpuColumns:
    """Rentable servers as processors. cpu_models: N names as the catalog has them (with family or type where the name is empty), vcpus,
    memory_bytes: (N,).

    A vCPU is a hardware thread; where the processor has two a core, half as many cores do the work.
    """
    rows = [processor(name) for name in cpu_models]
    per_core = np.array([float(row["threads_per_core"]) for row in rows])
    cores = np.maximum(np.asarray(vcpus, dtype=np.float64) / per_core, 1.0)
    sockets = np.ceil(cores / np.array([float(row["cores_per_socket"]) for row in rows]))
    return _columns(
        rows,
        cores=cores,
        threads=np.asarray(vcpus, dtype=np.float64),
        sockets=sockets,
        memory_bytes=np.asarray(memory_bytes, dtype=np.float64),
    )


_INSTANCE = r"\b([a-z][a-z0-9-]{1,14})\.(?:(?:metal-)?(\d*)({extra_large})|({plain_size}))\b"
_SOCKETS = r"\b(\d+) ?[x×] ?{maker_after_count}|\b(\d+)[ -]sockets?"
_MEMORY = r"(\d+(?:\.\d+)?) ?{gigabyte}\b(?! ?GPU)"
_TWO_SOCKETS = 2.0


def _search(name: str, text: str) -> re.Match[str] | None:
    return shape("classical", name, ignore_case=True).search(text)


def _vcpus(text: str) -> float:
    """vCPUs that an instance name or the words "(32 vCPU)" tell; 0 when nothing does."""
    if found := _search(r"(\d+) ?v?{cpu_word}\b", text):
        return float(found[1])
    found = _search(_INSTANCE, text)
    if not found:
        return 0.0
    if found[3]:
        return float(found[2] or 1) * _VCPUS_PER_XLARGE
    return _SIZES.get((found[4] or "").lower(), 0.0)


def row_processor(hardware: str, cores: float, pinning: str) -> tuple[dict[str, str], float, float, float]:
    """Processor, physical cores, threads and sockets of a measured row. `cores` are threads where the machine's words do not say physical.

    `pinning` of a run tells more: both threads of a core, both sockets, everything of a machine, or a thread on each of its cores.
    """
    row = processor(hardware)
    per_core, per_socket = float(row["threads_per_core"]), float(row["cores_per_socket"])
    stated = float(found[1] or found[2]) if (found := _search(_SOCKETS, hardware)) else 0.0
    vcpus = _vcpus(hardware)
    threads = cores or vcpus or per_socket * max(stated, 1.0) * per_core
    pinned = pinning.strip().lower()
    if pinned:
        cores_used = threads / per_core if pinned in ("both threads", "everything") else threads
    elif "physical" in hardware.lower() or re.search(r",\s*\d+ cores\b", hardware):
        cores_used = threads
    elif vcpus and threads <= vcpus / 2.0:
        cores_used = threads  # fewer threads than cores: each has a core of its own
    elif stated and threads <= per_socket * stated:
        cores_used = threads
    else:
        cores_used = threads / per_core if threads > 1 else threads
    across = pinned in ("both sockets", "everything") and stated != 1
    sockets = max(_TWO_SOCKETS if across and (stated or _TWO_SOCKETS) > 1 else 1.0, np.ceil(cores_used / per_socket))
    return row, max(cores_used, 1.0), threads, float(sockets)


def stated_memory_bytes(hardware: str) -> float:
    """Memory of the machine as its words tell [bytes]; 0 when they do not."""
    found = _search(_MEMORY, hardware)
    return float(found[1]) * 2.0**30 if found else 0.0


def row_cpu_columns(rows: Sequence[tuple[dict[str, str], float, float, float]], memory_bytes: Sequence[float]) -> CpuColumns:
    """Processors of measured rows under one another."""
    cores, threads, sockets = (np.array([row[position] for row in rows]) for position in (1, 2, 3))
    return _columns(
        [row[0] for row in rows], cores=cores, threads=threads, sockets=sockets, memory_bytes=np.array(memory_bytes, dtype=np.float64)
    )


def _fp32_per_sm(architecture: str, capability: float) -> float:
    """fp32 operations of one multiprocessor and cycle: 2 x its fp32 units. The chips for computing of two generations have half of those of
    the others."""
    computing = {("Ampere", 8.0): "Ampere A100", ("Pascal", 6.0): "Pascal P100"}.get((architecture, capability), architecture)
    return constant_group("classical_usual", "fp32_per_sm").get(computing, constants("classical_usual")["fp32_per_sm_other"])


@functools.cache
def gpu_figures(text: str) -> tuple[float, float, float, float, float] | None:
    """(multiprocessors x clock, fp32 FLOP/s, bandwidth, memory, count) of a GPU by its name, "2x GTX 1080" included; None when nobody knows
    it.

    The clock is what the published fp32 peak implies.
    """
    count = float(found[1]) if (found := re.match(r"\s*(\d+) ?[x×] ?", text)) else 1.0
    name = re.sub(r"^\s*\d+ ?[x×] ?", "", text)
    name = re.sub(r"\(.*?\)", "", name).strip()
    try:
        record = facts.accelerator(name, typical=True)
    except RightfitError:
        return _listed_gpu(name, count)
    lanes = record.fp32_flops / _fp32_per_sm(record.architecture, record.compute_capability)
    return lanes, record.fp32_flops, record.memory_bandwidth, record.memory_bytes, count


def _listed_gpu(name: str, count: float) -> tuple[float, float, float, float, float] | None:
    """A card of the tables of devices that no cloud rents."""
    for card in facts.table("classical_gpus"):
        if re.search(card["pattern"], name, re.IGNORECASE):
            lanes = float(card["multiprocessors"]) * float(card["clock_ghz"]) * 1e9
            return lanes, float(card["fp32_tflops"]) * 1e12, float(card["bandwidth_gbps"]) * 1e9, float(card["memory_gib"]) * 2.0**30, count
    other = unrented_card(name)
    if other is None or not other.fp32_flops:
        return None
    lanes = other.fp32_flops / _fp32_per_sm(other.like.architecture, other.like.compute_capability)
    return lanes, other.fp32_flops, other.bandwidth, other.memory_bytes, count


def gpu_columns(names: Sequence[str]) -> GpuColumns:
    """GPUs by name, N of them; every name must be known (see `gpu_figures`)."""
    figures = np.array([gpu_figures(name) for name in names], dtype=np.float64)
    return GpuColumns(lanes=figures[:, 0], flops=figures[:, 1], bandwidth=figures[:, 2], memory_bytes=figures[:, 3], count=figures[:, 4])
