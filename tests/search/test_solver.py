"""Standard output is the answer's: the solver prints nothing, whoever asks it, and no room
below the faces prints."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import rightfit
from rightfit.search.solver import quiet_highs

SOURCE = Path(rightfit.__file__).parent
BANNER = b"Running HiGHS 1.16.0\n"
ROOT = Path(__file__).parents[2]
#: Everybody who asks the solver, as a program: HiGHS greets once a process, so that each
#: has one of its own.
USERS = {
    "the solver itself": "from rightfit.search.solver import quiet_highs; quiet_highs()",
    "a mixed fleet of servers": """
import numpy as np
from rightfit.search.service.scaling import cover
cover(np.array([10.0, 4.0]), np.array([10.0, 2.0]), load=11.0)
""",
    "a fleet of jobs and services": """
import runpy
from rightfit.fleets.solver import solve
solve(runpy.run_path("tests/fleets/synthetic.py")["instance"](3, services=1, purchases=1))
""",
}


@pytest.mark.parametrize("user", USERS)
def test_no_user_of_the_solver_prints(user: str) -> None:
    pytest.importorskip("highspy")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run([sys.executable, "-c", USERS[user]], capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_release_that_greets_when_callbacks_are_set_up_is_silenced(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Greeting:
        """As highspy 1.16 is made: options first, then callbacks, which print the banner unless
        the switch is off."""

        def __init__(self) -> None:
            self.options: dict[str, object] = {"output_flag": True}
            self.enableCallbacks()

        def setOptionValue(self, name: str, value: object) -> None:  # noqa: N802
            self.options[name] = value

        def enableCallbacks(self) -> None:  # noqa: N802
            if self.options["output_flag"]:
                os.write(1, BANNER)

    module = types.ModuleType("highspy")
    monkeypatch.setattr(module, "Highs", Greeting, raising=False)
    monkeypatch.setitem(sys.modules, "highspy", module)
    Greeting()
    assert capfd.readouterr().out == BANNER.decode()  # this is what a user of the class itself would see
    solver = quiet_highs()
    assert isinstance(solver, Greeting)
    assert solver.options == {"output_flag": False}
    assert capfd.readouterr() == ("", "")


def test_one_room_makes_the_solver_and_no_library_room_prints() -> None:
    """Other solvers than the quiet one, and `print` where no face is, are found by name."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE).as_posix()
        if place.startswith(("exports/scripts/", "measure/probing/agent/")):  # programs of their own on the rented server
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            imported = (
                [one.name for one in node.names]
                if isinstance(node, ast.Import)
                else [node.module]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            is_solver = "highspy" in imported or (isinstance(node, ast.Attribute) and node.attr == "Highs")
            is_print = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            if is_print or (is_solver and place != "search/solver.py"):
                found.append(f"{place}:{node.lineno}")
    assert not found
