"""Two parts of a plan about money: how to buy the best server, and every line of its bill."""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.physics import money
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.market import network_charge
from rightfit.search.purchase import Mode, advice_of, how_to_buy, ladder_of_hours, ladder_of_months

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.catalog.charges import EgressPrice, StoragePrice
    from rightfit.search.explore import Exploration
    from rightfit.search.rank import Row
    from rightfit.search.serving_search import ServingExploration

YEAR_H = 8760.0
_places: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], Any]] = weakref.WeakKeyDictionary()


def buy_section(found: Exploration, option: Option, at: Row, catalog: Catalog) -> Section:
    """How to buy the servers of a training run: each way to pay with its figure for this run, and for steady use."""
    seconds = option.estimate["total_time_s"].mid
    modes = how_to_buy(
        catalog,
        found.market,
        int(found.market.offers.server_index[at.offer]),
        region=option.region,
        count=option.nodes,
        office_h=found.wish.workload.office_hours,
        job_usd=lambda row: float(found.bill.total_usd[row, at.node]),
        job_h=seconds / 3600.0,
    )
    return section_of(modes, job_h=seconds / 3600.0)


def buy_section_of_service(found: ServingExploration, option: Option, at: Row, catalog: Catalog) -> Section:
    """How to buy the servers of a service, or of a batch job with its figure for the job."""
    market, wish = found.market, found.wish
    seconds = option.estimate["total_time_s"].mid if wish.is_batch else None
    modes = how_to_buy(
        catalog,
        market,
        int(market.offers.server_index[at.offer]),
        region=option.region,
        count=option.nodes,
        office_h=wish.workload.office_hours,
        job_usd=(lambda row: float(found.bill.total_usd[row, at.node])) if seconds else None,
        job_h=seconds / 3600.0 if seconds else None,
    )
    return section_of(modes, job_h=seconds / 3600.0 if seconds else None)


def section_of(modes: tuple[Mode, ...], *, job_h: float | None) -> Section:
    """The section: rows for programs and the table, the two ladders, and the recommendation."""
    content: dict[str, Any] = {
        "modes": [mode.to_dict() for mode in modes],
        "by_hours": [dataclasses.asdict(step) for step in ladder_of_hours(modes, most_term_h=YEAR_H)],
        "by_months": [dataclasses.asdict(step) for step in ladder_of_months(modes)],
        "job_h": job_h,
    }
    reasons: tuple[Reason, ...] = advice_of(modes, job_h=job_h)
    return Section("buy", content, reasons)


# --- every line of the bill


def bill_section(found: Exploration, option: Option, at: Row, catalog: Catalog) -> Section:
    """Every line of the bill of a training run, and what the servers come to when they are kept for a month."""
    lines = (*_server_lines(found, option, at), *_storage_lines(found, option, at, catalog), *_traffic_lines(found, option, at, catalog))
    office_h = found.wish.workload.office_hours or facts.coefficients("planning")["office_hours_per_month"]
    months = _months(found, option, at, office_h=office_h)
    return Section("bill", {"lines": [line.to_dict() for line in lines], "month": months}, (Reason("bill_month", months),))


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One line of the bill: `quantity` of `unit` at `unit_usd`. `beside`: not part of the run's total, but paid if the thing is kept or moved."""

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
        return dataclasses.asdict(self)


def _server_lines(found: Exploration, option: Option, at: Row) -> list[Line]:
    """Rent by what the hours are for; what rounding and minimums add is a line of its own."""
    bill, where = found.bill, (at.offer, at.node)
    price, source, as_of = float(bill.hourly_usd[where]), option.price_source, option.price_as_of
    spans = {"startup": bill.startup_s[where], "work": bill.run_s[where], "saves_and_stops": bill.save_and_restart_s[where]}
    lines = [Line(name, price * float(span) / 3600.0, float(span) / 3600.0, "h", price, source, as_of) for name, span in spans.items()]
    extra = float(bill.servers_usd[where]) - sum(line.usd for line in lines)
    rounding = Line("billing_steps", extra, extra / price if price else 0.0, "h", price, source, as_of)
    return [*lines, rounding] if extra > 0.005 * price else lines


def place_charges(
    catalog: Catalog, provider: str, region: str
) -> tuple[StoragePrice | None, StoragePrice | None, EgressPrice | None, EgressPrice | None]:
    """Block and object storage, data to the internet and to another region at one place; read from the catalog once."""
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


def _storage_lines(found: Exploration, option: Option, at: Row, catalog: Catalog) -> list[Line]:
    """The volume of the run with what it can do, and the object store that would keep data and checkpoints for a month."""
    block, objects, _, _ = place_charges(catalog, option.provider, option.region)
    usual, usd, lines = facts.coefficients("planning"), float(found.bill.storage_usd[at.offer, at.node]), []
    hours = option.estimate["total_time_s"].mid / 3600.0
    if block is not None and usd > 0:
        stored_gb = usd / block.price_usd_per_gb_month * money.HOURS_PER_MONTH / hours
        note = f"{block.product}{volume_note(option.provider, block.product, stored_gb)}"
        lines.append(Line("volume", usd, stored_gb, "GB", block.price_usd_per_gb_month, block.source, block.as_of, note))
    if objects is not None:
        kept_gb = (found.volume.dataset_bytes + usual["checkpoints_kept"] * found.volume.checkpoint_bytes) / 1e9
        price = objects.price_usd_per_gb_month
        lines.append(
            Line("object_store_month", kept_gb * price, kept_gb, "GB", price, objects.source, objects.as_of, objects.product, beside=True)
        )
    return lines


def volume_note(provider: str, product: str, size_gb: float) -> str:
    """IOPS and throughput of a volume of this size, where its kind is described in facts/data/volumes.csv."""
    rows = [row for row in facts.table("volumes") if row["provider"] == provider and product in (row["price_key"], row["volume"])]
    if not rows:
        return ""
    row = {name: float(value) for name, value in rows[0].items() if name not in ("provider", "volume", "kind", "price_key", "source")}
    iops = min(row["base_iops"] + row["iops_per_gb"] * size_gb, row["max_iops"])
    rate = min(row["base_mb_per_s"] + row["mb_per_s_per_gb"] * size_gb, row["max_mb_per_s"])
    return f", {iops:,.0f} IOPS, {rate:,.0f} MB/s"


def _traffic_lines(found: Exploration, option: Option, at: Row, catalog: Catalog) -> list[Line]:
    """Data in, data out with the cloud's tiers, the same to another region, and the public addresses."""
    where, volume = (at.offer, at.node), found.volume
    sent_gb, data_gb = volume.result_bytes / 1e9, volume.dataset_bytes / 1e9
    lines = [Line("upload", 0.0, data_gb, "GB", 0.0, "no cloud of the catalog charges for data that come in")]
    _, _, out, other = place_charges(catalog, option.provider, option.region)
    if out is not None:
        tiers = ", ".join(f"{tier.price_usd_per_gb:g} from {tier.from_gb:g} GB" for tier in out.tiers)
        note = f"{out.free_gb:g} GB a month free; {tiers}"
        usd = float(found.bill.egress_usd[where])
        lines.append(Line("result_out", usd, sent_gb, "GB", out.tiers[0].price_usd_per_gb, out.source, out.as_of, note))
        lines.append(
            Line(
                "dataset_out", out.cost_usd(data_gb), data_gb, "GB", out.tiers[0].price_usd_per_gb, out.source, out.as_of, note, beside=True
            )
        )
    if other is not None:
        price = other.tiers[0].price_usd_per_gb
        lines.append(Line("dataset_other_region", other.cost_usd(data_gb), data_gb, "GB", price, other.source, other.as_of, beside=True))
    charge = network_charge(option.provider, "public-ip")
    usd, price = float(found.bill.network_usd[where]), float(charge["usd_per_h"])
    if usd > 0:
        lines.append(Line("public_address", usd, usd / price, "h", price, charge["source"], charge["as_of"]))
    return lines


def _months(found: Exploration, option: Option, at: Row, *, office_h: float) -> dict[str, float]:
    """A month of the same servers: running all the time, and for office hours with the volumes and addresses kept."""
    hourly, seconds = float(found.bill.hourly_usd[at.offer, at.node]), option.estimate["total_time_s"].mid
    kept = (float(found.bill.storage_usd[at.offer, at.node]) + float(found.bill.network_usd[at.offer, at.node])) / seconds
    kept_usd = kept * money.SECONDS_PER_MONTH
    return {
        "month_usd": hourly * money.HOURS_PER_MONTH + kept_usd,
        "office_hours": office_h,
        "office_usd": hourly * office_h + kept_usd,
        "idle_share": 1.0 - office_h / money.HOURS_PER_MONTH,
        "startup_usd": hourly * float(found.bill.startup_s[at.offer, at.node]) / 3600.0,
        "startup_s": float(found.bill.startup_s[at.offer, at.node]),
    }
