"""One given server: what a job does on it (`estimate_one`), and why it was or was not chosen (`why`)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import AmbiguousNameError, InputError, UnavailableError, UnknownNameError
from rightfit.search.answer import Assumption, Lang, Option, Plan, Reason, Rejection, Render, finite, render_all, room
from rightfit.search.constraints import read_wanted
from rightfit.search.evaluate import memory_of, work_steps
from rightfit.search.explore import Exploration, Market, by_server, explore, open_market, path_of, price
from rightfit.search.grounds import with_reasons
from rightfit.search.host_names import is_host_work
from rightfit.search.loads import moved_usd
from rightfit.search.options import build_options
from rightfit.search.planner import assumptions, counts, default_catalog, money_parts, search
from rightfit.search.rank import Row, ordered, score_of
from rightfit.search.reasons import CRITERIA
from rightfit.search.refusals import change, near_miss, needed_and_had
from rightfit.search.wish import read_wish

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

LARGEST_NODES = 4096
OFFER_CRITERIA = frozenset({"status", "region", "country", "purchase", "budget"})


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What is known about one server for a workload.

    `option`: the best setup on it, or, where none fits, the one that needs least memory (None when the accelerator cannot run the job at all).
    `standing`: reasons, most important first: why_best, why_ranked, why_refused, why_unpriced. `failed`: the criteria it fails, with the
    nearest miss and its least change.
    """

    workload: Any
    assumptions: tuple[Assumption, ...]
    provider: str
    instance_type: str
    fits: bool
    option: Option | None
    standing: tuple[Reason, ...]
    failed: tuple[Rejection, ...]

    def to_dict(self, render: Render | None = None) -> dict[str, Any]:
        """As JSON-ready data."""
        return dict(
            finite(
                {
                    "workload": self.workload.to_dict(),
                    "assumptions": [assumption.to_dict(render) for assumption in self.assumptions],
                    "provider": self.provider,
                    "instance_type": self.instance_type,
                    "fits": self.fits,
                    "option": self.option.to_dict(render) if self.option else None,
                    "standing": render_all(self.standing, render),
                    "failed": [rejection.to_dict(render) for rejection in self.failed],
                }
            )
        )

    def to_html(self, lang: Lang | None = None, *, everything: bool = False, whole: bool = False) -> str:
        """The verdict as HTML that needs nothing from outside; `lang` "en" or "zh", by default that of the locale.

        A fragment for a page or, with `whole`, the text of a file. `everything`: every refusal too.
        """
        html: str = room("html").answer_html(self, lang or room("messages").default_lang(), everything=everything, whole=whole)
        return html

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.to_html()


def find_server(catalog: Catalog, name: str) -> int:
    """Row of a server given as PROVIDER/INSTANCE or, where only one provider has it, INSTANCE."""
    from rightfit.catalog import names

    owner, _, kind = name.strip().rpartition("/")
    provider = names.resolve_provider(owner) if owner else ""
    rows = catalog.server_rows
    found = [row for (cloud, known), row in rows.items() if known.casefold() == kind.casefold() and (not provider or cloud == provider)]
    if len(found) > 1:
        raise AmbiguousNameError("server", name, [f"{cloud}/{known}" for (cloud, known), row in rows.items() if row in found], field="on")
    if not found:
        known = {f"{cloud}/{kind_}": f"{cloud}/{kind_}" for cloud, kind_ in rows if not provider or cloud == provider}
        from rightfit.facts import fuzzy

        raise UnknownNameError(
            "server", name, nearest=tuple(fuzzy.nearest(f"{provider}/{kind}" if provider else kind, known, count=3)), field="on"
        )
    return found[0]


def estimate_one(workload: Workload, *, on: str, nodes: int = 1, catalog: Catalog | None = None) -> Plan:
    """The job on `nodes` servers of one type, with the layout that the workload fixes and the best one for what it leaves open.

    The plan has one option, or none and `unfit` where no setup fits; a deadline, a budget or a filter that the server fails is in `rejected` but
    does not take the option away: the server was given.
    """
    catalog = catalog or default_catalog()
    if is_host_work(workload):
        from rightfit.search.host_planner import estimate_host

        return estimate_host(workload, on=on, nodes=nodes, catalog=catalog)
    if not 1 <= nodes <= LARGEST_NODES:
        raise InputError(f"nodes: {nodes} is not possible; give 1 to {LARGEST_NODES}", field="nodes")
    if workload.task in ("serve", "batch"):
        from rightfit.search.serving_single import estimate_serving

        return estimate_serving(workload, on=on, nodes=nodes, catalog=catalog)
    row = find_server(catalog, on)
    market, priced = market_of_one(catalog, row)
    if not market.offers.servers.accelerator_name[0]:
        raise UnavailableError(f"{on} has no accelerator; training on CPUs is not in this version")
    wanted = dataclasses.replace(read_wanted(workload, catalog), any_software=True)
    found = explore(read_wish(workload), market, wanted, node_counts=(nodes,))
    fits = bool(np.isfinite(found.bill.total_s).any())
    shown = found if fits or found.fleet.missing[0] else with_least_memory(found)
    at = _cheapest(shown)
    option = _explained(shown, at, priced=priced) if at else None
    failed = _failed(found, at.offer if at else 0, at.node if at else 0)
    sections = money_parts(found, (option,), (at,), catalog) if option and at and fits and priced else ()
    if not priced:
        failed = tuple(_placeless(rejection) for rejection in failed if rejection.criterion not in OFFER_CRITERIA)
    return Plan(
        workload=workload,
        assumptions=assumptions(found),
        options=(option,) if option and fits else (),
        pareto=(),
        rejected=failed,
        advice=(),
        catalog={"as_of": {name: date for name, date in market.as_of.items() if name == market.offers.servers.provider[0]}},
        counts=counts(found),
        blame=() if fits else tuple((rejection.criterion,) for rejection in failed),
        unfit=None if fits else option,
        given="/".join(names_of(catalog, on)),
        sections=sections,
    )


def _placeless(rejection: Rejection) -> Rejection:
    """A rejection of a server that has no offers: it names no region and no purchase mode."""
    nearest = dataclasses.replace(rejection.nearest, region="", purchase="") if rejection.nearest else None
    return dataclasses.replace(rejection, nearest=nearest)


def _explained(found: Exploration, at: Row, *, priced: bool) -> Option:
    """One row as an option with its reasons; a server without prices has no region and no purchase mode."""
    option = with_reasons(found, build_options(found, [at]))[0]
    if priced:
        return option
    nothing = dataclasses.replace(option, region="", purchase="", price_as_of="", price_source="")
    return dataclasses.replace(nothing, warnings=(Reason("price_unknown", {}),))


def market_of_one(catalog: Catalog, row: int, *, whole: Market | None = None) -> tuple[Market, bool]:
    """The market of one server alone, out of `whole` (that of servers with accelerators by default), and whether it has prices; one without gets an
    offer of unknown price."""
    whole = whole or open_market(catalog)
    rows = np.flatnonzero(whole.offers.server_index == row)
    priced = rows.shape[0] > 0
    found = whole.take(rows if priced else np.zeros(1, dtype=np.intp))
    servers = catalog.servers().take(np.array([row], dtype=np.intp))
    offers = dataclasses.replace(found.offers, servers=servers, server_index=np.zeros(len(found.offers), dtype=np.intp))
    if not priced:
        offers = dataclasses.replace(offers, price_usd_per_h=np.full(1, np.nan))
    return dataclasses.replace(found, offers=offers), priced


def with_least_memory(found: Exploration) -> Exploration:
    """Where no setup fits: the search as if the one that needs least memory did, to say how much that is and how long it would take."""
    space, machines = found.space, found.fleet.machines
    need = memory_of(space.setups, found.base, machines, found.engine)
    if not space.setups.num_rows:
        return found
    over = np.maximum(need.safe_bytes[0], found.best.capacity_bytes[0])  # what fits the accelerators is equally good: then the host decides
    chosen = int(np.lexsort((np.arange(space.setups.num_rows), need.host_bytes, over))[0])
    setup = space.setups.take(np.array([chosen]))
    _, step = found.engine.details(setup.columns(found.base), machines.device.take(np.zeros(1, dtype=np.intp)), machines.links)
    run_s = step.step_s[:1] * work_steps(setup, tokens=found.wish.amount.tokens, seq_len=found.wish.seq_len)
    best = dataclasses.replace(
        found.best, run_s=np.full_like(found.best.run_s, run_s[0]), setup=np.full_like(found.best.setup, chosen), tiers=np.array([np.inf])
    )
    best = dataclasses.replace(best, run_s=best.run_s[:, :, :1], setup=best.setup[:, :, :1], tiers=np.zeros(1))
    times, _ = by_server(best, found.fleet, found.market.offers.servers.memory_bytes)
    node_counts = space.limits.node_counts
    path = path_of(found.wish, found.market, found.volume, times, needed_memory_bytes=np.full((1, 1), np.inf), node_counts=node_counts)
    moved = moved_usd(found.wanted.source, found.market.offers, found.volume)
    return dataclasses.replace(
        found, best=best, path=path, bill=price(found.market, found.volume, path, moved=moved, node_counts=node_counts)
    )


def _cheapest(found: Exploration) -> Row | None:
    """The cheapest offer of the server within the user's filters, else of all; price unknown counts last."""
    known = np.isfinite(found.bill.total_s)
    for mask in ((found.bits == 0) & known, known):
        offer, node = np.nonzero(mask)
        if offer.shape[0]:
            best = ordered(found, offer, node, score_of(found, offer, node))[0]
            return Row(int(offer[best]), int(node[best]))
    return None


def _failed(found: Exploration, offer: int, node: int) -> tuple[Rejection, ...]:
    """The criteria that one row fails."""
    bits = int(found.bits[offer, node])
    return tuple(_lone_rejection(found, criterion, (offer, node)) for position, criterion in enumerate(CRITERIA) if bits >> position & 1)


def _lone_rejection(found: Exploration, criterion: str, at: tuple[int, int]) -> Rejection:
    needed, had = needed_and_had(found, criterion, at)
    miss = near_miss(found, criterion, at)
    margin = float(found.failures.margin(criterion)[at])
    return Rejection(criterion, 1, 1, needed, had, margin, f"{miss.provider}/{miss.instance_type}", miss)


def _refusal(rejection: Rejection) -> Reason:
    nodes = rejection.nearest.nodes if rejection.nearest else 1
    params = {
        "criterion": rejection.criterion,
        "needed": rejection.needed,
        "had": rejection.had,
        "margin": rejection.margin,
        "nodes": nodes,
    }
    return Reason("why_refused", params)


def why(workload: Workload, server: str, *, catalog: Catalog | None = None) -> Verdict:
    """Why a server was or was not chosen for a workload, and the least change that would alter it."""
    catalog = catalog or default_catalog()
    if is_host_work(workload):
        from rightfit.search.host_planner import why_host

        return why_host(workload, server, catalog=catalog)
    if workload.task in ("serve", "batch"):
        from rightfit.search.serving_single import why_serving

        return why_serving(workload, server, catalog=catalog)
    row = find_server(catalog, server)
    found = search(workload, catalog=catalog)
    offers = np.flatnonzero(found.market.offers.server_index == row)
    if not offers.shape[0]:
        return _standing_of_unpriced(found, workload, server, catalog)
    if (found.bits[offers] == 0).any():
        return _standing_of_feasible(found, offers)
    return _standing_of_refused(found, offers, workload, server, catalog)


def _standing_of_unpriced(found: Exploration, workload: Workload, server: str, catalog: Catalog) -> Verdict:
    """A server that has no sound price cannot be ranked; what it would do is said all the same."""
    alone = estimate_one(workload, on=server, catalog=catalog)
    option = alone.best or alone.unfit
    standing = (Reason("why_unpriced", {}), *(_refusal(rejection) for rejection in alone.rejected))
    owner, kind = names_of(catalog, server)
    return Verdict(workload, assumptions(found), owner, kind, alone.best is not None, option, standing, alone.rejected)


def names_of(catalog: Catalog, server: str) -> tuple[str, str]:
    """Provider and instance type as the catalog spells them."""
    row = find_server(catalog, server)
    return next(key for key, number in catalog.server_rows.items() if number == row)


def _standing_of_feasible(found: Exploration, offers: NDArray[np.intp]) -> Verdict:
    """Where a feasible server stands among all feasible ones, and the price at which it would lead."""
    offer, node = np.nonzero(found.bits == 0)
    order = ordered(found, offer, node, score_of(found, offer, node))
    mine = np.isin(offer[order], offers)
    position = int(np.argmax(mine))
    at = (int(offer[order[position]]), int(node[order[position]]))
    first = (int(offer[order[0]]), int(node[order[0]]))
    pair = [Row(*first), Row(*at)] if position else [Row(*at)]
    built = build_options(found, pair)
    option = dataclasses.replace(built[-1], rank=position + 1)
    best = built[0]
    if position == 0:
        standing = Reason("why_best", {"total_usd": option.cost.total_usd, "total_time_s": option.estimate["total_time_s"].mid})
    else:
        servers_before = np.unique(found.market.offers.server_index[offer[order[:position]]]).shape[0]
        standing = Reason(
            "why_ranked",
            {
                "rank": servers_before + 1,
                "total_usd": option.cost.total_usd,
                "total_time_s": option.estimate["total_time_s"].mid,
                "best": f"{best.nodes} x {best.provider} {best.instance_type}",
                "best_usd": best.cost.total_usd,
                "best_time_s": best.estimate["total_time_s"].mid,
                "price_factor": best.cost.total_usd / option.cost.total_usd,
            },
        )
        option = dataclasses.replace(option, rank=servers_before + 1)
    names = (option.provider, option.instance_type)
    return Verdict(found.wish.workload, assumptions(found), *names, True, with_reasons(found, [option])[0], (standing,), ())


def _standing_of_refused(found: Exploration, offers: NDArray[np.intp], workload: Workload, server: str, catalog: Catalog) -> Verdict:
    """The row of the server that is nearest to passing: fewest failing criteria, then least margin."""
    bits = found.bits[offers]
    failing, margin = np.zeros(bits.shape), np.zeros(bits.shape)
    for position, criterion in enumerate(CRITERIA):
        fails = (bits >> position) & 1
        failing += fails
        margin += fails * np.minimum(found.failures.margin(criterion)[offers], 1e9)
    offer, node = np.unravel_index(np.lexsort((margin.ravel(), failing.ravel()))[0], bits.shape)
    at = (int(offers[offer]), int(node))
    failed = _failed(found, *at)
    alone = estimate_one(workload, on=server, nodes=found.space.limits.node_counts[at[1]], catalog=catalog)
    changes = tuple(change(found, rejection.criterion, at) for rejection in failed)
    standing = (*(_refusal(rejection) for rejection in failed), *changes)
    owner, kind = names_of(catalog, server)
    return Verdict(workload, assumptions(found), owner, kind, alone.best is not None, alone.best or alone.unfit, standing, failed)


def least_cards(workload: Workload, *, gpu: str, catalog: Catalog | None = None) -> int:
    """The least number of accelerators of a kind that the workload fits on; 0 where no number of them in the catalog is enough."""
    from rightfit.search.advice import least_accelerators

    found = search(workload, catalog=catalog)
    counts = [least_accelerators(found, name) for name in facts.match_accelerators(gpu)]
    return min((count for count in counts if count), default=0)
