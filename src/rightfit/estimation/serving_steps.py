"""From an engine with the weights that it runs on a family of devices to the fields of
ServeColumns that they set."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rightfit.facts.engines import EngineClass, WeightFormat, family_names, format_names, weight_formats
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.tables import constant_group, constants
from rightfit.physics import decode, prefill
from rightfit.physics import waiting as quantiles
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.queueing import ATOM_WEIGHTS, LoadColumns, atoms_of
from rightfit.physics.serving_columns import Load, Math, ServeColumns, ServeRates
from rightfit.records import dataclass
from rightfit.units import FP32_BYTES
from rightfit.workload.traces import Lengths

_FIGURES = constants("serving_rows")
#: Memory of captured graphs, by class of engine.
_GRAPHS = constant_group("serving_rows", "captured_graphs")
_MATH = {
    "fp32": Math.FP32,
    "tf32": Math.TF32,
    "fp16": Math.FP16,
    "bf16": Math.BF16,
    "fp8": Math.FP8,
    "int8": Math.INT8,
    "fp4": Math.FP4,
    "mx": Math.MX,
}
#: Classes of engines whose kernels of MX formats pad the width of experts.
_PADDING = ("generic", "graph", "async", "sglang")
#: vLLM before 0.6 captured graphs for contexts up to 8,192 tokens only (max_seq_len_to_capture).
_GRAPH_LIMIT, _GRAPH_LIMIT_UNTIL = _FIGURES["graph_limit"], _FIGURES["graph_limit_until"]
#: vLLM runs AWQ checkpoints on Marlin's kernels since 0.5.3, and on those of AWQ's
#: own project before.
_MARLIN_FROM, _MARLIN_SINCE = _FIGURES["marlin_from"], "2024-07"


@dataclass(frozen=True, slots=True)
class ServingCase:
    """An engine of one `version` (0: not known, then its `date`) with the weights that it runs on a
    family of devices. `max_batch` and `chunk_tokens` as it is configured (0: by default), `bits` of
    a weight where they are told (0: the format's), `kv_bytes` of an element of the cache (None:
    what goes with the weights), `kernels` of AWQ weights that are named ("gemv", "marlin"). Of the
    model it matters whether its cache is latent and whether it is a mixture of experts."""

    engine: EngineClass
    family: str
    weights: WeightFormat
    is_latent: bool
    is_mixture: bool
    version: float = 0.0
    date: str = ""
    max_batch: float = 0.0
    chunk_tokens: float = 0.0
    bits: float = 0.0
    kv_bytes: float | None = None
    kernels: str = ""


def is_latent(model: TransformerArchitecture) -> bool:
    """Whether the cache of a model is latent: every head shares it."""
    return model.attention_kind == "mla"


def serving_fields(case: ServingCase) -> dict[str, float]:
    """Fields of ServeColumns that engine and formats decide; the caller adds load and layout."""
    return {**_engine_fields(case), **_format_fields(as_run(case))}


def _engine_fields(case: ServingCase) -> dict[str, float]:
    """What an engine of one version sets."""
    engine = case.engine
    return {
        "engine": float(engine.code),
        "family": float(family_names().index(case.family)),
        "version": case.version,
        "max_batch": case.max_batch or engine.max_batch,
        "chunk_tokens": case.chunk_tokens or engine.chunk_tokens,
        "memory_fraction": engine.memory_fraction,
        "fraction_of_free": engine.of_free,
        "kv_reserve": engine.kv_reserve,
        "kv_block": engine.kv_block,
        "graph_bytes": _GRAPHS.get(engine.name, 0.0),
        "graph_limit": _GRAPH_LIMIT if engine.name == "graph" and 0 < case.version < _GRAPH_LIMIT_UNTIL else 0.0,
    }


def as_run(case: ServingCase) -> ServingCase:
    """The case with the format that its engine makes of the weights."""
    known, kind, name, bits = weight_formats(), case.engine.name, case.weights.name, case.bits
    if kind == "eager" and name in ("int8", "int4"):
        # Transformers quantises with bitsandbytes unless the format names another way.
        name = {"int8": "int8-bnb", "int4": "nf4"}[name]
    if kind == "exllama" and name in ("int8", "int4"):
        # ExLlama knows bits a weight only.
        name, bits = "exl2", {"int8": 8.0, "int4": 4.0}[name]
    if kind == "native" and name == "mxfp4":
        # Files of llama.cpp keep what is not an expert in 8 bits.
        name = "gguf-mxfp4"
    if name == "int4-awq":
        name = "int4-awq-gemv" if case.kernels == "gemv" else name if _own_awq_kernels(case) else "int4-awq-marlin"
    if name == "nvfp4" and case.is_latent:
        name = "nvfp4-deepseek"
    return dataclasses.replace(case, weights=known[name], bits=bits)


def _own_awq_kernels(case: ServingCase) -> bool:
    """Whether AWQ weights are multiplied by the kernels of their own project: AutoAWQ,
    Transformers, and vLLM before it took Marlin's."""
    if case.engine.name in ("eager", "fused"):
        return True
    early = case.version < _MARLIN_FROM if case.version else bool(case.date) and case.date < _MARLIN_SINCE
    return case.engine.name in ("graph", "ungraphed") and early and case.kernels != "marlin"


def _format_fields(case: ServingCase) -> dict[str, float]:
    """What the formats of weights and cache set."""
    weights, name = case.weights, case.weights.name
    linear, expert, attention = weights.linear_bytes, weights.expert_bytes, weights.attention_bytes
    if case.bits:
        linear = expert = attention = case.bits / 8.0 * _FIGURES["unquoted_scales"]
    if name == "mxfp4" and not case.is_mixture:
        linear = attention = expert
    is_wide = name in ("fp32", "tf32")
    kv = 2.0 if case.kv_bytes is None else case.kv_bytes
    if case.kv_bytes is None and is_wide:
        kv = _FIGURES["cache_bytes_full"]
    if case.kv_bytes is None and (name.startswith("nvfp4") or (case.engine.name.startswith("vendor") and name == "fp8")):
        kv = 1.0  # NVIDIA's fp4 checkpoints carry scales for an fp8 cache, and TensorRT-LLM's fp8 engines do
    return {
        "linear_bytes": linear,
        "expert_bytes": expert,
        "attention_bytes": attention,
        "other_bytes": weights.other_bytes,
        "kv_bytes": kv,
        "activation_bytes": FP32_BYTES if is_wide else FP32_BYTES / 2.0,
        "expert_tile": _FIGURES["mxfp4_tile"] if name == "mxfp4" and case.engine.name in _PADDING else 0.0,
        "math": float(_MATH[weights.math]),
        "dequantise_ops": weights.dequantise_ops,
        "weight_format": float(format_names().index(name)),
    }


# ---- From laws of length and traces to the columns of the queue model.

FINE = 4096


def length_atoms(lengths: Lengths) -> NDArray[np.float64]:
    """A law of lengths as the slices' means that the queue model uses."""
    if lengths.variation == 0 and not lengths.even:
        return np.full(ATOM_WEIGHTS.size, lengths.mean)
    return atoms_of(np.sort(lengths.quantiles((np.arange(FINE) + 0.5) / FINE)))


def load_columns(rate_per_s: object, *, inputs: Lengths, outputs: Lengths) -> LoadColumns:
    """One law of requests at N rates per replica."""
    return LoadColumns.of(rate_per_s, input_tokens=length_atoms(inputs), output_tokens=length_atoms(outputs))


# ---- The physics of one set of served rows, callable for any number of sequences: a step, a pass
# of prompts, a request.

_MOST_KNOWN = 16
_ONE = np.ones(1)


class ServingPhysics:
    """The physics of one set of rows, callable for any batch."""

    def __init__(self, model: ModelColumns, serve: ServeColumns, device: DeviceColumns, links: LinkColumns, rates: ServeRates) -> None:
        self.model, self.serve, self.device, self.links, self.rates = model, serve, device, links, rates
        self._known: dict[tuple[str, int], tuple[Array, Any]] = {}
        self._products: decode.ProductRates | None = None

    def _once(self, name: str, argument: Array, work: Callable[[Array], Any]) -> Any:
        """A result of an array that was asked for before: batches stay the same through the
        parts of one answer."""
        key = (name, id(argument))
        known = self._known.get(key)
        if known is None:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = (argument, work(argument))
        return known[1]

    def take(self, index: NDArray[np.intp]) -> ServingPhysics:
        """Rows `index`."""
        return ServingPhysics(*(part.take(index) for part in (self.model, self.serve, self.device, self.links, self.rates)))  # type: ignore[arg-type]

    def serving(self, serve: ServeColumns) -> ServingPhysics:
        """The same rows under other loads."""
        return ServingPhysics(self.model, serve, self.device, self.links, self.rates)

    def products(self) -> decode.ProductRates:
        """Rates of matrix products, whatever the batch."""
        if self._products is None:
            self._products = decode.product_rates(self.serve, self.device, self.rates)
        return self._products

    def decode_terms(self, batch: Array) -> decode.DecodeTimes:
        """Terms of a step of `batch` sequences."""
        return cast("decode.DecodeTimes", self._once("decode_terms", batch, self._decode_terms))

    def _decode_terms(self, batch: Array) -> decode.DecodeTimes:
        context = self.serve.input_tokens + self.serve.output_tokens / 2.0
        # A cache of fixed size that a static graph reads whole.
        parts = (self.model, self.serve, self.device, self.links, self.rates)
        return decode.decode_times(*parts, batch=batch, context=np.maximum(context, 1.0), reached=self.products())

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
            prompt=np.maximum(self.serve.input_tokens - self.serve.cached_tokens, 1.0),
            sequences=sequences,
            cached=self.serve.cached_tokens,
            reached=self.products(),
        )
        fixed = self.rates.prompt_token_s * self.serve.input_tokens * sequences
        return prefill.prefill_s(times, self.model, self.serve, self.rates) + fixed

    def shared_prompt_s(self, batch: Array) -> Array:
        """Device time of one prompt where as many are treated together as arrive in a step, up to
        the piece that the engine takes."""
        return cast("Array", self._once("shared_prompt_s", batch, self._shared_prompt_s))

    def room(self) -> Array:
        """Prompts that one step carries."""
        prompt = np.maximum(self.serve.input_tokens - self.serve.cached_tokens, 1.0)
        several = np.where(self.serve.chunk_tokens > 0, np.maximum(self.serve.chunk_tokens / prompt, 1.0), 1.0)
        return several * self.serve.attention_data

    def _shared_prompt_s(self, batch: Array) -> Array:
        room = self.room()
        # Prompts that come while another is treated go together in the next step.
        passes = np.maximum(self.prompt_s(_ONE) / self.step_s(batch), 1.0)
        arriving = np.where(self.serve.load == Load.OFFLINE, batch, batch / np.maximum(self.serve.output_tokens, 1.0) * passes)
        together = np.clip(arriving, 1.0, room)
        return np.asarray(self.prompt_s(together) / together)

    def request_s(self, batch: Array) -> tuple[Array, Array, Array]:
        """Time to first token without queue, time per token and time of a whole request when
        `batch` sequences are in flight."""
        step, prompt = self.step_s(batch), self.prompt_s(_ONE)
        serve = self.serve
        # Requests that all come at once have half of the others' prompts behind them when
        # they begin to decode.
        burst = (serve.load == Load.OFFLINE) & (serve.requests > 0) & (serve.requests / serve.data <= batch)
        share = self.rates.interference * np.where(burst, 0.5, 1.0)
        others = share * np.maximum(batch - 1.0, 0.0) * self.shared_prompt_s(batch) / np.maximum(serve.output_tokens, 1.0)
        tpot = step + others
        ttft = self.rates.request_s + prompt
        return ttft, tpot, ttft + np.maximum(serve.output_tokens - 1.0, 0.0) * tpot


# ---- How long a request waits before its prompt starts, on average or at a quantile, by
# how requests come.
#
# Source: docs/decisions/serving-load.md; docs/decisions/kernels-and-loads.md for quantiles.


def waiting_s(physics: ServingPhysics, batch: Array, latency: Array) -> Array:
    """Wait before a prompt starts: the mean, or the quantile that is asked for.

    Closed load: the step under way and the part of the other users' prompts that arrive together
    (`burst`). All at once: half of all prompts, and the rounds of requests that found no room. Open
    load: the step under way and the prompts that join the request's own (`_mixed_wait_s`).
    """
    serve, rates = physics.serve, physics.rates
    prompt, step = physics.shared_prompt_s(batch), physics.step_s(batch)
    users = np.where(serve.batch > 0, serve.batch / serve.data, batch)
    others = np.maximum(np.minimum(users, batch) - 1.0, 0.0) * prompt
    # Where the number of requests is told, so is the share of those that all users ask at first.
    waves = np.where(serve.requests > 0, serve.requests / serve.data / np.maximum(users, 1.0), np.inf)
    first = np.where(np.isfinite(waves), 0.5 / np.maximum(waves, 1.0), rates.burst)
    closed = np.where(users > 1, quantiles.of_step(step, serve.quantile), 0.0) + quantiles.of_first_wave(others, first, serve.quantile)
    closed = closed + np.where(users > batch, (users / np.maximum(batch, 1.0) - 1.0) * latency, 0.0)
    requests = np.where(serve.requests > 0, serve.requests / serve.data, batch)
    rounds = np.maximum(requests / np.maximum(batch, 1.0) - 1.0, 0.0) / 2.0
    at_once = quantiles.of_queue(np.minimum(requests, batch) * prompt / 2.0 + rounds * latency, serve.quantile)
    opened = quantiles.of_wait(_mixed_wait_s(physics, batch, prompt=prompt, step=step), serve.quantile)
    return np.select([serve.load == Load.CLOSED, serve.load == Load.OFFLINE, serve.load == Load.OPEN], [closed, at_once, opened], 0.0)


def _mixed_wait_s(physics: ServingPhysics, batch: Array, *, prompt: Array, step: Array) -> Array:
    """Mean wait of a request that comes at a random moment where steps decode and
    treat prompts together.

    A step lasts T = step / (1 - load) on average, load = rate x prompt. A request waits for the
    rest of the step under way, E[T^2] / 2 E[T] (renewal theory), and its own step carries the
    prompts that came meanwhile, load x T, and reads the cache of those that decode.
    """
    rate = physics.serve.rate / physics.serve.data
    load = np.clip(rate * prompt, 0.0, 0.98)
    mean = step / (1.0 - load)
    with_prompt = np.clip(rate * mean, 0.0, 1.0)
    square = (1.0 - with_prompt) * step**2 + with_prompt * (step + prompt) ** 2
    busy = 1.0 - np.exp(-batch)
    return np.asarray(busy * (square / (2.0 * np.maximum(mean, 1e-12)) + physics.decode_terms(batch).attention) + load * mean)


def token_s(physics: ServingPhysics, batch: Array, tpot: Array) -> Array:
    """Time per token: the mean, or the quantile of requests where prompts of others
    interrupt the answers."""
    several = (physics.serve.load == Load.CLOSED) | (physics.serve.load == Load.OPEN)
    own = quantiles.of_interruptions(tpot, physics.step_s(batch), batch, physics.serve.quantile)
    return np.where(several, own, tpot)
