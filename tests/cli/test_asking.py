"""Plain words on the command line: what is shown, what wins, and the questions
when nothing was said."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

import pytest

from rightfit.cli import main
from rightfit.cli.asking import command_line, in_words_of, interview, wishes_of
from rightfit.cli.output import View
from rightfit.errors import InputError
from rightfit.messages import Lang
from rightfit.workload import Workload


def answers(*texts: str) -> tuple[Callable[[str], str], list[str]]:
    """A person with prepared answers, and what was asked."""
    asked: list[str] = []
    waiting: Iterator[str] = iter(texts)

    def ask(question: str) -> str:
        asked.append(question)
        return next(waiting)

    return ask, asked


def test_what_was_understood_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    wishes = wishes_of("fine-tune Llama-3-8B with LoRA on 50k samples within 2 days on 2 x A100", {}, View())
    assert Workload(**wishes).deadline_s == 2 * 86_400
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Understood:" in shown.err
    assert "data = 50k samples" in shown.err
    assert "num_gpus = 2 ('2 x')" in shown.err
    assert "rightfit plan Llama-3-8B" in shown.err


def test_options_beside_the_sentence_win() -> None:
    wishes = wishes_of("微调 Llama-3-8B,10 万条数据,三天内完成", {"deadline": "1h", "model": None}, View(lang="zh", quiet=True))
    assert Workload(**wishes).deadline_s == 3_600
    assert Workload(**wishes).data_samples == 100_000


def test_a_sentence_without_a_model_is_one_line() -> None:
    with pytest.raises(InputError, match="no known model") as error:
        wishes_of("please make me a cup of tea", {}, View(quiet=True))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("sentence", "lang"), [("cheapest A100 80GB in Europe", "en"), ("欧洲最便宜的A100 80GB", "zh")])
def test_a_question_about_cards_alone_is_sent_to_the_prices(sentence: str, lang: Lang, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as error:
        wishes_of(sentence, {}, View(quiet=True))
    command = error.value.text(lang).rpartition("rightfit ")[2].strip()
    assert main(shlex.split(command)) == 0
    assert "A100" in capsys.readouterr().out


def test_the_command_says_the_same() -> None:
    wishes = {"model": "Llama-3-8B", "task": "serve", "rate": "10/s", "budget": "500 元"}
    assert command_line(wishes) == "rightfit plan Llama-3-8B --task serve --rate 10/s --budget '500 元'"


def test_questions_are_asked_until_they_can_be_answered() -> None:
    ask, asked = answers("", "", "Llama-3-8B", "serv me", "serve", "fast", "10/s", "", "$500/month")
    wishes = interview(View(quiet=True), ask=ask)
    assert wishes == {"model": "Llama-3-8B", "task": "serve", "rate": "10/s", "budget": "$500/month"}
    assert any("a value is required" in question for question in asked)
    assert any("did you mean serve" in question for question in asked)


def test_a_sentence_answers_everything() -> None:
    ask, asked = answers("qlora of a 70B model on 10k examples")
    assert interview(View(quiet=True), ask=ask)["method"] == "qlora"
    assert len(asked) == 1


def test_a_chinese_sentence_is_answered_in_chinese_unless_a_language_was_given() -> None:
    assert in_words_of("微调 7B", View()).lang == "zh"
    assert in_words_of("微调 7B", View(is_lang_given=True)).lang == "en"
    assert in_words_of("fine-tune a 7B", View()).lang == "en"
    assert in_words_of(None, View()).lang == "en"
