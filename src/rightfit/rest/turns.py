"""Several processes that listen at one address take turns: a new connection goes to the one that has the least to do.

Left to the kernel, whoever wakes first takes a connection, and a question may wait behind a long one while another process is idle. So each process
writes how many questions it has under way into a file that all of them map, and one that has more than another leaves the connection where it is, for
the other to take. The event loop must be asyncio's own, which asks the socket; others ask the kernel themselves, and then nothing changes.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import socket
import struct
import time
from multiprocessing import reduction
from pathlib import Path
from typing import Any

VARIABLE = "RIGHTFIT_TURNS"
_SLOT = struct.Struct("dd")
#: More processes than this share their turns with nobody.
_MOST = 64
#: How long a connection that was taken counts as a question, until its request is read [s].
_ARRIVING_S = 0.005
#: How long a process may leave connections to others before it takes one all the same: the other may hang [s].
_LONGEST_S = 0.25


class Turns:
    """The questions under way in each process [1], by slots of a shared file. A slot is locked by its process for as long as that lives."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR)  # held as long as the process lives, and with it the slot
        self._slot = _claimed(self._descriptor)
        self._map = mmap.mmap(self._descriptor, _MOST * _SLOT.size)
        self._since = 0.0
        self.write(0.0)

    def close(self) -> None:
        """Take no more part."""
        if self._slot is not None:
            self.write(math.inf)
        self._map.close()
        os.close(self._descriptor)

    def write(self, load: float, *, until: float = 0.0) -> None:
        """This process has so many questions under way, and one more until a time of the monotonic clock [s]."""
        self._load = load
        if self._slot is not None:
            _SLOT.pack_into(self._map, self._slot * _SLOT.size, load, until)

    def taken(self) -> None:
        """A connection was taken, whose question is on its way."""
        self.write(self._load, until=time.monotonic() + _ARRIVING_S)

    def is_mine(self) -> bool:
        """Whether this process takes the next connection: none has less to do, or they have left it for too long."""
        now = time.monotonic()
        loads = [load + (until > now) for load, until in _SLOT.iter_unpack(self._map[:])]
        if self._slot is None or loads[self._slot] <= min(loads):
            self._since = 0.0
            return True
        self._since = self._since or now
        is_late = now - self._since > _LONGEST_S
        if is_late:
            self._since = 0.0
        return is_late


def _claimed(descriptor: int) -> int | None:
    """A slot that no living process has."""
    import fcntl

    for slot in range(_MOST):
        with contextlib.suppress(OSError):
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, _SLOT.size, slot * _SLOT.size)
            return slot
    return None


class TurnTaking(socket.socket):
    """A listening socket that has nothing to accept while it is another process's turn."""

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; BlockingIOError where there is none, or another process takes it."""
        turns = mine()
        if turns is None:
            return super().accept()
        if not turns.is_mine():
            raise BlockingIOError
        found = super().accept()
        turns.taken()
        return found


def _rebuilt(duplicate: Any, family: int, kind: int, protocol: int) -> TurnTaking:
    return TurnTaking(family, kind, protocol, fileno=duplicate.detach())


def _reduced(listener: TurnTaking) -> Any:
    return _rebuilt, (reduction.DupFd(listener.fileno()), listener.family, listener.type, listener.proto)


def taking_turns(listener: socket.socket) -> TurnTaking:
    """The same listening socket, for processes that take turns; the one that is given is closed."""
    reduction.register(TurnTaking, _reduced)
    return TurnTaking(listener.family, listener.type, listener.proto, fileno=listener.detach())


def shared_file(folder: str) -> str:
    """Make the file that the processes of a server share, in a folder of theirs; its path."""
    path = Path(folder, "turns")
    path.write_bytes(_SLOT.pack(math.inf, 0.0) * _MOST)
    return str(path)


_MINE: list[Turns | None] = []


def mine() -> Turns | None:
    """The turns of this process, where it shares its address with others."""
    if not _MINE:
        path = os.environ.get(VARIABLE)
        _MINE.append(None)
        if path:
            with contextlib.suppress(OSError, ImportError, ValueError):
                _MINE[0] = Turns(Path(path))
    return _MINE[0]
