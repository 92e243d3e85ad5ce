"""Cards, knobs, break-even lines, places and catalog pages: what a page draws."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.explain.conftest import GIB, figure

import rightfit
from rightfit.explain.cards import confidence, memory_use, option_card
from rightfit.explain.catalog_tables import COLUMN_SORTS, SORTS, Question, catalog_page
from rightfit.explain.listings import buy_curves, owed_curves, region_prices
from rightfit.explain.voices import knobs
from rightfit.market import Catalog, open_catalog
from rightfit.market.offers import PURCHASE_CODES
from rightfit.search.answer import Option, OptionAccelerator, Section
from rightfit.search.offers import sound_offers
from rightfit.workload import Workload

OptionOf = Callable[..., Option]


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return open_catalog()


# ---- cards


def test_a_card_says_what_matters_in_both_languages(option_of: OptionOf, workload: Workload) -> None:
    card = option_card(option_of(), workload, "en")
    assert (card.server, card.provider, card.hardware, card.place, card.purchase) == (
        "g2-standard-4",
        "Google Cloud",
        "1 × L4",
        "us-central1",
        "on demand",
    )
    assert (card.money.label, card.money.value, card.money.detail) == ("job cost", "$3.68", "$3.31 to $4.05")
    assert (card.time.value, card.time.detail) == ("5 h 12 min", "4 h 41 min to 5 h 43 min")
    assert [(fact.label, fact.value) for fact in card.facts] == [
        ("per hour", "$0.707"),
        ("tokens/s", "3,277"),
        ("GPU memory", "12 GiB of 24 GiB"),
    ]
    chinese = option_card(option_of(nodes=2), workload, "zh")
    assert (chinese.server, chinese.hardware, chinese.purchase) == ("2 × g2-standard-4", "2 × L4", "按量付费")
    assert (chinese.time.label, chinese.time.value) == ("用时", "5 小时 12 分钟")
    assert chinese.confidence_text == "把握高"


def test_a_card_speaks_the_currency_of_the_wish(option_of: OptionOf, workload: Workload) -> None:
    assert option_card(option_of(), workload.with_changes(currency="cny"), "zh").money.value.startswith("¥")


@pytest.mark.parametrize(
    ("spread", "word"), [(0.1, "high"), (0.23, "high"), (0.24, "medium"), (0.49, "medium"), (0.51, "low"), (1.0, "low")]
)
def test_confidence_follows_the_widest_interval(option_of: OptionOf, spread: float, word: str) -> None:
    # (1 + s) / (1 - s): 0.23 -> 1.597, 0.24 -> 1.63, 0.49 -> 2.92, 0.51 -> 3.08
    option = option_of()
    wide = option_of(estimate={**option.estimate, "total_time_s": figure(18720.0, spread)})
    assert confidence(wide) == word
    costly = option_of(cost=dataclasses.replace(option.cost, total=figure(3.68, spread)))
    assert confidence(costly) == word


def test_memory_is_of_the_card_or_of_the_host(option_of: OptionOf) -> None:
    use = memory_use(option_of())
    assert use is not None
    assert (use.mid, use.capacity, use.of_card) == (12 * GIB, 24 * GIB, True)
    assert (use.low, use.high) == (pytest.approx(10.8 * GIB), pytest.approx(13.2 * GIB))
    host = memory_use(option_of(accelerator=OptionAccelerator("", 0, 0.0)))
    assert host is not None
    assert (host.mid, host.capacity, host.of_card) == (24 * GIB, 16 * GIB, False)
    assert memory_use(option_of(accelerator=OptionAccelerator("", 0, 0.0), memory_bytes=float("nan"))) is None


# ---- knobs


@pytest.mark.parametrize(
    ("wishes", "options"),
    [
        (
            {"model": "Llama-3-8B", "method": "lora", "data": "50k samples"},
            {"global_batch", "seq_len", "deadline", "budget", "office_hours"},
        ),
        (
            {"model": "Qwen2.5-7B", "task": "serve", "users": 20, "ttft": "500ms"},
            {"users", "ttft", "input_tokens", "output_tokens", "budget", "office_hours"},
        ),
        ({"model": "xgboost", "task": "train", "data": "10Mrows x 100cols"}, {"deadline", "budget", "office_hours"}),
    ],
)
def test_knobs_are_those_of_the_work_and_every_value_can_be_planned(wishes: dict[str, Any], options: set[str], catalog: Catalog) -> None:
    plan = rightfit.plan(**wishes, catalog=catalog, top=1)
    found = knobs(plan)
    assert {knob.option for knob in found} == options
    for knob in found:
        assert 0 <= knob.at < len(knob.values)
        assert len(set(knob.values)) == len(knob.values)
        for value in filter(None, knob.values):
            plan.workload.with_changes(**{knob.option: value})


def test_a_given_limit_is_where_its_knob_stands(catalog: Catalog) -> None:
    plan = rightfit.plan(
        "Llama-3-8B", method="lora", data="50k samples", deadline="8h", budget="500cny", currency="cny", catalog=catalog, top=1
    )
    found = {knob.option: knob for knob in knobs(plan)}
    assert found["deadline"].values == ("2h", "4h", "6h", "8h", "12h", "16h", "32h", "")
    assert found["deadline"].at == 3
    assert found["budget"].values[found["budget"].at] == "500cny"
    assert found["seq_len"].values[found["seq_len"].at] == "2048"


def test_nothing_feasible_leaves_nothing_to_turn(catalog: Catalog) -> None:
    assert knobs(rightfit.plan("Llama-3-70B", method="full", data="50k samples", gpu="T4", max_nodes=1, catalog=catalog)) == ()


# ---- buying


def test_metered_prices_rise_with_hours_and_commitments_do_not() -> None:
    mode = {"payment": "metered", "term_h": 0.0}
    modes = [
        {**mode, "purchase": "on-demand", "price_usd_per_h": 2.0, "month_usd": 1460.0},
        {"purchase": "reserved-1y", "payment": "monthly", "term_h": 8760.0, "price_usd_per_h": 1.0, "month_usd": 730.0},
        {**mode, "purchase": "spot", "price_usd_per_h": None, "month_usd": None},
    ]
    reserved, on_demand = buy_curves(Section("buy", {"modes": modes}))
    assert (reserved.purchase, reserved.hours, reserved.usd) == ("reserved-1y", (0.0, 730.0), (730.0, 730.0))
    assert (on_demand.purchase, on_demand.usd) == ("on-demand", (0.0, 1460.0))


def test_a_term_that_has_begun_is_owed_whole() -> None:
    def mode(purchase: str, month: float, *, term_h: float = 0.0, owed: float = 0.0) -> dict[str, object]:
        return {"purchase": purchase, "price_usd_per_h": month / 730, "month_usd": month, "term_h": term_h, "owed_usd": owed}

    modes = [
        mode("on-demand", 100.0),
        mode("reserved-1y", 60.0, term_h=8760.0, owed=720.0),
        mode("reserved-3y", 40.0, term_h=26280.0, owed=1440.0),
    ]
    three, one, metered = owed_curves(Section("buy", {"modes": modes}))
    assert (three.months, three.usd) == ((0.0, 36.0), (1440.0, 1440.0))
    assert one.months == (0.0, 12.0, 12.0, 24.0, 24.0, 36.0)
    assert one.usd == (720.0, 720.0, 1440.0, 1440.0, 2160.0, 2160.0)
    assert metered.usd == (0.0, 3600.0)


# ---- places and catalog


def test_prices_by_region_are_those_of_the_catalog(catalog: Catalog) -> None:
    table = region_prices("aws", "g5.xlarge", "en", catalog=catalog)
    assert len(table.records) > 5
    offers = catalog.offers_of(catalog.server_rows["aws", "g5.xlarge"])
    rows = [offers.row(at) for at in range(len(offers)) if not offers.is_quarantined[at]]
    for record in table.records:
        listed = [row["price_usd_per_h"] for row in rows if row["region"] == record["region"] and row["purchase"] == "on-demand"]
        assert record["on_demand"] == (min(listed) if listed else None)
    assert region_prices("aws", "no-such", "en", catalog=catalog).records == []


@pytest.mark.parametrize("kind", list(SORTS))
@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_the_catalog_follow_each_other_without_gap(kind: str, descending: bool, catalog: Catalog) -> None:
    for sort in SORTS[kind]:
        whole = catalog_page(kind, Question(sort=sort, descending=descending, count=40), "en", catalog=catalog)
        pages = [
            catalog_page(kind, Question(sort=sort, descending=descending, first=first, count=20), "en", catalog=catalog)
            for first in (0, 20)
        ]
        assert repr([record for page in pages for record in page.table.records]) == repr(list(whole.table.records))
        assert all(page.total == whole.total for page in pages)


@pytest.mark.parametrize(("kind", "column", "order"), [(kind, *pair) for kind, pairs in COLUMN_SORTS.items() for pair in pairs.items()])
def test_a_column_is_sorted_by_what_stands_in_it_unknown_last(kind: str, column: str, order: str, catalog: Catalog) -> None:
    for descending in (False, True):
        lines = catalog_page(kind, Question(sort=order, descending=descending, count=400), "en", catalog=catalog).table.records
        shown = [None if line[column] != line[column] else line[column] or None for line in lines]
        known = [value for value in shown if value is not None]
        assert shown[len(known) :] == [None] * (len(shown) - len(known)), "unknown ones are last"
        if column in ("provider", "region", "purchase", "instance_type"):
            continue  # words of the reader's language, in the order of their codes
        folded = [value.casefold() if isinstance(value, str) else value for value in known]
        assert folded == sorted(folded, reverse=descending)


def test_prices_are_filtered_and_sorted(catalog: Catalog) -> None:
    page = catalog_page("prices", Question(cloud="aws", gpu="H100", purchase="spot", sort="price_per_gpu"), "zh", catalog=catalog)
    per_gpu = [record["price_usd_per_h"] / record["num_accelerators"] for record in page.table.records]
    assert per_gpu == sorted(per_gpu)
    assert {record["provider"] for record in page.table.records} == {"AWS"}
    assert {record["purchase"] for record in page.table.records} == {"竞价实例"}
    assert all("H100" in record["accelerator_name"] for record in page.table.records)


def test_prices_show_what_they_are_for_each_card_or_processor(catalog: Catalog) -> None:
    def shown(**asked: str) -> set[str]:
        return {column.key for column in catalog_page("prices", Question(**asked), "en", catalog=catalog).table.columns}

    assert {"price_per_gpu", "accelerator_name"} <= shown(gpu="H100")
    assert "price_per_vcpu" not in shown(gpu="H100")
    assert "price_per_vcpu" in shown(query="m7i.xlarge")
    assert not {"price_per_gpu", "num_accelerators"} & shown(query="m7i.xlarge")


def test_unknown_names_and_orders_are_refused(catalog: Catalog) -> None:
    with pytest.raises(rightfit.UnknownNameError, match="atlantis"):
        catalog_page("prices", Question(region="atlantis"), "en", catalog=catalog)
    with pytest.raises(rightfit.UnknownNameError, match="sort"):
        catalog_page("servers", Question(sort="beauty"), "en", catalog=catalog)


def test_the_least_price_of_a_server_is_one_that_a_plan_would_take(catalog: Catalog) -> None:
    """A price without a place where a server can be started is no price to rent at."""
    offers = catalog.all_offers()
    taken = sound_offers(offers) & (offers.purchase_index == PURCHASE_CODES["on-demand"])
    placeless = ~sound_offers(offers) & ~offers.is_quarantined & np.isfinite(offers.price_usd_per_h)
    assert placeless.any()
    least: dict[str, float] = {}
    for row in np.flatnonzero(taken).tolist():
        server = int(offers.server_index[row])
        name = f"{offers.servers.provider[server]}/{offers.servers.instance_type[server]}"
        least[name] = min(least.get(name, math.inf), float(offers.price_usd_per_h[row]))
    page = catalog_page("servers", Question(count=100_000), "en", catalog=catalog)
    shown = {str(record["server"]): float(record["price_from"]) for record in page.table.records}
    assert {name: price for name, price in shown.items() if math.isfinite(price)} == {name: least[name] for name in shown if name in least}
