"""Servers that work as one stand where somebody states what joins them, in every family; one server
goes before several that cost little less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from answers import options_of, wishes

import rightfit
from rightfit.families.registry import settled
from rightfit.planner.plan import TOP, default_catalog
from rightfit.search.advice import several_mask
from rightfit.search.answer import Option, Plan
from rightfit.search.constraints import SearchResult
from rightfit.search.criteria import has_fabric
from rightfit.search.offers import hearsay
from rightfit.search.rank import late_of
from rightfit.workload import Workload

WORTH = 1.25
#: Models of which no single card holds the weights, and small ones whose cheapest servers are many.
LARGE = {
    "deepseek-v3.2": {"model": "deepseek-ai/DeepSeek-V3.2", "task": "serve", "rate": "1/s"},
    "kimi-k2": {"model": "moonshotai/Kimi-K2-Instruct", "task": "serve", "rate": "1/s"},
    "qwen3-coder-480b": {"model": "Qwen/Qwen3-Coder-480B-A35B-Instruct", "task": "serve", "rate": "1/s"},
    "glm-4.6": {"model": "zai-org/GLM-4.6", "task": "serve", "rate": "1/s"},
    "llama-7b": {"model": "huggyllama/llama-7b", "task": "serve", "rate": "1/s"},
    "llama-3-8b-busy": {"model": "meta-llama/Meta-Llama-3-8B", "task": "serve", "rate": "40/s"},
    "deepseek-v3.2-batch": {"model": "deepseek-ai/DeepSeek-V3.2", "task": "batch", "data": "1Btok"},
    "llama-3-70b-full": {"model": "meta-llama/Meta-Llama-3-70B", "task": "finetune", "method": "full", "data": "50Mtok", "deadline": "12h"},
    "pretrain-8b": {"model": "meta-llama/Meta-Llama-3-8B", "task": "train", "data": "100Btok", "deadline": "30d"},
}


def confirmed(wish: dict[str, Any]) -> SearchResult:
    """The search that a plan ranks: its first options by the better law."""
    family, workload = settled(Workload(**wish))
    return family.confirm(family.explore(workload, default_catalog()), TOP)[0]


def problems_of(option: Option) -> list[str]:
    """What is wrong with where the servers of an option stand."""
    placement, found = option.placement, []
    if set(placement) != {"servers", "fabric", "same_zone"}:
        return [f"placement says {sorted(placement)}"]
    if not 1 <= placement["servers"] <= option.nodes:
        found.append(f"{placement['servers']} of {option.nodes} servers work as one")
    if placement["servers"] == 1 and placement["fabric"] is not None:
        found.append("one server needs no fabric")
    if placement["servers"] > 1 and placement["fabric"] in (None, "", "unknown"):
        found.append(f"{placement['servers']} servers of {option.provider} {option.instance_type} are joined by nothing known")
    if placement["fabric"] == "private" and option.facts["is_pseudo_region"]:
        found.append(f"a private network needs a place: {option.region}")
    return found


@pytest.mark.parametrize("name", wishes())
def test_every_option_of_every_family_stands_on_a_known_fabric(name: str) -> None:
    shown = [(at, option) for at, option in options_of(name) if at.startswith("plan.options")]
    assert not [f"{at}: {problem}" for at, option in shown for problem in problems_of(option)]


@pytest.fixture(scope="module", params=LARGE)
def large(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Plan]:
    """A wish of LARGE with its plan."""
    wish = LARGE[request.param]
    return wish, rightfit.plan(**wish)


def test_large_models_stand_on_a_known_fabric(large: tuple[dict[str, Any], Plan]) -> None:
    options = large[1].options
    assert options
    assert not [problem for option in options for problem in problems_of(option)]


def test_one_server_goes_before_several_that_save_little(large: tuple[dict[str, Any], Plan]) -> None:
    found = confirmed(large[0])
    feasible = (found.bits == 0) & ~hearsay(found.market)[:, None]
    several = several_mask(found)
    usd = np.full(feasible.shape, np.inf)
    offer, column = np.nonzero(feasible)
    usd[offer, column] = np.where(np.any(late_of(found, offer, column), axis=0), np.inf, found.bill.total_usd[offer, column])
    best, one, many = large[1].options[0], usd[~several].min(initial=np.inf), usd[several].min(initial=np.inf)
    if best.nodes > 1:
        assert one > many * WORTH
    else:
        assert one <= many * WORTH
    other = next((section for section in large[1].sections if section.name == "servers"), None)
    listed = np.where(feasible & several, found.bill.total_usd, np.inf).min()
    assert (other is not None) == (np.isfinite(one) if best.nodes > 1 else listed < best.cost.total_usd)


def test_several_servers_of_an_unjoined_seller_are_refused_with_that_reason() -> None:
    found = confirmed(LARGE["deepseek-v3.2"])
    joined = has_fabric(found.market.offers)
    spanning = np.array([[found.together((at, column)) > 1 for column in range(found.bits.shape[1])] for at in range(len(joined))])
    assert (spanning & ~joined[:, None]).any()
    assert (found.failures.fails["fabric"] == (spanning & ~joined[:, None])).all()
    plan = rightfit.plan(**LARGE["deepseek-v3.2"])
    refused = next(one for one in plan.rejected if one.criterion == "fabric")
    assert refused.count > 0
    assert refused.nearest is not None
    assert refused.needed == refused.nearest.nodes > refused.had == 1


def test_one_card_that_would_do_with_several_unjoined_servers_has_its_own_words() -> None:
    verdict = rightfit.why("runpod/1x_MI300X", **LARGE["deepseek-v3.2"])
    assert "fabric" in [one.criterion for one in verdict.failed]  # beside the seller, where its tier is not asked for


def test_servers_that_are_slower_than_one_are_told_so() -> None:
    wish = {"model": "Qwen/Qwen2.5-0.5B", "task": "finetune", "method": "lora", "data": "1Mtok"}
    plan = rightfit.estimate(**wish, on="aws/p4d.24xlarge", nodes=4)
    one = rightfit.estimate(**wish, on="aws/p4d.24xlarge")
    told = next(reason for reason in plan.advice if reason.key.startswith("several_"))
    slower = plan.best.estimate["total_time_s"].mid >= one.best.estimate["total_time_s"].mid
    assert told.key == ("several_slower" if slower else "several_dearer")
    assert told.params["one_usd"] == pytest.approx(one.best.cost.total_usd)
