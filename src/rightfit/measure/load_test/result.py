"""A load test as a run record: the figures of the largest rate that holds, its levels as series,
the price, and where the server's own counters disagree."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightfit.errors import NetworkError, UnavailableError
from rightfit.facts.tables import constant_group
from rightfit.measure.load_test.http import Answer, Client, Place
from rightfit.measure.load_test.level import Endpoint, Level, closed, found_at, opened
from rightfit.measure.readers.item import figure, words
from rightfit.measure.readers.prometheus import Sample, figures_of, known
from rightfit.measure.record import Measured, Run, Series, Source, own_version, sealed
from rightfit.messages import Message
from rightfit.records import dataclass

# ---- Percentiles of requests that follow one another: one that waits makes the next one wait, so a
# sample of n says less than n independent ones.
#
# The variance of a share is that of independent requests times an inflation, estimated by batch
# means. Reference: Law and Kelton, Simulation modeling and analysis, section 9.5.3 (batch means);
# David and Nagaraja, Order statistics, section 7.1.

#: Normal quantile of an 80 % interval.
Z80 = 1.2816
_BATCHES = 10


def inflation(beyond: Sequence[bool], share: float) -> float:
    """By how much the variance of the share of `beyond`, in order of time, exceeds that of
    independent requests at that percentile; at least 1."""
    size = len(beyond) // _BATCHES
    if size < 1:
        return 1.0
    means = [statistics.fmean(beyond[at * size : (at + 1) * size]) for at in range(_BATCHES)]
    return max(statistics.variance(means) * size / (share * (1.0 - share)), 1.0)


def quantile(values: Sequence[float], share: float) -> tuple[float, float, float]:
    """The quantile of a sample in order of time with the bounds of its 80 % interval; infinite
    (or 0) where the sample is too small to bound it."""
    ordered, n = sorted(values), len(values)
    if not n:
        return math.nan, 0.0, math.inf
    mid = ordered[min(max(math.ceil(n * share), 1), n) - 1]
    half = Z80 * math.sqrt(n * share * (1.0 - share) * inflation([value > mid for value in values], share))
    low, high = math.floor(n * share - half), math.ceil(n * share + half)
    return mid, ordered[low - 1] if low >= 1 else 0.0, ordered[high - 1] if high <= n else math.inf


def keeps(values: Sequence[float], target: float, share: float) -> tuple[bool, bool, bool]:
    """Whether that share of the values is within the target: in the sample, surely, surely not (80
    %). Without values nothing is known to miss."""
    if not values:
        return True, False, False
    beyond = [value > target for value in values]
    missed, allowed = statistics.fmean(beyond), 1.0 - share
    half = Z80 * math.sqrt(share * allowed * inflation(beyond, share) / len(values))
    return missed <= allowed + 1e-9, missed + half <= allowed, missed - half > allowed


# ---- The knee of an endpoint: closed loops with more and more streams until throughput
# stops growing, then random arrivals in steps up to the largest rate at which the wished
# percentile holds.
#
# A closed loop hides queueing (a slow answer delays the next question), so it only says how much
# throughput there is; what a user waits for comes from the open loop. A level holds where the
# percentile of every target is met, requests fail at most one in a hundred and arrivals are served
# as they come. The capacity lies between the largest rate that surely holds and the smallest that
# surely does not (80 %), each wider by what n random arrivals leave open of a rate (1 / sqrt(n)).
#
# Reference: Schroeder, Wierman, Harchol-Balter, Open versus closed: a cautionary tale, NSDI 2006.


@dataclass(frozen=True, slots=True)
class Trial:
    """What to ask and how long: tokens, targets [s] at `percentile` (0 to 1), seconds and requests
    of an open level, and all the time there is [s]."""

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
    """What was found: the level at the largest rate [1/s] that holds (None: none does) with an
    80 % interval; `is_bound`: the server may take more, the test could not ask for it. `levels`
    are all that count."""

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
    """Find the capacity of the endpoint. Raises NetworkError, InputError, and UnavailableError
    where the client itself is the limit from the first level on."""
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
        """1, 2, 4 ... streams until throughput stops growing, a target is missed, or
        time or client end it."""
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
        """Rates in steps up to the throughput of the closed loops until one does not hold; then
        halvings of the last step."""
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
        """Keep the level, unless the client was its limit. Raises where the first one already says
        that nothing can be measured."""
        if level.error_share > self.rule["useless"]:
            failed = next((one.error for one in level.inside if one.error), Message("measure.none_sent"))
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
            took = Message("measure.took", seconds=self.warm_up_s, answer=self.latency_s)
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


#: Percentiles that a record names.
PERCENTILES = {0.5: "p50", 0.9: "p90", 0.95: "p95", 0.99: "p99"}
_LATENCIES: Mapping[str, Callable[[Answer], float]] = {
    "ttft_ms": lambda one: one.ttft,
    "tpot_ms": lambda one: one.tpot,
    "latency_ms": lambda one: one.latency,
}
_GAUGES = frozenset(("kv_cache_used_share", "queue_len", "running"))


def run_of(
    found: Capacity,
    test: Trial,
    place: Place,
    *,
    setup: Mapping[str, str] | None = None,
    server: Mapping[str, Any] | None = None,
    usd_per_h: float | None = None,
) -> Run:
    """The record of a load test; `usd_per_h` is the price of all that stands behind the address."""
    level = found.shown
    started = datetime.datetime.now(tz=datetime.UTC) - datetime.timedelta(seconds=found.elapsed_s)
    wish = {"task": "serve", "input_tokens": test.input_tokens, "output_tokens": test.output_tokens, "percentile": 100 * test.percentile}
    targets = {"ttft_s": test.ttft_s, "tpot_s": test.tpot_s}
    return sealed(
        Run(
            source=Source(kind="load-test", tool="rightfit", version=own_version(), path_or_url=str(place)),
            started=started.isoformat(timespec="seconds"),
            duration_s=found.elapsed_s,
            workload=wish | {name: value for name, value in targets.items() if value is not None},
            setup={**_setup(found, level), **(setup or {})},
            server=dict(server or {}),
            measured=[*_rates(found, test, level), *_latencies(level), *_price(found, level, usd_per_h), *_of_server(level)],
            series=_series(found),
            warnings=[*found.notes, *_doubts(found, test, level)],
        )
    )


def _setup(found: Capacity, level: Level) -> dict[str, str]:
    return words(
        model=found.endpoint.question.model,
        engine=found.endpoint.engine,
        batch_or_concurrency=level.streams or None,
        request_rate=f"{level.rate:.4g}" if level.rate else None,
        num_requests=len(level.inside),
        input_tokens=round(statistics.fmean([one.tokens_in for one in level.good])),
        output_tokens=round(statistics.fmean([one.tokens_out for one in level.good])),
    )


def _rates(found: Capacity, test: Trial, level: Level) -> list[Measured]:
    n = len(level.good)
    if found.best:
        targets = ", ".join(
            f"p{100 * test.percentile:g} of {name} <= {1e3 * target:g} ms"
            for name, target in (("first token", test.ttft_s), ("time per token", test.tpot_s))
            if target is not None
        )
        text = f"largest rate of random arrivals that is kept up{' with ' if targets else ''}{targets}; 80 % {found.low80:.4g} to {found.high80:.4g}"
        rate, spread = level.rate, (found.high80 - found.low80) / (2.0 * Z80)
    else:
        text, rate, spread = "completed requests over time; no capacity: see the notes", level.requests_per_s, None
    bound: dict[str, Any] = {"bound": ">="} if found.best and found.is_bound else {}
    return [
        *figure("req_per_s", rate, n=n, spread=spread, definition=text, **bound),
        *figure("output_tok_per_s_total", level.tokens_per_s, n=n, **bound),
        *figure("error_share", level.error_share, n=len(level.inside)),
    ]


def _latencies(level: Level) -> list[Measured]:
    figures: list[Measured] = []
    for name, of in _LATENCIES.items():
        values = [1e3 * value for one in level.good if math.isfinite(value := of(one))]
        if len(values) < 2:
            continue
        figures += figure(name, statistics.fmean(values), n=len(values), spread=statistics.stdev(values) / len(values) ** 0.5)
        for share, statistic in PERCENTILES.items():
            mid, low, high = quantile(values, share)
            if math.isfinite(high) and low > 0:
                figures += figure(name, mid, statistic=statistic, n=len(values), spread=(high - low) / (2.0 * Z80))
    return figures


def price_of(found: Capacity, usd_per_h: float | None) -> tuple[float, float, float] | None:
    """USD of a million generated tokens at the capacity, with its 80 % interval; None where no rate
    holds or there is no price."""
    if found.best is None or usd_per_h is None:
        return None
    mid = usd_per_h / (found.best.tokens_per_s * 3600.0) * 1e6
    rate = found.best.rate
    return mid, mid * rate / found.high80, mid * rate / found.low80 if found.low80 else math.inf


def _price(found: Capacity, level: Level, usd_per_h: float | None) -> list[Measured]:
    price = price_of(found, usd_per_h)
    if price is None:
        return []
    mid, low, high = price
    spread = (high - low) / (2.0 * Z80) if math.isfinite(high) else None
    bound: dict[str, Any] = {"bound": "<="} if found.is_bound else {}
    return figure("usd_per_million_tokens", mid, n=len(level.good), spread=spread, **bound)


def _series(found: Capacity) -> list[Series]:
    """What each level served, at its middle [s since the first]."""
    start = found.levels[0].window[0]
    at = [sum(level.window) / 2.0 - start for level in found.levels]
    rates = {
        "req_per_s": [level.requests_per_s for level in found.levels],
        "output_tok_per_s_total": [level.tokens_per_s for level in found.levels],
    }
    return [Series(metric=name, at_s=at, values=values) for name, values in rates.items()]


# ---- the server's own counters -------------------------------------------------------------------


def _of_server(level: Level) -> list[Measured]:
    """Gauges while the load ran, and preemptions."""
    moments = sorted({sample.at for sample in level.server if sample.at is not None})
    inner = [sample for sample in level.server if sample.at in moments[1:-1]]
    gauges = [item for item in figures_of(inner) if item.metric in _GAUGES] if inner else []
    return gauges + [item for item in figures_of(level.server) if item.metric == "preemptions_per_s"]


def grown(samples: Sequence[Sample], name: str) -> float | None:
    """How much a counter of the server grew between the first and the last sample,
    over all its series."""
    moments = {sample.at for sample in samples if sample.name == name and sample.at is not None}
    if len(moments) < 2:
        return None
    first, last = (sum(one.value for one in samples if one.name == name and one.at == at) for at in (min(moments), max(moments)))
    return last - first if last >= first else None


def _doubts(found: Capacity, test: Trial, level: Level) -> list[str]:
    doubts = []
    if found.best is None:
        doubts.append("no rate that was tried keeps the targets: the figures are of the lightest load, and there is no capacity")
    elif not found.low80:
        doubts.append("too few requests a level to say how small the capacity may be; more are given with --requests")
    short = statistics.fmean([one.tokens_out for one in level.good]) < 0.95 * test.output_tokens
    doubts += ["answers were shorter than asked for; what was measured is recorded"] if short else []
    whole = sum(one.is_whole for one in level.good)
    if whole > constant_group("measure", "load")["agrees"] * len(level.good):
        doubts.append(
            f"{whole} of {len(level.good)} answers came in one piece (a proxy that buffers, text that is held back): their first token is "
            "their last, and they tell no time per token"
        )
    prompt = statistics.fmean([one.tokens_in for one in level.good])
    if abs(prompt - test.input_tokens) > constant_group("measure", "load")["agrees"] * test.input_tokens:
        doubts.append(f"prompts had {prompt:.0f} tokens by the server's count, not the {test.input_tokens} that were asked for")
    return doubts + disagreements(level)


def disagreements(level: Level) -> list[str]:
    """Where the server counts otherwise than the client by more than a tenth: other users, or a
    client (or network) that adds time."""
    tolerance = constant_group("measure", "load")["agrees"]
    answers = [one for one in level.answers if not one.error]
    doubts = []
    for name, row in known().items():
        if row["metric"] == "output_tok_per_s_total" and row["how"] == "counter" and not any(one.error for one in level.answers):
            tokens, ours = grown(level.server, name), sum(one.tokens_out for one in answers)
            if tokens is not None and abs(tokens - ours) > tolerance * ours:
                doubts.append(f"the server counted {tokens:g} generated tokens ({name}) and the answers {ours:g}: others use it as well")
        if row["metric"] == "ttft_ms" and row["how"] == "histogram" and answers:
            total, count = grown(level.server, f"{name}_sum"), grown(level.server, f"{name}_count")
            mean = statistics.fmean([one.ttft for one in answers])
            if total and count and abs(mean - total / count) > tolerance * mean:
                doubts.append(
                    f"first token {1e3 * mean:.1f} ms here and {1e3 * total / count:.1f} ms by the server ({name}): network, proxy or client "
                    "between, or first tokens whose text is held back (a part of a character)"
                )
    return doubts
