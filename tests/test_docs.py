"""Documentation that cannot rot: generated pages are current, examples do and print what their pages say, links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from loaded import load_script

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")


examples = load_script("docs_examples")
PAGES = examples.pages()
WITH_EXAMPLES = [
    page for page in PAGES if re.search(r"^(\$ rightfit|```python|<!-- accuracy)", page.read_text(encoding="utf-8"), re.MULTILINE)
]


def name_of(page: Path) -> str:
    """The page as shown by pytest."""
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def store() -> None:
    """The price store, built before an example could remark on it."""
    from rightfit.catalog import open_catalog

    open_catalog()


def test_generated_pages_are_current() -> None:
    result = subprocess.run([sys.executable, ROOT / "scripts/build_docs.py", "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_links_lead_somewhere() -> None:
    assert PAGES
    found = [(page, link) for page in PAGES for link in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [f"{name_of(page)}: {link}" for page, link in found if not (page.parent / link).exists()] == []


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_examples_run_and_print_what_the_page_says(page: Path) -> None:
    before, after = examples.refresh_page(page)
    assert after == before, f"{name_of(page)} is behind; run scripts/docs_examples.py {name_of(page)}"


def test_every_command_page_shows_an_example() -> None:
    pages = [page for page in (ROOT / "docs/commands").glob("*.md") if page.name not in ("output.md", "output.zh.md")]
    assert len(pages) >= 13
    assert [page.name for page in pages if "$ rightfit" not in page.read_text(encoding="utf-8")] == []


def test_a_failing_example_is_noticed(tmp_path: Path) -> None:
    session = examples.Session(tmp_path)
    with pytest.raises(examples.ExampleError, match="exits with 2, not 0"):
        examples.refreshed("```console\n$ rightfit plan\n```\n", session)
    with pytest.raises(examples.ExampleError, match="no line of the output holds"):
        examples.refreshed('<!-- excerpt: "nowhere" -->\n```console\n$ rightfit datasets alpaca\n```\n', session)


def test_excerpts_take_lines_by_number_and_by_text() -> None:
    printed = "a\nb\n\nc\nd\ne\n"
    assert examples.excerpt(printed, "all") == ["a", "b", "", "c", "d", "e"]
    assert examples.excerpt(printed, '1-1; "c" 2') == ["a", "...", "c", "d", "..."]
    assert examples.excerpt(printed, '"c"') == ["c", "d", "e"]
    assert examples.excerpt("more advice\nadvice\nx\n", '"^advice"') == ["advice", "x"]


def test_readme_first_screen_has_both_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40])
    assert ".venv/bin/rightfit plan meta-llama/Meta-Llama-3-8B" in first_screen
    assert "./scripts/test" in first_screen


def test_readme_first_command_runs_as_a_process(tmp_path: Path) -> None:
    line = next(line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("python3 -m venv"))
    words = shlex.split(line)
    command = words[words.index(".venv/bin/rightfit") + 1 :]
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"), COLUMNS="100", LANG="C.UTF-8")
    result = subprocess.run(
        [sys.executable, "-m", "rightfit", *command], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Rent ")


def test_ci_runs_exactly_the_test_command_of_the_readme() -> None:
    assert "\n./scripts/test\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")
