"""Answers worked out beside the event loop: one at a time in each process, the same question once, none longer than allowed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rightfit import reach
from rightfit.rest.cache import AnswerCache
from rightfit.rest.problems import Refused
from rightfit.rest.settings import Settings

if TYPE_CHECKING:
    from rightfit.catalog import Catalog

_Answer = TypeVar("_Answer")
_LOOK_AGAIN_S = 30.0
RETRY_S = 2


class Market:
    """The catalog of this process, opened once and again when prices were refreshed. `version` names what it holds."""

    def __init__(self) -> None:
        self._lock, self._looked_s = threading.Lock(), 0.0
        self._catalog: Catalog | None = None
        self.version = ""

    def catalog(self) -> Catalog:
        """The catalog that counts now."""
        with self._lock:
            now = time.monotonic()
            if self._catalog is None or (now - self._looked_s > _LOOK_AGAIN_S and self._is_behind()):
                from rightfit.search.priced import open_priced

                self._catalog = open_priced()
                self.version = _version_of(self._catalog)
                self._looked_s = now
            elif now - self._looked_s > _LOOK_AGAIN_S:
                self._looked_s = now
            return self._catalog

    def _is_behind(self) -> bool:
        from rightfit.catalog import store

        try:
            return self.version not in ("", _stamp(store.store_path().name))
        except OSError:
            return False


def _version_of(catalog: Any) -> str:
    return _stamp(Path(str(catalog.location)).name)


def _stamp(name: str) -> str:
    """A name of the store file, and of the price book where there is one."""
    from rightfit.search.priced import book_path

    book = book_path()
    changed = book.stat().st_mtime_ns if book is not None and book.exists() else 0
    return f"{name}:{changed}"


class Workshop:
    """Where answers are worked out. `hits`, `misses` and `waiting` are for the metrics."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.market = settings, Market()
        self.cache = AnswerCache(settings.cache_bytes)
        self._pool = _pool()
        self._under_way: dict[str, asyncio.Future[bytes]] = {}
        self.waiting = self.hits = self.misses = 0

    async def run(self, question: Callable[[], _Answer]) -> _Answer:
        """The answer to a question that may take a while. Refused when too many wait already or it takes too long."""
        if self.waiting >= self.settings.most_waiting:
            raise Refused("busy", {"seconds": RETRY_S}, headers={"Retry-After": str(RETRY_S)})
        self.waiting += 1
        pool = self._pool
        try:
            future = asyncio.get_running_loop().run_in_executor(pool, _for_client, question)
            return await asyncio.wait_for(future, self.settings.answer_s)
        except TimeoutError:
            if pool is self._pool:  # the thread cannot be stopped: let it finish alone, others shall not wait for it
                self._pool = _pool()
                pool.shutdown(wait=False, cancel_futures=False)
            raise Refused("too_long", {"seconds": f"{self.settings.answer_s:g}"}, headers={"Retry-After": str(RETRY_S)}) from None
        finally:
            self.waiting -= 1

    async def answer(self, key: str, question: Callable[[], bytes]) -> tuple[bytes, bool]:
        """The answer of a key, and whether it was kept from before. Clients who ask the same at the same time wait for one answer."""
        known = self.cache.get(key)
        if known is not None:
            self.hits += 1
            return known, True
        self.misses += 1
        if key not in self._under_way:
            task = asyncio.ensure_future(self._find(key, question))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(self._under_way[key]), False

    async def _find(self, key: str, question: Callable[[], bytes]) -> bytes:
        found = await self.run(question)
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


def _for_client(question: Callable[[], _Answer]) -> _Answer:
    """Work for a client: no file, code or address that they name is touched; money at the rates of the server's price book."""
    from rightfit.search.priced import rates_of

    with reach.closed(), rates_of(None):
        return question()


def key_of(*parts: Any) -> str:
    """One key of everything that an answer depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode("utf-8", "backslashreplace")).hexdigest()
