"""Documentation that cannot rot: generated pages are current, commands in pages run, links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"^\$ (rightfit .*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")


def test_generated_pages_are_current() -> None:
    result = subprocess.run([sys.executable, ROOT / "scripts/build_docs.py", "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert not missing


def documented_commands() -> list[tuple[str, str]]:
    """(page, command line) for each console line `$ rightfit ...` of the hand-written pages."""
    return [
        (str(page.relative_to(ROOT)), line)
        for page in PAGES
        if "reference" not in page.parts
        for line in COMMAND.findall(page.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("page", "line"), documented_commands())
def test_documented_commands_run(page: str, line: str, tmp_path: Path) -> None:
    words = shlex.split(line, comments=True)[1:]
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"), COLUMNS="100", LANG="C.UTF-8")
    result = subprocess.run(
        [sys.executable, "-m", "rightfit", *words], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert result.returncode in (0, 1), f"{page}: {line}\n{result.stderr}"
    assert result.stdout.strip()
    assert "Traceback" not in result.stderr


def test_readme_first_screen_has_both_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40])
    assert ".venv/bin/rightfit plan meta-llama/Meta-Llama-3-8B" in first_screen
    assert "./scripts/test" in first_screen


def test_ci_runs_exactly_the_test_command_of_the_readme() -> None:
    assert "\n./scripts/test\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")
