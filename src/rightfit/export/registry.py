"""The targets that a plan can be exported to. Each is one module of rightfit.export.targets with a TARGET; nothing else lists them."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping

from rightfit.errors import InputError, UnknownNameError
from rightfit.export.job import Job

Files = Mapping[str, str]
GROUPS = ("launch", "kubernetes", "training", "serving", "environment", "operations")
ALL = "all"


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """One kind of file. `write` is pure: job -> {relative path: text}. `refuses` says in one line why a job cannot be expressed ("" if it can).
    `run`: what to type in the target's folder, one command a line, for the bundle's README; "" where the files are read by something else."""

    name: str
    group: str
    summary: str
    write: Callable[[Job], Files]
    refuses: Callable[[Job], str] = lambda _job: ""
    checked_by: str = ""
    run: str = ""

    def files(self, job: Job) -> Files:
        """The files; InputError where the target cannot express the job."""
        problem = self.refuses(job)
        if problem:
            raise InputError(f"{self.name} cannot express this plan: {problem}", field="to")
        return self.write(job)


@functools.cache
def all_targets() -> Mapping[str, Target]:
    """Every target by name, grouped in the order of GROUPS."""
    from rightfit.export import targets as package

    found = [importlib.import_module(f"{package.__name__}.{module.name}").TARGET for module in pkgutil.iter_modules(package.__path__)]
    return {target.name: target for target in sorted(found, key=lambda target: (GROUPS.index(target.group), target.name))}


def find_target(name: str) -> Target:
    """The target of a name; the nearest names where there is none."""
    import difflib

    wanted = name.strip().casefold()
    if wanted in all_targets():
        return all_targets()[wanted]
    names = (*all_targets(), ALL)
    raise UnknownNameError(
        "export target",
        name,
        nearest=difflib.get_close_matches(wanted, names, n=3, cutoff=0.5),
        allowed="choose one of " + ", ".join(names),
        field="to",
    )


def files_of(job: Job, name: str) -> Files:
    """The files of one target, or with "all" of every target that can express the job, each in a folder of its own, with a README that orders them."""
    if name.strip().casefold() == ALL:
        from rightfit.export.bundle import bundle

        return bundle(job)
    return find_target(name).files(job)
