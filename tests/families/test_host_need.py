"""Host memory and processors of every option of every family hold what the job needs, on
cards and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from answers import options_of, planned, wishes

import rightfit
from rightfit.families.registry import settled
from rightfit.planner.plan import default_catalog
from rightfit.search.answer import Option, Plan
from rightfit.workload import Workload

#: Wishes whose cheapest answers used to be too small for what they load.
HEAVY: dict[str, dict[str, Any]] = {
    "dlrm": {"model": "dlrm", "task": "serve", "rate": "5000/s"},
    "gpt-oss-120b": {"model": "openai/gpt-oss-120b", "task": "serve", "rate": "1/s"},
    "deepseek-v2-lite": {"model": "deepseek-ai/DeepSeek-V2-Lite", "task": "serve", "rate": "1/s"},
    "deepseek-v2-lite-batch": {"model": "deepseek-ai/DeepSeek-V2-Lite", "task": "batch", "data": "100Mtok"},
    "random-forest": {"model": "random_forest", "task": "serve", "rate": "9000/s", "columns": 30},
    "nearest-neighbours": {"model": "knn", "task": "serve", "rate": "50/s", "data": "100krows x 20cols"},
    "hunyuan-video": {"model": "HunyuanVideo", "task": "batch", "data": "1000videos"},
    "qwen-cpu": {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "rate": "0.05/s", "gpu": "none"},
}


def shortfalls(option: Option) -> list[str]:
    """What the host of an option lacks; what a provider does not say cannot be lacking."""
    ram = option.estimate.get("host_memory_bytes")
    found = [] if ram is not None else ["no host memory is estimated"]
    if ram is not None and np.isfinite(option.memory_bytes) and ram.mid > option.memory_bytes:
        found.append(f"{option.instance_type}: {ram.mid / 2**30:.0f} GiB of RAM needed, {option.memory_bytes / 2**30:.0f} there")
    if not option.accelerator.name and "peak_memory_bytes" in option.estimate:
        peak = option.estimate["peak_memory_bytes"].mid
        if peak > option.memory_bytes:
            found.append(f"{option.instance_type}: {peak / 2**30:.0f} GiB at the peak")
    if option.accelerator.name and option.vcpus <= option.accelerator.count_per_node:
        found.append(f"{option.instance_type}: {option.vcpus:g} vCPUs for {option.accelerator.count_per_node} accelerators")
    return found


@pytest.mark.parametrize("name", wishes())
def test_hosts_of_every_family_hold_the_job(name: str) -> None:
    shown = [(at, option) for at, option in options_of(name) if at.startswith(("plan.options", "plan.pareto"))]
    assert not [f"{at}: {lack}" for at, option in shown for lack in shortfalls(option)]


@pytest.mark.parametrize("name", HEAVY)
def test_hosts_of_heavy_models_hold_them(name: str) -> None:
    plan = rightfit.plan(**HEAVY[name])
    assert plan.options
    assert not [lack for option in (*plan.options, *plan.pareto) for lack in shortfalls(option)]


def test_embedding_tables_are_held_in_memory() -> None:
    plan = rightfit.plan(**HEAVY["dlrm"])
    best = plan.options[0]
    assert best.estimate["peak_memory_bytes"].mid > 4.5e10  # 22.8 G parameters of at least two bytes
    assert best.memory_bytes > 4.5e10 or best.accelerator.memory_bytes * best.accelerator.count_per_node > 4.5e10


@pytest.mark.parametrize("name", ["dlrm", "random-forest", "gpt-oss-120b", "deepseek-v2-lite-batch"])
def test_every_feasible_row_holds_it_not_only_the_shown(name: str) -> None:
    """The whole table: no feasible offer has less RAM than its own class needs."""
    family, workload = settled(Workload(**HEAVY[name]))
    found = family.explore(workload, default_catalog())
    offer, column = np.nonzero(found.bits == 0)
    needed, had = (
        np.broadcast_to(values["host_memory"], found.bits.shape)[offer, column] for values in (found.failures.needed, found.failures.had)
    )
    assert offer.shape[0]
    assert (had >= needed).all()
    cpus = (np.broadcast_to(values["host_cpus"], found.bits.shape)[offer, column] for values in (found.failures.needed, found.failures.had))
    least, there = cpus
    assert (~(there < least)).all()


def test_a_server_with_too_few_processors_says_so() -> None:
    verdict = rightfit.why("cudo/sapphire-rapids-h100_1x2v4gb", model="meta-llama/Meta-Llama-3-8B", task="serve", rate="1/s")
    assert {one.criterion for one in verdict.failed} >= {"host_memory", "host_cpus"}


def test_few_processors_beside_a_card_are_a_warning() -> None:
    plan: Plan = rightfit.estimate(model="meta-llama/Meta-Llama-3-8B", task="serve", rate="0.2/s", on="aws/g6.xlarge")
    assert plan.best is not None
    assert any(reason.key == "serve_few_vcpus" for reason in plan.best.warnings)
    assert planned("serving/chat-8b").best is not None
