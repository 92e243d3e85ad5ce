"""The last options of a serving search by the better law: percentiles of the queue model in place
of the quick ones, replicas in agreement.

The search sizes every candidate with a law of one formula. For those that would be shown,
`physics.waiting` gives the percentiles; a candidate that breaks a limit by them gets more replicas,
one that no number of replicas helps is dropped, and the market is priced and ranked anew until the
shown options are all confirmed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.serving import serving_rates
from rightfit.estimation.serving_extras import cache_share, more_prompt_s, token_step_s
from rightfit.physics import decode, prefill, serving_columns, waiting
from rightfit.physics.columns import Array
from rightfit.physics.queueing import LoadColumns, ReplicaColumns, steady
from rightfit.physics.serving_columns import ServeRates
from rightfit.search.rank import Ranking, rank
from rightfit.search.service.found import Confirmed, Queued, ServingResult, Sizing
from rightfit.search.service.grid import Kept, distinct_candidates
from rightfit.search.service.sizing import rejudged, size
from rightfit.search.service.space import ServingSpace, stretched
from rightfit.search.service.wish import ServingRequest, usual

# ---- Replicas as the queue model and the simulation see them: step times as a table, taken from
# the serving physics of each candidate.

SEQUENCES = np.concatenate([2.0 ** np.arange(11), [2048.0]])
PROMPT_TOKENS = np.array([64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0])
CONTEXTS = (64.0, 4096.0)
PROBE_BATCH = 32.0


def replica_columns(space: ServingSpace) -> ReplicaColumns:
    """One row a candidate. Attention is linear in the tokens read (decode) and in the pairs
    (prompt); all else is in the tables.

    Sequences beside a prompt wait for it as the search has it: a step costs its decoding and
    `interference` times the prompt's pass.
    """
    rows = len(space)
    space = dataclasses.replace(space, serve=stretched(space.serve, rows))
    rates = serving_rates(space.serve, space.links)
    batch = np.concatenate([SEQUENCES, [PROBE_BATCH]])
    context = np.concatenate([np.full(SEQUENCES.size, CONTEXTS[0]), [CONTEXTS[1]]])
    steps = _decode_s(space, rates, batch=batch, context=context)
    table = np.maximum.accumulate(np.concatenate([steps[:, :1], steps[:, :-1]], axis=1), axis=1)
    low, high = steps[:, int(np.searchsorted(SEQUENCES, PROBE_BATCH))], steps[:, -1]
    alone, pair_s = _prompt_s(space, rates, tokens=PROMPT_TOKENS)
    prompts = np.maximum.accumulate(np.concatenate([alone[:, :1], alone], axis=1), axis=1)
    block = serving_columns.kv_bytes_per_device(space.model, space.serve, tokens=space.serve.input_tokens + space.serve.output_tokens)
    room = serving_columns.kv_room_bytes(
        space.model, space.serve, space.device, overhead_bytes=space.held_bytes, coefficients=facts.coefficients("operators")
    )
    room = room * cache_share(space.extras, space.model, space.serve)
    per_token = block / np.maximum(space.serve.input_tokens + space.serve.output_tokens, 1.0)

    def column(values: Array) -> Array:
        return np.broadcast_to(values, (rows,)) * 1.0

    return ReplicaColumns(
        table_tokens=np.concatenate([[0.0], SEQUENCES]),
        table_s=table,
        prompt_tokens=np.concatenate([[0.0], PROMPT_TOKENS]),
        prompt_s=prompts,
        stall=column(rates.interference),
        empty_s=table[:, 0],
        cache_token_s=np.maximum(high - low, 0.0) / (PROBE_BATCH * (CONTEXTS[1] - CONTEXTS[0])),
        prompt_pair_s=pair_s,
        request_s=column(rates.request_s),
        max_batch=column(space.serve.max_batch),
        chunk_tokens=column(space.serve.chunk_tokens),
        cache_tokens=column(room / np.maximum(per_token, 1e-9)),
        cache_reserve=column(space.serve.kv_reserve),
    )


def _repeated(space: ServingSpace, rates: ServeRates, points: int) -> tuple[tuple[Any, ...], tuple[int, int]]:
    """Model, serve, device, links and rates with each row repeated for so many points, and the
    shape of (rows, points)."""
    shape = (len(space), points)
    index = np.repeat(np.arange(len(space)), points)
    parts = (space.serve, space.device, space.links, rates)
    return (space.model, *(part.take(index) for part in parts)), shape


def _decode_s(space: ServingSpace, rates: ServeRates, *, batch: Array, context: Array) -> Array:
    """Seconds of a step (N, points) with `batch` sequences of `context` tokens."""
    (model, serve, device, links, repeated), shape = _repeated(space, rates, batch.size)
    load: dict[str, Any] = {"batch": np.tile(batch, shape[0]), "context": np.tile(context, shape[0])}
    if space.extras:
        return token_step_s(space.extras, model, serve, device, links, repeated, **load).reshape(shape)
    terms = decode.decode_times(model, serve, device, links, repeated, **load)
    return np.broadcast_to(decode.step_s(terms, model, serve, repeated), (shape[0] * shape[1],)).reshape(shape)


def _prompt_s(space: ServingSpace, rates: ServeRates, *, tokens: Array) -> tuple[Array, Array]:
    """Seconds of a pass over `tokens` of a prompt without attention (N, points), and of
    attention per pair (N,)."""
    (model, serve, device, links, repeated), shape = _repeated(space, rates, tokens.size)
    prompt = np.tile(tokens, shape[0])
    times = prefill.prefill_times(model, serve, device, links, repeated, prompt=prompt, sequences=np.ones(1))
    whole = prefill.prefill_s(times, model, serve, repeated) + repeated.prompt_token_s * prompt
    if space.extras:
        whole = whole + more_prompt_s(space.extras, model, serve, device, links, repeated, prompt=prompt)
    attention = np.broadcast_to(times.attention, prompt.shape).reshape(shape)
    return np.broadcast_to(whole, prompt.shape).reshape(shape) - attention, _pair_s(space, rates, longest=tokens[-1])


def _pair_s(space: ServingSpace, rates: ServeRates, *, longest: float) -> Array:
    """Seconds of attention per pair of tokens (N,), at the length that is asked for where that is
    longer than `longest` of the table: sparse attention takes fewer of the pairs the longer
    a prompt is."""
    prompt = np.maximum(space.serve.input_tokens, longest) * np.ones(len(space))
    times = prefill.prefill_times(space.model, space.serve, space.device, space.links, rates, prompt=prompt, sequences=np.ones(1))
    return np.asarray(np.broadcast_to(times.attention, prompt.shape) / (prompt**2 / 2.0))


PERCENTILES = (0.5, 0.95, 0.99)
METRICS = ("ttft_s", "tpot_s", "latency_s")
MOST_ROUNDS = 8
MOST_CONFIRMED = 24
#: So many options are confirmed even where fewer are asked for, so that the first does not depend
#: on how many are shown.
LEAST_CONFIRMED = 3
#: A share of the limits beyond which one replica less is not even tried where there are more than
#: a few: of these each counts, and the first token of long prompts hardly depends on their number.
SPACIOUS, FEW = 0.85, 10
LEAST_LOAD = 0.02
#: Queues of some two thousand candidates and loads.
_KNOWN: Kept[Queued] = Kept(4_000_000, size_of=lambda _: 2000)


def refined(search_result: ServingResult, *, top: int) -> tuple[ServingResult, Ranking]:
    """The search with its first `top` options confirmed, and their order. Loads of users, batch
    jobs and forward passes are left as they are."""
    wish = search_result.wish
    if not wish.generates or wish.is_batch or not wish.rate_per_s or wish.load is None:
        return search_result, rank(search_result, top=top)
    confirmed = max(top, LEAST_CONFIRMED)
    ranking = rank(search_result, top=confirmed)
    group = groups_of(search_result)
    book: dict[int, Queued] = {}
    for _ in range(MOST_ROUNDS):
        rows = [search_result.candidate(row.offer, row.node) for row in ranking.top]
        asked = list(dict.fromkeys(int(group[row]) for row in rows if int(group[row]) not in book))
        asked = asked[: MOST_CONFIRMED - len(book)]
        if not asked:
            break
        first = [next(row for row in rows if int(group[row]) == code) for code in asked]
        columns = replica_columns(search_result.space.take(np.array(first, dtype=np.intp)))
        for position, (code, row) in enumerate(zip(asked, first, strict=True)):
            book[code] = confirm(search_result.wish, columns.take(np.array([position])), replicas=search_result.sizing_of(row))
        search_result = with_confirmed(search_result, group, book)
        ranking = rank(search_result, top=confirmed)
    return search_result, ranking if confirmed == top else rank(search_result, top=top)


def groups_of(search_result: ServingResult) -> NDArray[np.intp]:
    """A number for each candidate; those whose times cannot differ share it. Candidates that
    do not fit have -1."""
    usable = np.flatnonzero(search_result.space.fits)
    out = np.full(len(search_result.space), -1, dtype=np.intp)
    out[usable] = distinct_candidates(search_result.space, usable)[1]
    return out


def confirm(wish: ServingRequest, columns: ReplicaColumns, *, replicas: float) -> Queued:
    """The fewest replicas of one candidate that keep the limits by the queue model, found from
    those of the quick law; infinite where none do."""
    here = queued(wish, columns, replicas=replicas)
    if here.excess > 1.0:
        return _more(wish, columns, here)
    while here.replicas > 1 and (here.excess < SPACIOUS or here.replicas <= FEW) and not wish.users:
        fewer = queued(wish, columns, replicas=here.replicas - 1.0)
        if fewer.excess > 1.0:
            break
        here = fewer
    return here


def _more(wish: ServingRequest, columns: ReplicaColumns, here: Queued) -> Queued:
    """More replicas until the limits hold: by one where there are few, by a tenth where there are
    many; none where a lone request breaks them."""
    alone = queued(wish, columns, replicas=wish.rate_per_s / max(LEAST_LOAD * here.capacity_per_s, 1e-12))
    if alone.excess > 1.0:
        return dataclasses.replace(alone, replicas=math.inf)
    low, high = here.replicas, math.inf
    step = 1.0
    while not math.isfinite(high):
        tried = low + max(step, math.floor(0.1 * low))
        here = queued(wish, columns, replicas=tried)
        low, high, step = (tried, high, 2.0 * step) if here.excess > 1.0 else (low, tried, step)
    best = here
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        here = queued(wish, columns, replicas=middle)
        low, high, best = (middle, high, best) if here.excess > 1.0 else (low, middle, here)
    return best


def queued(wish: ServingRequest, columns: ReplicaColumns, *, replicas: float) -> Queued:
    """Percentiles of one candidate when the load is shared by so many replicas at random; `excess`:
    the worst figure over its limit."""
    assert wish.load is not None
    load = wish.load.columns(np.array([wish.rate_per_s / replicas]))
    shares = np.array(tuple(dict.fromkeys((*PERCENTILES, wish.limits.percentile))))
    known = _KNOWN.of(lambda: _queue(columns, load, shares), columns, load, shares)
    limits = {name: getattr(wish.limits, name) for name in METRICS}
    excess = math.inf
    if known.values:
        excess = max(known.values[f"{name}@{wish.limits.percentile:g}"] / limit for name, limit in limits.items())
    return dataclasses.replace(known, replicas=replicas, excess=excess)


def _queue(columns: ReplicaColumns, load: LoadColumns, shares: Array) -> Queued:
    """The queue at one replica, whatever the limits; no figures where the load is too much whatever
    its percentiles are."""
    means = steady(columns, load)
    utilisation = float(means.load[0])
    values = {}
    if not utilisation > float(usual()["most_utilisation"]) * (1.0 + 1e-9):
        found = waiting.latency(columns, load, shares=shares, means=means)
        values = {
            f"{name}@{share:g}": float(getattr(found, name)[0, place]) for name in METRICS for place, share in enumerate(shares.tolist())
        }
    return Queued(1.0, values, float(means.capacity_per_s[0]), float(means.batch[0]), utilisation, math.inf)


def with_confirmed(search_result: ServingResult, group: NDArray[np.intp], book: Mapping[int, Queued]) -> ServingResult:
    """The search with the replicas of `book` (by group) in place of the quick law's: sized,
    priced and judged again."""
    rows = {int(row): book[int(group[row])] for row in np.flatnonzero(np.isin(group, list(book)))}
    able = search_result.capacity
    changed: dict[str, Array] = {
        name: getattr(able, name).copy() for name in ("rate_per_s", "saturation_per_s", *(f"alone_{name}" for name in METRICS))
    }
    for row, known in rows.items():
        usable = math.isfinite(known.replicas)
        changed["rate_per_s"][row] = search_result.wish.rate_per_s / known.replicas if usable else 0.0
        changed["saturation_per_s"][row] = known.capacity_per_s
        if not usable:
            for name in METRICS:
                changed[f"alone_{name}"][row] = known.values[f"{name}@{search_result.wish.limits.percentile:g}"]
    able = dataclasses.replace(able, **changed)
    wish, num_columns = search_result.wish, len(search_result.formats)
    sizing = size(wish, search_result.fleet, search_result.space, search_result.grid, able, search_result.column, num_columns=num_columns)
    rows |= _on_full_servers(search_result, sizing, rows)
    sizing = dataclasses.replace(sizing, latency_s=_queued_latency(sizing, rows, percentile=wish.limits.percentile))
    kept = {row: known for row, known in rows.items() if math.isfinite(known.replicas)}
    dropped = {row: known for row, known in rows.items() if not math.isfinite(known.replicas)}
    return dataclasses.replace(rejudged(search_result, sizing, able=able), confirmed=Confirmed(kept, dropped))


def _on_full_servers(search_result: ServingResult, sizing: Sizing, rows: Mapping[int, Queued]) -> dict[int, Queued]:
    """The queue at as many replicas as the rented servers hold, where those are more than the
    limits need."""
    filled = {int(row): float(count) for row, count in zip(sizing.row.ravel(), sizing.replicas.ravel(), strict=True)}
    more = {row: filled[row] for row, known in rows.items() if known.replicas < filled.get(row, 0.0) < math.inf}
    columns = replica_columns(search_result.space.take(np.array(list(more), dtype=np.intp))) if more else None
    return {
        row: queued(search_result.wish, columns.take(np.array([position])), replicas=count)
        for position, (row, count) in enumerate(more.items())
        if columns is not None
    }


def _queued_latency(sizing: Sizing, rows: Mapping[int, Queued], *, percentile: float) -> Array:
    """Latency under the load by (machine class, format): the queue model's where it is known."""
    latency = sizing.latency_s.copy()
    for place in zip(*np.nonzero(np.isin(sizing.row, list(rows))), strict=True):
        latency[place] = rows[int(sizing.row[place])].values.get(f"latency_s@{percentile:g}", latency[place])
    return latency


def queue_values(
    search_result: ServingResult, candidates: list[int], values: Mapping[str, Array], batch: Array
) -> tuple[dict[str, Array], Array]:
    """Figures and sequences in flight by the queue model for those candidates that were confirmed;
    of the rest the quick law's, which are given."""
    out = {name: np.array(column, dtype=np.float64) for name, column in values.items()}
    running = np.array(batch, dtype=np.float64)
    for position, row in enumerate(candidates):
        known = search_result.confirmed.kept.get(row)
        if known is None:
            continue
        running[position] = max(known.batch, 1e-9)
        for name in out.keys() & known.values.keys():
            out[name][position] = known.values[name]
    return out, running
