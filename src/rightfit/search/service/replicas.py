"""Replicas as the queue model and the simulation see them: step times as a table, taken from the serving physics of each candidate."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.estimate.serving import serving_rates
from rightfit.estimate.serving_extras import cache_share, more_prompt_s, token_step_s
from rightfit.physics import decode, prefill, serving_memory
from rightfit.physics.columns import Array
from rightfit.physics.replicas import ReplicaColumns
from rightfit.physics.serving_columns import ServeRates
from rightfit.search.service.space import ServingSpace, stretched

SEQUENCES = np.concatenate([2.0 ** np.arange(11), [2048.0]])
PROMPT_TOKENS = np.array([64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0])
CONTEXTS = (64.0, 4096.0)
PROBE_BATCH = 32.0


def replica_columns(space: ServingSpace) -> ReplicaColumns:
    """One row a candidate. Attention is linear in the tokens read (decode) and in the pairs (prompt); all else is in the tables.

    Sequences beside a prompt wait for it as the search has it: a step costs its decoding and `interference` times the prompt's pass.
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
    block = serving_memory.kv_bytes_per_device(space.model, space.serve, tokens=space.serve.input_tokens + space.serve.output_tokens)
    room = serving_memory.kv_room_bytes(
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
    """Model, serve, device, links and rates with each row repeated for so many points, and the shape of (rows, points)."""
    shape = (len(space), points)
    index = np.repeat(np.arange(len(space)), points)
    parts = (space.serve, space.device, space.links, rates)
    return (space.model, *(part.take(index) for part in parts)), shape


def _decode_s(space: ServingSpace, rates: ServeRates, *, batch: Array, context: Array) -> Array:
    """Seconds of a step (N, points) with `batch` sequences of `context` tokens."""
    (model, serve, device, links, repeated), shape = _repeated(space, rates, batch.size)
    load = {"batch": np.tile(batch, shape[0]), "context": np.tile(context, shape[0])}
    if space.extras:
        return token_step_s(space.extras, model, serve, device, links, repeated, **load).reshape(shape)
    terms = decode.decode_times(model, serve, device, links, repeated, **load)
    return np.broadcast_to(decode.step_s(terms, model, serve, repeated), (shape[0] * shape[1],)).reshape(shape)


def _prompt_s(space: ServingSpace, rates: ServeRates, *, tokens: Array) -> tuple[Array, Array]:
    """Seconds of a pass over `tokens` of a prompt without attention (N, points), and of attention per pair (N,)."""
    (model, serve, device, links, repeated), shape = _repeated(space, rates, tokens.size)
    prompt = np.tile(tokens, shape[0])
    times = prefill.prefill_times(model, serve, device, links, repeated, prompt=prompt, sequences=np.ones(1))
    whole = prefill.prefill_s(times, model, serve, repeated) + repeated.prompt_token_s * prompt
    if space.extras:
        whole = whole + more_prompt_s(space.extras, model, serve, device, links, repeated, prompt=prompt)
    attention = np.broadcast_to(times.attention, prompt.shape).reshape(shape)
    return np.broadcast_to(whole, prompt.shape).reshape(shape) - attention, attention[:, -1] / (tokens[-1] ** 2 / 2.0)
