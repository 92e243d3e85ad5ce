"""What a wish may reach beyond rightfit's own data: everything for a person at their own terminal,
nothing for the client of a server.

A wish can name a file (a config.json, a trace, a load profile), code (module:function) or a hub id.
Whoever answers for others does so within `closed()`: then no file of this machine is opened, no
code is run and no address is asked because a client named it.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import time
from collections.abc import Iterator

from rightfit.errors import InputError, OutOfTimeError
from rightfit.messages import Message, at_place

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
        refused = Message("units.file_of_client", what=what)
        raise InputError(at_place(field, refused) if field else refused, field=field)


# ---- How long an answer may take: whoever waits for it has gone when the time is over, and a
# thread cannot be stopped from outside, so long work asks now and then.

_UNTIL: contextvars.ContextVar[float] = contextvars.ContextVar("reach_until", default=math.inf)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Within the block, `go_on` raises when so much time is over [s]; an earlier end holds on."""
    token = _UNTIL.set(min(_UNTIL.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _UNTIL.reset(token)


def left_s() -> float:
    """How much time is left [s]; infinite where nobody has set an end."""
    return _UNTIL.get() - time.monotonic()


def go_on() -> None:
    """Raise OutOfTimeError where the time of this answer is over; to be called where
    work is long."""
    if left_s() < 0.0:
        raise OutOfTimeError(Message("units.out_of_time"))
