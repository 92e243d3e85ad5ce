"""docs/scenarios.md and its Chinese twin hold every recommendation, and say of some of them today
what the program says (scripts/docs writes all)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loaded import load_module

from rightfit.messages import LANGS, Lang

ROOT = Path(__file__).parent.parent
SCENARIOS: list[dict[str, Any]] = tomllib.loads((ROOT / "tests/data/scenarios.toml").read_text("utf-8"))["scenario"]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that writes the pages."""
    return load_module(ROOT / "scripts/write_scenarios_page.py")


@pytest.mark.parametrize("lang", LANGS)
def test_every_recommendation_has_its_section_in_its_words(script: ModuleType, lang: Lang) -> None:
    text = (ROOT / script.PAGES[lang]).read_text("utf-8")
    assert text.count("\n### ") == len(SCENARIOS)
    for scenario in SCENARIOS:
        section = text.partition(f"\n### {scenario['id']}\n")[2].partition("\n###")[0]
        assert scenario["says"] in section
        assert all(f"`{pick}`" in section for pick in scenario.get("pick", ()))
    assert str(len(SCENARIOS)) in text.partition("\n## ")[2].partition("\n## ")[0]


@pytest.mark.parametrize("number", [0, 5, len(SCENARIOS) // 2, len(SCENARIOS) - 1])
def test_a_section_is_what_the_program_says(script: ModuleType, number: int) -> None:
    trial = script.Trial(SCENARIOS[number])
    for lang in LANGS:
        assert "\n".join(trial.lines(lang)) in (ROOT / script.PAGES[lang]).read_text("utf-8"), "run scripts/docs"
