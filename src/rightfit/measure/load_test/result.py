"""A load test as a run record: the figures of the largest rate that holds, its levels as series, the price, and where the server's own counters disagree."""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightfit.facts.constants import constant_group
from rightfit.measure.load_test.capacity import Capacity, Trial
from rightfit.measure.load_test.http import Place
from rightfit.measure.load_test.level import Level
from rightfit.measure.load_test.percentile import Z80, quantile
from rightfit.measure.load_test.stream import Answer
from rightfit.measure.readers.exposition import Sample, figures_of, known
from rightfit.measure.readers.item import figure, words
from rightfit.measure.record import Measured, Run, Series, Source, own_version, sealed

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
    """USD of a million generated tokens at the capacity, with its 80 % interval; None where no rate holds or there is no price."""
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


# ---- the server's own counters -----------------------------------------------------------------------------------------------------------


def _of_server(level: Level) -> list[Measured]:
    """Gauges while the load ran, and preemptions."""
    moments = sorted({sample.at for sample in level.server if sample.at is not None})
    inner = [sample for sample in level.server if sample.at in moments[1:-1]]
    gauges = [item for item in figures_of(inner) if item.metric in _GAUGES] if inner else []
    return gauges + [item for item in figures_of(level.server) if item.metric == "preemptions_per_s"]


def grown(samples: Sequence[Sample], name: str) -> float | None:
    """How much a counter of the server grew between the first and the last sample, over all its series."""
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
    """Where the server counts otherwise than the client by more than a tenth: other users, or a client (or network) that adds time."""
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
