"""Cards by the names that drivers and exporters give them: "NVIDIA H100 80GB HBM3" is an H100 for SXM."""

from __future__ import annotations

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts.devices import named_by_driver

_PARTS = " MIG "


def card_named(text: str) -> str:
    """Our name of a card; the text as it is where it is none that is known, or only a part of a card (MIG)."""
    if not text or _PARTS in text:
        return text
    try:
        return facts.accelerator(named_by_driver(text) or text).name
    except RightfitError:
        return text
