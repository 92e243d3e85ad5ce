"""The planning page as people use it, in both languages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import one, sees, settled, texts, until

import rightfit
from rightfit.explain.cards import option_card
from rightfit.explain.messages import label
from rightfit.web.plan_page import _SENTENCE_END
from rightfit.web.words import word, words

LORA = "/?model=Llama-3-8B&task=finetune&method=lora&data=50k+samples"
WISHES = {"model": "Llama-3-8B", "task": "finetune", "method": "lora", "data": "50k samples"}
LANGS = ["en", "zh"]


@pytest.fixture(scope="module")
def best() -> Any:
    """The plan that the page must show."""
    return rightfit.plan(**WISHES, top=8)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("example", list(words()["example"]))
def test_every_example_is_understood_whole_and_planned(visit: Any, lang: str, example: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/?lang={lang}")
        user.find(marker=f"example-{example}").click()
        await settled(user, "card-1")
        await sees(user, word("ask.read", lang))
        assert word("ask.unused", lang) not in texts(user)

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_the_cards_say_what_the_library_says(visit: Any, lang: str, best: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang={lang}")
        await settled(user, "card-3")
        shown = texts(user)
        for option in best.options[:3]:
            card = option_card(option, best.workload, lang)
            for fact in (card.money, card.time, *card.facts):
                assert fact.value in shown
            assert card.server in shown
            assert card.confidence_text in shown

    visit(steps)


def test_a_word_that_no_option_holds_stops_the_sentence(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/?lang=en")
        user.find(marker="sentence").type("fine-tune Llama-3-8B with LoRA on 50k samples on Blue Moon").trigger("keydown.enter")
        await sees(user, "Model: Llama-3-8B", "Blue Moon", "matches no option")
        assert one(user, "field-model").value == "Llama-3-8B"

    visit(steps)


def test_questions_beside_a_wish_and_without_one_are_answered(visit: Any) -> None:
    async def steps(user: Any) -> None:
        await user.open("/?lang=zh")
        user.find(marker="sentence").type("微调LLaMA-2-13B要不要NVLink多卡").trigger("keydown.enter")
        await user.should_see("要不要NVLink多卡：不需要", retries=80)
        user.find(marker="sentence").clear().type("哪些云有H100").trigger("keydown.enter")
        await user.should_see("以云厂商控制台为准", retries=80)

    visit(steps)


def test_a_sentence_shows_what_was_read_and_what_was_not(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/?lang=en")
        user.find(marker="sentence").type("fine-tune Llama-3-8B with LoRA on 50k samples, wisely").trigger("keydown.enter")
        await settled(user, "card-1")
        await sees(user, "Model: Llama-3-8B", "Method: LoRA", "Not used", "wisely")
        assert one(user, "field-model").value == "Llama-3-8B"
        assert one(user, "field-data").value == "50k samples"

    visit(steps)


def test_a_field_that_changes_plans_again(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang=en")
        await settled(user, "card-1")
        one(user, "field-purchase").value = ["on-demand"]
        await asyncio.sleep(0.1)
        expected = rightfit.plan(**WISHES, purchase="on-demand", top=8)
        assert expected.best is not None
        await sees(user, option_card(expected.best, expected.workload, "en").money.value)

    visit(steps)


@pytest.mark.parametrize("event", ["change", "keydown.enter"])
def test_a_line_that_is_typed_plans_again(visit: Any, event: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang=en")
        await settled(user, "card-1")
        user.find(marker="field-data").clear().type("31Mtok").trigger(event)
        expected = rightfit.plan(**{**WISHES, "data": "31Mtok"}, top=8)
        assert expected.best is not None
        await sees(user, option_card(expected.best, expected.workload, "en").money.value)

    visit(steps)


def test_the_task_decides_which_fields_are_shown(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/?lang=en&task=serve&model=Qwen2.5-7B&users=20")
        await settled(user, "card-1")
        await user.should_see(marker="field-ttft")
        await user.should_not_see(marker="field-method")
        user.find(marker="more-options").click()
        await user.should_see(marker="field-office_hours", retries=20)
        await user.should_not_see(marker="field-trace")

    visit(steps)


TABS = {
    "why": ["tab.ask_server"],
    "breakdown": [],
    "change": ["tab.knobs", "tab.now", "tab.then"],
    "buying": ["chart.break_even"],
    "regions": [],
    "compare": [],
    "export": ["tab.bundle", "tab.copy"],
}


@pytest.mark.parametrize("lang", LANGS)
def test_every_tab_opens(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang={lang}&compare=1,2")
        await settled(user, "tab-why")
        for tab, keys in TABS.items():
            user.find(marker=f"tab-{tab}").click()
            await sees(user, *(word(key, lang) for key in keys))
            assert one(user, f"tab-{tab}").props["aria-selected"] == "true"
            assert word("tab.no_prices", lang) not in texts(user)

    visit(steps)


def test_compare_puts_plans_side_by_side_and_stops_at_four(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang=en&tab=compare")
        await sees(user, word("tab.compare_none", "en"))
        user.find(marker="more-plans").click()
        await settled(user, "compare-5")
        for rank in (1, 2, 3, 4):
            user.find(marker=f"compare-{rank}").trigger("change", True)
        await until(lambda: sum(text[:3] in ("1. ", "2. ", "3. ", "4. ") for text in texts(user)) == 4)
        user.find(marker="compare-5").trigger("change", True)
        assert user.notify.contains(word("tab.compare_most", "en"))

    visit(steps)


def test_a_knob_that_is_turned_plans_again_without_touching_the_page(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang=en&tab=change")
        await settled(user, "knob-deadline")
        slider = one(user, "knob-deadline")
        slider.value = 1
        await asyncio.sleep(0.2)
        expected = rightfit.plan(**WISHES, deadline="2.61h", top=8)
        assert expected.best is not None
        await sees(user, option_card(expected.best, expected.workload, "en").money.value)
        assert one(user, "field-deadline").value == ""
        user.find(marker="knobs-apply").click()
        await until(lambda: bool(one(user, "field-deadline").value))

    visit(steps)


def test_another_plan_can_be_opened(visit: Any, best: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang=en")
        await settled(user, "open-2")
        user.find(marker="open-2").click()
        await asyncio.sleep(0.1)
        assert one(user, "open-2").props["aria-pressed"] == "true"
        server = option_card(best.options[1], best.workload, "en").server
        assert texts(user).count(server) == 2  # the card and the heading over the tabs

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_any_server_can_be_asked_about(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang={lang}")
        await settled(user, "ask-server")
        user.find(marker="ask-server").type("aws/g5.xlarge")
        user.find(marker="ask-server-button").click()
        await settled(user, "close-dialog")
        assert any("aws/g5.xlarge" in text for text in texts(user))

    visit(steps)


def test_an_unknown_server_is_a_line_not_a_failure(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{LORA}&lang=en")
        await settled(user, "ask-server")
        user.find(marker="ask-server").type("aws/g5.xlargest")
        user.find(marker="ask-server-button").click()
        for _ in range(50):
            await asyncio.sleep(0.1)
            if user.notify.messages:
                break
        assert any("g5.xlarge" in message for message in user.notify.messages)

    visit(steps)


def test_the_chart_has_a_point_for_every_feasible_offer(visit: Any) -> None:
    from rightfit.planner.plan import market_field

    async def steps(user: User) -> None:
        from nicegui import ui

        await user.open(f"{LORA}&lang=en&cloud=aws")
        await user.should_see(kind=ui.echart, retries=80)
        (chart,) = user.find(kind=ui.echart).elements
        field = market_field(rightfit.Workload(**WISHES, cloud="aws"))
        points = sum(len(series["data"]) for series in chart.options["series"] if series["name"] == "AWS")
        assert points == len(field) > 100
        user.find(marker="cloud-aws").click()
        assert one(user, "cloud-aws").props["aria-pressed"] == "false"

    visit(steps)


def test_every_cloud_of_the_chart_looks_different_and_the_best_have_the_first_colours(visit: Any) -> None:
    from rightfit.planner.plan import market_field
    from rightfit.web.charts import clouds_of, colour_of, mark_of

    workload = rightfit.Workload(**WISHES, sellers="all")
    field, plan = market_field(workload), rightfit.plan(workload)
    clouds = clouds_of(field, plan)
    assert len(clouds) > 6
    assert clouds[0] == plan.options[0].provider
    assert len({(colour_of(at), mark_of(at)) for at in range(len(clouds))}) == len(clouds)
    assert sorted(clouds) == sorted(set(field.provider))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("wish", [LORA, "/?model=Qwen2.5-7B&task=serve&users=20", "/?model=resnet50&task=train&data=imagenet"])
def test_the_answer_comes_first_in_few_lines(visit: Any, wish: str, lang: str) -> None:
    from urllib.parse import parse_qs, urlsplit

    from nicegui import ElementFilter

    from rightfit.explain.sheets import short_sheet

    async def steps(user: User) -> None:
        await user.open(f"{wish}&lang={lang}")
        await settled(user, "card-1")
        with user:
            (around,) = [element for element in ElementFilter() if "answer" in element.classes]
            said = [found.text for found in around.descendants() if getattr(found, "text", "")]
            shown = [found.text for found in ElementFilter() if getattr(found, "text", "")]
        assert 2 <= len(said) <= 15
        wishes = {name: values[0] for name, values in parse_qs(urlsplit(wish).query).items()}
        headline = next(part for part in short_sheet(rightfit.plan(**wishes), lang) if not isinstance(part, str)).headline  # type: ignore[arg-type, union-attr]
        rent, *expected = _SENTENCE_END.sub("\n", headline, count=1).split("\n")
        assert {rent, *expected} <= set(said)
        assert shown.count(rent) == 1  # the tab below does not repeat it
        assert any("level" in found.classes for found in around.descendants())
        (caution,) = [text for text in said if text.startswith(label("section", "warnings", lang))]
        assert sum(text and text in caution and len(text) > 20 for text in shown) == 1  # nor the caution
        assert not any("--" in text or "rightfit " in text for text in said)

    visit(steps)
