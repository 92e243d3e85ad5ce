"""What a service has beside the model itself: a prefix that all prompts share, LoRA adapters, a
draft for speculative decoding.

Each changes step, prompt and memory of the serving physics by a few terms; with none of them
nothing is changed.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from rightfit import facts
from rightfit.estimation.convert import model_columns
from rightfit.estimation.serving import served_columns, serving_rates
from rightfit.estimation.serving_steps import ServingCase, is_latent, serving_fields
from rightfit.facts.devices import architecture_names
from rightfit.facts.engines import WeightFormat, engine_class, format_names, on_device, weight_formats
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics import decode, prefill, serving_columns
from rightfit.physics.columns import Array, DeviceColumns, Dtype, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Load, ServeColumns, ServeRates
from rightfit.records import dataclass

DRAFT_FORMAT = "bf16"


@dataclass(frozen=True, slots=True)
class ServingExtras:
    """`shared_tokens` at the start of every prompt that are in the cache already; `adapters` of
    rank `adapter_rank`; `draft_tokens` drafted in a step (0: no drafts), each accepted with
    probability `acceptance`, by `draft` or, where that is None, by n-grams at no cost; `images` of
    a request, each of `image_patches` in the vision tower; `hit_share` of each prompt is found in a
    cache in host memory or on a disk (`kv_tier`), where it is kept for `kept_s` [s].
    `draft_as_model`: the draft is a part of the checkpoint, in its format. `acceptance_low`,
    `acceptance_high`: ends of an acceptance that nobody measured (0: it was given)."""

    shared_tokens: float = 0.0
    adapters: float = 0.0
    adapter_rank: float = 0.0
    draft: TransformerArchitecture | None = None
    draft_tokens: float = 0.0
    acceptance: float = 0.0
    draft_as_model: bool = False
    acceptance_low: float = 0.0
    acceptance_high: float = 0.0
    images: float = 0.0
    image_patches: float = 0.0
    hit_share: float = 0.0
    kv_tier: str = ""
    kept_s: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.shared_tokens or self.adapters or self.draft_tokens or self.images or self.hit_share)


def fixed_bytes(extras: ServingExtras, model: ModelColumns, serve: ServeColumns) -> Array:
    """What one device holds for them whatever the load [bytes]: adapters, the draft's weights,
    the shared prefix."""
    held = np.zeros(1)
    if extras.adapters:
        held = held + extras.adapters * serving_columns.adapter_bytes(model, rank=np.full(1, extras.adapter_rank)) / (
            serve.tensor * serve.pipeline
        )
    if extras.draft is not None:
        draft, own = _draft_columns(extras.draft, serve, as_model=extras.draft_as_model)
        held = held + serving_columns.weights_bytes_per_device(draft, own)
    if extras.shared_tokens:
        # Ranks of attention data parallelism each keep the prefix for their own sequences.
        one = serving_columns.kv_bytes_per_device(model, serve, tokens=np.full(1, extras.shared_tokens))
        held = held + one * serve.attention_data
    if extras.images:
        held = held + prefill.tower_bytes(model, patches=np.full(1, extras.image_patches))
    return held


def cache_share(extras: ServingExtras, model: ModelColumns, serve: ServeColumns) -> Array:
    """Share of the cache's room that is left to the model itself, the rest being the draft's."""
    if extras.draft is None:
        return np.ones(1)
    draft, own = _draft_columns(extras.draft, serve, as_model=extras.draft_as_model)
    tokens = np.maximum(serve.input_tokens + serve.output_tokens, 1.0)
    mine, other = (serving_columns.kv_bytes_per_device(part, columns, tokens=tokens) for part, columns in ((model, serve), (draft, own)))
    return np.asarray(mine / (mine + other))


def token_step_s(
    extras: ServingExtras,
    model: ModelColumns,
    serve: ServeColumns,
    device: DeviceColumns,
    links: LinkColumns,
    rates: ServeRates,
    *,
    batch: Array,
    context: Array,
) -> Array:
    """Seconds per token of a sequence when `batch` of them run, (N,); context: (N,) tokens of each
    beside the shared ones.

    Without drafts the step itself with the shared prefix read and the adapters applied; with drafts
    a step over draft_tokens + 1 tokens of each sequence and the draft's own steps, over the tokens
    that are kept. Each sequence reads the prefix for itself (no cascade attention).
    """
    seen = context + extras.shared_tokens
    narrow = decode.decode_times(model, serve, device, links, rates, batch=batch, context=seen)
    terms = narrow
    if extras.draft_tokens:
        wide = decode.decode_times(model, serve, device, links, rates, batch=batch * (extras.draft_tokens + 1.0), context=seen)
        terms = dataclasses.replace(wide, attention=narrow.attention, host=narrow.host)
    step = decode.step_s(terms, model, serve, rates) + _adapters_s(extras, model, serve, device, rates, batch=batch)
    if not extras.draft_tokens:
        return np.asarray(step)
    drafting = np.zeros(1)
    if extras.draft is not None:
        drafting = _draft_step_s(extras, serve, device, links, batch=batch, context=seen)
    known = {"drafted": np.full(1, extras.draft_tokens), "acceptance": np.full(1, extras.acceptance)}
    return decode.token_s(step, draft_s=drafting, **known)


def more_prompt_s(
    extras: ServingExtras,
    model: ModelColumns,
    serve: ServeColumns,
    device: DeviceColumns,
    links: LinkColumns,
    rates: ServeRates,
    *,
    prompt: Array,
) -> Array:
    """What they add to a pass over `prompt` (N,) tokens of one sequence [s]: attention to the
    shared ones, the adapters' products, the draft's own pass."""
    more = np.zeros(prompt.shape)
    if extras.shared_tokens:
        times = prefill.prefill_times(model, serve, device, links, rates, prompt=prompt, sequences=np.ones(1))
        more = more + times.attention * 2.0 * extras.shared_tokens / np.maximum(prompt, 1.0)
    if extras.adapters:
        more = more + _adapters_s(extras, model, serve, device, rates, batch=np.ones(1))
    if extras.draft is not None:
        draft, own = _draft_columns(extras.draft, serve, as_model=extras.draft_as_model)
        known = serving_rates(own, links)
        passed = prefill.prefill_times(draft, own, device, links, known, prompt=prompt, sequences=np.ones(1))
        more = more + prefill.prefill_s(passed, draft, own, known)
    if extras.images:
        more = more + tower_s(extras, model, serve, device, rates)
    if extras.hit_share:
        more = more + _found_s(extras, model, serve, device, links, rates, prompt=prompt)
    return more


def _found_s(
    extras: ServingExtras,
    model: ModelColumns,
    serve: ServeColumns,
    device: DeviceColumns,
    links: LinkColumns,
    rates: ServeRates,
    *,
    prompt: Array,
) -> Array:
    """What fetching the found part of a prompt changes against computing it [s]: the pass over the
    rest, its attention to the found part, and the found part's cache on its way to the card (below
    0: it saves time)."""
    one = np.ones(1)
    whole = prefill.prefill_times(model, serve, device, links, rates, prompt=prompt, sequences=one)
    rest = np.maximum(prompt * (1.0 - extras.hit_share), 1.0)
    part = prefill.prefill_times(model, serve, device, links, rates, prompt=rest, sequences=one)
    across = np.maximum(whole.attention * (1.0 - extras.hit_share**2) - part.attention, 0.0)
    saved = prefill.prefill_s(whole, model, serve, rates) - prefill.prefill_s(part, model, serve, rates) - across
    return np.asarray(fetch_s(extras, model, serve, device, prompt=prompt) - saved - rates.prompt_token_s * (prompt - rest))


def fetch_s(extras: ServingExtras, model: ModelColumns, serve: ServeColumns, device: DeviceColumns, *, prompt: Array) -> Array:
    """Seconds in which the found part of the cache of `prompt` (N,) tokens comes to the cards: each
    card fetches its part over its own link; the cards of a replica share its disk."""
    usual = facts.coefficients("serving_planning")
    part = serving_columns.kv_bytes_per_device(model, serve, tokens=np.maximum(prompt * extras.hit_share, 1.0))
    reached = device.host_bandwidth * usual["kv_host_share"]
    if extras.kv_tier == "ssd":
        reached = np.minimum(reached, usual["kv_disk_bytes_per_s"] / np.maximum(serve.tensor, 1.0))
    return np.asarray(part / np.maximum(reached, 1.0))


def kept_bytes(extras: ServingExtras, model: TransformerArchitecture, *, input_tokens: float, rate_per_s: float, users: float) -> float:
    """What the tier holds in all [bytes], with a cache of 16 bit: the prompts of `kept_s` seconds
    at a rate, or the last one of each user."""
    if not extras.hit_share:
        return 0.0
    one = sequence_cache_bytes(model, max(input_tokens, 1.0))
    return one * (rate_per_s * extras.kept_s if rate_per_s else users)


def sequence_cache_bytes(model: TransformerArchitecture, tokens: float) -> float:
    """What the cache of one sequence of `tokens` takes in 16 bits [bytes]."""
    serve = ServeColumns().replace(kv_bytes=np.full(1, 2.0))
    return float(serving_columns.kv_cache_bytes(model_columns([model]), serve, tokens=np.full(1, tokens))[0])


def weights_in(model: TransformerArchitecture, weight_format: WeightFormat) -> float:
    """All weights of a model in a format, those that it leaves in 16 bits included [bytes]."""
    parts = {name: np.full(1, getattr(weight_format, name)) for name in ("linear_bytes", "expert_bytes", "attention_bytes", "other_bytes")}
    return float(serving_columns.weights_bytes(model_columns([model]), ServeColumns().replace(**parts))[0])


def tower_s(extras: ServingExtras, model: ModelColumns, serve: ServeColumns, device: DeviceColumns, rates: ServeRates) -> Array:
    """Seconds that the images of one request take in the vision tower, in 16 bit, split over the
    devices of a tensor group."""
    sixteen = np.full(1, float(Dtype.BF16))
    reached = decode.peak_ops(device, sixteen, rates) * rates.gemm_fraction * rates.gemm_quality * serve.tensor
    patches, images = np.full(1, extras.image_patches), np.full(1, extras.images)
    return prefill.tower_s(model, patches=patches, images=images, flops_per_s=reached)


def effect_of(
    extras: ServingExtras, model: ModelColumns, serve: ServeColumns, device: DeviceColumns, links: LinkColumns, *, batch: Array
) -> dict[str, float]:
    """Figures of one row for the answer: memory of each part on one device, tokens a step, and time
    per token at `batch` with them and without."""
    rates = serving_rates(serve, links)
    context = np.maximum(serve.input_tokens + serve.output_tokens / 2.0, 1.0)
    known = {"batch": batch, "context": context}
    apart = {
        "adapters_bytes": dataclasses.replace(extras, shared_tokens=0.0, draft=None),
        "draft_bytes": dataclasses.replace(extras, shared_tokens=0.0, adapters=0.0),
        "prefix_bytes": dataclasses.replace(extras, adapters=0.0, draft=None),
    }
    plain = ServingExtras(shared_tokens=extras.shared_tokens)
    tokens = decode.expected_tokens(np.full(1, extras.acceptance), drafted=np.full(1, extras.draft_tokens))
    out = {name: fixed_bytes(part, model, serve) for name, part in apart.items()}
    out |= {
        "token_s": token_step_s(extras, model, serve, device, links, rates, **known),
        "plain_token_s": token_step_s(plain, model, serve, device, links, rates, **known),
        "adapters_s": _adapters_s(extras, model, serve, device, rates, batch=batch),
        "tokens_per_step": tokens,
        "tower_s": tower_s(extras, model, serve, device, rates),
        "fetch_s": fetch_s(extras, model, serve, device, prompt=serve.input_tokens) if extras.hit_share else np.zeros(1),
    }
    for end in ("low", "high"):
        if chance := getattr(extras, f"acceptance_{end}"):
            assumed = dataclasses.replace(extras, acceptance=chance)
            out[f"token_{end}_s"] = token_step_s(assumed, model, serve, device, links, rates, **known)
    figures = {name: float(np.broadcast_to(value, (1,))[0]) for name, value in out.items()}
    return {**{name: float(getattr(extras, name)) for name in _COUNTS}, **figures}


_COUNTS = (
    *("shared_tokens", "adapters", "adapter_rank", "draft_tokens", "acceptance", "acceptance_low", "acceptance_high"),
    *("images", "hit_share", "kept_s"),
)


def _adapters_s(
    extras: ServingExtras, model: ModelColumns, serve: ServeColumns, device: DeviceColumns, rates: ServeRates, *, batch: Array
) -> Array:
    return serving_columns.adapter_step_s(
        model,
        adapters=np.full(1, extras.adapters),
        rank=np.full(1, extras.adapter_rank),
        batch=batch,
        kernel_s=np.full(1, facts.coefficients("serving_planning")["adapter_kernel_s"]),
        bandwidth=device.memory_bandwidth * rates.stream_fraction,
        devices=serve.tensor,
    )


def _draft_columns(draft: TransformerArchitecture, serve: ServeColumns, *, as_model: bool) -> tuple[ModelColumns, ServeColumns]:
    """The draft on the devices of the model, in 16 bit or in the format of the model."""
    if as_model:
        return model_columns([draft]), serve
    code = float(format_names().index(DRAFT_FORMAT))
    widths = {name: np.full(1, 2.0) for name in ("linear_bytes", "expert_bytes", "attention_bytes", "other_bytes")}
    own = serve.replace(weight_format=np.full(1, code), dequantise_ops=np.zeros(1), **widths)
    return model_columns([draft]), own


def _draft_step_s(
    extras: ServingExtras, serve: ServeColumns, device: DeviceColumns, links: LinkColumns, *, batch: Array, context: Array
) -> Array:
    assert extras.draft is not None
    model, own = _draft_columns(extras.draft, serve, as_model=extras.draft_as_model)
    rates = serving_rates(own, links)
    terms = decode.decode_times(model, own, device, links, rates, batch=batch, context=context)
    return decode.step_s(terms, model, own, rates)


# ---- Rollouts of reinforcement tuning: how long an engine takes to answer the prompts of one
# iteration, by the physics of serving.
#
# The engine is vLLM with 16-bit weights, as TRL, verl and OpenRLHF use it: either inside the
# trainer, in the memory that its states leave, or on accelerators of its own.

ENGINE = "vllm"
#: Steps in which the share of memory is told apart: finer ones would only make
#: more rows of the same.
SHARE_STEPS = 64.0


@dataclass(frozen=True, slots=True)
class Rollout:
    """The answers of one iteration on one engine: `gpus` of it on each of `servers`, `answers` that
    it gives, `share` of the card's memory that it may take."""

    gpus: Array
    servers: Array
    answers: Array
    share: Array
    prompt_tokens: float
    answer_tokens: float


def _values(family: str, arch: TransformerArchitecture, half: str) -> dict[str, float]:
    engine = on_device(engine_class(ENGINE), family, ENGINE)
    return serving_fields(ServingCase(engine, family, weight_formats()[half], is_latent=is_latent(arch), is_mixture=arch.num_experts > 0))


def rollout_s(
    arch: TransformerArchitecture,
    model: ModelColumns,
    device: DeviceColumns,
    links: LinkColumns,
    rollout: Rollout,
    *,
    gpus_per_node: Array,
) -> Array:
    """Seconds until the last answer of an iteration is there: answers over what the engine gives a
    second, all prompts coming at once and answers differing in length. Rows that differ in nothing
    that matters are timed once."""
    keys = np.broadcast_arrays(
        device.architecture, device.memory_bytes, device.memory_bandwidth, device.bf16_flops, device.fp16_flops, device.tdp_w,
        links.intra_bandwidth, links.intra_kind, gpus_per_node, rollout.gpus, np.ceil(rollout.answers),
        np.floor(rollout.share * SHARE_STEPS), rollout.servers, np.where(rollout.servers > 1.0, links.inter_bandwidth, 0.0),
    )  # fmt: skip
    _, first, inverse = np.unique(np.stack(keys, axis=1), axis=0, return_index=True, return_inverse=True)
    rows = first.astype(np.intp)
    size = keys[0].shape[0]
    chosen_device, chosen_links = device.take(rows) if device.num_rows == size else device, links
    if links.num_rows == size:
        chosen_links = links.take(rows)
    serve = _serve(arch, chosen_device, rows.shape[0]).replace(
        tensor=keys[9][rows],
        pipeline=keys[12][rows],
        gpus_per_node=keys[8][rows],
        requests=np.maximum(keys[10][rows], 1.0),
        memory_fraction=np.maximum(keys[11][rows], 1.0) / SHARE_STEPS,
        input_tokens=rollout.prompt_tokens,
        output_tokens=rollout.answer_tokens,
        load=Load.OFFLINE,
        batch=0.0,
        varied_lengths=1.0,
    )
    times = served_columns(model, serve, chosen_device, chosen_links)
    return np.asarray((serve.requests / np.maximum(times.requests_per_s, 1e-12))[inverse.reshape(-1)])


def _serve(arch: TransformerArchitecture, device: DeviceColumns, size: int) -> ServeColumns:
    """What engine and format decide, by the family of each card."""
    codes, halves = (np.broadcast_to(column, size) for column in (device.architecture, device.bf16_flops > 0))
    names, kinds = architecture_names(), list(zip(codes.tolist(), halves.tolist(), strict=True))
    known = {(code, half): _values(names[int(code)], arch, "bf16" if half else "fp16") for code, half in dict.fromkeys(kinds)}
    return ServeColumns.of(**{name: [known[kind][name] for kind in kinds] for name in known[kinds[0]]})
