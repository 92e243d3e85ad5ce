"""Jobs of a fleet as own runs say: the hours of each way, and with them its rent, are moved by what runs of the same job missed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit.fleet.ways import Way, Ways
from rightfit.measure.evidence import Evidence, corrections, named
from rightfit.measure.likeness import Case, case_of
from rightfit.measure.planning import percent

if TYPE_CHECKING:
    from rightfit.fleet.reading import Fleet

_TRAINING = (None, "train", "finetune")
_COLUMNS = ("model", "method", "framework", "precision", "seq_len", "micro_batch")


def calibrated(ways: Mapping[str, Ways], fleet: Fleet, evidence: Evidence) -> tuple[dict[str, Ways], dict[str, str]]:
    """The ways of the jobs with corrected hours and rent, cheapest first, and by how much the first of each job moved ("+12 %").

    Only jobs of a model that a run is of are moved: what other jobs missed says little of a fleet that mixes stacks. Services keep their sizes, as in a plan.
    """
    models = {named(row.case).job[0] for row in evidence.of("training-step")}
    moved, told = dict(ways), {}
    for job in fleet.jobs:
        wishes = {**fleet.limits, **job.wishes}
        found = ways.get(job.name)
        if found is None or not found.found or wishes.get("task") not in _TRAINING or _job(wishes, found.found[0]).job[0] not in models:
            continue
        factors = [one.factor if one else 1.0 for one in corrections(evidence, [_job(wishes, way) for way in found.found])]
        if all(factor == 1.0 for factor in factors):
            continue
        changed = [_stretched(way, factor) for way, factor in zip(found.found, factors, strict=True)]
        moved[job.name] = dataclasses.replace(found, found=tuple(sorted(changed, key=lambda way: way.total_usd)))
        told[job.name] = percent(factors[0])
    return moved, told


def _job(wishes: Mapping[str, Any], way: Way) -> Case:
    row = {name: str(wishes[name]) for name in _COLUMNS if wishes.get(name)}
    return named(
        case_of({"micro_batch": "", **row, "gpu": way.accelerator, "n_gpus": f"{way.accelerators * way.servers:g}"}, "step_time_s")
    )


def _stretched(way: Way, factor: float) -> Way:
    return dataclasses.replace(way, hours=way.hours * factor, servers_usd=way.servers_usd * factor)
