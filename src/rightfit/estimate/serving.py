"""How fast and how large a served model is: latency, throughput and memory of each row from the physics and its coefficients."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimate.serving_cases import engine_classes, engine_parents, family_names, format_names
from rightfit.physics import decode, prefill, serving_memory
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Load, ServeColumns, ServeRates, ServingCounter

LINKS = ("none", "pcie", "nvlink", "switch")

#: Which columns of a row choose each coefficient; the values of several are multiplied, `default` stands in for a missing one.
BY_FAMILY = (
    "stream_fraction",
    "stream_ramp_bytes",
    "attention_stream",
    "gemm_fraction",
    "flash_fraction",
    "dequantise_rate",
    "joules_per_flop",
)
BY_ENGINE = (
    "kernel_quality",
    "gemm_quality",
    "gemm_ramp",
    "launch_s",
    "layer_s",
    "step_s",
    "sequence_s",
    "request_s",
    "prompt_token_s",
    "mla_layer_s",
    "moe_layer_s",
    "linear_layer_s",
    "cache_passes",
    "repeat_passes",
    "moe_launch_s",
    "prefill_launch_s",
    "moe_prefill_launch_s",
    "ungraphed_s",
    "half_accumulation",
    "pipeline_loss",
    "tensor_launch",
    "pass_bytes",
    "interference",
    "burst",
)
BY_LINK = ("all_reduce_s", "link_fraction")
GLOBAL = ("expert_skew", "grouped_gemm", "expert_ramp", "desktop_host", "socket_crossing", "host_staging", "index_layer_s")


@dataclasses.dataclass(frozen=True, slots=True)
class ServingTimes:
    """Seconds and rates of each row. `batch` is the number of sequences that decode together; `tpot_s` includes prompts of others."""

    batch: Array
    step_s: Array
    prompt_s: Array
    ttft_s: Array
    tpot_s: Array
    latency_s: Array
    requests_per_s: Array
    saturated: NDArray[np.bool_]
    decode_terms: Mapping[str, Array]


def serving_rates(serve: ServeColumns, links: LinkColumns, values: Mapping[str, float] | None = None) -> ServeRates:
    """Coefficients of each row from facts/data/coefficients/serving.toml, or from `values`."""
    source = facts.coefficients("serving") if values is None else values
    family, engine, weights = (column.astype(np.intp) for column in (serve.family, serve.engine, serve.weight_format))
    kind = np.broadcast_to(links.intra_kind, np.broadcast_shapes(links.intra_kind.shape, engine.shape)).astype(np.intp)
    columns = {name: _table(source, name, family_names())[family] for name in BY_FAMILY}
    columns |= {name: _table(source, name, engine_classes())[engine] for name in BY_ENGINE}
    columns |= {name: _table(source, name, LINKS)[kind] for name in BY_LINK}
    columns |= {name: np.array([source[name]]) for name in GLOBAL}
    columns["attention_stream"] = columns["attention_stream"] * _table(source, "attention_quality", engine_classes())[engine]
    columns["flash_fraction"] = columns["flash_fraction"] * _table(source, "flash_quality", engine_classes())[engine]
    columns["all_reduce_s"] = columns["all_reduce_s"] * _table(source, "all_reduce_quality", engine_classes())[engine]
    for name in ("format_stream", "format_gemm", "format_launch"):
        columns[name] = _pairs(source, name, format_names())[weights, engine]
    for name, field in (("port_stream", "kernel_quality"), ("port_gemm", "gemm_quality"), ("port_stream", "attention_stream")):
        columns[field] = columns[field] * _pairs(source, name, family_names())[family, engine]
    columns["layer_s"] = columns["layer_s"] * _pairs(source, "port_layer", family_names())[family, engine]
    columns["all_reduce_s"] = columns["all_reduce_s"] * _pairs(source, "port_reduce", family_names())[family, engine]
    columns["repeat_passes"] = columns["repeat_passes"] + _pairs(source, "port_repeat", family_names(), absent=0.0)[family, engine]
    return ServeRates(**columns)


def _table(source: Mapping[str, float], name: str, keys: tuple[str, ...]) -> Array:
    """A coefficient for each key: its own value, that of its parent class, or the default."""
    default = source.get(f"{name}.default", np.nan)
    return np.array([next((source[f"{name}.{key}"] for key in _ancestors(first) if f"{name}.{key}" in source), default) for first in keys])


@functools.cache
def _ancestors(key: str) -> tuple[str, ...]:
    parent = engine_parents().get(key, "")
    return (key, *_ancestors(parent)) if parent else (key,)


def _pairs(source: Mapping[str, float], name: str, rows: tuple[str, ...], *, absent: float = 1.0) -> Array:
    """Coefficient by row key and engine class: the pair's own value, that of a parent class, else the row's, else `absent`."""
    named = {key.split(".")[1] for key in source if key.startswith(f"{name}.")}
    engines = engine_classes()
    others = [absent] * len(engines)  # most rows have no value of their own
    found = [[_pair(source, f"{name}.{row}", engine, absent) for engine in engines] if row in named else others for row in rows]
    return np.array(found, dtype=np.float64)


def _pair(source: Mapping[str, float], name: str, engine: str, absent: float) -> float:
    own = (source[f"{name}.{key}"] for key in _ancestors(engine) if f"{name}.{key}" in source)
    return next(own, source.get(name, absent))


_MOST_KNOWN = 16
_ONE = np.ones(1)


class _Physics:
    """The physics of one set of rows, callable for any batch."""

    def __init__(self, model: ModelColumns, serve: ServeColumns, device: DeviceColumns, links: LinkColumns, rates: ServeRates) -> None:
        self.model, self.serve, self.device, self.links, self.rates = model, serve, device, links, rates
        self._known: dict[tuple[str, int], tuple[Array, Any]] = {}

    def _once(self, name: str, argument: Array, work: Callable[[Array], Any]) -> Any:
        """A result of an array that was asked for before: batches stay the same through the parts of one answer."""
        key = (name, id(argument))
        known = self._known.get(key)
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = (argument, work(argument))
        return known[1]

    def take(self, index: NDArray[np.intp]) -> _Physics:
        """Rows `index`."""
        return _Physics(*(part.take(index) for part in (self.model, self.serve, self.device, self.links, self.rates)))  # type: ignore[arg-type]

    def decode_terms(self, batch: Array) -> decode.DecodeTimes:
        """Terms of a step of `batch` sequences."""
        return cast("decode.DecodeTimes", self._once("decode_terms", batch, self._decode_terms))

    def _decode_terms(self, batch: Array) -> decode.DecodeTimes:
        context = self.serve.input_tokens + self.serve.output_tokens / 2.0
        # A cache of fixed size that a static graph reads whole.
        return decode.decode_times(
            self.model, self.serve, self.device, self.links, self.rates, batch=batch, context=np.maximum(context, 1.0)
        )

    def step_s(self, batch: Array) -> Array:
        """Time of a step of `batch` sequences."""
        return cast(
            "Array", self._once("step_s", batch, lambda own: decode.step_s(self.decode_terms(own), self.model, self.serve, self.rates))
        )

    def prompt_s(self, sequences: Array) -> Array:
        """Time of a pass of so many prompts."""
        return cast("Array", self._once("prompt_s", sequences, self._prompt_s))

    def _prompt_s(self, sequences: Array) -> Array:
        times = prefill.prefill_times(
            self.model,
            self.serve,
            self.device,
            self.links,
            self.rates,
            prompt=np.maximum(self.serve.input_tokens, 1.0),
            sequences=sequences,
        )
        fixed = self.rates.prompt_token_s * self.serve.input_tokens * sequences
        return prefill.prefill_s(times, self.model, self.serve, self.rates) + fixed

    def shared_prompt_s(self, batch: Array) -> Array:
        """Device time of one prompt where as many are treated together as arrive in a step, up to the piece that the engine takes."""
        return cast("Array", self._once("shared_prompt_s", batch, self._shared_prompt_s))

    def _shared_prompt_s(self, batch: Array) -> Array:
        prompt = np.maximum(self.serve.input_tokens, 1.0)
        room = np.where(self.serve.chunk_tokens > 0, np.maximum(self.serve.chunk_tokens / prompt, 1.0), 1.0) * self.serve.attention_data
        # Prompts that come while another is treated go together in the next step.
        passes = np.maximum(self.prompt_s(_ONE) / self.step_s(batch), 1.0)
        arriving = np.where(self.serve.load == Load.OFFLINE, batch, batch / np.maximum(self.serve.output_tokens, 1.0) * passes)
        together = np.clip(arriving, 1.0, room)
        return np.asarray(self.prompt_s(together) / together)

    def request_s(self, batch: Array) -> tuple[Array, Array, Array]:
        """Time to first token without queue, time per token and time of a whole request when `batch` sequences are in flight."""
        step, prompt = self.step_s(batch), self.prompt_s(_ONE)
        serve = self.serve
        # Requests that all come at once have half of the others' prompts behind them when they begin to decode.
        burst = (serve.load == Load.OFFLINE) & (serve.requests > 0) & (serve.requests / serve.data <= batch)
        share = self.rates.interference * np.where(burst, 0.5, 1.0)
        others = share * np.maximum(batch - 1.0, 0.0) * self.shared_prompt_s(batch) / np.maximum(serve.output_tokens, 1.0)
        tpot = step + others
        ttft = self.rates.request_s + prompt
        return ttft, tpot, ttft + np.maximum(serve.output_tokens - 1.0, 0.0) * tpot


def serving_columns(
    model: ModelColumns,
    serve: ServeColumns,
    device: DeviceColumns,
    links: LinkColumns,
    *,
    values: Mapping[str, float] | None = None,
) -> ServingTimes:
    """Latency and throughput of each row under its load."""
    shape = np.broadcast_shapes((model.num_rows,), (serve.num_rows,), (device.num_rows,), (links.num_rows,))
    rates = decode.on_host(serving_rates(serve, links, values), device)
    physics = _Physics(model, serve, device, links, rates)
    limit = serving_memory.max_sequences(model, serve, device, overhead_bytes=overhead_bytes(serve, values))
    batch, saturated = _batch(physics, limit)
    terms = physics.decode_terms(batch)
    step = physics.step_s(batch)
    static = serve.load == Load.STATIC
    prompt = physics.prompt_s(np.where(static, batch, 1.0) if np.any(static) else _ONE)
    ttft, tpot, latency = physics.request_s(batch)
    waiting = _waiting(physics, batch, latency)
    ttft = np.where(static, rates.request_s + prompt, ttft + waiting)
    tpot = np.where(static, step, tpot)
    decoding = np.maximum(serve.output_tokens - 1.0, 0.0) * tpot
    # A fixed batch that does not fit is treated in rounds.
    rounds = np.where(static, np.maximum(serve.batch / serve.data, 1.0) / batch, 1.0)
    one_round = ttft + decoding
    ttft = ttft + (rounds - 1.0) / 2.0 * one_round
    latency = one_round * rounds
    rate = _requests_per_s(physics, batch, saturated, latency=latency, decoding=decoding) * serve.data
    names = [field.name for field in dataclasses.fields(terms)]
    shares = {name: np.broadcast_to(getattr(terms, name), shape) for name in names}
    return ServingTimes(
        batch=np.broadcast_to(batch, shape),
        step_s=np.broadcast_to(step, shape),
        prompt_s=np.broadcast_to(prompt, shape),
        ttft_s=np.broadcast_to(ttft, shape),
        tpot_s=np.broadcast_to(tpot, shape),
        latency_s=np.broadcast_to(latency, shape),
        requests_per_s=np.broadcast_to(rate, shape),
        saturated=np.broadcast_to(saturated, shape),
        decode_terms=shares,
    )


def _requests_per_s(physics: _Physics, batch: Array, saturated: NDArray[np.bool_], *, latency: Array, decoding: Array) -> Array:
    """Completed requests per second of one replica: Little's law, over the whole run where the number of requests is known."""
    serve, rates = physics.serve, physics.rates
    steady = batch / (rates.request_s + physics.shared_prompt_s(batch) + decoding)
    requests = np.where(serve.requests > 0, serve.requests / serve.data, np.inf)
    arrivals = np.where(serve.rate > 0, requests * serve.data / np.maximum(serve.rate, 1e-9), 0.0)
    with np.errstate(invalid="ignore"):
        run = np.where(np.isfinite(requests), requests / (arrivals + latency), np.inf)
    opened = np.where(saturated, steady, np.minimum(serve.rate / serve.data, run))
    fixed = np.maximum(serve.batch / serve.data, 1.0) / latency
    return np.select(
        [serve.load == Load.STATIC, serve.load == Load.OPEN],
        [fixed, opened],
        np.minimum(steady, np.where(serve.load == Load.OFFLINE, run, np.inf)),
    )


def _batch(physics: _Physics, limit: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Sequences in flight: what the row states, what fits, or (open load) what Little's law asks for; and whether the load exceeds that."""
    serve = physics.serve
    stated = np.where(serve.batch > 0, serve.batch, limit) / serve.data
    # A measured run did run: where our memory says that it hardly fits, memory is not what limits it.
    capped = np.where(serve.continuous > 0, np.minimum(stated, np.maximum(limit, stated / 8.0)), stated)
    offline = np.minimum(limit, np.where(serve.requests > 0, serve.requests / serve.data, np.inf))
    batch = np.where(serve.load == Load.OFFLINE, np.where(serve.batch > 0, np.minimum(offline, stated), offline), capped)
    if not np.any(serve.load == Load.OPEN):
        return np.maximum(batch, 1.0), np.zeros(batch.shape, dtype=bool)
    shape = np.broadcast_shapes(batch.shape, serve.load.shape, limit.shape)
    is_open = np.broadcast_to(serve.load == Load.OPEN, shape)
    index = np.flatnonzero(is_open)
    batch, saturated = np.array(np.broadcast_to(batch, shape)), np.zeros(shape, dtype=bool)
    batch[index], saturated[index] = _little(physics.take(index), np.broadcast_to(limit, shape)[index])
    return np.maximum(batch, 1.0), saturated


def _little(physics: _Physics, limit: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Solve batch = N x T / (N / rate + T) by bisection in the logarithm: Little's law for N requests, rate x T for endless ones.

    T is the time of a request with that batch. Beyond `limit` the system saturates.
    """
    serve = physics.serve
    rate = serve.rate / serve.data
    total = np.where(serve.requests > 0, serve.requests / serve.data, 1e12)

    def wanted(batch: Array) -> Array:
        seconds = physics.request_s(np.maximum(batch, 1.0))[2]
        return np.asarray(total * seconds / (total / rate + seconds))

    high = np.maximum(limit, 1.0) * np.ones_like(rate)
    saturated = wanted(high) > high
    low, top = np.full_like(high, 1e-3), high.copy()
    for _ in range(18):
        middle = np.sqrt(low * top)
        over = wanted(middle) > middle
        low, top = np.where(over, middle, low), np.where(over, top, middle)
    return np.where(saturated, high, np.sqrt(low * top)), saturated


def _waiting(physics: _Physics, batch: Array, latency: Array) -> Array:
    """Mean wait before a prompt starts.

    Closed load: the step under way and the part of the other users' prompts that arrive together (`burst`). All at once: half of all prompts, and the rounds of
    requests that found no room. Open load: the step under way and the prompts that join the request's own (`_mixed_wait_s`).
    """
    serve, rates = physics.serve, physics.rates
    prompt, step = physics.shared_prompt_s(batch), physics.step_s(batch)
    users = np.where(serve.batch > 0, serve.batch / serve.data, batch)
    closed = np.where(users > 1, step / 2.0, 0.0) + rates.burst * np.maximum(np.minimum(users, batch) - 1.0, 0.0) * prompt
    closed = closed + np.where(users > batch, (users / np.maximum(batch, 1.0) - 1.0) * latency, 0.0)
    requests = np.where(serve.requests > 0, serve.requests / serve.data, batch)
    rounds = np.maximum(requests / np.maximum(batch, 1.0) - 1.0, 0.0) / 2.0
    at_once = np.minimum(requests, batch) * prompt / 2.0 + rounds * latency
    opened = _mixed_wait_s(physics, batch, prompt=prompt, step=step)
    return np.select([serve.load == Load.CLOSED, serve.load == Load.OFFLINE, serve.load == Load.OPEN], [closed, at_once, opened], 0.0)


def _mixed_wait_s(physics: _Physics, batch: Array, *, prompt: Array, step: Array) -> Array:
    """Mean wait of a request that comes at a random moment where steps decode and treat prompts together.

    A step lasts T = step / (1 - load) on average, load = rate x prompt. A request waits for the rest of the step under way, E[T^2] / 2 E[T] (renewal theory),
    and its own step carries the prompts that came meanwhile, load x T, and reads the cache of those that decode.
    """
    rate = physics.serve.rate / physics.serve.data
    load = np.clip(rate * prompt, 0.0, 0.98)
    mean = step / (1.0 - load)
    with_prompt = np.clip(rate * mean, 0.0, 1.0)
    square = (1.0 - with_prompt) * step**2 + with_prompt * (step + prompt) ** 2
    busy = 1.0 - np.exp(-batch)
    return np.asarray(busy * (square / (2.0 * np.maximum(mean, 1e-12)) + physics.decode_terms(batch).attention) + load * mean)


def overhead_bytes(serve: ServeColumns, values: Mapping[str, float] | None = None) -> Array:
    """What an engine holds beside tensors [bytes per device]: context, libraries, CUDA graphs, communication buffers."""
    source = facts.coefficients("serving") if values is None else values
    engine = serve.engine.astype(np.intp)
    alone = _table(source, "context_bytes", engine_classes())[engine]
    return alone + np.where(serve.tensor > 1, _table(source, "group_bytes", engine_classes())[engine], 0.0)


def peak_memory_bytes(
    model: ModelColumns, serve: ServeColumns, device: DeviceColumns, values: Mapping[str, float] | None = None
) -> dict[str, Array]:
    """Memory at the peak by term [bytes], of the devices that the row's counter covers."""
    source = facts.coefficients("serving") if values is None else values
    engine = serve.engine.astype(np.intp)
    together = (serve.counter == ServingCounter.TENSORS_ALL) | (serve.counter == ServingCounter.DRIVER_ALL)
    driver = (serve.counter == ServingCounter.DRIVER_ONE) | (serve.counter == ServingCounter.DRIVER_ALL)
    devices = serve.tensor * serve.pipeline
    share = np.where(together, 1.0, devices)
    reserved = serve.cache_tokens > 0
    tokens = np.where(reserved, serve.cache_tokens, serve.input_tokens + serve.output_tokens)
    cache = serve.batch * serving_memory.kv_cache_bytes(model, serve, tokens=tokens) / share
    growth = _table(source, "cache_growth", engine_classes())[engine] * np.where(
        driver, _table(source, "cache_reserved", engine_classes())[engine], 1.0
    )
    prompt = np.minimum(serve.batch * np.maximum(serve.input_tokens, 1.0), np.where(serve.chunk_tokens > 0, serve.chunk_tokens, np.inf))
    block = _table(source, "workspace_factor", engine_classes())[engine]
    workspace = serving_memory.prompt_workspace_bytes(model, serve, tokens=prompt, sequences=serve.batch, block_share=block)
    heads = serve.head_copies * model.vocab_size * model.hidden_size * serve.other_bytes
    fixed = np.where(driver, overhead_bytes(serve, values), _table(source, "workspace_bytes", engine_classes())[engine])
    return {
        "weights": (serving_memory.weights_bytes(model, serve) * serve.weight_copies + heads) / share,
        "kv_cache": cache * np.where(reserved, 1.0, growth),
        "workspace": workspace,
        "context": fixed * np.where(together, devices, 1.0),
    }


def metric_values(serve: ServeColumns, times: ServingTimes) -> dict[str, Array]:
    """Every serving metric in its unit, from the times."""
    prompt, output = serve.input_tokens, np.maximum(serve.output_tokens, 1.0)
    rate = times.requests_per_s
    single = np.where(serve.load == Load.STATIC, np.maximum(times.batch, 1.0), 1.0)
    return {
        "decode_tok_per_s_single": 1.0 / times.tpot_s,
        "tpot_ms": times.tpot_s * 1e3,
        "ttft_ms": times.ttft_s * 1e3,
        "prefill_tok_per_s": single * np.maximum(prompt, 1.0) / times.prompt_s,
        "output_tok_per_s_total": rate * output,
        "total_tok_per_s": rate * (output + prompt),
        "latency_ms": times.latency_s * 1e3,
        "req_per_s": rate,
    }
