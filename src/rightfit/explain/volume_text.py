"""Where so much data lie, in words: every tier, the one that holds, and what a month of it costs. Faces draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.planner.volume import VolumeDecision


@dataclass(frozen=True, slots=True)
class VolumeStep:
    """One tier: how much data it is for, with what it says, and whether it holds here."""

    span: str
    span_text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class VolumeText:
    """The decision: heading, tiers from small to large, and the bill."""

    head: str
    steps: tuple[VolumeStep, ...]
    bill: str


def volume_text(made: VolumeDecision, lang: Lang) -> VolumeText:
    """The words of a decision."""
    ends = [*(least for _, least in made.tiers[1:]), None]
    steps = []
    for (name, least), end in zip(made.tiers, ends, strict=True):
        above = end is None
        span = label("volume", "above" if above else "below", lang, low=q.data_text(least), high="" if above else q.data_text(end or 0.0))
        steps.append(VolumeStep(span, label("volume", name, lang, span=span), name == made.tier))
    rates = {"read": f"{q.data_text(made.read_bytes_per_s)}/s", "rate": f"{made.parallel_bytes_per_s / 1e9:.3g} GB/s"}
    money = {"object": q.money_text(made.object_usd_per_month), "parallel": q.money_text(made.parallel_usd_per_month)}
    bill = label("volume", "bill", lang, **rates, **money, held=q.data_text(made.parallel_bytes))
    return VolumeText(label("volume", "head", lang, size=q.data_text(made.data_bytes)), tuple(steps), bill)
