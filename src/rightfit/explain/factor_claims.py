"""How many times one card, series or cloud is said to be ahead of another ("A10 比 T4 快一倍",
"gn7i 比 gn6i 贵一倍", "Lambda is cheaper than AWS for 8xA100"), judged by our own figures: times of
jobs, prices of the catalog, data sheets.

Words and texts are data (data/factors.toml).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import Judged, cards_of
from rightfit.explain.messages import topic
from rightfit.explain.trials import best_for
from rightfit.facts.expressions import Expression, expression
from rightfit.market.names import provider_display
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog

#: So far beside our figure a stated factor still holds: speeds and prices vary, data sheets do not.
_NEAR = {"speed": 0.2, "price": 0.2, "memory_bytes": 0.05, "memory_bandwidth": 0.1}


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two things: its words, and the card, the servers or the cloud that they name."""

    spoken: str
    card: str = ""
    rows: tuple[int, ...] = ()
    cloud: str = ""
    count: int = 0


@functools.cache
def _word(name: str) -> Expression:
    return expression(topic("factors")["words"][name])


@functools.cache
def _aspects() -> tuple[tuple[Expression, str, bool], ...]:
    rows = topic("factors")["aspects"].values()
    return tuple((expression(row["words"]), row["of"], row["more"]) for row in rows)


@functools.cache
def _factors() -> tuple[tuple[Expression, str], ...]:
    return tuple((expression(row["words"]), row["kind"]) for row in topic("factors")["factors"])


def _both(key: str, **fields: Any) -> dict[Lang, str]:
    texts = topic("factors")["texts"][key]
    return {
        lang: texts[lang].format(**{name: one[lang] if isinstance(one, Mapping) else one for name, one in fields.items()}) for lang in LANGS
    }


def factor_claim(said: str, catalog: Catalog) -> Judged | None:
    """The verdict on a comparison of two things of a kind, with the factor that is told or without
    one; None of any other sentence, and where it asks for the factor."""
    said = re.sub(r"(?<=\d)\s*[x×]\s*(?=[A-Za-z])", " x ", said)
    than = _word("than").search(said)
    if than is None or _word("asks").search(said):
        return None
    aspect = _aspect(said, than)
    if aspect is None:
        return None
    what, is_more = aspect
    first, second = _side(said[: than.start()], catalog), _side(said[than.end() :], catalog)
    if first is None or second is None:
        return None
    stated = _stated(said, is_more=is_more)
    if what == "speed" and not stated and first.card and second.card:
        return None  # which is faster at all: by every figure of theirs
    common = _common(said, catalog)
    found = _ratios(what, first, second, said, common, catalog)
    if found is None:
        return None
    low, high, reason = found
    claim = _claim(low, high, stated, said, is_more=is_more, near=_NEAR[what])
    is_right_way = low > 1.0 if is_more else high < 1.0
    if stated and claim == "wrong" and is_right_way:
        direction = topic("factors")["texts"]["direction"]
        reason = {lang: f"{direction[lang]}{'；' if lang == 'zh' else '; '}{reason[lang]}" for lang in LANGS}
    if _word("denied").search(said):
        claim = {"right": "wrong", "wrong": "right"}.get(claim, claim)
    return Judged("rule", claim, reason, {"ratio": [low, high], "stated": list(stated), "of": what})


def _aspect(said: str, than: re.Match[str]) -> tuple[str, bool] | None:
    """What is compared, and whether more of it is said: by the last such word of the sentence, the
    one of a column before that of a direction."""
    found = [(match.start(), of, more) for words, of, more in _aspects() for match in words.finditer(said)]
    columns = [one for one in found if one[1] not in ("speed", "price")]
    if columns and not any(one[1] == "price" for one in found):
        return columns[-1][1], not re.search(r"小|少|低|\bless\b|\blower\b|\bsmaller\b", said[than.end() :])
    if not found:
        return None
    _, of, more = max(found, key=lambda one: (one[0], not one[2]))
    return of, more


def _side(text: str, catalog: Catalog) -> _Side | None:
    """The card, server or series, else the cloud that a side of the comparison names."""
    from rightfit.explain.server_questions import servers_named
    from rightfit.workload.ask import understand

    cards, servers = cards_of(text), servers_named(text, catalog)
    try:
        clouds = [one for one in str(understand(text).wishes.get("cloud", "")).split(",") if one]
    except RightfitError:
        clouds = []
    cloud = clouds[0] if len(clouds) == 1 else ""
    if len(servers) == 1:
        ((name, rows),) = servers.items()
        if cloud:
            providers = catalog.servers().provider
            rows = [row for row in rows if providers[row] == cloud] or rows
        return _Side(name, rows=tuple(rows), cloud=cloud)
    names = list(dict.fromkeys(spoken for spoken, _ in cards))
    if len(names) == 1 and not servers:
        return _Side(names[0], card=facts.accelerator(names[0], typical=True).name, cloud=cloud)
    return _Side(cloud, cloud=cloud) if cloud and not servers and not names else None


def _common(said: str, catalog: Catalog) -> tuple[str, int]:
    """The one card that a comparison of two clouds is about, with how many of it (0: any)."""
    from rightfit.workload.ask import understand

    cards = list(dict.fromkeys(spoken for spoken, _ in cards_of(said)))
    if len(cards) != 1:
        return "", 0
    try:
        wishes = understand(said).wishes
    except RightfitError:
        wishes = {}
    return cards[0], int(wishes.get("num_gpus") or 0)


_Found = tuple[float, float, dict[Lang, str]]


def _ratios(what: str, first: _Side, second: _Side, said: str, common: tuple[str, int], catalog: Catalog) -> _Found | None:
    """The least and the largest ratio of the first to the second, and what they come from."""
    if what == "price":
        return _prices(first, second, common, catalog)
    cards = [_card(one, catalog) for one in (first, second)]
    if cards[0] is None or cards[1] is None or cards[0] is cards[1]:
        return None
    if what == "speed":
        return _speeds(cards[0], cards[1], said, catalog)
    mine, theirs = (float(getattr(card, what)) for card in cards)
    shown = [q.memory_text(one) if what == "memory_bytes" else f"{one / 1e9:,.0f} GB/s" for one in (mine, theirs)]
    ratio = mine / theirs
    return ratio, ratio, _both("column", first=cards[0].name, second=cards[1].name, mine=shown[0], theirs=shown[1], ratio=f"{ratio:.2g}")


def _card(side: _Side, catalog: Catalog) -> Accelerator | None:
    """The card that a side names, or that the servers of its series have."""
    names = {side.card} if side.card else {catalog.servers().accelerator_name[row] for row in side.rows} - {""}
    return facts.accelerators().get(names.pop()) if len(names) == 1 else None


def _speeds(one: Accelerator, other: Accelerator, said: str, catalog: Catalog) -> _Found | None:
    """By the jobs that a sentence names or that are usual, for training; by compute and bandwidth
    for inference."""
    compute = max(one.bf16_flops, one.fp16_flops) / max(other.bf16_flops, other.fp16_flops)
    bandwidth = one.memory_bandwidth / other.memory_bandwidth
    ratios, told = list[float](), list[dict[Lang, str]]()
    if not _word("inference").search(said) or _word("training").search(said):
        for wishes, job in _jobs(said):
            pair = [
                best_for({**wishes, "gpu": card.name, "num_gpus": 1, "max_nodes": 1, "objective": "time"}, catalog) for card in (one, other)
            ]
            times = [best.estimate["total_time_s"].mid if best is not None else math.nan for best in pair]
            if not all(map(math.isfinite, times)):
                continue
            ratios.append(times[1] / times[0])
            spans = [{lang: q.duration_text(time, lang) for lang in LANGS} for time in times]
            told.append(
                _both("speed_job", job=job, first=one.name, second=other.name, mine=spans[0], theirs=spans[1], ratio=f"{ratios[-1]:.2g}")
            )
    peak = _both("speed_peak", compute=f"{compute:.2g}", bandwidth=f"{bandwidth:.2g}")
    if not ratios:
        ratios = [compute, bandwidth]
    return min(ratios), max(ratios), _joined([*told, peak])


def _jobs(said: str) -> list[tuple[dict[str, Any], dict[Lang, str]]]:
    from rightfit.workload.ask import understand

    try:
        wishes = understand(said).wishes
    except RightfitError:
        wishes = {}
    if (model := str(wishes.get("model", ""))) and wishes.get("task") in ("train", "finetune"):
        job = {name: value for name, value in wishes.items() if name in ("model", "task", "method", "data", "epochs")}
        return [({"data": "100Mtok" if wishes["task"] == "finetune" else "imagenet", **job}, dict.fromkeys(LANGS, model))]
    return [(dict(row["wishes"]), {lang: row[lang] for lang in LANGS}) for row in topic("factors")["jobs"]]


def _joined(parts: list[dict[Lang, str]]) -> dict[Lang, str]:
    return {lang: ("；" if lang == "zh" else "; ").join(part[lang] for part in parts) for lang in LANGS}


def _prices(first: _Side, second: _Side, common: tuple[str, int], catalog: Catalog) -> _Found | None:
    """By the least price on demand of each: of a card, of a series, or of a card at a cloud."""
    card, count = common
    names = set(facts.match_accelerators(card)) if card else set()
    if first.cloud and second.cloud and not (first.card or first.rows or second.card or second.rows) and not names:
        return None  # clouds in general: card by card
    found = [_least(one, names, count, catalog) for one in (first, second)]
    if found[0] is None or found[1] is None:
        return None
    (mine, where), (theirs, there) = found[0], found[1]
    ratio = mine / theirs
    shown = [_shown(one) for one in (first, second)]
    fields: dict[str, Any] = {
        "first": shown[0],
        "second": shown[1],
        "mine": q.money_text(mine),
        "theirs": q.money_text(theirs),
        "ratio": f"{ratio:.2g}",
        "where": where,
        "there": there,
    }
    if count > 1:
        return ratio, ratio, _both("price_servers", what=_both("gpus", count=count, card=card), **fields)
    return ratio, ratio, _both("price", **fields)


def _shown(side: _Side) -> dict[Lang, str]:
    thing = "" if side.spoken == side.cloud else side.spoken
    return {
        lang: " ".join(part for part in (provider_display(side.cloud, lang=lang) if side.cloud else "", thing) if part) for lang in LANGS
    }


def _least(side: _Side, names: set[str], count: int, catalog: Catalog) -> tuple[float, str] | None:
    """The least sound price on demand of one GPU of a side, or of a server with so many [USD/h],
    and of which server."""
    from rightfit.market.offers import OfferFilter

    offers = catalog.offers(OfferFilter(providers=(side.cloud,) if side.cloud else (), purchases=("on-demand",)))
    table, best = offers.servers, None
    wanted = {side.card} if side.card else names
    is_sound = (~offers.is_quarantined & ~offers.is_estimate).tolist()
    for at, (row, price) in enumerate(zip(offers.server_index.tolist(), offers.price_usd_per_h.tolist(), strict=True)):
        number = float(table.num_accelerators[row])
        if not is_sound[at] or not math.isfinite(price) or number < 1 or (count > 1 and number != count):
            continue
        name = f"{table.provider[row]}/{table.instance_type[row]}"
        if (side.rows and name not in _names_of(side, catalog)) or (wanted and not side.rows and table.accelerator_name[row] not in wanted):
            continue
        each = price if count > 1 else price / number
        if best is None or each < best[0]:
            best = (each, name)
    return best


def _names_of(side: _Side, catalog: Catalog) -> set[str]:
    servers = catalog.servers()
    return {f"{servers.provider[row]}/{servers.instance_type[row]}" for row in side.rows}


def _stated(said: str, *, is_more: bool) -> tuple[float, ...]:
    """The ratios of the first to the second that the words of a factor may mean; () without one."""
    said = re.sub(r"\d+\s*[x×]\s*(?=[A-Z])", " ", said)  # a number of GPUs
    for words, kind in _factors():
        if (found := words.search(said)) is None:
            continue
        number, is_times = _number(found["n"]), "倍" in found["n"]
        if not number:
            continue
        if kind == "less":
            return (1.0 - number, 1.0 / (1.0 + number)) if not is_more else (1.0 + number,)
        meant = ((1.0 + number, number) if is_times and number > 1 else (1.0 + number,)) if kind == "more" else (number,)
        return meant if is_more or number < 1 else tuple(1.0 / one for one in meant)
    return ()


def _number(text: str) -> float:
    known: Mapping[str, float] = topic("factors")["numbers"]
    text = text.strip().casefold()
    if "分之" in text:
        below, _, above = text.partition("分之")
        return known[above] / known[below]
    if (found := re.search(r"\d+(?:\.\d+)?", text)) is not None:
        return float(found[0]) / (100.0 if "%" in text else 1.0)
    if text in known:
        return known[text]
    if text.endswith("成"):
        return known[text[0]] / 10.0
    return next((value for word, value in known.items() if word in text), 0.0)


def _claim(low: float, high: float, stated: tuple[float, ...], said: str, *, is_more: bool, near: float) -> str:
    if not stated:
        one, other = (low, high) if is_more else (1.0 / high, 1.0 / low)
        return "right" if one > 1.02 else "wrong" if other < 1.02 else "unknown"
    is_least, is_most = bool(_word("at_least").search(said)), bool(_word("at_most").search(said))
    if not is_more:
        is_least, is_most = is_most, is_least
    if is_least:
        least = min(stated)
        return "right" if low >= least * (1 - near) else "unknown" if high >= least * (1 - near) else "wrong"
    if is_most:
        most = max(stated)
        return "right" if high <= most * (1 + near) else "unknown" if low <= most * (1 + near) else "wrong"
    return "right" if any(low * (1 - near) <= one <= high * (1 + near) for one in stated) else "wrong"
