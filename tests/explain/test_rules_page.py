"""docs/rules-of-thumb.md holds every rule, in both languages (its figures are written by
scripts/write_rules_page.py)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rightfit.explain.rules import post_title, rule_by_id, rule_names

PAGE = (Path(__file__).parents[2] / "docs" / "rules-of-thumb.md").read_text("utf-8")


@pytest.mark.parametrize("name", rule_names())
def test_every_rule_is_on_the_page(name: str) -> None:
    rule = rule_by_id(name)
    assert f"\n### {name}\n" in PAGE, f"docs/rules-of-thumb.md lacks {name}; run scripts/write_rules_page.py {name}"
    said = f"- {rule.statement['en']}\n- {rule.statement['zh']}\n"
    assert said in PAGE, f"docs/rules-of-thumb.md words {name} otherwise; run scripts/write_rules_page.py {name}"


def test_the_page_names_no_rule_that_is_gone() -> None:
    gone = set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)) - set(rule_names())
    assert not gone, f"docs/rules-of-thumb.md still has {', '.join(sorted(gone))}; run scripts/write_rules_page.py"
    assert all(post_title(post, "zh") in PAGE for post in range(5))
