"""Prompts and answers on servers of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit.families.serving.explore import explore
from rightfit.families.serving.kind import pools
from rightfit.search.answer import Plan
from rightfit.workload import Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"
LOAD: dict[str, Any] = {
    "task": "serve",
    "rate": "200/s",
    "input_tokens": 2000,
    "output_tokens": 300,
    "ttft": "1s",
    "tpot": "25ms",
    "cloud": "aws",
}


def content(plan: Plan) -> dict[str, Any]:
    return {one.name: dict(one.content) for one in plan.sections}["disaggregated"]


def test_pools_are_large_enough_for_the_load() -> None:
    plan = rightfit.plan(LLAMA, **LOAD, gpu="H100", top=1)
    assert plan.best is not None
    apart, cards = content(plan), plan.best.accelerator.count_per_node
    assert apart["prompt_servers"] * (cards // apart["prompt_cards"]) * apart["prompt_rate_per_s"] >= 200
    assert apart["decode_servers"] * (cards // apart["decode_cards"]) * apart["decode_rate_per_s"] >= 200
    servers = apart["prompt_servers"] + apart["decode_servers"]
    assert apart["monthly_usd"] == pytest.approx(plan.best.cost.total_usd / plan.best.nodes * servers)


def test_it_is_said_only_where_it_pays() -> None:
    plan = rightfit.plan(LLAMA, **LOAD, gpu="H100", top=1)
    said = any(reason.key == "serve_disaggregate" for one in plan.sections for reason in one.reasons)
    assert said is (content(plan)["saving_usd"] > 0)


def test_limits_hold_in_each_pool() -> None:
    from rightfit.planner.plan import default_catalog

    found = explore(Workload(model=LLAMA, **LOAD, gpu="H100"), default_catalog())
    assert found.times is not None
    rows = np.flatnonzero(found.space.fits & (found.space.nodes == 1))[:20]
    able = pools(found, rows, each=np.ones(rows.shape[0], dtype=np.intp))
    times = found.times.take(rows)
    used = able.prompt_per_s > 0
    assert used.any()
    assert np.all(able.prompt_per_s[used] * times.prompt_s[used, 0] <= 0.8 + 1e-9)
    assert np.all((times.prompt_s[:, 0] + able.transfer_s)[used] <= 1.0)
    # Cache of 2,000 tokens (125 blocks of 16) of Llama-3-8B over the network.
    bandwidth = found.space.links.inter_bandwidth[rows]
    assert np.all(able.transfer_s >= 2000 * 131072 / bandwidth)


def test_tighter_limit_on_the_token_leaves_decoding_less() -> None:
    from rightfit.planner.plan import default_catalog

    rates = []
    for tpot in ("60ms", "25ms", "12ms"):
        found = explore(Workload(model=LLAMA, **{**LOAD, "tpot": tpot}, gpu="H100"), default_catalog())
        rows = np.flatnonzero(found.space.fits & (found.space.nodes == 1))[:5]
        rates.append(float(pools(found, rows, each=np.ones(rows.shape[0], dtype=np.intp)).decode_per_s.max()))
    assert rates == sorted(rates, reverse=True)
