"""Whatever can be planned can be started by some export, or is refused in a line that says why."""

from __future__ import annotations

import shlex

import pytest
from kinds import REFUSED, STARTED, kind_plan

from rightfit.export import Job, all_targets, job_of, plan_document
from rightfit.export.stack import stack_name, stack_of, stack_problem

PROGRAMS = ("accelerate", "python", "python3", "sh", "torchrun", "uvicorn", "vllm", "env", "llama-server")


def job(name: str) -> Job:
    return job_of(plan_document(kind_plan(name)))


@pytest.mark.parametrize("name", STARTED)
def test_a_kind_of_work_has_an_export_that_starts_it(name: str) -> None:
    """A command of a known program, whose own files are all written, and packages with versions."""
    found = job(name)
    assert not stack_problem(found), f"{stack_name(found)}: {stack_problem(found)}"
    stack = stack_of(found)
    assert stack.command[0] in PROGRAMS
    named = [word for word in stack.command if word.endswith((".py", ".json", ".yaml")) and "/" not in word]
    assert set(named) <= set(stack.files), (named, sorted(stack.files))
    words = [word for line in stack.setup for word in shlex.split(line)]
    assert "pip" in words
    pins = [word for word in words if "==" in word]
    assert pins


@pytest.mark.parametrize("name", REFUSED)
def test_a_kind_that_nothing_starts_is_refused_with_its_reason(name: str) -> None:
    found, said = job(name), REFUSED[name][1]
    problem = str(stack_problem(found))
    assert said in problem, problem
    assert "\n" not in problem
    group = [target for target in all_targets().values() if target.group == "training"]
    assert all(str(target.problem(found)) for target in group)
