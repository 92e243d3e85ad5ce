"""A reader gets from the front page to the answer of each of their questions in two clicks."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUESTIONS: dict[str, list[str]] = tomllib.loads((ROOT / "tests/data/reader_questions.toml").read_text("utf-8"))["pages"]
LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)")
CLICKS = 2


def linked(page: Path) -> set[Path]:
    """Pages of the checkout that a page links to."""
    found = {Path(os.path.normpath(page.parent / link)) for link in LINK.findall(page.read_text(encoding="utf-8"))}
    return {target for target in found if target.exists()}


def within(start: Path, clicks: int) -> set[Path]:
    """Pages that so many clicks reach."""
    reached = last = {start}
    for _ in range(clicks):
        last = {target for page in last for target in linked(page)} - reached
        reached = reached | last
    return reached


def test_each_question_is_answered_two_clicks_from_the_front_page() -> None:
    assert len(QUESTIONS) >= 40
    reached = within(ROOT / "README.md", CLICKS)
    far = [question for question, (page, _) in QUESTIONS.items() if ROOT / page not in reached]
    silent = [
        question for question, (page, words) in QUESTIONS.items() if words.casefold() not in (ROOT / page).read_text("utf-8").casefold()
    ]
    assert far == [], "no way in two clicks"
    assert silent == [], "the page does not answer it"
    assert (ROOT / "docs/concepts/money.md") not in within(ROOT / "docs/decisions/test-suite.md", 1)  # a page is not reached from anywhere
