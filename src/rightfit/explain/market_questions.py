"""Questions about the market that name no job ("A100在AWS一小时多少钱", "which GPUs has Tencent",
"T4 or A10"), answered from the catalog and the table of cards.

Words are data (data/market_questions.toml). What a sentence names is read as a wish is: it is such
a question where nothing but cards, places and ways to pay are named.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts, lookup
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import NAMED_SERVER, card_pattern, faster_text
from rightfit.explain.messages import topic, topic_text
from rightfit.facts.expressions import Expression, expression
from rightfit.facts.tables import says
from rightfit.messages import LANGS, Lang
from rightfit.units import GIB, HOURS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog
    from rightfit.market.offers import OfferTable
    from rightfit.market.verdicts import CheckResult

#: What a question about the market may name. A time ("一小时", "3 天") is its period; what cards
#: are for ("for inference") chooses none of them without a model.
_NAMED = frozenset(
    {"gpu", "cloud", "region", "country", "purchase", "objective", "num_gpus", "deadline", "currency", "max_nodes", "task", "method"}
)
_MOST_ROWS = 8

_WAYS = ("on-demand", "spot")


def _table() -> Mapping[str, Any]:
    return topic("market_questions")


@functools.cache
def _pattern(name: str) -> Expression:
    return expression("|".join(_table()["words"][name]))


_text = functools.partial(topic_text, "market_questions")


def market_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a question about the market; None for any other sentence."""
    asked = {name for name in ("price", "list", "who", "has", "compare") if _pattern(name).search(sentence)}
    for reader in (_own_or_rent, way_to_pay, _why_dear, _why_not, _spot_saving, _measured, _figures_of_card):
        if (found := reader(sentence, catalog)) is not None:
            return found
    if "price" in asked and not _pattern("price").search(_pattern("amount").sub(" ", sentence)):
        asked.discard("price")  # "how much VRAM"
    if "price" in asked and (priced := _server_prices(sentence, catalog)) is not None:
        return priced
    if asked <= {"has", "list"} and _pattern("deed").search(sentence):
        return None  # whether something can be done with it, not whether it is to be had
    outside = _OUTSIDE.search(sentence)
    if not asked or not (named := _named(_OUTSIDE.sub(" ", sentence))):
        return None
    spoken = _cards_compared(sentence) if "compare" in asked else []
    if "compare" in asked and len(sizes := named.get("gpu", "").split(",")) > max(len(spoken), 1):  # A100 40GB 和 80GB
        spoken = sizes
    if len(spoken) > 1 and set(named) <= {"gpu", "objective", "task", "method", "num_gpus"} | ({"cloud"} if _replaces(sentence) else set()):
        return _result(sentence, spoken[0], {lang: compared(spoken, sentence, catalog, lang) for lang in LANGS}, {"cards": spoken})
    spoken = [name for name in named.get("gpu", "").split(",") if name]
    cards = tuple(dict.fromkeys(card for name in spoken for card in facts.match_accelerators(name)))
    if not cards and not ("cloud" in named and asked & {"list", "has", "who", "price"}):
        return None
    hours = _hours(sentence, named.get("deadline"))
    told = {lang: _told(named, cards, asked, hours, catalog, lang) for lang in LANGS}
    if outside:
        told = {lang: [_text("not_a_cloud", lang, cloud=outside["cloud"]), *told[lang]] for lang in LANGS}
    return _result(sentence, " ".join(spoken) or named["cloud"], told, {"named": named})


def _replaces(sentence: str) -> bool:
    """Whether one card is to stand in for another: whose it is ("华为昇腾") is no cloud then."""
    return bool(_pattern("replace").search(sentence))


#: Sellers that people ask for and whose prices no source of ours has.
_OUTSIDE = re.compile(
    r"(?<![A-Za-z])(?P<cloud>AutoDL|Featurize|恒源云|矩池云|极链云|揽睿星舟|智星云)(?:\s*上的?|\s*的)?(?![A-Za-z])", re.IGNORECASE
)


def _job_free(sentence: str) -> dict[str, Any] | None:
    """What a sentence without a model names; None where it names one or cannot be read."""
    from rightfit.workload.ask import understand

    try:
        wishes = understand(sentence).wishes
    except RightfitError:
        return None
    return None if "model" in wishes else wishes


def _own_or_rent(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Whether to buy servers, by the price of one against the market: of the card that is named,
    else of one that is typical; None where a job is told."""
    from rightfit.explain.market_statements import judge_statement
    from rightfit.search.ownership import own_of

    if not _pattern("own").search(sentence) or (wishes := _job_free(sentence)) is None:
        return None
    gpu = str(wishes.get("gpu") or "").split(",")[0]
    if gpu:
        count = int(wishes.get("num_gpus") or 1)
        try:
            used = {"share": {"utilisation": f"{daily / 24.0:.0%}"}} if (daily := hours_a_day(sentence)) else {}
            place = "home" if count <= _AT_HOME and says("setup", "geforce", facts.accelerator(gpu, typical=True).name) else None
            content = own_of(gpu, catalog=catalog, count=count, texts=used, place=place).content
        except RightfitError:
            content = {}
        if hourly := [rent for rent in content.get("rents", ()) if not rent["is_committed"]]:
            return _result(sentence, "own", {lang: _own_lines(content, hourly, gpu, count, lang) for lang in LANGS}, {"gpu": gpu})
    found = judge_statement("market_own_for_steady_training", catalog)
    told = {lang: [found.reason(lang), f"`rightfit own {shlex.quote(gpu or 'A100')}`"] for lang in LANGS}
    return _result(sentence, "own", told, dict(found.figures))


#: What takes longer to pay back than a server is used does not [years].
_LONGEST_PAYBACK = 10.0


#: As many cards for games as a desktop takes.
_AT_HOME = 2


def _own_lines(content: Mapping[str, Any], rents: Sequence[Mapping[str, Any]], gpu: str, count: int, lang: Lang) -> list[str]:
    from rightfit.search.ownership import NEVER

    steady = [rent for rent in rents if rent["purchase"] == "on-demand"] or rents  # spot is not there at all hours
    least = min(steady, key=lambda rent: float(rent["usd_per_h"]))
    even = float(least["break_even"])
    fields = {
        "count": count,
        "card": facts.accelerator(gpu, typical=True).name,
        "own": q.money_text(float(content["usd_per_busy_h"])),
        "rent": q.money_text(float(least["usd_per_h"])),
        "share": q.percent_text(float(content["assumptions"]["utilisation"])),
        "even": q.percent_text(min(even, 1.0)),
    }
    price = {name: q.money_text(float(content[f"capex{end}_usd"])) for name, end in (("price", ""), ("low", "_low"), ("high", "_high"))}
    price["power"] = q.money_text(float(content["yearly_terms"]["power_usd"]))
    lines = [_text("own_price", lang, count=count, card=fields["card"], share=fields["share"], **price)]
    lines.append(_text("own_pays" if even < min(NEVER, 1.0) else "own_never", lang, **fields))
    if math.isfinite(years := float(least.get("payback_years") or math.inf)) and years < _LONGEST_PAYBACK:
        lines.append(_text("own_back", lang, rent=fields["rent"], years=f"{years:.2g}", share=fields["share"]))
    at_home = content["place"] == "home"
    command = f"`rightfit own {shlex.quote(f'{count}x{gpu}')}{' --place home' if at_home else ''}`"
    return [*lines, *([_text("own_home", lang)] if at_home else []), command]


def way_to_pay(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Between two ways to pay: when which; with a time told, against the hours from which a
    commitment pays off. None where a job is told."""
    from rightfit.explain.market_statements import judge_statement
    from rightfit.units import parse_duration

    ways = [name for name, words in _table()["ways"].items() if expression(words).search(sentence)]
    if (daily := hours_a_day(sentence)) and ways == ["reserved"] and _pattern("pays").search(sentence):
        ways = ["on-demand", "reserved"]  # 每天用 8 小时，包月划算吗
    elif len(ways) == 1 and _pattern("suits").search(sentence):
        return _way_for_so_long(sentence, ways[0], catalog)
    elif len(ways) < 2 or not _pattern("choose").search(sentence):
        return None
    if (wishes := _job_free(sentence)) is None:
        return None
    spot, committed = (judge_statement(f"market_{name}", catalog) for name in ("spot_saves_50_to_90", "subscription_for_long_use"))
    hours = committed.figures["hours"]
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        told[lang] = [_text(f"choice_{ways[0]}_{ways[1]}", lang, hours=f"{hours:.0f}")]
        if daily:
            month = daily * HOURS_PER_MONTH / 24.0
            key = "choice_daily" if month < hours else "choice_daily_long"
            told[lang].append(_text(key, lang, daily=f"{daily:g}", month=f"{month:.0f}", hours=f"{hours:.0f}"))
        elif time := wishes.get("deadline"):
            seconds = parse_duration(str(time))
            key = "choice_time" if seconds < hours * 3600 else "choice_time_long"
            told[lang].append(_text(key, lang, time=q.duration_text(seconds, lang), hours=f"{hours:.0f}"))
        told[lang] += [one.reason(lang) for one, name in ((spot, "spot"), (committed, "reserved")) if name in ways]
    return _result(sentence, "pay", told, {"ways": ways, **committed.figures})


def _way_for_so_long(sentence: str, way: str, catalog: Catalog) -> CheckResult | None:
    """Whether a way to pay is right for so many hours or days: of spot by the chance that a server
    is taken back in them, of a commitment by the hours from which it pays off."""
    from rightfit.explain.market_statements import judge_statement
    from rightfit.physics.interruption import interruptions_per_s
    from rightfit.search.offers import read_market_facts
    from rightfit.units import parse_duration

    wishes = _job_free(sentence)
    if wishes is None or "deadline" not in wishes or way not in ("spot", "reserved") or _pattern("notice").search(sentence):
        return None  # a notice of so long is no time of use
    seconds = parse_duration(str(wishes["deadline"]))
    name = "spot_saves_50_to_90" if way == "spot" else "subscription_for_long_use"
    statement = judge_statement(f"market_{name}", catalog)
    known: dict[str, Any] = {"seconds": seconds, **statement.figures}
    if way == "spot":
        market = read_market_facts(catalog, catalog.all_offers(has_accelerator=True))
        is_spot = market.spot_high > 0
        monthly = np.array([np.median(share[is_spot]) for share in (market.spot_low, market.spot_high)])
        known["taken_back"] = (-np.expm1(-interruptions_per_s(monthly) * seconds)).tolist()
        key, claim = "spot_span", "unknown" if _pattern("taken_back").search(sentence) else "right"
    else:
        is_long = seconds >= statement.figures["hours"] * 3600
        key, claim = ("choice_time_long", "right") if is_long else ("choice_time", "wrong")
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        low, high = (q.percent_text(float(one)) for one in known.get("taken_back", (0.0, 0.0)))
        hours = f"{statement.figures.get('hours', 0.0):.0f}"
        told[lang] = [_text(key, lang, time=q.duration_text(seconds, lang), hours=hours, low=low, high=high), statement.reason(lang)]
    return dataclasses.replace(_result(sentence, "pay", told, known), claim=claim)


def daily_claim(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The verdict on which way to pay is said to pay off for so many hours a day; None where that
    is not said."""
    from rightfit.explain.market_statements import judge_statement

    pays = _pattern("pays").search(sentence)
    if not (daily := hours_a_day(sentence)) or pays is None:
        return None
    said = {
        name: max((one.end() for one in expression(words).finditer(sentence[: pays.start()])), default=-1)
        for name, words in _table()["ways"].items()
    }
    way = max(said, key=lambda name: said[name])
    if said[way] < 0 or way == "spot":
        return None
    figures = judge_statement("market_subscription_for_long_use", catalog).figures
    hours, month = figures["hours"], daily * HOURS_PER_MONTH / 24.0
    key = "choice_daily" if month < hours else "choice_daily_long"
    told = {lang: [_text(key, lang, daily=f"{daily:g}", month=f"{month:.0f}", hours=f"{hours:.0f}")] for lang in LANGS}
    claim = "right" if (way == "on-demand") == (month < hours) else "wrong"
    return dataclasses.replace(_result(sentence, "pay", told, {"ways": [way], **figures}), claim=claim)


def _spot_saving(sentence: str, catalog: Catalog) -> CheckResult | None:
    """How much cheaper spot or a commitment is, of the clouds and cards that are named."""
    from rightfit.explain.market_statements import COMMITMENTS, price_ratios
    from rightfit.market.offers import OfferFilter

    way = next((name for name in ("spot", "reserved") if re.search(_table()["ways"][name], sentence, re.IGNORECASE)), "")
    if not _pattern("saving").search(sentence) or not way:
        return None
    if (wishes := _job_free(sentence)) is None:
        return None
    clouds = tuple(lookup.read_names("cloud", wishes["cloud"])) if "cloud" in wishes else ()
    spoken = [name for name in str(wishes.get("gpu") or "").split(",") if name]
    cards = tuple(card for name in spoken for card in facts.match_accelerators(name))
    saved = 1.0 - price_ratios(
        catalog.offers(OfferFilter(providers=clouds, gpus=cards, has_accelerator=True)), ("spot",) if way == "spot" else COMMITMENTS
    )
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        place = q.provider_text(", ".join(clouds), lang) if clouds else _text("all_clouds", lang)
        what = " ".join([place, *spoken])
        if not len(saved):
            told[lang] = [_text("spot_saving_none", lang, what=what)]
            continue
        low, mid, high = (q.percent_text(float(one)) for one in np.percentile(saved, (25, 50, 75)))
        told[lang] = [_text(f"{way}_saving", lang, what=what, count=len(saved), low=low, mid=mid, high=high)]
    return _result(sentence, "spot", told, {"clouds": list(clouds), "cards": list(cards), "count": len(saved)})


def _measured(sentence: str, catalog: Catalog) -> CheckResult | None:
    """How much faster or which cheaper of two cards, however the sentence joins them."""
    if not any(_pattern(name).search(sentence) for name in ("faster", "which_cheaper", "better")):
        return None
    spoken, wishes = _cards_compared(sentence), _job_free(sentence)
    if len(spoken) < 2 or wishes is None or not set(wishes) <= {"gpu", "objective", "method", "task"}:
        return None
    return _result(sentence, spoken[0], {lang: compared(spoken, sentence, catalog, lang) for lang in LANGS}, {"cards": spoken})


def _figures_of_card(sentence: str, catalog: Catalog) -> CheckResult | None:
    """What a card has, of which a figure is asked; None where more than the card is named."""
    if (
        not _pattern("figure").search(sentence)
        or set(_job_free(sentence) or {"": ""}) != {"gpu"}
        or not (spoken := _cards_compared(sentence))
    ):
        return None
    cards = [facts.accelerators()[name] for one in spoken for name in facts.match_accelerators(one)][:_MOST_ROWS]
    told = {lang: [card_line(card, catalog, lang) for card in cards] for lang in LANGS}
    return _result(sentence, spoken[0], told, {"cards": [card.name for card in cards]})


def _why_not(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Why a card is not in a plan: what it is, who rents it, and how to ask for it."""
    from rightfit.market.sellers import DEFAULT_TIER, tier_of

    if not _pattern("why_not").search(sentence) or _job_free(sentence) is None or not (spoken := _cards_compared(sentence)):
        return None
    card = facts.accelerator(spoken[0], typical=True)
    clouds = list(_by_cloud(_offers({}, (card.name,), catalog)))
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        lines = [_text("why_not", lang, card=spoken[0], name=shlex.quote(spoken[0])), card_line(card, catalog, lang)]
        if clouds:
            lines.append(_text("why_sellers", lang, clouds=q.provider_text(", ".join(clouds[:_MOST_ROWS]), lang)))
        if small := [cloud for cloud in clouds if tier_of(cloud) > DEFAULT_TIER]:
            lines.append(_text("why_small", lang, clouds=q.provider_text(", ".join(small[:_MOST_ROWS]), lang)))
        if re.match(r"RTX-[2345]0\d0|GTX", card.name):
            lines.append(_text("why_geforce", lang))
        told[lang] = lines
    return _result(sentence, spoken[0], told, {"card": card.name, "clouds": clouds})


_CLAUSE_END = re.compile(r"[,，;；。?？]|\band\b")


def _why_dear(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Why a card costs more at one cloud, or is not to be had there: its price there against the
    least, and what the difference buys. What is asked before it is answered for all clouds: the
    one in the question why chooses none."""
    asked = _pattern("why").search(sentence)
    if asked is None or _job_free(sentence) is None or len(spoken := _cards_compared(sentence)) != 1:
        return None
    start = max((at.end() for at in _CLAUSE_END.finditer(sentence) if at.end() <= asked.start()), default=0)
    before, behind = sentence[:start], sentence[start:]
    is_dear, is_lacking = (bool(_pattern(name).search(behind)) for name in ("dear", "lacking"))
    cards = facts.match_accelerators(spoken[0])
    clouds = [one for one in str((_job_free(behind) or {}).get("cloud", "")).split(",") if one]
    if not cards or not clouds or not (is_dear or is_lacking):
        return None
    names = list(dict.fromkeys(one for cloud in clouds for one in lookup.read_names("cloud", cloud)))
    prices = dict(clouds_of(cards, catalog))
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    for lang in LANGS:
        if _pattern("price").search(before):
            named = {**(_job_free(before) or {}), "gpu": spoken[0]}
            told[lang] += _told(named, cards, {"price"}, _hours(before, named.get("deadline")), catalog, lang)
        for cloud in names:
            where, least = q.provider_text(cloud, lang), min(prices, key=lambda one: prices[one], default="")
            if cloud not in prices:
                told[lang].append(_elsewhere(spoken[0], where, cards, catalog, lang))
            elif least:
                fields = {"price": q.money_text(prices[cloud]), "least": q.money_text(prices[least]), "other": q.provider_text(least, lang)}
                told[lang].append(_text("why_dear", lang, cloud=where, ratio=f"{prices[cloud] / prices[least]:.1f}", **fields))
        if any(cloud not in prices for cloud in names) and says("setup", "geforce", facts.accelerator(spoken[0], typical=True).name):
            told[lang].append(_text("why_geforce", lang))
        elif any(cloud in prices for cloud in names):
            told[lang].append(_text("why_reasons", lang))
    return _result(sentence, spoken[0], told, {"card": spoken[0], "clouds": names})


def hours_a_day(sentence: str) -> float:
    """The hours of each day that something is used, of a span the upper end; 0 where none are
    told."""
    found = _pattern("hours_a_day").search(sentence)
    return float(next((group for group in reversed(found.groups()) if group), 0.0)) if found else 0.0


def _hours(sentence: str, told: Any) -> float:
    """The hours that a price is asked for: of a month, of the time that is told, else one."""
    from rightfit.units import parse_duration
    from rightfit.workload.ask.grammar import DURATION

    if (daily := hours_a_day(sentence)) and _pattern("month").search(sentence):
        return round(daily * HOURS_PER_MONTH / 24.0, 1)
    if _pattern("month").search(sentence):
        return HOURS_PER_MONTH
    every = next((hours for words, hours in _EVERY.items() if expression(words).search(sentence)), 0.0)
    if not told and (said := DURATION.search(sentence)):  # "3 天 多少钱" is no deadline of a job
        told = said[0].strip()
    return every or (parse_duration(str(told)) / 3600.0 if told else 1.0)


#: Times that a price is asked for by their name alone.
_EVERY: Mapping[str, float] = {
    r"[一每]天|日租|/天|\b(?:a|per|each) day\b|\bdaily\b": 24.0,
    r"[一每](?:个)?(?:星期|周)|/周|\b(?:a|per) week\b|\bweekly\b": 168.0,
    r"[一每]年|/年|\b(?:a|per) year\b|\b(?:yearly|annually)\b": 12 * HOURS_PER_MONTH,
}


def _cards_compared(sentence: str) -> list[str]:
    """The cards that a sentence names, as they are written."""
    return list(dict.fromkeys(found[0] for found in card_pattern().finditer(sentence) if facts.match_accelerators(found[0])))


def is_of_store(sentence: str) -> bool:
    """Whether a sentence is about an object store: S3 is a series of servers too."""
    store = re.search(topic("topic_questions")["classes"]["object_store"], sentence, re.IGNORECASE)
    return store is not None and not re.search(topic("server_questions")["words"]["series"], sentence, re.IGNORECASE)


def _server_prices(sentence: str, catalog: Catalog) -> CheckResult | None:
    """What a server or the sizes of a series cost, by the hour or for a month; None where the
    sentence names none, or a model."""
    from rightfit.market.server_names import exact_servers, series_members
    from rightfit.market.verdicts import by_size, named_shape, server_facts
    from rightfit.workload.ask import understand

    if is_of_store(sentence):
        return None
    words = [word for word in re.findall(r"[A-Za-z][\w.-]*\d[\w.-]*", sentence, re.ASCII) if not facts.match_accelerators(word)]
    name = next((word for word in words if exact_servers(catalog, word) or series_members(catalog, word)), "")
    if not name:
        return None
    try:
        wishes = understand(sentence.replace(name, " ")).wishes
    except RightfitError:
        return None
    if "model" in wishes:
        return None
    hours = _hours(sentence, wishes.get("deadline"))
    lines: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    for row in by_size(catalog, exact_servers(catalog, name)[:1] or series_members(catalog, name)):
        price = server_facts(catalog, row)["price"]
        if price is None or len(lines["en"]) >= _MOST_ROWS:
            continue
        amount = price["price_usd_per_h"] * hours
        month = _subscribed(row, price["region"], catalog) if hours == HOURS_PER_MONTH else None
        for lang in LANGS:
            key = _period("server", hours)
            shown = {
                "hours": f"{hours:g}",
                "server": named_shape(catalog, row),
                "price": q.money_text(amount),
                "region": q.region_text(price["region"], lang),
            }
            told = _text(key, lang, as_of=price["as_of"], **shown)
            if month is not None:
                shown |= {"price": q.money_text(month["price_usd_per_h"] * hours), "on_demand": q.money_text(amount)}
                shown["region"] = q.region_text(month["region"], lang)
                told = _text("server_subscribed", lang, as_of=month["as_of"], **shown)
            lines[lang].append(told)
    return _result(sentence, name, lines, {"server": name}) if lines["en"] else None


def _subscribed(row: int, region: str, catalog: Catalog) -> dict[str, Any] | None:
    """The price of a month's subscription of a server in a region, else where it is least; None
    where the catalog has none."""
    from rightfit.market.offers import PURCHASE_CODES

    offers = catalog.offers_of(row)
    rows = np.flatnonzero((offers.purchase_index == PURCHASE_CODES["subscription-1m"]) & ~offers.is_quarantined)
    found = [offers.row(at) for at in rows.tolist()]
    return min(found, key=lambda one: (one["region"] != region, one["price_usd_per_h"]), default=None)


def _period(head: str, hours: float) -> str:
    """The text for a price by the hour, for a month or for some hours."""
    return f"{head}_hour" if hours == 1.0 else f"{head}_month" if hours == HOURS_PER_MONTH else f"{head}_hours"


def _result(query: str, name: str, told: Mapping[Lang, Sequence[str]], facts_: Mapping[str, Any]) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    return CheckResult(query, "market", True, None, {"name": name, **facts_}, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _named(sentence: str) -> dict[str, str]:
    """What a sentence names, {} where it names a job or words that mean something else."""
    from rightfit.workload.ask import understand

    try:
        found = understand(sentence)
    except RightfitError:
        return {}
    if found.own_machine or found.kind or not set(found.wishes) <= _NAMED:
        return {}
    filler = re.compile(
        rf"(?:{_pattern('filler').pattern}|{'|'.join(_table()['words'][name][0] for name in ('list', 'who'))}|[\s的吗么呢]|\d)+", re.I
    )
    known = [_pattern(name) for name in _table()["words"]]
    unknown = [word for word in found.weighty if not filler.fullmatch(_beside(word, known)) and _beside(word, known)]
    return {} if unknown else {name: str(value) for name, value in found.wishes.items()}


def _beside(word: str, known: Sequence[Expression]) -> str:
    """What is left of words without those that questions about the market are asked with."""
    return functools.reduce(lambda rest, pattern: pattern.sub(" ", rest), known, word).strip()


# ---- Prices and servers.


def _told(named: Mapping[str, str], cards: Sequence[str], asked: set[str], hours: float, catalog: Catalog, lang: Lang) -> list[str]:
    places = {name: named[name] for name in ("cloud", "region", "country") if name in named}
    offers, count = _offers(places, cards, catalog), int(named.get("num_gpus", 1))
    monthly = _monthly(places, cards, catalog, lang) if hours == HOURS_PER_MONTH and count == 1 and cards else []
    if not cards and "price" in asked and not asked & {"list", "who"}:
        return _cheapest_servers(offers, named["cloud"], hours, lang)
    if not cards:
        return _families(offers, named["cloud"], lang)
    cloud = q.provider_text(", ".join(lookup.read_names("cloud", named["cloud"])), lang) if "cloud" in named else ""
    if count > 1:
        offers = offers.take(np.flatnonzero(offers.servers.num_accelerators[offers.server_index] == count))
    shown = named["gpu"].replace(",", "/") + (f" x {count}" if count > 1 else "")
    if not len(offers):
        return [_elsewhere(shown, cloud or named.get("region", "") or named.get("country", ""), cards, catalog, lang)]
    is_types = "cloud" in named and "list" in asked and "price" not in asked
    command = ["rightfit", "servers" if is_types else "prices", "--gpu", named["gpu"]]
    command += [word for name, value in places.items() for word in (f"--{name}", value)]
    is_spot = named.get("purchase") == "spot"
    way = "spot" if is_spot and "spot" in _ways(offers) else "on-demand"
    rows = _type_rows(offers, lang) if is_types else _price_rows(offers, way, hours * count, lang, is_one=bool(cloud))
    lines = rows[:_MOST_ROWS] + (
        [_text("more", lang, count=len(rows) - _MOST_ROWS, command=shlex.join(command))] if len(rows) > _MOST_ROWS else []
    )
    unit = _text("cards", lang, count=count) if count > 1 else _text("one_card", lang)
    way_text = _text("spot_way" if way == "spot" else way, lang)
    what = _text("of_cloud", lang, cloud=cloud) if cloud else ""
    head = [_text("no_spot", lang)] if is_spot and way != "spot" else []
    head += [] if is_types else [_text(_period("price", hours), lang, card=shown, what=what, unit=unit, way=way_text, hours=f"{hours:g}")]
    if monthly:
        head = [_text("month_head", lang, card=shown, what=what), *monthly, *head]
    if way == "on-demand" and not is_types and "purchase" not in named:
        lines += _least_spot(offers, hours * count, lang)
    return [*head, *lines, *([_text("stock", lang)] if asked & {"has", "who"} else [])]


def _least_spot(offers: OfferTable, times: float, lang: Lang) -> list[str]:
    """The least spot price of today, where the clouds that lead on demand sell none so low."""
    least = next((at for at, way in enumerate(_ways(offers)) if way == "spot" and not offers.is_stale[at]), None)
    if least is None:
        return []
    row, price = offers.row(least), q.money_text(float(_each(offers)[least]) * times)
    server = f"{row['instance_type']}, {_cards_of(offers, least)}"
    where, region = q.provider_text(row["provider"], lang), q.region_text(row["region"], lang)
    return [_text("least_spot", lang, where=where, price=price, server=server, region=region, as_of=row["as_of"])]


def _monthly(places: Mapping[str, str], cards: Sequence[str], catalog: Catalog, lang: Lang) -> list[str]:
    """The least price of a month's subscription of one card at each cloud that sells it so."""
    found = lookup.prices("", gpu=",".join(cards), purchase="subscription-1m", catalog=catalog, **dict[str, Any](places)).offers
    count = found.servers.num_accelerators[found.server_index]
    found = found.take(np.flatnonzero((count >= 1) & np.isfinite(found.price_usd_per_h)))
    each = _each(found)
    least: dict[str, int] = {}
    for at in np.argsort(each, kind="stable").tolist():
        least.setdefault(found.servers.provider[int(found.server_index[at])], at)
    lines = []
    for at in list(least.values())[:_MOST_ROWS]:
        row = found.row(at)
        shown = {
            "where": q.provider_text(row["provider"], lang),
            "price": q.money_text(float(each[at]) * HOURS_PER_MONTH),
            "server": f"{row['instance_type']}, {_cards_of(found, at)}",
            "region": q.region_text(row["region"], lang),
        }
        lines.append(_text("month_price", lang, as_of=row["as_of"], **shown))
    return lines


def _elsewhere(shown: str, place: str, cards: Sequence[str], catalog: Catalog, lang: Lang) -> str:
    """What is said of a card that is not rented where it was asked for."""
    others = list(_by_cloud(_offers({}, cards, catalog)))[:_MOST_ROWS]
    if not others or not place:
        return _text("nowhere", lang, card=shown)
    return _text("none", lang, card=shown, cloud=place, others=q.provider_text(", ".join(others), lang))


def _offers(places: Mapping[str, str], cards: Sequence[str], catalog: Catalog) -> OfferTable:
    """Offers on demand and spot of servers with whole cards, each at its price for one card and
    hour, the cheapest first."""
    shown = ",".join((*cards, *facts.labelled_as(tuple(cards))))
    found = lookup.prices("", gpu=shown, purchase=",".join(_WAYS), catalog=catalog, **dict[str, Any](places)).offers
    count = found.servers.num_accelerators[found.server_index]
    found = found.take(np.flatnonzero((count >= 1) & np.isfinite(found.price_usd_per_h)))
    return found.take(np.argsort(_each(found), kind="stable"))


def _cheapest_servers(offers: OfferTable, cloud: str, hours: float, lang: Lang) -> list[str]:
    """The GPU servers of a cloud that cost least, whole, by the hour or for a month."""
    count = offers.servers.num_accelerators[offers.server_index]
    ordered = offers.take(np.argsort(_each(offers) * count, kind="stable"))
    best: dict[int, int] = {}
    for at, (server, way) in enumerate(zip(ordered.server_index.tolist(), _ways(ordered), strict=True)):
        if way == "on-demand":
            best.setdefault(server, at)
    name = q.provider_text(", ".join(lookup.read_names("cloud", cloud)), lang)
    lines = [_text(_period("cheapest", hours), lang, cloud=name, hours=f"{hours:g}")]
    for at in list(best.values())[:_MOST_ROWS]:
        row = ordered.row(at)
        shown = {
            "server": f"{row['instance_type']}, {_cards_of(ordered, at)}",
            "price": q.money_text(float(row["price_usd_per_h"]) * hours),
        }
        lines.append(_text("row", lang, where=name, region=q.region_text(row["region"], lang), as_of=row["as_of"], spot="", **shown))
    return lines


def _each(offers: OfferTable) -> Any:
    """Price of one card for an hour of each offer (N,) [USD/h]."""
    return offers.price_usd_per_h / offers.servers.num_accelerators[offers.server_index]


def clouds_of(cards: Sequence[str], catalog: Catalog) -> list[tuple[str, float]]:
    """The clouds that rent cards on demand, each with its least price for one [USD/h], the cheapest
    first."""
    offers = _offers({}, cards, catalog)
    each = _each(offers)
    return [(cloud, float(each[rows["on-demand"]])) for cloud, rows in _by_cloud(offers).items() if "on-demand" in rows]


def _by_cloud(offers: OfferTable) -> dict[str, dict[str, int]]:
    """The cheapest row of each cloud by the way to pay, clouds with the cheapest first."""
    found: dict[str, dict[str, int]] = {}
    for at, (server, way) in enumerate(zip(offers.server_index.tolist(), _ways(offers), strict=True)):
        found.setdefault(offers.servers.provider[server], {}).setdefault(way, at)
    return dict(sorted(found.items(), key=lambda one: one[1].get("on-demand", len(offers))))


def _ways(offers: OfferTable) -> list[str]:
    from rightfit.market.offers import PURCHASES

    return [PURCHASES[code] for code in offers.purchase_index.tolist()]


def _price_rows(offers: OfferTable, main: str, times: float, lang: Lang, *, is_one: bool) -> list[str]:
    """A row for each cloud, or for each server type of one cloud, by the price of one way to pay;
    `times`: so many hours of so many cards."""
    each = _each(offers)
    groups: dict[str, dict[str, int]] = {}
    for at, (server, way) in enumerate(zip(offers.server_index.tolist(), _ways(offers), strict=True)):
        name = offers.servers.provider[server]
        groups.setdefault(f"{name}/{offers.servers.instance_type[server]}" if is_one else name, {}).setdefault(way, at)
    # what is too old to be paid today leads nothing that is fresh
    priced = sorted(
        (rows for rows in groups.values() if main in rows), key=lambda rows: (bool(offers.is_stale[rows[main]]), each[rows[main]])
    )
    lines = []
    for rows in priced:
        row = offers.row(rows[main])
        spot = _text("spot", lang, price=q.money_text(float(each[rows["spot"]]) * times)) if "spot" in rows and main != "spot" else ""
        lines.append(
            _text(
                "row",
                lang,
                where=q.provider_text(row["provider"], lang),
                price=q.money_text(float(each[rows[main]]) * times),
                server=f"{row['instance_type']}, {_cards_of(offers, rows[main])}",
                region=q.region_text(row["region"], lang),
                as_of=row["as_of"],
                spot=spot,
            )
        )
    return lines


def _type_rows(offers: OfferTable, lang: Lang) -> list[str]:
    """A row for each server type, few cards first."""
    best: dict[int, int] = {}
    for at, (server, way) in enumerate(zip(offers.server_index.tolist(), _ways(offers), strict=True)):
        if way == "on-demand":
            best.setdefault(server, at)
    table = offers.servers
    few = sorted(best.items(), key=lambda one: (float(table.num_accelerators[one[0]]), float(offers.price_usd_per_h[one[1]])))
    rows = [(server, at, offers.row(at)) for server, at in few]
    return [
        _text(
            "type_row",
            lang,
            server=row["instance_type"],
            cards=_cards_of(offers, at),
            vcpus=q.plain(float(table.vcpus[server])),
            memory=q.memory_text(float(table.memory_bytes[server])),
            price=q.money_text(row["price_usd_per_h"]),
            region=q.region_text(row["region"], lang),
            as_of=row["as_of"],
        )
        for server, at, row in rows
    ]


def _cards_of(offers: OfferTable, at: int) -> str:
    server = int(offers.server_index[at])
    return f"{float(offers.servers.num_accelerators[server]):g} x {offers.servers.accelerator_name[server]}"


def _families(offers: OfferTable, cloud: str, lang: Lang) -> list[str]:
    """The cards of a cloud: series, how many a server has, the least price."""
    cards: dict[str, dict[str, Any]] = {}
    for at, (server, way) in enumerate(zip(offers.server_index.tolist(), _ways(offers), strict=True)):
        table = offers.servers
        entry = cards.setdefault(
            table.accelerator_name[server], {"series": {}, "counts": set(), "at": -1, "memory": table.accelerator_memory_bytes[server]}
        )
        entry["series"][table.family[server] or table.instance_type[server]] = True
        entry["counts"].add(float(table.num_accelerators[server]))
        if way == "on-demand" and entry["at"] < 0:
            entry["at"] = at
    each = _each(offers)
    head = _text("families", lang, cloud=q.provider_text(", ".join(lookup.read_names("cloud", cloud)), lang))
    lines = [
        _text(
            "family_row",
            lang,
            card=name,
            memory=q.memory_text(float(entry["memory"])),
            series=", ".join(list(entry["series"])[:4]),
            counts="/".join(f"{count:g}" for count in sorted(entry["counts"])),
            price=q.money_text(float(each[entry["at"]])) if entry["at"] >= 0 else _text("no_price", lang),
        )
        for name, entry in sorted(
            cards.items(), key=lambda one: -facts.accelerators()[one[0]].release_year if one[0] in facts.accelerators() else 0
        )
    ]
    return [head, *lines]


def card_rows(cloud: str, cards: Sequence[str], catalog: Catalog, lang: Lang) -> list[str]:
    """A line for each of these cards that a cloud rents: series, how many a server has, the least
    price."""
    return _families(_offers({"cloud": cloud}, cards, catalog), cloud, lang)[1:]


def single_price(sentence: str, catalog: Catalog) -> CheckResult | None:
    """What one card costs that a question names beside a server with several ("price of a single
    H100? I only see p5.48xlarge"); None of any other."""
    from rightfit.workload.ask.names import SERVER

    rest = SERVER.sub(" ", NAMED_SERVER.sub(" ", sentence))
    if not (_pattern("price").search(rest) and _pattern("single").search(rest)):
        return None
    spoken, wishes = _cards_compared(rest), _job_free(rest)
    if len(spoken) != 1 or wishes is None or (rest == sentence and ("cloud" not in wishes or not set(wishes) <= _NAMED)):
        return None
    cards = facts.match_accelerators(spoken[0])
    places: dict[str, str] = {name: str(wishes[name]) for name in ("cloud", "region", "country", "purchase") if name in wishes}
    named: dict[str, str] = {**places, "gpu": spoken[0], "num_gpus": "1"}
    hours = _hours(rest, wishes.get("deadline"))
    told: dict[Lang, list[str]] = {lang: _told(named, cards, {"price"}, hours, catalog, lang) for lang in LANGS}
    return _result(sentence, spoken[0], told, {"named": named})


# ---- "T4 or A10", "V100和A100区别".


def compared(spoken: Sequence[str], sentence: str, catalog: Catalog, lang: Lang) -> list[str]:
    """What was asked of two cards first (which is cheaper, how much faster one is), then each with
    what decides between them, and what fits."""
    from rightfit.explain.card_stacks import stack_lines

    cards = [_usual(name, catalog) for name in spoken]
    slow, *_, fast = sorted(cards, key=lambda card: (card.memory_bandwidth, card.bf16_flops))
    ratio = faster_text(fast, slow)[lang] + ("。" if lang == "zh" else ".")
    lines = [card_line(card, catalog, lang) for card in cards]
    prices = sorted((least[0], card.name) for card in cards if (least := _least(card.name, catalog)) is not None)
    is_price, is_speed = (bool(_pattern(name).search(sentence)) for name in ("cheaper", "faster"))
    head = [ratio] if is_speed else [_better_at(cards[0], cards[1], lang)] if len(cards) == 2 and not is_price else []
    if is_price and not is_speed and len(prices) > 1:
        (price, better), (dearer, other) = prices[0], prices[1]
        head.append(_text("cheaper", lang, better=better, price=q.money_text(price), other=other, dearer=q.money_text(dearer)))
    money = per_money(cards, catalog, lang) if not is_speed or is_price or _pattern("better").search(sentence) else []
    rooms = [_text("room_of", lang, name=card.name, size=f"{math.floor(card.memory_bytes / GIB / 2)}") for card in cards]
    room = _text("room", lang, rooms=("、" if lang == "zh" else ", ").join(rooms))
    return [
        *head,
        *lines,
        *([] if is_speed else [ratio]),
        *money,
        *stack_lines(cards, lang),
        *new_cuda_lines(cards, lang),
        room,
        f"`rightfit plan MODEL --gpu {shlex.quote(','.join(spoken))}`",
    ]


def _usual(spoken: str, catalog: Catalog) -> Accelerator:
    """The form of a card that is meant: the most usual, of those that somebody rents."""
    from rightfit.explain.claim_words import usual_card

    names = facts.match_accelerators(spoken)
    return facts.accelerator(spoken, typical=True) if len(names) < 2 else usual_card(names, catalog)


#: Figures up to so far apart are the same.
_EQUAL = 1.05


def _better_at(one: Accelerator, other: Accelerator, lang: Lang) -> str:
    """Which of two cards generates tokens faster, and which trains and reads prompts faster."""
    from rightfit.explain.claim_words import best_rate

    read, compute = one.memory_bandwidth / other.memory_bandwidth, best_rate(one) / best_rate(other)
    names = {name: (one if ratio >= 1.0 else other).name for name, ratio in (("reader", read), ("computer", compute))}
    read, compute = max(read, 1.0 / read), max(compute, 1.0 / compute)
    parts = ("read" if read > _EQUAL else "") + ("compute" if compute > _EQUAL else "")
    both = "both" if parts == "readcompute" and len(set(names.values())) == 1 else "split" if parts == "readcompute" else parts or "same"
    times = {"read": f"{read:.1f}", "compute": f"{compute:.1f}"}
    return _text(f"better_{both}", lang, one=one.name, other=other.name, **names, **times)


#: Releases of CUDA from here on are not in images of usual age.
_NEW_CUDA = 12.8


def new_cuda_lines(cards: Sequence[Accelerator], lang: Lang) -> list[str]:
    """Cards that software of usual age does not run on."""
    return [
        _text("new_cuda", lang, card=card.name, cuda=card.min_cuda, capability=f"{card.compute_capability:.1f}")
        for card in cards
        if card.vendor == "NVIDIA" and card.min_cuda and float(card.min_cuda) >= _NEW_CUDA
    ]


def per_money(cards: Sequence[Accelerator], catalog: Catalog, lang: Lang) -> list[str]:
    """What a dollar an hour buys of each card, and which to take."""
    bought: dict[str, tuple[float, float, float]] = {}
    for card in cards:
        if (least := _least(card.name, catalog)) is not None:
            rate = max(card.bf16_flops, card.fp16_flops) / 1e12
            bought[card.name] = (rate / least[0], card.memory_bandwidth / 1e9 / least[0], card.memory_bytes / least[0])
    if len(bought) < 2:
        return []
    shown = [
        _text("per_money_of", lang, name=name, rate=f"{one:,.0f}", bandwidth=f"{two:,.0f}", memory=q.memory_text(three))
        for name, (one, two, three) in bought.items()
    ]
    best = [max(bought, key=lambda name, at=at: bought[name][at]) for at in range(3)]  # type: ignore[misc]
    key = "per_money_pick" if len(set(best)) == 1 else "per_money_split"
    each = ("；" if lang == "zh" else "; ").join(shown)
    told = [_text("per_money", lang, each=each), _text(key, lang, better=best[0], compute=best[0], bandwidth=best[1], memory=best[2])]
    largest = max(cards, key=lambda card: card.memory_bytes)
    if key == "per_money_split" and largest.memory_bytes > next(card for card in cards if card.name == best[2]).memory_bytes:
        told.append(_text("most_memory", lang, card=largest.name, memory=q.memory_text(largest.memory_bytes)))
    return told


def _least(card: str, catalog: Catalog) -> tuple[float, str] | None:
    """The least price on demand of a card for an hour, and at which cloud."""
    offers = _offers({}, (card,), catalog)
    clouds = {cloud: rows["on-demand"] for cloud, rows in _by_cloud(offers).items() if "on-demand" in rows}
    return min(((float(_each(offers)[at]), cloud) for cloud, at in clouds.items()), default=None)


def card_line(card: Accelerator, catalog: Catalog, lang: Lang) -> str:
    least = _least(card.name, catalog)
    price = (
        _text("card_price", lang, price=q.money_text(least[0]), cloud=q.provider_text(least[1], lang))
        if least
        else _text("nowhere", lang, card=card.name)
    )
    link = _text("nvlink", lang, rate=f"{card.nvlink_bandwidth / 1e9:.4g}") if card.nvlink_bandwidth else _text("pcie", lang)
    return _text(
        "card",
        lang,
        name=card.name,
        memory=q.memory_text(card.memory_bytes),
        bandwidth=f"{card.memory_bandwidth / 1e9:,.4g}",
        rate=f"{(max(card.bf16_flops, card.fp16_flops) or card.fp32_flops) / 1e12:,.4g}",
        bf16="" if card.supports_bf16 else _text("no_bf16", lang),
        fp8=_text("fp8", lang) if card.fp8_flops else "",
        link=link,
        year=card.release_year,
        price=price,
    )
