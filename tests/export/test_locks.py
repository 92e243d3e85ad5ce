"""What an export installs has a lock: releases of all packages, as they were resolved together, in
constraints.txt beside what installs it."""

from __future__ import annotations

import re
import shlex

import pytest
from kinds import STARTED
from typical_plans import FURTHER, OTHER_KINDS, WISHES, plan_values

from rightfit.exports import ExportSettings, all_targets, files_of, job_of, plan_document
from rightfit.exports.locks import CONSTRAINTS, LOCKED, constraints, packages_of
from rightfit.exports.locks import _locks as every_lock
from rightfit.exports.locks import _numbers as numbers_of
from rightfit.exports.locks import _rows as rows
from rightfit.exports.stack import installs, setup_files, stack_of, stack_problem
from rightfit.exports.targets.containers import pip_lines
from rightfit.facts.engine_releases import releases

PLANS = (*WISHES, *FURTHER, *OTHER_KINDS, *STARTED)
ALONE = ("mlflow",)
"""Targets whose one package is no environment."""


def name_of(pin: str) -> str:
    return re.split(r"[\[=<>!~]", pin)[0].replace("_", "-").casefold()


@pytest.mark.parametrize("name", PLANS)
def test_what_a_plan_installs_has_its_lock_beside_it(name: str) -> None:
    job = job_of(plan_document(plan_values(name)))
    faults = []
    for target in all_targets().values():
        files = {} if target.problem(job) else target.files(job)
        for path, text in files.items():
            beside = path.rpartition("/")[0] + "/" if "/" in path else ""
            if path.endswith("requirements.txt") and target.name not in ALONE:
                lock = files.get(beside + CONSTRAINTS, "")
                if not lock or not text.startswith(f"-c {CONSTRAINTS}\n"):
                    faults.append(f"{target.name}/{path}: no lock for {text.split()}")
                elif both := {name_of(line) for line in lock.splitlines()} & set(map(name_of, packages_of(text.splitlines()))):
                    faults.append(f"{target.name}/{path}: pinned twice: {both}")
            if (
                LOCKED in text
                and not any(other.endswith(CONSTRAINTS) for other in files)
                and "bz2" not in text
                and f"> {CONSTRAINTS} <<" not in text
                and f"  {CONSTRAINTS}:" not in text
            ):
                faults.append(f"{target.name}/{path}: names a lock that is not there")
    if not stack_problem(job):
        stack = stack_of(job)
        if any(line.startswith(LOCKED) for line in installs(stack)) and CONSTRAINTS not in stack.files:
            faults.append(f"{stack.name}: its image takes a lock that is not among its files")
        if any(line.startswith(LOCKED) for line in stack.setup) and not setup_files(stack).get(CONSTRAINTS):
            faults.append(f"{stack.name}: its set-up takes a lock that is empty")
    assert not faults, "\n".join(faults)


def test_the_tables_hold_releases_and_nothing_of_where_they_came_from() -> None:
    pins = rows("lock_pins.csv")
    odd = [row["pin"] for row in pins if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*==[\w.!+]+( ; [\w.'<>=!*() ]+)?", row["pin"])]
    assert not odd
    numbers = {lock.number for lock in every_lock()}
    assert set().union(*(numbers_of(row["locks"]) for row in pins)) == numbers
    sets = [lock.packages for lock in every_lock()]
    assert not [one for one in sets if sum(one <= other for other in sets) > 1]


def test_packages_of_pytorch_s_own_release_are_of_the_release_that_a_set_names() -> None:
    """Torchaudio asks for PyTorch without naming which, so the newest would be resolved beside any;
    the image's own would be replaced by it, and it does not load there."""
    wrong, looked = [], 0
    for lock in every_lock():
        torch = next((word.partition("==")[2] for word in lock.packages if word.startswith("torch==")), "")
        pins = [row["pin"].partition(" ;")[0] for row in rows("lock_pins.csv") if lock.number in numbers_of(row["locks"])]
        minor = int(torch.split(".")[1]) if torch else 0
        wanted = {"torchaudio": torch, "torchvision": f"0.{minor + 15}.{torch.rpartition('.')[2]}"}
        found = {name: version for name, _, version in (pin.partition("==") for pin in pins) if name in wanted and torch}
        looked += len(found)
        wrong += [(lock.number, torch, name, version) for name, version in found.items() if version != wanted[name]]
    assert looked >= 3
    assert not wrong


def test_every_release_of_an_engine_has_its_lock() -> None:
    without = [release.package for release in releases() if release.package and not constraints(packages_of(shlex.split(release.package)))]
    assert not without


def test_an_image_copies_the_lock_before_it_installs() -> None:
    job = job_of(plan_document(plan_values("lora-8b-aws")))
    lines = all_targets()["dockerfile"].files(job)["Dockerfile"].splitlines()
    [install] = [number for number, line in enumerate(lines) if line.startswith("RUN pip install")]
    assert f"-c {CONSTRAINTS}" in lines[install]
    assert lines.index(f"COPY {CONSTRAINTS} /job/") < install
    assert lines.index("WORKDIR /job") < install


def test_a_larger_lock_serves_a_set_within_it_and_no_other() -> None:
    whole = packages_of(["torch==2.8.0+cu128", "transformers==4.57.1", "datasets==4.3.0"])
    assert whole == {"torch==2.8.0", "transformers==4.57.1", "datasets==4.3.0"}
    assert constraints(whole)
    assert not constraints(whole | {"sorting==1.0"})
    assert not constraints(frozenset())


def test_what_a_larger_set_names_itself_is_held_for_a_smaller_one_too() -> None:
    """numpy, say, which a smaller set installs because another package asks for it."""
    for lock in every_lock():
        for word in sorted(lock.packages) if len(lock.packages) > 1 else ():
            names = [pin.partition("==")[0] for pin in constraints(lock.packages - {word}).splitlines()[1:]]
            larger = [other for other in every_lock() if lock.packages - {word} <= other.packages]
            if "==" in word and not word.startswith("torch") and min(larger, key=lambda one: (len(one.packages), one.number)) == lock:
                assert names.count(word.partition("[")[0].partition("==")[0]) == 1, (lock, word)


def test_a_list_for_conda_names_packages_alone() -> None:
    lines = pip_lines(stack_of(job_of(plan_document(plan_values("lora-8b-aws")))))
    assert not [line for line in lines if line.startswith("-c")]
    assert any(line.startswith("torch==") for line in lines)


@pytest.mark.parametrize("name", ["chat-8b-aws", "batch-8b-tencent"])
def test_what_is_added_to_an_image_keeps_to_what_the_image_has(name: str) -> None:
    job = job_of(plan_document(plan_values(name)))
    stack = stack_of(job)
    assert stack.program_inside
    assert any(line.startswith(LOCKED) for line in stack.setup)
    assert not [line for line in installs(stack) if line.startswith(LOCKED)]
    files = {
        target: all_targets()[target].files(job) for target in ("kubernetes", "dockerfile", "ray") if not all_targets()[target].problem(job)
    }
    assert files
    assert not [target for target, written in files.items() for text in written.values() if LOCKED in text]


def test_what_is_served_after_a_run_has_its_lock() -> None:
    job = job_of(plan_document(plan_values("lora-8b-aws")), settings=ExportSettings(then="serve"))
    files = files_of(job, "trl")
    assert files["then-serve/requirements.txt"].startswith(f"-c {CONSTRAINTS}\n")
    assert files[f"then-serve/{CONSTRAINTS}"] == constraints(packages_of(files["then-serve/requirements.txt"].splitlines()))
