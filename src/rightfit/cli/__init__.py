"""The command line: parse, call the library, render. Nothing heavy is imported until
a command needs it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 answered, 1 no feasible answer, 2 bad input, 3
    something is missing.

    Without `arguments` this is the whole process, and is tuned to start fast.
    """
    if arguments is None:
        _start_fast()
    from rightfit.cli.run import run

    code = run(list(sys.argv[1:] if arguments is None else arguments))
    if arguments is None:
        # the interpreter's last search for cyclic garbage, which it makes even where it is
        # disabled, finds nothing to walk through (40 ms)
        gc.freeze()
    return code


def _start_fast() -> None:
    """A command lives for a second: searching for cyclic garbage (40 ms) frees nothing, and
    pydantic, where a command needs it, need not look for plug-ins (20 ms).

    The matrices of the queue model are small: threads of the linear algebra cost more than they
    give, ten times more on a busy machine.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
