"""Replicas as the queue model and the simulation see them: step times as a table, taken from the serving physics of each candidate."""

from __future__ import annotations

import dataclasses

import numpy as np

from rightfit.estimate.serving import overhead_bytes, serving_rates
from rightfit.physics import decode, prefill, serving_memory
from rightfit.physics.columns import Array
from rightfit.physics.replicas import ReplicaColumns
from rightfit.search.serving_space import ServingSpace, stretched

SEQUENCES = np.concatenate([2.0 ** np.arange(11), [2048.0]])
PROMPT_TOKENS = np.array([64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0])
CONTEXTS = (64.0, 4096.0)
PROBE_BATCH = 32.0


def replica_columns(space: ServingSpace) -> ReplicaColumns:
    """One row a candidate. Attention is linear in the tokens read (decode) and in the pairs (prompt); all else is in the tables.

    Sequences beside a prompt wait for it as the search has it: a step costs its decoding and `interference` times the prompt's pass.
    """
    rows = len(space)
    serve = stretched(space.serve, rows)
    space = dataclasses.replace(space, serve=serve)
    rates = serving_rates(serve, space.links)
    steps = np.stack([_decode_s(space, tokens, CONTEXTS[0]) for tokens in SEQUENCES], axis=1)
    table = np.maximum.accumulate(np.concatenate([steps[:, :1], steps], axis=1), axis=1)
    alone, pairs = zip(*(_prompt_s(space, tokens) for tokens in PROMPT_TOKENS), strict=True)
    prompts = np.maximum.accumulate(np.stack([alone[0], *alone], axis=1), axis=1)
    low, high = (_decode_s(space, PROBE_BATCH, context) for context in CONTEXTS)
    block = serving_memory.kv_bytes_per_device(space.model, serve, tokens=serve.input_tokens + serve.output_tokens)
    room = serving_memory.kv_room_bytes(space.model, serve, space.device, overhead_bytes=overhead_bytes(serve))
    per_token = block / np.maximum(serve.input_tokens + serve.output_tokens, 1.0)
    return ReplicaColumns(
        table_tokens=np.concatenate([[0.0], SEQUENCES]),
        table_s=table,
        prompt_tokens=np.concatenate([[0.0], PROMPT_TOKENS]),
        prompt_s=prompts,
        stall=np.broadcast_to(rates.interference, (rows,)) * 1.0,
        empty_s=table[:, 0],
        cache_token_s=np.maximum(high - low, 0.0) / (PROBE_BATCH * (CONTEXTS[1] - CONTEXTS[0])),
        prompt_pair_s=np.broadcast_to(pairs[-1], (rows,)) * 1.0,
        request_s=np.broadcast_to(rates.request_s, (rows,)) * 1.0,
        max_batch=np.broadcast_to(serve.max_batch, (rows,)) * 1.0,
        chunk_tokens=np.broadcast_to(serve.chunk_tokens, (rows,)) * 1.0,
        cache_tokens=np.broadcast_to(room / np.maximum(per_token, 1e-9), (rows,)) * 1.0,
        cache_reserve=np.broadcast_to(serve.kv_reserve, (rows,)) * 1.0,
    )


def _decode_s(space: ServingSpace, batch: float, context: float) -> Array:
    rates = serving_rates(space.serve, space.links)
    terms = decode.decode_times(
        space.model, space.serve, space.device, space.links, rates, batch=np.full(1, batch), context=np.full(1, context)
    )
    return np.broadcast_to(decode.step_s(terms, space.model, space.serve, rates), (len(space),))


def _prompt_s(space: ServingSpace, tokens: float) -> tuple[Array, Array]:
    """Seconds of a pass over `tokens` of a prompt without attention, and of attention per pair."""
    rates = serving_rates(space.serve, space.links)
    times = prefill.prefill_times(
        space.model, space.serve, space.device, space.links, rates, prompt=np.full(1, tokens), sequences=np.ones(1)
    )
    whole = prefill.prefill_s(times, space.model, space.serve, rates) + rates.prompt_token_s * tokens
    shape = (len(space),)
    attention = np.broadcast_to(times.attention, shape)
    return np.broadcast_to(whole, shape) - attention, attention / (tokens**2 / 2.0)
