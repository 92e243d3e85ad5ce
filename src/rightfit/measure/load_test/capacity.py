"""The knee of an endpoint: closed loops with more and more streams until throughput stops growing, then random arrivals in steps up to the largest rate at which
the wished percentile holds.

A closed loop hides queueing (a slow answer delays the next question), so it only says how much throughput there is; what a user waits for comes from the open loop.
A level holds where the percentile of every target is met, requests fail at most one in a hundred and arrivals are served as they come. The capacity lies between the
largest rate that surely holds and the smallest that surely does not (80 %), each wider by what n random arrivals leave open of a rate (1 / sqrt(n)).

Reference: Schroeder, Wierman, Harchol-Balter, Open versus closed: a cautionary tale, NSDI 2006.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable

from rightfit.errors import NetworkError, UnavailableError
from rightfit.facts.constants import constant_group
from rightfit.measure.load_test.endpoint import Endpoint, found_at
from rightfit.measure.load_test.http import Client, Place
from rightfit.measure.load_test.level import Level, closed, opened
from rightfit.measure.load_test.percentile import Z80, keeps
from rightfit.measure.load_test.stream import Answer
from rightfit.messages import Message
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class Trial:
    """What to ask and how long: tokens, targets [s] at `percentile` (0 to 1), seconds and requests of an open level, and all the time there is [s]."""

    input_tokens: int
    output_tokens: int
    ttft_s: float | None = None
    tpot_s: float | None = None
    percentile: float = 0.95
    level_s: float = 30.0
    least_requests: int = 100
    limit_s: float = 600.0
    model: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What was found: the level at the largest rate [1/s] that holds (None: none does) with an 80 % interval; `is_bound`: the server may take more, the test could not ask
    for it. `levels` are all that count."""

    endpoint: Endpoint
    levels: tuple[Level, ...]
    best: Level | None
    low80: float
    high80: float
    is_bound: bool
    elapsed_s: float
    notes: tuple[str, ...]

    @property
    def shown(self) -> Level:
        """The level whose figures tell of the service: the best, else the lightest."""
        return self.best or min((level for level in self.levels if level.good), key=lambda level: len(level.inside), default=self.levels[0])


def holds(level: Level, test: Trial) -> tuple[bool, bool, bool]:
    """Whether the level holds, surely holds, surely does not."""
    rule = constant_group("measure", "load")
    served = not level.rate or level.requests_per_s >= rule["keeps_up"] * level.arrivals_per_s
    if level.error_share > rule["errors"] or not served:
        return False, False, True
    found = [
        keeps([value for one in level.good if not math.isnan(value := of(one))], target, test.percentile) for of, target in _targets(test)
    ]
    return all(mid for mid, _, _ in found), all(sure for _, sure, _ in found), any(never for _, _, never in found)


def _targets(test: Trial) -> list[tuple[Callable[[Answer], float], float]]:
    wanted: list[tuple[Callable[[Answer], float], float | None]] = [
        (lambda one: one.ttft, test.ttft_s),
        (lambda one: one.tpot, test.tpot_s),
    ]
    return [(of, target) for of, target in wanted if target is not None]


def measure(place: Place, test: Trial) -> Capacity:
    """Find the capacity of the endpoint. Raises NetworkError, InputError, and UnavailableError where the client itself is the limit from the first level on."""
    return asyncio.run(_measured(place, test))


async def _measured(place: Place, test: Trial) -> Capacity:
    client = Client(place, test.key)
    started = time.perf_counter()
    try:
        endpoint = await found_at(client, model=test.model, input_tokens=test.input_tokens, output_tokens=test.output_tokens)
        search = _Search(client, endpoint, test, started, time.perf_counter() - started)
        await search.closed_loops()
        await search.open_loops()
    finally:
        await client.close()
    return search.result(time.perf_counter() - started)


class _Search:
    def __init__(self, client: Client, endpoint: Endpoint, test: Trial, started: float, warm_up_s: float) -> None:
        self.client, self.endpoint, self.test, self.started, self.warm_up_s = client, endpoint, test, started, warm_up_s
        self.latency_s = max(one.latency for one in endpoint.alone)
        self.rule = constant_group("measure", "load")
        self.levels: list[Level] = []
        self.open: list[Level] = []
        self.notes: list[str] = list(endpoint.notes)
        self.is_cut = False

    async def closed_loops(self) -> None:
        """1, 2, 4 ... streams until throughput stops growing, a target is missed, or time or client end it."""
        seconds = max(self.rule["closed_share"] * self.test.level_s, self.rule["least_latencies"] * self.latency_s)
        best = 0.0
        for streams in itertools.takewhile(lambda n: n <= self.rule["most_streams"], (2**n for n in itertools.count())):
            if not self._has_time(seconds, self.started + self.test.limit_s / 2):
                return
            level = await closed(self.client, self.endpoint.question, streams=streams, seconds=seconds)
            if not self._counts(level):
                return
            if level.requests_per_s < (1.0 + self.rule["gain"]) * best or holds(level, self.test)[2]:
                return
            best = level.requests_per_s
        self._cut(f"throughput still grew at {self.rule['most_streams']:g} streams, the most that are tried")

    async def open_loops(self) -> None:
        """Rates in steps up to the throughput of the closed loops until one does not hold; then halvings of the last step."""
        peak = max((level.requests_per_s for level in self.levels), default=0.0)
        for rung in (self.rule[f"rung_{at}"] for at in range(1, 5)):
            if not await self._at(rung * peak) or not holds(self.open[-1], self.test)[0]:
                break
        for _ in range(int(self.rule["refinements"])):
            low, high = self._held(), self._missed()
            if high is None or (low and high <= self.rule["near"] * low) or not await self._at((low + high) / 2):
                return

    async def _at(self, rate: float) -> bool:
        """Measure this rate; whether that level counts."""
        least = max(self.test.least_requests / rate if rate else math.inf, self.rule["least_latencies"] * self.latency_s)
        seconds = max(self.test.level_s, least / (1.0 - self.rule["warm_share"]))
        if rate <= 0 or not self._has_time(seconds):
            return False
        level = await opened(self.client, self.endpoint.question, rate=rate, seconds=seconds, most=2 * int(self.rule["most_streams"]))
        if not self._counts(level):
            return False
        self.open.append(level)
        return True

    def _has_time(self, seconds: float, until: float = math.inf) -> bool:
        if time.perf_counter() + seconds <= min(self.started + self.test.limit_s, until):
            return True
        self._cut(f"the time of {self.test.limit_s:g} s did not suffice for every level; more is given with --time")
        return False

    def _counts(self, level: Level) -> bool:
        """Keep the level, unless the client was its limit. Raises where the first one already says that nothing can be measured."""
        if level.error_share > self.rule["useless"]:
            failed = next((one.error for one in level.inside if one.error), Message("measure.part_none_sent"))
            said = Message("measure.failed", failed=len(level.inside) - len(level.good), count=len(level.inside), load=_load(level))
            if not self.levels:
                raise NetworkError(Message("measure.requests_failed", address=self.client.place, why=said, error=failed))
            self.notes.append(f"{said}: {failed}")
            if level.rate:
                self.open.append(level)
            return False
        if level.is_client_bound:
            said = Message("measure.client_limit", load=_load(level), share=100 * level.cpu_share, late=1e3 * level.lag_s)
            if not self.levels:
                raise UnavailableError(Message("measure.client_was_the_limit", why=said))
            self._cut(f"{said}: that level does not count, and the server may take more")
            return False
        self.levels.append(level)
        return True

    def _cut(self, note: str) -> None:
        self.is_cut = True
        self.notes.append(note)

    def _held(self) -> float:
        """The largest rate that holds below every one that does not."""
        missed = self._missed() or math.inf
        return max((level.rate for level in self.open if holds(level, self.test)[0] and level.rate < missed), default=0.0)

    def _missed(self) -> float | None:
        return min((level.rate for level in self.open if not holds(level, self.test)[0]), default=None)

    def result(self, elapsed_s: float) -> Capacity:
        """What was found, with what does not agree."""
        if not self.levels:
            took = Message("measure.part_took", seconds=self.warm_up_s, answer=self.latency_s)
            raise UnavailableError(Message("measure.no_level_in_time", seconds=self.test.limit_s, why=took))
        held = self._held()
        best = next((level for level in self.open if level.rate == held), None)
        sure = [level.rate * (1.0 - _open_rate(level)) for level in self.open if holds(level, self.test)[1] and level.rate <= held]
        unsure = [level.rate * (1.0 + _open_rate(level)) for level in self.open if holds(level, self.test)[2] and level.rate > held]
        peak = max(level.requests_per_s for level in self.levels)
        is_bound = self.is_cut and self._missed() is None
        high = max(held, min(unsure, default=peak))
        return Capacity(
            self.endpoint, tuple(self.levels), best, max(sure, default=0.0), high, is_bound, elapsed_s, tuple(dict.fromkeys(self.notes))
        )


def _open_rate(level: Level) -> float:
    """Share of its rate that the arrivals of a level leave open (80 %): their number is Poisson."""
    return min(Z80 / math.sqrt(max(len(level.inside), 1)), 1.0)


def _load(level: Level) -> Message:
    return Message("measure.at_rate", rate=level.rate) if level.rate else Message("measure.at_streams", streams=level.streams)
