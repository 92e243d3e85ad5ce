"""Every command and every option of the command line has its place in the hand-written pages, and
nothing is described that does not exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rightfit.cli.app import build
from rightfit.workload.options import OPTIONS

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "commands"
COMMON = FOLDER / "output.md"
WORKLOAD = FOLDER / "workload.md"
OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")
COMMAND_LINE = re.compile(r"^(?:\$ |    )rightfit (.+)$", re.MULTILINE)
LATER = {"--ask"}
SHELL = {"--install-completion", "--show-completion", "--version"}


def walk(group: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every visible command with its path of names."""
    found = []
    for name, command in group.commands.items():
        if not getattr(command, "hidden", False):
            found += walk(command, (*path, name)) if hasattr(command, "commands") else [((*path, name), command)]
    return found


def english(folder: Path) -> list[Path]:
    """The English pages of a folder; tests/test_twins.py holds their Chinese twins to them."""
    return [page for page in folder.glob("*.md") if not page.name.endswith(".zh.md")]


GROUP: Any = build()
COMMANDS = walk(GROUP)


def page_of(path: tuple[str, ...]) -> Path:
    """The page of a command; those of a group share one."""
    return FOLDER / f"{path[0]}.md"


def described(page: Path) -> set[str]:
    """Options that a page describes: those in a table's first column, or in its usage lines."""
    text = page.read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `-")]
    return {option for cell in cells for option in OPTION.findall(cell)}


def options_of(command: Any) -> set[str]:
    """All names of the visible options of a command."""
    parameters = [parameter for parameter in command.params if parameter.param_type_name == "option" and not parameter.hidden]
    return {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_every_option_of_a_command_is_described(path: tuple[str, ...], command: Any) -> None:
    page = page_of(path)
    text = page.read_text(encoding="utf-8")
    known = (
        described(page) | (described(COMMON) if "output.md" in text else set()) | (described(WORKLOAD) if "workload.md" in text else set())
    )
    known |= set(OPTION.findall(WORKLOAD.read_text(encoding="utf-8"))) if "workload.md" in text else set()
    assert options_of(command) - known == set()


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_a_page_describes_no_option_that_its_commands_lack(path: tuple[str, ...], command: Any) -> None:
    siblings = [options_of(other) for names, other in COMMANDS if names[0] == path[0]]
    assert described(page_of(path)) - set().union(*siblings) == set()


def test_every_command_has_a_page_and_every_page_a_command() -> None:
    pages = {page.stem for page in english(FOLDER)} - {"output", "workload"}
    assert pages == {path[0] for path, _ in COMMANDS}


def test_every_page_is_in_the_index_and_names_its_python_twin() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    for page in english(FOLDER):
        assert f"(commands/{page.name})" in index
    for path, _ in COMMANDS:
        assert "## In Python" in page_of(path).read_text(encoding="utf-8")


def test_the_workload_page_describes_every_option_of_a_workload() -> None:
    named = set(OPTION.findall(WORKLOAD.read_text(encoding="utf-8")))
    assert {"--" + name.replace("_", "-") for name in OPTIONS if name != "model"} <= named


def test_the_output_page_describes_what_every_command_and_the_program_itself_take() -> None:
    shared = set.intersection(*(options_of(command) for _, command in COMMANDS))
    named = set(OPTION.findall(COMMON.read_text(encoding="utf-8")))
    assert shared | SHELL <= named


@pytest.mark.parametrize(
    "page", sorted([*FOLDER.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("README*.md")]), ids=lambda page: page.name
)
def test_commands_on_a_page_exist(page: Path) -> None:
    known = {path for path, _ in COMMANDS}
    for line in COMMAND_LINE.findall(page.read_text(encoding="utf-8")):
        words = tuple(line.split()[:2])
        assert words in known or words[:1] in known, line


def test_concept_pages_are_in_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    missing = [page.name for page in english(ROOT / "docs/concepts") if f"(concepts/{page.name})" not in index]
    assert not missing, f"docs/index.md has no link to concepts/{', concepts/'.join(missing)}"
