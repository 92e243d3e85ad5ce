"""docs/rules-of-thumb.md holds every rule, in both languages (its figures are written by scripts/write_rules_page.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rightfit.explain.rules import all_rules, post_title

PAGE = (Path(__file__).parents[2] / "docs" / "rules-of-thumb.md").read_text("utf-8")


@pytest.mark.parametrize("name", all_rules())
def test_every_rule_is_on_the_page(name: str) -> None:
    rule = all_rules()[name]
    assert f"\n### {name}\n" in PAGE
    assert f"- {rule.statement['en']}\n- {rule.statement['zh']}\n" in PAGE


def test_the_page_names_no_rule_that_is_gone() -> None:
    assert PAGE.count("\n### ") == len(all_rules())
    assert all(post_title(post, "zh") in PAGE for post in range(5))
