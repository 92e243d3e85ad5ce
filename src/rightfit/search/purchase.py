"""How to buy one server: every way to pay with its price, what it comes to for a job and a month,
and from how much use on it pays.

Break-evens follow from prices alone. A commitment owes its whole term, so against a price by the
hour it pays from price x hours of a month over the hourly price (hours a month) on, and only if it
is needed for term x price over the hourly price (months of steady use). Nothing is asserted: the
recommendation is the cheapest way at each amount of use.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import InputError
from rightfit.market.offers import PURCHASES
from rightfit.messages import Message
from rightfit.physics.columns import once
from rightfit.records import dataclass
from rightfit.search.answer import Reason
from rightfit.search.market import billing_rules
from rightfit.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.offers import Market

SPOT, ON_DEMAND, LONG_USE = "spot", "on-demand", "on-demand-tier3"
# How the discounts table names what no price list quotes for a server.
RULES = {
    ("subscription_1m", "1m"): "subscription-1m",
    ("subscription_1y", "1y"): "subscription-1y",
    ("subscription_3y", "3y"): "subscription-3y",
    ("savings_plan_1y", "1y"): "savings-plan-1y",
    ("compute_savings_plan", "1y"): "savings-plan-1y",
    ("compute_savings_plan", "3y"): "savings-plan-3y",
    ("reserved_1y", "1y"): "reserved-1y",
    ("reserved_3y", "3y"): "reserved-3y",
}
RULE_TERMS_H = {"savings-plan-3y": 3 * 8760.0}
ANY_SCOPE = ("all", "gpu")

JobCost = Callable[[int], float]  # an offer's row -> what the job costs on it [USD]


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to pay for `count` servers. Prices in USD/h of all of them; `term_h`: what is owed at
    least (0: nothing); `basis`: quoted, estimate, or rule (on demand less a published discount).
    `job_usd`: the job at hand (None without one); `month_usd`: 730 h; `office_usd`: `office_h` of a
    month, the servers being stopped in between where that saves anything. `even_hours`: hours a
    month from which the mode is cheaper than on demand;
    `even_months`: months of steady use; None where it never is, 0 where it always is."""

    purchase: str
    payment: str
    price_usd_per_h: float
    low_usd_per_h: float
    high_usd_per_h: float
    term_h: float
    region: str
    as_of: str
    source: str
    note: str
    basis: str
    is_stale: bool
    job_usd: float | None = None
    month_usd: float = 0.0
    office_usd: float = 0.0
    owed_usd: float = 0.0
    saving: float | None = None
    even_hours: float | None = None
    even_months: float | None = None

    @property
    def is_committed(self) -> bool:
        """Whether a month or more is owed."""
        return self.term_h >= HOURS_PER_MONTH

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON."""
        return asdict(self)


def payment_of(provider: str, purchase: str, note: str) -> str:
    """When the money is due: metered, monthly, partial, upfront, monthly or upfront, or as the
    contract says. The most specific row decides."""
    for row in sorted(facts.table("payments"), key=lambda row: (row["provider"] == "*") + (row["purchase"] == "*")):
        if row["provider"] in (provider, "*") and row["purchase"] in (purchase, "*") and row["note_contains"].casefold() in note.casefold():
            return row["payment"]
    return "contract"


def term_h_of(provider: str, purchase: str) -> float:
    """Hours that are owed at least; 0 for what is paid by use."""
    rules = billing_rules()
    minimum_s, _ = rules.get((provider, purchase)) or rules.get(("*", purchase)) or (RULE_TERMS_H[purchase] * 3600.0, 0.0)
    return minimum_s / 3600.0 if minimum_s >= 86400.0 else 0.0


def quoted_modes(market: Market, server: int, *, region: str, count: int, job_usd: JobCost | None = None) -> list[Mode]:
    """The modes that the market has for a server: in the region where it is priced so, else in the
    cheapest other region of its cloud.
    `job_usd`: what the job costs on an offer."""
    offers, found = market.offers, []
    rows = np.flatnonzero(offers.server_index == server)
    here = np.array([offers.regions[place] == region for place in offers.region_index[rows]], dtype=np.bool_)
    for code in once(offers.purchase_index[rows]).tolist():
        same = rows[offers.purchase_index[rows] == code]
        near = rows[(offers.purchase_index[rows] == code) & here]
        choice = near if near.shape[0] else same
        best = int(choice[np.argmin(offers.price_usd_per_h[choice])])
        mode = _mode(market, best, count=count)
        found.append(dataclasses.replace(mode, job_usd=job_usd(best)) if job_usd is not None else mode)
    return found


def _mode(market: Market, row: int, *, count: int) -> Mode:
    offer, doubt = market.offers.row(row), market.doubt
    price = float(offer["price_usd_per_h"]) * count
    low, high = doubt.factors[row, :2].tolist() if doubt is not None else (1.0, 1.0)
    return Mode(
        purchase=offer["purchase"],
        payment=payment_of(offer["provider"], offer["purchase"], offer["note"]),
        price_usd_per_h=price,
        low_usd_per_h=price * low,
        high_usd_per_h=price * high,
        term_h=term_h_of(offer["provider"], offer["purchase"]),
        region=offer["region"],
        as_of=offer["as_of"],
        source=offer["source"],
        note=offer["note"],
        basis="estimate" if offer["is_estimate"] else "quoted",
        is_stale=offer["is_stale"],
    )


def ruled_modes(catalog: Catalog, provider: str, *, on_demand: Mode, quoted: Sequence[Mode]) -> list[Mode]:
    """Modes that the cloud sells but that no list prices for this server: the on-demand price less
    the published discount, with its range."""
    known, found = {mode.purchase for mode in quoted}, []
    for row in catalog.discounts(provider):
        purchase = RULES.get((row["mechanism"], row["term"] or ""))
        if purchase is None or purchase in known or row["scope"] not in ANY_SCOPE or row["discount_pct_typical"] is None:
            continue
        price, low, high = (on_demand.price_usd_per_h * (1.0 - row[f"discount_pct_{name}"] / 100.0) for name in ("typical", "high", "low"))
        found.append(
            dataclasses.replace(
                on_demand,
                purchase=purchase,
                payment=row["payment"] or "contract",
                price_usd_per_h=price,
                low_usd_per_h=low,
                high_usd_per_h=high,
                term_h=term_h_of(provider, purchase),
                as_of=row["as_of"] or "",
                source=row["source"],
                note=row["note"] or "",
                basis="rule",
            )
        )
        known.add(purchase)
    return found


def with_break_even(mode: Mode, *, on_demand: Mode | None, office_h: float) -> Mode:
    """The mode with its month, its term and from how much use on it is cheaper than on demand."""
    month = mode.price_usd_per_h * HOURS_PER_MONTH
    values: dict[str, Any] = {
        "month_usd": month,
        "office_usd": month if mode.is_committed else mode.price_usd_per_h * office_h,
        "owed_usd": mode.price_usd_per_h * mode.term_h,
    }
    if on_demand is not None and mode.purchase != ON_DEMAND:
        ratio = mode.price_usd_per_h / on_demand.price_usd_per_h
        values["saving"] = 1.0 - ratio
        if ratio < 1.0:
            values["even_hours"] = ratio * HOURS_PER_MONTH if mode.is_committed else 0.0
            values["even_months"] = ratio * mode.term_h / HOURS_PER_MONTH
    return dataclasses.replace(mode, **values)


def how_to_buy(
    catalog: Catalog,
    market: Market,
    server: int,
    *,
    region: str,
    count: int = 1,
    office_h: float | None = None,
    job_usd: JobCost | None = None,
    job_h: float | None = None,
) -> tuple[Mode, ...]:
    """Every way to pay for a server, cheapest hour first. `server`: its row in
    the market's table."""
    office_h = office_h or facts.coefficients("planning")["office_hours_per_month"]
    quoted = quoted_modes(market, server, region=region, count=count, job_usd=job_usd)
    steady = next((mode for mode in quoted if mode.purchase == ON_DEMAND), None)
    provider = market.offers.servers.provider[server]
    ruled = ruled_modes(catalog, provider, on_demand=steady, quoted=quoted) if steady is not None else []
    if job_h is not None:
        ruled = [dataclasses.replace(mode, job_usd=spent_usd(mode, job_h / HOURS_PER_MONTH)) for mode in ruled]
    filled = [with_break_even(mode, on_demand=steady, office_h=office_h) for mode in (*quoted, *ruled)]
    return tuple(sorted(filled, key=lambda mode: (mode.price_usd_per_h, mode.purchase)))


@dataclass(frozen=True, slots=True)
class LadderStep:
    """From `start` (hours a month, or months of steady use) on, `purchase` is the cheapest way that
    cannot be interrupted."""

    start: float
    purchase: str
    month_usd: float


def ladder_of_hours(modes: Sequence[Mode], *, most_term_h: float) -> tuple[LadderStep, ...]:
    """The cheapest uninterruptible way by hours of use a month, commitments of at most
    `most_term_h` being open."""
    metered = [mode for mode in modes if not mode.is_committed and mode.purchase == ON_DEMAND]
    flat = [mode for mode in modes if mode.is_committed and mode.term_h <= most_term_h * (1 + 1e-9)]
    if not metered:
        return tuple(LadderStep(0.0, mode.purchase, mode.month_usd) for mode in sorted(flat, key=lambda mode: mode.month_usd)[:1])
    hourly = min(metered, key=lambda mode: mode.price_usd_per_h)
    steps = [LadderStep(0.0, hourly.purchase, hourly.month_usd)]
    if flat:
        least = min(flat, key=lambda mode: mode.month_usd)
        if least.month_usd < hourly.month_usd:
            steps.append(LadderStep(least.month_usd / hourly.price_usd_per_h, least.purchase, least.month_usd))
    return tuple(steps)


def spent_usd(mode: Mode, months: float, *, rest_usd_per_h: float = math.inf) -> float:
    """What `months` of steady use cost: whole terms of a commitment, the hours otherwise. What
    is left after the last whole term may be bought at `rest_usd_per_h` instead of owing
    another term."""
    hours = months * HOURS_PER_MONTH
    if not mode.term_h:
        return hours * mode.price_usd_per_h
    whole = math.floor(hours / mode.term_h + 1e-9)
    left_h = max(hours - whole * mode.term_h, 0.0)
    left_usd = min(left_h * rest_usd_per_h, mode.term_h * mode.price_usd_per_h) if left_h > 1e-6 else 0.0
    return whole * mode.term_h * mode.price_usd_per_h + left_usd


def ladder_of_months(modes: Sequence[Mode], *, most_months: int = 60) -> tuple[LadderStep, ...]:
    """The cheapest uninterruptible way by months of steady use (730 h each); what a term does not
    cover is bought on demand."""
    steady = [mode for mode in modes if mode.purchase not in (SPOT, LONG_USE)]
    hourly = min((mode.price_usd_per_h for mode in steady if not mode.is_committed), default=math.inf)
    steps: list[LadderStep] = []
    for months in range(1, most_months + 1):
        if not steady:
            break
        best = min(steady, key=lambda mode: (spent_usd(mode, months, rest_usd_per_h=hourly), mode.term_h))
        if not steps or steps[-1].purchase != best.purchase:
            steps.append(LadderStep(float(months), best.purchase, best.month_usd))
    return tuple(steps)


def advice_of(modes: Sequence[Mode], *, job_h: float | None) -> tuple[Reason, ...]:
    """The recommendation as data: for this job, for use by hours a month, for steady use."""
    steady = next((mode for mode in modes if mode.purchase == ON_DEMAND), None)
    reasons = []
    if job_h is not None:
        reasons += _job_reasons(modes, job_h=job_h)
    year = [mode for mode in modes if mode.is_committed]
    if steady is not None and year:
        reasons += _steady_reasons(modes, steady)
    elif steady is not None:
        reasons.append(Reason("buy_no_commitment", {"month_usd": steady.month_usd}))
    return tuple(reasons)


def _job_reasons(modes: Sequence[Mode], *, job_h: float) -> list[Reason]:
    priced = [mode for mode in modes if mode.job_usd is not None]
    safe = [mode for mode in priced if mode.purchase != SPOT]
    spot = next((mode for mode in priced if mode.purchase == SPOT), None)
    reasons = []
    if safe:
        best = min(safe, key=lambda mode: mode.job_usd or 0.0)
        reasons.append(Reason("buy_job", {"purchase": best.purchase, "job_h": job_h, "job_usd": best.job_usd}))
        if spot is not None and spot.job_usd is not None and best.job_usd:
            ratio = spot.job_usd / best.job_usd
            reasons.append(Reason("buy_job_spot" if ratio < 1 else "buy_job_spot_dear", {"job_usd": spot.job_usd, "share": abs(1 - ratio)}))
    return reasons


def _steady_reasons(modes: Sequence[Mode], steady: Mode) -> list[Reason]:
    """From how many hours a month and how many months on which commitment pays; longer terms that
    save nothing more are left out."""
    reasons, least = [], math.inf
    for term_h in sorted({mode.term_h for mode in modes if mode.is_committed}):
        best = min((mode for mode in modes if mode.is_committed and mode.term_h == term_h), key=lambda mode: mode.month_usd)
        if best.month_usd >= least:
            continue
        least = best.month_usd
        params = {"purchase": best.purchase, "month_usd": best.month_usd, "on_demand_usd": steady.month_usd, "basis": best.basis}
        if best.even_hours is None:
            reasons.append(Reason("buy_never", params))
        else:
            words = {"even_hours": best.even_hours, "even_months": best.even_months, "share": best.saving, "payment": best.payment}
            reasons.append(Reason("buy_steady", params | words))
    steps = ladder_of_months(modes)
    if len(steps) > 1:
        ways = [step.purchase for step in steps]
        reasons.append(Reason("buy_ladder", {"ways": ways, "from_months": [step.start for step in steps]}))
    return reasons


def cheapest_region(market: Market, asked: Sequence[str]) -> str:
    """The region where a server is cheapest on demand (else at all), of those asked where it is
    sold in one of them. Raises where it is in none."""
    offers = market.offers
    here = np.array([not asked or offers.regions[place] in asked for place in offers.region_index], dtype=np.bool_)
    if not here.any():
        sold = tuple(dict.fromkeys(offers.regions[place] for place in offers.region_index.tolist()))
        names = ", ".join(asked)
        raise InputError(Message("search.not_sold_there", regions=names, others=", ".join(sold[:12])), field="region")
    later = (offers.purchase_index != PURCHASES.index(ON_DEMAND)).astype(np.intp)
    order = np.lexsort((offers.price_usd_per_h, later, ~here))
    return offers.regions[int(offers.region_index[order[0]])]
