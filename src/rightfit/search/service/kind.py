"""What both families of services tell the frame alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rightfit.search.answer import Assumption, Counts, Option, Reason, Section
from rightfit.search.constraints import DEFAULT_PURCHASES, assumed_purchases
from rightfit.search.family import MOST_PARETO, Beside, Family, Given
from rightfit.search.market import BillColumns, Volume
from rightfit.search.money_parts import money_parts
from rightfit.search.offers import Market
from rightfit.search.priced import credit_section
from rightfit.search.rank import Ranking, Row
from rightfit.search.service.autoscale import cold_start_content, load_sections
from rightfit.search.service.batch import batch_volume, judged_batch
from rightfit.search.service.fleet import solver
from rightfit.search.service.found import ServingExploration
from rightfit.search.service.given import given_servers
from rightfit.search.service.options import build_serving_options
from rightfit.search.service.reasons import serving_advice, with_serving_reasons
from rightfit.search.service.refine import refined
from rightfit.search.service.sizing import SERVING_PURCHASES, egress_gb, weights_gb
from rightfit.search.service.wish import usual
from rightfit.search.verdict import market_of_one
from rightfit.units import GB

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

Ways = Callable[[ServingExploration, tuple[Option, ...], "Catalog"], Beside]
Play = Callable[[ServingExploration, tuple[Option, ...], list[int]], tuple[Option, ...]]


class Explore(Protocol):
    """The search of a family of services."""

    def __call__(self, workload: Workload, catalog: Catalog, *, market: Market | None = None) -> ServingExploration:
        """Over the market that suits, or over a given one."""
        ...


def service_family(name: str, explore: Explore, *, ways: Ways, play: Play | None = None) -> Family[ServingExploration]:
    """A family of services. `ways`: advice and sections about other ways to serve; `play`: the options played through by simulation."""

    def search(workload: Workload, catalog: Catalog) -> ServingExploration:
        if workload.fleet == "mixed":
            solver()
        return explore(workload, catalog)

    def given(workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[ServingExploration]:
        return given_servers(explore(workload, catalog, market=market), nodes)

    def beside(exploration: ServingExploration, options: tuple[Option, ...], rows: Sequence[Row], catalog: Catalog) -> Beside:
        candidate = exploration.candidate(rows[0].offer, rows[0].node) if rows else -1
        other = ways(exploration, options, catalog)
        return Beside(
            (*serving_advice(exploration, options), *other.advice),
            (*credit_section(options, catalog), *load_sections(exploration, options, candidate), *other.sections),
        )

    def money(exploration: ServingExploration, option: Option, row: Row, catalog: Catalog) -> tuple[Section, ...]:
        return money_parts(
            catalog,
            exploration.market,
            exploration.bill,
            option,
            (row.offer, row.node),
            volume=volume_of(exploration),
            office_h=exploration.wish.workload.office_hours,
            startup_s=cold_start_content(option)["total_s"],
            alone=alone(exploration, option, catalog),
        )

    def alone(exploration: ServingExploration, option: Option, catalog: Catalog) -> tuple[Market, BillColumns] | None:
        """Every offer of an option's server with its bill; None where the search has them all: of servers without accelerators it took the
        cheapest."""
        if option.accelerator.name or len(exploration.market.offers.servers) == 1:
            return None
        market, _ = market_of_one(catalog, catalog.server_rows[option.provider, option.instance_type])
        if not exploration.wish.is_batch:  # a month is the same for every way to pay but for its price
            return market, exploration.bill
        one = explore(exploration.wish.workload, catalog, market=market)
        return market, judged_batch(one.wish, one.wanted, market, one.fleet, one.space, one.grid, node_counts=(option.nodes,)).bill

    def simulate(exploration: ServingExploration, options: tuple[Option, ...], rows: Sequence[Row]) -> tuple[Option, ...]:
        assert play is not None
        return play(exploration, options, [exploration.candidate(row.offer, row.node) for row in rows])

    return Family(
        name=name,
        explore=search,
        confirm=confirm,
        options=lambda exploration, rows, _num_full: build_serving_options(exploration, rows),
        reasons=with_serving_reasons,
        assumptions=serving_assumptions,
        counts=serving_counts,
        given=given,
        beside=beside,
        told=told,
        money=money,
        front=spread_out,
        simulate=simulate if play else None,
        is_service=True,
    )


def confirm(exploration: ServingExploration, top: int) -> tuple[ServingExploration, Ranking]:
    """The first options by the queue model in place of the quick law."""
    return refined(exploration, top=top)


def told(exploration: ServingExploration) -> tuple[str, str]:
    """Names under which money and time are told: of a batch job the whole of it, of a service a month and a request."""
    return ("total_usd", "total_time_s") if exploration.wish.is_batch else ("monthly_usd", "latency_s")


def volume_of(exploration: ServingExploration) -> Volume:
    """What the servers keep and send: of a batch job in all, of a service within a month."""
    wish = exploration.wish
    return (
        batch_volume(wish)
        if wish.is_batch
        else Volume(weights_gb(wish) * GB, 0.0, 0.0, egress_gb(wish, float(usual()["hours_per_month"])) * GB)
    )


def spread_out(front: Sequence[Row]) -> Sequence[Row]:
    """A dozen points evenly over the front."""
    return spread_over(front, MOST_PARETO)


def spread_over(front: Sequence[Row], most: int) -> list[Row]:
    """At most so many points of a front, evenly over it, its two ends among them; figures of points that are not options are those of the
    quick law."""
    if len(front) <= most:
        return list(front)
    return [front[at] for at in np.unique(np.linspace(0, len(front) - 1, most).round().astype(int)).tolist()]


def serving_assumptions(exploration: ServingExploration) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market and the engine."""
    workload = exploration.wish.workload
    usual = DEFAULT_PURCHASES if exploration.wish.is_batch else SERVING_PURCHASES
    taken = [*exploration.wish.assumptions, *assumed_purchases(workload, usual=usual)]
    if exploration.wish.generates and not workload.quantization and not workload.precision:
        taken.append(Assumption("quantization", "none", Reason("assumed_serve_format", {"value": "bf16 / fp16"})))
    if exploration.wish.generates and not workload.framework:
        taken.append(Assumption("framework", "vLLM", Reason("assumed_serve_engine", {"value": "vLLM"})))
    return tuple(taken)


def serving_counts(exploration: ServingExploration) -> Counts:
    """How much was looked at."""
    machine = exploration.fleet.machine_index[exploration.market.offers.server_index]
    per_class = np.bincount(exploration.space.machine, minlength=max(len(exploration.fleet), 1))
    return Counts(
        candidates=len(exploration.space),
        timed=int(exploration.space.fits.sum()) * int(exploration.grid.batch.shape[1]),
        offers=len(exploration.market.offers),
        servers=int((exploration.fleet.machine_index >= 0).sum()),
        covered=int(per_class[machine[machine >= 0]].sum()) * int(exploration.grid.batch.shape[1]),
    )
