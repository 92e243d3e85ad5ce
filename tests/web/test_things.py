"""A page for each server and card, and the models that fit one's cards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import one, sees, settled, texts, until

from rightfit.explain.messages import label
from rightfit.explain.things import card_thing, server_thing
from rightfit.web.draw import card_address, server_address
from rightfit.web.words import word

LANGS = ["en", "zh"]


def addresses(user: User) -> list[str]:
    """Where the links of the page lead."""
    from nicegui import ElementFilter

    with user:
        return [element.props["href"] for element in ElementFilter() if element.tag == "a"]


@pytest.mark.parametrize("lang", LANGS)
def test_a_server_says_what_it_is_what_it_costs_and_what_fits(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/server?name=aws/g5.12xlarge&lang={lang}")
        await sees(user, label("fit", "largest_serve_16", lang, model="Qwen/Qwen2.5-32B"))  # type: ignore[arg-type]
        shown = texts(user)
        assert {"192 GiB", "AMD EPYC 7R32", "40 Gbit/s", "us-east-1"} <= set(shown)
        assert any(text.startswith("$") for text in shown)
        assert any(text.startswith("20") and text.count("-") == 2 for text in shown)
        assert label("thing", "link_pcie", lang) in shown  # type: ignore[arg-type]
        assert card_address("A10G", lang) in addresses(user)  # type: ignore[arg-type]

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_a_card_says_what_it_costs_by_cloud_and_which_servers_hold_it(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/card?name=a10g&lang={lang}")
        await sees(user, label("fit", "largest_serve_16", lang, model="meta-llama/Llama-3.1-8B"))  # type: ignore[arg-type]
        assert {"600 GB/s", "70 TFLOP/s", "AWS"} <= set(texts(user))
        assert server_address("aws/g5.xlarge", lang) in addresses(user)  # type: ignore[arg-type]

    visit(steps)


@pytest.mark.parametrize(("path", "near"), [("/server?name=aws/g5.xlarg", "g5.xlarge"), ("/card?name=RTX-4091", "RTX-4090")])
@pytest.mark.parametrize("lang", LANGS)
def test_a_name_that_does_not_exist_is_one_line_with_the_nearest(visit: Any, path: str, near: str, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{path}&lang={lang}")
        await sees(user, near)

    visit(steps)


def test_the_least_price_of_a_card_is_that_of_its_servers() -> None:
    from rightfit.market import OfferFilter, open_catalog

    catalog = open_catalog()
    lines = {record["provider"]: record for record in card_thing("H100-SXM-80GB", "en", catalog=catalog).prices.records}
    offers = catalog.offers(OfferFilter(gpus=("H100-SXM-80GB",), providers=("aws",), purchases=("on-demand",)))
    each = offers.price_usd_per_h / offers.servers.num_accelerators[offers.server_index]
    assert lines["AWS"]["on_demand"] == pytest.approx(float(each.min()))
    assert len(lines) > 10


def test_a_server_without_card_and_one_with_a_slice_say_so() -> None:
    from rightfit.market import open_catalog

    catalog = open_catalog()
    plain = server_thing("aws/m7i.xlarge", "en", catalog=catalog)
    assert plain.num_cards == 0
    assert "no accelerator" in plain.lead
    table = catalog.servers(has_accelerator=True)
    row = int(((table.num_accelerators > 0) & (table.num_accelerators < 1)).argmax())
    part = server_thing(f"{table.provider[row]}/{table.instance_type[row]}", "en", catalog=catalog)
    assert label("thing", "slice", "en") in part.remarks


@pytest.mark.parametrize("lang", LANGS)
def test_my_cards_are_chosen_counted_and_narrowed(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/fit?gpu=RTX-4090&lang={lang}")
        await sees(user, label("column", "fit_lora", lang))  # type: ignore[arg-type]
        before = texts(user).count(label("fit", "yes", lang))  # type: ignore[arg-type]
        count = user.find(marker="fit-count")
        count.clear().type("4").trigger("keydown.enter")
        await until(lambda: texts(user).count(label("fit", "yes", lang)) > before)  # type: ignore[arg-type]
        one(user, "fit-task").value = "serve"
        await until(lambda: label("column", "fit_lora", lang) not in texts(user))  # type: ignore[arg-type]
        await sees(user, label("column", "fit_serve_4", lang))  # type: ignore[arg-type]
        count.clear().type("nine").trigger("keydown.enter")
        await sees(user, word("fit.bad_count", lang, most=64))  # type: ignore[arg-type]

    visit(steps)


def test_the_catalog_leads_to_servers_and_cards_and_sorts_by_every_heading(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/catalog?gpu=A10G&lang=en")
        await settled(user, "sort-price")
        assert server_address("aws/g5.xlarge", "en") in addresses(user)
        assert card_address("A10G", "en") in addresses(user)
        user.find(marker="sort-vcpus").click()
        await until(lambda: one(user, "sort-vcpus").parent_slot.parent.props.get("aria-sort") == "ascending")
        user.find(marker="sort-vcpus").click()
        await until(lambda: one(user, "sort-vcpus").parent_slot.parent.props.get("aria-sort") == "descending")
        await asyncio.sleep(0)

    visit(steps)


def test_plans_lead_to_their_server_and_card(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/?model=Llama-3-8B&task=finetune&method=lora&data=1Mtok&gpu=A10G&cloud=aws&lang=en")
        await settled(user, "card-1")
        found = addresses(user)
        assert card_address("A10G", "en") in found
        assert any(address.startswith("/server?name=aws%2Fg5.") for address in found)

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_more_servers_are_a_tab_of_a_plan(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/?model=Llama-3-8B&task=finetune&data=500Mtok&cloud=aws&tab=scale&lang={lang}")
        await sees(user, label("column", "of_ideal", lang), word("chart.scale_money", lang))  # type: ignore[arg-type]
        assert {"100%", "1.00 ×"} <= set(texts(user))

    visit(steps)
