"""Plans over the whole real catalog."""

from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

import pytest
from counted import counted_usd

import rightfit
from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.planner.plan import plan, search
from rightfit.search.answer import Plan, Reason
from rightfit.search.criteria import CRITERIA
from rightfit.search.training.kind import least_accelerators
from rightfit.workload import Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"
LLAMA_70B = "meta-llama/Meta-Llama-3-70B"


@cache
def _plan(**options: Any) -> Plan:
    return plan(Workload(**{"model": LLAMA, "data": "50Mtok", **options}), top=10)


def test_qlora_of_8b_is_planned_over_the_whole_catalog() -> None:
    found = _plan(method="qlora")
    assert len(found.options) == 10
    assert found.counts.candidates >= 200_000
    assert found.counts.offers > 8_000
    assert [option.rank for option in found.options] == list(range(1, 11))
    costs = [counted_usd(option) for option in found.options]
    assert costs[0] == min(costs)
    assert len({option.provider for option in found.options}) >= 2


@pytest.mark.parametrize("objective", ["cost", "time", "balanced"])
def test_the_best_leads_by_its_objective(objective: str) -> None:
    found = _plan(method="qlora", objective=objective)
    values = {
        "cost": [counted_usd(option) for option in found.options],
        "time": [option.estimate["total_time_s"].mid for option in found.options],
        "balanced": [counted_usd(option) ** 2 * option.estimate["total_time_s"].mid for option in found.options],
    }[objective]
    slack = facts.coefficients("planning")["same_time_s"] if objective == "time" else 0.0
    assert values[0] <= min(values) + slack


def test_each_option_adds_up_and_fits() -> None:
    for option in _plan(method="lora").options:
        assert sum(option.cost.terms.values()) == pytest.approx(option.cost.total_usd)
        assert sum(option.time_terms.values()) == pytest.approx(option.estimate["step_s"].mid, rel=1e-6)
        assert sum(option.memory_terms.values()) == pytest.approx(option.estimate["peak_memory_bytes"].mid, rel=0.05)
        assert option.facts["fit_probability"] >= 0.9 - 1e-9
        assert option.layout.data * option.layout.tensor * option.layout.pipeline == option.num_accelerators
        assert option.layout.global_batch >= 128
        assert option.cost.hourly_usd > 0
        figure = option.estimate["total_time_s"]
        assert figure.low95 <= figure.low80 <= figure.mid <= figure.high80 <= figure.high95
        assert {reason.key for reason in option.why} >= {"fits", "bottleneck"}


def test_spot_and_uninterrupted_are_both_shown() -> None:
    purchases = {option.purchase for option in _plan(method="qlora").options}
    assert purchases == {"on-demand", "spot"}


def test_near_duplicates_are_folded() -> None:
    options = _plan(method="qlora", purchase="on-demand", sellers="hyperscaler").options
    keys = {(o.provider, o.accelerator.name, o.accelerator.count_per_node, o.nodes, o.purchase == "spot") for o in options}
    assert len(keys) == len(options)
    folded = [option for option in options if option.alternatives]
    assert folded
    assert all(other.total_usd >= option.cost.total_usd * (1 - 1e-12) for option in folded for other in option.alternatives)


def test_pareto_front_rises_in_cost_and_falls_in_time() -> None:
    points = [(option.cost.total_usd, option.estimate["total_time_s"].mid) for option in _plan(method="qlora").pareto]
    assert points == sorted(points)
    assert all(later[1] < earlier[1] for earlier, later in itertools.pairwise(points))


def test_full_fine_tuning_of_8b_is_not_put_on_one_40_gb_card() -> None:
    found = _plan(method="full", gpu=("A100-SXM-40GB",), max_nodes=1, offload="none")
    assert found.options
    assert all(option.num_accelerators >= 4 for option in found.options)
    with_offload = _plan(method="full", gpu=("A100-SXM-40GB",), max_nodes=1)
    assert all(option.layout.offload != "none" for option in with_offload.options if option.num_accelerators == 1)


def test_qlora_of_70b_fits_eight_a100_80gb_and_the_least_number_is_said() -> None:
    workload = Workload(model=LLAMA_70B, method="qlora", data="50Mtok", gpu="A100-80GB", purchase="on-demand")
    found = plan(workload)
    assert any(option.num_accelerators == 8 for option in found.options)
    least = [least_accelerators(search(workload), name) for name in facts.match_accelerators("A100-80GB")]
    assert 1 <= min(count for count in least if count) <= 2


def test_a_two_hour_job_does_not_take_a_three_year_reservation() -> None:
    found = _plan(method="qlora", purchase=("on-demand", "reserved-3y", "subscription-1m"))
    assert found.options[0].purchase == "on-demand"
    only = _plan(method="qlora", purchase=("reserved-3y",))
    assert only.options[0].cost.total_usd > 1000
    assert any(reason.key == "commitment" for reason in only.options[0].warnings)


def test_impossible_wish_names_the_binding_criteria_and_the_least_changes() -> None:
    found = plan(Workload(model=LLAMA_70B, method="full", data="1Gtok", deadline="1h", budget="1usd"))
    assert found.best is None
    assert found.blame
    assert all(criterion in CRITERIA for group in found.blame for criterion in group)
    keys = {reason.key for reason in found.advice}
    assert keys & {"change_budget", "change_deadline", "change_deadline_and_budget"}
    for reason in found.advice:
        if reason.key == "change_budget":
            assert reason.params["budget_usd"] > 1


def test_following_the_advice_makes_it_feasible() -> None:
    found = _plan(method="full", budget="1usd", purchase=("on-demand",))
    assert found.best is None
    assert found.blame == (("budget",),)
    change = next(reason for reason in found.advice if reason.key == "change_budget")
    again = _plan(method="full", budget=f"{change.params['budget_usd'] * 1.001}usd", purchase=("on-demand",))
    assert again.best is not None
    assert again.best.cost.total_usd <= change.params["budget_usd"]
    assert again.best.probability["budget"] >= 0.9 - 1e-2


def test_rejections_carry_numbers_and_a_near_miss() -> None:
    found = _plan(method="full", deadline="20min", purchase=("on-demand",))
    deadline = next(rejection for rejection in found.rejected if rejection.criterion == "deadline")
    assert deadline.needed == 1200.0
    assert deadline.had > 1200.0
    assert deadline.margin == pytest.approx(deadline.had / 1200.0 - 1)
    assert deadline.nearest is not None
    assert deadline.nearest.change == Reason("change_deadline", {"deadline_s": deadline.had, "factor": deadline.had / 1200.0})
    assert sum(rejection.count for rejection in found.rejected) <= found.counts.offers


def test_filters_are_kept() -> None:
    found = _plan(method="lora", cloud=("aws", "gcp"), gpu=("L4", "A10G"), purchase=("on-demand",), max_nodes=2)
    assert found.options
    for option in found.options:
        assert option.provider in ("aws", "gcp")
        assert option.accelerator.name in ("L4", "A10G")
        assert option.purchase == "on-demand"
        assert option.nodes <= 2


def test_unknown_names_are_refused_with_the_nearest() -> None:
    for options in ({"cloud": "amazn"}, {"region": "us-east-99"}, {"gpu": "H1000"}):
        with pytest.raises(UnknownNameError):
            plan(Workload(model=LLAMA, data="50Mtok", **options))


def test_old_cards_use_fp16_and_no_flash_attention() -> None:
    found = _plan(method="lora", gpu=("V100-SXM-16GB",))
    assert {option.layout.precision for option in found.options} == {"fp16"}
    assert {option.layout.attention for option in found.options} == {"sdpa"}
    refused = _plan(method="lora", gpu=("V100-SXM-16GB",), precision="bf16")
    assert refused.best is None
    assert refused.blame == (("gpu",),)
    capability = next(rejection for rejection in refused.rejected if rejection.criterion == "capability")
    assert capability.needed == "bf16"
    assert capability.nearest is not None
    assert capability.nearest.change.key == "change_precision"


def test_json_is_valid_and_complete() -> None:
    document = json.loads(_plan(method="qlora").to_json())
    assert {"schema_version", "workload", "assumptions", "options", "pareto", "rejected", "advice", "catalog"} <= document.keys()
    option = document["options"][0]
    wanted = "rank provider region instance_type nodes purchase accelerator vcpus memory_bytes network_gbps layout estimate memory_terms time_terms cost why"
    assert set(wanted.split()) <= option.keys()
    assert set(option["estimate"]["step_s"]) == {"mid", "low80", "high80", "low95", "high95", "source"}
    assert {
        "data",
        "tensor",
        "pipeline",
        "expert",
        "context",
        "sharding",
        "micro_batch",
        "grad_accum",
        "recompute",
        "precision",
        "offload",
    } <= option["layout"].keys()


def test_a_renderer_turns_reasons_into_text() -> None:
    document = _plan(method="qlora").to_dict(lambda reason: f"<{reason.key}>")
    assert document["options"][0]["why"][0].startswith("<cheapest")
    assert document["assumptions"][0]["why"].startswith("<assumed_")


def test_plans_are_deterministic() -> None:
    workload = Workload(model=LLAMA, method="qlora", data="50Mtok")
    assert plan(workload).to_json() == plan(workload).to_json()


def test_a_mixture_of_experts_and_an_encoder_are_planned() -> None:
    assert plan(Workload(model="mistralai/Mixtral-8x7B-v0.1", method="qlora", data="10Mtok")).best is not None
    assert plan(Workload(model="bert-base-uncased", method="full", data="10Mtok")).best is not None


def test_the_cost_of_a_term_owed_whole_does_not_vary_with_the_time() -> None:
    option = _plan(method="lora", purchase=("subscription-1m",)).options[0]
    cost, price = option.cost, option.facts["price"]  # what an old price may have moved, and nothing more
    assert cost.total.high80 / cost.total.mid == pytest.approx(price["high80_usd_per_h"] / price["expected_usd_per_h"], rel=0.01)
    assert cost.total.low80 / cost.total.mid == pytest.approx(price["low80_usd_per_h"] / price["expected_usd_per_h"], rel=0.01)
    flexible = _plan(method="lora", purchase=("on-demand",)).options[0].cost
    assert flexible.total.high80 > flexible.total.mid > flexible.total.low80


def test_a_pair_of_changes_is_offered_where_each_is_much_smaller() -> None:
    found = plan(Workload(model=LLAMA_70B, method="full", data="1Gtok", deadline="1h", budget="1usd"))
    pair = next(reason for reason in found.advice if reason.key == "change_deadline_and_budget")
    again = plan(
        Workload(
            model=LLAMA_70B,
            method="full",
            data="1Gtok",
            deadline=f"{pair.params['deadline_s'] * 1.001}s",
            budget=f"{pair.params['budget_usd'] * 1.001:.4f}usd",
        )
    )
    assert again.best is not None


def test_a_wish_without_any_layout_is_answered() -> None:
    found = _plan(method="lora", framework="nemo", tensor_parallel=7)
    assert found.best is None
    assert any(rejection.criterion == "layout" for rejection in found.rejected)


def test_long_sequences_use_context_parallelism_when_it_helps() -> None:
    found = plan(Workload(model="7B", method="full", data="100Mtok", seq_len=131_072, global_batch=8, objective="time"))
    assert found.best is not None
    assert any(option.layout.context > 1 for option in found.options)


def test_memory_terms_add_up_to_the_peak_that_is_said() -> None:
    for options in ({"method": "qlora"}, {"method": "lora"}, {"method": "full"}):
        for option in _plan(**options).options:
            assert sum(option.memory_terms.values()) == pytest.approx(option.estimate["peak_memory_bytes"].mid, rel=1e-9)


def test_the_cost_at_an_old_spot_price_is_less_certain() -> None:
    options = [*_plan(method="qlora", cloud="aws").options, *_plan(method="qlora", cloud="aws", purchase="on-demand").options]
    old = next(option for option in options if option.facts["price_is_old"])
    fresh = next(option for option in options if not option.facts["price_is_old"] and not option.facts["is_stale"])
    assert "price_moved" in {warning.key for warning in old.warnings}
    for option, wider in ((old, True), (fresh, False)):
        times, money = option.estimate["total_time_s"], option.cost.total
        assert (money.high80 / money.mid > 1.05 * times.high80 / times.mid) is wider
        assert money.low95 <= money.low80 <= money.mid <= money.high80 <= money.high95


def test_what_a_server_lacks_is_said() -> None:
    pcie = _plan(method="full", gpu="A10G", cloud="aws", task="finetune").options
    warned = [warning for option in pcie for warning in option.warnings if warning.key == "pcie_only"]
    assert warned
    assert all(0.05 <= warning.params["share"] < 1 for warning in warned)
    old = _plan(method="lora", gpu="T4").best
    assert old is not None
    assert {"no_bf16", "no_flash_attention"} <= {warning.key for warning in old.warnings}


def test_a_near_miss_tells_what_else_it_fails() -> None:
    found = plan(Workload(model=LLAMA_70B, method="full", data="1Gtok", deadline="1h", budget="1usd"))
    misses = {rejection.criterion: rejection.nearest for rejection in found.rejected}
    assert misses["purchase"] is not None
    assert set(misses["purchase"].also) == {"deadline", "budget"}
    assert misses["gpu_memory"] is not None
    assert misses["gpu_memory"].unknown == ("deadline", "budget")


def test_a_country_asked_for_needs_a_known_place() -> None:
    located = plan(Workload(model=LLAMA, method="qlora", data="50Mtok", country="US", purchase="on-demand,spot"), top=50)
    assert located.options
    assert not any(option.facts["is_pseudo_region"] and not option.facts["country"] for option in located.options)
    named = plan(Workload(model=LLAMA, method="qlora", data="50Mtok", country="US", cloud="runpod"))
    assert named.best is not None


def test_who_asks_for_speed_is_not_advised_to_be_slower() -> None:
    found = _plan(method="lora", objective="time")
    assert found.best is not None
    quickest = found.best.estimate["total_time_s"].mid
    assert all(reason.params["total_time_s"] <= quickest for reason in found.advice if reason.key == "method")


def test_a_named_gpu_that_lora_does_not_fit_is_planned_with_qlora_where_nobody_said_how() -> None:
    wish = {"model": "GLM-4-9B", "task": "finetune", "data": "10Mtok", "gpu": ["RTX-4090"], "num_gpus": 1}
    found = rightfit.plan(**wish, top=1)
    assert [option.layout.method for option in found.options] == ["qlora"]
    assert "assumed_by_qlora" in {one.why.key for one in found.assumptions}
    assert not rightfit.plan(**wish, method="lora", top=1).options  # what was said is kept


@pytest.mark.parametrize(("model", "data"), [("openai/whisper-large-v3", "200hours"), ("flux.1-dev", "500images")])
def test_a_named_gpu_that_a_model_of_another_kind_does_not_fit_is_no_contradiction(model: str, data: str) -> None:
    found = rightfit.plan(model=model, task="finetune", data=data, gpu=["RTX-3060"], num_gpus=1, top=1)
    assert found.best or found.advice
