"""What five posts say about cost, as figures of the whole market with a verdict each (not of one
workload, as data/rules.toml is)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.explain import quantities as q
from rightfit.explain.messages import topic
from rightfit.explain.rule_match import folded
from rightfit.explain.rules import Verdict
from rightfit.market.offers import PURCHASE_CODES, OfferFilter, OfferTable
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.market import Catalog


_MOST = 0.5  # a statement about the market holds where it holds for at least half of it
_WORTH_SAYING = 0.1  # a choice that costs a tenth more than the least is a bad one
_MODEL = "llama-3-8b"
_CARD, _NUM_CARDS = "A100-SXM-80GB", 8
COMMITMENTS = ("reserved-1y", "savings-plan-1y", "subscription-1m", "subscription-1y")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a post, our figure for the market, and whether it holds."""

    id: str
    verdict: Verdict
    figures: Mapping[str, float]
    texts: Mapping[str, str]

    @property
    def entry(self) -> Mapping[str, Any]:
        """Its words."""
        entry: Mapping[str, Any] = statements()[self.id]
        return entry

    def reason(self, lang: Lang) -> str:
        """Our figures in one sentence."""
        shown = {name: _shown(name, value, lang) for name, value in self.figures.items()}
        text: str = self.entry["told"][lang].format(**{**shown, **self.texts})
        return text


def _shown(name: str, value: float, lang: Lang) -> str:
    if name in ("server", "least"):
        return q.money_text(value)
    if name in ("count", "over") or (name == "hours" and value > 1):
        return q.plain(value)
    return q.percent_text(value)


def statements() -> Mapping[str, Any]:
    """Every statement by id."""
    return topic("statements")


def judge_statement(name: str, catalog: Catalog) -> Statement:
    """A statement held against the market."""
    verdict, figures, texts = _JUDGES[name](catalog)
    return Statement(name, verdict, figures, texts)


_Judged = tuple[Verdict, dict[str, float], dict[str, str]]


def price_ratios(table: OfferTable, modes: tuple[str, ...]) -> Any:
    """Price of these modes over the on-demand price of the same server and region, quoted sound
    prices only: the least of the modes."""
    sound = (
        ~table.is_quarantined
        & ~table.is_estimate
        & np.isfinite(table.price_usd_per_h)
        & (table.servers.num_accelerators >= 1)[table.server_index]
    )
    place = table.server_index * len(table.regions) + table.region_index
    least: list[dict[int, float]] = []
    for wanted in (("on-demand",), modes):
        rows = np.flatnonzero(sound & np.isin(table.purchase_index, [PURCHASE_CODES[mode] for mode in wanted]))
        best: dict[int, float] = {}
        for key, price in zip(place[rows].tolist(), table.price_usd_per_h[rows].tolist(), strict=True):
            best[key] = min(price, best.get(key, np.inf))
        least.append(best)
    return np.array([price / least[0][key] for key, price in least[1].items() if key in least[0]])


def _spot(catalog: Catalog) -> _Judged:
    saved = 1.0 - price_ratios(catalog.all_offers(has_accelerator=True), ("spot",))
    share = float(np.mean((saved >= 0.5) & (saved <= 0.9)))
    low, mid, high = np.percentile(saved, (25, 50, 75))
    verdict: Verdict = "holds" if share >= _MOST and mid >= _MOST else "misleading" if np.any(saved >= _MOST) else "fails"
    return verdict, {"count": len(saved), "share": share, "figure": float(mid), "low": float(low), "high": float(high)}, {}


def saving_of(catalog: Catalog, modes: tuple[str, ...]) -> tuple[float, float, float, int]:
    """What these ways to pay save of the price on demand over the market, as a fraction: the first
    quartile, the median and the third, and over how many servers and regions."""
    saved = 1.0 - price_ratios(catalog.all_offers(has_accelerator=True), modes)
    low, mid, high = np.percentile(saved, (25, 50, 75))
    return float(low), float(mid), float(high), len(saved)


def _subscription(catalog: Catalog) -> _Judged:
    ratio = price_ratios(catalog.all_offers(has_accelerator=True), COMMITMENTS)
    low, mid, high = np.percentile(ratio, (25, 50, 75)) * HOURS_PER_MONTH
    share = float(np.mean(ratio < 1))
    figures = {
        "count": len(ratio),
        "figure": float(np.median(ratio)),
        "hours": float(mid),
        "low": float(low),
        "high": float(high),
        "share": share,
    }
    texts = {name: q.plain(figures.pop(name)) for name in ("low", "high")}
    return ("holds" if share >= _MOST else "fails"), figures, texts


def _serverless(catalog: Catalog) -> _Judged:
    from rightfit import facts

    row = next(row for row in facts.table("serverless") if row["accelerator_usd_per_s"] and row["provider"] == "gcp")
    second = (
        float(row["accelerator_usd_per_s"])
        + float(row["vcpu_usd_per_s"]) * float(row["least_vcpus"])
        + float(row["memory_usd_per_gib_s"]) * float(row["least_memory_gib"])
    )
    wanted = OfferFilter(providers=(row["provider"],), gpus=(row["accelerator"],), purchases=("on-demand",))
    server = float(np.nanmin(catalog.offers(wanted).price_usd_per_h))
    awake = server / (second * 3600.0)
    figures = {"server": server, "figure": awake, "hours": awake * HOURS_PER_MONTH, "over": 1.0 / awake}
    return ("holds" if awake < 1 else "misleading"), figures, {"product": row["product"], "accelerator": row["accelerator"]}


def _tflops(catalog: Catalog) -> _Judged:
    from rightfit.planner.cards import value_rows

    rows = value_rows(catalog, OfferFilter(purchases=("on-demand",)), sort="usd_per_pflop", model=_MODEL)
    known = [(row["usd_per_pflop"], row["usd_per_mtok"]) for row in rows if row["usd_per_mtok"]]
    first, second = np.array(known).T
    above = np.triu(np.ones((len(known), len(known)), dtype=np.bool_), 1)
    same = np.sign(first[:, None] - first) * np.sign(second[:, None] - second) > 0
    share = float(same[above].mean())
    dearer = float(second[np.argmin(first)] / second.min())
    return (
        ("holds" if dearer < 1.0 + _WORTH_SAYING else "misleading"),
        {"count": len(known), "share": share, "figure": dearer},
        {"model": _MODEL},
    )


def _own(catalog: Catalog) -> _Judged:
    from rightfit.estimation.ownership import own_server

    offers = catalog.offers(OfferFilter(gpus=(_CARD,), purchases=("on-demand",)))
    prices = offers.price_usd_per_h[(offers.servers.num_accelerators == _NUM_CARDS)[offers.server_index] & ~offers.is_estimate]
    middle, least = float(np.median(prices)), float(prices.min())
    own = own_server(_CARD, _NUM_CARDS)
    figure, low, high = own.break_even(middle)
    figures = {
        "count": _NUM_CARDS,
        "server": middle,
        "figure": figure,
        "low": low,
        "high": high,
        "least": least,
        "hours": own.break_even(least)[0],
    }
    return ("holds" if figure < 1 else "fails"), figures, {"accelerator": _CARD}


_JUDGES: Mapping[str, Callable[[Any], _Judged]] = {
    "market_spot_saves_50_to_90": _spot,
    "market_subscription_for_long_use": _subscription,
    "market_serverless_for_light_inference": _serverless,
    "market_price_per_tflops": _tflops,
    "market_own_for_steady_training": _own,
}


def find_statement(text: str) -> str | None:
    """The statement about the whole market with this id or alias."""

    wanted = folded(text)
    return next((name for name, entry in statements().items() if wanted in map(folded, (name, *entry["aliases"]))), None)
