"""Judgement of an engineer: offloading last, no servers for seconds, samples of a usual length,
methods that no plan knows refused."""

from __future__ import annotations

import numpy as np
import pytest

import rightfit
from rightfit.families.language.wish import read_wish
from rightfit.families.registry import settled
from rightfit.planner.plan import default_catalog
from rightfit.search.answer import Option
from rightfit.search.rank import time_classes
from rightfit.search.training.space import Sharding
from rightfit.workload import Workload
from rightfit.workload.ask import understand

OFFLOADING = (Sharding.OFFLOAD_OPTIMIZER, Sharding.OFFLOAD_ALL)


@pytest.mark.parametrize(
    "wish",
    [
        {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "full", "data": "10Mtok"},
        {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "qlora", "data": "10Mtok"},
        {"model": "stabilityai/stable-diffusion-xl-base-1.0", "task": "finetune", "method": "full", "data": "1kimages"},
    ],
)
def test_offloading_is_taken_only_where_nothing_else_fits(wish: dict[str, str]) -> None:
    """Over every machine class and number of servers: where a set-up was chosen that
    offloads, all that fit do."""
    family, workload = settled(Workload(**wish))
    found = family.explore(workload, default_catalog())
    free = family.explore(workload.settled(offload="none"), default_catalog())
    chosen = found.best.setup[:, :, -1]
    offloads = (chosen >= 0) & np.isin(found.space.setups.sharding[np.maximum(chosen, 0)], OFFLOADING)
    open_, tried = free.best.setup[:, :, -1], np.unique(found.space.setups.sharding)
    without = (open_ >= 0) & np.isin(free.space.setups.sharding[np.maximum(open_, 0)], tried)  # adapters try fewer shardings
    assert not (offloads & without).any()
    assert without.any()


def test_a_job_of_minutes_does_not_rent_a_fleet() -> None:
    wish = {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "lora", "data": "5Mtok", "objective": "time"}
    best = rightfit.plan(**wish).best
    assert best is not None
    assert best.nodes <= 4
    assert time_classes(np.array([400.0, 500.0, 530.0]), slack_s=120.0).tolist() == [0, 0, 1]


def test_samples_of_instruction_data_have_a_usual_length() -> None:
    def tokens(**wish: object) -> float:
        return read_wish(Workload(task="finetune", data="50ksamples", **wish)).amount.tokens

    usual = read_wish(Workload(model="Qwen2.5-7B", task="finetune", data="50ksamples"))
    assert usual.amount.tokens == 50e3 * 512
    assert "assumed_tokens_from_usual_samples" in {one.why.key for one in usual.assumptions}
    assert tokens(model="Qwen2.5-7B", seq_len=4096) == 50e3 * 4096
    assert tokens(model="bert-base-uncased", seq_len=128) == 50e3 * 128


@pytest.mark.parametrize(
    ("sentence", "method", "data"),
    [
        ("GRPO train Qwen2.5-7B on 100k prompts", "grpo", "100k samples"),
        ("DPO fine-tune Llama-3-8B with 60k preference pairs", "dpo", "60k pairs"),
        ("用 PPO 训练 7B 模型", "ppo", None),
        ("train a reward model from Llama-3-8B", "reward", None),
        ("用强化学习微调 Qwen2.5-7B", "grpo", None),
        ("RLHF for llama 3 8b", "ppo", None),
    ],
)
def test_learning_from_preferences_and_rewards_is_not_dropped(sentence: str, method: str, data: str | None) -> None:
    wishes = understand(sentence).wishes
    assert (wishes["method"], wishes.get("data"), wishes["task"]) == (method, data, "finetune")


def test_adapters_of_a_mixture_of_experts_through_zero3_are_a_last_resort_and_say_so() -> None:
    plan = rightfit.plan(model="mistralai/Mixtral-8x7B-v0.1", task="finetune", method="lora", data="10Mtok")
    for option in plan.options:
        sharded = option.layout.sharding in ("zero-3", "hybrid")
        assert sharded == any(reason.key == "gathers_experts" for reason in option.warnings)


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-235B-A22B", "moonshotai/Kimi-K2-Instruct"])
def test_experts_are_never_fetched_from_other_servers_for_adapters(model: str) -> None:
    wish = {"model": model, "task": "finetune", "method": "lora", "data": "1Mtok"}
    for option in rightfit.plan(**wish).options:
        assert option.nodes == 1 or (option.layout.sharding == "hybrid" and option.layout.offload == "none")
    asked = rightfit.plan(**wish, sharding="zero3", max_nodes=16)
    assert asked.options  # who says so gets it


@pytest.mark.parametrize(
    "wish",
    [
        {"model": "Qwen/Qwen2.5-14B-Instruct", "task": "finetune", "method": "lora", "data": "20Mtok", "cloud": "volcengine"},
        {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "full", "data": "50Mtok"},
        {"model": "mistralai/Mixtral-8x7B-v0.1", "task": "finetune", "method": "lora", "data": "10Mtok"},
        {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "rate": "0.01/s", "currency": "cny"},
    ],
    ids=lambda wish: wish["model"],
)
def test_a_last_resort_leads_only_where_it_halves_the_price(wish: dict[str, str]) -> None:
    """Offloading, and replicas over servers without RDMA, against every
    feasible row of the table."""
    family, workload = settled(Workload(**wish))
    found = family.explore(workload, default_catalog())
    offer, column = np.nonzero(found.bits == 0)
    last, usd = found.last_resort(offer, column), found.bill.total_usd[offer, column]
    best = found_best(wish)
    assert last.any()
    assert (~last).any()
    if best.layout.offload != "none" or best.placement["servers"] > 1:
        assert 2.0 * best.cost.total_usd <= usd[~last].min() * 1.001


def found_best(wish: dict[str, str]) -> Option:
    """The option that leads."""
    best = rightfit.plan(**wish, top=1).best
    assert best is not None
    return best
