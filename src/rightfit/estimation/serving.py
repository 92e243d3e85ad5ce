"""How fast and how large a served model is: latency, throughput and memory of each row from the
physics and its coefficients."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.serving_steps import ServingPhysics, token_s, waiting_s
from rightfit.facts.engines import engine_classes, engine_parents, family_names, format_names
from rightfit.facts.tables import constants
from rightfit.physics import decode, serving_columns, transformer, waiting
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import (
    Load,
    ServeColumns,
    ServeRates,
    ServingCounter,
    kv_bytes_per_device,
    kv_cache_bytes,
    max_sequences,
    prompt_workspace_bytes,
    reserved_bytes,
    usable_bytes,
    visible_bytes,
    weights_bytes,
    weights_bytes_per_device,
)
from rightfit.physics.waiting import of_queue
from rightfit.records import dataclass

_ONE = np.ones(1)
#: Steps of a bisection over the logarithm of a number of sequences.
_HALVINGS = 18

LINKS = ("none", "pcie", "nvlink", "switch")

#: Which columns of a row choose each coefficient; the values of several are multiplied, `default`
#: stands in for a missing one.
BY_FAMILY = (
    "stream_fraction",
    "stream_ramp_s",
    "attention_stream",
    "gemm_fraction",
    "flash_fraction",
    "dequantise_rate",
    "joules_per_flop",
)
BY_LINK = ("all_reduce_s", "link_fraction")
GLOBAL = (
    "expert_skew",
    "expert_ramp",
    "desktop_host",
    "socket_crossing",
    "host_staging",
    "index_layer_s",
    "longest_answer",
)
OPERATOR_FIELDS = ("sharpness", "fp32_ratio", "vector_ratio", "score_bytes")
BY_FORMAT = ("format_stream", "format_gemm", "format_launch")
_OTHERWISE = frozenset((*BY_FAMILY, *BY_LINK, *GLOBAL, *OPERATOR_FIELDS, *BY_FORMAT))
BY_ENGINE = tuple(field.name for field in dataclasses.fields(ServeRates) if field.name not in _OTHERWISE)


@dataclass(frozen=True, slots=True)
class ServingTimes:
    """Seconds and rates of each row. `batch` is the number of sequences that decode together;
    `tpot_s` includes prompts of others."""

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
    tables = _own_tables() if values is None else _tables(values)
    family, engine, weights = (column.astype(np.intp) for column in (serve.family, serve.engine, serve.weight_format))
    kind = np.broadcast_to(links.intra_kind, np.broadcast_shapes(links.intra_kind.shape, engine.shape)).astype(np.intp)
    row_of = dict.fromkeys(BY_FAMILY, family) | dict.fromkeys((*BY_ENGINE, *_QUALITIES), engine) | dict.fromkeys(BY_LINK, kind)
    columns = {name: table[row_of[name]] for name, table in tables.items() if name in row_of}
    columns |= {name: tables[name] for name in GLOBAL}
    columns |= {name: np.array([facts.coefficients("operators")[name]]) for name in OPERATOR_FIELDS}
    for name, field in _QUALITIES.items():
        columns[field] = columns[field] * columns.pop(name)
    for name in BY_FORMAT:
        columns[name] = tables[name][weights, engine]
    for field, names in _PORTS.items():
        for name in names:
            columns[field] = columns[field] * tables[name][family, engine]
    ranks = np.maximum(serve.tensor * serve.attention_data, 1.0)
    columns["request_s"] = columns["request_s"] + tables[_BY_RANKS][engine] * np.log2(ranks)
    columns["repeat_passes"] = columns["repeat_passes"] + tables["port_repeat"][family, engine]
    return ServeRates(**columns)


#: What the first token of a request takes longer for each doubling of the ranks that share a layer.
_BY_RANKS = "group_request_s"
#: Factors of an engine, by the column that they change.
_QUALITIES = {"attention_quality": "attention_stream", "flash_quality": "flash_fraction", "all_reduce_quality": "all_reduce_s"}
#: Factors of an engine on a family of cards, by the column that they change.
_PORTS = {
    "kernel_quality": ("port_stream",),
    "gemm_quality": ("port_gemm",),
    "attention_stream": ("port_stream",),
    "layer_s": ("port_layer",),
    "all_reduce_s": ("port_reduce",),
}


@functools.cache
def _own_tables() -> Mapping[str, Array]:
    return _tables(facts.coefficients("serving"))


def _tables(source: Mapping[str, float]) -> Mapping[str, Array]:
    """Coefficients by name: of each family, engine class or link, and those of pairs with the
    engine class second."""
    one = {
        **dict.fromkeys(BY_FAMILY, family_names()),
        **dict.fromkeys((*BY_ENGINE, *_QUALITIES, _BY_RANKS), engine_classes()),
        **dict.fromkeys(BY_LINK, LINKS),
    }
    tables = {name: _table(source, name, keys) for name, keys in one.items()}
    tables |= {name: np.array([source[name]]) for name in GLOBAL}
    tables |= {name: _pairs(source, name, format_names()) for name in BY_FORMAT}
    tables |= {name: _pairs(source, name, family_names()) for name in sorted({name for names in _PORTS.values() for name in names})}
    return tables | {"port_repeat": _pairs(source, "port_repeat", family_names(), absent=0.0)}


def _table(source: Mapping[str, float], name: str, keys: tuple[str, ...]) -> Array:
    """A coefficient for each key: its own value, that of its parent class, or the default."""
    default = source.get(f"{name}.default", np.nan)
    return np.array([next((source[f"{name}.{key}"] for key in _ancestors(first) if f"{name}.{key}" in source), default) for first in keys])


@functools.cache
def _ancestors(key: str) -> tuple[str, ...]:
    parent = engine_parents().get(key, "")
    return (key, *_ancestors(parent)) if parent else (key,)


def _pairs(source: Mapping[str, float], name: str, rows: tuple[str, ...], *, absent: float = 1.0) -> Array:
    """Coefficient by row key and engine class: the pair's own value, that of a parent class, else
    the row's, else `absent`."""
    named = {key.split(".")[1] for key in source if key.startswith(f"{name}.")}
    engines = engine_classes()
    others = [absent] * len(engines)  # most rows have no value of their own
    found = [[_pair(source, f"{name}.{row}", engine, absent) for engine in engines] if row in named else others for row in rows]
    return np.array(found, dtype=np.float64)


def _pair(source: Mapping[str, float], name: str, engine: str, absent: float) -> float:
    own = (source[f"{name}.{key}"] for key in _ancestors(engine) if f"{name}.{key}" in source)
    return next(own, source.get(name, absent))


def served_columns(
    model: ModelColumns,
    serve: ServeColumns,
    device: DeviceColumns,
    links: LinkColumns,
    *,
    values: Mapping[str, float] | None = None,
) -> ServingTimes:
    """Latency and throughput of each row under its load. Rates follow from mean latencies, whatever
    quantile of latencies is asked for."""
    if not np.any(serve.quantile):
        return _serving_times(model, serve, device, links, values)
    means = _serving_times(model, serve.replace(quantile=np.zeros(1)), device, links, values)
    asked = _serving_times(model, serve, device, links, values)
    return dataclasses.replace(means, ttft_s=asked.ttft_s, tpot_s=asked.tpot_s, latency_s=asked.latency_s)


def _serving_times(
    model: ModelColumns, serve: ServeColumns, device: DeviceColumns, links: LinkColumns, values: Mapping[str, float] | None
) -> ServingTimes:
    shape = np.broadcast_shapes((model.num_rows,), (serve.num_rows,), (device.num_rows,), (links.num_rows,))
    rates = decode.on_host(serving_rates(serve, links, values), device)
    limit = max_sequences(model, serve, device, overhead_bytes=overhead_bytes(serve, values), coefficients=facts.coefficients("operators"))
    physics, saturated = kept_up(ServingPhysics(model, serve, device, links, rates), limit)
    batch, over = _batch(physics, limit)
    saturated, serve = saturated | over, physics.serve
    terms = physics.decode_terms(batch)
    step = physics.step_s(batch)
    static = serve.load == Load.STATIC
    prompt = physics.prompt_s(np.where(static, batch, 1.0) if np.any(static) else _ONE)
    ttft, tpot, latency = physics.request_s(batch)
    waiting = waiting_s(physics, batch, latency)
    ttft = np.where(static, rates.request_s + prompt, ttft + waiting)
    tpot = np.where(static, step, token_s(physics, batch, tpot) if np.any(serve.quantile) else tpot)
    decoding = np.maximum(serve.output_tokens - 1.0, 0.0) * tpot
    # A fixed batch that does not fit is treated in rounds.
    rounds = np.where(static, np.maximum(serve.batch / serve.data, 1.0) / batch, 1.0)
    one_round = ttft + decoding
    ttft = ttft + (rounds - 1.0) / 2.0 * one_round
    latency = one_round * rounds
    rate = _requests_per_s(physics, batch, saturated, latency=latency, decoding=decoding) * serve.data
    ttft, tpot, latency, rate = _finite(physics, batch, limit, (ttft, tpot, latency, rate))
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


def _finite(physics: ServingPhysics, batch: Array, limit: Array, endless: tuple[Array, ...]) -> tuple[Array, ...]:
    """Time to first token, per token and of a request, and requests per second: those of a finite
    run where all requests come at once.

    A request that finds a slot waits for half of the prompts before it; one that does not waits for
    its turn in the full batch as well.
    """
    serve = physics.serve
    finite = (serve.load == Load.OFFLINE) & (serve.requests > 0)
    if not np.any(finite):
        return endless
    shape = np.broadcast_shapes(batch.shape, finite.shape, *(value.shape for value in endless))
    index = np.flatnonzero(np.broadcast_to(finite, shape))
    part = physics.take(index)
    slots = np.broadcast_to(limit, shape)[index]
    requests = part.serve.requests / part.serve.data
    held = np.minimum(requests, slots)
    prompt_s, room = part.rates.interference * part.shared_prompt_s(held), part.room()
    run = waiting.finite_run(
        part.step_s,
        requests=requests,
        slots=slots,
        prompt_s=prompt_s,
        front_s=part.rates.front_s * part.serve.front_end * part.serve.data,
        room=room,
        output=part.serve.output_tokens,
        varied=part.serve.varied_lengths,
        most=float(part.rates.longest_answer[0]),
    )
    queued = held / requests * run.prompts_s / 2.0 + (1.0 - held / requests) * (run.prompts_s + run.full_s) / 2.0
    ttft = part.rates.request_s + of_queue(queued, part.serve.quantile)
    # In the first wave steps are full of prompts; afterwards each answer that ends
    # lets one prompt in.
    first, later = run.stalled * np.minimum(room, held) * prompt_s, held / np.maximum(part.serve.output_tokens, 1.0) * prompt_s
    share = held / requests
    tpot = run.mean_step_s + share * first + (1.0 - share) * later
    latency = ttft + np.maximum(part.serve.output_tokens - 1.0, 0.0) * tpot
    rate = requests / (part.rates.request_s + run.total_s) * part.serve.data
    answers = []
    for whole, found in zip(endless, (ttft, tpot, latency, rate), strict=True):
        mixed = np.array(np.broadcast_to(whole, shape))
        mixed[index] = found
        answers.append(mixed)
    return tuple(answers)


def _requests_per_s(physics: ServingPhysics, batch: Array, saturated: NDArray[np.bool_], *, latency: Array, decoding: Array) -> Array:
    """Completed requests per second of one replica: Little's law, over the whole run where the
    number of requests is known."""
    serve, rates = physics.serve, physics.rates
    steady = batch / (rates.request_s + physics.shared_prompt_s(batch) + decoding)
    steady = np.minimum(steady, _first_token_rate(physics, batch))
    # Short answers leave no steps to hold the prompts of the others, which take their turn anyway.
    steady = np.minimum(steady, 1.0 / np.maximum(rates.interference * physics.shared_prompt_s(batch), 1e-12))
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


def _first_token_rate(physics: ServingPhysics, batch: Array) -> Array:
    """Requests a second at which the mean first token keeps its limit: prompts queue as in M/D/1, u
    P / (2 (1 - u)) <= limit - what no load adds."""
    serve = physics.serve
    if not np.any(serve.first_limit_s):
        return np.full(1, np.inf)
    prompt = physics.shared_prompt_s(batch)
    wait = np.maximum(serve.first_limit_s - physics.request_s(_ONE)[0] - physics.step_s(batch) / 2.0, 0.0)
    return np.where(serve.first_limit_s > 0, 2.0 * wait / (prompt + 2.0 * wait) / prompt, np.inf)


def kept_up(physics: ServingPhysics, limit: Array) -> tuple[ServingPhysics, NDArray[np.bool_]]:
    """The same with the rate of an endless open load held to what the service can keep up with, and
    where it is not: whoever measured latencies without end had no queue without end, so that a rate
    above our capacity says that our capacity is too low."""
    serve = physics.serve
    endless = (serve.load == Load.OPEN) & (serve.requests <= 0)
    if not np.any(endless):
        return physics, np.zeros(np.broadcast_shapes(endless.shape, limit.shape), dtype=bool)
    latency = physics.request_s(limit)[2]
    decoding = latency - physics.rates.request_s - physics.prompt_s(_ONE)
    most = limit / (physics.rates.request_s + physics.shared_prompt_s(limit) + decoding) * serve.data
    over = endless & (serve.rate > most)
    rate = np.where(endless, np.minimum(serve.rate, constants("serving_rows")["kept_up"] * most), serve.rate)
    return physics.serving(serve.replace(rate=rate)), over


def _batch(physics: ServingPhysics, limit: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Sequences in flight: what the row states, what fits, or (open load) what Little's law asks
    for; and whether the load exceeds that."""
    serve = physics.serve
    stated = np.where(serve.batch > 0, serve.batch, limit) / serve.data
    capped = np.where(serve.continuous > 0, np.minimum(stated, limit), stated)
    offline = np.minimum(_within_limits(physics, limit), np.where(serve.requests > 0, serve.requests / serve.data, np.inf))
    batch = np.where(serve.load == Load.OFFLINE, np.where(serve.batch > 0, np.minimum(offline, stated), offline), capped)
    if not np.any(serve.load == Load.OPEN):
        return np.maximum(batch, 1.0), np.zeros(batch.shape, dtype=bool)
    shape = np.broadcast_shapes(batch.shape, serve.load.shape, limit.shape)
    is_open = np.broadcast_to(serve.load == Load.OPEN, shape)
    index = np.flatnonzero(is_open)
    batch, saturated = np.array(np.broadcast_to(batch, shape)), np.zeros(shape, dtype=bool)
    batch[index], saturated[index] = _little(physics.take(index), np.broadcast_to(limit, shape)[index])
    return np.maximum(batch, 1.0), saturated


def _within_limits(physics: ServingPhysics, limit: Array) -> Array:
    """The most sequences whose time per token keeps its limit, by bisection; `limit` where
    none is asked for."""
    asked = physics.serve.token_limit_s
    if not np.any(asked):
        return limit
    low, high = np.ones_like(limit), limit.copy()
    for _ in range(_HALVINGS):
        middle = np.sqrt(low * high)
        slow = physics.request_s(middle)[1] > asked
        low, high = np.where(slow, low, middle), np.where(slow, middle, high)
    return np.where((asked > 0) & (physics.request_s(limit)[1] > asked), low, limit)


def _little(physics: ServingPhysics, limit: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Solve batch = N x T / (N / rate + T) by bisection in the logarithm: Little's law for N
    requests, rate x T for endless ones.

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
    for _ in range(_HALVINGS):
        middle = np.sqrt(low * top)
        over = wanted(middle) > middle
        low, top = np.where(over, middle, low), np.where(over, top, middle)
    return np.where(saturated, high, np.sqrt(low * top)), saturated


def overhead_bytes(serve: ServeColumns, values: Mapping[str, float] | None = None) -> Array:
    """What an engine holds beside tensors [bytes per device]: context, libraries, CUDA graphs,
    communication buffers."""
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
    cache = serve.batch * kv_cache_bytes(model, serve, tokens=tokens) / share
    growth = _table(source, "cache_growth", engine_classes())[engine] * np.where(
        driver, _table(source, "cache_reserved", engine_classes())[engine], 1.0
    )
    prompt = np.minimum(serve.batch * np.maximum(serve.input_tokens, 1.0), np.where(serve.chunk_tokens > 0, serve.chunk_tokens, np.inf))
    block = _table(source, "workspace_factor", engine_classes())[engine]
    workspace = prompt_workspace_bytes(model, serve, tokens=prompt, sequences=serve.batch, block_share=block)
    heads = serve.head_copies * model.vocab_size * model.hidden_size * serve.other_bytes
    fixed = np.where(driver, overhead_bytes(serve, values), _table(source, "workspace_bytes", engine_classes())[engine])
    return {
        "weights": (weights_bytes(model, serve) * serve.weight_copies + heads) / share,
        "kv_cache": cache * np.where(reserved, 1.0, growth),
        "workspace": workspace,
        "context": fixed * np.where(together, devices, 1.0),
    }


def fit_room(model: ModelColumns, serve: ServeColumns, device: DeviceColumns) -> Array:
    """Log of what the fullest device has beside the weights over what it needs beside them (N,): at
    most nothing where the case does not fit, NaN where the device's memory is not known.

    Engines that set the cache aside start when their share holds the longest request; others hold
    what the batch takes. Weights are counted, so that the doubt is of the rest alone.
    """
    operators = facts.coefficients("operators")
    weights = weights_bytes_per_device(model, serve) * serve.weight_copies
    tokens = np.where(serve.longest_tokens > 0, serve.longest_tokens, serve.input_tokens + serve.output_tokens)
    taken = reserved_bytes(model, serve, overhead_bytes=overhead_bytes(serve), coefficients=operators)
    share = usable_bytes(serve, device, taken_bytes=taken, coefficients=operators)
    asked = taken + kv_bytes_per_device(model, serve, tokens=tokens)
    terms = peak_memory_bytes(model, serve.replace(counter=np.full(1, float(ServingCounter.DRIVER_ONE))), device)
    held = sum(terms.values(), np.zeros(1))
    reserves = serve.continuous > 0
    needed = np.where(reserves, asked, held)
    capacity = np.where(reserves, share, visible_bytes(device, coefficients=operators))
    share_of_weights = constants("serving_rows")["least_beside_weights"]
    least = share_of_weights * weights
    rest = np.maximum(needed - weights, least) / np.maximum(capacity - weights, least * share_of_weights)
    return np.where(device.memory_bytes > 0, -np.log(rest), np.nan)


def bounds_of_the_device(model: ModelColumns, serve: ServeColumns, device: DeviceColumns) -> tuple[Array, Array]:
    """Seconds that all devices together take at least for a step, at the data sheet's bandwidth,
    and for a token of a prompt, at its fastest arithmetic
    [s], [s]: each reads the weights that one token uses, or multiplies them."""
    experts = transformer.routed_expert_parameters(model) * np.where(
        model.num_experts > 0, model.experts_per_token / np.maximum(model.num_experts, 1.0), 0.0
    )
    attention, dense = serving_columns.attention_layer_parameters(model), serving_columns.dense_layer_parameters(model)
    read = attention * serve.attention_bytes + dense * serve.linear_bytes + experts * serve.expert_bytes
    rates = (
        device.fp32_flops,
        device.tf32_flops,
        device.fp16_flops,
        device.bf16_flops,
        device.fp8_flops,
        device.int8_ops,
        device.fp4_flops,
    )
    fastest = functools.reduce(np.maximum, rates)
    step = read / np.maximum(device.memory_bandwidth * serve.num_devices, 1.0)
    token = 2.0 * (attention + dense + experts) / np.maximum(fastest * serve.num_devices, 1.0)
    return np.where(serve.offload_bandwidth > 0, 0.0, step), token


def metric_bounds(model: ModelColumns, serve: ServeColumns, device: DeviceColumns) -> tuple[dict[str, Array], dict[str, Array]]:
    """By metric and in its unit, the least that a time and the most that a rate can be."""
    step, token = bounds_of_the_device(model, serve, device)
    with np.errstate(divide="ignore"):
        rate, most = 1.0 / step, 1.0 / token
    least = {"tpot_ms": step * 1e3, "ttft_ms": serve.input_tokens * token * 1e3}
    flows = dict.fromkeys(("prefill_tok_per_s", "output_tok_per_s_total", "total_tok_per_s"), most)
    return least, {"decode_tok_per_s_single": rate, **flows}


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
