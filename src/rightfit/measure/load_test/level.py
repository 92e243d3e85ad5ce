"""One load for a while: so many streams (closed loop) or arrivals at random (open loop), and what came of it.

Throughput is the work done inside the window: a request counts by the share of its time that lies inside, so that no batch of answers is in or out by chance;
what started before the window (warm-up) or ended after it counts with its part. Latencies are of requests that were sent inside the window.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import math
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence

from rightfit.facts.constants import constant_group
from rightfit.measure.load_test.endpoint import counters
from rightfit.measure.load_test.http import Client
from rightfit.measure.load_test.stream import Answer, Question, ask
from rightfit.measure.readers.exposition import Sample
from rightfit.records import dataclass

_TICK_S = 0.01
_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Level:
    """One load. `streams` or `rate` [requests/s] says which, `window` [s since the clock's start] is what counts, `cpu_share` of one core and `lag_s` are the client's own;
    `server` holds samples of its counters."""

    streams: int
    rate: float
    window: tuple[float, float]
    answers: tuple[Answer, ...]
    cpu_share: float
    lag_s: float
    server: tuple[Sample, ...] = ()

    @property
    def inside(self) -> list[Answer]:
        """Requests sent inside the window."""
        return [one for one in self.answers if self.window[0] <= one.due <= self.window[1]]

    @property
    def good(self) -> list[Answer]:
        """Those of them that succeeded."""
        return [one for one in self.inside if not one.error]

    @property
    def error_share(self) -> float:
        """Failed over all requests of the window."""
        return 1.0 - len(self.good) / len(self.inside) if self.inside else 1.0

    @property
    def requests_per_s(self) -> float:
        """Requests served inside the window over its length [1/s]."""
        return self._work(lambda one: 1.0)

    @property
    def arrivals_per_s(self) -> float:
        """Requests sent inside the window over its length [1/s]."""
        return len(self.inside) / (self.window[1] - self.window[0])

    @property
    def tokens_per_s(self) -> float:
        """Tokens generated inside the window over its length [1/s]."""
        return self._work(lambda one: float(one.tokens_out))

    @property
    def is_client_bound(self) -> bool:
        """Whether the client itself was the limit: its core half busy, or its loop late by a tenth of the first token."""
        rule = constant_group("measure", "load")
        first = statistics.median([one.ttft for one in self.good]) if self.good else math.inf
        return self.cpu_share > rule["client_cpu"] or self.lag_s > rule["client_lag"] * first

    def _work(self, amount: Callable[[Answer], float]) -> float:
        low, high = self.window
        done = 0.0
        for one in self.answers:
            if not one.error and one.latency > 0:
                done += amount(one) * max(min(one.last, high) - max(one.sent, low), 0.0) / one.latency
        return done / (high - low) if high > low else 0.0


async def closed(client: Client, question: Question, *, streams: int, seconds: float) -> Level:
    """So many requests at any time, each followed by the next."""
    start = time.perf_counter()
    end = start + seconds
    answers: list[Answer] = []

    async def one_after_the_other() -> None:
        while time.perf_counter() < end:
            answers.append(await ask(client, question, timeout_s=_timeout()))
            if answers[-1].error:
                await asyncio.sleep(_TICK_S)

    async with _watched(client, seconds) as watch:
        await _finished([asyncio.create_task(one_after_the_other()) for _ in range(streams)], seconds + _timeout())
    return _level(answers, (start, end), watch, streams=streams)


async def opened(client: Client, question: Question, *, rate: float, seconds: float, most: int) -> Level:
    """Arrivals at random at this rate [1/s], whether earlier ones are answered or not. With more than `most` at the same time it ends: the server does not keep up."""
    moments = arrivals(rate, seconds)
    tasks: list[asyncio.Task[Answer]] = []
    running: set[asyncio.Task[Answer]] = set()
    async with _watched(client, seconds) as watch:
        start = time.perf_counter()
        for moment in moments:
            await asyncio.sleep(max(start + moment - time.perf_counter(), 0.0))
            task = asyncio.create_task(ask(client, question, due=start + moment, timeout_s=_timeout()))
            tasks.append(task)
            running.add(task)
            task.add_done_callback(running.discard)
            if len(running) > most:
                break
        end = min(start + seconds, time.perf_counter()) if len(running) > most else start + seconds
        await _finished(tasks, seconds)
    answers = [task.result() for task in tasks if not task.cancelled()]
    return _level(answers, (start, end), watch, rate=rate)


def arrivals(rate: float, seconds: float) -> list[float]:
    """Moments [s] of a Poisson process."""
    gaps = (random.expovariate(rate) for _ in itertools.count())
    return list(itertools.takewhile(lambda at: at < seconds, itertools.accumulate(gaps)))


async def _finished(tasks: Sequence[asyncio.Task[object]], patience_s: float) -> None:
    """Wait for the tasks; what is not done by then is ended, and is an error of its request."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=patience_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


def _timeout() -> float:
    return constant_group("measure", "load")["timeout"]


def _level(answers: Sequence[Answer], whole: tuple[float, float], watch: _Watch, *, streams: int = 0, rate: float = 0.0) -> Level:
    start, end = whole
    window = (start + constant_group("measure", "load")["warm_share"] * (end - start), end)
    lag = statistics.fmean(watch.lags) if watch.lags else 0.0
    return Level(streams, rate, window, tuple(answers), watch.cpu_share, lag, tuple(watch.server))


# ---- the client itself, and the server's counters ------------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Watch:
    lags: list[float] = dataclasses.field(default_factory=list)
    server: list[Sample] = dataclasses.field(default_factory=list)
    cpu_share: float = 0.0


@contextlib.asynccontextmanager
async def _watched(client: Client, seconds: float) -> AsyncIterator[_Watch]:
    """Note how late the event loop is and how busy its core, and what the server's counters show before, during and after."""
    watch = _Watch()
    watch.server += await counters(client, time.time())
    began, used = time.perf_counter(), time.process_time()
    tasks = [asyncio.create_task(_ticks(watch))]
    if watch.server:
        tasks.append(asyncio.create_task(_samples(client, watch, seconds / _SAMPLES)))
    try:
        yield watch
    finally:
        watch.cpu_share = (time.process_time() - used) / max(time.perf_counter() - began, _TICK_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if watch.server:
        watch.server += await counters(client, time.time())


async def _ticks(watch: _Watch) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(_TICK_S)
        watch.lags.append(time.perf_counter() - before - _TICK_S)


async def _samples(client: Client, watch: _Watch, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        watch.server += await counters(client, time.time())
