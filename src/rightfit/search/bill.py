"""BillColumns of one row, the same for every family of work: its cost with an interval, and
every line of its bill."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.estimation.figures import Figure
from rightfit.physics import money
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.answer import Cost, Option, Reason, Section
from rightfit.search.market import Bill, BillColumns, Volume, network_charge
from rightfit.search.offers import BOUNDS, ROUNDING, Market, both_doubts, with_credit
from rightfit.search.purchase import Mode, advice_of, how_to_buy, ladder_of_hours, ladder_of_months, term_h_of
from rightfit.units import GB, HOURS_PER_MONTH, HOURS_PER_YEAR, SECONDS_PER_HOUR, SECONDS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.charges import EgressPrice, StoragePrice


_places: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = weakref.WeakKeyDictionary()

TERMS = ("servers_usd", "storage_usd", "egress_usd", "network_usd")
#: What the hours of a job are for, and the column of its bill.
SPANS = {"startup": "startup_s", "work": "run_s", "saves_and_stops": "save_and_restart_s"}


def cost_of(bill: BillColumns, market: Market, cell: tuple[int, int], *, time: Figure | None = None) -> Cost:
    """BillColumns of one row: terms that add up to the total, and the total with its interval.
    `time`: of the whole job; None where a month is paid for, which is as long as it is."""
    total = float(bill.total_usd[cell])
    terms = with_credit({name: float(getattr(bill, name)[cell]) for name in TERMS}, total)
    bounds = total + rent_doubt_usd(bill, market, cell) if time is None else job_bounds_usd(bill, market, cell, time, terms)
    return Cost(
        hourly_usd=float(bill.hourly_usd[cell]),
        total_usd=total,
        total=Figure(total, **dict(zip(BOUNDS, bounds.tolist(), strict=True)), source=time.source if time else "formula"),
        terms=terms,
        per_million_tokens_usd=float("nan"),
    )


def rent_doubt_usd(bill: BillColumns, market: Market, cell: tuple[int, int]) -> Array:
    """By how much a rent of known length may differ: as the price may (low80,
    high80, low95, high95)."""
    factors = market.doubt.factors[cell[0]] if market.doubt is not None else np.ones(len(BOUNDS))
    return np.asarray(float(bill.servers_usd[cell]) * (factors - 1.0))


def job_bounds_usd(bill: BillColumns, market: Market, cell: tuple[int, int], time: Figure, terms: Mapping[str, float]) -> Array:
    """The bounds of a job's cost are those of its time, through the billing steps: a term that is
    owed whole does not vary; where the price is an estimate, its own doubt is added; a credit pays
    its part of each."""
    servers, seconds, times = terms["servers_usd"], float(bill.total_s[cell]), np.array([getattr(time, name) for name in BOUNDS])
    charges = market.charges.take(np.array([cell[0]]))
    billed = money.billed_s(times, minimum_s=charges.minimum_s, increment_s=charges.increment_s)
    rent = money.server_usd(billed, price_usd_per_h=bill.hourly_usd[[cell[0]], [cell[1]]], nodes=np.ones(1))
    if market.doubt is not None and servers > 0:
        rent = servers * both_doubts(rent / servers, market.doubt.factors[cell[0]])
    grown = rent + (terms["storage_usd"] + terms["network_usd"]) * times / seconds + terms["egress_usd"]
    if "credit_usd" in terms:
        return np.maximum(grown + terms["credit_usd"], facts.coefficients("planning")["credit_unpaid_share"] * grown)
    return np.asarray(grown)


# --- every line of the bill


@dataclass(frozen=True, slots=True)
class Paid:
    """One row of a bill with what it pays for. `kept_s`: how long servers, volumes and addresses
    of the option are kept, a month of a service (`is_month`); `spans`: what these seconds are for;
    `startup_s`: from asking for a server to the first work; `volume`: what is stored and moved;
    `sent_usd` and `address_usd`: the parts of traffic and network that results and public
    addresses take."""

    bill: BillColumns
    at: tuple[int, int]
    option: Option
    volume: Volume
    kept_s: float
    spans: Mapping[str, float]
    startup_s: float
    sent_usd: float
    address_usd: float
    is_month: bool

    def usd(self, name: str) -> float:
        """One term of the bill."""
        return float(getattr(self.bill, name)[self.at])

    @property
    def is_owed(self) -> bool:
        """Whether the servers are paid for a term of a month or more, used or not."""
        return term_h_of(self.option.provider, self.option.purchase) >= HOURS_PER_MONTH


def paid_of(
    bill: BillColumns, market: Market, cell: tuple[int, int], option: Option, *, volume: Volume, startup_s: float | None = None
) -> Paid:
    """What the bill of an option pays for. Where the bill has no time of a job it is the month of a
    service, whose `startup_s` is given."""
    charges, is_job = market.charges, isinstance(bill, Bill)
    kept_s = option.estimate["total_time_s"].mid if is_job else SECONDS_PER_MONTH
    hourly = float(bill.hourly_usd[cell])
    used_s = float(bill.servers_usd[cell]) / hourly * SECONDS_PER_HOUR if hourly else kept_s  # of a month, its hours of use
    address_usd_per_h = float(charges.public_ip_usd_per_h[cell[0]]) if charges.public_ip_usd_per_h is not None else 0.0
    return Paid(
        bill=bill,
        at=cell,
        option=option,
        volume=volume,
        kept_s=kept_s,
        spans={name: float(getattr(bill, span)[cell]) for name, span in SPANS.items()} if is_job else {"work": used_s},
        startup_s=float(bill.startup_s[cell]) if isinstance(bill, Bill) else startup_s or 0.0,
        sent_usd=volume.result_bytes / GB * float(charges.egress_usd_per_gb[cell[0]]),
        address_usd=address_usd_per_h * option.nodes * kept_s / SECONDS_PER_HOUR,
        is_month=not is_job,
    )


def bill_section(paid: Paid, catalog: Catalog, *, office_h: float | None) -> Section:
    """Every line of the bill, and what the servers come to when they are kept for a month."""
    lines = (
        *_server_lines(paid),
        *_storage_lines(paid, catalog),
        *_traffic_lines(paid, catalog),
        *_network_lines(paid),
        *_credit_lines(paid),
    )
    months = _months(paid, office_h=office_h or facts.coefficients("planning")["office_hours_per_month"])
    said = Reason("bill_month_owed" if paid.is_owed else "bill_month", months)
    return Section("bill", {"lines": [line.to_dict() for line in lines], "month": months}, (said,))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the bill: `quantity` of `unit` at `unit_usd`. `beside`: not part of the run's
    total, but paid if the thing is kept or moved."""

    name: str
    usd: float
    quantity: float
    unit: str
    unit_usd: float
    source: str
    as_of: str = ""
    note: str = ""
    beside: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON."""
        return asdict(self)


def _server_lines(paid: Paid) -> list[Line]:
    """Rent by what the hours are for; what rounding and minimums add is a line of its own."""
    price, source, as_of = paid.usd("hourly_usd"), paid.option.price_source, paid.option.price_as_of
    lines = [Line(name, price * span / 3600.0, span / 3600.0, "h", price, source, as_of) for name, span in paid.spans.items()]
    extra = paid.usd("servers_usd") - sum(line.usd for line in lines)
    rounding = Line("billing_steps", extra, extra / price if price else 0.0, "h", price, source, as_of)
    return [*lines, rounding] if extra > 0.005 * price else lines


def place_charges(
    catalog: Catalog, provider: str, region: str
) -> tuple[StoragePrice | None, StoragePrice | None, EgressPrice | None, EgressPrice | None]:
    """Block and object storage, data to the internet and to another region at one place; read
    from the catalog once."""
    known = _places.setdefault(catalog, {})
    if (provider, region) not in known:
        known[provider, region] = (
            catalog.storage_price(provider, region),
            catalog.storage_price(provider, region, kind="object"),
            catalog.egress_price(provider, region),
            catalog.egress_price(provider, region, destination="other_region"),
        )
    found: tuple[StoragePrice | None, StoragePrice | None, EgressPrice | None, EgressPrice | None] = known[provider, region]
    return found


def _storage_lines(paid: Paid, catalog: Catalog) -> list[Line]:
    """The volumes with what they can do, and the object store that would keep data and
    checkpoints for a month."""
    block, objects, _, _ = place_charges(catalog, paid.option.provider, paid.option.region)
    usd, lines = paid.usd("storage_usd"), []
    if block is not None and usd > 0:
        stored_gb = usd / block.price_usd_per_gb_month * HOURS_PER_MONTH / (paid.kept_s / 3600.0)
        note = f"{block.product}{volume_note(paid.option.provider, block.product, stored_gb)}"
        lines.append(Line("volume", usd, stored_gb, "GB", block.price_usd_per_gb_month, block.source, block.as_of, note))
    kept_gb = (paid.volume.dataset_bytes + facts.coefficients("planning")["checkpoints_kept"] * paid.volume.checkpoint_bytes) / 1e9
    if objects is not None and kept_gb > 0:
        price = objects.price_usd_per_gb_month
        lines.append(
            Line("object_store_month", kept_gb * price, kept_gb, "GB", price, objects.source, objects.as_of, objects.product, beside=True)
        )
    return lines


def volume_note(provider: str, product: str, size_gb: float) -> str:
    """IOPS and throughput of a volume of this size, where its kind is described in
    facts/data/volumes.csv."""
    rows = [row for row in facts.table("volumes") if row["provider"] == provider and product in (row["price_key"], row["volume"])]
    if not rows:
        return ""
    row = {name: float(value) for name, value in rows[0].items() if name not in ("provider", "volume", "kind", "price_key", "source")}
    iops = min(row["base_iops"] + row["iops_per_gb"] * size_gb, row["max_iops"])
    rate = min(row["base_mb_per_s"] + row["mb_per_s_per_gb"] * size_gb, row["max_mb_per_s"])
    return f", {iops:,.0f} IOPS, {rate:,.0f} MB/s"


def _traffic_lines(paid: Paid, catalog: Catalog) -> list[Line]:
    """Data in, what is sent out with the cloud's tiers, and the data out or to another region."""
    sent_gb, data_gb = paid.volume.result_bytes / 1e9, paid.volume.dataset_bytes / 1e9
    lines = [Line("upload", 0.0, data_gb, "GB", 0.0, "no cloud of the catalog charges for data that come in")] if data_gb else []
    moved_usd = paid.usd("egress_usd") - paid.sent_usd
    if moved_usd > ROUNDING * paid.usd("total_usd"):
        lines.append(Line("data_moved", moved_usd, data_gb, "GB", moved_usd / data_gb, "data transfer out of where the data lie"))
    _, _, out, other = place_charges(catalog, paid.option.provider, paid.option.region)
    if out is not None:
        lines += _lines_out(paid, out, sent_gb, data_gb)
    if other is not None and data_gb:
        price = other.tiers[0].price_usd_per_gb
        lines.append(Line("dataset_other_region", other.cost_usd(data_gb), data_gb, "GB", price, other.source, other.as_of, beside=True))
    return lines


def _lines_out(paid: Paid, out: EgressPrice, sent_gb: float, data_gb: float) -> list[Line]:
    """What is sent to the internet: results or answers, and (beside the bill) the data."""
    tiers = ", ".join(f"{tier.price_usd_per_gb:g} from {tier.from_gb:g} GB" for tier in out.tiers)
    price, note = out.tiers[0].price_usd_per_gb, f"{out.free_gb:g} GB a month free; {tiers}"
    sent = Line("result_out", paid.sent_usd, sent_gb, "GB", price, out.source, out.as_of, note)
    data = Line("dataset_out", out.cost_usd(data_gb), data_gb, "GB", price, out.source, out.as_of, note, beside=True)
    return [line for line in (sent, data) if line.quantity]


def _network_lines(paid: Paid) -> list[Line]:
    """Public addresses, and the load balancer of a service on several servers: its hours and the
    traffic through it."""
    usd, charge = paid.usd("network_usd"), network_charge(paid.option.provider, "public-ip")
    balancer_usd = usd - paid.address_usd
    if abs(balancer_usd) <= ROUNDING * usd:
        balancer_usd = 0.0
    lines, price = [], float(charge["usd_per_h"])
    if usd > balancer_usd:
        lines.append(
            Line("public_address", usd - balancer_usd, (usd - balancer_usd) / price, "h", price, charge["source"], charge["as_of"])
        )
    if balancer_usd > 0:
        charge = network_charge(paid.option.provider, "load-balancer")
        hours, price = paid.kept_s / 3600.0, float(charge["usd_per_h"])
        lines.append(Line("load_balancer", hours * price, hours, "h", price, charge["source"], charge["as_of"]))
        sent_usd, price = balancer_usd - hours * price, float(charge["usd_per_gb"])
        if sent_usd > ROUNDING * usd:
            lines.append(Line("balanced_traffic", sent_usd, sent_usd / price, "GB", price, charge["source"], charge["as_of"]))
    return lines


def _credit_lines(paid: Paid) -> list[Line]:
    """What a credit of the price book pays of it."""
    usd = float(paid.option.cost.terms.get("credit_usd", 0.0))
    return [Line("credit", usd, -usd, "USD", -1.0, "price book")] if usd else []


def _months(paid: Paid, *, office_h: float) -> dict[str, float]:
    """A month of the same servers: running all the time, and for office hours with the volumes and
    addresses kept; what is owed for a term runs on. A service sends its answers in either."""
    hourly = paid.usd("hourly_usd")
    kept = (paid.usd("storage_usd") + paid.usd("network_usd")) / paid.kept_s
    kept_usd = kept * SECONDS_PER_MONTH + (paid.usd("egress_usd") if paid.is_month else 0.0)
    return {
        "month_usd": hourly * HOURS_PER_MONTH + kept_usd,
        "office_hours": office_h,
        "office_usd": hourly * (HOURS_PER_MONTH if paid.is_owed else office_h) + kept_usd,
        "idle_share": 1.0 - office_h / HOURS_PER_MONTH,
        "startup_usd": hourly * paid.startup_s / 3600.0,
        "startup_s": paid.startup_s,
    }


# ---- The two parts of every answer about money: how to buy the servers of an option, and every
# line of its bill. No family of work is known here.


def money_parts(
    catalog: Catalog,
    market: Market,
    bill: BillColumns,
    option: Option,
    cell: tuple[int, int],
    *,
    volume: Volume,
    office_h: float | None = None,
    startup_s: float | None = None,
    alone: tuple[Market, BillColumns] | None = None,
) -> tuple[Section, Section]:
    """How to buy the servers of an option, and its bill. `cell`: its offer and column; `volume`:
    what it stores and moves, a service within a month;
    `office_h`: hours of use a month; `startup_s`: of a service, whose bill has no start; `alone`:
    every offer of the option's server with its bill in one column, where the search looked at some
    of its offers only."""
    paid = paid_of(bill, market, cell, option, volume=volume, startup_s=startup_s)
    buy = buy_section(catalog, *alone, option, (0, 0), office_h=office_h) if alone else None
    return buy or buy_section(catalog, market, bill, option, cell, office_h=office_h), bill_section(paid, catalog, office_h=office_h)


def buy_section(
    catalog: Catalog, market: Market, bill: BillColumns, option: Option, cell: tuple[int, int], *, office_h: float | None
) -> Section:
    """Each way to pay for the servers of an option, for steady use and, where it is a job, with its
    figure for the job. `cell`: an offer of its server, and its column of the bill."""
    time = option.estimate.get("total_time_s")
    job_h = time.mid / 3600.0 if time is not None else None
    modes = how_to_buy(
        catalog,
        market,
        int(market.offers.server_index[cell[0]]),
        region=option.region,
        count=option.nodes,
        office_h=office_h,
        job_usd=(lambda row: float(bill.total_usd[row, cell[1]])) if job_h is not None else None,
        job_h=job_h,
    )
    return section_of(modes, job_h=job_h)


def section_of(modes: tuple[Mode, ...], *, job_h: float | None) -> Section:
    """The section: rows for programs and the table, the two ladders, and the recommendation."""
    content: dict[str, Any] = {
        "modes": [mode.to_dict() for mode in modes],
        "by_hours": [asdict(step) for step in ladder_of_hours(modes, most_term_h=HOURS_PER_YEAR)],
        "by_months": [asdict(step) for step in ladder_of_months(modes)],
        "job_h": job_h,
    }
    reasons: tuple[Reason, ...] = advice_of(modes, job_h=job_h)
    return Section("buy", content, reasons)
