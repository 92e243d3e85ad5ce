"""Who pays and what moves: services on cards of one host, commitments charged to their teams, data
that lie somewhere."""

from __future__ import annotations

from typing import Any

import pytest

from rightfit.errors import InputError
from rightfit.fleets.planning import plan_fleet
from rightfit.fleets.reading import read_fleet

CHAT = {"model": "meta-llama/Meta-Llama-3-8B", "input_tokens": 500, "output_tokens": 200}


def planned(**fleet: Any) -> Any:
    found = plan_fleet({"start": "2026-12-01", "horizon": "1w", **fleet}, processes=1, reasons=False, seconds=5.0)
    assert found.solved.plan.missing == 0.0
    return found


def services(number: int, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"chat-{at}", "demand": "1/s", "workload": CHAT, **more} for at in range(number)]


@pytest.mark.parametrize("number", [2, 8])
def test_services_share_a_host_card_by_card_as_they_share_eight_of_one(number: int) -> None:
    limits = {"clouds": "aws"}
    shared = planned(services=services(number), owned=[{"gpu": "8xL40S", "count": 1}], limits=limits)
    apart = planned(services=services(number), owned=[{"gpu": "1xL40S", "count": 8}], limits=limits)
    assert shared.solved.plan.cost_usd == pytest.approx(apart.solved.plan.cost_usd)
    rented = planned(services=services(number), limits=limits)
    assert shared.solved.plan.cost_usd < 0.1 * rented.solved.plan.cost_usd


def test_more_services_than_cards_are_not_all_on_the_host() -> None:
    found = planned(services=services(9), owned=[{"gpu": "8xL40S", "count": 1}], limits={"clouds": "aws"})
    all_owned = planned(services=services(8), owned=[{"gpu": "8xL40S", "count": 1}], limits={"clouds": "aws"})
    assert found.solved.plan.cost_usd > all_owned.solved.plan.cost_usd + 10.0


def test_commitments_are_charged_to_their_teams() -> None:
    both = [{**one, "team": team} for one, team in zip(services(2), ("nlp", "web"), strict=True)]
    found = planned(services=both, steady="12mo", limits={"clouds": "aws", "teams": {"nlp": "1000usd", "web": "1000usd"}})
    bought = found.document["purchases"]
    assert sorted(item["team"] for item in bought) == ["nlp", "web"]
    spent = {row["name"]: row["most"] for row in found.document["utilisation"]}
    for item in bought:
        assert spent[f"budget {item['team']}"] >= item["cost_usd"]
    alone = planned(services=[{**both[0], "team": "nlp"}], steady="12mo", limits={"clouds": "aws", "teams": {"nlp": "1000usd"}})
    assert alone.document["purchases"][0]["team"] == "nlp"
    free = planned(services=services(2), steady="12mo", limits={"clouds": "aws"})
    assert {item["team"] for item in free.document["purchases"]} == {""}
    assert free.solved.plan.cost_usd == pytest.approx(found.solved.plan.cost_usd, rel=1e-3)


def test_a_team_whose_budget_is_below_its_commitment_is_left_out() -> None:
    fleet = {"services": services(1, team="nlp"), "steady": "12mo", "limits": {"clouds": "aws", "teams": {"nlp": "40usd"}}}
    found = plan_fleet({"start": "2026-12-01", "horizon": "1w", **fleet}, processes=1, reasons=False, seconds=5.0)
    assert found.solved.plan.missing > 0.0


TRAIN = {"model": "resnet50", "task": "train", "data": "2TB", "epochs": 1}


def test_data_that_lie_elsewhere_cost_time_and_money() -> None:
    def hours(plan: Any, found: Any) -> float:
        one = plan.placed[0]
        return float(found.built.instance.demands[one.demand].choices[one.choice].hours)

    limits = {"clouds": "gcp", "purchase": "on-demand"}
    job = [{"name": "train", "workload": TRAIN}]
    here, there, home = (
        planned(jobs=job, limits=limits, **more) for more in ({}, {"data_location": "aws/us-east-1"}, {"data_location": "home"})
    )
    plans = [one.solved.plan for one in (here, there, home)]
    assert plans[1].cost_usd > plans[0].cost_usd + 100.0
    assert plans[2].cost_usd == pytest.approx(plans[0].cost_usd, rel=0.5)
    times = [hours(plan, found) for plan, found in zip(plans, (here, there, home), strict=True)]
    assert min(times[1:]) > times[0] + 1.0


def test_a_place_of_the_whole_fleet_is_that_of_its_jobs() -> None:
    jobs = [{"name": "a", "workload": TRAIN}, {"name": "b", "workload": {**TRAIN, "data_location": "gcp/us-central1"}}]
    for where in ({"data_location": "aws/us-east-1"}, {"defaults": {"data_location": "aws/us-east-1"}}):
        found = read_fleet({"jobs": jobs, "services": services(1), **where})
        assert [job.wishes["data_location"] for job in found.jobs] == ["aws/us-east-1", "gcp/us-central1"]
        assert "data_location" not in found.services[0].wishes
    with pytest.raises(InputError, match="nowhere"):
        planned(jobs=jobs[:1], data_location="aws/nowhere")
