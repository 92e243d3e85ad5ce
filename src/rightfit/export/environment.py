"""Which build of PyTorch, TensorFlow or JAX runs on the plan's accelerator, with its CUDA, cuDNN, driver and image: read from
facts/data/software_builds.csv."""

from __future__ import annotations

import dataclasses
import functools

from rightfit.errors import RightfitError
from rightfit.export.job import Job
from rightfit.facts import accelerator, table

ARM_HOSTS = ("GH200", "GB200", "GB300", "T4G")
"""Accelerators that are only rented beside Arm processors."""
FRAMEWORKS = ("pytorch", "tensorflow", "jax")
Span = tuple[tuple[int, ...], tuple[int, ...]]
ANY: Span = ((0,), (99,))
RECENT: Span = ((2, 6), (99,))
"""First and last release that a stack goes with. Transformers loads no checkpoint of old form under PyTorch before 2.6; FSDP2 needs it as well."""


@dataclasses.dataclass(frozen=True, slots=True)
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
    machine = "aarch64" if name.startswith(ARM_HOSTS) else "x86_64"
    fitting = (build for build in builds() if (build.framework, build.vendor) == (framework, vendor) and machine in build.machine)
    inside = (build for build in fitting if span[0] <= build.release <= span[1])
    return next((build for build in inside if not name or any(_runs(kind, served) for served in build.serves)), None)


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


def torch_build(job: Job, *, span: Span = RECENT) -> Build:
    """The PyTorch build of a job. Call `torch_problem` first: RuntimeError where there is none."""
    found = build_for(job.accelerator, span=span)
    if found is None:
        raise RuntimeError(f"no PyTorch build for {job.accelerator}")
    return found


def torch_problem(job: Job, *, span: Span = RECENT) -> str:
    """Why no PyTorch release of the span that a stack needs runs on the plan's accelerator ("" if one does)."""
    if build_for(job.accelerator, span=span):
        return ""
    name, last = job.accelerator or "a processor", build_for(job.accelerator)
    if last is None:
        return f"no PyTorch release of our table runs on {name}"
    least, most = (".".join(str(part) for part in release) for release in span)
    wanted = f"{least} or later" if span[1] == ANY[1] else f"{least} to {most}"
    return f"{name} runs PyTorch {last.version} ({last.platform}), and this stack needs {wanted}"


def pip_words(build: Build, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments of pip: the build's own package from its own index, and the others beside it."""
    index = ("--extra-index-url", build.index_url) if build.index_url else ()
    return ("pip", "install", *index, build.package, *packages)


def requirements(build: Build, packages: tuple[str, ...]) -> str:
    """The same as a requirements file."""
    index = (f"--extra-index-url {build.index_url}",) if build.index_url else ()
    return "\n".join((*index, build.package, *packages)) + "\n"
