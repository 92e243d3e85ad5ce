"""Every target has its page, whose example is what the target writes, and its row in
the table of checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from loaded import load_script

from rightfit.exports import all_targets

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "commands" / "export.md"


pages = load_script("write_export_pages")


@pytest.mark.parametrize("name", list(all_targets()))
def test_every_target_has_a_page(name: str) -> None:
    has_page = pages.page_of(all_targets()[name]).exists()
    assert has_page, f"there is no docs/exports/{name}.md; run scripts/write_export_pages.py {name} and write its prose"


@pytest.mark.parametrize("name", list(all_targets()))
def test_the_page_shows_what_the_target_writes(name: str) -> None:
    before, after = pages.current(all_targets()[name])
    assert before == after, f"docs/exports/{name}.md is behind; run scripts/write_export_pages.py {name}"
    assert "<!-- plans -->" in before
    assert "<!-- example: " in before


def test_no_page_is_left_of_a_target_that_is_gone() -> None:
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == set(all_targets())


@pytest.mark.parametrize("name", list(all_targets()))
def test_the_table_says_what_checks_it(name: str) -> None:
    rows = [line.split("|")[1] for line in INDEX.read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
    linked = {link for row in rows for link in re.findall(r"\[([\w-]+)\]\(\.\./exports/\1\.md\)", row)}
    assert name in linked, f"docs/commands/export.md has no row [{name}](../exports/{name}.md) in its table of checks"


def test_a_page_that_is_behind_is_found() -> None:
    target = all_targets()["skypilot"]
    text = '<!-- example: qlora-8b task.yaml "managed-by: rightfit" 1 -->\nold\n<!-- end -->\n'
    assert pages.refreshed(text, target).splitlines()[1:3] == ["```yaml", "    managed-by: rightfit"]
    with pytest.raises(SystemExit, match=r"writes no x\.yaml"):
        pages.refreshed(text.replace("task.yaml", "x.yaml"), target)
