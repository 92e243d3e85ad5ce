"""What one replica can take: rates and latencies over a grid of concurrencies, for every
candidate at once.

Each row is a candidate, each column a number of requests in flight. By Little's law each
concurrency is a rate, so the largest rate at which all latency limits hold is found
without iteration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.figures import normal_score
from rightfit.estimation.serving import served_columns, serving_rates
from rightfit.estimation.serving_extras import ServingExtras, cache_share, more_prompt_s, token_step_s
from rightfit.physics import batch_queue
from rightfit.physics.columns import Array
from rightfit.physics.serving_columns import max_sequences
from rightfit.recent import Recent, exact_key
from rightfit.records import dataclass
from rightfit.search.service.space import ServingSpace, stretched
from rightfit.search.service.wish import Limits, ServingRequest, usual

# ---- What physics says of candidates of services, kept between questions: most next questions
# change the budget, the places or the load, and the times of a step stay. The key is a digest of
# everything that is read, so that nothing can be forgotten in it.

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The last results of a pure function, within a number of bytes. Safe between threads; callers
    must not write into a result."""

    def __init__(self, most_bytes: int, *, size_of: Callable[[Value], int]) -> None:
        self.known: Recent[bytes, Value] = Recent(most_bytes, size_of=size_of)

    def of(self, compute: Callable[[], Value], *read: Any) -> Value:
        """The result of `compute`, which reads `read` and nothing else."""
        key = exact_key(*read)
        found = self.known.get(key)
        if found is None:
            found = compute()
            self.known.put(key, found)
        return found


Index = NDArray[np.intp]

GRID = 2.0 ** (np.arange(21) / 2.0)
#: Loads of an open queue below those of one request in flight, as shares of them.
LIGHT = np.array([0.0, 0.06, 0.2, 0.4, 0.7])
#: Times of some thirty models and lengths on the whole market.
_TIMES: Kept[TokenTimes] = Kept(
    32_000_000, size_of=lambda times: sum(getattr(times, field.name).nbytes for field in dataclasses.fields(times))
)
#: Inputs of one pass at once.
PASS_BATCHES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])


@dataclass(frozen=True, slots=True)
class ReplicaGrid:
    """Concurrency, rate and latencies at the wanted percentile of each candidate (rows) at each
    load (columns). `limit`: most requests in flight."""

    batch: Array
    rate_per_s: Array
    ttft_s: Array
    tpot_s: Array
    latency_s: Array
    limit: Array

    def take(self, index: Index) -> ReplicaGrid:
        """Rows `index`."""
        return ReplicaGrid(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most that one replica of each candidate may be given: `rate_per_s`, `users`; 0 where a
    latency limit fails even alone.

    `saturation_per_s`: the rate beyond which queues grow without end. `alone_*`: latencies of a
    single request, the least there are.
    """

    rate_per_s: Array
    users: Array
    saturation_per_s: Array
    alone_ttft_s: Array
    alone_tpot_s: Array
    alone_latency_s: Array


@dataclass(frozen=True, slots=True)
class TokenTimes:
    """What physics says of each candidate (rows) at each load (columns), before any law of
    waiting: means, and `closed_s`, the first token of a fixed number of users. `limit`: most
    requests in flight."""

    batch: Array
    rate_per_s: Array
    step_s: Array
    prompt_s: Array
    tpot_s: Array
    closed_s: Array
    request_s: Array
    limit: Array

    def take(self, index: Index) -> TokenTimes:
        """Rows `index`."""
        return TokenTimes(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


def token_times(space: ServingSpace) -> TokenTimes:
    """Times of all candidates of a language model; those that do not fit take nothing
    and wait for ever."""
    usable = np.flatnonzero(space.fits)
    distinct, group = distinct_candidates(space, usable)
    some = space.take(usable[distinct])
    known = _TIMES.of(lambda: _times(some), some.model, some.serve, some.device, some.links, some.extras)

    def spread_out(name: str) -> Array:
        values = getattr(known, name)
        out = np.full((len(space), *values.shape[1:]), 0.0 if name in ("batch", "rate_per_s", "limit") else np.inf)
        out[usable] = values[group]
        return out

    return TokenTimes(**{field.name: spread_out(field.name) for field in dataclasses.fields(TokenTimes)})


def distinct_candidates(space: ServingSpace, usable: Index) -> tuple[Index, Index]:
    """One of the usable rows for each combination that times depend on, and the combination of
    each: servers of one provider and another often differ in nothing but price."""
    links = [getattr(space.links, name) for name in ("intra_bandwidth", "intra_kind", "inter_bandwidth", "inter_kind")]
    alone, inside = space.tensor[usable] == 1, space.nodes[usable] == 1
    spread_over = np.broadcast_to(space.serve.attention_data, (len(space),))[usable]
    keys = [space.device_code[usable], space.tensor[usable], space.nodes[usable], space.stack_code[usable], spread_over]
    for position, values in enumerate(links):
        column = np.broadcast_to(values, (len(space),))[usable]
        keys.append(np.where(inside & (alone if position < 2 else True), 0.0, column))
    table = np.stack([np.asarray(key, dtype=np.float64) for key in keys], axis=1)
    if not table.shape[0]:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    _, first, group = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return first, group.reshape(-1)


def _times(space: ServingSpace) -> TokenTimes:
    rows, points = len(space), GRID.shape[0]
    limit = max_sequences(
        space.model, space.serve, space.device, overhead_bytes=space.held_bytes, coefficients=facts.coefficients("operators")
    )
    limit = limit * cache_share(space.extras, space.model, space.serve)
    limit = np.maximum(np.floor(np.broadcast_to(limit, (rows,)) * 1.0), 1.0)
    batch = np.minimum(GRID[None, :], limit[:, None])
    index = np.repeat(np.arange(rows), points)
    serve = stretched(space.serve, rows).take(index).replace(batch=batch.ravel())
    device, links = space.device.take(index), space.links.take(index)
    times = served_columns(space.model, serve, device, links)
    names = ("requests_per_s", "step_s", "prompt_s", "tpot_s", "ttft_s")
    rate, step, prompt, tpot, closed = (getattr(times, name).reshape(rows, points) for name in names)
    request = np.broadcast_to(serving_rates(serve, links).request_s, index.shape).reshape(rows, points)
    if space.extras:
        parts = (space.model, serve, device, links)
        step, prompt, tpot, closed, rate = with_extras(space.extras, parts, batch, (step, prompt, tpot, closed, rate))
    return TokenTimes(batch, rate, step, prompt, tpot, closed, request, limit)


def with_extras(extras: ServingExtras, parts: tuple[Any, ...], batch: Array, plain: tuple[Array, ...]) -> tuple[Array, ...]:
    """Step, prompt, TPOT, first token of a closed load and rate with shared prefix, adapters and
    drafts, from those without, all (rows, points)."""
    step, prompt, tpot, closed, rate = plain
    model, serve, device, links = parts
    rates, flat = serving_rates(serve, links), batch.ravel()
    context = np.maximum(serve.input_tokens + serve.output_tokens / 2.0, 1.0)
    better = token_step_s(extras, model, serve, device, links, rates, batch=flat, context=context)
    tokens = np.broadcast_to(serve.input_tokens, flat.shape) * 1.0
    more = more_prompt_s(extras, model, serve, device, links, rates, prompt=tokens)
    change, more = np.broadcast_to(better, flat.shape).reshape(batch.shape) - step, more.reshape(batch.shape)
    output = np.broadcast_to(serve.output_tokens, flat.shape).reshape(batch.shape)
    others = (
        np.broadcast_to(rates.interference, flat.shape).reshape(batch.shape) * np.maximum(batch - 1.0, 0.0) * more / np.maximum(output, 1.0)
    )
    change = change + others
    with np.errstate(divide="ignore", invalid="ignore"):
        cycle = batch / rate + more + np.maximum(output - 1.0, 0.0) * change
        faster = np.where(rate > 0, batch / cycle, rate)
    return step + change - others, prompt + more, tpot + change, closed + more, faster


def token_grid(times: TokenTimes, wish: ServingRequest, *, percentile: float) -> ReplicaGrid:
    """Latencies at a percentile. Open load: prompts queue; a fixed number of users: their prompts
    come together in part."""
    with np.errstate(invalid="ignore"):
        tpot = times.tpot_s * spread(times.tpot_s, times.batch, percentile=percentile)
        if wish.rate_per_s:
            times, tpot = _from_idle(times), np.concatenate([np.repeat(tpot[:, :1], LIGHT.size, axis=1), tpot], axis=1)
            wait = waiting_s(times.rate_per_s * times.prompt_s, times.prompt_s, percentile=percentile)
        else:
            wait = 2.0 * percentile * np.maximum(times.closed_s - times.request_s - times.prompt_s, 0.0)
        ttft = times.request_s + times.prompt_s + wait + percentile * times.step_s
        latency = ttft + max(wish.output_tokens - 1, 0) * tpot
    usable = (times.limit > 0)[:, None]
    ttft, tpot, latency = (np.where(usable, value, np.inf) for value in (ttft, tpot, latency))
    return ReplicaGrid(times.batch, times.rate_per_s, ttft, tpot, latency, times.limit)


def _from_idle(times: TokenTimes) -> TokenTimes:
    """The times with loads before the first: one request in flight on average is no light load
    where prompts are long, and a request alone waits for none."""

    def spread_out(values: Array) -> Array:
        return np.concatenate([np.repeat(values[:, :1], LIGHT.size, axis=1), values], axis=1)

    def lighter(values: Array) -> Array:
        return np.concatenate([values[:, :1] * LIGHT[None, :], values], axis=1)

    kept = {name: spread_out(getattr(times, name)) for name in ("step_s", "prompt_s", "tpot_s", "closed_s", "request_s")}
    return TokenTimes(batch=lighter(times.batch), rate_per_s=lighter(times.rate_per_s), limit=times.limit, **kept)


def waiting_s(load: Array, service_s: Array, *, percentile: float) -> Array:
    """Wait for the server of prompts at a percentile [s]: P(wait > t) = load x exp(-2 (1 - load)
    t / service), the heavy-traffic law of M/D/1."""
    busy = np.clip(load, 1e-9, 0.999)
    over = np.maximum(np.log(busy / (1.0 - percentile)), 0.0)
    wait = over * service_s / (2.0 * (1.0 - busy))
    return np.where(load >= 1.0, np.inf, wait)


def spread(tpot: Array, batch: Array, *, percentile: float) -> Array:
    """By how much TPOT at a percentile exceeds its mean: the number in flight varies as a Poisson
    count, and TPOT with it."""
    if not tpot.shape[0]:
        return np.ones_like(tpot)
    log_batch, log_tpot = np.log(np.maximum(batch, 1.0)), np.log(tpot)
    step = np.diff(log_batch, axis=1)
    slope = np.divide(np.diff(log_tpot, axis=1), step, out=np.zeros_like(step), where=step > 1e-9)
    slope = np.clip(np.concatenate([slope[:, :1], slope], axis=1), 0.0, 1.0)
    more = np.maximum(1.0 + normal_score(percentile) / np.sqrt(np.maximum(batch, 1.0)), 0.1)
    return np.asarray(more**slope)


def capacity(grid: ReplicaGrid, limits: Limits) -> Capacity:
    """The largest load of each candidate within the limits, linear between the
    points of the grid."""
    excess = np.zeros(grid.rate_per_s.shape)
    for values, limit in ((grid.ttft_s, limits.ttft_s), (grid.tpot_s, limits.tpot_s), (grid.latency_s, limits.latency_s)):
        if np.isfinite(limit):
            excess = np.maximum(excess, values / limit)
    rate = grid.rate_per_s
    at_peak = np.argmax(rate, axis=1)
    saturation = rate[np.arange(rate.shape[0]), at_peak]
    share = usual()["most_utilisation"]
    allowed = within(excess, rate)
    users = np.minimum(within(excess, grid.batch), grid.limit)
    return Capacity(
        rate_per_s=np.minimum(allowed, share * saturation) * (excess[:, 0] <= 1.0),
        users=np.floor(users + 1e-9) * (excess[:, 0] <= 1.0),
        saturation_per_s=saturation,
        alone_ttft_s=grid.ttft_s[:, 0],
        alone_tpot_s=grid.tpot_s[:, 0],
        alone_latency_s=grid.latency_s[:, 0],
    )


def within(excess: Array, values: Array) -> Array:
    """The value of each row at the last point before `excess` passes 1,
    interpolated to where it does."""
    rows = np.arange(values.shape[0])
    passes = excess > 1.0
    first = np.where(passes.any(axis=1), np.argmax(passes, axis=1), values.shape[1])
    last = np.maximum(first - 1, 0)
    beyond = np.minimum(first, values.shape[1] - 1)
    low, high = excess[rows, last], excess[rows, beyond]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(np.isfinite(high) & (high > low), (1.0 - low) / (high - low), 0.0)
    value = values[rows, last] + np.clip(part, 0.0, 1.0) * (values[rows, beyond] - values[rows, last])
    return np.where(first == 0, 0.0, np.maximum(value, 0.0))


def at_load(grid: ReplicaGrid, values: Array, *, rate_per_s: Array | None = None, batch: Array | None = None) -> Array:
    """A column of the grid at a given rate (or concurrency) of each row, linear between points."""
    axis, wanted = (grid.rate_per_s, rate_per_s) if rate_per_s is not None else (grid.batch, batch)
    assert wanted is not None
    rows = np.arange(values.shape[0])
    rising = np.maximum.accumulate(axis, axis=1)
    left = np.clip(np.count_nonzero(rising <= wanted[:, None], axis=1) - 1, 0, axis.shape[1] - 2)
    low, high = rising[rows, left], rising[rows, left + 1]
    first, second = values[rows, left], values[rows, left + 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = (second - first) / (high - low)
        between = slope * (wanted - low) + first
        between = np.where(np.isnan(between), slope * (wanted - high) + second, between)  # as numpy.interp does where values are infinite
    between = np.where(wanted <= low, first, np.where(wanted >= high, second, between))
    most = values[rows, np.argmax(grid.rate_per_s, axis=1)]
    return np.asarray(np.where(np.isfinite(wanted), between, most))


def pass_grid(pass_s: Array, wish: ServingRequest, *, percentile: float) -> ReplicaGrid:
    """Rate and latency of each candidate. Under a rate: at each share of the most that it can do,
    by the law of a queue that is served in batches. Of a fixed number of users, and of a batch job:
    at each mean batch; a pass that is slower per input than a smaller one gains nothing."""
    if not wish.rate_per_s or wish.is_batch:
        return _closed_grid(pass_s, percentile=percentile)
    service_s, saturation = batch_service_s(pass_s)
    # Where just so many requests find the server at work that the percentile meets one, it leaps.
    leap = (1.0 - percentile) / service_s[:, :1] * LEAP
    rate = np.sort(np.concatenate([saturation[:, None] * LOADS[None, :], np.minimum(leap, saturation[:, None])], axis=1), axis=1)
    latency = _WAITS.of(lambda: _open_latency_s(service_s, rate, percentile), service_s, rate, percentile)
    sizes = np.arange(1, service_s.shape[1] + 1, dtype=np.float64)
    done = np.where(np.isfinite(service_s), sizes / service_s, 0.0)
    enough = done[:, None, :] >= rate[:, :, None] * (1.0 - 1e-9)
    batch = np.argmax(enough, axis=2) + 1.0
    limit = np.isfinite(service_s).sum(axis=1).astype(np.float64)
    nothing = np.zeros(rate.shape)
    return ReplicaGrid(batch, rate, nothing, nothing, latency, limit)


#: Shares of the most that a server can do, at which its waiting is worked out; services are given
#: no more than the last but one (`most_utilisation`), beyond which it is taken for endless.
LOADS = np.array([0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.15, 0.3, 0.5, 0.65, 0.8, 1.0])
#: Rates about the leap, as shares of its rate: before it, behind it, and where it has flattened.
LEAP = np.array([0.97, 1.1, 1.8])
#: Waiting of some hundred models and percentiles.
_WAITS: Kept[Array] = Kept(8_000_000, size_of=lambda found: found.nbytes)


def batch_service_s(pass_s: Array) -> tuple[Array, Array]:
    """Seconds of a pass with 1, 2, 3 ... inputs, linear between the batches that are known and
    infinite beyond the one that does most, and the most inputs a second (N,)."""
    sizes = np.arange(1.0, PASS_BATCHES[-1] + 1.0)
    right = np.clip(np.searchsorted(PASS_BATCHES, sizes), 1, PASS_BATCHES.shape[0] - 1)
    part = (sizes - PASS_BATCHES[right - 1]) / (PASS_BATCHES[right] - PASS_BATCHES[right - 1])
    with np.errstate(invalid="ignore"):
        between = pass_s[:, right - 1] + part * (pass_s[:, right] - pass_s[:, right - 1])
    between = np.where(part == 0.0, pass_s[:, right - 1], np.where(part == 1.0, pass_s[:, right], between))
    known = np.where(np.isfinite(between), between, np.inf)
    done = np.where(np.isfinite(known), sizes / np.where(np.isfinite(known), known, 1.0), 0.0)
    best = np.argmax(done, axis=1)
    known = np.where(np.arange(sizes.shape[0])[None, :] <= best[:, None], known, np.inf)
    return known, done[np.arange(done.shape[0]), best]


def pass_latency_s(pass_s: Array, rate_per_s: Array, *, percentile: float) -> Array:
    """Latency at a percentile of candidates (N,) that each get so many requests a second [s]."""
    return batch_queue.latency_s(batch_service_s(pass_s)[0], rate_per_s, shares=np.array([percentile]))[:, 0]


def _open_latency_s(service_s: Array, rate_per_s: Array, percentile: float) -> Array:
    """Latency of each candidate at each load (N, L); equal passes are worked out once."""
    out = np.full(rate_per_s.shape, np.inf)
    distinct, group = np.unique(service_s, axis=0, return_inverse=True)
    rates = np.zeros((distinct.shape[0], rate_per_s.shape[1]))
    rates[group.reshape(-1)] = rate_per_s
    columns = rate_per_s.shape[1] - 1
    found = batch_queue.latency_s(np.repeat(distinct, columns, axis=0), rates[:, :-1].reshape(-1), shares=np.array([percentile]))
    out[:, :-1] = found.reshape(-1, columns)[group.reshape(-1)]
    return out


def _closed_grid(pass_s: Array, *, percentile: float) -> ReplicaGrid:
    """The same at each mean batch, of requests that are always in flight."""
    finite = np.isfinite(pass_s)
    rate = np.where(finite, PASS_BATCHES[None, :] / np.where(finite, pass_s, 1.0), 0.0)
    latency = np.where(finite, pass_s * (1.0 + percentile), np.inf)
    batch = np.broadcast_to(PASS_BATCHES, pass_s.shape)
    limit = np.where(finite, PASS_BATCHES[None, :], 0.0).max(axis=1, initial=0.0)
    nothing = np.zeros(pass_s.shape)
    return ReplicaGrid(batch, rate, nothing, nothing, latency, limit)
