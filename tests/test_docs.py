"""Documentation that cannot rot: generated pages are current, examples do and print what their
pages say, links lead somewhere."""

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
    from rightfit.market import open_catalog

    open_catalog()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pages that scripts/build_docs.py makes, made once."""
    out = tmp_path_factory.mktemp("made")
    (out / "docs/reference").mkdir(parents=True)
    (out / "docs/reference/of-an-older-run.md").touch()
    command = [sys.executable, ROOT / "scripts/build_docs.py", "--out", out]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return out


def test_the_reference_is_made_from_code(made: Path) -> None:
    pages = {path.relative_to(made / "docs/reference").as_posix(): path.read_text(encoding="utf-8") for path in made.rglob("*.md")}
    assert {"commands.md", "python.md", "rest.md", "schema.md", "coefficients.md", "physics/index.md"} <= set(pages)
    assert "of-an-older-run.md" not in pages
    assert [name for name, text in pages.items() if not re.search(r"^# .+$", text, re.MULTILINE)] == []
    for name, words in {
        "commands.md": "## rightfit plan\n",
        "python.md": "## rightfit.plan\n",
        "rest.md": "/api/v1/plan",
        "schema.md": "## plan.schema.json\n",
        "physics/transformer.md": "```python\n",
    }.items():
        assert words in pages[name], name
    modules = {path.stem for path in (ROOT / "src/rightfit/physics").glob("*.py") if path.stem != "__init__"}
    assert [name for name in modules if f"physics/{name}.md" not in pages] == []


def test_pages_that_are_made_are_not_kept() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert [name for name in examples.MADE if name not in ignored] == []


def test_links_lead_somewhere(made: Path) -> None:
    """To a page or file of the checkout, to a page that build_docs makes, or to the report of
    accuracy, which `rightfit validate --write` makes."""
    assert PAGES
    pages = {path.relative_to(made) for path in made.rglob("*")} | {Path("docs/accuracy.md"), Path("docs/accuracy/kernels.md")}

    def leads(page: Path, link: str) -> bool:
        target = Path(os.path.normpath(page.parent / link))
        if target.is_relative_to(ROOT) and examples.is_made(target):
            return target.relative_to(ROOT) in pages
        return target.exists()

    found = [(page, link) for page in PAGES for link in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [f"{name_of(page)}: {link}" for page, link in found if not leads(page, link)] == []
    assert not leads(ROOT / "docs/index.md", "reference/nowhere.md")


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


def test_readmes_are_short_and_draw_the_answer_that_they_print() -> None:
    for page, picture in examples.PICTURES.items():
        text = page.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 90
        assert f"]({picture.relative_to(ROOT).as_posix()})" in text
        assert picture.read_text(encoding="utf-8") == examples.drawn(text), "run scripts/docs_examples.py"


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
