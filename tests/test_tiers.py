"""What scripts/test runs: no test file is left out of the quick suite and of every group, groups
name what is there, and what changed chooses its groups."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from loaded import load_script
from quick import is_quick

ROOT = Path(__file__).parents[1]


script = load_script("run_tests")
TABLE = script.read_table()


def unrun(files: list[str], table: dict[str, Any]) -> list[str]:
    """The test files that neither the quick suite nor a group runs."""
    groups = script.read_groups(table)
    left = [file for file in files if file.startswith(tuple(table["quick"]["leaves"]))]
    return [file for file in left if not any(file == test or file.startswith(f"{test}/") for group in groups for test in group.tests)]


def test_every_test_file_is_run() -> None:
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    assert files
    assert unrun(files, TABLE) == []
    assert unrun(files, {**TABLE, "trace": {**TABLE["trace"], "tests": []}}) == [file for file in files if "/oracle/" in file]


def test_every_deep_test_is_run_by_a_group() -> None:
    """A test marked deep runs only where a group asks for it: its file belongs to one."""
    covered = tuple(test for group in script.read_groups(TABLE) if group.marked == "deep" for test in group.tests)
    marking = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if any(word in path.read_text(encoding="utf-8") for word in (".mark." + "deep", "rest_" + "deep("))
    ]
    left = tuple(TABLE["quick"]["leaves"])
    assert [path for path in marking if not path.startswith((*covered, *left))] == []


def test_groups_name_what_is_there() -> None:
    named = {
        f"{group.name}: {path}"
        for group in script.read_groups(TABLE)
        for path in (*group.tests, *group.rooms)
        if not (ROOT / path).exists()
    }
    assert named == set()


def test_what_changed_chooses_its_groups() -> None:
    group = script.Group
    groups = [
        group("a", ("tests/a",), ("src/a", "tests/a"), 5.0),
        group("b", ("tests/b",), ("src/b",), 9.0),
        group("c", ("tests/c",), ("src/c",), 4.0),
    ]
    chosen, left = script.touched(groups, ["src/a/x.py", "src/b/x.py", "src/b/y.py", "docs/index.md"], 10.0)
    assert [one.name for one in chosen] == ["b"], "the group with most of its room changed goes first, and b with a takes over ten minutes"
    assert [one.name for one in left] == ["a"]
    assert script.touched(groups, ["docs/index.md"], 10.0) == ([], [])


def test_a_group_that_fails_fails_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    runner = script.Runner(tmp_path)
    monkeypatch.setattr(runner, "core", lambda: Path(sys.prefix))
    alone = ("-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider")
    groups = {name: script.Group(name, (*alone, str(tmp_path / f"test_{name}.py")), (), 1.0) for name in ("good", "bad")}
    for name, holds in (("good", True), ("bad", False)):
        (tmp_path / f"test_{name}.py").write_text(f"def test_it() -> None:\n    assert {holds}\n", encoding="utf-8")
    assert script.run(["deep", "good"], runner, groups) == 0
    assert script.run(["deep"], runner, groups) == 1
    told = capsys.readouterr().out
    assert "bad" in told
    assert "FAILED" in told
    assert script.run(["deep", "worse"], runner, groups) == 2


def test_a_group_whose_packages_cannot_be_had_is_skipped_loudly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = script.Runner(tmp_path)
    monkeypatch.setattr(runner, "environment", lambda group: None)
    runner.group(script.Group("far", ("tests",), (), 1.0, packages=("no-such-package",)))
    assert runner.told() == 0
    assert "SKIPPED LOUDLY: far" in capsys.readouterr().out


def test_walks_that_are_quick_in_part_are_there() -> None:
    """tests/deep.toml names test functions that exist, in files that a deep group runs."""
    table = tomllib.loads((ROOT / "tests" / "deep.toml").read_text(encoding="utf-8"))
    covered = tuple(test for group in script.read_groups(TABLE) if group.marked == "deep" for test in group.tests)
    faults = []
    for file, walks in table.items():
        text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).exists() else ""
        faults += [f"{file}: {name}" for name in walks if f"def {name}(" not in text]
        faults += [] if file.startswith(covered) else [f"no group runs the rest of {file}"]
    assert table
    assert faults == []


def test_of_a_walk_so_many_cases_are_quick_spread_over_it() -> None:
    assert [at for at in range(9) if is_quick(at, 9, 3)] == [2, 5, 8]
    assert all(
        sum(is_quick(at, length, count) for at in range(length)) == min(count, length) for length in range(1, 70) for count in range(80)
    )


def test_the_newest_releases_are_tried_without_the_list_of_those_we_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a week, by a file of CI; and what fails there fails the job."""
    runner, called = script.Runner(tmp_path), []
    (tmp_path / script.NEWEST.name).mkdir()
    monkeypatch.setattr(runner, "uv", lambda: "uv")
    monkeypatch.setattr(runner, "call", lambda *words, log=None: called.append(words) or (len(called) > 2))
    assert script.run(["newest", "-x"], runner, {}) == 1
    making, installing, testing = called
    assert {"--upgrade", "-e", ".[dev]"} <= set(installing)
    assert not any("constraints" in word or "==" in word for words in called for word in words)
    assert testing[-1] == "-x"
    assert "not deep" in testing
    assert all(path in testing for path in TABLE["quick"]["leaves"])
    weekly = ROOT / ".ci" / "weekly"
    assert os.access(weekly, os.X_OK)
    assert {"./scripts/test deep newest", "./scripts/test newest"} <= {line.partition(" ||")[0] for line in weekly.read_text().splitlines()}
    assert making[1:3] == ("-m", "venv")
