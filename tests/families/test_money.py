"""Money over every family of work: the terms of a cost are its total, which lies inside its own
interval; how to buy, and every line of the bill."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import estimated, options_of, planned, wishes

import rightfit
from rightfit.explain.messages import label
from rightfit.explain.quantities import Table
from rightfit.explain.sheets import Lines, estimate_sheet, plan_sheet
from rightfit.market import Catalog
from rightfit.market.offers import PURCHASES
from rightfit.messages import Lang
from rightfit.search.answer import Cost, Option
from rightfit.search.offers import with_price_book

ROUNDING = 1e-9
LANGS: tuple[Lang, ...] = ("en", "zh")
#: Lines whose price is by the month, or in tiers with a part that is free.
NOT_LINEAR = ("volume", "dataset_out", "dataset_other_region")
#: A job of every family; a service keeps its bill, and says for how many months a credit pays.
JOBS = ("language/qlora-8b", "samples/resnet50", "serving/batch-8b", "passes/resnet-batch", "tables/xgboost", "tables/prepare-images")


def faults_of(cost: Cost) -> list[str]:
    """What does not add up in the money of one option; a total that is not known is none."""
    if not math.isfinite(cost.total_usd):
        return []
    faults = []
    spent, room = sum(cost.terms.values()), ROUNDING * cost.total_usd
    if abs(spent - cost.total_usd) > room:
        faults.append(f"terms {spent:.6g} are not the total {cost.total_usd:.6g}")
    if cost.total.mid != cost.total_usd:
        faults.append(f"the middle {cost.total.mid:.6g} is not the total {cost.total_usd:.6g}")
    bounds = [cost.total.low95, cost.total.low80, cost.total_usd, cost.total.high80, cost.total.high95]
    if not all(low <= high + room for low, high in itertools.pairwise(bounds)):
        faults.append(f"bounds are out of order: {bounds}")
    return faults


@pytest.mark.parametrize("name", wishes())
def test_terms_are_the_total_which_lies_inside_its_interval(name: str) -> None:
    faulty = {place: faults for place, option in options_of(name) if (faults := faults_of(option.cost))}
    assert not faulty


@pytest.mark.parametrize("granted_usd", [0.0003, 0.3])
@pytest.mark.parametrize("name", JOBS)
def test_a_credit_however_small_is_a_term_of_every_job(name: str, granted_usd: float, catalog: Catalog, tmp_path: Path) -> None:
    grants = "\n".join(f'[[credit]]\nprovider = "{owner}"\namount = "{granted_usd}usd"' for owner in set(catalog.servers().provider))
    (tmp_path / "book.toml").write_text(grants, encoding="utf-8")
    plan = rightfit.plan(**wishes()[name], catalog=with_price_book(catalog, tmp_path / "book.toml"), top=3)
    assert plan.options
    for option in (*plan.options, *plan.pareto):
        assert not faults_of(option.cost)
        assert -granted_usd * (1 + ROUNDING) <= option.cost.terms["credit_usd"] < 0
    check_lines(next(section.content["lines"] for section in plan.sections if section.name == "bill"), plan.options[0])


@pytest.mark.parametrize("name", wishes())
def test_every_family_says_how_to_buy_and_what_the_bill_is_made_of(name: str, catalog: Catalog) -> None:
    for plan, sheet in ((planned(name), plan_sheet), (estimated(name), estimate_sheet)):
        if plan is not None and plan.best is not None:
            sections = {section.name: section for section in plan.sections}
            check_modes(sections["buy"].content["modes"], plan.best, catalog)
            check_lines(sections["bill"].content["lines"], plan.best)
            for lang in LANGS:
                check_words(sheet(plan, lang, everything=True), lang)


def check_modes(modes: list[dict[str, Any]], best: Option, catalog: Catalog) -> None:
    """Every way to pay that the catalog has for the server where the option is, with a figure for
    the job where it is one."""
    quoted = {mode["purchase"] for mode in modes if mode["region"] == best.region and mode["basis"] != "rule"}
    assert quoted >= ways_to_pay(catalog, best)
    assert all((mode["job_usd"] is not None) == ("total_time_s" in best.estimate) for mode in modes)
    if "total_time_s" in best.estimate:
        same = next(mode for mode in modes if (mode["purchase"], mode["region"]) == (best.purchase, best.region))
        assert same["job_usd"] == pytest.approx(best.cost.total_usd)


def ways_to_pay(catalog: Catalog, best: Option) -> set[str]:
    """In which ways the server of an option is sold in its region at a sound price."""
    offers = catalog.all_offers()
    mine = offers.server_index == catalog.server_rows[best.provider, best.instance_type]
    sound = np.flatnonzero(mine & ~offers.is_quarantined & np.isfinite(offers.price_usd_per_h))
    return {PURCHASES[offers.purchase_index[row]] for row in sound if offers.regions[offers.region_index[row]] == best.region}


def check_lines(lines: list[dict[str, Any]], best: Option) -> None:
    """The lines add up to the total, each is its quantity at its price, and each says where
    its price is from."""
    spent = sum(line["usd"] for line in lines if not line["beside"])
    # Steps of billing that are worth less than half a per cent of an hour are not told.
    assert spent == pytest.approx(best.cost.total_usd, rel=ROUNDING, abs=0.005 * best.cost.hourly_usd)
    for line in lines:
        assert line["source"]
        assert line["name"] in NOT_LINEAR or line["usd"] == pytest.approx(line["quantity"] * line["unit_usd"])


def check_words(parts: Iterable[Any], lang: Lang) -> None:
    """A table of the ways to pay, one of the bill, and sentences about both, with
    nothing left unworded."""
    shown = list(parts)
    tables = {part.title: part for part in shown if isinstance(part, Table)}
    assert label("section", "buy", lang) in tables
    assert not [record["line"] for record in tables[label("section", "bill", lang)].records if "_" in record["line"]]
    said = next(part.lines for part in shown if isinstance(part, Lines) and part.name == "buy_lines")
    assert not [line for line in said if "bill_" in line or "buy_" in line or "{" in line]


@pytest.mark.parametrize("name", ["language/lora-8b-aws", "samples/sd15", "tables/xgboost"])
def test_data_that_lie_elsewhere_are_a_line_of_the_bill(name: str, catalog: Catalog) -> None:
    plan = rightfit.plan(**wishes()[name], data_location="gcp/us-central1", top=1)
    lines = next(section.content["lines"] for section in plan.sections if section.name == "bill")
    assert plan.best is not None
    check_lines(lines, plan.best)
    assert next(line["usd"] for line in lines if line["name"] == "data_moved") > 0


def test_a_month_that_is_owed_whole_saves_nothing_by_stopping() -> None:
    wish = wishes()["serving/chat-any-cny"]
    plan = rightfit.plan(**{**wish, "purchase": "subscription"}, top=1)
    month = next(section for section in plan.sections if section.name == "bill")
    assert month.content["month"]["office_usd"] == month.content["month"]["month_usd"]
    assert [reason.key for reason in month.reasons] == ["bill_month_owed"]
