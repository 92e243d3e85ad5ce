"""Reasons of an option, as data: why it stands where it does, and what to beware of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.estimation.data_path import usual_vcpus
from rightfit.search.advice import BELOW, below_cause, below_of, headline_key
from rightfit.search.answer import Option, Reason

if TYPE_CHECKING:
    from rightfit.search.constraints import Filters, SearchResult
    from rightfit.search.training.explore import TrainingResult


HEADLINES = {"cost": "cheapest", "time": "fastest", "balanced": "balanced"}
#: What is said of the choice among several only, and of an option that does the job only.
COMPARING = frozenset(
    {
        *HEADLINES.values(),
        "cheapest_alone",
        "cheapest_below",
        "serve_cheapest",
        "serve_cheapest_below",
        "serve_cheapest_alone",
        "serve_fastest",
        "serve_balanced",
    }
)
CLAIMS = frozenset({"fits", "memory_tight", "host_fits", "deadline_met", "budget_met"})
OF_A_PRICE = (
    "price_",
    "spot_",
    "failures_",
    "save_",
    "no_checkpoints",
    "commitment",
    "deadline_risk",
    "serve_spot",
    "serve_single",
    "serve_one_replica",
)
COMMITTED_S = 24 * 3600.0
COMMUNICATION = frozenset({"tensor_s", "expert_s", "context_s", "shard_s", "data_s"})
# Lists that collect other companies' prices.
AGGREGATORS = ("skypilot-catalog", "gpu-pricing-tracker", "compute-screener", "cloud-price-radar", "gpuhunt", "eu-cloud-prices")


def with_reasons(search_result: TrainingResult, options: Sequence[Option]) -> tuple[Option, ...]:
    """The options with `why` and `warnings`."""
    return tuple(
        dataclasses.replace(option, why=why(search_result, option, options), warnings=warnings(search_result, option)) for option in options
    )


def runner_up_of(options: Sequence[Option], option: Option) -> Option | None:
    """The next option, which the first is compared with."""
    return options[1] if option.rank == 1 and len(options) > 1 else None


def why(search_result: TrainingResult, option: Option, options: Sequence[Option]) -> tuple[Reason, ...]:
    """Why this option stands where it does."""
    reasons = []
    if option.rank == 1:
        reasons.append(headline(search_result, option, options))
    reasons.append(
        Reason(
            "fits",
            {
                "peak_bytes": option.estimate["peak_memory_bytes"].mid,
                "limit_bytes": option.facts["capacity_bytes"],
                "probability": option.facts["fit_probability"],
            },
        )
    )
    reasons.extend(_layout_reasons(search_result, option))
    reasons.append(_bottleneck(option))
    reasons.extend(limits_met(search_result.filters, option))
    return tuple(reasons)


def headline(search_result: SearchResult, option: Option, options: Sequence[Option]) -> Reason:
    """What the first option is first in, beside the next one; or beside one that costs less, with
    why that stands below it."""
    below = below_of(search_result, options)
    runner_up = below or runner_up_of(options, option)
    params: dict[str, object] = {"total_usd": option.cost.total_usd, "total_time_s": option.estimate["total_time_s"].mid}
    if runner_up is not None:
        name = f"{runner_up.nodes} x {runner_up.provider} {runner_up.instance_type}"
        params |= {
            "runner_up": name,
            "runner_up_usd": runner_up.cost.total_usd,
            "runner_up_time_s": runner_up.estimate["total_time_s"].mid,
        }
    key = HEADLINES[search_result.workload.objective]
    if below is not None:
        return Reason(key + BELOW, {**params, "below_cause": below_cause(below)})
    return Reason(headline_key(search_result, option, key), params)


def _layout_reasons(search_result: TrainingResult, option: Option) -> list[Reason]:
    """What the layout needs to fit: recomputation, sharding, offloading."""
    reasons = []
    layout, limit = option.layout, option.facts["capacity_bytes"]
    if layout.recompute != "none" and not search_result.wish.workload.recompute:
        without = option.facts["without_recompute_bytes"]
        if without > limit:
            reasons.append(Reason("recompute_needed", {"level": layout.recompute, "without_bytes": without, "limit_bytes": limit}))
    if layout.sharding in ("zero-1", "zero-2", "zero-3", "hybrid"):
        reasons.append(Reason("sharding_needed", {"sharding": layout.sharding, "shard_degree": layout.shard_degree}))
    if layout.offload != "none":
        reasons.append(Reason("offload_needed", {"offload": layout.offload, "host_bytes": option.estimate["host_memory_bytes"].mid}))
    return reasons


def _bottleneck(option: Option) -> Reason:
    """The term that takes most of a step."""
    term = max(option.time_terms, key=lambda name: option.time_terms[name])
    return Reason("bottleneck", {"term": term, "share": option.time_terms[term] / sum(option.time_terms.values())})


def limits_met(filters: Filters, option: Option) -> list[Reason]:
    """The limits of a job that an option keeps; of one that it misses nothing is said here."""
    reasons, time_s, usd = [], option.estimate["total_time_s"].mid, option.cost.total_usd
    if filters.deadline_s is not None and time_s <= filters.deadline_s:
        params = {"total_time_s": time_s, "deadline_s": filters.deadline_s, "probability": option.probability["deadline"]}
        reasons.append(Reason("deadline_met", params))
    if filters.budget_usd is not None and usd <= filters.budget_usd:
        reasons.append(
            Reason("budget_met", {"total_usd": usd, "budget_usd": filters.budget_usd, "probability": option.probability["budget"]})
        )
    return reasons


def of_given(option: Option, *, fits: bool) -> Option:
    """An option of a server that was given: without what compares it with others and, where it does
    not do the job, without what says that it does."""
    dropped = COMPARING if fits else COMPARING | CLAIMS
    kept = [tuple(reason for reason in reasons if reason.key not in dropped) for reasons in (option.why, option.warnings)]
    return dataclasses.replace(option, why=kept[0], warnings=kept[1])


def of_unpriced(option: Option) -> Option:
    """An option of a server that has no price: no place, no way to pay, and no warning of a price,
    of a way to pay or of what it costs."""
    kept = tuple(reason for reason in option.warnings if not reason.key.startswith(OF_A_PRICE))
    told = {**option.facts, "country": ""}
    nothing = dataclasses.replace(option, region="", purchase="", price_as_of="", price_source="", facts=told)
    return dataclasses.replace(nothing, warnings=(Reason("price_unknown", {}), *kept))


def warnings(search_result: TrainingResult, option: Option) -> tuple[Reason, ...]:
    """What to beware of."""
    return (
        *price_warnings(option),
        *_risk_warnings(search_result, option),
        *_machine_warnings(search_result, option),
        *_knowledge_warnings(search_result, option),
    )


def price_warnings(option: Option) -> list[Reason]:
    """How sure the price is, and whether it is paid for longer than the job takes."""
    reasons = price_doubts(option)
    if (
        not option.facts["is_pseudo_region"]
        and option.facts["price_regions"] == 1
        and any(name in option.price_source for name in AGGREGATORS)
    ):
        reasons.append(Reason("price_one_region", {"region": option.region, "source": option.price_source.split(" ")[0]}))
    term_s, used_s = option.facts["billing_minimum_s"], option.estimate["total_time_s"].mid
    if term_s >= COMMITTED_S and used_s < term_s:
        reasons.append(Reason("commitment", {"term_h": term_s / 3600.0, "used_h": used_s / 3600.0}))
    return reasons


def price_doubts(option: Option) -> list[Reason]:
    """Why a price may be another one by now or there."""
    found = [Reason("price_stale", {"as_of": option.price_as_of})] if option.facts["is_stale"] else []
    found += [_price_estimate(option)] if option.facts["is_estimate"] else []
    return found + ([Reason("price_region", {"region": option.region})] if option.facts["is_pseudo_region"] else [])


def _price_estimate(option: Option) -> Reason:
    """What an estimated price was listed at, and what it is counted as."""
    price = option.facts["price"]
    names = {"listed": "listed_usd_per_h", "expected": "expected_usd_per_h", "low": "low80_usd_per_h", "high": "high80_usd_per_h"}
    params = {f"{name}_usd": price[key] * option.nodes for name, key in names.items()}
    return Reason("price_estimate", {**params, "source": option.price_source})


def stop_warnings(option: Option) -> list[Reason]:
    """Interruptions and failures of a run: how many are expected."""
    low, high, risk = option.facts["spot_low"], option.facts["spot_high"], option.facts["risk"]
    if risk is None:
        return []
    key = "failures_expected" if high <= 0 else "spot_interruption" if option.facts["spot_known"] else "spot_rate_unknown"
    params = {"monthly_low": low, "monthly_high": high, "expected_interruptions": risk["interruptions"], "nodes": option.nodes}
    return [Reason(key, params)]


def survival_warnings(option: Option) -> list[Reason]:
    """The chance that every one of several spot servers is still there when the next checkpoint is
    written: stops as a Poisson process."""
    risk, working_s = option.facts["risk"], option.estimate["total_time_s"].mid - option.facts["startup_s"]
    if risk is None or option.nodes == 1 or option.facts["spot_high"] <= 0 or working_s <= 0:
        return []
    interval_s = min(risk["interval_s"], option.facts["run_s"])
    chance = math.exp(-risk["interruptions"] / working_s * interval_s)
    return [Reason("all_servers_survive", {"nodes": option.nodes, "interval_s": interval_s, "probability": chance})]


def checkpoint_warnings(option: Option) -> list[Reason]:
    """How often a training run should be saved, and what the bill would be if
    nothing were saved."""
    reasons, risk = [], option.facts["risk"]
    if risk is None:
        return []
    if risk["interval_s"] < option.facts["run_s"] and risk["interruptions"] >= facts.coefficients("planning")["failures_told"]:
        reasons.append(Reason("save_every", {name: risk[name] for name in ("interval_s", "save_s", "restart_s")}))
    if risk["without_checkpoints"] >= facts.coefficients("planning")["loss_told"]:
        finite = np.isfinite(risk["without_checkpoints_usd"])
        params = {"loss_usd": risk["without_checkpoints_usd"], "times": risk["without_checkpoints"], "total_usd": option.cost.total_usd}
        reasons.append(Reason("no_checkpoints" if finite else "no_checkpoints_never", params))
    return reasons


def _risk_warnings(search_result: TrainingResult, option: Option) -> list[Reason]:
    reasons = [*stop_warnings(option), *survival_warnings(option), *checkpoint_warnings(option)]
    usual = facts.coefficients("planning")
    peak, limit = option.estimate["peak_memory_bytes"].mid, option.facts["capacity_bytes"]
    if option.facts["fit_probability"] < usual["memory_told_probability"] and peak <= limit:
        params = {
            "probability": option.facts["fit_probability"],
            "peak_bytes": peak,
            "limit_bytes": limit,
        }
        reasons.append(Reason("memory_tight", params))
    if option.facts["adapted_bytes"] > limit >= peak:
        targets = next(str(one.value) for one in search_result.wish.assumptions if one.field == "lora_targets")
        reasons.append(Reason("adapters_decide", {"targets": targets, "peak_bytes": option.facts["adapted_bytes"], "limit_bytes": limit}))
    late = option.probability["deadline"]
    if late is not None and late < usual["memory_tight_probability"]:
        reasons.append(Reason("deadline_risk", {"probability": late, "deadline_s": search_result.filters.deadline_s}))
    return reasons


def _machine_warnings(search_result: TrainingResult, option: Option) -> list[Reason]:
    """What the server lacks that the job would profit from: fast links, vCPUs,
    bf16, FlashAttention."""
    usual, workload = facts.coefficients("planning"), search_result.wish.workload
    name, gpus = option.accelerator.name, option.accelerator.count_per_node
    reasons = []
    if option.nodes > 1:
        reasons.append(Reason("servers_as_one", {"servers": option.nodes, "fabric": option.placement["fabric"]}))
    spent = sum(seconds for term, seconds in option.time_terms.items() if term in COMMUNICATION) / sum(option.time_terms.values())
    if gpus > 1 and option.facts["gpu_interconnect"] == "pcie" and spent >= usual["communication_share_told"]:
        reasons.append(Reason("pcie_only", {"share": spent}))
    if option.nodes > 1 and option.facts["rdma"] == "none" and option.network_gbps > 0 and spent >= usual["communication_share_told"]:
        reasons.append(Reason("plain_network", {"bandwidth": option.network_gbps * 1e9 / 8, "share": spent}))
    data = option.data_path
    stated = np.isfinite(option.vcpus)
    vcpus = option.vcpus if stated else float(usual_vcpus(np.array(gpus)))
    if data and not stated and data["limit"] == "prepare" and data["loading_share"] >= data["rule_share"]:
        reasons.append(Reason("vcpus_unknown", {"taken": vcpus, "needed": data["needed_cores"]}))
    if data and workload.storage and data["why"] != "asked":
        reasons.append(Reason("storage_not_there", {"storage": workload.storage, "taken": data["volume"] or data["staging"]}))
    if data and data["stall_share"] > data["rule_share"]:
        params = {"share": data["stall_share"], "needed": data["needed_cores"], "had": data["cores"], "vcpus": vcpus}
        reasons.append(Reason(f"data_starved_{data['limit']}", params if data["limit"] == "prepare" else {"share": data["stall_share"]}))
    elif option.vcpus < usual["few_vcpus_per_accelerator"] * gpus:
        reasons.append(Reason("few_vcpus", {"vcpus": option.vcpus, "gpus": gpus, "accelerator": name}))
    if not workload.precision and option.layout.precision in ("fp16", "fp32"):
        reasons.append(Reason("no_bf16" if option.layout.precision == "fp16" else "no_half_precision", {"accelerator": name}))
    if not workload.attention and option.layout.attention == "sdpa":
        reasons.append(Reason("no_flash_attention", {"accelerator": name}))
    return reasons


def _gathers_experts(search_result: TrainingResult, option: Option) -> bool:
    """Whether adapters of a mixture of experts are trained by fetching every expert's weights
    from the other ranks."""
    experts = getattr(search_result.wish.model, "num_experts", 0)
    return (
        experts > 1
        and (option.layout.update or option.layout.method) != "full"
        and option.layout.sharding in ("zero-3", "hybrid")
        and option.layout.expert == 1
    )


def _knowledge_warnings(search_result: TrainingResult, option: Option) -> list[Reason]:
    reasons = []
    if _gathers_experts(search_result, option):
        reasons.append(Reason("gathers_experts", {"sharding": option.layout.sharding}))
    if not np.isfinite(option.memory_bytes):
        reasons.append(Reason("host_memory_unknown", {"needed_bytes": option.estimate["host_memory_bytes"].mid}))
    if option.nodes > 1 and not (np.isfinite(option.network_gbps) and option.network_gbps > 0):
        reasons.append(Reason("network_unknown", {}))
    if option.layout.update:
        reasons.append(Reason("uncalibrated_method", {"method": option.layout.method}))
    elif option.estimate["step_s"].source == "extrapolated":
        reasons.append(Reason("uncalibrated", {"accelerator": option.accelerator.name}))
    if option.facts["equivalent_to"]:
        reasons.append(Reason("hidden_chip", {"accelerator": option.accelerator.name, "equivalent": option.facts["equivalent_to"]}))
    return reasons
