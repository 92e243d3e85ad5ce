"""The way from data and a goal to a model, a server and a place for the data."""

from __future__ import annotations

from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import one, sees, settled, texts, until

from rightfit.planner.typical import kinds
from rightfit.web.guide_page import EXAMPLES, GuideState
from rightfit.web.words import word

LANGS = ["en", "zh"]


def test_the_address_is_the_whole_state() -> None:
    query = {"kind": "images", "goal": "detect defects", "data": "200GB", "budget": "50usd", "lang": "zh", "exec": "x", "model": "7B"}
    state = GuideState.from_query(query, lang="zh")
    assert state.wishes == {"data": "200GB", "budget": "50usd"}
    assert state.address("zh") == "/guide?kind=images&goal=detect+defects&data=200GB&budget=50usd&lang=zh"
    assert GuideState.from_query({"kind": "nonsense"}, lang="en").kind == ""


@pytest.mark.parametrize("lang", LANGS)
def test_data_and_a_goal_give_models_servers_and_a_place(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/guide?lang={lang}")
        user.find(marker="guide-images").click()
        await sees(user, "resnet50", "vit_base_patch16_224", "yolov8m", word("guide.here", lang))  # type: ignore[arg-type]
        assert any(text.startswith("$") for text in texts(user))
        goal = user.find(marker="guide-goal")
        goal.type("detect defects" if lang == "en" else "缺陷检测").trigger("keydown.enter")
        await until(lambda: {"yolov8m", "fasterrcnn_resnet50_fpn"} <= set(texts(user)) and "resnet50" not in texts(user))
        user.find(marker="field-data").clear().type("5TB").trigger("keydown.enter")
        await until(lambda: any("5 TB" in text for text in texts(user)))
        user.find(marker="field-data").clear().type("potato").trigger("keydown.enter")
        await until(lambda: bool(one(user, "field-data").props.get("error-message")))

    visit(steps)


@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_every_example_is_answered(visit: Any, kind: str) -> None:
    async def steps(user: User) -> None:
        await user.open("/guide?lang=en")
        user.find(marker=f"guide-{kind}").click()
        await settled(user, "card-1")

    visit(steps)


def test_words_that_mean_no_model_are_answered_by_the_kinds(visit: Any) -> None:
    assert set(EXAMPLES) <= set(kinds())

    async def steps(user: User) -> None:
        await user.open("/guide?goal=something&lang=zh")
        await sees(user, word("guide.none", "zh"))

    visit(steps)


@pytest.mark.parametrize("lang", LANGS)
def test_a_sentence_without_a_model_leads_here(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/?ask=I+have+200GB+of+images+to+classify&lang={lang}")
        await settled(user, "to-guide")
        address = one(user, "to-guide").props["href"]
        assert address == f"/guide?goal=I+have+200GB+of+images+to+classify&data=200GB&lang={lang}"
        assert "config.json" not in " ".join(texts(user))
        await user.open(address)
        await settled(user, "card-1")

    visit(steps)
