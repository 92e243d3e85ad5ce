"""Reasons of an option, as data: why it stands where it does, and what to beware of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.search.answer import Option, Reason

if TYPE_CHECKING:
    from rightfit.search.explore import Exploration

HEADLINES = {"cost": "cheapest", "time": "fastest", "balanced": "balanced"}
COMMITTED_S = 24 * 3600.0
COMMUNICATION = frozenset({"tensor_s", "expert_s", "context_s", "shard_s", "data_s"})
# Lists that collect other companies' prices.
AGGREGATORS = ("skypilot-catalog", "gpu-pricing-tracker", "compute-screener", "cloud-price-radar", "gpuhunt", "eu-cloud-prices")


def with_reasons(found: Exploration, options: Sequence[Option]) -> tuple[Option, ...]:
    """The options with `why` and `warnings`."""
    return tuple(
        dataclasses.replace(option, why=why(found, option, _runner_up(options, option)), warnings=warnings(found, option))
        for option in options
    )


def _runner_up(options: Sequence[Option], option: Option) -> Option | None:
    """The next option, which the first is compared with."""
    return options[1] if option.rank == 1 and len(options) > 1 else None


def why(found: Exploration, option: Option, runner_up: Option | None) -> tuple[Reason, ...]:
    """Why this option stands where it does."""
    reasons = []
    if option.rank == 1:
        reasons.append(_headline(found, option, runner_up))
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
    reasons.extend(_layout_reasons(found, option))
    reasons.append(_bottleneck(option))
    reasons.extend(_limits_met(found, option))
    return tuple(reasons)


def _headline(found: Exploration, option: Option, runner_up: Option | None) -> Reason:
    params: dict[str, object] = {"total_usd": option.cost.total_usd, "total_time_s": option.estimate["total_time_s"].mid}
    if runner_up is not None:
        name = f"{runner_up.nodes} x {runner_up.provider} {runner_up.instance_type}"
        params |= {
            "runner_up": name,
            "runner_up_usd": runner_up.cost.total_usd,
            "runner_up_time_s": runner_up.estimate["total_time_s"].mid,
        }
    return Reason(HEADLINES[found.wish.workload.objective], params)


def _layout_reasons(found: Exploration, option: Option) -> list[Reason]:
    """What the layout needs to fit: recomputation, sharding, offloading."""
    reasons = []
    layout, limit = option.layout, option.facts["capacity_bytes"]
    if layout.recompute != "none" and not found.wish.workload.recompute:
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


def _limits_met(found: Exploration, option: Option) -> list[Reason]:
    reasons = []
    if found.wanted.deadline_s is not None:
        params = {
            "total_time_s": option.estimate["total_time_s"].mid,
            "deadline_s": found.wanted.deadline_s,
            "probability": option.facts["deadline_probability"],
        }
        reasons.append(Reason("deadline_met", params))
    if found.wanted.budget_usd is not None:
        reasons.append(Reason("budget_met", {"total_usd": option.cost.total_usd, "budget_usd": found.wanted.budget_usd}))
    return reasons


def warnings(found: Exploration, option: Option) -> tuple[Reason, ...]:
    """What to beware of."""
    return (*_price_warnings(option), *_risk_warnings(found, option), *_machine_warnings(found, option), *_knowledge_warnings(option))


def _price_warnings(option: Option) -> list[Reason]:
    reasons = []
    if option.facts["is_stale"]:
        reasons.append(Reason("price_stale", {"as_of": option.price_as_of}))
    if option.facts["is_estimate"]:
        reasons.append(price_estimate(option))
    if option.facts["is_pseudo_region"]:
        reasons.append(Reason("price_region", {"region": option.region}))
    elif option.facts["price_regions"] == 1 and any(name in option.price_source for name in AGGREGATORS):
        reasons.append(Reason("price_one_region", {"region": option.region, "source": option.price_source.split(" ")[0]}))
    term_s, used_s = option.facts["billing_minimum_s"], option.estimate["total_time_s"].mid
    if term_s >= COMMITTED_S and used_s < term_s:
        reasons.append(Reason("commitment", {"term_h": term_s / 3600.0, "used_h": used_s / 3600.0}))
    return reasons


def price_estimate(option: Option) -> Reason:
    """What an estimated price was listed at, what it is counted as, and what the option is ranked by."""
    price = option.facts["price"]
    names = {"listed": "listed_usd_per_h", "expected": "expected_usd_per_h", "low": "low80_usd_per_h", "high": "high80_usd_per_h"}
    params = {f"{name}_usd": price[key] * option.nodes for name, key in names.items()}
    return Reason("price_estimate", {**params, "ranked_usd": price["ranked_usd"], "source": option.price_source})


def stop_warnings(option: Option) -> list[Reason]:
    """Interruptions and failures of a run: how many are expected, how often to save, and what the bill would be if nothing were saved."""
    low, high, risk = option.facts["spot_low"], option.facts["spot_high"], option.facts["risk"]
    if risk is None:
        return []
    key = "failures_expected" if high <= 0 else "spot_interruption" if option.facts["spot_known"] else "spot_rate_unknown"
    reasons = [
        Reason(key, {"monthly_low": low, "monthly_high": high, "expected_interruptions": risk["interruptions"], "nodes": option.nodes})
    ]
    if risk["interval_s"] < option.facts["run_s"] and risk["interruptions"] >= facts.coefficients("planning")["failures_told"]:
        reasons.append(Reason("save_every", {name: risk[name] for name in ("interval_s", "save_s", "restart_s")}))
    if risk["without_checkpoints"] >= facts.coefficients("planning")["loss_told"]:
        finite = np.isfinite(risk["without_checkpoints_usd"])
        params = {"loss_usd": risk["without_checkpoints_usd"], "times": risk["without_checkpoints"], "total_usd": option.cost.total_usd}
        reasons.append(Reason("no_checkpoints" if finite else "no_checkpoints_never", params))
    return reasons


def _risk_warnings(found: Exploration, option: Option) -> list[Reason]:
    reasons = stop_warnings(option)
    usual = facts.coefficients("planning")
    peak, limit = option.estimate["peak_memory_bytes"].mid, option.facts["capacity_bytes"]
    if option.facts["fit_probability"] < usual["memory_tight_probability"] and peak <= limit:
        params = {
            "probability": option.facts["fit_probability"],
            "peak_bytes": peak,
            "limit_bytes": limit,
        }
        reasons.append(Reason("memory_tight", params))
    late = option.facts["deadline_probability"]
    if late is not None and late < usual["memory_tight_probability"]:
        reasons.append(Reason("deadline_risk", {"probability": late, "deadline_s": found.wanted.deadline_s}))
    return reasons


def _machine_warnings(found: Exploration, option: Option) -> list[Reason]:
    """What the server lacks that the job would profit from: fast links, vCPUs, bf16, FlashAttention."""
    usual, workload = facts.coefficients("planning"), found.wish.workload
    name, gpus = option.accelerator.name, option.accelerator.count_per_node
    reasons = []
    spent = sum(seconds for term, seconds in option.time_terms.items() if term in COMMUNICATION) / sum(option.time_terms.values())
    if gpus > 1 and option.facts["gpu_interconnect"] == "pcie" and spent >= usual["communication_share_told"]:
        reasons.append(Reason("pcie_only", {"share": spent}))
    if option.nodes > 1 and option.facts["rdma"] == "none" and option.network_gbps > 0 and spent >= usual["communication_share_told"]:
        reasons.append(Reason("plain_network", {"bandwidth": option.network_gbps * 1e9 / 8, "share": spent}))
    data = option.data_path
    if data and workload.storage and data["why"] != "asked":
        reasons.append(Reason("storage_not_there", {"storage": workload.storage, "taken": data["volume"] or data["staging"]}))
    if data and data["stall_share"] > data["rule_share"]:
        params = {"share": data["stall_share"], "needed": data["needed_cores"], "had": data["cores"] or 0.0, "vcpus": option.vcpus}
        reasons.append(Reason(f"data_starved_{data['limit']}", params if data["limit"] == "prepare" else {"share": data["stall_share"]}))
    elif option.vcpus < usual["few_vcpus_per_accelerator"] * gpus:
        reasons.append(Reason("few_vcpus", {"vcpus": option.vcpus, "gpus": gpus, "accelerator": name}))
    if not workload.precision and option.layout.precision in ("fp16", "fp32"):
        reasons.append(Reason("no_bf16" if option.layout.precision == "fp16" else "no_half_precision", {"accelerator": name}))
    if not workload.attention and option.layout.attention == "sdpa":
        reasons.append(Reason("no_flash_attention", {"accelerator": name}))
    return reasons


def _knowledge_warnings(option: Option) -> list[Reason]:
    reasons = []
    if not np.isfinite(option.memory_bytes):
        reasons.append(Reason("host_memory_unknown", {"needed_bytes": option.estimate["host_memory_bytes"].mid}))
    if option.nodes > 1 and not (np.isfinite(option.network_gbps) and option.network_gbps > 0):
        reasons.append(Reason("network_unknown", {}))
    if option.estimate["step_s"].source == "extrapolated":
        reasons.append(Reason("uncalibrated", {"accelerator": option.accelerator.name}))
    if option.facts["equivalent_to"]:
        reasons.append(Reason("hidden_chip", {"accelerator": option.accelerator.name, "equivalent": option.facts["equivalent_to"]}))
    if option.facts["vendor"] != "NVIDIA":
        reasons.append(Reason("not_nvidia", {"accelerator": option.accelerator.name}))
    return reasons
