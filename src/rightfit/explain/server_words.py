"""What a server is and what its rent is, the same for every kind of plan."""

from __future__ import annotations

import math

from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang, say
from rightfit.search.answer import Option


def server_text(option: Option, lang: Lang) -> str:
    """What a server is: its vCPUs and RAM, and its cards."""
    fields = {"vcpus": q.plain(option.vcpus), "memory": q.memory_text(option.memory_bytes)}
    if not option.accelerator.name:
        return say("host.cores", lang, **fields)
    cards = say("choice.cards_short", lang, count=option.accelerator.count_per_node, name=option.accelerator.name)
    return say("host.cores_and_cards", lang, **fields, cards=cards)


def cards_text(option: Option, lang: Lang) -> str:
    """The cards of a server; of one without, what it is."""
    if not option.accelerator.name:
        return server_text(option, lang)
    return say("choice.cards_short", lang, count=option.accelerator.count_per_node, name=option.accelerator.name)


def server_headline(option: Option, lang: Lang, *, currency: str) -> str:
    """What to rent, where, how to pay, and its price per hour."""
    return rent_text(option, server_text(option, lang), lang, currency=currency)


def rent_text(option: Option, cards: str, lang: Lang, *, currency: str) -> str:
    """The same for every kind of plan: how it words what a server has is given. A server without price is named and no more."""
    key = "choice.rent_unpriced" if not is_priced(option) else "choice.own" if option.purchase == "owned" else "choice.rent"
    text = say(
        key,
        lang,
        nodes="" if option.nodes == 1 else say("choice.nodes_prefix", lang, count=option.nodes),
        instance=option.instance_type,
        provider=q.provider_text(option.provider, lang),
        region=q.region_text(option.region, lang),
        purchase=q.purchase_text(option.purchase, lang),
        cards=cards,
        price=q.money_text(option.cost.hourly_usd, currency),
    )
    return join_sentences(text, doubted_price_text(option, lang), lang)


def join_sentences(first: str, second: str, lang: Lang) -> str:
    """Two sentences as one line."""
    return f"{first}{'' if lang == 'zh' or not second else ' '}{second}"


def doubted_price_text(option: Option, lang: Lang) -> str:
    """That the price of the choice is old, or one that nobody asks: no fresh one does it. Empty for a sound price."""
    if not is_priced(option) or not option.purchase:
        return ""
    if option.facts.get("is_estimate"):
        return say(f"choice.price_{option.facts.get('price_kind') or 'estimate'}", lang)
    is_old = option.facts.get("price_is_old") or option.facts.get("is_stale")
    return say("choice.price_old", lang, as_of=option.price_as_of) if is_old else ""


def is_priced(option: Option) -> bool:
    """Whether a price of the server is known: what it costs is told only then."""
    return math.isfinite(option.cost.hourly_usd)


def priced_text(option: Option, lang: Lang) -> str:
    """Date and source of the price."""
    return say("choice.priced", lang, as_of=option.price_as_of, source=option.price_source) if is_priced(option) else ""
