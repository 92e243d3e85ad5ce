"""How a server is set up: who may ask, how much at once, and where saved plans go. All limits
have safe defaults."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import mmap
import os
import socket
import struct
import time
from collections.abc import Mapping
from multiprocessing import reduction
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError, InputError
from rightfit.messages import Message, system_problem
from rightfit.records import dataclass

VARIABLE = "RIGHTFIT_SERVE_SETTINGS"
TOKEN_VARIABLE = "RIGHTFIT_TOKEN"  # noqa: S105  (the name of a variable)
DATABASE_VARIABLE = "RIGHTFIT_DATABASE_URL"
#: The process that started this one as one of several.
PARENT_VARIABLE = "RIGHTFIT_PARENT"
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 512
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Settings:
    """`token`: what clients must show, empty for nobody. `database_url`: empty for a file of SQLite
    in the data folder. `allowed_hosts`: names that the server answers to, empty for any.
    `cors_origins`: web pages of other hosts that may ask, none by default. `page`: serve the web
    page too, where there is one (see rightfit.web.asgi).
    Limits: [bytes] of a body, of a table and of all that are under way, rows of a table,
    options of a plan, [s] for a body to arrive and for an answer to be found from the start of
    its work, and that those who come may have to wait before that (more are sent away), answers
    waited for at once, requests a second of one client (and how many at once), [bytes] of
    answers kept, plans kept (and as many runs and measurements), [bytes] of plans and runs
    kept."""

    token: str = dataclasses.field(default="", repr=False)
    database_url: str = dataclasses.field(default="", repr=False)
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    page: bool = True
    most_body_bytes: int = 2_000_000
    most_table_bytes: int = 32_000_000
    most_held_bytes: int = 256_000_000
    most_rows: int = 100_000
    most_options: int = 50
    body_s: float = 20.0
    answer_s: float = 30.0
    patience_s: float = 5.0
    most_waiting: int = 64
    rate_per_s: float = 200.0
    burst: int = 400
    cache_bytes: int = 64_000_000
    most_saved: int = 100_000
    most_saved_bytes: int = 2_000_000_000

    def __post_init__(self) -> None:
        if self.token and not (SHORTEST_TOKEN <= len(self.token) <= LONGEST_TOKEN and self.token.isascii() and self.token.isprintable()):
            raise InputError(Message("rest.token_length", fewest=SHORTEST_TOKEN, most=LONGEST_TOKEN), field="token")
        for name in (
            "most_body_bytes",
            "most_held_bytes",
            "most_rows",
            "most_options",
            "body_s",
            "answer_s",
            "patience_s",
            "most_waiting",
            "rate_per_s",
            "burst",
            "most_saved",
            "most_saved_bytes",
        ):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(Message("rest.setting", setting=name), field=name)

    def to_environment(self) -> dict[str, str]:
        """The settings as the variables from which the processes of a server read them; secrets go
        in variables of their own."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        secrets = {TOKEN_VARIABLE: str(values.pop("token")), DATABASE_VARIABLE: str(values.pop("database_url"))}
        return {VARIABLE: json.dumps(values), **{name: text for name, text in secrets.items() if text}}


def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings that `to_environment` wrote, or the defaults; the token and the database
    from their variables."""
    values: dict[str, Any] = json.loads(environment.get(VARIABLE) or "{}")
    lists: dict[str, Any] = {name: tuple(values[name]) for name in ("allowed_hosts", "cors_origins") if name in values}
    secrets = {"token": environment.get(TOKEN_VARIABLE, "").strip(), "database_url": environment.get(DATABASE_VARIABLE, "").strip()}
    return Settings(**(values | lists | secrets))


def read_token(path: str | Path) -> str:
    """The token in a file: its first line."""
    try:
        with Path(path).open("rb") as stream:
            lines = stream.read(4096).decode("utf-8").splitlines()
    except OSError as error:
        raise FileInputError(Message("rest.token_unreadable", path=path, error=system_problem(error)), field="token_file") from None
    except UnicodeDecodeError:
        raise FileInputError(Message("rest.token_not_text", path=path), field="token_file") from None
    token = lines[0].strip() if lines else ""
    if not token:
        raise FileInputError(Message("rest.token_empty", path=path, count=SHORTEST_TOKEN), field="token_file")
    return token


def is_local(host: str) -> bool:
    """Whether an address is of this machine alone."""
    import ipaddress

    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


# ---- Several processes that listen at one address take turns: a new connection goes to the one
# that has the least to do.
#
# Left to the kernel, whoever wakes first takes a connection, and a question may wait behind a long
# one while another process is idle. So each process writes how many questions it has under way into
# a file that all of them map, and one that has more than another leaves the connection where it is,
# for the other to take. The event loop must be asyncio's own, which asks the socket; others ask the
# kernel themselves, and then nothing changes.

TURNS_VARIABLE = "RIGHTFIT_TURNS"
_SLOT = struct.Struct("dd")
#: More processes than this share their turns with nobody.
_MOST = 64
#: How long a connection that was taken counts as a question, until its request is read [s].
_ARRIVING_S = 0.005
#: How long a process may leave connections to others before it takes one all the same: the
#: other may hang [s].
_LONGEST_S = 0.25


class Turns:
    """The questions under way in each process [1], by slots of a shared file. A slot is locked by
    its process for as long as that lives."""

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
        """This process has so many questions under way, and one more until a time of the
        monotonic clock [s]."""
        self._load = load
        if self._slot is not None:
            _SLOT.pack_into(self._map, self._slot * _SLOT.size, load, until)

    def taken(self) -> None:
        """A connection was taken, whose question is on its way."""
        self.write(self._load, until=time.monotonic() + _ARRIVING_S)

    def is_mine(self) -> bool:
        """Whether this process takes the next connection: none has less to do, or they have
        left it for too long."""
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
        path = os.environ.get(TURNS_VARIABLE)
        _MINE.append(None)
        if path:
            with contextlib.suppress(OSError, ImportError, ValueError):
                _MINE[0] = Turns(Path(path))
    return _MINE[0]
