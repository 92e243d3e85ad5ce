"""Shared prefixes, adapters and drafts of a workload as numbers, with the defaults that were taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.errors import ContradictionError
from rightfit.estimate.serving_extras import ServingExtras
from rightfit.facts.records import TransformerArchitecture
from rightfit.search.wish import Notes

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
    draft, drafted, acceptance = _drafts(workload, model, notes)
    return ServingExtras(
        shared_tokens=_shared(workload, input_tokens),
        adapters=float(workload.adapters or 0),
        adapter_rank=rank,
        draft=draft,
        draft_tokens=drafted,
        acceptance=acceptance,
    )


def _shared(workload: Workload, input_tokens: int) -> float:
    """Tokens of the shared prefix; at least one token of each prompt is its own."""
    if workload.cached_tokens is not None and workload.cached_tokens >= input_tokens:
        raise ContradictionError(
            f"cached_tokens {workload.cached_tokens} contradicts input_tokens {input_tokens}: it is the shared part of the prompt; at most "
            f"{max(input_tokens - 1, 1)}",
            field="cached_tokens",
        )
    shared = float(workload.cached_tokens or 0) or float(round((workload.prefix_share or 0.0) * input_tokens))
    return min(shared, max(input_tokens - 1.0, 0.0))


def _drafts(workload: Workload, model: TransformerArchitecture, notes: Notes) -> tuple[TransformerArchitecture | None, float, float]:
    """The draft model (None: n-grams or no drafts), tokens drafted, and acceptance."""
    if not workload.speculative:
        return None, 0.0, 0.0
    usual, is_ngram = facts.coefficients("serving_planning"), workload.speculative.strip().casefold() in NGRAM
    draft = None if is_ngram else _draft_model(workload.speculative, model)
    drafted = float(workload.draft_tokens or 0)
    if not drafted:
        drafted = usual["draft_tokens"]
        notes.take("draft_tokens", int(drafted), "serve_draft_tokens")
    if workload.acceptance is not None:
        return draft, drafted, workload.acceptance
    if is_ngram:
        raise ContradictionError(
            "acceptance: n-grams hit as often as answers repeat their prompt, which only your own traffic tells; give acceptance, for example 0.4",
            field="acceptance",
        )
    notes.take("acceptance", usual["draft_acceptance"], "serve_acceptance")
    return draft, drafted, usual["draft_acceptance"]


def _draft_model(name: str, model: TransformerArchitecture) -> TransformerArchitecture:
    """The draft's architecture: smaller, and with the model's vocabulary."""
    draft = facts.model(name)
    if not isinstance(draft, TransformerArchitecture) or draft.kind not in ("decoder", "moe-decoder"):
        raise ContradictionError(
            f"speculative {name}: it does not produce text; give a smaller language model, or ngram", field="speculative"
        )
    if draft.params_total >= model.params_total:
        raise ContradictionError(
            f"speculative {name} contradicts model {model.name}: a draft must be smaller than the model that checks it", field="speculative"
        )
    if abs(draft.vocab_size - model.vocab_size) > VOCABULARY_SLACK * model.vocab_size:
        raise ContradictionError(
            f"speculative {name} contradicts model {model.name}: their vocabularies differ ({draft.vocab_size} and {model.vocab_size} tokens); "
            "give a model of the same family, or ngram",
            field="speculative",
        )
    return draft
