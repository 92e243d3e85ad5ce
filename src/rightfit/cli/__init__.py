"""The command line: parse, call the library, render. Nothing heavy is imported until a command needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 answered, 1 no feasible answer, 2 bad input, 3 something is missing."""
    from rightfit.cli.run import run

    return run(list(sys.argv[1:] if arguments is None else arguments))
