"""Interruptions in the options of a plan: the interval of the end, the chance to be late, what no
checkpoints would cost; and when nothing is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rightfit.planner.plan import plan
from rightfit.search.answer import Option
from rightfit.search.risk import Hazard, without_checkpoints_s
from rightfit.workload import Workload

LONG: dict[str, Any] = {"model": "llama3-8b", "task": "finetune", "method": "full", "data": "3Btok", "gpu": ("A100-80GB",), "max_nodes": 1}


def best(**wish: Any) -> Option:
    return plan(Workload(**wish), top=3).options[0]


def keys(option: Option) -> set[str]:
    return {reason.key for reason in option.warnings}


def test_a_long_spot_run_says_what_interruptions_do_to_it() -> None:
    option = best(**LONG, purchase=("spot",))
    risk, time = option.facts["risk"], option.estimate["total_time_s"]
    assert risk["total"]["high80"] == pytest.approx(time.high80, rel=1e-3)  # the start is unsure too
    assert time.low95 <= time.low80 <= time.mid <= time.high80 <= time.high95
    monthly = (option.facts["spot_low"] + option.facts["spot_high"]) / 2
    by_hand = -np.log1p(-monthly) / (730 * 3600) * option.nodes * (time.mid - option.facts["startup_s"])
    assert risk["interruptions"] == pytest.approx(by_hand + 5.48e-9 * option.num_accelerators * (time.mid - option.facts["startup_s"]))
    assert risk["interval_s"] < option.facts["run_s"]
    assert keys(option) & {"spot_interruption", "spot_rate_unknown"}


def test_several_spot_servers_say_how_likely_all_of_them_reach_the_next_checkpoint() -> None:
    wish = {"model": "meta-llama/Llama-2-7b-hf", "task": "train", "data": "200Btok", "cloud": "aws", "gpu": "H100", "deadline": "20d"}
    found = [option for option in plan(Workload(**wish, purchase="spot"), top=5).options if option.nodes > 1]
    assert found
    for option in found:
        said = next(reason for reason in option.warnings if reason.key == "all_servers_survive")
        monthly = (option.facts["spot_low"] + option.facts["spot_high"]) / 2
        per_s = -np.log1p(-monthly) / (730 * 3600) * option.nodes + 5.48e-9 * option.num_accelerators
        assert said.params["probability"] == pytest.approx(np.exp(-per_s * option.facts["risk"]["interval_s"]), rel=1e-3)
    assert "all_servers_survive" not in keys(best(**LONG, purchase=("spot",))) or best(**LONG, purchase=("spot",)).nodes > 1


def test_without_checkpoints_is_the_formula_of_starting_anew() -> None:
    option = best(**{**LONG, "data": "60Btok"}, purchase=("spot",), cloud=("gcp",))
    risk = option.facts["risk"]
    hazard = Hazard(
        option.facts["spot_low"],
        option.facts["spot_high"],
        option.nodes,
        5.48e-9 * option.num_accelerators,
        risk["save_s"],
        risk["restart_s"],
    )
    expected = option.facts["startup_s"] + without_checkpoints_s(option.facts["run_s"], hazard)
    assert risk["without_checkpoints_s"] == pytest.approx(expected)
    assert risk["without_checkpoints_usd"] == pytest.approx(expected / 3600 * option.cost.hourly_usd)
    assert risk["without_checkpoints"] > 1.1
    assert {"no_checkpoints", "save_every"} <= keys(option)


def test_the_chance_to_be_late_is_that_of_the_law() -> None:
    relaxed = best(**LONG, purchase=("spot",), deadline="30d")
    assert relaxed.facts["deadline_probability"] > 0.99
    middle = relaxed.estimate["total_time_s"].mid
    late = Workload(**LONG, purchase=("spot",), deadline=f"{middle * 1.02 / 3600:.2f}h", cloud=(relaxed.provider,), confidence=50)
    tight = next(one for one in plan(late, top=30).options if one.instance_type == relaxed.instance_type)  # those that are surer go first
    assert tight.facts["deadline_probability"] == pytest.approx(
        1 - tight.facts["risk"]["late"], abs=0.03
    )  # of the interval, with the start
    assert 0.3 < tight.facts["deadline_probability"] < 0.9


def test_on_demand_says_nothing_unless_cards_are_many_and_long_in_use() -> None:
    short = best(**{**LONG, "data": "10Mtok"}, purchase=("on-demand",))
    assert short.facts["risk"] is None
    assert "failures_expected" not in keys(short)
    wish = {"model": "llama3-70b", "task": "train", "data": "300Btok", "purchase": ("on-demand",), "objective": "time"}
    many = best(**wish)
    assert many.facts["risk"] is not None
    assert many.facts["risk"]["interruptions"] >= 0.05
    assert "failures_expected" in keys(many)


def test_batch_jobs_on_spot_carry_their_risk_too() -> None:
    option = best(model="llama3-8b", task="batch", data="20Btok", purchase=("spot",), deadline="20d")
    risk = option.facts["risk"]
    assert risk["total"]["high80"] == pytest.approx(option.estimate["total_time_s"].high80, rel=1e-3)
    assert option.probability["deadline"] is not None
    steady = best(model="llama3-8b", task="batch", data="200Mtok", purchase=("on-demand",))
    assert steady.facts["risk"] is None


def test_the_bill_of_a_run_adds_up_line_by_line() -> None:
    found = plan(Workload(**LONG), top=1)
    option = found.options[0]
    lines = next(section for section in found.sections if section.name == "bill").content["lines"]
    assert sum(line["usd"] for line in lines if not line["beside"]) == pytest.approx(option.cost.total_usd, rel=6e-3)
    assert all(line["source"] for line in lines)
    assert sum(option.cost.terms.values()) == pytest.approx(option.cost.total_usd)


def test_a_month_of_office_hours_costs_its_hours_and_the_disks() -> None:
    found = plan(Workload(**LONG, office_hours=100), top=1)
    month = next(section for section in found.sections if section.name == "bill").content["month"]
    hourly = found.options[0].cost.hourly_usd
    assert month["office_hours"] == 100
    assert month["month_usd"] - month["office_usd"] == pytest.approx(630 * hourly)
    assert month["idle_share"] == pytest.approx(1 - 100 / 730)
