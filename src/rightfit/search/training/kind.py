"""What both families of training tell the frame: they differ in their craft alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit.errors import RightfitError, UnavailableError
from rightfit.messages import Message
from rightfit.search.advice import WORTHWHILE, cheaper_spot, cheapest_of, effect_of, relaxed
from rightfit.search.answer import Assumption, Counts, Option, Reason, Section
from rightfit.search.bill import money_parts
from rightfit.search.constraints import assumed_purchases, read_filters
from rightfit.search.criteria import CRITERIA, listed_stacks
from rightfit.search.family import Beside, Family, Given
from rightfit.search.offers import Market, open_market
from rightfit.search.option_reasons import with_reasons
from rightfit.search.rank import Row, cheapest_row
from rightfit.search.refusals import least_changes
from rightfit.search.training.explore import Craft, TrainingResult, explore, with_least_memory
from rightfit.search.training.options import build_options, room_sections

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload


# ---- What would serve the user better, each with its predicted effect: another method, spot, more
# time, more nodes, a smaller card, fewer cards.

LIGHTER_METHODS = {
    "full": ("lora", "qlora"),
    "lora": ("qlora",),
    "dora": ("qlora",),
    "freeze": ("lora", "qlora"),
    "galore": ("lora", "qlora"),
}
ONE_NODE = (1,)


def advise(search_result: TrainingResult, options: tuple[Option, ...], more: Sequence[Reason] = ()) -> tuple[Reason, ...]:
    """Advice for a plan; `more`: what only the family knows, which goes first where nothing is
    feasible, then what is refused for want of certainty alone, then the least changes."""
    best = options[0] if options else None
    changes = () if best else (*more, *_likely(search_result), *least_changes(search_result))
    return (
        *changes,
        *_other_methods(search_result, best),
        *(more if best else ()),
        *relaxed(search_result, best),
        *cheaper_spot(search_result, best),
        *_fewest(search_result, best),
    )


def _likely(search_result: TrainingResult) -> Iterable[Reason]:
    """The nearest server that is refused for its accelerators' memory alone, where the predicted
    peak fits and only the probability that plans ask for does not."""
    lone = search_result.bits == 1 << CRITERIA.index("gpu_memory")
    if not lone.any():
        return
    offers, found = search_result.market.offers, np.nonzero(lone)
    margin, price = search_result.failures.margin("gpu_memory", found), offers.price_usd_per_h[found[0]]
    offer, node = (int(axis[np.lexsort((price, found[1], margin))[0]]) for axis in found)
    lone_offer = dataclasses.replace(offers.take(np.array([offer])), servers=offers.servers.take(offers.server_index[[offer]]))
    market = dataclasses.replace(
        search_result.market.take(np.array([offer])), offers=dataclasses.replace(lone_offer, server_index=np.zeros(1, dtype=np.intp))
    )
    counts = (int(search_result.node_counts[node]),)
    there = with_least_memory(explore(search_result.wish, market, search_result.filters, search_result.craft, node_counts=counts))
    known = search_result.craft.evaluate(there, [Row(0, 0)], None)
    peak, limit = (float(np.broadcast_to(value, (1,))[0]) for value in (known.memory.required_bytes, known.memory.capacity_bytes))
    wanted, usd, seconds = there.filters, float(there.bill.total_usd[0, 0]), float(there.bill.total_s[0, 0])
    in_time = wanted.deadline_s is None or seconds <= wanted.deadline_s
    if peak <= limit and in_time and (wanted.budget_usd is None or usd <= wanted.budget_usd):
        probability = float(known.fit_probability[0])
        yield Reason(
            "likely_fits", {**effect_of(there, (0, 0), None), "peak_bytes": peak, "limit_bytes": limit, "probability": probability}
        )


def _other_methods(search_result: TrainingResult, best: Option | None) -> Iterable[Reason]:
    """Lighter methods on one server: what the cheapest would cost under the same limits."""
    workload = search_result.wish.workload
    if workload.task != "finetune":
        return
    method = workload.method or "full"
    for other in LIGHTER_METHODS.get(method, ()):
        try:
            wish = search_result.craft.read(workload.with_changes(method=other))
        except RightfitError:
            continue  # an option of the user's (a quantisation, an optimizer) does not go with it
        there = explore(wish, search_result.market, search_result.filters, search_result.craft, node_counts=ONE_NODE)
        at = cheapest_of(there, there.bits == 0)
        if at is None:
            continue
        effect = effect_of(there, at, best)
        if best is not None and workload.objective == "time" and there.bill.total_s[at] > best.estimate["total_time_s"].mid:
            continue  # who asks for speed is not helped by a slower way that costs less
        if best is None or float(there.bill.total_usd[at]) < WORTHWHILE * best.cost.total_usd:
            yield Reason("method", {"from_method": method, "to_method": other, **effect})


def _fewest(search_result: TrainingResult, best: Option | None) -> Iterable[Reason]:
    """The least number of the best option's accelerators that can run the job at all."""
    if best is None:
        return
    count = least_accelerators(search_result, best.accelerator.name)
    if count and count < best.num_accelerators:
        yield Reason("least_accelerators", {"accelerator": best.accelerator.name, "count": count})


def least_accelerators(search_result: TrainingResult, accelerator: str) -> int:
    """The least number of accelerators of this name, over servers and node counts of the market,
    that a setup fits on, the host's RAM included; 0 where none does."""
    servers = search_result.market.offers.servers
    rows = np.array([name == accelerator for name in servers.accelerator_name], dtype=np.bool_)
    fits = search_result.feasible.fits_host & rows[:, None]
    total = servers.num_accelerators[:, None] * search_result.node_counts[None, :]
    return int(total[fits].min()) if fits.any() else 0


More = Callable[[TrainingResult, Option | None], Iterable[Reason]]


def training_family(name: str, craft: Craft, *, more: More = lambda *_: ()) -> Family[TrainingResult]:
    """The family of a craft; `more`: advice that only it knows."""

    def search(workload: Workload, catalog: Catalog) -> TrainingResult:
        return explore(craft.read(workload), open_market(catalog), read_filters(workload, catalog), craft)

    def beside(search_result: TrainingResult, options: tuple[Option, ...], _rows: Sequence[Row], _catalog: Catalog) -> Beside:
        return Beside(advise(search_result, options, tuple(more(search_result, options[0] if options else None))))

    def given(workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[TrainingResult]:
        return given_servers(craft, workload, market, nodes, catalog)

    return Family(
        name=name,
        explore=search,
        options=build_options,
        reasons=with_reasons,
        assumptions=assumptions,
        counts=counts,
        given=given,
        beside=beside,
        money=training_money,
        room=room_sections,
    )


def training_money(search_result: TrainingResult, option: Option, row: Row, catalog: Catalog) -> tuple[Section, ...]:
    """How to buy the servers, and every line of the bill."""
    at, office_h = (row.offer, row.node), search_result.wish.workload.office_hours
    return money_parts(catalog, search_result.market, search_result.bill, option, at, volume=search_result.volume, office_h=office_h)


def given_servers(craft: Craft, workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[TrainingResult]:
    """The job on so many servers of one type; where no set-up fits, as if the one that
    needs least memory did."""
    servers = market.offers.servers
    if not servers.accelerator_name[0]:
        raise UnavailableError(Message("search.training_without_card", server=f"{servers.provider[0]}/{servers.instance_type[0]}"))
    wanted = dataclasses.replace(read_filters(workload, catalog), any_software=True)
    found = explore(craft.read(workload), market, wanted, craft, node_counts=(nodes,))
    fits = bool(np.isfinite(found.bill.total_s).any())
    shown = found if fits or found.missing(0) else with_least_memory(found)
    at = cheapest_row(shown)
    return Given(found, shown, at, fits, (at.offer, at.node) if at else (0, 0))


def assumptions(search_result: TrainingResult) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market."""
    taken = [*search_result.wish.assumptions, *assumed_purchases(search_result.workload)]
    if not search_result.filters.gpus and not search_result.filters.any_software:
        value = listed_stacks()
        taken.append(Assumption("gpu", value, Reason("assumed_software", {"value": value})))
    if not search_result.wish.workload.precision:
        value = ", ".join(dict.fromkeys(variant.precision for variant in search_result.fleet.machines.variants))
        taken.append(Assumption("precision", value, Reason("assumed_precision", {"value": value})))
    return tuple(taken)


def counts(search_result: TrainingResult) -> Counts:
    """How much was looked at."""
    offers, space, machines = search_result.market.offers, search_result.space, search_result.fleet.machines
    server = search_result.fleet.machine_index[offers.server_index]
    block = space.block(machines.variant, machines.gpus_per_node)
    per_machine = space.counts[block]
    return Counts(
        candidates=search_result.best.num_candidates,
        timed=search_result.best.num_timed,
        offers=len(offers),
        servers=int((search_result.fleet.machine_index >= 0).sum()),
        covered=int(per_machine[server[server >= 0]].sum()),
    )
