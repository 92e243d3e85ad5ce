"""How long a request waits before its prompt starts, on average or at a quantile, by how requests come.

Source: docs/decisions/serving-load.md; docs/decisions/kernels-and-loads.md for quantiles.
"""

from __future__ import annotations

import numpy as np

from rightfit.estimate.serving_physics import ServingPhysics
from rightfit.physics import latency_quantiles as quantiles
from rightfit.physics.columns import Array
from rightfit.physics.serving_columns import Load


def waiting_s(physics: ServingPhysics, batch: Array, latency: Array) -> Array:
    """Wait before a prompt starts: the mean, or the quantile that is asked for.

    Closed load: the step under way and the part of the other users' prompts that arrive together (`burst`). All at once: half of all prompts, and the
    rounds of requests that found no room. Open load: the step under way and the prompts that join the request's own (`_mixed_wait_s`).
    """
    serve, rates = physics.serve, physics.rates
    prompt, step = physics.shared_prompt_s(batch), physics.step_s(batch)
    users = np.where(serve.batch > 0, serve.batch / serve.data, batch)
    others = np.maximum(np.minimum(users, batch) - 1.0, 0.0) * prompt
    closed = np.where(users > 1, quantiles.of_step(step, serve.quantile), 0.0) + quantiles.of_first_wave(
        others, rates.burst, serve.quantile
    )
    closed = closed + np.where(users > batch, (users / np.maximum(batch, 1.0) - 1.0) * latency, 0.0)
    requests = np.where(serve.requests > 0, serve.requests / serve.data, batch)
    rounds = np.maximum(requests / np.maximum(batch, 1.0) - 1.0, 0.0) / 2.0
    at_once = quantiles.of_queue(np.minimum(requests, batch) * prompt / 2.0 + rounds * latency, serve.quantile)
    opened = quantiles.of_wait(_mixed_wait_s(physics, batch, prompt=prompt, step=step), serve.quantile)
    return np.select([serve.load == Load.CLOSED, serve.load == Load.OFFLINE, serve.load == Load.OPEN], [closed, at_once, opened], 0.0)


def _mixed_wait_s(physics: ServingPhysics, batch: Array, *, prompt: Array, step: Array) -> Array:
    """Mean wait of a request that comes at a random moment where steps decode and treat prompts together.

    A step lasts T = step / (1 - load) on average, load = rate x prompt. A request waits for the rest of the step under way, E[T^2] / 2 E[T]
    (renewal theory),
    and its own step carries the prompts that came meanwhile, load x T, and reads the cache of those that decode.
    """
    rate = physics.serve.rate / physics.serve.data
    load = np.clip(rate * prompt, 0.0, 0.98)
    mean = step / (1.0 - load)
    with_prompt = np.clip(rate * mean, 0.0, 1.0)
    square = (1.0 - with_prompt) * step**2 + with_prompt * (step + prompt) ** 2
    busy = 1.0 - np.exp(-batch)
    return np.asarray(busy * (square / (2.0 * np.maximum(mean, 1e-12)) + physics.decode_terms(batch).attention) + load * mean)


def token_s(physics: ServingPhysics, batch: Array, tpot: Array) -> Array:
    """Time per token: the mean, or the quantile of requests where prompts of others interrupt the answers."""
    several = (physics.serve.load == Load.CLOSED) | (physics.serve.load == Load.OPEN)
    own = quantiles.of_interruptions(tpot, physics.step_s(batch), batch, physics.serve.quantile)
    return np.where(several, own, tpot)
