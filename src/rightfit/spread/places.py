"""Where pieces of work are done: in this process, in processes of this machine, or on a cluster
(`cluster`). One protocol, results as they come."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.process
import contextlib
import functools
import hashlib
import itertools
import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from rightfit.errors import InputError, MissingComponentError, NetworkError, UnavailableError
from rightfit.messages import Message, foreign, system_problem
from rightfit.workload.vocabulary import nearest_words

#: What is done with a piece: (what all pieces share, the piece) -> result. A function of a module,
#: so that other processes find it by name.
Work = Callable[[Any, Any], Any]
Numbered = Iterable[tuple[int, Any]]
AHEAD = 2  # pieces a worker that are handed out, so that none waits and few are in memory


class Place(Protocol):
    """Does pieces of work. `workers`: how many are at work at once, known once it
    was asked to work."""

    workers: int

    def results(self, work: Work, pieces: Numbered, shared: Any) -> Iterator[tuple[int, Any]]:
        """(number, result) of every piece, in the order in which they are done."""
        ...


class Here:
    """This process, one piece after the other."""

    workers = 1

    def results(self, work: Work, pieces: Numbered, shared: Any) -> Iterator[tuple[int, Any]]:
        """As of every place."""
        for number, piece in pieces:
            yield number, work(shared, piece)


class Processes:
    """Processes of this machine."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or os.cpu_count() or 1

    def results(self, work: Work, pieces: Numbered, shared: Any) -> Iterator[tuple[int, Any]]:
        """As of every place."""
        with concurrent.futures.ProcessPoolExecutor(self.workers) as pool:
            try:
                yield from _as_done(lambda piece: pool.submit(work, shared, piece), pieces, self.workers)
            except concurrent.futures.process.BrokenProcessPool:
                raise UnavailableError(Message("spread.process_ended")) from None
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def _as_done(submit: Callable[[Any], Any], pieces: Numbered, workers: int) -> Iterator[tuple[int, Any]]:
    left = iter(pieces)
    at_work = {submit(piece): number for number, piece in itertools.islice(left, AHEAD * workers)}
    while at_work:
        done, _ = concurrent.futures.wait(at_work, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            number = at_work.pop(future)
            yield number, future.result()
            at_work.update({submit(piece): more for more, piece in itertools.islice(left, 1)})


@functools.lru_cache(maxsize=1)
def program() -> str:
    """What answers depend on beside the question: every file of this package, and the catalog that
    counts here. Equal programs give equal answers."""
    from rightfit.market.store import store_path

    sums = hashlib.sha256(store_path().name.encode())
    folder = Path(__file__).parent.parent
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        sums.update(path.relative_to(folder).as_posix().encode() + hashlib.sha256(path.read_bytes()).digest())
    return sums.hexdigest()[:16]


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Variables of the environment within the block, where they are not set yet."""
    new = {name: text for name, text in variables.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


# ---- Pieces of work on Ray: a cluster that is there, or one that is started on this machine.
# Workers whose program differs are refused.

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
    """A Ray cluster. `address`: HOST:PORT of its head, or ray://HOST:PORT of its client server;
    empty: the one of RAY_ADDRESS or of this machine, else a new one here with as many workers as
    are asked for, which ends with the work."""

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
            yield from _task_as_done(ray, task, work, pieces, ray.put(shared), self.workers)
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
            where = Message("spread.at_address", address=self.address) if self.address else ""
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

    return program()


def _piece(work: Work, shared: Any, piece: Any, expected: str) -> Any:
    """One piece on a worker of the cluster, whose program must be that of who asks."""

    if program() != expected:
        raise _differs()
    return work(shared, piece)


def _differs() -> UnavailableError:
    return UnavailableError(Message("spread.another_program"))


def _task_as_done(ray: Any, task: Any, work: Work, pieces: Numbered, shared: Any, workers: int) -> Iterator[tuple[int, Any]]:
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
    """What broke on a worker, in our words: our own errors as they are; a worker without the
    library says how to give it one."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UnavailableError):
        return UnavailableError(cause.message)
    if isinstance(cause, ModuleNotFoundError) or "No module named" in str(error):
        return UnavailableError(Message("spread.workers_lack_a_package"))
    return cause if isinstance(cause, Exception) else error


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


# ---- The place that a word means.

WORDS = ("here", "processes", "ray")


def place_of(text: str, *, workers: int | None = None) -> Place:
    """The place that a word means: here, processes, ray (a cluster that is known here, else one
    that is started), ray:HOST:PORT or ray://HOST:PORT."""
    word, _, address = text.strip().partition(":")
    if workers is not None and workers < 1:
        raise InputError(Message("spread.no_workers", value=workers), field="at_once", allowed="1 or more")
    if word.casefold() == "ray":
        return OnRay(text.strip() if address.startswith("//") else address, workers=workers)
    if address or word.casefold() not in WORDS:
        near = nearest_words(word, WORDS, count=1)
        raise InputError(
            Message("spread.no_place_near", word=text[:60], near=near[0]) if near else Message("spread.no_place", word=text[:60]),
            field="on",
            allowed="here, processes, ray, ray:HOST:PORT, ray://HOST:PORT",
            nearest=near,
        )
    return Processes(workers) if word.casefold() == "processes" else Here()
