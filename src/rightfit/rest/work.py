"""Answers worked out beside the event loop: one at a time in each process, the same question once,
none longer than allowed."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rightfit import reach
from rightfit.recent import Recent, exact_key
from rightfit.rest import settings
from rightfit.rest.reading import Refused
from rightfit.rest.settings import Settings

if TYPE_CHECKING:
    from rightfit.market import Catalog


# ---- Answers kept in memory: the most recently used, within a number of bytes.

_ENTRY_BYTES = 200  # what an entry costs beside its answer, roughly


class AnswerCache(Recent[str, bytes]):
    """Answers by key. An answer is kept once though several keys (spellings of one
    question) may lead to it."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes, size_of=lambda answer: len(answer) + _ENTRY_BYTES)


_Answer = TypeVar("_Answer")
_LOOK_AGAIN_S = 30.0
RETRY_S = 2
#: Usual time of an answer before there was one [s], how fast it is learned, and the longest time
#: that somebody is sent away for [s].
_FIRST_GUESS_S, _LEARNS, _LONGEST_RETRY_S = 0.3, 0.1, 60
_NEVER_MANY = 4  # so few may always wait, however long answers have taken lately


class ServedMarket:
    """The catalog of this process, opened once and again when prices were refreshed. `version`
    names what it holds."""

    def __init__(self) -> None:
        self._lock, self._looked_s = threading.Lock(), 0.0
        self._catalog: Catalog | None = None
        self.version = ""

    def catalog(self) -> Catalog:
        """The catalog that counts now."""
        with self._lock:
            now = time.monotonic()
            if self._catalog is None or (now - self._looked_s > _LOOK_AGAIN_S and self._is_behind()):
                from rightfit.search.offers import open_priced

                self._catalog = open_priced()
                self.version = _stamp(Path(str(self._catalog.location)).name)
                self._looked_s = now
            elif now - self._looked_s > _LOOK_AGAIN_S:
                self._looked_s = now
            return self._catalog

    def _is_behind(self) -> bool:
        from rightfit.market import store

        try:
            return self.version not in ("", _stamp(store.store_path().name))
        except OSError:
            return False


def _stamp(name: str) -> str:
    """A name of the store file, and of the price book where there is one."""
    from rightfit.search.offers import book_path

    book = book_path()
    changed = book.stat().st_mtime_ns if book is not None and book.exists() else 0
    return f"{name}:{changed}"


class Workshop:
    """Where answers are worked out. `hits`, `misses` and `waiting` are for the metrics."""

    def __init__(self, settings: Settings, *, beside: Workshop | None = None) -> None:
        """`beside`: the workshop whose market and memory this one shares; it has a thread of its
        own, so that long questions do not hold up short ones."""
        self.settings = settings
        self.market: ServedMarket = beside.market if beside else ServedMarket()
        self.cache: AnswerCache = beside.cache if beside else AnswerCache(settings.cache_bytes)
        self.others: list[Workshop] = [beside] if beside else []
        if beside:
            beside.others.append(self)
        self._pool = _pool()
        self._under_way: dict[str, asyncio.Future[bytes]] = {}
        self.waiting = self.hits = self.misses = 0
        self._usual_s = _FIRST_GUESS_S

    async def run(self, question: Callable[[], _Answer]) -> _Answer:
        """The answer to a question that may take a while. Refused when too many wait already or
        it takes too long."""
        is_long = self.waiting >= _NEVER_MANY and self.waiting * self._usual_s > self.settings.patience_s
        if is_long or self.waiting >= self.settings.most_waiting:
            retry = str(self.retry_s())
            raise Refused("busy", {"seconds": retry}, headers={"Retry-After": retry})
        self._wait_for(1)
        try:
            return await self._worked_out(question)
        except TimeoutError:
            retry_after = {"Retry-After": str(self.retry_s())}
            raise Refused("too_long", {"seconds": f"{self.settings.answer_s:g}"}, headers=retry_after) from None
        finally:
            self._wait_for(-1)

    def _wait_for(self, more: int) -> None:
        """So many questions more are under way here; other processes of the server are told."""
        self.waiting += more
        shared = settings.mine()
        if shared is not None:
            shared.write(self.waiting + sum(other.waiting for other in self.others))

    async def _worked_out(self, question: Callable[[], _Answer]) -> _Answer:
        """The answer, within its limit from the start of its work. A thread that cannot be stopped
        is left to finish alone; who waited behind it goes on in another."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.settings.patience_s + self.settings.answer_s
        while True:
            pool, begun = self._pool, asyncio.Event()

            def work(begun: asyncio.Event = begun) -> _Answer:
                loop.call_soon_threadsafe(begun.set)
                return self._timed(lambda: _for_client(question, self.settings.answer_s))

            future, start = loop.run_in_executor(pool, work), asyncio.ensure_future(begun.wait())
            try:
                waits: set[asyncio.Future[Any]] = {future, start}
                await asyncio.wait(waits, timeout=max(until - loop.time(), 0.0), return_when=asyncio.FIRST_COMPLETED)
            finally:
                start.cancel()
            if future.cancelled() and pool is not self._pool and not begun.is_set():
                continue
            if not (begun.is_set() or future.done()):
                future.cancel()
                raise TimeoutError
            try:
                return await asyncio.wait_for(future, self.settings.answer_s)
            except TimeoutError:
                if pool is self._pool:
                    self._pool = _pool()
                    pool.shutdown(wait=False, cancel_futures=True)
                raise

    def retry_s(self) -> int:
        """When to come again [s]: as long as those who wait now will take, by the usual
        time of an answer."""
        return max(1, min(math.ceil(self.waiting * self._usual_s), _LONGEST_RETRY_S))

    def _timed(self, question: Callable[[], _Answer]) -> _Answer:
        """Work, and learn how long it usually takes."""
        began = time.perf_counter()
        try:
            return question()
        finally:
            self._usual_s += _LEARNS * (time.perf_counter() - began - self._usual_s)

    async def answer(self, key: str, question: Callable[[], bytes], *, at: Workshop | None = None) -> tuple[bytes, bool]:
        """The answer of a key, and whether it was kept from before. Clients who ask the same at the
        same time wait for one answer. `at`: the workshop beside that works it out."""
        known = self.cache.get(key)
        if known is not None:
            self.hits += 1
            return known, True
        self.misses += 1
        if key not in self._under_way:
            task = asyncio.ensure_future(self._find(key, question, at or self))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(self._under_way[key]), False

    async def _find(self, key: str, question: Callable[[], bytes], at: Workshop) -> bytes:
        found = await at.run(question)
        self.cache.put(key, found)
        return found

    def _finished(self, key: str, done: asyncio.Future[bytes]) -> None:
        self._under_way.pop(key, None)
        if not done.cancelled():
            done.exception()  # whoever waited has seen it

    def close(self) -> None:
        """Take no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="rightfit-work")


def _for_client(question: Callable[[], _Answer], seconds: float) -> _Answer:
    """Work for a client: no file, code or address that they name is touched; money at the rates of
    the server's price book. It ends itself when nobody waits for it any more."""
    from rightfit.search.offers import rates_of

    with reach.closed(), reach.within(seconds), rates_of(None):
        return question()


def key_of(*parts: Any) -> str:
    """One key of everything that an answer depends on."""
    return exact_key(*parts).hex()
