"""Stories: what was understood of a long post leads its answer, and what decides is asked back."""

from __future__ import annotations

import pytest

from rightfit.cli import main
from rightfit.explain.stories import model_lines, story_lines
from rightfit.search.offers import open_priced
from rightfit.workload.ask import understand

#: A story around a wish: {told} says something that has no place in the plan.
STORY = {
    "en": (
        "Long-time lurker here, and sorry for the wall of text. We are a team of people who build a search tool for small libraries, "
        "and the whole thing has to be done before the summer break if possible. {told} {wish} What would you do in our place?"
    ),
    "zh": (
        "各位前辈好，第一次发帖，说得不清楚的地方请多包涵。我们是一个给小图书馆做检索工具的团队，大家平时都在忙各自的项目，"
        "希望暑假之前能把这件事做完，也算是给图书馆的老师们一个交代。{told}{wish}换成你们会怎么做？"
    ),
}
TRAINED = {"en": "We want to fine-tune Mistral 7B with LoRA on 50k samples.", "zh": "想用LoRA微调Qwen2.5-7B，数据5万条。"}
UNTOLD = {"en": "We want to fine-tune Mistral 7B with LoRA.", "zh": "想用LoRA微调Qwen2.5-7B。"}
SERVED = {"en": "We want to serve Mistral 7B to our readers.", "zh": "想部署Qwen2.5-7B给读者用。"}


def _keys(lang: str, wish: str, told: str = "") -> list[str]:
    return [one.key.rpartition(".")[2] for one in understand(STORY[lang].format(told=told, wish=wish)).open]


@pytest.mark.parametrize("lang", STORY)
def test_a_story_whose_facts_have_a_place_asks_nothing(lang: str) -> None:
    assert _keys(lang, TRAINED[lang]) == []


@pytest.mark.parametrize(
    ("lang", "wish", "key"),
    [*((lang, UNTOLD[lang], "open_data") for lang in STORY), *((lang, SERVED[lang], "open_load") for lang in STORY)],
)
def test_an_amount_that_nobody_told_is_asked_for(lang: str, wish: str, key: str) -> None:
    assert _keys(lang, wish)[:1] == [key]


@pytest.mark.parametrize(
    ("lang", "told"),
    [("en", "There are 80k samples in the other folder."), ("zh", "另一个目录里有8万条。")],
)
def test_two_amounts_of_one_kind_are_asked_about(lang: str, told: str) -> None:
    found = understand(STORY[lang].format(told=told, wish=TRAINED[lang]))
    assert [one.key for one in found.open] == ["workload.open_twice"]
    words = set(found.open[0].fields.values())
    assert any("5" in str(one) for one in words)
    assert any("8" in str(one) for one in words)


@pytest.mark.parametrize(("lang", "told"), [("en", "Which model would be right for it?"), ("zh", "用多大的模型合适？")])
def test_who_asks_for_a_model_is_asked_for_it(lang: str, told: str) -> None:
    assert _keys(lang, SERVED[lang], told)[0] == "open_which_model"


@pytest.mark.parametrize(
    ("lang", "told", "piece"),
    [
        ("en", "It must keep 7 warm replicas.", "7 warm"),
        ("zh", "另外还有7个热备。", "7"),
        ("en", "The box is a g5.48xlarge.", "g5.48xlarge"),
    ],
)
def test_what_has_no_place_is_asked_about(lang: str, told: str, piece: str) -> None:
    found = understand(STORY[lang].format(told=told, wish=TRAINED[lang]))
    assert any(piece in str(value) for one in found.open for value in one.fields.values())


@pytest.mark.parametrize("lang", STORY)
def test_a_short_wish_is_never_asked_back(lang: str) -> None:
    found = understand(UNTOLD[lang])
    assert found.open == ()
    assert story_lines(found, found.wishes, "en" if lang == "en" else "zh") == []


def test_the_reading_stands_before_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    post = STORY["en"].format(told="Is it possible on a T4? It must keep 7 warm replicas.", wish=TRAINED["en"])
    assert main(["plan", "--ask", post]) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert lines[0] == "Read from your post:"
    assert any("50k samples" in line for line in lines[:7])
    under = next(at for at, line in enumerate(lines) if line.startswith("Everything below applies only"))
    assert any("7 warm" in line for line in lines[:under])
    assert not any(line.startswith(("Yes", "Rent", "No")) for line in lines[: under + 1])
    assert not any(line.startswith("Yes") for line in lines)
    assert "Understood:" not in told.err


def test_who_asks_for_a_model_gets_several_for_the_load() -> None:
    post = STORY["en"].format(
        told="Which model would be right? A consultant says DeepSeek R1.", wish="It is for 15 people at the same time."
    )
    found = understand(post)
    lines = model_lines(found, found.wishes, open_priced(), "en")
    assert len(lines) == 4
    assert all("per month" in line for line in lines[1:])
    assert model_lines(understand(UNTOLD["en"]), {"task": "serve"}, open_priced(), "en") == []
