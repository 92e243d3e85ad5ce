"""Devices as the forward physics sees them: GPUs and accelerators from the facts, processors from a small table."""

from __future__ import annotations

import dataclasses

from rightfit.facts.constants import constant_group, constants
from rightfit.facts.machines import ProcessorKind, UnrentedCard
from rightfit.facts.records import Accelerator
from rightfit.records import dataclass

SILICON = ("volta", "turing", "ampere", "ampere_small", "ada", "hopper", "blackwell", "blackwell_small", "cpu", "neuron", "old", "other")


@dataclass(frozen=True, slots=True)
class ForwardDevice:
    """Peaks in FLOP/s by dtype (0 = it lacks it), memory rate [bytes/s], power [W] (0 = no limit), parallel units and cores that share a
    chip."""

    name: str
    silicon: str
    fp32: float
    tf32: float
    fp16: float
    bf16: float
    int8: float
    fp8: float
    bandwidth: float
    tdp_w: float
    units: float
    cores: float = 1.0
    l2_bytes: float = 0.0
    assumption: str = ""
    client: bool = False

    def peak(self, dtype: str) -> float:
        """Peak of the dtype [FLOP/s]; the nearest wider one that the device has where it lacks it."""
        order = {
            "fp32": (self.fp32, self.bf16, self.fp16),
            "tf32": (self.tf32, self.fp32, self.bf16, self.fp16),
            "fp16": (self.fp16, self.bf16, self.fp32),
            "amp": (self.fp16, self.bf16, self.fp32),
            "bf16": (self.bf16, self.fp16, self.fp32),
            "int8": (self.int8, self.fp16, self.bf16, self.fp32),
            "fp8": (self.fp8, self.fp16, self.bf16, self.fp32),
        }[dtype]
        return next((rate for rate in order if rate > 0), 0.0)

    def share(self, part: float) -> ForwardDevice:
        """A slice of the card: its part of arithmetic, bandwidth, power, units and cache."""
        scaled = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "bandwidth", "tdp_w", "units", "l2_bytes")
        return dataclasses.replace(self, **{name: getattr(self, name) * part for name in scaled})


_SILICON = {
    "Volta": "volta",
    "Turing": "turing",
    "Ada": "ada",
    "Hopper": "hopper",
    "Blackwell": "blackwell",
    "Blackwell Ultra": "blackwell",
}
#: On-chip memory that compilers keep activations in, where the facts know no cache.
_SCRATCH_BYTES = constant_group("forward_work", "scratch_bytes")
_NEURON_CORES = constant_group("forward_work", "neuron_cores")
_CACHE_PER_CORE_BYTES = constants("forward_work")["cache_per_core_bytes"]
_USUAL_UNITS = 64.0


def silicon_of(record: Accelerator) -> str:
    """Class of chip that shares its kernels' quality."""
    if record.vendor == "NVIDIA" and record.architecture == "Ampere":
        return "ampere" if record.compute_capability == 8.0 else "ampere_small"
    if record.vendor == "NVIDIA" and record.architecture == "Blackwell" and not record.name.startswith(("B200", "GB200", "B300", "GB300")):
        return "blackwell_small"
    if record.architecture.startswith("NeuronCore"):
        return "neuron"
    if record.architecture in ("Pascal", "Maxwell", "Kepler"):
        return "old"
    return _SILICON.get(record.architecture, "other")


def card_device(record: Accelerator, *, assumption: str = "") -> ForwardDevice:
    """An accelerator of the facts."""
    return ForwardDevice(
        record.name,
        silicon_of(record),
        record.fp32_flops,
        record.tf32_flops,
        record.fp16_flops,
        record.bf16_flops or (0.0 if record.vendor == "NVIDIA" else record.fp16_flops),
        0.0 if record.architecture in ("Volta", "Pascal") else record.int8_ops,
        record.fp8_flops,
        record.memory_bandwidth,
        record.tdp_w,
        float(record.num_sms or 1),
        _NEURON_CORES.get(record.name, 1.0),
        record.l2_bytes or _SCRATCH_BYTES.get(record.architecture, 0.0),
        assumption,
    )


def unrented_device(card: UnrentedCard) -> ForwardDevice:
    """A card that no cloud rents, after the one that it is like."""
    like, fp16 = card.like, card.fp16_flops
    has_int8 = like.int8_ops > 0 and not card.is_other
    return ForwardDevice(
        card.name,
        "other" if card.is_other else silicon_of(like),
        card.fp32_flops,
        fp16 / 2 if like.tf32_flops and not card.is_other else card.fp32_flops,
        fp16,
        card.bf16_flops or fp16,
        fp16 * (like.int8_ops / max(like.fp16_flops, 1.0)) if has_int8 else fp16,
        2.0 * fp16 if like.fp8_flops else 0.0,
        card.bandwidth,
        card.tdp_w,
        card.num_sms or _USUAL_UNITS,
        l2_bytes=like.l2_bytes,
    )


def processor_device(kind: ProcessorKind, *, cores: float = 0.0, name: str = "", is_client: bool = False) -> ForwardDevice:
    """So many cores of a processor (0: one socket); a few of them can already draw half of its memory rate."""
    cores = cores or kind.cores
    rate = cores * kind.clock_hz
    fp32 = rate * kind.fp32_per_cycle
    return ForwardDevice(
        name or kind.key,
        "cpu",
        fp32,
        fp32,
        fp32,
        max(rate * kind.bf16_per_cycle, fp32),
        rate * kind.int8_per_cycle,
        0.0,
        kind.bandwidth * max(min(1.0, cores / kind.cores), 0.5),
        0.0,
        cores,
        l2_bytes=cores * _CACHE_PER_CORE_BYTES,
        client=is_client,
    )
