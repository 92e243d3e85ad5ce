"""The targets that a plan can be exported to: every Target in a module of rightfit.exports.targets;
nothing else lists them."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from rightfit.errors import InputError, UnknownNameError
from rightfit.exports.job import Job
from rightfit.exports.locks import locked_files
from rightfit.exports.mirrors import mirrored_files
from rightfit.exports.model_words import chip_of, columns_problem, limits_problem, revision_problem, size_problem
from rightfit.facts.tables import says
from rightfit.messages import Message
from rightfit.records import dataclass

Files = Mapping[str, str]
GROUPS = ("launch", "kubernetes", "training", "serving", "environment", "operations")
ALL = "all"
_MOST_NAMED = 3
WORKS = ("train", "prepare", "batch", "serve")
_WORKS_OF_GROUP: Mapping[str, tuple[str, ...]] = {"training": ("train",), "serving": ("batch", "serve")}


def work_of(job: Job) -> str:
    """One of WORKS: what the plan is for."""
    return job.task if job.task in WORKS else "train"


def work_words(job: Job) -> Message:
    """What the plan is, for a sentence."""
    return Message(f"export.plan_{'finetune' if job.task == 'finetune' else work_of(job)}")


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of file. `write` is pure: job -> {relative path: text}. `own_problem` says in one
    line what of a job this target alone cannot express ("" for nothing): `problem` asks it last,
    after what all targets share, and is what others ask.
    `stack`: what a launcher starts for it (an ExportStack).
    `works`: for which of WORKS it is; what is usual in its group where it says nothing.
    `run`: what to type in the target's folder, one command a line, for the bundle's README; ""
    where the files are read by something else."""

    name: str
    group: str
    summary: str
    write: Callable[[Job], Files]
    own_problem: Callable[[Job], Message | str] = lambda _job: ""
    checked_by: str = ""
    run: str = ""
    stack: Callable[[Job], Any] | None = None
    works: tuple[str, ...] = ()

    @property
    def works_for(self) -> tuple[str, ...]:
        """The kinds of work that the target is for."""
        return self.works or _WORKS_OF_GROUP.get(self.group, WORKS)

    def other_work(self, job: Job) -> Message | str:
        """That the target is for another kind of work than the plan's ("" if it is not)."""
        if work_of(job) in self.works_for:
            return ""
        runs = "train" in self.works_for
        done = {"operations": "keep", "kubernetes": "run"}.get(self.group, "train") if runs else self.works_for[-1]
        return Message("export.other_work", does=Message(f"export.does_{done}"), plan=work_words(job))

    def problem(self, job: Job) -> Message | str:
        """Why the target cannot express a job in one line ("" if it can); no target divides cards
        or starts several models."""
        shared = next((name for name in ("slice", "beside") if job.wish(name)), "")
        if shared:
            return Message("export.shared", feature=shared, option=shared)
        return (
            self.other_work(job)
            or (size_problem(job) if self.group in ("training", "serving", "kubernetes") else "")
            or revision_problem(job, self.name)
            or (columns_problem(job, self.name) or limits_problem(job, self.name) if self.group in ("training", "serving") else "")
            or self.own_problem(job)
        )

    def files(self, job: Job) -> Files:
        """The files; InputError where the target cannot express the job."""
        problem = self.problem(job)
        if problem:
            raise InputError(Message("export.not_expressed", target=self.name, problem=problem, instead=self.instead(job)), field="to")
        return mirrored_files(locked_files(self.write(job)), job)

    def instead(self, job: Job) -> Message | str:
        """What can be written in place of a job that the target cannot express: the first other
        option of its plan, else this option for other targets of the group ("" if nothing)."""
        for other in job.alternatives:
            if not self.problem(dataclasses.replace(job, option=other)):
                cards = f"{other.nodes * other.accelerator.count_per_node} x {other.accelerator.name}" if other.accelerator.name else "CPU"
                server = f"{other.provider}/{other.instance_type}"
                return Message("export.instead_option", rank=other.rank, server=server, cards=cards)
        able = [target for target in all_targets().values() if target.group == self.group and not target.problem(job)]
        names = [target.name for target in sorted(able, key=lambda target: target.stack is None)]  # programs before what stands before them
        return Message("export.instead_targets", names=", ".join(names[:_MOST_NAMED])) if names else ""


@functools.cache
def all_targets() -> Mapping[str, Target]:
    """Every target by name, grouped in the order of GROUPS."""
    from rightfit.exports import targets as package

    modules = [importlib.import_module(f"{package.__name__}.{module.name}") for module in pkgutil.iter_modules(package.__path__)]
    found = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, Target)}.values()
    return {target.name: target for target in sorted(found, key=lambda target: (GROUPS.index(target.group), target.name))}


TERRAFORM = "terraform"


def find_target(name: str, job: Job | None = None) -> Target:
    """The target of a name; the nearest names where there is none. With a job "terraform" is that
    of the job's cloud."""
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
        allowed=Message("names.choose", names=", ".join(names)),
        field="to",
    )


# ---- What the targets of operations share: what the plan expects of a running job, and shell words
# that read its folders.

IDLE_SHARE = 0.5  # of the predicted busy time: below it something is wrong
MIB = 1024**2
FULL_SHARE = 0.97  # of a card's memory: beyond it the next allocation may fail
COST_MARGIN = 1.05


def floor_of_utilisation(job: Job) -> float:
    """Below this share of busy time something is wrong; 0 where the plan
    predicts no utilisation."""
    load = job.option.facts.get("utilisation")
    if job.is_service:
        return IDLE_SHARE * min(1.0, float(load)) if load else 0.0
    return IDLE_SHARE if job.gpus_per_node else 0.0


def has_profiling(job: Job) -> bool:
    """Whether DCGM reads profiling counters (busy share of the engines, tensor units) of a plan's
    cards: from Volta on, of GeForce cards from Blackwell on. Source: NVIDIA/dcgm-exporter issues
    395 and 404, NVIDIA/DCGM issue 234. Of a card that is not known it is not promised."""
    card = chip_of(job)
    return card is not None and card.compute_capability >= (10.0 if says("setup", "geforce", card.name) else 7.0)


def memory_limit_bytes(job: Job) -> float:
    """The most that the plan holds possible on a card, or nearly all of it; 0
    without a prediction."""
    peak = job.option.estimate.get("peak_memory_bytes")
    return min(peak.high95, FULL_SHARE * job.option.accelerator.memory_bytes) if peak and job.gpus_per_node else 0.0


def usd_per_gpu_h(job: Job) -> float:
    """What an hour of one card costs by the plan's price."""
    return job.option.cost.hourly_usd / job.num_gpus if job.num_gpus else 0.0


def most_usd_per_h(job: Job) -> float:
    """The most that an hour may cost: all servers of the busiest hour."""
    return job.option.cost.hourly_usd * most_servers(job) / job.num_nodes * COST_MARGIN


def most_servers(job: Job) -> int:
    """Servers at the busiest hour of a service, else those of the run."""
    day = job.section("autoscaling")
    replicas = max(job.option.layout.replicas, int(float(day.get("max_replicas") or 0)))
    return max(job.num_nodes, -(-replicas // max(1, job.option.layout.replicas_per_node))) if job.is_service else job.num_nodes


def most_usd(job: Job) -> float:
    """The most that the plan may cost: a month of a service at its busiest, a run at the end of
    its 95 % interval."""
    cost = job.option.cost
    if job.is_service:
        return (cost.monthly_usd or 0.0) * most_servers(job) / job.num_nodes
    time = job.option.estimate.get("total_time_s")
    return (cost.total_usd or 0.0) * (time.high95 / time.mid if time and time.mid else 1.0)


def folder_of(job: Job) -> str:
    """Where a run keeps its checkpoints."""
    return f"/checkpoints/{job.name}"
