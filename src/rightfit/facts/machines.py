"""Processors, and cards that no cloud rents, by the words of people and of clouds: tables whose
rows are found by a pattern of a name."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

from rightfit.facts.devices import accelerators
from rightfit.facts.records import Accelerator
from rightfit.facts.tables import filled, first_match, table
from rightfit.records import dataclass

#: How many times its plain arithmetic a processor does in bf16 a cycle from which on it has
#: matrix units (AMX).
_MATRIX_RATIO = 4.0


@dataclass(frozen=True, slots=True)
class ProcessorKind:
    """One socket of a kind of processor (facts/data/forward_cpus.csv): operations of one core and
    cycle, clock [Hz], memory rate of the socket [bytes/s]. `key` tells kinds apart."""

    key: str
    cores: float
    clock_hz: float
    fp32_per_cycle: float
    bf16_per_cycle: float
    int8_per_cycle: float
    bandwidth: float

    @property
    def clock_ghz(self) -> float:
        """The clock as its table tells it [GHz]."""
        return self.clock_hz / 1e9

    @property
    def has_matrix_units(self) -> bool:
        """Whether bf16 products run on units of their own."""
        return self.bf16_per_cycle >= _MATRIX_RATIO * self.fp32_per_cycle


@functools.lru_cache(maxsize=8192)
def processor_kind(words: str) -> ProcessorKind:
    """The kind of processor that words mean; a usual server where they name none."""
    row = first_match("forward_cpus", words)
    assert row is not None  # the last pattern matches everything
    return _kinds()[row["pattern"]]


@functools.cache
def _kinds() -> Mapping[str, ProcessorKind]:
    """Every kind by its pattern."""
    scaled = {"clock_hz": ("clock_ghz", 1e9), "bandwidth": ("bandwidth_gbps", 1e9)}
    return {row["pattern"]: filled(ProcessorKind, row, scaled, key=row["pattern"]) for row in table("forward_cpus")}


@functools.cache
def _nameless() -> Accelerator:
    """An accelerator of which nothing is known."""
    return filled(Accelerator, {})


def processor_record(kind: ProcessorKind, *, cores: int, memory_bytes: float) -> Accelerator:
    """So many cores of a processor in the form of an accelerator without a name; `num_sms` are its
    cores. What a server's processors draw is not told here."""
    rate = cores * kind.clock_hz
    return dataclasses.replace(
        _nameless(),
        vendor="CPU",
        memory_bytes=memory_bytes,
        memory_bandwidth=kind.bandwidth * min(1.0, cores / kind.cores),
        fp32_flops=rate * kind.fp32_per_cycle,
        bf16_flops=rate * kind.bf16_per_cycle if kind.bf16_per_cycle > kind.fp32_per_cycle else 0.0,
        int8_ops=rate * kind.int8_per_cycle,
        num_sms=cores,
        source="facts/data/forward_cpus.csv",
    )


@dataclass(frozen=True, slots=True)
class Core:
    """A kind of processor core: `speed` is clock [GHz] x work a cycle against Skylake; `threads`
    hardware threads share it."""

    name: str
    speed: float
    threads: float


@functools.cache
def _cores() -> tuple[tuple[re.Pattern[str], Core], ...]:
    """Cores in the order in which they are looked for, with the patterns of their words; the
    last is the usual one."""
    return tuple(
        (
            re.compile(row["pattern"]),
            Core(row["name"], float(row["clock_ghz"]) * float(row["work_per_cycle"]), float(row["threads_per_core"])),
        )
        for row in table("cpus")
    )


@functools.cache
def core_named(text: str) -> Core:
    """The core that words about a processor, a server type or a machine speak of; the usual server
    where they name none."""
    folded = text.casefold()
    return next(core for pattern, core in _cores() if pattern.search(folded or "?"))


def names_a_core(text: str) -> bool:
    """Whether the words name a processor that is known."""
    return core_named(text) is not _cores()[-1][1]


@dataclass(frozen=True, slots=True)
class HostProcessor:
    """One socket of a kind of processor as classical machine learning sees it
    (facts/data/classical_cpus.csv): clock [Hz], work and fp32 operations of one core and cycle
    (work against Skylake), memory rate of the socket [bytes/s]. `is_known`: a generation and not
    only a maker."""

    name: str
    cores: float
    clock_hz: float
    work_per_cycle: float
    fp32_per_cycle: float
    threads_per_core: float
    bandwidth: float
    is_known: bool


@functools.cache
def host_processor(words: str) -> HostProcessor:
    """The processor whose words a text holds; a usual server where it holds none."""
    row = first_match("classical_cpus", words or "-")
    assert row is not None  # the last pattern matches everything
    scaled = {"cores": ("cores_per_socket", 1.0), "clock_hz": ("clock_ghz", 1e9), "bandwidth": ("bandwidth_gbps", 1e9)}
    return filled(HostProcessor, row, scaled, is_known=not row["name"].endswith(("unknown generation", "usual server")))


#: What a processor is called that nobody names: the family then says more.
_VAGUE = re.compile(r"(?:intel|amd|aws|arm|intel xeon|amd epyc|ampere)?", re.IGNORECASE)
_SIZE = re.compile(r"[_.-](?:metal|\d*x?large|\d+xl|medium|small|micro|nano|\d+)\b.*$", re.IGNORECASE)
#: Clouds whose names of servers classical_cpus.csv knows; the letters of others mean other things.
_TOLD_BY_TYPE = ("aws", "gcp")


def processor_words(provider: str, cpu_model: str, instance_type: str, arch: str) -> str:
    """What tells the processor of a server: its name, else the kind of server where the cloud's
    kinds are told apart by it; with the instruction set where it is Arm."""
    words = cpu_model.strip()
    if _VAGUE.fullmatch(words) and provider in _TOLD_BY_TYPE:
        words = f"{words} {_SIZE.sub('', instance_type)}.".strip()
    return f"{words} arm64" if arch.startswith("arm") else words


@dataclass(frozen=True, slots=True)
class OlderCard:
    """A card of facts/data/classical_gpus.csv, too old for the other tables."""

    multiprocessors: float
    clock_hz: float
    fp32_flops: float
    bandwidth: float
    memory_bytes: float


@functools.lru_cache(maxsize=4096)
def older_card(words: str) -> OlderCard | None:
    """The card of the table that a name means."""
    row = first_match("classical_gpus", words)
    if row is None:
        return None
    rates = {"clock_hz": ("clock_ghz", 1e9), "fp32_flops": ("fp32_tflops", 1e12), "bandwidth": ("bandwidth_gbps", 1e9)}
    return filled(OlderCard, row, rates | {"memory_bytes": ("memory_gib", 2.0**30)})


@dataclass(frozen=True, slots=True)
class UnrentedCard:
    """A card that no cloud rents (facts/data/serving_devices.csv), and the one that it is `like`; 0
    where a figure is not known. `is_other`: of a family that shares no kernels with that card."""

    name: str
    like: Accelerator
    memory_bytes: float
    bandwidth: float
    fp32_flops: float
    fp16_flops: float
    bf16_flops: float
    tdp_w: float
    num_sms: float
    is_other: bool


#: Columns of facts/data/serving_devices.csv in other units than the record's.
_UNRENTED = {
    "memory_bytes": ("memory_gib", 2.0**30),
    "bandwidth": ("memory_bw_gbps", 1e9),
    "fp32_flops": ("fp32_tflops", 1e12),
    "fp16_flops": ("fp16_dense_tflops", 1e12),
    "bf16_flops": ("bf16_dense_tflops", 1e12),
    "num_sms": ("sm_count", 1.0),
}


@functools.lru_cache(maxsize=4096)
def unrented_card(words: str) -> UnrentedCard | None:
    """The card of the table whose words a name holds."""
    for row in table("serving_devices"):
        if row["family"] != "cpu" and re.search(row["words"], words, re.IGNORECASE):
            return filled(UnrentedCard, row, _UNRENTED, like=accelerators()[row["like"]], is_other=bool(row["family"]))
    return None


@functools.lru_cache(maxsize=4096)
def card_of_instance(words: str) -> str:
    """The name of the card of a cloud's instance that words name in place of the card; ""
    where they name none."""
    for row in table("serving_instances"):
        if re.search(row["words"], words, re.IGNORECASE) and not re.search(row["words"], row["device"], re.IGNORECASE):
            return row["device"]
    return ""
