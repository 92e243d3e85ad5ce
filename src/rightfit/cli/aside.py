"""Standard output is the answer's, also while code runs that is not ours."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_OUTPUT, _ERRORS = 1, 2  # file descriptors


@contextlib.contextmanager
def printing_aside() -> Iterator[None]:
    """What is printed within goes to standard error, whether Python prints it or C does past `sys.stdout`."""
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as after:
        with contextlib.suppress(OSError):  # a stream that the shell has closed (`>&-`) needs no protection
            answer = os.dup(_OUTPUT)
            after.callback(os.close, answer)
            os.dup2(_ERRORS, _OUTPUT)
            after.callback(os.dup2, answer, _OUTPUT)
            after.callback(_flush)
        yield


def _flush() -> None:
    """Write out what waits in buffers while it still goes aside: Python's own stream of the process, and those of C."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.__stdout__.flush()  # type: ignore[union-attr]  # None without a console
    import ctypes

    with contextlib.suppress(OSError, TypeError, AttributeError):  # Windows has no library of that name
        ctypes.CDLL(None).fflush(None)
