"""The sellers that a plan takes by default are those that a launch target rents at:
catalog/data/launchers.csv against the targets."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from typical_plans import plan_values

import rightfit
from rightfit import facts
from rightfit.exports import Job, job_of, plan_document, skypilot_words
from rightfit.exports.bare_server import MONTH
from rightfit.exports.registry import all_targets
from rightfit.exports.targets import dstack, terraform_alicloud, terraform_tencent
from rightfit.facts.devices import build_for
from rightfit.facts.engine_releases import READ, release_for
from rightfit.market import names, open_catalog, sellers
from rightfit.market.offers import PURCHASES
from rightfit.search.constraints import runs_usual_software

ROWS = sellers.launchers()


def can(launcher: str, seller: str) -> set[str] | None:
    """How servers of a seller may be paid for beside on demand where a target rents them."""
    if launcher == "skypilot":
        return {"spot"} - skypilot_words.lacks(seller) if seller in skypilot_words.CLOUDS else None
    if launcher == "dstack":
        return {"spot"} if seller in dstack.BACKENDS else None
    module = {"terraform-alicloud": terraform_alicloud, "terraform-tencent": terraform_tencent}[launcher]
    return {"spot", MONTH} if module.TARGET.name.endswith(seller) else None


@pytest.mark.parametrize("seller", ROWS)
def test_a_row_is_what_its_target_does(seller: str) -> None:
    row = ROWS[seller]
    assert all_targets()[row["launcher"]].group == "launch"
    assert set(filter(None, row["ways"].split("|"))) == can(row["launcher"], seller)
    assert row["source"]


def test_every_seller_of_the_catalog_that_a_target_knows_has_a_row() -> None:
    known = set(names.names_data()["providers"])
    assert known & (set(skypilot_words.CLOUDS) | set(dstack.BACKENDS)) <= set(ROWS)
    assert set(ROWS) <= known


def test_what_starts_by_the_way_it_is_paid() -> None:
    assert sellers.starts("aws", "spot")
    assert sellers.starts("aws", "reserved-1y")  # a commitment is a discount on servers that are started on demand
    assert sellers.starts("tencent", "subscription-1m")
    assert not sellers.starts("tencent", "subscription-1y")
    assert not sellers.starts("aws", "capacity-block")
    assert sellers.starts("runpod", "on-demand", "H100-SXM-80GB")
    assert not sellers.starts("runpod", "on-demand", "B300-SXM-288GB")  # no launcher has a name for its pods
    assert not sellers.starts("lambda", "spot")
    assert not any(sellers.starts("hyperstack", way) for way in PURCHASES if way != "owned")
    assert sellers.starts("private", "on-demand")
    assert not sellers.is_major("aws-cn")
    assert sellers.is_major("volcengine")


# ---- every server that a plan may name first, before the targets that could start it

BY_THEMSELVES = [target for target in all_targets().values() if target.group == "launch" and target.name not in ("cloud-init", "slurm")]
"""cloud-init and Slurm start nothing on a server that nobody rented."""


@functools.cache
def offered() -> dict[str, dict[tuple[str, str], int]]:
    """Seller -> (accelerator, way to pay) -> an offer that no wish refuses for its seller, its way
    to pay or its software."""
    table = open_catalog().all_offers()
    servers = table.servers
    sound = ~sellers.by_hand(table) & ~table.is_quarantined & ~table.is_pseudo_region & np.isfinite(table.price_usd_per_h)
    found: dict[str, dict[tuple[str, str], int]] = {}
    for row in np.flatnonzero(sound & servers.is_recommendable[table.server_index]).tolist():
        server = int(table.server_index[row])
        key = (servers.accelerator_name[server], PURCHASES[table.purchase_index[row]])
        if not sellers.starts(servers.provider[server], key[1], key[0]):
            continue  # told of: the way to pay was asked for
        found.setdefault(servers.provider[server], {}).setdefault(key, row)
    return found


def moved(row: int, *, serves: bool) -> Job:
    """A typical job on the server of an offer."""
    table = open_catalog().all_offers()
    offer, server = table.row(row), int(table.server_index[row])
    card, number = table.servers.accelerator_name[server], max(1, int(table.servers.num_accelerators[server]))
    by_engine = card and not runs_usual_software(card)
    service = "chat-8b-aws" if by_engine else "bert-service-azure"
    values = plan_values(service if serves else ("lora-8b-aws" if card else "xgboost-train-aws"))
    first = values["options"][0]
    known = facts.accelerators().get(card)
    placed = {name: offer[name] for name in ("provider", "region", "instance_type", "purchase")}
    cards = {"name": card, "count_per_node": number if card else 0, "memory_bytes": known.memory_bytes if known else 0.0}
    told = {**first["facts"], "vendor": known.vendor if known else ""}
    return job_of(plan_document({**values, "options": [{**first, **placed, "nodes": 1, "accelerator": cards, "facts": told}]}))


@pytest.mark.parametrize("seller", sorted(ROWS))
def test_whatever_a_plan_may_name_first_something_starts(seller: str) -> None:
    """By training where a build of PyTorch runs on the cards, else by an engine's image; a
    subscription carries services."""
    unstarted = {}
    for (card, purchase), row in offered().get(seller, {}).items():
        trains, served = runs_usual_software(card), runs_usual_software(card, by_engine=True)
        if not (trains or served):
            continue  # no plan names it unless it is asked for, and then with a word
        job = moved(row, serves=not trains or purchase.startswith("subscription"))
        problems = {target.name: str(target.problem(job)) for target in BY_THEMSELVES}
        if all(problems.values()):
            unstarted[card, purchase] = problems[ROWS[seller]["launcher"]]
    assert not unstarted


SERVES_AMD = {"azure": {"terraform-azure", "provider-cli"}, "oci": set[str](), "runpod": {"skypilot", "dstack", "runpod"}}


@pytest.mark.parametrize("seller", SERVES_AMD)
def test_amd_cards_are_rented_with_their_driver_or_not_by_this_way(seller: str) -> None:
    """Images of servers have the driver of one maker: what starts is what brings AMD's."""
    row = offered().get(seller, {}).get(("MI300X", "on-demand"))
    assert row is None or SERVES_AMD[seller]
    assert row is not None or seller != "azure"
    assert sellers.starts(seller, "on-demand", "MI300X") == bool(SERVES_AMD[seller])
    assert sellers.starts(seller, "on-demand", "H100-SXM-80GB")
    if row is None:
        return
    job = moved(row, serves=False)
    assert {target.name for target in BY_THEMSELVES if not target.problem(job)} <= SERVES_AMD[seller]
    refused = [str(all_targets()[name].problem(job)) for name in ("skypilot", "dstack") if name not in SERVES_AMD[seller]]
    assert all("driver of NVIDIA GPUs only" in problem for problem in refused)
    for name in SERVES_AMD[seller] & {"terraform-azure", "provider-cli"}:
        text = "\n".join(all_targets()[name].files(job).values())
        assert "2204-rocm" in text, name
        assert "/dev/kfd" in text, name


def test_a_label_is_started_as_the_chip_that_it_equals() -> None:
    hidden = [card for card in facts.accelerators().values() if card.equivalent_to]
    assert len(hidden) > 8
    for card in hidden:
        assert build_for(card.name) == build_for(card.equivalent_to), card.name
        for engine in READ:
            assert release_for(engine, (), card.name) == release_for(engine, (), card.equivalent_to), card.name


@pytest.mark.parametrize(
    ("card", "is_told"), [("ALI-GA107-16GB", "hidden_chip"), ("MI355X", "no_release"), ("B300-SXM-288GB", "offer_by_hand")]
)
def test_a_server_that_is_asked_for_is_told_of(card: str, is_told: str) -> None:
    wish = {"model": "resnet50", "data": "10kimages", "gpu": card, "top": 1}
    plan = rightfit.plan(**wish, **({"cloud": "runpod"} if is_told == "offer_by_hand" else {}))
    assert is_told in {reason.key for reason in plan.options[0].warnings}
