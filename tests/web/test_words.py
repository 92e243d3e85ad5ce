"""Every word of the page is there in both languages, and is used."""

from __future__ import annotations

import re
import string
from pathlib import Path

import rightfit.web
from rightfit import facts
from rightfit.planner.typical import kinds
from rightfit.web.catalog_pages import TASKS
from rightfit.web.forms import MAIN, TABS, WISHES, example_of, main_options, more_options
from rightfit.web.words import choice_name, on_page, option_name, word, words
from rightfit.workload.options import OPTIONS, read_wish

ROOM = Path(rightfit.web.__file__).parent
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in ROOM.glob("*.py"))


def _fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_have_every_word_with_the_same_fields() -> None:
    for section, entries in words().items():
        for name, entry in entries.items():
            assert set(entry) == {"en", "zh"}, f"{section}.{name}"
            assert all(entry.values()), f"{section}.{name}"
            assert _fields(entry["en"]) == _fields(entry["zh"]), f"{section}.{name}"


def test_chinese_words_are_chinese() -> None:
    plain = {"model", "LoRA", "vCPU", "en", "other_language", "other_language_label", "for_example", "named"}
    for section, entries in words().items():
        for name, entry in entries.items():
            if name not in plain:
                assert re.search(r"[\u4e00-\u9fff]", entry["zh"]), f"{section}.{name}"


def test_every_word_that_is_asked_for_exists() -> None:
    for section, name in re.findall(
        r'"(page|ask|result|measure|fleet|chart|tab|catalog|thing|guide|fit|book|accuracy|rules|report|about|error)\.([a-z_]+)"',
        re.sub(r'"[a-z_]+\.(md|js|json)"', "", SOURCES),
    ):
        assert name in words()[section], f"{section}.{name}"


def test_every_word_is_asked_for() -> None:
    made = {f"tab.{name}" for name in TABS} | {f"fit.task_{name or 'all'}" for name in TASKS}
    made |= {f"book.example_{name}" for name in ("discount", "server", "price")}
    made |= {"chart.scale_speed", "chart.scale_capacity", "chart.scale_money"}
    made |= {f"guide.kind_{kind}" for kind in kinds()}
    made |= {f"about.{name}" for name in words()["about"]} | {f"accuracy.{name}" for name in ("errors", "intervals", "fits", "left")}
    made |= {
        f"page.{name}"
        for name in ("plan", "guide", "measure", "fleet", "fit", "book", "server", "card", "catalog", "accuracy", "rules", "about")
    } | {f"catalog.{name}" for name in ("servers", "prices", "accelerators", "models", "previous", "next")}
    made |= {f"measure.{step}{end}" for step in ("question", "trial", "record", "advice") for end in ("", "_note", "_none")}
    for section in (
        "page",
        "ask",
        "result",
        "measure",
        "fleet",
        "chart",
        "tab",
        "catalog",
        "thing",
        "fit",
        "accuracy",
        "rules",
        "report",
        "error",
    ):
        for name in words()[section]:
            assert f'"{section}.{name}"' in SOURCES or f"{section}.{name}" in made, f"{section}.{name} is not used"


def test_every_option_has_a_name_and_a_place() -> None:
    assert set(words()["option"]) == set(WISHES)
    for task in (*MAIN, ""):
        assert sorted((*main_options(task), *more_options(task))) == sorted(WISHES)


def test_examples_of_values_can_be_read_and_are_chinese_on_the_chinese_page() -> None:
    for name, entry in words()["value"].items():
        same = (
            (facts.model(text).name for text in (entry["en"], OPTIONS[name].example))
            if name == "model"
            else (entry["en"], OPTIONS[name].example)
        )
        assert len(set(same)) == 1, name  # a model by its short name: the field is narrow
        assert read_wish(name, entry["zh"]).keys() == read_wish(name, entry["en"]).keys()
    units = {"duration", "money", "data", "rate"}
    shown = {name: example_of(OPTIONS[name], "zh") for name in (*MAIN, *WISHES) if name in OPTIONS and OPTIONS[name].kind in units}
    assert [name for name, value in shown.items() if not re.search(r"[\u4e00-\u9fff]", value)] == []


def test_names_fall_back_to_the_technical_word() -> None:
    assert option_name("users", "zh") == "同时在线用户"
    assert choice_name("optimizer", "adamw", "zh") == "adamw"
    assert choice_name("task", "serve", "zh") == "在线推理"
    assert word("result.more", "zh", count=5) == "再显示 5 个"


def test_options_are_called_as_on_the_page() -> None:
    assert on_page("seq_len = 2,048: usual length", "en") == "Sequence length = 2,048: usual length"
    assert on_page("give --seq-len, or --data 50Mtok", "en") == "give “Sequence length”, or “Data” 50Mtok"
    assert on_page("给出 --data", "zh") == "给出 “数据量”"
    assert on_page("Unknown dataset 'x'; run `rightfit datasets` for the list", "en") == "Unknown dataset 'x'"
    assert on_page("made_up = 3: --", "en") == "made_up = 3: --"
