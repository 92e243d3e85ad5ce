"""The two parts of every answer about money: how to buy the servers of an option, and every line of its bill. No family of work is known
here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rightfit.search.answer import Option, Reason, Section
from rightfit.search.bill import bill_section, paid_of
from rightfit.search.market import BillColumns
from rightfit.search.offers import Market
from rightfit.search.purchase import Mode, advice_of, how_to_buy, ladder_of_hours, ladder_of_months
from rightfit.units import HOURS_PER_YEAR

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.market import Volume


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
    """How to buy the servers of an option, and its bill. `cell`: its offer and column; `volume`: what it stores and moves, a service within
    a month;
    `office_h`: hours of use a month; `startup_s`: of a service, whose bill has no start; `alone`: every offer of the option's server with
    its
    bill in one column, where the search looked at some of its offers only."""
    paid = paid_of(bill, market, cell, option, volume=volume, startup_s=startup_s)
    buy = buy_section(catalog, *alone, option, (0, 0), office_h=office_h) if alone else None
    return buy or buy_section(catalog, market, bill, option, cell, office_h=office_h), bill_section(paid, catalog, office_h=office_h)


def buy_section(
    catalog: Catalog, market: Market, bill: BillColumns, option: Option, cell: tuple[int, int], *, office_h: float | None
) -> Section:
    """Each way to pay for the servers of an option, for steady use and, where it is a job, with its figure for the job. `cell`: an offer of
    its server,
    and its column of the bill."""
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
