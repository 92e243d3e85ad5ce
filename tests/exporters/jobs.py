"""The jobs of the typical plans, and which of them a target takes."""

from __future__ import annotations

from typical_plans import WISHES, plan_values

from rightfit.exports import ExportSettings, Files, Job, find_target, job_of, plan_document

HOSTILE = "a\"b'c $(reboot) `id` ${x} %{y}\n--flag: 日本"


def job(name: str, **settings: object) -> Job:
    return job_of(plan_document(plan_values(name)), settings=ExportSettings(**settings))  # type: ignore[arg-type]


def taken(target: str) -> list[str]:
    """Names of the typical plans that a target can express."""
    found = find_target(target)
    return [name for name in WISHES if not found.problem(job(name))]


def files(target: str, name: str, **settings: object) -> Files:
    return find_target(target).files(job(name, **settings))


def hostile(target: str, name: str) -> Files:
    """The files of a plan whose model has a name that tries to break out of wherever it is put; the
    data set's name does where a target must know the model."""
    values = plan_values(name)
    found = job_of(plan_document({**values, "workload": {**values["workload"], "model": HOSTILE}}))
    return find_target(target).files(job(name, data_path=HOSTILE) if find_target(target).problem(found) else found)
