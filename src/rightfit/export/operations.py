"""What the targets of operations share: what the plan expects of a running job, and shell words that read its folders."""

from __future__ import annotations

from rightfit import facts
from rightfit.export.job import SERVING_TASKS, Job
from rightfit.facts.word_tables import says

IDLE_SHARE = 0.5  # of the predicted busy time: below it something is wrong
MIB = 1024**2
FULL_SHARE = 0.97  # of a card's memory: beyond it the next allocation may fail
COST_MARGIN = 1.05


def floor_of_utilisation(job: Job) -> float:
    """Below this share of busy time something is wrong; 0 where the plan predicts no utilisation."""
    load = job.option.facts.get("utilisation")
    if job.is_service:
        return IDLE_SHARE * min(1.0, float(load)) if load else 0.0
    return IDLE_SHARE if job.gpus_per_node else 0.0


def has_profiling(job: Job) -> bool:
    """Whether DCGM reads profiling counters (busy share of the engines, tensor units) of a plan's cards: from Volta on, of GeForce cards from
    Blackwell on. Source: NVIDIA/dcgm-exporter issues 395 and 404, NVIDIA/DCGM issue 234. Of a card that is not known it is not promised."""
    card = facts.accelerators().get(job.option.accelerator.name)
    return card is not None and card.compute_capability >= (10.0 if says("setup", "geforce", card.name) else 7.0)


def memory_limit_bytes(job: Job) -> float:
    """The most that the plan holds possible on a card, or nearly all of it; 0 without a prediction."""
    peak = job.option.estimate.get("peak_memory_bytes")
    return min(peak.high95, FULL_SHARE * job.option.accelerator.memory_bytes) if peak and job.gpus_per_node else 0.0


def usd_per_gpu_h(job: Job) -> float:
    """What an hour of one card costs by the plan's price."""
    return job.option.cost.hourly_usd / job.num_gpus if job.num_gpus else 0.0


def most_usd_per_h(job: Job) -> float:
    """The most that an hour may cost: all servers of the busiest hour."""
    return job.option.cost.hourly_usd * most_servers(job) / job.num_nodes * COST_MARGIN


def most_servers(job: Job) -> int:
    """Servers at the busiest hour of a service, else those of the run."""
    day = job.section("autoscaling")
    replicas = max(job.option.layout.replicas, int(float(day.get("max_replicas") or 0)))
    return max(job.num_nodes, -(-replicas // max(1, job.option.layout.replicas_per_node))) if job.is_service else job.num_nodes


def most_usd(job: Job) -> float:
    """The most that the plan may cost: a month of a service at its busiest, a run at the end of its 95 % interval."""
    cost = job.option.cost
    if job.is_service:
        return (cost.monthly_usd or 0.0) * most_servers(job) / job.num_nodes
    time = job.option.estimate.get("total_time_s")
    return (cost.total_usd or 0.0) * (time.high95 / time.mid if time and time.mid else 1.0)


def folder_of(job: Job) -> str:
    """Where a run keeps its checkpoints."""
    return f"/checkpoints/{job.name}"


def only_runs(job: Job) -> str:
    """Why there is nothing to keep ("" for a run that trains)."""
    if job.task in SERVING_TASKS or job.task == "prepare":
        return f"the plan is to {job.task}; only training has checkpoints"
    return ""
