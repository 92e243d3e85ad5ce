"""Plans for the page, worked out beside the event loop: a bounded pool of threads, answers kept for
a while, nothing local in reach of a visitor."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rightfit import reach
from rightfit.errors import RightfitError
from rightfit.messages import Lang, Message
from rightfit.rest.work import ServedMarket

if TYPE_CHECKING:
    from rightfit.explain.beside.settled import Asked
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult
    from rightfit.planner.given import ScalePoint
    from rightfit.planner.plan import Field
    from rightfit.search.answer import Plan
    from rightfit.search.servers import Verdict

logger = logging.getLogger("rightfit.web")
Found = TypeVar("Found")
TOP = 8


#: Usual time of an answer before there was one [s], and how fast it is learned.
_FIRST_GUESS_S, _LEARNS = 0.5, 0.1
_NEVER_MANY = 4  # so few may always wait, however long answers have taken lately


class BusyError(RightfitError):
    """Too many people wait already; `retry_s`: when to come again [s]."""

    def __init__(self, message: Message, *, retry_s: int = 1) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class InternalError(RightfitError):
    """Something failed that is not the visitor's fault; the number stands in the
    log beside the trace."""

    def __init__(self, number: str) -> None:
        super().__init__(Message("faces.internal", number=number))
        self.number = number


@dataclasses.dataclass(slots=True)
class Answers:
    """Runs what pages ask for. `threads` at a time, `most_waiting` in the queue, `most_kept`
    answers in memory, `answer_s` the longest that an answer may take from the start of its work
    [s], `patience_s` the longest that somebody may have to wait before that [s]: who comes when the
    queue is longer is sent away at once. `most_upload_bytes`: the largest request that the
    server takes."""

    threads: int = 2
    most_waiting: int = 64
    most_kept: int = 128
    answer_s: float = 30.0
    patience_s: float = 10.0
    most_upload_bytes: int = 2_000_000
    market: ServedMarket = dataclasses.field(default_factory=ServedMarket)
    _kept: OrderedDict[tuple[Any, ...], Any] = dataclasses.field(default_factory=OrderedDict)
    _running: dict[tuple[Any, ...], tuple[asyncio.Future[Any], asyncio.Event]] = dataclasses.field(default_factory=dict)
    _usual_s: float = _FIRST_GUESS_S
    _pool: concurrent.futures.ThreadPoolExecutor | None = None

    async def plan(self, wishes: Mapping[str, str]) -> Plan:
        """The plan for wishes."""
        return await self.ask(("plan", _key(wishes)), lambda: _plan(wishes, self.market.catalog()))

    async def settled(self, sentence: str) -> Asked:
        """A sentence taken apart: its wish, and what it asks beside it."""
        from rightfit.explain.beside.settled import settle

        return await self.ask(("settled", sentence), lambda: settle(sentence, self.market.catalog()))

    async def asked(self, asked: Asked, wishes: Mapping[str, str], plan: Plan, lang: Lang) -> list[str]:
        """The answers to what a sentence asks beside its wish."""
        key = ("asked", asked.wish, asked.questions, _key(wishes), lang)
        return await self.ask(key, lambda: asked.lines(plan, self.market.catalog(), lang))

    async def question(self, sentence: str) -> CheckResult | None:
        """The answer to a question about what something is or costs; None of a wish."""
        from rightfit.explain.questions import question_or_open_wish

        return await self.ask(("question", sentence), lambda: question_or_open_wish(sentence, self.market.catalog()))

    async def staged(self, wishes: Mapping[str, str]) -> Plan:
        """The plan for wishes with the smallest trial that would confirm it."""
        return await self.ask(("staged", _key(wishes)), lambda: _staged(wishes, self.market.catalog()))

    async def field(self, wishes: Mapping[str, str]) -> Field:
        """Every feasible offer for wishes."""
        return await self.ask(("field", _key(wishes)), lambda: _field(wishes, self.market.catalog()))

    async def verdict(self, wishes: Mapping[str, str], *, server: str, region: str = "", purchase: str = "") -> Verdict:
        """Why a server was or was not chosen."""
        return await self.ask(
            ("why", _key(wishes), server, region, purchase), lambda: _verdict(wishes, server, region, purchase, self.market.catalog())
        )

    async def scaling(self, wishes: Mapping[str, str], *, server: str, region: str, purchase: str) -> tuple[ScalePoint, ...]:
        """One server at growing numbers of servers."""
        return await self.ask(
            ("scaling", _key(wishes), server, region, purchase), lambda: _scaling(wishes, server, region, purchase, self.market.catalog())
        )

    async def apart(self, work: Callable[[], Found]) -> Found:
        """The result of `work` on what a visitor gave, which is kept for nobody."""
        key = ("apart", secrets.token_hex(8))
        try:
            return await self.ask(key, work)
        finally:
            self._kept.pop((self.market.version, *key), None)

    async def ask(self, key: tuple[Any, ...], work: Callable[[], Found]) -> Found:
        """The result of `work`, run once for all who ask for the same at the same time and kept for
        those who come later.

        Raises RightfitError only: what went wrong otherwise is logged under a number.
        """
        key = (self.market.version, *key)  # refreshed prices give other answers
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]  # type: ignore[no-any-return]
        if key not in self._running:
            if self._is_full():
                raise BusyError(Message("faces.too_many_plans"), retry_s=self.retry_s())
            begun = asyncio.Event()
            task = asyncio.ensure_future(self._run(key, work, begun))
            self._running[key] = task, begun
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits sees it
        return await self._awaited(*self._running[key])  # type: ignore[no-any-return]

    def _is_full(self) -> bool:
        waiting = len(self._running)
        return waiting >= self.most_waiting or (waiting >= _NEVER_MANY and waiting * self._usual_s / self.threads > self.patience_s)

    def retry_s(self) -> int:
        """When to come again [s]: as long as those who wait now will take, by the usual
        time of an answer."""
        return max(1, math.ceil(len(self._running) * self._usual_s / self.threads))

    async def _awaited(self, task: asyncio.Future[Any], begun: asyncio.Event) -> Any:
        """The result, within its limit from the start of its work; who waits in the queue for much
        longer than was foreseen is sent away too."""
        start = asyncio.ensure_future(begun.wait())
        try:
            await asyncio.wait({task, start}, timeout=self.patience_s + self.answer_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            start.cancel()
        try:
            return await asyncio.wait_for(asyncio.shield(task), self.answer_s if begun.is_set() else 0)
        except TimeoutError:
            raise BusyError(Message("faces.too_long"), retry_s=self.retry_s()) from None

    async def _run(self, key: tuple[Any, ...], work: Callable[[], Found], begun: asyncio.Event) -> Found:
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(self.threads, thread_name_prefix="rightfit-plan")
        loop = asyncio.get_running_loop()

        def timed() -> Found:
            with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(begun.set)
            start = time.perf_counter()
            try:
                return _guarded(work, self.answer_s)
            finally:
                self._usual_s += _LEARNS * (time.perf_counter() - start - self._usual_s)

        try:
            found = await loop.run_in_executor(self._pool, timed)
        finally:
            self._running.pop(key, None)
        self._kept[key] = found
        while len(self._kept) > self.most_kept:
            self._kept.popitem(last=False)
        return found

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _guarded(work: Callable[[], Found], seconds: float) -> Found:
    """Run for a visitor: no file, no code and no address of theirs; any failure that is not theirs
    becomes a number in the log. It ends itself when the visitor waits no more."""
    from rightfit.search.offers import rates_of

    try:
        with reach.closed(), reach.within(seconds), rates_of(None):
            return work()
    except RightfitError:
        raise
    except Exception:
        number = secrets.token_hex(4)
        logger.exception("a plan for the page failed (%s)", number)
        raise InternalError(number) from None


def _key(wishes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(wishes.items()))


def _plan(wishes: Mapping[str, str], catalog: Catalog) -> Plan:
    from rightfit import api

    return api.plan(api.read_workload(None, wishes), catalog=catalog, top=TOP)


def _staged(wishes: Mapping[str, str], catalog: Catalog) -> Plan:
    from rightfit import api

    return api.plan(api.read_workload(None, wishes), catalog=catalog, top=TOP, staged=True)


def _field(wishes: Mapping[str, str], catalog: Catalog) -> Field:
    from rightfit import api
    from rightfit.planner.plan import market_field

    return market_field(api.read_workload(None, wishes), catalog=catalog)


def _verdict(wishes: Mapping[str, str], server: str, region: str, purchase: str, catalog: Catalog) -> Verdict:
    from rightfit import api

    narrowed = {name: value for name, value in (("region", region), ("purchase", purchase)) if value}
    return api.why(server, api.read_workload(None, {**wishes, **narrowed}), catalog=catalog)


def _scaling(wishes: Mapping[str, str], server: str, region: str, purchase: str, catalog: Catalog) -> tuple[ScalePoint, ...]:
    from rightfit import api
    from rightfit.planner.given import scaling

    narrowed = {name: value for name, value in (("region", region), ("purchase", purchase)) if value}
    return scaling(api.read_workload(None, {**wishes, **narrowed}), on=server, catalog=catalog)
