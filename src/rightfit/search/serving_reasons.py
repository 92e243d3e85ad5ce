"""Why a serving option stands where it does, what to beware of, what would be cheaper, and why other offers were refused: codes with numbers.

WHY: serve_cheapest, serve_fastest, serve_balanced {monthly_usd, runner_up, runner_up_usd}; serve_fits {weights_bytes, cache_bytes, requests, devices};
    serve_replicas {replicas, rate_per_s, utilisation}; serve_limit {metric, value_s, limit_s, percentile}; serve_bottleneck {term, share}
WARNINGS: serve_single {n_plus_one_usd}; serve_across {servers}; serve_quality {format, evidence}; serve_spot {}; serve_engine_uncalibrated {accelerator}
ADVICE: serve_n_plus_one {servers, monthly_usd}; serve_commit {purchase, monthly_usd, saving_usd, share};
    serve_quantise {format, monthly_usd, saving_usd, evidence}; serve_bound {metric, limit_s, bound_s ...}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.physics.columns import Array
from rightfit.search.answer import NearMiss, Option, Reason, Rejection
from rightfit.search.constraints import first_failure
from rightfit.search.grounds import price_estimate, stop_warnings
from rightfit.search.reasons import CRITERIA
from rightfit.search.serving_answer import ServingCost, ServingLayout
from rightfit.search.serving_search import ServingExploration
from rightfit.search.serving_stacks import SIXTEEN_BIT, format_rows, published_format

HEADLINES = {"cost": "serve_cheapest", "time": "serve_fastest", "balanced": "serve_balanced"}
BATCH_HEADLINES = {"cost": "cheapest", "time": "fastest", "balanced": "balanced"}
LATENCIES = ("ttft", "tpot", "latency")
CALIBRATED = ("volta", "turing", "ampere-hbm", "ampere-gddr", "ada", "hopper", "blackwell-hbm", "blackwell-gddr", "cdna3", "cpu", "cpu-amx")


def with_serving_reasons(found: ServingExploration, options: Sequence[Option]) -> tuple[Option, ...]:
    """The options with `why` and `warnings`."""
    return tuple(
        dataclasses.replace(option, why=_why(found, option, options), warnings=_warnings(option, published_format(found.wish.model.name)))
        for option in options
    )


def _why(found: ServingExploration, option: Option, options: Sequence[Option]) -> tuple[Reason, ...]:
    assert isinstance(option.cost, ServingCost)
    reasons = []
    if option.rank == 1:
        params: dict[str, Any] = {"monthly_usd": option.cost.total_usd}
        params |= {"latency_s": option.estimate["latency_s"].mid} if "latency_s" in option.estimate else {}
        if found.wish.is_batch:
            params = {"total_usd": option.cost.total_usd, "total_time_s": option.estimate["total_time_s"].mid}
        if len(options) > 1:
            other = options[1]
            params |= {
                "runner_up": f"{other.nodes} x {other.provider} {other.instance_type}",
                "runner_up_usd": other.cost.total_usd,
            }
            if found.wish.is_batch:
                params["runner_up_time_s"] = other.estimate["total_time_s"].mid
        objective = found.wish.workload.objective
        reasons.append(Reason((BATCH_HEADLINES if found.wish.is_batch else HEADLINES)[objective], params))
    if option.memory_terms.get("kv_cache"):
        reasons.append(Reason("serve_fits" if option.accelerator.name else "serve_fits_cpu", _fit_params(option)))
    if not found.wish.is_batch:
        reasons.append(_load_reason(option))
    elif found.wanted.deadline_s is not None:
        time = option.estimate["total_time_s"]
        reasons.append(Reason("serve_deadline", {"total_time_s": time.mid, "high_s": time.high80, "deadline_s": found.wanted.deadline_s}))
    reasons += _limit_reasons(found, option)
    if len(option.time_terms) > 1:
        term = max(option.time_terms, key=lambda name: option.time_terms[name])
        reasons.append(Reason("serve_bottleneck", {"term": term, "share": option.time_terms[term] / sum(option.time_terms.values())}))
    return tuple(reasons)


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


def _limit_reasons(found: ServingExploration, option: Option) -> list[Reason]:
    limits = found.wish.limits
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
        if np.isfinite(getattr(limits, f"{name}_s"))
    ]


def batch_warnings(option: Option) -> list[Reason]:
    """Interruptions of a batch job, and the chance that it is late because of them."""
    reasons, on_time = stop_warnings(option), option.facts["deadline_probability"]
    if on_time is not None and on_time < facts.coefficients("planning")["memory_tight_probability"]:
        reasons.append(Reason("deadline_risk", {"probability": on_time, "deadline_s": option.facts["deadline_s"]}))
    return reasons


def _warnings(option: Option, published: str) -> tuple[Reason, ...]:
    reasons = []
    known = option.facts
    if known["is_stale"]:
        reasons.append(Reason("price_stale", {"as_of": option.price_as_of}))
    if known["is_estimate"]:
        reasons.append(price_estimate(option))
    if known["is_pseudo_region"]:
        reasons.append(Reason("price_region", {"region": option.region}))
    layout = option.layout
    if isinstance(layout, ServingLayout) and _is_reduced(layout.weight_format, published):
        row = format_rows()[layout.weight_format]
        reasons.append(
            Reason(
                "serve_quality", {"format": row["name"], "quality": row["quality"], "evidence": row["evidence"], "source": row["source"]}
            )
        )
    if isinstance(layout, ServingLayout) and layout.kv_format == "fp8":
        row = next(row for row in facts.table("serving_features") if row["feature"] == "fp8-kv")
        reasons.append(
            Reason("serve_kv_quality", {"kv": "fp8", "quality": row["quality"], "evidence": row["evidence"], "source": row["source"]})
        )
    if layout.pipeline > 1:
        reasons.append(Reason("serve_across", {"servers": layout.pipeline}))
    if "risk" in known:
        reasons.extend(batch_warnings(option))
    elif known["spot_high"] > 0:
        reasons.append(Reason("serve_spot", {"monthly_low": known["spot_low"], "monthly_high": known["spot_high"]}))
    if known["family"] not in CALIBRATED:
        reasons.append(Reason("uncalibrated", {"accelerator": option.accelerator.name}))
    if known["family"] == "cpu" and "tpot_s" in option.estimate:
        reasons.append(Reason("serve_cpu_rough", {}))
    if known["equivalent_to"]:
        reasons.append(Reason("hidden_chip", {"accelerator": option.accelerator.name, "equivalent": known["equivalent_to"]}))
    if option.nodes <= known["servers_per_replica"] and "total_time_s" not in option.estimate:
        reasons.append(Reason("serve_single", {"n_plus_one_usd": known["n_plus_one_usd"]}))
    return tuple(reasons)


def _is_reduced(name: str, published: str) -> bool:
    return name not in SIXTEEN_BIT and name != published and name in format_rows()


def serving_advice(found: ServingExploration, options: Sequence[Option]) -> tuple[Reason, ...]:
    """What to do beside renting the first option, each with its effect in money."""
    if not options:
        return (*_bounds(found), *_least_changes(found))
    best = options[0]
    if found.wish.is_batch:
        return ()
    return (*_redundancy(found, best), *_commitment(found, best))


def _redundancy(found: ServingExploration, best: Option) -> list[Reason]:
    more = best.nodes + int(best.facts["servers_per_replica"])
    return [Reason("serve_n_plus_one", {"servers": more, "monthly_usd": best.facts["n_plus_one_usd"], "had": best.nodes})]


def _commitment(found: ServingExploration, best: Option) -> list[Reason]:
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


def _bounds(found: ServingExploration) -> list[Reason]:
    """Which physical bound an impossible limit breaks: weights over bandwidth for TPOT, arithmetic of the prompt for TTFT."""
    wish, space = found.wish, found.space
    usable = np.flatnonzero(space.fits)
    if not usable.shape[0]:
        return []
    out = []
    for name in LATENCIES:
        limit = getattr(wish.limits, f"{name}_s")
        alone = getattr(found.capacity, f"alone_{name}_s")[usable]
        if np.isfinite(limit) and alone.min() > limit:
            at = int(usable[np.argmin(alone)])
            card = found.fleet.accelerators[int(space.machine[at])]
            devices = int(space.tensor[at] * space.nodes[at])
            out.append(
                Reason(
                    f"serve_bound_{name}",
                    {
                        "limit_s": limit,
                        "least_s": float(alone.min()),
                        "bound_s": _physical_bound(found, name, at),
                        "accelerator": card.name,
                        "devices": devices,
                        "engine": space.stack[at].name,
                    },
                )
            )
    return out


def _physical_bound(found: ServingExploration, name: str, at: int) -> float:
    """The time [s] that no software can beat on these devices: reading the active weights once, or the prompt's arithmetic at peak."""
    wish, space = found.wish, found.space
    card = found.fleet.accelerators[int(space.machine[at])]
    devices = float(space.tensor[at] * space.nodes[at])
    active = float(getattr(wish.model, "params_active", 0) or getattr(wish.model, "params_total", 0))
    width = float(np.broadcast_to(space.serve.linear_bytes, (len(space),))[at]) if hasattr(space, "serve") else 2.0
    token_s = active * width / (card.memory_bandwidth * float(space.tensor[at]))
    prompt_s = 2.0 * active * wish.input_tokens / (max(card.bf16_flops, card.fp16_flops, card.fp8_flops) * devices)
    return {"tpot": token_s, "ttft": prompt_s, "latency": prompt_s + max(wish.output_tokens - 1, 0) * token_s}[name]


def serving_rejections(found: ServingExploration) -> tuple[Rejection, ...]:
    """One record for each criterion that refused offers; an offer counts for the criterion that it got furthest to."""
    first = first_failure(found.bits)
    decided = first.max(axis=1)
    counts = np.bincount(decided, minlength=len(CRITERIA) + 1)
    return tuple(_rejection(found, position, int(counts[position]), first) for position in range(len(CRITERIA)) if counts[position])


def _rejection(found: ServingExploration, position: int, count: int, first: NDArray[np.intp]) -> Rejection:
    criterion = CRITERIA[position]
    lone = found.bits == (1 << position)
    alone = int(lone.any(axis=1).sum())
    margin = found.failures.margin(criterion)
    at = _least(found, lone if alone else (first == position), margin)
    miss = near_miss(found, criterion, at)
    return Rejection(criterion, count, alone, miss.needed, miss.had, float(margin[at]), f"{miss.provider}/{miss.instance_type}", miss)


def _least(found: ServingExploration, rows: NDArray[np.bool_], margin: Array) -> tuple[int, int]:
    offer, column = np.nonzero(rows)
    margins = np.nan_to_num(margin[offer, column], nan=np.inf)
    closest = np.flatnonzero(margins <= margins.min())
    price = found.market.offers.price_usd_per_h[offer[closest]]
    chosen = closest[int(np.argmin(price))]
    return int(offer[chosen]), int(column[chosen])


def near_miss(found: ServingExploration, criterion: str, at: tuple[int, int]) -> NearMiss:
    """One refused row with the least change that would let it pass this criterion."""
    offer = found.market.offers.row(at[0])
    machine = int(found.fleet.machine_index[int(found.market.offers.server_index[at[0]])])
    servers = float(found.sizing.servers[machine, at[1]]) if machine >= 0 else 1.0
    needed, had = needed_and_had(found, criterion, at)
    return NearMiss(
        provider=offer["provider"],
        instance_type=offer["instance_type"],
        region=offer["region"],
        purchase=offer["purchase"],
        nodes=int(servers) if np.isfinite(servers) else 1,
        needed=needed,
        had=had,
        change=_change(found, criterion, needed, had),
    )


def needed_and_had(found: ServingExploration, criterion: str, at: tuple[int, int]) -> tuple[float | str, float | str]:
    """What the criterion asks for and what the offer has."""
    failures = found.failures
    if criterion in failures.needed:
        pair = [float(np.broadcast_to(values[criterion], failures.shape)[at]) for values in (failures.needed, failures.had)]
        return pair[0], pair[1]
    offer = found.market.offers.row(at[0])
    server = int(found.market.offers.server_index[at[0]])
    servers = found.market.offers.servers
    had = {"cloud": offer["provider"], "region": offer["region"], "country": offer["country"], "purchase": offer["purchase"]}
    had |= {"status": servers.not_recommended[server]}
    needed = {"status": "active", "capability": found.fleet.missing[server], "layout": "layout", "throughput": "throughput"}
    return needed.get(criterion) or found.wanted.value_of(criterion), had.get(criterion, servers.accelerator_name[server])


def _change(found: ServingExploration, criterion: str, needed: float | str, had: float | str) -> Reason:
    if criterion in ("status", "layout", "capability", "throughput"):
        return Reason("change_server", {"criterion": criterion, "value": had})
    if isinstance(needed, str) or isinstance(had, str):
        return Reason("change_filter", {"criterion": criterion, "value": had})
    if criterion in LATENCIES:
        return Reason("serve_change_latency", {"metric": criterion, "limit_s": rounded_up(had)})
    if criterion == "budget":
        return Reason("change_budget", {"budget_usd": had, "factor": had / needed})
    if criterion == "deadline":
        return Reason("change_deadline", {"deadline_s": had, "factor": had / needed})
    if criterion == "max_nodes":
        return Reason("change_nodes", {"nodes": had})
    if criterion == "quota":
        return Reason("change_quota", {"count": had, "allowed": needed})
    return Reason(f"change_{criterion}", {"bytes": needed - had})


def rounded_up(seconds: float) -> float:
    """The next number of three digits, so that the limit that is named does let the offer pass."""
    step = 10.0 ** (np.floor(np.log10(seconds)) - 2.0)
    return float(np.ceil(seconds / step - 1e-9) * step)


def _least_changes(found: ServingExploration, *, most: int = 3) -> list[Reason]:
    """Single changes that would make something pass, smallest first."""
    out: list[tuple[float, Reason]] = []
    for position, criterion in enumerate(CRITERIA):
        rows = found.bits == (1 << position)
        if not rows.any() or criterion in ("status", "capability"):
            continue
        margin = found.failures.margin(criterion)
        at = _least(found, rows, margin)
        miss = near_miss(found, criterion, at)
        effect = {"provider": miss.provider, "instance_type": miss.instance_type, "nodes": miss.nodes}
        out.append((float(margin[at]), Reason(miss.change.key, {**miss.change.params, **effect})))
    return [reason for _, reason in sorted(out, key=lambda item: item[0])[:most]]
