"""Sixty questions of an engineer who rents servers, and forty of a red team: every answer has the
properties that its data file asks for, and those that every plan must have without a word there.
docs/questions.md says what the program says."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loaded import load_module

from rightfit.errors import InputError
from rightfit.exports import all_targets
from rightfit.market.sellers import launchers, starts
from rightfit.planner.plan import default_catalog
from rightfit.search.answer import Option, Plan

ROOT = Path(__file__).parent.parent
MOST_LINES = 20
CONFIDENCE = 90.0
GIB = 2.0**30
#: Prices that lead: somebody asks them. Estimates, formulas and floors do not.
ASKED = {"list", "quote"}
OLD = re.compile(r"(?:Listed at|on|\() ?.*20\d\d-\d\d-\d\d|20\d\d-\d\d-\d\d 标价|（20\d\d-\d\d-\d\d）")
FIRST = re.compile(r"Rent |租用|API|Serverless|Run on your own|用自有")
ENGLISH = re.compile(r"(?:\b[A-Za-z]{2,}\s+){3}[a-z]{2,}\b")
KNOWN = {
    *("exit", "lines", "tier", "by_hand", "clouds", "countries", "gpu", "one_server", "most_servers", "replica_gib", "usd", "hours"),
    *("says", "says_not", "api_first", "zh", "offload", "no_file"),
}


def script() -> ModuleType:
    """The script that writes the page, which asks the questions."""
    return load_module(ROOT / "scripts/write_questions_page.py")


SCRIPT = script()
QUESTIONS: dict[str, dict[str, Any]] = {one["id"]: one for name in SCRIPT.SETS for one in SCRIPT.questions(name)}


@functools.cache
def asked(name: str) -> Any:
    return SCRIPT.ask(QUESTIONS[name])


def test_there_are_sixty_and_forty() -> None:
    sizes = [len(SCRIPT.questions(name)) for name in SCRIPT.SETS]
    assert sizes == [60, 40]
    assert len(QUESTIONS) == 100
    for question in QUESTIONS.values():
        assert set(expected(question)) <= KNOWN, question["id"]
        assert "now" not in question or "found" in question, "what turned out otherwise is told"
        assert question["signed"] in ("signed", "with a remark", "not signed")
        assert len(question["verdict"]) > 20


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_has_the_properties_of_its_question(name: str) -> None:
    answer = asked(name)
    assert not list(faults(answer, expected(answer.question))), f"{answer.out}\n{answer.err}"


def expected(question: dict[str, Any]) -> dict[str, Any]:
    """What is expected of an answer: as written beforehand, but for what turned out
    to be wrong of that."""
    return {**question["expect"], **question.get("now", {})}


def faults(answer: Any, expect: dict[str, Any]) -> Iterator[str]:
    """What is wrong with an answer."""
    if answer.code != expect.get("exit", 0):
        yield f"exit code {answer.code}"
    if len(answer.out.splitlines()) > expect.get("lines", MOST_LINES):
        yield f"{len(answer.out.splitlines())} lines"
    yield from (f"does not say {word}" for word in expect.get("says", ()) if word not in " ".join(answer.text.split()))
    yield from (f"says {word}" for word in expect.get("says_not", ()) if word in answer.text)
    first = answer.out.split("\n\n")[0]
    if expect.get("api_first") and not first.startswith(("API", "Serverless")):
        yield "the API is not first"
    if expect.get("zh"):
        printed = re.sub(r"(?m)^.*rightfit .*$", "", answer.out + answer.err)
        yield from (f"English: {found.group()}" for found in ENGLISH.finditer(printed))
    best = answer.plans[0].best if answer.plans and answer.question["command"].startswith("plan") else None
    if best is not None:
        if not FIRST.match(first) and len(answer.plans) == 1:
            yield "the choice is not first"
        yield from option_faults(best, answer, expect)
        yield from expected_faults(best, expect)


def option_faults(best: Option, answer: Any, expect: dict[str, Any]) -> Iterator[str]:
    """What no choice may have."""
    plan: Plan = answer.plans[0]
    placement, host = best.placement, best.estimate["host_memory_bytes"].mid
    if placement["servers"] > 1 and (
        placement["fabric"] in (None, "", "unknown") or (best.facts["is_pseudo_region"] and placement["fabric"] == "private")
    ):
        yield f"{placement['servers']} servers that nothing known joins"
    if host > best.memory_bytes:
        yield f"{host / GIB:.0f} GiB of RAM needed on {best.memory_bytes / GIB:.0f}"
    if best.accelerator.name and best.vcpus <= best.accelerator.count_per_node:
        yield f"{best.vcpus} vCPUs beside {best.accelerator.count_per_node} cards"
    fits, confidence = best.probability["fits"], (plan.workload.confidence or CONFIDENCE) / 100.0
    if fits is not None and fits < 0.899:
        yield f"fits with {fits:.3f}"
    for limit in ("deadline", "budget"):
        holds = best.probability[limit]
        if holds is not None and holds < confidence - 2e-3:
            yield f"{limit} holds with {holds:.3f}"
    if best.layout.offload != "none" and not expect.get("offload"):
        yield f"offloads {best.layout.offload}"
    if best.purchase != "owned":
        yield from market_faults(best, answer, expect)


def market_faults(best: Option, answer: Any, expect: dict[str, Any]) -> Iterator[str]:
    """Who sells it, at which price, and what starts it."""
    if best.facts["seller_tier"] > expect.get("tier", 2):
        yield f"tier {best.facts['seller_tier']}"
    if best.facts["price_kind"] not in ASKED:
        yield f"price of kind {best.facts['price_kind']}"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", best.price_as_of):
        yield f"price of {best.price_as_of}"
    rent = next((part for part in answer.out.split("\n\n") if part.startswith(("Rent", "租用"))), answer.out)
    is_dated = best.facts["price_is_old"] or best.price_as_of < newest_year_before()
    if is_dated and not OLD.search("".join(rent.split("\n  ")[0]).replace("\n", " ")) and len(answer.plans) == 1:
        yield f"a price of {best.price_as_of}, which the first line does not say"
    named = answer.plans[0].workload.cloud or answer.plans[0].workload.sellers or answer.plans[0].workload.region
    if not starts(best.provider, best.purchase) and not named:
        yield f"no launcher rents at {best.provider}"
    if expect.get("no_file"):
        return
    if starts(best.provider, best.purchase) and not any(
        accepts(answer.plans[0], name) for name in (launchers()[best.provider]["launcher"], *all_targets())
    ):
        yield "no target writes what starts it"


def accepts(plan: Plan, target: str) -> bool:
    """Whether a target writes files for the choice of a plan."""
    try:
        return bool(plan.export(target))
    except InputError:
        return False


@functools.cache
def newest_year_before() -> str:
    """A year before the newest price of the catalog."""
    newest = max(date for date in default_catalog().all_offers().as_of_dates if date)
    return f"{int(newest[:4]) - 1}{newest[4:]}"


def expected_faults(best: Option, expect: dict[str, Any]) -> Iterator[str]:
    """What this question expects of its choice."""
    together = best.placement["servers"]
    if expect.get("one_server") and best.nodes != 1:
        yield f"{best.nodes} servers"
    if best.nodes > expect.get("most_servers", best.nodes):
        yield f"{best.nodes} servers"
    memory = together * best.accelerator.count_per_node * best.accelerator.memory_bytes / GIB
    if memory < expect.get("replica_gib", 0.0):
        yield f"a replica has {memory:.0f} GiB"
    if "clouds" in expect and best.provider not in expect["clouds"]:
        yield f"at {best.provider}"
    if "countries" in expect and country_of(best) not in expect["countries"]:
        yield f"in {best.region} ({country_of(best)})"
    if "gpu" in expect and (best.accelerator.name if best.accelerator.count_per_node else "") not in expect["gpu"]:
        yield f"on {best.accelerator.name}"
    low, high = expect.get("usd", (0.0, float("inf")))
    if not low <= best.cost.total_usd <= high:
        yield f"{best.cost.total_usd:.6g} dollars"
    low, high = expect.get("hours", (0.0, float("inf")))
    if "hours" in expect and not low <= best.estimate["total_time_s"].mid / 3600.0 <= high:
        yield f"{best.estimate['total_time_s'].mid / 3600.0:.3g} hours"


def country_of(option: Option) -> str:
    """Where an option stands."""
    offers = default_catalog().all_offers()
    return offers.region_countries[offers.regions.index(option.region)] if option.region in offers.regions else ""


def test_the_page_has_every_question_with_its_verdict() -> None:
    text = SCRIPT.PAGE.read_text("utf-8")
    assert text.count("\n### ") == len(QUESTIONS)
    for question in QUESTIONS.values():
        part = text.partition(f"\n### {question['id']}\n")[2].partition("\n###")[0]
        assert f"$ rightfit {question['command']}" in part, question["id"]
        assert question["verdict"] in part, question["id"]
        assert question.get("found", "") in part, question["id"]
    assert SCRIPT.glance({name: SCRIPT.questions(name) for name in SCRIPT.SETS}) in text


@pytest.mark.parametrize("name", list(QUESTIONS)[::9])
def test_a_section_is_what_the_program_says(name: str) -> None:
    assert SCRIPT.section(asked(name)) in SCRIPT.PAGE.read_text("utf-8"), "run scripts/docs"


def test_a_broken_answer_is_found() -> None:
    """The properties can fail: an answer that has none of them breaks each that is asked."""
    answer = asked("qlora-8b")
    wrong = {
        "exit": 3,
        "lines": 2,
        "says": ["no such words"],
        "says_not": ["Rent"],
        "api_first": True,
        "zh": True,
        "gpu": [""],
        "usd": [1e9, 2e9],
    }
    assert (
        len(
            list(
                faults(
                    answer, {**wrong, "hours": [1e6, 2e6], "clouds": ["nobody"], "countries": ["XX"], "replica_gib": 1e6, "most_servers": 0}
                )
            )
        )
        >= 12
    )
