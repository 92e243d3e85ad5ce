"""Which models fit a card (or several in one machine), and by which method: each usual model is searched for on a machine with these cards alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import RightfitError, UnknownNameError
from rightfit.messages import Message
from rightfit.planner.plan import default_catalog, search
from rightfit.records import dataclass
from rightfit.search.criteria import CRITERIA
from rightfit.search.own_machine import Machine, with_machine
from rightfit.workload import Workload
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.catalog import Catalog

SERVE, TUNE = "serve", "finetune"
#: The host beside the card is assumed, not told: it refuses nothing here.
HOST_BITS = sum(1 << CRITERIA.index(name) for name in ("host_memory", "host_cpus"))
#: Ways to use a model, by task: the name of each and its wishes. Nothing is offloaded: a card that needs that does not hold the model.
WAYS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "language": {
        "serve_16": {"task": "batch", "quantization": "none", "data": "1000samples"},
        "serve_4": {"task": "batch", "quantization": "int4", "data": "1000samples"},
        "qlora": {"task": TUNE, "method": "qlora", "offload": "none", "data": "1Mtok"},
        "lora": {"task": TUNE, "method": "lora", "offload": "none", "data": "1Mtok"},
        "full": {"task": TUNE, "method": "full", "offload": "none", "data": "1Mtok"},
    },
    "pictures": {
        "serve_16": {"task": "batch", "data": "100images"},
        "lora": {"task": TUNE, "method": "lora", "offload": "none", "data": "1kimages", "global_batch": "1"},
        "full": {"task": TUNE, "method": "full", "offload": "none", "data": "1kimages", "global_batch": "1"},
    },
}


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model fits `count` cards of a name in one machine, used in one way (a key of WAYS); with nine in ten, as in a plan."""

    gpu: str
    count: int
    model: str
    way: str
    fits: bool


def fits_of(machine: Machine, *, task: str = "", catalog: Catalog | None = None) -> tuple[Fit, ...]:
    """Every usual model in every way of a task (empty: of all). A larger model of the same kind than one that does not fit is not tried."""
    allowed = ("", SERVE, TUNE)
    if allowed.count(task) == 0:
        near = nearest_words(task, (SERVE, TUNE), count=1)
        raise UnknownNameError(
            "task", task, nearest=near, allowed=Message("names.part_allowed_words", names=f"{SERVE}, {TUNE}"), field="task"
        )
    found = []
    for kind, ways in WAYS.items():
        # A model that draws fits on one card or not at all: more of them are copies.
        one = dataclasses.replace(machine, count=1) if kind == "pictures" else machine
        priced = with_machine(catalog or default_catalog(), one, alone=True, usd_per_h=1.0)  # what it costs is not asked
        names = sorted((row["model"] for row in facts.table("fit_models") if row["kind"] == kind), key=parameters)
        for way in ways:
            if not task or (task == SERVE) == way.startswith(SERVE):
                found += list(_of_way(machine, names, way, ways[way], priced))
    return tuple(found)


def parameters(model: str) -> float:
    """Parameters of a bundled model."""
    record: Any = facts.model(model)
    return float(getattr(record, "params_total", None) or getattr(record, "params", 0.0) or 0.0)


def _of_way(machine: Machine, names: list[str], way: str, wishes: Mapping[str, str], catalog: Catalog) -> Iterator[Fit]:
    fits = True
    for name in names:
        fits = fits and _fits(name, {**wishes, "gpu": machine.gpu}, catalog)  # named, so that its own software stack counts
        yield Fit(machine.gpu, machine.count, name, way, fits)


def _fits(model: str, wishes: Mapping[str, str], catalog: Catalog) -> bool:
    try:
        found = search(Workload(model=model, cloud="private", purchase="owned", **wishes), catalog=catalog)
    except RightfitError:
        return False
    return bool(np.any(found.bits & ~HOST_BITS == 0))
