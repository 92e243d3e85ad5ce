"""The recipes of CONTRIBUTING.md are true: each is played in a scratch copy, half and whole
(scripts/play_recipes.py)."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from loaded import load_script

ROOT = Path(__file__).parent.parent


script = load_script("play_recipes")
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE | re.DOTALL))


@pytest.mark.deep
def test_each_recipe_is_true_when_it_is_played() -> None:
    """Half done, the suite names what is missing in a line and fails with no other; whole, it
    passes and the product shows the new thing."""
    untrue = [f"{name}: {line}" for name, line in script.play() if name]
    assert not untrue, "\n".join(untrue)


@pytest.mark.deep
def test_a_recipe_that_is_not_true_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    page = script.RECIPES["page"]
    never_said = dataclasses.replace(page.steps[0], said=("a line that no test says",))
    unfinished = dataclasses.replace(page, steps=(never_said, script.Step(script.nothing)), shows=((("-c", "print(1)"), "2"),))
    monkeypatch.setattr(script, "RECIPES", {"page": unfinished})
    text = "\n".join(line for name, line in script.play() if name)
    assert "after step 1 no test says 'a line that no test says'" in text
    assert (
        "after step 2 tests/test_docs_coverage.py::test_concept_pages_are_in_the_index fails with another line: AssertionError: docs/index.md has no link"
        in text
    )
    assert "`-c print(1)` does not show '2'" in text


@pytest.mark.parametrize("name", script.RECIPES)
def test_each_recipe_is_written_down_with_the_tests_that_judge_it(name: str) -> None:
    recipe = script.RECIPES[name]
    assert recipe.title in SECTIONS, f"CONTRIBUTING.md has no recipe '### {recipe.title}'"
    files = {test.split("::")[0] for test in recipe.tests}
    missing = sorted(file for file in files if file not in SECTIONS[recipe.title])
    assert not missing, f"CONTRIBUTING.md: the recipe '{recipe.title}' does not name {', '.join(missing)}"
    assert not recipe.steps[-1].said
    assert recipe.steps[0].said


def test_each_file_that_a_recipe_names_is_there() -> None:
    for title, text in SECTIONS.items():
        for file in re.findall(r"`((?:src|tests|scripts|docs|validation|changelog\.d)/[\w./-]+)`", text):
            if re.search("TOPIC|TABLE|NAME", file):  # a name that the reader gives
                continue
            assert (ROOT / file).exists(), f"CONTRIBUTING.md: {title} names {file}, which is not there"
