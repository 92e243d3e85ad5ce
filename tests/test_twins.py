"""A Chinese page has the same headings, blocks and commands as its English twin, so that a reader
may switch at any point."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TWINS = sorted([*ROOT.glob("*.zh.md"), *(ROOT / "docs").rglob("*.zh.md")])
NEEDED = ("index", "tutorial", "faq", "comparison", "scenarios", "notebook", "web", "tasks/index", "concepts/intervals", "concepts/money")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
COMMAND = re.compile(r"^\$ (rightfit .*)$", re.MULTILINE)
HAN = re.compile(r"[\u4e00-\u9fff]")
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def name_of(page: Path) -> str:
    """As shown by pytest."""
    return str(page.relative_to(ROOT))


def english(page: Path) -> str:
    """The text of the English twin."""
    return page.with_name(page.name.replace(".zh.md", ".md")).read_text(encoding="utf-8")


def without_blocks(text: str) -> str:
    """A page without its blocks of code, whose comments look like headings."""
    return FENCE.sub("", text)


def test_the_pages_that_most_readers_need_have_a_twin() -> None:
    missing = [name for name in NEEDED if ROOT / "docs" / f"{name}.zh.md" not in TWINS]
    assert missing == []
    assert ROOT / "README.zh.md" in TWINS


@pytest.mark.parametrize("page", TWINS, ids=name_of)
def test_headings_and_blocks_are_those_of_the_english_page(page: Path) -> None:
    if page.name == "README.zh.md":  # has a block more, on input in Chinese; tests/test_docs_figures.py compares its sections
        return
    mine, theirs = page.read_text(encoding="utf-8"), english(page)
    assert HEADING.findall(without_blocks(mine)) == HEADING.findall(without_blocks(theirs))
    assert [language for language, _ in FENCE.findall(mine)] == [language for language, _ in FENCE.findall(theirs)]
    commands = [[" ".join(line.replace("--lang zh", "").split()) for line in COMMAND.findall(text)] for text in (mine, theirs)]
    assert commands[0] == commands[1]
    sources = [
        [body for language, body in FENCE.findall(text) if language in ("python", "csv", "yaml", "toml", "sh")] for text in (mine, theirs)
    ]
    assert sources[0] == sources[1]


@pytest.mark.parametrize("page", TWINS, ids=name_of)
def test_a_twin_is_in_chinese_and_links_to_twins_where_there_are_some(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    paragraphs = [
        part
        for part in without_blocks(text).split("\n\n")
        if len(re.findall(r"[A-Za-z]{3,}", part)) > 12 and not part.startswith(("|", "<!--", "    "))
    ]
    assert [part for part in paragraphs if not HAN.search(part)] == []
    if page.name == "README.zh.md":
        return
    links = [link for link in LINK.findall(text) if link.endswith(".md") and not link.endswith(".zh.md")]
    itself = page.name.replace(".zh.md", ".md")
    wrong = [link for link in links if link != itself and (page.parent / link.replace(".md", ".zh.md")) in TWINS]
    assert wrong == []
