"""Devices as the forward physics sees them: GPUs and accelerators from the facts, processors from a small table."""

from __future__ import annotations

import dataclasses
import functools
import re

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimate.pattern_tables import first_match
from rightfit.facts.constants import constant_group, constants
from rightfit.facts.records import Accelerator
from rightfit.facts.word_tables import says, shape
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


@functools.cache
def forward_device(text: str, memory_gib: str = "") -> ForwardDevice | None:
    """The device that a cell names; None when nobody knows it."""
    if _says("processor", text):
        return _processor(text)
    if found := _MIG.search(text):
        return _slice(forward_device(_MIG.sub("", text).strip(" ()[]-_,"), memory_gib), float(found[1]) / _MIG_SLICES)
    plain = shape("forward", "{decoration}", ignore_case=True).sub(" ", text).strip()
    for name in dict.fromkeys((f"{text} {memory_gib}GB" if memory_gib else text, text, plain)):
        try:
            return _accelerator(facts.accelerator(name, typical=True), text)
        except RightfitError:
            continue
    return _listed(text) or _rented(text) or (_processor(text) if _says("small_processor", text) else None)


def _says(chosen: str, text: str) -> bool:
    return says("forward", chosen, text, ignore_case=True)


_MIG = re.compile(r"\(?(?:mig[ -]*)?(\d)g\.\d+gb\)?(?: mig)?", re.IGNORECASE)
_MIG_SLICES = constants("forward_work")["mig_slices"]


def _slice(whole: ForwardDevice | None, share: float) -> ForwardDevice | None:
    """A slice of a card: its share of arithmetic, bandwidth, power, units and cache."""
    if whole is None:
        return None
    scaled = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "bandwidth", "tdp_w", "units", "l2_bytes")
    return dataclasses.replace(whole, **{name: getattr(whole, name) * share for name in scaled})


def _rented(text: str) -> ForwardDevice | None:
    """The card of a cloud instance that a row names in place of the card."""
    for row in facts.table("serving_instances"):
        if re.search(row["words"], text, re.IGNORECASE) and not re.search(row["words"], row["device"], re.IGNORECASE):
            return forward_device(row["device"])
    return None


def _accelerator(record: Accelerator, text: str) -> ForwardDevice:
    bf16 = record.bf16_flops or (0.0 if record.vendor == "NVIDIA" else record.fp16_flops)
    assumption = "" if len(facts.match_accelerators(text)) == 1 else f"{text} taken as {record.name}"
    return ForwardDevice(
        record.name,
        silicon_of(record),
        record.fp32_flops,
        record.tf32_flops,
        record.fp16_flops,
        bf16,
        0.0 if record.architecture in ("Volta", "Pascal") else record.int8_ops,
        record.fp8_flops,
        record.memory_bandwidth,
        record.tdp_w,
        float(record.num_sms or 1),
        _NEURON_CORES.get(record.name, 1.0),
        record.l2_bytes or _SCRATCH_BYTES.get(record.architecture, 0.0),
        assumption,
    )


def _listed(text: str) -> ForwardDevice | None:
    """A device of the table of devices that no cloud rents, which names a record that it is like."""
    row = first_match_words(text)
    if row is None:
        return None
    like = facts.accelerators()[row["like"]]
    tera = {name: float(row[name] or 0) * 1e12 for name in ("fp32_tflops", "fp16_dense_tflops", "bf16_dense_tflops")}
    fp16 = tera["fp16_dense_tflops"]
    silicon = "other" if row["family"] else silicon_of(like)
    has_int8 = like.int8_ops > 0 and not row["family"]
    return ForwardDevice(
        row["name"],
        silicon,
        tera["fp32_tflops"],
        fp16 / 2 if like.tf32_flops and not row["family"] else tera["fp32_tflops"],
        fp16,
        tera["bf16_dense_tflops"] or fp16,
        fp16 * (like.int8_ops / max(like.fp16_flops, 1.0)) if has_int8 else fp16,
        2.0 * fp16 if like.fp8_flops else 0.0,
        float(row["memory_bw_gbps"]) * 1e9,
        float(row["tdp_w"] or 0),
        float(row["sm_count"] or 64),
        l2_bytes=like.l2_bytes,
    )


def first_match_words(text: str) -> dict[str, str] | None:
    """Row of the table of other devices whose words the name holds."""
    for row in facts.table("serving_devices"):
        if row["family"] != "cpu" and re.search(row["words"], text, re.IGNORECASE):
            return row
    return None


_CORES = r"\((\d+)\s?{core_name}|\b(\d+)[ -]?cores?\b"
_GOOGLE_SIZE = r"-{google_kind}-(\d+)"
_XLARGE = re.compile(r"\.(\d*)xlarge", re.IGNORECASE)
_VIRTUAL_PER_XLARGE = constants("forward_work")["vcpus_per_xlarge"]


_CACHE_PER_CORE_BYTES = constants("forward_work")["cache_per_core_bytes"]


def _processor(text: str) -> ForwardDevice:
    row = first_match("forward_cpus", text)
    assert row is not None  # the last pattern matches everything
    cores, clock = float(row["cores"]), float(row["clock_ghz"]) * 1e9
    if stated := shape("forward", _CORES, ignore_case=True).search(text):
        cores = float(stated[1] or stated[2])
    elif rented := shape("forward", _GOOGLE_SIZE, ignore_case=True).search(text):
        cores = float(rented[1]) / 2
    elif size := _XLARGE.search(text):
        cores = float(size[1] or 1) * _VIRTUAL_PER_XLARGE / (1.0 if "graviton" in text.lower() or re.search(r"\b\w\dg", text) else 2.0)
    rate = cores * clock
    share = min(1.0, cores / float(row["cores"]))
    fp32 = rate * float(row["fp32_per_cycle"])
    return ForwardDevice(
        text,
        "cpu",
        fp32,
        fp32,
        fp32,
        max(rate * float(row["bf16_per_cycle"]), fp32),
        rate * float(row["int8_per_cycle"]),
        0.0,
        float(row["bandwidth_gbps"]) * 1e9 * max(share, 0.5),
        0.0,
        cores,
        l2_bytes=cores * _CACHE_PER_CORE_BYTES,
        client=_says("client", text),
    )
