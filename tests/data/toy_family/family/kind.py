"""The family of sorting: runs as large as RAM are sorted, written to disk and merged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import InputError
from rightfit.estimation.figures import Figure
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.advice import cheaper_spot, relaxed
from rightfit.search.answer import Counts, Layout, Option, Reason, Section
from rightfit.search.bill import cost_of, money_parts
from rightfit.search.constraints import Failures, Feasibility, Filters, assumed_purchases, judge, read_filters
from rightfit.search.family import Beside, Family, Given, accelerator_of, job_offer_facts, offered
from rightfit.search.market import Bill, Volume, bill
from rightfit.search.offers import Market, known_host_bytes, whole_market
from rightfit.search.option_reasons import headline, price_warnings
from rightfit.search.rank import Row, cheapest_row
from rightfit.search.refusals import least_changes
from rightfit.search.risk import Spread, surety_of_job

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload

# Toy figures: a record, comparisons a second and core, what a disk moves, runs that one merge
# takes, how far off all that may be.
RECORD_BYTES, CORE_RATE, DISK_BYTES_PER_S, MOST_RUNS, DOUBT = 100.0, 2e7, 5e8, 64.0, 1.5


@dataclass(frozen=True, slots=True)
class Sorting:
    """All that one search found. Times [s] and memory [bytes] are by server; one
    server does the job."""

    workload: Workload
    filters: Filters
    market: Market
    compare_s: Array
    spill_s: Array
    ram_bytes: Array
    volume: Volume
    bill: Bill
    failures: Failures
    bits: NDArray[np.int32]

    def nodes(self, _at: tuple[int, int]) -> int:
        """One server."""
        return 1

    def num_servers(self, offer: NDArray[np.intp], _column: NDArray[np.intp]) -> Array:
        """One server for each row."""
        return np.ones(offer.shape)

    def is_tight(self, offer: NDArray[np.intp], _column: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which rows may lack memory: none."""
        return np.zeros(offer.shape, dtype=np.bool_)

    def last_resort(self, offer: NDArray[np.intp], _column: NDArray[np.intp]) -> NDArray[np.bool_]:
        """No row is one."""
        return np.zeros(offer.shape, dtype=np.bool_)

    def together(self, _at: tuple[int, int]) -> int:
        """It works alone."""
        return 1

    def missing(self, _server: int) -> str:
        """Every server can sort."""
        return ""


def search(workload: Workload, market: Market, wanted: Filters, *, as_if: bool = False) -> Sorting:
    """Time, money and memory on every offer; `as_if`: also where RAM holds too
    little for one merge."""
    if workload.data_bytes is None:
        raise InputError("data: how much is sorted? give it in bytes, for example data 1TB", field="data")
    servers, rows, data_bytes = market.offers.servers, market.offers.server_index, workload.data_bytes
    ram_bytes, one = known_host_bytes(servers), np.ones(1)
    records = data_bytes / RECORD_BYTES
    compare_s = records * np.log2(records) / (CORE_RATE * np.maximum(np.nan_to_num(servers.vcpus), 1.0))
    spill_s = np.where(data_bytes > ram_bytes, 2.0 * data_bytes / DISK_BYTES_PER_S, 0.0)
    fits = (ram_bytes >= data_bytes / MOST_RUNS)[:, None]
    volume = Volume(0.0, data_bytes, 0.0, 0.0)
    prices = bill(
        np.where(fits | as_if, (compare_s + spill_s)[:, None], np.inf)[rows],
        price_usd_per_h=market.offers.price_usd_per_h,
        accelerators=np.maximum(np.nan_to_num(servers.num_accelerators), 1.0)[rows],
        network_bytes_per_s=np.nan_to_num(servers.network_bytes_per_s)[rows],
        local_nvme_bytes=np.nan_to_num(servers.local_nvme_bytes)[rows],
        nodes=one,
        volume=volume,
        market=market.charges,
    )
    every, least = np.ones_like(fits), np.full(fits.shape, data_bytes / MOST_RUNS)
    room = Feasibility(("",) * len(servers), every, every, fits, 0.0 * least, np.zeros(len(servers)), least, ram_bytes)
    doubt = Spread(np.full((1, 1), DOUBT), np.full((1, 1), DOUBT**2))
    sure = surety_of_job(prices, market, spread=lambda: doubt, volume=volume, nodes=one, is_limited=wanted.is_limited)
    failures = judge(market.offers, wanted, feasible=room, sure=sure, node_counts=one, as_one=False)
    return Sorting(workload, wanted, market, compare_s, spill_s, ram_bytes, volume, prices, failures, failures.bits())


def options(found: Sorting, rows: Sequence[Row], _num_full: int) -> tuple[Option, ...]:
    """The rows as options."""
    return tuple(_option(found, row, position) for position, row in enumerate(rows))


def _option(found: Sorting, row: Row, position: int) -> Option:
    at, server = (row.offer, row.node), int(found.market.offers.server_index[row.offer])
    terms = {"compare": float(found.compare_s[server]), "spill": float(found.spill_s[server])}
    data_bytes, ram_bytes = found.volume.dataset_bytes, float(found.ram_bytes[server])
    time, memory_bytes = _figure(float(found.bill.total_s[at])), min(data_bytes, ram_bytes)
    return Option(
        **offered(found, row, position),
        accelerator=accelerator_of(found, row.offer),
        layout=Layout(method="sort"),
        estimate={
            "total_time_s": time,
            "peak_memory_bytes": _figure(memory_bytes, doubt=1.0),
            "bytes_per_s": _figure(data_bytes / sum(terms.values())),
            "disk_bytes": _figure(data_bytes, doubt=1.0),
        },
        memory_terms={"runs": memory_bytes},
        time_terms={name: value for name, value in terms.items() if value},
        cost=cost_of(found.bill, found.market, at, time=time),
        facts={**job_offer_facts(found, row), "data_bytes": data_bytes, "capacity_bytes": ram_bytes},
    )


def _figure(value: float, *, doubt: float = DOUBT) -> Figure:
    return Figure(value, value / doubt, value * doubt, value / doubt**2, value * doubt**2, "extrapolated")


def reasons(found: Sorting, built: Sequence[Option]) -> tuple[Option, ...]:
    """The options with `why` and `warnings`."""
    return tuple(dataclasses.replace(option, why=_why(found, option, built), warnings=tuple(price_warnings(option))) for option in built)


def _why(found: Sorting, option: Option, built: Sequence[Option]) -> tuple[Reason, ...]:
    first = (headline(found, option, built),) if option.rank == 1 else ()
    runs = {"runs": np.ceil(option.facts["data_bytes"] / option.facts["capacity_bytes"])}
    return (*first, Reason("sort_spills", runs) if "spill" in option.time_terms else Reason("sort_in_ram", {}))


def counts(found: Sorting) -> Counts:
    """How much was looked at."""
    servers, offers = len(found.ram_bytes), len(found.market.offers)
    return Counts(candidates=servers, timed=servers, offers=offers, servers=servers, covered=offers)


def given(workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[Sorting]:
    """The job on the one server of a market; where it does not fit, as if it did."""
    if nodes > 1:
        raise InputError(f"nodes: one server sorts the data, {nodes} do not share it; leave it out", field="nodes")
    wanted = dataclasses.replace(read_filters(workload, catalog), any_software=True)
    found = search(workload, market, wanted)
    shown = search(workload, market, wanted, as_if=True)
    row = cheapest_row(shown)
    return Given(found, shown, row, bool(np.isfinite(found.bill.total_s).any()), (row.offer, row.node) if row else (0, 0))


def beside(found: Sorting, chosen: tuple[Option, ...], _rows: Sequence[Row], _catalog: Catalog) -> Beside:
    """Advice."""
    best = chosen[0] if chosen else None
    return Beside((*relaxed(found, best), *cheaper_spot(found, best)) if best else least_changes(found))


def money(found: Sorting, option: Option, row: Row, catalog: Catalog) -> tuple[Section, ...]:
    """How to buy the server, and its bill."""
    hours = found.workload.office_hours
    return money_parts(catalog, found.market, found.bill, option, (row.offer, row.node), volume=found.volume, office_h=hours)


FAMILY = Family(
    name="sorting",
    explore=lambda workload, catalog: search(workload, whole_market(catalog), read_filters(workload, catalog)),
    options=options,
    reasons=reasons,
    assumptions=lambda found: assumed_purchases(found.workload),
    counts=counts,
    given=given,
    beside=beside,
    money=money,
)
