"""One load for a while: so many streams (closed loop) or arrivals at random (open loop),
and what came of it.

Throughput is the work done inside the window: a request counts by the share of its time that lies
inside, so that no batch of answers is in or out by chance; what started before the window (warm-up)
or ended after it counts with its part. Latencies are of requests that were sent inside the window.
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
from typing import Any

from rightfit.errors import InputError, NetworkError
from rightfit.facts.tables import constant_group, nearest
from rightfit.measure.load_test.http import Answer, Client, HttpError, Question, ask
from rightfit.measure.readers.prometheus import Sample, samples_of
from rightfit.measure.record import json_of
from rightfit.messages import Message, cause, did_you_mean, system_problem
from rightfit.records import dataclass

# ---- What stands behind an address: the model it serves, whether it speaks the API, how long a
# prompt must be to be so many of its tokens, when it is warm.

_ENGINES = ("vllm", "sglang")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A service that answers: what to ask it, its engine where it tells, and its answers when
    nothing else runs."""

    question: Question
    engine: str
    alone: tuple[Answer, ...]
    notes: tuple[str, ...]


async def found_at(client: Client, *, model: str, input_tokens: int, output_tokens: int) -> Endpoint:
    """The endpoint, warm. Raises NetworkError (not reached, every request fails) and InputError (no
    such API, no such model, no count of tokens)."""
    name, engine, unlisted = await _model(client, model)
    question, notes = await _accepted(client, Question(name, max(input_tokens // 3, 1), output_tokens), unlisted)
    notes += [f"the server answers for {name!r}, which its list of models lacks: see that it serves that model"] if unlisted else []
    question = await _of_length(client, question, input_tokens)
    return Endpoint(question, engine, await _warm(client, question), tuple(notes))


async def _model(client: Client, wanted: str) -> tuple[str, str, Message | None]:
    """The model to ask for, the engine, and what to say where the server refuses that model and its
    list lacks it. The one that is named is tried also where it is on no list: servers that load
    what they are asked for (transformers serve) list what lies in a cache."""
    place = client.place
    try:
        async with client.ask("GET", f"{place.base}/models") as reply:
            status, text = reply.status, await reply.text()
    except (OSError, HttpError) as error:
        raise NetworkError(
            Message("measure.cannot_reach", address=place, error=cause(error) if isinstance(error, HttpError) else system_problem(error))
        ) from None
    if status in (401, 403):
        raise InputError(Message("measure.asks_for_a_key", address=place, status=status), field="key_env")
    served = _served(text) if status == 200 else None
    if served is None:
        if wanted:
            return wanted, "", None
        raise InputError(
            Message("measure.not_openai", address=place, base=place.base, status=status),
            field="url",
        )
    names = list(served)
    shown = Message("measure.served", names=", ".join(names[:5])) if names else Message("measure.served_none")
    if not wanted and len(names) != 1:
        raise InputError(Message("measure.serves_several_models", address=place, count=len(names), line=shown), field="model")
    name = wanted or names[0]
    if name not in served:
        near = nearest(wanted, names)
        hint = did_you_mean(near[:1])
        return name, "", Message("measure.no_model", model=wanted, address=place, served=shown, hint=hint)
    return name, served[name] if served[name] in _ENGINES else "", None


def _served(text: str) -> dict[str, str] | None:
    """Name -> owner of the models of a list; None where it is no such list."""
    try:
        found = json_of(text)
    except ValueError:
        return None
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, list):
        return None
    return {str(item["id"]): str(item.get("owned_by", "")) for item in data if isinstance(item, dict) and "id" in item}


async def _accepted(client: Client, question: Question, unlisted: Message | None) -> tuple[Question, list[str]]:
    """The question in the form that the server takes; refusals of the first request are told as
    they are, after `unlisted`."""
    answer = await _one(client, question)
    notes = []
    if answer.status in (400, 422):
        question = dataclasses.replace(question, forced=False)
        answer = await _one(client, question)
        notes = ["the server does not take ignore_eos: answers may be shorter than asked for"]
    if answer.error and unlisted and answer.status:
        raise InputError(Message("measure.refused_model", problem=unlisted, error=answer.error), field="model")
    if answer.error:
        kind: Any = InputError if answer.status in (400, 401, 403, 404, 405, 413, 422) else NetworkError
        raise kind(Message("measure.no_chat", address=client.place, error=answer.error))
    if not answer.tokens_out or not answer.tokens_in:
        raise InputError(Message("measure.no_usage", address=client.place), field="url")
    return question, notes


async def _of_length(client: Client, question: Question, input_tokens: int) -> Question:
    """The question with so many numbers that the server counts `input_tokens`: a line
    through two lengths."""
    short = dataclasses.replace(question, numbers=max(question.numbers // 2, 1), output_tokens=2)
    long = dataclasses.replace(question, numbers=question.numbers + 1, output_tokens=2)
    low, high = await _one(client, short), await _one(client, long)
    per_number = (high.tokens_in - low.tokens_in) / (long.numbers - short.numbers)
    if not low.tokens_in or not high.tokens_in or per_number <= 0:
        return question
    wanted = short.numbers + round((input_tokens - low.tokens_in) / per_number)
    return dataclasses.replace(question, numbers=max(wanted, 1))


async def _warm(client: Client, question: Question) -> tuple[Answer, ...]:
    """Answers one after the other until the first token has settled: the last few are near
    the fastest of them."""
    rule = constant_group("measure", "load")
    answers: list[Answer] = []
    for _ in range(int(rule["most_warm_up"])):
        answers.append(await _one(client, question))
        if answers[-1].error:
            raise NetworkError(Message("measure.stopped_answering", address=client.place, error=answers[-1].error))
        last = answers[-int(rule["least_warm_up"]) :]
        if len(last) == rule["least_warm_up"] and max(one.ttft for one in last) <= rule["settled"] * min(one.ttft for one in answers):
            break
    return tuple(answers[-int(rule["least_warm_up"]) :])


async def _one(client: Client, question: Question) -> Answer:
    return await ask(client, question, timeout_s=constant_group("measure", "load")["timeout"])


async def counters(client: Client, at: float | None = None) -> list[Sample]:
    """What the server's own page of metrics shows at this moment; nothing where it has none."""
    try:
        async with client.ask("GET", "/metrics") as reply:
            text = await reply.text() if reply.status == 200 else ""
    except (OSError, HttpError):
        return []
    return [dataclasses.replace(sample, at=at) for sample in samples_of(text)]


_TICK_S = 0.01
_SAMPLES = 4


@dataclass(frozen=True, slots=True)
class Level:
    """One load. `streams` or `rate` [requests/s] says which, `window` [s since the clock's start]
    is what counts, `cpu_share` of one core and `lag_s` are the client's own; `server` holds samples
    of its counters."""

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
        """Whether the client itself was the limit: its core half busy, or its loop late by a tenth
        of the first token."""
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
    """Arrivals at random at this rate [1/s], whether earlier ones are answered or not. With more
    than `most` at the same time it ends: the server does not keep up."""
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


# ---- the client itself, and the server's counters ------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Watch:
    lags: list[float] = dataclasses.field(default_factory=list)
    server: list[Sample] = dataclasses.field(default_factory=list)
    cpu_share: float = 0.0


@contextlib.asynccontextmanager
async def _watched(client: Client, seconds: float) -> AsyncIterator[_Watch]:
    """Note how late the event loop is and how busy its core, and what the server's counters show
    before, during and after."""
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
