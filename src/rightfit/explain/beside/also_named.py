"""GPUs and clouds that were asked for by name and lead no row that is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.explain.beside.in_words import led_if, way_text
from rightfit.explain.beside.questions import worded
from rightfit.market.names import find_provider
from rightfit.market.sellers import DEFAULT_TIER, tier_of
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Plan

#: Named GPUs of which each gets a line.
_MOST_CARDS = 6
#: Rows of a plan that are shown.
_SHOWN = 3


def other_card_lines(plan: Plan, catalog: Catalog, lang: Lang) -> list[str]:
    """A line for each GPU and cloud that was asked for by name and leads no row that is shown: its
    best way, by other sellers where the usual ones have none, or that there is none."""
    if plan.best is None or plan.best.purchase == "owned":
        return []
    wish, shown = plan.workload, plan.options[:_SHOWN]
    cards = [name for name in wish.gpu if facts.match_accelerators(name)]
    lines = []
    if 2 <= len(cards) <= _MOST_CARDS:
        led = {option.accelerator.name for option in shown}
        lines += [_named_line(plan, catalog, lang, "gpu", name) for name in cards if not led & set(facts.match_accelerators(name))]
    clouds = [find_provider(name) or name for name in wish.cloud]
    if 2 <= len(clouds) <= _MOST_CARDS:
        led = {option.provider for option in shown}
        lines += [_named_line(plan, catalog, lang, "cloud", name) for name in clouds if name not in led]
    return lines


def _named_line(plan: Plan, catalog: Catalog, lang: Lang, asked: str, name: str) -> str:
    """The best way with one of the GPUs or clouds that were named."""
    wish = plan.workload
    option = led_if(plan, catalog, **{asked: name}) or (None if wish.sellers else led_if(plan, catalog, **{asked: name, "sellers": "all"}))
    if option is None:
        return worded("card_none" if asked == "gpu" else "cloud_none", lang, card=name)
    is_usual = bool(wish.sellers) or asked == "cloud" or tier_of(option.provider, option.purchase) <= DEFAULT_TIER
    return worded("card_row" if is_usual else "card_row_sellers", lang, card=name, way=way_text(option, lang))
