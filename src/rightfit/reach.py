"""What a wish may reach beyond rightfit's own data: everything for a person at their own terminal, nothing for the client of a server.

A wish can name a file (a config.json, a trace, a load profile), code (module:function) or a hub id. Whoever answers for others does so
within `closed()`: then no file of this machine is opened, no code is run and no address is asked because a client named it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from rightfit.errors import InputError

_CLOSED: contextvars.ContextVar[bool] = contextvars.ContextVar("reach_closed", default=False)


@contextlib.contextmanager
def closed() -> Iterator[None]:
    """Within the block, wishes reach nothing beyond rightfit's own data."""
    token = _CLOSED.set(True)
    try:
        yield
    finally:
        _CLOSED.reset(token)


def is_closed() -> bool:
    """Whether this answer is for the client of a server."""
    return _CLOSED.get()


def refuse_file(what: str, *, field: str | None = None) -> None:
    """Refuse to open a file that a client of a server named; at a terminal, do nothing."""
    if is_closed():
        raise InputError(f"{what} is a file or code: a server reads none for its clients; run rightfit where the file is", field=field)
