"""Every test file outside the core is run by a group of scripts/test: one that no group names would never run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = (ROOT / "scripts/test").read_text(encoding="utf-8")
#: How the script names the files of a folder, and folders and files that it names in full.
SHORT = {"tests/exporters": "in_folder", "tests/faces": "of_faces"}


def is_run(file: Path, script: str) -> bool:
    """Whether a group of the script runs a test file."""
    path = file.relative_to(ROOT)
    folder = path.parent.as_posix()
    if folder in SHORT:
        lists = re.findall(rf"\$\({SHORT[folder]} ([^)]*)\)", script)
        return any(path.stem.removeprefix("test_") in names.split() for names in lists)
    ignored = [word for word in re.findall(r"--ignore (\S+)", script) if path.as_posix().startswith(word)]
    return not ignored or any(re.search(rf"(?<!--ignore ){re.escape(word)}(?!\S)", script) for word in ignored)


def test_a_group_runs_every_file() -> None:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert files
    assert not [file.relative_to(ROOT).as_posix() for file in files if not is_run(file, SCRIPT)]


def test_a_file_that_no_group_names_is_found() -> None:
    assert not is_run(ROOT / "tests/faces/test_page.py", SCRIPT.replace(" page ", " ").replace("of_faces page", "of_faces"))
    assert not is_run(ROOT / "tests/oracle/test_traced_live.py", SCRIPT.replace("ignore tests/oracle\n", "ignore\n"))
