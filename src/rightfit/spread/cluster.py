"""Pieces of work on Ray: a cluster that is there, or one that is started on this machine. Workers whose program differs are refused."""

from __future__ import annotations

import itertools
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

from rightfit.errors import InputError, MissingComponentError, NetworkError, UnavailableError
from rightfit.messages import Message, foreign, system_problem
from rightfit.spread.places import AHEAD, Numbered, Work, environment, program

_RETRIES = 3  # of a piece whose worker died
_KNOCK_S = 5.0
_ANSWER_S = 120.0  # how long the first worker may take to start and import the library


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingComponentError(Message("spread.no_ray")) from None
    return ray


class OnRay:
    """A Ray cluster. `address`: HOST:PORT of its head, or ray://HOST:PORT of its client server; empty: the one of RAY_ADDRESS or of this machine, else a
    new one here with as many workers as are asked for, which ends with the work."""

    def __init__(self, address: str = "", *, workers: int | None = None) -> None:
        self.address, self.asked, self.workers = address, workers, workers or 1

    def results(self, work: Work, pieces: Numbered, shared: Any) -> Iterator[tuple[int, Any]]:
        """As of every place. A piece whose worker dies is given to another one."""
        ray = _ray()
        is_ours = not ray.is_initialized()
        if is_ours:
            self._join(ray)
        try:
            self.workers = self.asked or max(1, int(ray.cluster_resources().get("CPU", 1)))
            task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_piece)
            self._same_program(ray)
            yield from _as_done(ray, task, work, pieces, ray.put(shared), self.workers)
        except ray.exceptions.RayTaskError as error:
            raise _blamed(error) from None
        except ray.exceptions.RayError as error:
            raise NetworkError(Message("spread.ray_failed", error=foreign(str(error).splitlines()[0]))) from None
        finally:
            if is_ours:
                ray.shutdown()

    def _join(self, ray: Any) -> None:
        """Join a cluster, or start one where none is known."""
        address = self.address or os.environ.get("RAY_ADDRESS", "")
        if address not in ("", "auto", "local"):
            _knock(address)
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
        try:
            with environment(RAY_USAGE_STATS_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0"):
                if address not in ("", "auto"):
                    ray.init(address=address, **quiet)
                    return
                try:
                    ray.init(address="auto", **quiet)
                except ConnectionError:
                    ray.init(address="local", num_cpus=self.asked, include_dashboard=False, **quiet)
        except (ConnectionError, ValueError, RuntimeError, OSError, ray.exceptions.RayError) as error:
            where = Message("spread.part_at_address", address=self.address) if self.address else ""
            raise NetworkError(Message("spread.ray_not_joined", line=where, error=foreign(_line(error)))) from None

    def _same_program(self, ray: Any) -> None:
        """Refuse a cluster whose workers would answer otherwise than this program."""
        asked = ray.remote(num_cpus=1)(_program).remote()
        try:
            theirs = ray.get(asked, timeout=_ANSWER_S)
        except ray.exceptions.GetTimeoutError:
            raise NetworkError(Message("spread.no_worker_answered", seconds=_ANSWER_S)) from None
        if theirs != program():
            raise _differs()


def _knock(address: str) -> None:
    """Refuse an address at which nobody listens: Ray itself would ask it for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(Message("spread.no_ray_address", address=address[:80]), field="on")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise NetworkError(Message("spread.no_ray_answers", address=address[:80], error=system_problem(error))) from None


def _program() -> str:
    """What a worker's answers depend on."""
    from rightfit.spread import places

    return places.program()


def _piece(work: Work, shared: Any, piece: Any, expected: str) -> Any:
    """One piece on a worker of the cluster, whose program must be that of who asks."""
    from rightfit.spread import places

    if places.program() != expected:
        raise _differs()
    return work(shared, piece)


def _differs() -> UnavailableError:
    return UnavailableError(Message("spread.another_program"))


def _as_done(ray: Any, task: Any, work: Work, pieces: Numbered, shared: Any, workers: int) -> Iterator[tuple[int, Any]]:
    left, mine = iter(pieces), program()

    def submit(piece: Any) -> Any:
        return task.remote(work, shared, piece, mine)

    at_work = {submit(piece): number for number, piece in itertools.islice(left, AHEAD * workers)}
    while at_work:
        done, _ = ray.wait(list(at_work), num_returns=1)
        for reference in done:
            number = at_work.pop(reference)
            yield number, ray.get(reference)
            at_work.update({submit(piece): more for more, piece in itertools.islice(left, 1)})


def _blamed(error: Any) -> Exception:
    """What broke on a worker, in our words: our own errors as they are; a worker without the library says how to give it one."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UnavailableError):
        return UnavailableError(cause.message)
    if isinstance(cause, ModuleNotFoundError) or "No module named" in str(error):
        return UnavailableError(Message("spread.workers_lack_a_package"))
    return cause if isinstance(cause, Exception) else error


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
