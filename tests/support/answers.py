"""The answers to the wishes of tests/data/wishes.toml, each worked out once in a run of the suite,
whatever the number of its processes.

What one test process has worked out lies in the folder that RIGHTFIT_TEST_ANSWERS names;
tests/conftest.py makes it for a run and removes it after.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import pickle
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rightfit
from rightfit.errors import RightfitError
from rightfit.search.answer import Option, Plan

FOLDER = "RIGHTFIT_TEST_ANSWERS"
#: Variable of a test process that is still collecting, where nothing may be worked out: every
#: process collects everything.
COLLECTING = "RIGHTFIT_TEST_COLLECTING"
TABLE = tomllib.loads((Path(__file__).parents[1] / "data" / "wishes.toml").read_text(encoding="utf-8"))
#: The servers that are asked about by name.
NAMED: tuple[str, ...] = tuple(TABLE["servers"]["why"])


@functools.cache
def wishes() -> dict[str, dict[str, Any]]:
    """Every wish by the name family/wish."""
    return {f"{family}/{name}": wish for family, named in TABLE.items() if family != "servers" for name, wish in named.items()}


def stored(key: str, ask: Callable[[], Any]) -> Any:
    """What `ask` answers; from the folder where a process of this run has asked the same before.
    Other processes wait while one works it out."""
    assert os.environ.get(COLLECTING) != str(os.getpid()), f"{key}: worked out while tests are collected; ask inside the test"
    folder = os.environ.get(FOLDER)
    if not folder:
        return ask()
    path = Path(folder) / hashlib.sha256(key.encode()).hexdigest()[:24]
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return pickle.loads(path.read_bytes())
        answer = ask()
        path.write_bytes(pickle.dumps(answer))
    return answer


def asked(ask: Callable[[], Any]) -> Any:
    """The answer, or the error of ours that refuses it in one line; any other error is a fault."""
    try:
        return ask()
    except RightfitError as error:
        return error


@functools.cache
def planned(name: str) -> Plan:
    """The plan of a wish."""
    found: Plan = stored(f"plan {name}", lambda: rightfit.plan(**wishes()[name]))
    return found


def on_server(name: str, server: str, nodes: int = 1) -> Plan:
    """The estimate of a server for a wish."""
    found: Plan = stored(f"estimate {name} {server} {nodes}", lambda: rightfit.estimate(**wishes()[name], on=server, nodes=nodes))
    return found


@functools.cache
def estimated(name: str) -> Plan | None:
    """The estimate of the server that leads the plan of a wish; None where nothing leads or
    the wish is refused."""
    best = planned(name).best
    if best is None:
        return None
    found = asked(lambda: on_server(name, f"{best.provider}/{best.instance_type}", best.nodes))
    return None if isinstance(found, RightfitError) else found


def options_of(name: str) -> list[tuple[str, Option]]:
    """Every option that the plan and the estimate of a wish show, with what it is called
    in a failing test."""
    shown = []
    for verb, plan in (("plan", planned(name)), ("estimate", estimated(name))):
        if plan is not None:
            named = {"options": plan.options, "pareto": plan.pareto, "unfit": (plan.unfit,) if plan.unfit else ()}
            shown += [(f"{verb}.{group}[{at}]", option) for group, found in named.items() for at, option in enumerate(found)]
    return shown
