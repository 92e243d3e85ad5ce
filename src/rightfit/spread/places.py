"""Where pieces of work are done: in this process, in processes of this machine, or on a cluster (`cluster`). One protocol, results as they come."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.process
import contextlib
import functools
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from rightfit.errors import UnavailableError
from rightfit.messages import Message

#: What is done with a piece: (what all pieces share, the piece) -> result. A function of a module, so that other processes find it by name.
Work = Callable[[Any, Any], Any]
Numbered = Iterable[tuple[int, Any]]
AHEAD = 2  # pieces a worker that are handed out, so that none waits and few are in memory


class Place(Protocol):
    """Does pieces of work. `workers`: how many are at work at once, known once it was asked to work."""

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
    """What answers depend on beside the question: every file of this package, and the catalog that counts here. Equal programs give equal answers."""
    from rightfit.catalog.store import store_path

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
