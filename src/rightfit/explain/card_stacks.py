"""What software runs on cards of other makers than NVIDIA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rightfit.explain.messages import topic
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator


def stack_lines(cards: Sequence[Accelerator], lang: Lang) -> list[str]:
    """What software runs on cards of other makers than NVIDIA."""
    stacks = topic("between_cards")["stack"]
    return [stacks[vendor][lang] for vendor in dict.fromkeys(card.vendor for card in cards) if vendor in stacks]
