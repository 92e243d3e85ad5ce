"""Draft heads: one layer that drafts from a model's own hidden states (EAGLE, multi-token prediction), with the acceptance that is published."""

from __future__ import annotations

import dataclasses
import functools
import re

from rightfit.facts.parameter_count import count_parameters
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.tables import filled, table
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class DraftHead:
    """A kind of head. `acceptance` of a drafted token as published, with its ends; `models`: which have one in their checkpoint (empty:
    one must be found or trained)."""

    name: str
    words: tuple[str, ...]
    layers: int
    keeps_experts: bool
    draft_tokens: int
    acceptance: float
    acceptance_low: float
    acceptance_high: float
    models: str
    source: str

    def suits(self, model: TransformerArchitecture) -> bool:
        """Whether a model has such a head, or may be given one."""
        return not self.models or re.search(self.models, f"{model.name} {model.family}", re.IGNORECASE) is not None

    def of(self, model: TransformerArchitecture) -> TransformerArchitecture:
        """The head as an architecture: one layer of the model's width and vocabulary, dense unless it keeps the model's experts.

        The product that joins hidden state and embedding (two times the width squared) counts into its parameters.
        """
        is_moe = self.keeps_experts and model.num_experts > 0
        inner = model.intermediate_size or 4 * model.hidden_size
        head = dataclasses.replace(
            model,
            name=f"{self.name} head",
            kind="moe-decoder" if is_moe else "decoder",
            num_layers=self.layers,
            num_moe_layers=self.layers if is_moe else 0,
            num_experts=model.num_experts if is_moe else 0,
            experts_per_token=model.experts_per_token if is_moe else 0,
            num_shared_experts=model.num_shared_experts if is_moe else 0,
            first_dense_layers=0,
            num_full_attention_layers=min(model.num_full_attention_layers, self.layers),
            num_sliding_layers=0,
            num_linear_layers=0,
            intermediate_size=inner,
            params_vision=0,
            params_audio=0,
            vision_layers=0,
            params_stored=0,
            tied_embeddings=True,
        )
        count = count_parameters(head)
        joined = 2 * model.hidden_size**2
        return dataclasses.replace(
            head, params_total=count.total + joined, params_active=count.active + joined, params_embedding=count.embedding
        )


@functools.cache
def draft_heads() -> tuple[DraftHead, ...]:
    """Every kind of head that is known."""
    return tuple(filled(DraftHead, row, words=tuple(row["words"].split("|"))) for row in table("draft_heads"))


def draft_head(text: str) -> DraftHead | None:
    """The head that a word means; None where it is none of them."""
    word = text.strip().casefold().replace("_", "-")
    return next((head for head in draft_heads() if word in head.words), None)
