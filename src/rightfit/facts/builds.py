"""Released builds of PyTorch, TensorFlow and JAX: which of them runs on an accelerator, beside which processors (facts/data/software_builds.csv)."""

from __future__ import annotations

import functools

from rightfit.errors import RightfitError
from rightfit.facts.devices import accelerator
from rightfit.facts.tables import table
from rightfit.records import dataclass

ARM_HOSTS = ("GH200", "GB200", "GB300", "T4G")
"""Accelerators that are only rented beside Arm processors."""
Span = tuple[tuple[int, ...], tuple[int, ...]]
ANY: Span = ((0,), (99,))


@dataclass(frozen=True, slots=True)
class Build:
    """One released combination. `serves`: compute capabilities (NVIDIA) or architectures (AMD) that it has kernels for; empty without an
    accelerator."""

    framework: str
    version: str
    platform: str
    cudnn: str
    vendor: str
    machine: tuple[str, ...]
    serves: tuple[str, ...]
    python: str
    driver: str
    index_url: str
    package: str
    image: str
    source: str

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, to compare."""
        return tuple(int(part) for part in self.version.split("."))


@functools.cache
def builds() -> tuple[Build, ...]:
    """Every known combination, the preferred ones of a framework first."""
    return tuple(
        Build(**{**row, "machine": tuple(row["machine"].split("|")), "serves": tuple(filter(None, row["serves"].split("|")))})  # type: ignore[arg-type]
        for row in table("software_builds")
    )


def build_for(name: str, *, framework: str = "pytorch", span: Span = ANY) -> Build | None:
    """The preferred combination for an accelerator ("" is the processor) among the releases of a span; None where none runs on it."""
    vendor, kind = ("", "") if not name else _kind(name)
    machine = machine_of(name)
    fitting = (build for build in builds() if (build.framework, build.vendor) == (framework, vendor) and machine in build.machine)
    inside = (build for build in fitting if span[0] <= build.release <= span[1])
    return next((build for build in inside if not name or any(_runs(kind, served) for served in build.serves)), None)


def machine_of(name: str) -> str:
    """Processors beside which an accelerator is rented, as Linux names them."""
    return "aarch64" if name.startswith(ARM_HOSTS) else "x86_64"


@functools.cache
def is_unreleased(name: str) -> bool:
    """Whether an accelerator is only rented beside Arm processors for which nobody releases a build that runs on it."""
    return name.startswith(ARM_HOSTS) and build_for(name) is None


def _kind(name: str) -> tuple[str, str]:
    """Vendor, and the compute capability or (AMD) architecture of an accelerator."""
    try:
        found = accelerator(name)
    except RightfitError:
        return "unknown", ""
    return found.vendor, str(found.compute_capability or found.architecture.split(" ")[0])


def _runs(kind: str, served: str) -> bool:
    """Kernels run on their own capability and on later ones of the same generation (8.6 on 8.9); AMD's on their own architecture."""
    if not kind[:1].isdigit():
        return kind == served
    major, minor = kind.split(".")
    served_major, served_minor = served.split(".")
    return major == served_major and int(served_minor) <= int(minor)
