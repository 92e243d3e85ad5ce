"""How work on tables runs, as words and exports read it: beside its makers, so that reading it
loads none of them."""

from __future__ import annotations

from rightfit.records import dataclass
from rightfit.search.answer import Layout

CPU, GPU = "cpu", "gpu"


@dataclass(frozen=True, slots=True)
class HostLayout(Layout):
    """How the job runs: on `device` (cpu or gpu) with `library`; `threads` of the server at work,
    `cards` GPUs in use on it."""

    device: str = CPU
    library: str = ""
    job: str = ""
    threads: int = 1
    cards: int = 0
