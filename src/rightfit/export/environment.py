"""Which build of PyTorch, TensorFlow or JAX runs on the plan's accelerator, with its CUDA, cuDNN, driver and image: read from
facts/data/software_builds.csv."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.facts.builds import ANY as ANY
from rightfit.facts.builds import Build as Build
from rightfit.facts.builds import Span as Span
from rightfit.facts.builds import build_for as build_for
from rightfit.facts.builds import builds as builds
from rightfit.messages import Message

FRAMEWORKS = ("pytorch", "tensorflow", "jax")
RECENT: Span = ((2, 6), (99,))
"""First and last release that a stack goes with. Transformers loads no checkpoint of old form under PyTorch before 2.6; FSDP2 needs it as well."""


def torch_build(job: Job, *, span: Span = RECENT) -> Build:
    """The PyTorch build of a job. Call `torch_problem` first: RuntimeError where there is none."""
    found = build_for(job.accelerator, span=span)
    if found is None:
        raise RuntimeError(f"no PyTorch build for {job.accelerator}")
    return found


def torch_problem(job: Job, *, span: Span = RECENT) -> Message | str:
    """Why no PyTorch release of the span that a stack needs runs on the plan's accelerator ("" if one does)."""
    if build_for(job.accelerator, span=span):
        return ""
    name, last = job.accelerator or Message("export.a_processor"), build_for(job.accelerator)
    if last is None:
        return Message("export.part_no_pytorch", card=name)
    least, most = (".".join(str(part) for part in release) for release in span)
    told = {"card": name, "version": last.version, "platform": last.platform, "least": least}
    return Message("export.part_pytorch_later", **told) if span[1] == ANY[1] else Message("export.part_pytorch_between", **told, most=most)


def pip_words(build: Build, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments of pip: the build's own package from its own index, and the others beside it."""
    index = ("--extra-index-url", build.index_url) if build.index_url else ()
    return ("pip", "install", *index, build.package, *packages)


def requirements(build: Build, packages: tuple[str, ...]) -> str:
    """The same as a requirements file."""
    index = (f"--extra-index-url {build.index_url}",) if build.index_url else ()
    return "\n".join((*index, build.package, *packages)) + "\n"
