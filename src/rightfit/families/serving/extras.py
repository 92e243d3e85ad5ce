"""Shared prefixes, adapters and drafts of a workload as numbers, with the defaults that were taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rightfit import facts
from rightfit.errors import ContradictionError
from rightfit.estimate.serving_extras import ServingExtras
from rightfit.facts.draft_heads import draft_head
from rightfit.facts.records import TransformerArchitecture
from rightfit.messages import Message
from rightfit.search.notes import Notes

if TYPE_CHECKING:
    from rightfit.workload import Workload

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
    """Share of a prompt that a cache beside the card's memory holds, and how long it is kept [s]."""
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
    """Probability that a drafted token is accepted, and its ends where it was assumed (0: it was given)."""

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
