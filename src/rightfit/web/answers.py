"""Plans for the page, worked out beside the event loop: a bounded pool of threads, answers kept for a while, nothing local in reach of a
visitor."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from rightfit import reach
from rightfit.errors import RightfitError
from rightfit.rest.work import ServedMarket

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.planner.field import Field
    from rightfit.planner.scaling import ScalePoint
    from rightfit.search.answer import Plan
    from rightfit.search.verdict import Verdict

logger = logging.getLogger("rightfit.web")
Found = TypeVar("Found")
TOP = 8


class BusyError(RightfitError):
    """Too many people wait already."""


class InternalError(RightfitError):
    """Something failed that is not the visitor's fault; the number stands in the log beside the trace."""

    def __init__(self, number: str) -> None:
        super().__init__(f"something failed here; it is logged as {number}")
        self.number = number


@dataclasses.dataclass(slots=True)
class Answers:
    """Runs what pages ask for. `threads` at a time, `most_waiting` in the queue, `most_kept` answers in memory, `answer_s` the longest wait
    [s]."""

    threads: int = 2
    most_waiting: int = 64
    most_kept: int = 128
    answer_s: float = 30.0
    market: ServedMarket = dataclasses.field(default_factory=ServedMarket)
    _kept: OrderedDict[tuple[Any, ...], Any] = dataclasses.field(default_factory=OrderedDict)
    _running: dict[tuple[Any, ...], asyncio.Future[Any]] = dataclasses.field(default_factory=dict)
    _pool: concurrent.futures.ThreadPoolExecutor | None = None

    async def plan(self, wishes: Mapping[str, str]) -> Plan:
        """The plan for wishes."""
        return await self.ask(("plan", _key(wishes)), lambda: _plan(wishes, self.market.catalog()))

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

    async def ask(self, key: tuple[Any, ...], work: Callable[[], Found]) -> Found:
        """The result of `work`, run once for all who ask for the same at the same time and kept for those who come later.

        Raises RightfitError only: what went wrong otherwise is logged under a number.
        """
        key = (self.market.version, *key)  # refreshed prices give other answers
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]  # type: ignore[no-any-return]
        if key not in self._running:
            if len(self._running) >= self.most_waiting:
                raise BusyError("too many plans are being worked out; try again in a moment")
            task = asyncio.ensure_future(self._run(key, work))
            self._running[key] = task
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever waits sees it
        try:
            return await asyncio.wait_for(asyncio.shield(self._running[key]), self.answer_s)
        except TimeoutError:
            raise BusyError("this takes too long; try again in a moment") from None

    async def _run(self, key: tuple[Any, ...], work: Callable[[], Found]) -> Found:
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(self.threads, thread_name_prefix="rightfit-plan")
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._pool, _guarded, work)
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


def _guarded(work: Callable[[], Found]) -> Found:
    """Run for a visitor: no file, no code and no address of theirs; any failure that is not theirs becomes a number in the log."""
    from rightfit.search.priced import rates_of

    try:
        with reach.closed(), rates_of(None):
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
    from rightfit.planner.field import market_field

    return market_field(api.read_workload(None, wishes), catalog=catalog)


def _verdict(wishes: Mapping[str, str], server: str, region: str, purchase: str, catalog: Catalog) -> Verdict:
    from rightfit import api

    narrowed = {name: value for name, value in (("region", region), ("purchase", purchase)) if value}
    return api.why(server, api.read_workload(None, {**wishes, **narrowed}), catalog=catalog)


def _scaling(wishes: Mapping[str, str], server: str, region: str, purchase: str, catalog: Catalog) -> tuple[ScalePoint, ...]:
    from rightfit import api
    from rightfit.planner.scaling import scaling

    narrowed = {name: value for name, value in (("region", region), ("purchase", purchase)) if value}
    return scaling(api.read_workload(None, {**wishes, **narrowed}), on=server, catalog=catalog)
