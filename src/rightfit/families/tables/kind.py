"""The family of tables: classical machine learning and data preparation, on processors and on
libraries of GPUs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.families.tables.explore import SAVES, TableResult, build_host_options, explore, explore_host, folding_groups
from rightfit.families.tables.match import GPU, HostLayout
from rightfit.families.tables.wish import PREPARE, read_host_wish
from rightfit.families.tables.work import is_divisible
from rightfit.physics import interruption
from rightfit.search.advice import cheaper_spot, cheapest_of, relaxed
from rightfit.search.answer import Assumption, Counts, Option, Reason, Section
from rightfit.search.bill import money_parts
from rightfit.search.classical_wish import usual
from rightfit.search.constraints import assumed_purchases, read_filters
from rightfit.search.family import Beside, Family, Given
from rightfit.search.offers import Market, whole_market
from rightfit.search.option_reasons import headline, limits_met, price_warnings
from rightfit.search.rank import Ranking, Row, cheapest_row, rank
from rightfit.search.refusals import least_changes
from rightfit.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload


# ---- Why a host option stands where it does, what to beware of, and what would help:
# codes with numbers.
#
# WHY: the headlines of training plans; host_fits {ram_bytes, needed_bytes, limit_bytes,
# probability}; host_fits_card {card_bytes, limit_bytes, probability};
#     host_spills {spilled_bytes}; host_bottleneck {term, share}; host_memory_decides {ratio_bytes};
#         deadline_met, budget_met
# WARNINGS: those of prices; spot_interruption, spot_rate_unknown; deadline_risk;
# host_memory_tight {probability}; host_burstable {}; host_gpu_unmeasured {};
#     host_several_gpus {count}; host_one_thread {vcpus}; host_starts_again {};
#         storage_not_there {storage, taken}
# ADVICE: host_gpu_instead, host_cpu_instead {where, total_usd, total_time_s, factor};
# host_prepare_apart {where, total_usd, factor}; relax_deadline, host_spot;
#     host_tip_* (the codes of estimate/classical.py and estimate/preparation.py); changes where
#         nothing is feasible

TIGHT = 0.975
MEMORY_SHARE = 0.5
TOLD_SHARE = 0.5
USUAL_RATIO_BYTES = 6.0 * 2**30
MUCH_RAM_BYTES = 64.0 * 2**30


def with_host_reasons(search_result: TableResult, options: Sequence[Option]) -> tuple[Option, ...]:
    """The options with `why` and `warnings`."""
    return tuple(
        dataclasses.replace(option, why=tuple(_why(search_result, option, options)), warnings=tuple(_warnings(search_result, option)))
        for option in options
    )


def _why(search_result: TableResult, option: Option, options: Sequence[Option]) -> Iterable[Reason]:
    if option.rank == 1:
        yield headline(search_result, option, options)
    yield from _fits(option)
    if len(option.time_terms) > 1:
        term = max(option.time_terms, key=lambda name: option.time_terms[name])
        share = option.time_terms[term] / sum(option.time_terms.values())
        if share >= TOLD_SHARE:
            yield Reason("host_bottleneck", {"term": term, "share": share})
    if option.facts["ram_needed_bytes"] > MEMORY_SHARE * option.facts["ram_capacity_bytes"] and _is_memory_rich(option):
        yield Reason("host_memory_decides", {"ratio_bytes": option.memory_bytes / option.vcpus})
    yield from limits_met(search_result.filters, option)


def _is_memory_rich(option: Option) -> bool:
    return option.memory_bytes >= USUAL_RATIO_BYTES * max(option.vcpus, 1.0)


def _fits(option: Option) -> Iterable[Reason]:
    known = option.facts
    if known["spilled_bytes"] > 0:
        yield Reason("host_spills", {"spilled_bytes": known["spilled_bytes"], "limit_bytes": known["ram_capacity_bytes"]})
    elif known["ram_needed_bytes"] <= known["ram_capacity_bytes"]:
        ram = {"ram_bytes": option.estimate["host_memory_bytes"].mid, "needed_bytes": known["ram_needed_bytes"]}
        yield Reason("host_fits", {**ram, "limit_bytes": known["ram_capacity_bytes"], "probability": known["fit_probability"]})
    if _on_gpu(option) and option.estimate["peak_memory_bytes"].mid <= known["capacity_bytes"]:
        yield Reason("host_fits_card", {"card_bytes": option.estimate["peak_memory_bytes"].mid, "limit_bytes": known["capacity_bytes"]})


def _on_gpu(option: Option) -> bool:
    return isinstance(option.layout, HostLayout) and option.layout.device == GPU


def _warnings(search_result: TableResult, option: Option) -> Iterable[Reason]:
    yield from price_warnings(option)
    yield from _spot_warnings(option)
    known, layout = option.facts, option.layout
    assert isinstance(layout, HostLayout)
    if known["is_burstable"]:
        yield Reason("host_burstable", {})
    if known["fit_probability"] < facts.coefficients("planning")["memory_told_probability"]:
        yield Reason("host_memory_tight", {"probability": known["fit_probability"]})
    late = option.probability["deadline"]
    if late is not None and late < TIGHT:
        yield Reason("deadline_risk", {"probability": late, "deadline_s": search_result.filters.deadline_s})
    if layout.device == GPU:
        yield Reason("host_gpu_unmeasured", {})
    if layout.cards > 1:
        yield Reason("host_several_gpus", {"count": layout.cards})
    if layout.threads == 1 < option.vcpus and layout.device != GPU:
        yield Reason("host_one_thread", {"vcpus": option.vcpus})
    storage = search_result.wish.workload.storage
    if storage not in (None, "stream", "memory") and not has_disk(search_result, option, str(storage)):
        yield Reason("storage_not_there", {"storage": storage, "taken": "network volume"})


def has_disk(search_result: TableResult, option: Option, storage: str) -> bool:
    """Whether a server has the disk that was asked for by name."""
    from rightfit.estimation.data_path import network_volumes

    if storage == "local":
        return bool(option.facts["rented_bytes"] == 0)
    return any(volume.name == storage for volume in network_volumes(option.provider))


def _spot_warnings(option: Option) -> Iterable[Reason]:
    low, high = option.facts["spot_low"], option.facts["spot_high"]
    if high <= 0:
        return
    rate = float(interruption.interruptions_per_s(np.array([(low + high) / 2.0]))[0])
    time = option.estimate["total_time_s"].mid
    key = "spot_interruption" if option.facts["spot_known"] else "spot_rate_unknown"
    yield Reason(key, {"monthly_low": low, "monthly_high": high, "expected_interruptions": rate * option.nodes * time})
    layout = option.layout
    if isinstance(layout, HostLayout) and layout.job != PREPARE and layout.library not in SAVES and time > SECONDS_PER_HOUR:
        yield Reason("host_starts_again", {})


# ---- advice


def host_advice(search_result: TableResult, options: tuple[Option, ...]) -> tuple[Reason, ...]:
    """What would serve the user better; the least changes first where nothing is feasible."""
    best = options[0] if options else None
    changes = () if best else least_changes(search_result)
    spot = (
        Reason("host_spot", reason.params) for reason in cheaper_spot(search_result, best)
    )  # what libraries save on the way is told by the warnings
    market = (*relaxed(search_result, best), *spot)
    return (*changes, *_other_device(search_result, best), *_apart(search_result, best), *_tips(search_result, best), *market)


def device_rows(search_result: TableResult, *, on_gpu: bool) -> NDArray[np.bool_]:
    """Feasible rows whose server works on its GPU, or on its processors."""
    rows = search_result.work.on_gpu[search_result.market.offers.server_index] == on_gpu
    return np.asarray((search_result.bits == 0) & rows[:, None])


def _where(search_result: TableResult, cell: tuple[int, int]) -> dict[str, Any]:
    offer = search_result.market.offers.row(cell[0])
    return {
        "provider": offer["provider"],
        "instance_type": offer["instance_type"],
        "nodes": search_result.nodes(cell),
        "total_usd": float(search_result.bill.total_usd[cell]),
        "total_time_s": float(search_result.bill.total_s[cell]),
    }


def _other_device(search_result: TableResult, best: Option | None) -> Iterable[Reason]:
    """What the cheapest server of the other kind would take and cost: a GPU beside processors,
    processors beside a GPU."""
    if best is None or search_result.wish.on_gpu is None or search_result.wish.on_cpu is None:
        return
    gpu = _on_gpu(best)
    at = cheapest_of(search_result, device_rows(search_result, on_gpu=not gpu))
    if at is None:
        return
    there = _where(search_result, at)
    factor = best.estimate["work_s"].mid / max(_work_s(search_result, at), 1e-9)
    key = "host_cpu_instead" if gpu else "host_gpu_instead" if factor > 1 else "host_gpu_not_faster"
    yield Reason(key, {**there, "factor": 1.0 / factor if gpu else factor})


def _work_s(search_result: TableResult, cell: tuple[int, int]) -> float:
    server = int(search_result.market.offers.server_index[cell[0]])
    return float(search_result.work.run_s[server, cell[1]])


def _apart(search_result: TableResult, best: Option | None) -> Iterable[Reason]:
    """What the same preparation would cost on the cheapest server with a GPU, which
    would idle meanwhile."""
    if best is None or search_result.wish.job != PREPARE or best.accelerator.name:
        return
    at = cheapest_of(
        search_result, (search_result.bits == 0) & search_result.servers.has_card[search_result.market.offers.server_index][:, None]
    )
    if at is None:
        return
    there = _where(search_result, at)
    if there["total_usd"] - best.cost.total_usd > usual()["prepared_worth_usd"]:
        yield Reason("host_prepare_apart", {**there, "factor": there["total_usd"] / best.cost.total_usd})


def _tips(search_result: TableResult, best: Option | None) -> Iterable[Reason]:
    """The codes of the physics that suit the job, on the best server or, where none holds
    it, on the largest."""
    for code in _preparation_codes(search_result, best) if search_result.wish.job == PREPARE else _classical_codes(search_result, best):
        yield Reason(f"host_tip_{code.replace('-', '_')}", {})


def _classical_codes(search_result: TableResult, best: Option | None) -> tuple[str, ...]:
    from rightfit.estimation.classical import advice_codes

    task = search_result.wish.task
    if best is not None:
        needed = best.estimate["host_memory_bytes"].high80
        codes = advice_codes(task, ram_bytes=needed, memory_bytes=best.memory_bytes, time_s=best.estimate["work_s"].mid)
        return tuple(code for code in codes if not (code == "cudf" and _on_gpu(best)))
    able = search_result.work.able
    largest = float(search_result.servers.ram_bytes[able].max(initial=0.0))
    needed = float(search_result.work.ram_needed_bytes[able].min(initial=np.inf)) if able.any() else 0.0
    return advice_codes(task, ram_bytes=needed, memory_bytes=largest)


def _preparation_codes(search_result: TableResult, best: Option | None) -> tuple[str, ...]:
    from rightfit.estimation.preparation import advice_of

    task = search_result.wish.preparation
    assert task is not None
    if best is None:
        return advice_of(task, bottleneck="memory", in_ram=False, on_disk=True, hours=0.0)
    slow = best.time_terms.get("disk", 0.0) > best.time_terms.get("work", 0.0)
    spills = best.facts["spilled_bytes"] > 0
    hours = best.estimate["work_s"].mid / SECONDS_PER_HOUR
    codes = advice_of(task, bottleneck="disk" if slow else "cpu", in_ram=not spills, on_disk=True, hours=hours)
    if spills:  # it goes through the disk already
        return tuple(code for code in codes if code not in ("streaming-engine", "memory-optimised"))
    if is_divisible(search_result.wish):
        return tuple("use-more-cores" if code == "spark" else code for code in codes)
    return (*codes, "streaming-engine") if task.held_bytes and best.facts["ram_needed_bytes"] > MUCH_RAM_BYTES else codes


def host_assumptions(search_result: TableResult) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market."""
    return (*search_result.wish.assumptions, *assumed_purchases(search_result.workload))


def host_counts(search_result: TableResult) -> Counts:
    """How much was looked at."""
    rows = len(search_result.market.offers) * search_result.bits.shape[1]
    able = search_result.work.able
    return Counts(
        candidates=int(search_result.work.fits.size),
        timed=int(search_result.work.fits.sum()),
        offers=len(search_result.market.offers),
        servers=int(able.sum()),
        covered=rows,
    )


def host_money(search_result: TableResult, option: Option, row: Row, catalog: Catalog) -> tuple[Section, ...]:
    """How to buy the servers of the job, and its bill."""
    one = every_offer(search_result, option, row, catalog) if len(search_result.columns) > 1 else None
    return money_parts(
        catalog,
        search_result.market,
        search_result.bill,
        option,
        (row.offer, row.node),
        volume=search_result.volume,
        office_h=search_result.wish.workload.office_hours,
        alone=(one.market, one.bill) if one else None,
    )


def every_offer(search_result: TableResult, option: Option, row: Row, catalog: Catalog) -> TableResult:
    """The search on every offer of an option's server: where many numbers of servers were looked
    at, it took the cheapest places only."""
    market = whole_market(catalog)
    rows = np.flatnonzero(market.offers.server_index == search_result.market.offers.server_index[row.offer])
    return explore(search_result.wish, market.take(rows), search_result.filters, node_counts=(option.nodes,))


def confirm(search_result: TableResult, top: int) -> tuple[TableResult, Ranking]:
    """The search as it is. Sizes of servers are options of their own here: for processors the
    size is the choice."""
    return search_result, rank(search_result, top=top, folding=folding_groups)


def given_servers(workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[TableResult]:
    """The job on so many servers of one type; where it does not fit, as if it did."""
    wanted, wish = dataclasses.replace(read_filters(workload, catalog), any_software=True), read_host_wish(workload)
    found = explore(wish, market, wanted, node_counts=(nodes,), any_server=True)
    fits = bool(found.work.fits.any())
    if not fits:
        found = explore(wish, market, wanted, node_counts=(nodes,), any_server=True, as_if=True)
    at = cheapest_row(found) or Row(int(np.nanargmin(np.nan_to_num(market.offers.price_usd_per_h, nan=np.inf))), 0)
    advice = () if fits else host_advice(found, ())
    return Given(found, found, at if found.work.able.any() else None, fits, (at.offer, at.node), advice)


def beside(search_result: TableResult, options: tuple[Option, ...], _rows: Sequence[Row], _catalog: Catalog) -> Beside:
    """Advice."""
    return Beside(host_advice(search_result, options))


FAMILY = Family(
    name="tables",
    explore=explore_host,
    confirm=confirm,
    options=lambda search_result, rows, _num_full: build_host_options(search_result, rows),
    reasons=with_host_reasons,
    assumptions=host_assumptions,
    counts=host_counts,
    given=given_servers,
    beside=beside,
    money=host_money,
)
