"""Several models on one server: replicas on slices of its cards, and neighbours that take some of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rightfit.errors import ContradictionError, InputError
from rightfit.facts.slices import cut, slice_of
from rightfit.messages import Message
from rightfit.search.answer import Reason, Section
from rightfit.search.constraints import accelerators_of
from rightfit.search.service.space import CPU_FAMILY, ServingFleet

if TYPE_CHECKING:
    from rightfit.catalog import ServerTable
    from rightfit.physics.columns import Array
    from rightfit.search.answer import Option
    from rightfit.search.service.found import ServingExploration
    from rightfit.workload import Workload


def sliced_fleet(fleet: ServingFleet, workload: Workload, servers: ServerTable) -> ServingFleet:
    """The fleet with the slices that a workload asks for in place of whole cards; classes whose cards have none such serve nothing."""
    if not workload.slice:
        return fleet
    names = [servers.accelerator_name[row] for row in fleet.first.tolist()]
    parts = [slice_of(name, workload.slice) if name else None for name in names]
    asked = tuple(name for gpu in workload.gpu for name in accelerators_of(gpu) if name)
    if asked and not any(slice_of(name, workload.slice) for name in asked):
        raise ContradictionError(
            Message("search.no_such_slice", slice=workload.slice, cards=", ".join(workload.gpu), card=asked[0]),
            field="slice",
        )
    known = np.array([part is not None for part in parts] or np.zeros(0), dtype=np.bool_)
    number = np.cumsum(known) - 1
    listed = fleet.machine_index >= 0
    machine = np.where(listed, np.where(known[np.maximum(fleet.machine_index, 0)], number[np.maximum(fleet.machine_index, 0)], -1), -1)
    kept = np.flatnonzero(known)
    lacking = listed & (machine < 0)
    return dataclasses.replace(
        fleet,
        accelerators=tuple(cut(card, part) for card, part in zip(fleet.accelerators, parts, strict=True) if part is not None),
        families=tuple(fleet.families[at] for at in kept.tolist()),
        gpus_per_node=np.array(
            [count * part.per_card for count, part in zip(fleet.gpus_per_node.tolist(), parts, strict=True) if part is not None],
            dtype=np.intp,
        ),
        first=fleet.first[kept],
        machine_index=machine.astype(np.intp),
        missing=tuple("slices" if lacks else text for lacks, text in zip(lacking.tolist(), fleet.missing, strict=True)),
        stacks=tuple(fleet.stacks[at] for at in kept.tolist()),
    )


def neighbours_of(workload: Workload) -> tuple[Workload, ...]:
    """The wishes of the models that are to stand on the same servers: "MODEL" or "MODEL@RATE" each."""
    found = []
    for text in workload.beside:
        name, _, rate = text.rpartition("@") if "@" in text else (text, "", "")
        if not name.strip():
            raise InputError(Message("search.beside_no_model", text=text), field="beside")
        shared = {key: value for key in ("cloud", "region", "country", "gpu", "purchase") if (value := getattr(workload, key))}
        wishes = {"model": name.strip(), "task": "serve", **({"rate": rate} if rate else {}), **shared}
        found.append(type(workload)(**wishes, **({"slice": workload.slice} if workload.slice else {})))
    return tuple(found)


def taken_by(neighbours: tuple[ServingExploration, ...], fleet: ServingFleet) -> Array:
    """Cards or slices of a fleet of each class that the replicas of neighbours take (classes,); infinity where one of them does not run.

    A neighbour that would run on the server's processors is not meant: it stands on its cards.
    """
    taken = np.zeros(len(fleet))
    for other in neighbours:
        for machine, server in enumerate(fleet.first.tolist()):
            theirs = int(other.fleet.machine_index[server]) if server < other.fleet.machine_index.shape[0] else -1
            taken[machine] += _devices(other, theirs)
    return taken


def _devices(other: ServingExploration, machine: int) -> float:
    if machine < 0 or other.fleet.families[machine].startswith(CPU_FAMILY):
        return math.inf
    rows = [int(row) for row in other.sizing.row[machine] if row >= 0]
    needs = [
        float(other.sizing.replicas[machine, column]) * float(other.space.tensor[row])
        for column, row in enumerate(other.sizing.row[machine].tolist())
        if row >= 0 and int(other.space.nodes[row]) == 1
    ]
    return min(needs) if rows and needs else math.inf


def shared_fleet(fleet: ServingFleet, workload: Workload, servers: ServerTable, explored: Callable[[Workload], object]) -> ServingFleet:
    """The fleet as slices where they are asked for, with what the neighbours of a workload take of each class.

    `explored`: what the family of a neighbour, which is any family of services, finds for it.
    """
    fleet = sliced_fleet(fleet, workload, servers)
    if not workload.beside:
        return fleet
    others = tuple(_served(explored(other)) for other in neighbours_of(workload))
    return dataclasses.replace(fleet, taken=taken_by(others, fleet))


def _served(found: object) -> ServingExploration:
    """What is found for a neighbour, which is asked to serve."""
    from rightfit.search.service.found import ServingExploration

    assert isinstance(found, ServingExploration)
    return found


def sharing_section(exploration: ServingExploration, option: Option, *, server: int) -> Section | None:
    """How the cards of the first option are shared: slices, what each has, what is lost, and who stands beside. `server`: its row in the
    market's table."""
    workload = exploration.wish.workload
    if not workload.slice and not workload.beside:
        return None
    reasons: list[Reason] = []
    content: dict[str, float | str] = {"used": option.layout.data, "servers": option.nodes}
    if workload.slice and (part := slice_of(option.accelerator.name, workload.slice)):
        card = next(card for card in exploration.fleet.accelerators if card.name.startswith(f"{option.accelerator.name}/"))
        slots = part.per_card * option.accelerator.count_per_node * option.nodes
        content |= {
            "slice": part.name,
            "memory_bytes": card.memory_bytes,
            "compute_share": part.compute_share,
            "per_card": part.per_card,
            "slots": slots,
            "unused_share": max(0.0, 1.0 - part.per_card * part.compute_share),
            "source": part.source,
        }
        reasons.append(Reason("serve_slice" if part.isolated else "serve_fraction", content))
    if workload.beside:
        machine = int(exploration.fleet.machine_index[server])
        content |= {"beside": ", ".join(workload.beside), "taken": float(exploration.fleet.taken[machine])}
        reasons.append(Reason("serve_beside", content))
    return Section("sharing", content, tuple(reasons))
