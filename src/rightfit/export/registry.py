"""The targets that a plan can be exported to. Each is one module of rightfit.export.targets with a TARGET; nothing else lists them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from types import ModuleType

from rightfit.errors import InputError, UnknownNameError
from rightfit.export.job import Job
from rightfit.export.model_words import revision_problem, size_problem
from rightfit.messages import Message
from rightfit.records import dataclass

Files = Mapping[str, str]
GROUPS = ("launch", "kubernetes", "training", "serving", "environment", "operations")
ALL = "all"


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of file. `write` is pure: job -> {relative path: text}. `refuses` says in one line why a job cannot be expressed ("" if it
    can).
    `run`: what to type in the target's folder, one command a line, for the bundle's README; "" where the files are read by something
    else."""

    name: str
    group: str
    summary: str
    write: Callable[[Job], Files]
    refuses: Callable[[Job], Message | str] = lambda _job: ""
    checked_by: str = ""
    run: str = ""

    def problem(self, job: Job) -> Message | str:
        """Why the target cannot express a job in one line ("" if it can); no target divides cards or starts several models."""
        shared = next((name for name in ("slice", "beside") if job.wish(name)), "")
        if shared:
            return Message("export.part_shared", feature=shared, option=shared)
        return (
            (size_problem(job) if self.group in ("training", "serving", "kubernetes") else "")
            or revision_problem(job, self.name)
            or self.refuses(job)
        )

    def files(self, job: Job) -> Files:
        """The files; InputError where the target cannot express the job."""
        problem = self.problem(job)
        if problem:
            raise InputError(Message("export.not_expressed", target=self.name, problem=problem), field="to")
        return self.write(job)


def target_module(name: str) -> ModuleType:
    """The module of a target, on use: launchers stand on the programs of others, which stand on what the launchers are made of."""
    return importlib.import_module(f"rightfit.export.targets.{name}")


@functools.cache
def all_targets() -> Mapping[str, Target]:
    """Every target by name, grouped in the order of GROUPS."""
    from rightfit.export import targets as package

    found = [target_module(module.name).TARGET for module in pkgutil.iter_modules(package.__path__)]
    return {target.name: target for target in sorted(found, key=lambda target: (GROUPS.index(target.group), target.name))}


TERRAFORM = "terraform"


def find_target(name: str, job: Job | None = None) -> Target:
    """The target of a name; the nearest names where there is none. With a job "terraform" is that of the job's cloud."""
    import difflib

    wanted = name.strip().casefold()
    if wanted == TERRAFORM and job is not None:
        wanted = f"{TERRAFORM}-{job.option.provider}"
        if wanted not in all_targets():
            known = ", ".join(found.removeprefix(f"{TERRAFORM}-") for found in all_targets() if found.startswith(TERRAFORM))
            raise InputError(Message("export.no_terraform", provider=job.option.provider, providers=known), field="to")
    if wanted in all_targets():
        return all_targets()[wanted]
    names = (*all_targets(), ALL)
    raise UnknownNameError(
        "export target",
        name,
        nearest=difflib.get_close_matches(wanted, names, n=3, cutoff=0.5),
        allowed=Message("names.part_choose", names=", ".join(names)),
        field="to",
    )
