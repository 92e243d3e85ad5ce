"""HiGHS, the solver of the optional extra `fleet`, as everybody here gets it: it prints nothing,
because standard output is the answer's.

HiGHS writes to the file descriptor of standard output itself, past `sys.stdout`: a line of it would
stand before a JSON document and between the messages of the MCP server.
"""

from __future__ import annotations

from typing import Any


def solver_module() -> Any:
    """The module highspy; ModuleNotFoundError without the extra."""
    import highspy

    return highspy


def quiet_highs() -> Any:
    """A new `highspy.Highs` that prints nothing.

    From 1.16 on its constructor prints a banner, where it sets up callbacks. The switch is a
    setting of the object and no argument of the constructor, so it is turned in between.
    """

    class QuietHighs(solver_module().Highs):  # type: ignore[misc]  # an optional extra has no types here
        def enableCallbacks(self) -> None:  # noqa: N802  # the name is HiGHS's
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    solver = QuietHighs()
    solver.setOptionValue("output_flag", False)  # also where a release sets up no callbacks
    return solver
