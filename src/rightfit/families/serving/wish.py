"""From a workload to numbers where a language model answers: the load, the lengths, the latency
limits, and every default that was taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rightfit import facts
from rightfit.errors import ContradictionError, InputError
from rightfit.estimation.serving_extras import ServingExtras
from rightfit.facts.image_tokens import image_rule
from rightfit.facts.parameter_count import draft_head
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message
from rightfit.search.request_checks import Notes, note_own
from rightfit.search.seen import Seen, read_seen
from rightfit.search.service.wish import (
    LATENCY_LIMITS,
    Limits,
    ServingRequest,
    busiest_rate_per_s,
    mean_lengths,
    peak_of,
    read_load,
    start_notes,
    think_s,
    trace_of,
    usual,
)

if TYPE_CHECKING:
    from rightfit.workload import Workload
    from rightfit.workload.traces import Requests


# ---- Shared prefixes, adapters and drafts of a workload as numbers, with the
# defaults that were taken.

NGRAM = ("ngram", "n-gram", "prompt-lookup")
VOCABULARY_SLACK = 0.01  # paddings of one tokenizer's table differ by less


def read_extras(workload: Workload, model: TransformerArchitecture, *, input_tokens: int, notes: Notes) -> ServingExtras:
    """What the workload has beside the model; raises what cannot be."""
    usual = facts.coefficients("serving_planning")
    rank = float(workload.adapter_rank or 0)
    if workload.adapters and not rank:
        rank = usual["adapter_rank"]
        notes.take("adapter_rank", int(rank), "serve_adapter_rank")
    draft, drafted, chance = _drafts(workload, model, notes)
    is_part = (head := draft_head(workload.speculative or "")) is not None and head.keeps_experts
    hits, kept_s = _found_again(workload, notes)
    return ServingExtras(
        shared_tokens=_shared(workload, input_tokens),
        adapters=float(workload.adapters or 0),
        adapter_rank=rank,
        draft=draft,
        draft_tokens=drafted,
        draft_as_model=is_part,
        acceptance=chance.mid,
        acceptance_low=chance.low,
        acceptance_high=chance.high,
        hit_share=hits,
        kv_tier=workload.kv_offload or "",
        kept_s=kept_s,
    )


def _shared(workload: Workload, input_tokens: int) -> float:
    """Tokens of the shared prefix; at least one token of each prompt is its own."""
    if workload.cached_tokens is not None and workload.cached_tokens >= input_tokens:
        raise ContradictionError(
            Message("families.cached_tokens", cached=workload.cached_tokens, tokens=input_tokens, most=max(input_tokens - 1, 1)),
            field="cached_tokens",
        )
    shared = float(workload.cached_tokens or 0) or float(round((workload.prefix_share or 0.0) * input_tokens))
    return min(shared, max(input_tokens - 1.0, 0.0))


def _found_again(workload: Workload, notes: Notes) -> tuple[float, float]:
    """Share of a prompt that a cache beside the card's memory holds, and how
    long it is kept [s]."""
    if not workload.kv_offload:
        return 0.0, 0.0
    usual = facts.coefficients("serving_planning")
    for name in ("prefix_share", "cached_tokens"):
        if getattr(workload, name):
            raise ContradictionError(
                Message("families.kv_offload_shared", option=name),
                field="kv_offload",
            )
    if workload.cache_hits is None:
        notes.take("cache_hits", usual["kv_hits"], "serve_cache_hits")
    if workload.rate_per_s or not workload.users:
        notes.take("kv_kept_s", usual["kv_kept_s"], "serve_kv_kept")
    return workload.cache_hits or usual["kv_hits"], usual["kv_kept_s"]


class Chance(NamedTuple):
    """Probability that a drafted token is accepted, and its ends where it was assumed
    (0: it was given)."""

    mid: float
    low: float = 0.0
    high: float = 0.0


def _head(workload: Workload, model: TransformerArchitecture, notes: Notes) -> tuple[TransformerArchitecture, float, Chance] | None:
    """A draft head; None where another draft is meant."""
    head = draft_head(workload.speculative or "")
    if head is None:
        return None
    if not head.suits(model):
        raise ContradictionError(
            Message("families.no_multi_token_layers", draft=workload.speculative, model=model.name),
            field="speculative",
        )
    if not workload.draft_tokens:
        notes.take("draft_tokens", head.draft_tokens, "serve_draft_tokens")
    if not head.models:
        notes.take("speculative", head.name, "serve_head_needed")
    chance = Chance(workload.acceptance or 0.0)
    if workload.acceptance is None:
        chance = Chance(head.acceptance, head.acceptance_low, head.acceptance_high)
        ends = {"low": head.acceptance_low, "high": head.acceptance_high}
        notes.take("acceptance", head.acceptance, "serve_head_acceptance", source=head.source, **ends)
    return head.of(model), float(workload.draft_tokens or head.draft_tokens), chance


def _drafts(workload: Workload, model: TransformerArchitecture, notes: Notes) -> tuple[TransformerArchitecture | None, float, Chance]:
    """The draft model or head (None: n-grams or no drafts), tokens drafted, and acceptance."""
    if not workload.speculative:
        return None, 0.0, Chance(0.0)
    if head := _head(workload, model, notes):
        return head
    usual, is_ngram = facts.coefficients("serving_planning"), workload.speculative.strip().casefold() in NGRAM
    draft = None if is_ngram else _draft_model(workload.speculative, model)
    drafted = float(workload.draft_tokens or 0)
    if not drafted:
        drafted = usual["draft_tokens"]
        notes.take("draft_tokens", int(drafted), "serve_draft_tokens")
    if workload.acceptance is not None:
        return draft, drafted, Chance(workload.acceptance)
    if is_ngram:
        raise ContradictionError(
            Message("families.acceptance_unsaid"),
            field="acceptance",
        )
    acceptance = usual["draft_acceptance"]
    notes.take("acceptance", acceptance, "serve_acceptance")
    return draft, drafted, Chance(acceptance, usual["draft_acceptance_low"], usual["draft_acceptance_high"])


def _draft_model(name: str, model: TransformerArchitecture) -> TransformerArchitecture:
    """The draft's architecture: smaller, and with the model's vocabulary."""
    draft = facts.model(name, field="speculative")
    if not isinstance(draft, TransformerArchitecture) or draft.kind not in ("decoder", "moe-decoder"):
        raise ContradictionError(Message("families.draft_no_text", draft=name), field="speculative")
    if draft.params_total >= model.params_total:
        raise ContradictionError(Message("families.draft_too_large", draft=name, model=model.name), field="speculative")
    if abs(draft.vocab_size - model.vocab_size) > VOCABULARY_SLACK * model.vocab_size:
        raise ContradictionError(
            Message("families.draft_vocabulary", draft=name, model=model.name, own=draft.vocab_size, other=model.vocab_size),
            field="speculative",
        )
    return draft


# ---- A service of a language model as numbers.


def read_token_wish(workload: Workload) -> ServingRequest:
    """The workload as numbers; raises what the user must know."""
    notes, model = start_notes(workload), facts.model(workload.model)
    assert isinstance(model, TransformerArchitecture)
    note_own(model, notes)
    trace = trace_of(workload)
    prompt, output = token_lengths(workload, model, notes) if trace is None else mean_lengths(trace)
    seen = read_seen(workload, model, notes)
    prompt = _with_seen(prompt, output, seen, workload, model)
    limits = token_limits(workload, notes, prompt=prompt)
    rate = request_rate(workload, notes, trace=trace)
    asked_by_users = 0.0 if rate else rate_of_users(workload, limits, notes, prompt=prompt, output=output)
    rate = rate or asked_by_users
    extras = read_extras(workload, model, input_tokens=prompt, notes=notes)
    load = read_load(workload, trace, lengths=(prompt, output), rate_per_s=rate, longest=model.max_position or 0, notes=notes)
    return ServingRequest(
        workload=workload,
        model=model,
        rate_per_s=rate,
        users=0 if asked_by_users else workload.users or 0,
        requests=requests_of(workload, model, prompt, notes) if workload.task == "batch" else 0.0,
        input_tokens=prompt,
        output_tokens=output,
        limits=limits,
        load=None if load is None else dataclasses.replace(load, shared_tokens=extras.shared_tokens),
        extras=dataclasses.replace(extras, images=seen.images, image_patches=seen.patches),
        assumptions=tuple(notes.taken),
    )


def _with_seen(prompt: int, output: int, seen: Seen, workload: Workload, model: TransformerArchitecture) -> int:
    """The whole prompt: its text and what is seen and heard; raises where that is over
    the model's limit."""
    whole, limit = prompt + seen.tokens, model.max_position
    if seen.tokens and limit and whole + output > limit:
        name = next(name for name in ("images", "frames", "image_size", "audio_length_s") if getattr(workload, name) is not None)
        raise ContradictionError(
            Message(
                "families.prompt_over_limit",
                option=name.removesuffix("_s"),
                tokens=seen.tokens,
                prompt=prompt,
                output=output,
                model=model.name,
                limit=limit,
            ),
            field=name.removesuffix("_s"),
        )
    return whole


def token_lengths(workload: Workload, model: TransformerArchitecture, notes: Notes) -> tuple[int, int]:
    """Prompt and answer length of a request, within the model's limit: a default gives way to it,
    what the user says does not, but that a prompt of the whole limit means prompt and answer."""
    limit = model.max_position
    given = [getattr(workload, name) for name in ("input_tokens", "output_tokens")]
    if limit and given == [limit, None]:
        given = [limit - min(int(usual()["output_tokens"]), limit // 2), None]
        notes.take("input_tokens", given[0], "serve_input_tokens_whole", limit=limit)
    chosen = usual_lengths(given, limit)
    for name, said, value in zip(("input_tokens", "output_tokens"), given, chosen, strict=True):
        if said is None:
            is_cut = value < int(usual()[name])
            notes.take(name, value, f"serve_{name}_within" if is_cut else f"serve_{name}", **({"limit": limit} if is_cut else {}))
    if limit and sum(chosen) > limit:
        raise ContradictionError(
            Message("families.lengths_over_limit", prompt=chosen[0], output=chosen[1], model=model.name, limit=limit),
            field="input_tokens",
        )
    return chosen[0], chosen[1]


def usual_lengths(given: Sequence[int | None], limit: int | None) -> list[int]:
    """Tokens of prompt and answer; the usual ones where they are not given, cut to what the model's
    limit leaves, at least one each."""
    usual_ones = [int(usual()[name]) for name in ("input_tokens", "output_tokens")]
    chosen = [int(usual_ones[at] if value is None else value) for at, value in enumerate(given)]
    if not limit or sum(chosen) <= limit:
        return chosen
    if given[1] is None:
        share = usual_ones[1] / sum(usual_ones) * limit if given[0] is None else limit - chosen[0]
        chosen[1] = max(1, min(chosen[1], int(share)))
    if given[0] is None:
        chosen[0] = max(1, min(chosen[0], limit - chosen[1]))
    return chosen


def request_rate(workload: Workload, notes: Notes, *, trace: Requests | None = None) -> float:
    """Requests a second that must be served: as given, of the trace's busiest hour, or the
    peak of the profile."""
    if trace is not None:
        return busiest_rate_per_s(trace)
    if workload.profile:
        peak = peak_of(workload)
        if peak is not None:
            return peak
    if workload.task == "batch" or (workload.rate_per_s is None and workload.users):
        return 0.0
    if workload.rate_per_s is None:
        rate = usual()["rate_per_s"]
        notes.take("rate", rate, "serve_rate")
        return float(rate)
    return workload.rate_per_s


def rate_of_users(workload: Workload, limits: Limits, notes: Notes, *, prompt: int, output: int) -> float:
    """Requests a second of users who read an answer and write on before they ask again; 0 where
    nobody thinks (then each user always has a request in flight). An answer is taken to come in
    half the time that the limits allow, or the usual ones where these are shorter: whoever may wait
    longer does not ask less often of a server that answers as soon.

    Reference: the interactive response time law, E. Lazowska et al., Quantitative System
    Performance (1984), chapter 3: X = N / (Z + R).
    """
    if not workload.users or workload.task == "batch":
        return 0.0
    pause_s = think_s(workload)
    if pause_s <= 0:
        return 0.0
    ttft_s, tpot_s = min(limits.ttft_s, usual_first_token_s(prompt)[0]), min(limits.tpot_s, float(usual()["tpot_s"]))
    answer_s = 0.5 * min(limits.latency_s, ttft_s + max(output - 1, 0) * tpot_s)
    rate = workload.users / (pause_s + answer_s)
    if workload.think_s is None:
        notes.take("think", pause_s, "serve_think", users=workload.users, rate=rate)
    return rate


def requests_of(workload: Workload, model: TransformerArchitecture, prompt: int, notes: Notes) -> float:
    """Requests of a batch job: samples as they are, tokens cut into prompts."""
    if workload.data_unit == "images" and workload.data_samples is not None and (rule := image_rule(model)) and rule.takes_images:
        return workload.data_samples / (workload.images or 1)
    if workload.data_samples is not None and (workload.data_unit or "samples") in ("images", "frames", "hours", "videos", "clips"):
        raise InputError(Message("families.data_unit_serving", unit=workload.data_unit), field="data")
    if workload.data_samples is not None:
        return workload.data_samples
    tokens = workload.data_tokens
    if tokens is None and workload.data_bytes is not None:
        per_token = facts.coefficients("planning")["bytes_per_token"]
        tokens = workload.data_bytes / per_token
        notes.take("data_tokens", tokens, "tokens_from_bytes", bytes=workload.data_bytes, bytes_per_token=per_token)
    if tokens is None:
        raise InputError(Message("families.amount_of_prompts"), field="data")
    count = max(1.0, tokens / prompt)
    notes.take("requests", count, "serve_requests", tokens=tokens, input_tokens=prompt)
    return count


def usual_first_token_s(prompt: int) -> tuple[float, bool]:
    """The usual limit of the first token after a prompt of so many tokens [s], and whether it is
    longer than that of a usual prompt."""
    more = float(usual()["ttft_s_per_token"]) * max(0, prompt - int(usual()["input_tokens"]))
    return round(float(usual()["ttft_s"]) + more, 1), more > 0


def token_limits(workload: Workload, notes: Notes, *, prompt: int) -> Limits:
    """Latency limits: the user's, and of first token and later tokens the usual ones where nothing
    is said of them. Saying one does not drop the other; a limit of the whole request bounds the
    first token too. The longer the prompt, the longer its first token may take."""
    infinity = float("inf")
    given: dict[str, float | None] = {name: getattr(workload, f"{name}_s") for name in LATENCY_LIMITS}
    percentile = (workload.percentile or usual()["percentile"]) / 100.0
    if workload.task == "batch":
        return Limits(infinity, infinity, infinity, percentile)
    if given["ttft"] is None:
        first_token_s, is_longer = usual_first_token_s(prompt)
        given["ttft"] = first_token_s
        notes.take("ttft", first_token_s, "serve_ttft_long" if is_longer else "serve_ttft", **({"tokens": prompt} if is_longer else {}))
    if given["tpot"] is None:
        given["tpot"] = float(usual()["tpot_s"])
        notes.take("tpot", float(usual()["tpot_s"]), "serve_tpot")
    if workload.percentile is None:
        notes.take("percentile", float(usual()["percentile"]), "serve_percentile")
    ttft, tpot, latency = (infinity if (said := given[name]) is None else said for name in LATENCY_LIMITS)
    return Limits(ttft, tpot, latency, percentile)
