"""What both families of services tell the frame alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rightfit import facts
from rightfit.facts.engine_releases import model_class, numbers, release_for
from rightfit.facts.engines import packed_copy, published_format, starts_from_wide
from rightfit.physics.columns import once
from rightfit.search.advice import BELOW, below_cause, below_of, headline_key
from rightfit.search.answer import Assumption, Counts, Option, Reason, Section
from rightfit.search.bill import money_parts
from rightfit.search.constraints import DEFAULT_PURCHASES, LATENCIES, assumed_purchases
from rightfit.search.family import MOST_PARETO, Beside, Family, Given
from rightfit.search.market import BillColumns, Volume
from rightfit.search.offers import Market, credit_section
from rightfit.search.option_reasons import limits_met, price_doubts, stop_warnings
from rightfit.search.rank import Ranking, Row
from rightfit.search.refusals import least_changes
from rightfit.search.servers import market_of_one
from rightfit.search.service.batch import batch_volume, given_servers, judged_batch
from rightfit.search.service.found import ServingResult
from rightfit.search.service.options import ServingCost, ServingLayout, build_serving_options
from rightfit.search.service.refine import refined
from rightfit.search.service.scaling import cold_start_content, load_sections, solver
from rightfit.search.service.sizing import SERVING_PURCHASES, egress_gb, weights_gb
from rightfit.search.service.stacks import SIXTEEN_BIT, format_rows, published_quality
from rightfit.search.service.wish import usual
from rightfit.units import GB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload


# ---- Why a serving option stands where it does, what to beware of, what would be cheaper, and why
# other offers were refused: codes with numbers.
#
# WHY: serve_cheapest, serve_fastest, serve_balanced {monthly_usd, runner_up, runner_up_usd};
# serve_fits {weights_bytes, cache_bytes, requests, devices};
#     serve_replicas {replicas, rate_per_s, utilisation};
#         serve_limit {metric, value_s, limit_s, percentile};
#     serve_bottleneck, serve_bottleneck_request {term, share};
#         serve_release {engine, version, architecture, least}
# WARNINGS: serve_single {n_plus_one_usd}, serve_one_replica {n_plus_one_usd, servers};
# serve_across {servers, fabric};
#     serve_quality {format, evidence}; serve_widened {format, wide, engine, accelerator};
#         serve_spot {}; serve_engine_uncalibrated {accelerator}
#     serve_quality_published {format, score, score_as_published, benchmark, source}
# ADVICE: serve_n_plus_one {servers, monthly_usd};
# serve_commit {purchase, monthly_usd, saving_usd, share};
#     serve_quantise {format, monthly_usd, saving_usd, evidence};
#         serve_bound_* {limit_s, least_s, engine, ...}: a limit that no server keeps

HEADLINES = {"cost": "serve_cheapest", "time": "serve_fastest", "balanced": "serve_balanced"}
BATCH_HEADLINES = {"cost": "cheapest", "time": "fastest", "balanced": "balanced"}
CALIBRATED = ("volta", "turing", "ampere-hbm", "ampere-gddr", "ada", "hopper", "blackwell-hbm", "blackwell-gddr", "cdna3", "cpu", "cpu-amx")


def with_serving_reasons(search_result: ServingResult, options: Sequence[Option]) -> tuple[Option, ...]:
    """The options with `why` and `warnings`."""
    return tuple(
        dataclasses.replace(
            option,
            why=_why(search_result, option, options),
            warnings=_warnings(option, published_format(search_result.wish.published_name), search_result.wish.checkpoint),
        )
        for option in options
    )


def _why(search_result: ServingResult, option: Option, options: Sequence[Option]) -> tuple[Reason, ...]:
    assert isinstance(option.cost, ServingCost)
    reasons = []
    if option.rank == 1:
        params: dict[str, Any] = {"monthly_usd": option.cost.total_usd}
        params |= {"latency_s": option.estimate["latency_s"].mid} if "latency_s" in option.estimate else {}
        if search_result.wish.is_batch:
            params = {"total_usd": option.cost.total_usd, "total_time_s": option.estimate["total_time_s"].mid}
        if len(options) > 1:
            other = below_of(search_result, options) or options[1]
            params |= {
                "runner_up": f"{other.nodes} x {other.provider} {other.instance_type}",
                "runner_up_usd": other.cost.total_usd,
            }
            if search_result.wish.is_batch:
                params["runner_up_time_s"] = other.estimate["total_time_s"].mid
        objective = search_result.wish.workload.objective
        key = (BATCH_HEADLINES if search_result.wish.is_batch else HEADLINES)[objective]
        below = below_of(search_result, options)
        if below is not None:
            reasons.append(Reason(key + BELOW, {**params, "below_cause": below_cause(below)}))
        else:
            reasons.append(Reason(headline_key(search_result, option, key), params))
    if option.memory_terms.get("kv_cache"):
        reasons.append(Reason("serve_fits" if option.accelerator.name else "serve_fits_cpu", _fit_params(option)))
    reasons += _release_reasons(search_result, option)
    if not search_result.wish.is_batch:
        reasons.append(_load_reason(option))
        if option.facts["latency_law"] == "one-queue":
            reasons.append(Reason("serve_one_queue", {}))
    else:
        reasons += _deadline_reasons(search_result, option)
    reasons += _limit_reasons(search_result, option)
    if len(option.time_terms) > 1:
        term = max(option.time_terms, key=lambda name: option.time_terms[name])
        key = "serve_bottleneck" if search_result.wish.generates else "serve_bottleneck_request"
        reasons.append(Reason(key, {"term": term, "share": option.time_terms[term] / sum(option.time_terms.values())}))
    return tuple(reasons)


PLANNED_RELEASE = {"vLLM": "0.11.0", "SGLang": "0.5.4"}
"""The releases whose speed the tables of engines are of: a class that came later needs a later
one, which is said."""


def _release_reasons(search_result: ServingResult, option: Option) -> list[Reason]:
    """The release of the engine that a model of a newer class needs, and the one
    that its files start."""
    engine, names = str(getattr(option.layout, "engine", "")), search_result.wish.class_names
    known = model_class(*names) if engine in PLANNED_RELEASE and names else None
    least = known.least.get(engine.casefold(), "") if known else ""
    found = release_for(engine.casefold(), names, option.accelerator.name) if least else None
    if known is None or found is None or numbers(least) <= numbers(PLANNED_RELEASE[engine]):
        return []
    return [
        Reason(
            "serve_release", {"engine": engine, "version": found.version, "architecture": known.architecture or names[0], "least": least}
        )
    ]


def _deadline_reasons(search_result: ServingResult, option: Option) -> list[Reason]:
    """That a batch job is done in time, and for no more than it may cost."""
    time, deadline_s = option.estimate["total_time_s"], search_result.filters.deadline_s
    met = [reason for reason in limits_met(search_result.filters, option) if reason.key == "budget_met"]
    if deadline_s is None or time.mid > deadline_s:
        return met
    return [
        Reason("serve_deadline", {"total_time_s": time.mid, "probability": option.probability["deadline"], "deadline_s": deadline_s}),
        *met,
    ]


def _load_reason(option: Option) -> Reason:
    return Reason(
        "serve_replicas",
        {
            "replicas": option.layout.data,
            "rate": option.facts["rate_per_s"],
            "share": option.facts["utilisation"],
            "most": option.estimate["requests_per_s"].mid,
        },
    )


def _fit_params(option: Option) -> dict[str, Any]:
    return {
        "weights_bytes": option.memory_terms["weights"],
        "cache_bytes": option.memory_terms["kv_cache"],
        "requests": option.facts["max_batch"],
        "devices": option.layout.tensor * option.layout.pipeline * max(option.layout.expert, 1),
    }


def _limit_reasons(search_result: ServingResult, option: Option) -> list[Reason]:
    limits = search_result.wish.limits
    return [
        Reason(
            "serve_limit",
            {
                "metric": name,
                "value_s": option.estimate[f"{name}_s"].mid,
                "limit_s": getattr(limits, f"{name}_s"),
                "percentile": limits.percentile * 100.0,
            },
        )
        for name in LATENCIES
        if np.isfinite(getattr(limits, f"{name}_s")) and option.estimate[f"{name}_s"].mid <= getattr(limits, f"{name}_s")
    ]


def batch_warnings(option: Option) -> list[Reason]:
    """Interruptions of a batch job, and the chance that it is late because of them."""
    reasons, on_time = stop_warnings(option), option.probability["deadline"]
    if on_time is not None and on_time < facts.coefficients("planning")["memory_tight_probability"]:
        reasons.append(Reason("deadline_risk", {"probability": on_time, "deadline_s": option.facts["deadline_s"]}))
    return reasons


def _warnings(option: Option, published: str, repository: str = "") -> tuple[Reason, ...]:
    reasons = price_doubts(option)
    known, layout = option.facts, option.layout
    if isinstance(layout, ServingLayout) and published and layout.weight_format in SIXTEEN_BIT:
        reasons.append(
            Reason(
                "serve_widened",
                {"format": published, "wide": layout.weight_format, "engine": layout.engine, "accelerator": option.accelerator.name},
            )
        )
    if isinstance(layout, ServingLayout) and _is_reduced(layout.weight_format, published):
        row = format_rows()[layout.weight_format]
        reasons.append(
            Reason(
                "serve_quality", {"format": row["name"], "quality": row["quality"], "evidence": row["evidence"], "source": row["source"]}
            )
        )
        if not starts_from_wide(layout.engine, row["name"]):
            copy = packed_copy(repository, row["name"])
            reasons.append(Reason("serve_not_stored", {"format": row["name"], "engine": layout.engine, "copy": copy}))
        if known_quality := published_quality(repository, layout.weight_format):
            reasons.append(Reason("serve_quality_published", known_quality))
    if isinstance(layout, ServingLayout) and layout.kv_format == "fp8":
        row = next(row for row in facts.table("serving_features") if row["feature"] == "fp8-kv")
        reasons.append(
            Reason("serve_kv_quality", {"kv": "fp8", "quality": row["quality"], "evidence": row["evidence"], "source": row["source"]})
        )
    if option.placement["servers"] > 1:
        reasons.append(Reason("serve_across", {name: option.placement[name] for name in ("servers", "fabric")}))
    if "risk" in known:
        reasons.extend(batch_warnings(option))
    elif known["spot_high"] > 0:
        reasons.append(Reason("serve_spot", {"monthly_low": known["spot_low"], "monthly_high": known["spot_high"]}))
    few = 2.0 * (usual()["engine_processes"] + option.accelerator.count_per_node)
    if "tpot_s" in option.estimate and option.accelerator.name and option.vcpus < few:
        reasons.append(Reason("serve_few_vcpus", {"vcpus": option.vcpus, "needed": few}))
    if not np.isfinite(option.memory_bytes):
        reasons.append(Reason("host_memory_unknown", {"needed_bytes": option.estimate["host_memory_bytes"].mid}))
    if known["family"] not in CALIBRATED:
        reasons.append(Reason("uncalibrated", {"accelerator": option.accelerator.name}))
    if known["family"] == "cpu" and "tpot_s" in option.estimate:
        reasons.append(Reason("serve_cpu_rough", {}))
    if known["equivalent_to"]:
        reasons.append(Reason("hidden_chip", {"accelerator": option.accelerator.name, "equivalent": known["equivalent_to"]}))
    if option.nodes <= known["servers_per_replica"] and "total_time_s" not in option.estimate:
        single = {"n_plus_one_usd": known["n_plus_one_usd"]}
        reasons.append(
            Reason("serve_single", single) if option.nodes == 1 else Reason("serve_one_replica", {**single, "servers": option.nodes})
        )
    return tuple(reasons)


def _is_reduced(name: str, published: str) -> bool:
    return name not in SIXTEEN_BIT and name != published and name in format_rows()


def serving_advice(search_result: ServingResult, options: Sequence[Option]) -> tuple[Reason, ...]:
    """What to do beside renting the first option, each with its effect in money."""
    if not options:
        return (*_bounds(search_result), *least_changes(search_result))
    best = options[0]
    if search_result.wish.is_batch:
        return ()
    return (*_redundancy(search_result, best), *_commitment(search_result, best))


def _redundancy(search_result: ServingResult, best: Option) -> list[Reason]:
    more = best.nodes + int(best.facts["servers_per_replica"])
    return [Reason("serve_n_plus_one", {"servers": more, "monthly_usd": best.facts["n_plus_one_usd"], "had": best.nodes})]


def _commitment(search_result: ServingResult, best: Option) -> list[Reason]:
    """The best commitment of a year or less, and the best of all."""
    assert isinstance(best.cost, ServingCost)
    rent = best.cost.terms["servers_usd"]
    reasons = []
    for names in (("reserved-1y", "savings-plan-1y", "subscription-1y"), ("reserved-3y", "subscription-3y", "subscription-5y")):
        prices = {name: best.cost.by_purchase[name] for name in names if name in best.cost.by_purchase}
        name = min(prices, key=lambda key: prices[key], default="")
        if name and prices[name] < rent and name != best.purchase:
            reasons.append(Reason("serve_commit", {"purchase": name, "monthly_usd": prices[name], "saving_usd": rent - prices[name]}))
    return reasons


def _bounds(search_result: ServingResult) -> list[Reason]:
    """Which physical bound an impossible limit breaks: weights over bandwidth for TPOT, arithmetic
    of the prompt for TTFT."""
    wish, space = search_result.wish, search_result.space
    usable = np.flatnonzero(space.fits)
    if not usable.shape[0]:
        return []
    out = []
    for name in LATENCIES:
        limit = getattr(wish.limits, f"{name}_s")
        alone = getattr(search_result.capacity, f"alone_{name}_s")[usable]
        if np.isfinite(limit) and alone.min() > limit:
            out.append(_bound(search_result, name, int(usable[np.argmin(alone)]), limit_s=limit, least_s=float(alone.min())))
    return out


def _bound(search_result: ServingResult, name: str, index: int, *, limit_s: float, least_s: float) -> Reason:
    """A limit that no candidate keeps: of language models with the time that no software can beat
    on the fastest one's devices."""
    space, machine = search_result.space, int(search_result.space.machine[index])
    fastest = {"limit_s": limit_s, "least_s": least_s, "engine": space.stack[index].name}
    if not search_result.wish.generates:
        servers, first = search_result.market.offers.servers, int(search_result.fleet.first[machine])
        where = {"provider": servers.provider[first], "instance_type": servers.instance_type[first], "nodes": int(space.nodes[index])}
        return Reason("serve_bound_pass", {**fastest, **where})
    devices = {"accelerator": search_result.fleet.accelerators[machine].name, "devices": int(space.tensor[index] * space.nodes[index])}
    return Reason(f"serve_bound_{name}", {**fastest, "bound_s": _physical_bound(search_result, name, index), **devices})


def _physical_bound(search_result: ServingResult, name: str, index: int) -> float:
    """The time [s] that no software can beat on these devices: reading the active weights once, or
    the prompt's arithmetic at peak."""
    wish, space = search_result.wish, search_result.space
    card = search_result.fleet.accelerators[int(space.machine[index])]
    devices = float(space.tensor[index] * space.nodes[index])
    active = float(getattr(wish.model, "params_active", 0) or getattr(wish.model, "params_total", 0))
    width = float(np.broadcast_to(space.serve.linear_bytes, (len(space),))[index])
    token_s = active * width / (card.memory_bandwidth * float(space.tensor[index]))
    peak = max(card.bf16_flops, card.fp16_flops, card.fp8_flops, card.fp32_flops)
    prompt_s = 2.0 * active * wish.input_tokens / (peak * devices)
    return {"tpot": token_s, "ttft": prompt_s, "latency": prompt_s + max(wish.output_tokens - 1, 0) * token_s}[name]


Ways = Callable[[ServingResult, tuple[Option, ...], "Catalog"], Beside]
Play = Callable[[ServingResult, tuple[Option, ...], list[int]], tuple[Option, ...]]


class Explore(Protocol):
    """The search of a family of services."""

    def __call__(self, workload: Workload, catalog: Catalog, *, market: Market | None = None) -> ServingResult:
        """Over the market that suits, or over a given one."""
        ...


def service_family(name: str, explore: Explore, *, ways: Ways, play: Play | None = None) -> Family[ServingResult]:
    """A family of services. `ways`: advice and sections about other ways to serve; `play`: the
    options played through by simulation."""

    def search(workload: Workload, catalog: Catalog) -> ServingResult:
        if workload.fleet == "mixed":
            solver()
        return explore(workload, catalog)

    def given(workload: Workload, market: Market, nodes: int, catalog: Catalog) -> Given[ServingResult]:
        return given_servers(explore(workload, catalog, market=market), nodes)

    def beside(search_result: ServingResult, options: tuple[Option, ...], rows: Sequence[Row], catalog: Catalog) -> Beside:
        candidate = search_result.candidate(rows[0].offer, rows[0].node) if rows else -1
        other = ways(search_result, options, catalog)
        return Beside(
            (*serving_advice(search_result, options), *other.advice),
            (*credit_section(options, catalog), *load_sections(search_result, options, candidate), *other.sections),
        )

    def money(search_result: ServingResult, option: Option, row: Row, catalog: Catalog) -> tuple[Section, ...]:
        return money_parts(
            catalog,
            search_result.market,
            search_result.bill,
            option,
            (row.offer, row.node),
            volume=volume_of(search_result),
            office_h=search_result.wish.workload.office_hours,
            startup_s=cold_start_content(option)["total_s"],
            alone=alone(search_result, option, catalog),
        )

    def alone(search_result: ServingResult, option: Option, catalog: Catalog) -> tuple[Market, BillColumns] | None:
        """Every offer of an option's server with its bill; None where the search has them all: of
        servers without accelerators it took the cheapest."""
        if option.accelerator.name or len(search_result.market.offers.servers) == 1:
            return None
        market, _ = market_of_one(catalog, catalog.server_rows[option.provider, option.instance_type])
        if not search_result.wish.is_batch:  # a month is the same for every way to pay but for its price
            return market, search_result.bill
        one = explore(search_result.wish.workload, catalog, market=market)
        return market, judged_batch(one.wish, one.filters, market, one.fleet, one.space, one.grid, node_counts=(option.nodes,)).bill

    def simulate(search_result: ServingResult, options: tuple[Option, ...], rows: Sequence[Row]) -> tuple[Option, ...]:
        assert play is not None
        return play(search_result, options, [search_result.candidate(row.offer, row.node) for row in rows])

    return Family(
        name=name,
        explore=search,
        confirm=confirm,
        options=lambda search_result, rows, _num_full: build_serving_options(search_result, rows),
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


def confirm(search_result: ServingResult, top: int) -> tuple[ServingResult, Ranking]:
    """The first options by the queue model in place of the quick law."""
    return refined(search_result, top=top)


def told(search_result: ServingResult) -> tuple[str, str]:
    """Names under which money and time are told: of a batch job the whole of it, of a service a
    month and a request."""
    return ("total_usd", "total_time_s") if search_result.wish.is_batch else ("monthly_usd", "latency_s")


def volume_of(search_result: ServingResult) -> Volume:
    """What the servers keep and send: of a batch job in all, of a service within a month."""
    wish = search_result.wish
    return batch_volume(wish) if wish.is_batch else Volume(weights_gb(wish) * GB, 0.0, 0.0, egress_gb(wish, wish.month_h) * GB)


def spread_out(front: Sequence[Row]) -> Sequence[Row]:
    """A dozen points evenly over the front."""
    return spread_over(front, MOST_PARETO)


def spread_over(front: Sequence[Row], most: int) -> list[Row]:
    """At most so many points of a front, evenly over it, its two ends among them; figures of points
    that are not options are those of the quick law."""
    if len(front) <= most:
        return list(front)
    return [front[at] for at in once(np.linspace(0, len(front) - 1, most).round().astype(int)).tolist()]


def serving_assumptions(search_result: ServingResult) -> tuple[Assumption, ...]:
    """Defaults taken while reading the workload, and those of the market and the engine."""
    workload = search_result.wish.workload
    usual = DEFAULT_PURCHASES if search_result.wish.is_batch else SERVING_PURCHASES
    taken = [*search_result.wish.assumptions, *assumed_purchases(workload, usual=usual)]
    if search_result.wish.generates and not workload.quantization and not workload.precision:
        published = published_format(search_result.wish.published_name)
        key = "assumed_serve_format_published" if published else "assumed_serve_format"
        taken.append(Assumption("quantization", published or "none", Reason(key, {"value": published or "bf16 / fp16"})))
    if search_result.wish.generates and not workload.framework:
        taken.append(Assumption("framework", "vLLM", Reason("assumed_serve_engine", {"value": "vLLM"})))
    return tuple(taken)


def serving_counts(search_result: ServingResult) -> Counts:
    """How much was looked at."""
    machine = search_result.fleet.machine_index[search_result.market.offers.server_index]
    per_class = np.bincount(search_result.space.machine, minlength=max(len(search_result.fleet), 1))
    return Counts(
        candidates=len(search_result.space),
        timed=int(search_result.space.fits.sum()) * int(search_result.grid.batch.shape[1]),
        offers=len(search_result.market.offers),
        servers=int((search_result.fleet.machine_index >= 0).sum()),
        covered=int(per_class[machine[machine >= 0]].sum()) * int(search_result.grid.batch.shape[1]),
    )
