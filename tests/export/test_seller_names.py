"""What launchers call servers of sellers that rent cards by the pod."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

import rightfit
from rightfit.exports import ExportSettings, find_target, job_of, plan_document
from rightfit.facts.tables import table
from rightfit.market import OfferFilter, open_catalog

CARDS = {row["accelerator"]: row for row in table("runpod_cards")}


def on_runpod(card: str) -> dict[str, Any]:
    plan = rightfit.plan("meta-llama/Llama-3.1-8B", method="qlora", data="5Mtok", cloud="runpod", gpu=card, purchase="on-demand", top=1)
    assert plan.best is not None, plan
    return {name: find_target(name) for name in ("skypilot", "dstack")} | {
        "job": job_of(plan_document(json.loads(plan.to_json())), settings=ExportSettings())
    }


def rented() -> list[str]:
    offers = open_catalog().offers(OfferFilter(providers=("runpod",), purchases=("on-demand",)))
    return sorted({offers.servers.accelerator_name[server] for server in offers.server_index.tolist()} - {""})


def test_cards_of_the_seller_are_named_or_refused() -> None:
    """Of the cards that the catalog has there, most have the launchers' names, and none is
    passed on under ours."""
    assert len(set(rented()) & set(CARDS)) >= 15


@pytest.mark.parametrize("card", ["RTX-4090", "H100-SXM-80GB", "A100-SXM-80GB"])
def test_pods_are_asked_for_under_the_launcher_s_names(card: str) -> None:
    found = on_runpod(card)
    task = yaml.safe_load(found["skypilot"].files(found["job"])["task.yaml"])
    places = task["resources"].get("ordered") or [task["resources"]]
    count = found["job"].gpus_per_node
    assert {place["instance_type"] for place in places} == {f"{count}x_{CARDS[card]['skypilot']}_SECURE"}
    run = yaml.safe_load(found["dstack"].files(found["job"])["run.dstack.yml"])
    assert (run["instance_types"], run["resources"]["gpu"]["count"]) == ([CARDS[card]["runpod"]], count)


def test_a_card_that_they_do_not_know_is_refused() -> None:
    found = on_runpod("B300-SXM-288GB")
    assert "knows no pod of runpod with B300-SXM-288GB" in str(found["skypilot"].problem(found["job"]))
    assert "knows no pod of runpod with B300-SXM-288GB" in str(found["dstack"].problem(found["job"]))
