"""Export and launch, killed (SIGKILL) before each of their steps in turn, and on a disk without
room: nothing half-written passes for whole, and a second try works."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand_in_tools import put_on_the_path
from typical_plans import plan_values

import rightfit
from rightfit.cli import main
from rightfit.exports import files_of, job_of, plan_document, write_files
from rightfit.exports.launching import BEGUN, DRAFTS, MARK

# `rightfit` with every call counted that changes the disk or starts a program; before the call of
# the number it kills itself. Its last line tells how many there were.
KILLED = """
import os, pathlib, shutil, signal, subprocess, sys
from rightfit.cli import main
at, steps = int(sys.argv[1]), [0]
def counted(owner, name):
    plain = getattr(owner, name)
    def step(*given, **named):
        if given and ".rightfit-" in repr(given) + str(named) or OUT in repr(given) + str(named):
            steps[0] += 1
            if steps[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
        return plain(*given, **named)
    setattr(owner, name, step)
OUT = sys.argv[2]
for name in ("mkdir", "write_text", "replace", "chmod", "unlink"):
    counted(pathlib.Path, name)
counted(shutil, "rmtree")
counted(subprocess, "run")
code = main(sys.argv[3:])
print("STEPS", steps[0])
sys.exit(code)
"""
STAND_IN = '#!/bin/sh\necho "$(basename "$0") $1 $2" >> CALLS\n'


def killed(at: int, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, killed before its step number `at` (0: never)."""
    paths = os.pathsep.join([str(Path(rightfit.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    every = {**os.environ, "PYTHONPATH": paths, "LANG": "C.UTF-8"}
    command = [sys.executable, "-c", KILLED, str(at), str(out), *words]
    return subprocess.run(command, env=every, cwd=out.parent, capture_output=True, text=True, check=False)


def steps_of(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0, done.stderr
    return int(done.stdout.rsplit("STEPS", 1)[1])


def saved(name: str, folder: Path) -> Path:
    path = folder / "plan.json"
    path.write_text(json.dumps(plan_values(name)), encoding="utf-8")
    return path


def visible(folder: Path) -> dict[str, str]:
    """What a person sees in a folder, and what a program reads there."""
    if not folder.exists():
        return {}
    paths = (path for path in folder.rglob("*") if path.is_file() and DRAFTS not in path.relative_to(folder).parts)
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def litter(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if DRAFTS in path.name or path.name.endswith(".part")]


def spread(steps: int, most: int = 9) -> list[int]:
    """The first steps, the last ones and some between: each is a process."""
    return sorted({*range(1, min(4, steps + 1)), *range(max(1, steps - 3), steps + 1), *range(1, steps + 1, max(1, steps // most))})


@pytest.mark.deep
@pytest.mark.parametrize("is_there", [False, True], ids=["a new folder", "a folder that is there"])
def test_an_export_killed_at_any_step_is_whole_or_nothing_and_the_next_one_works(is_there: bool, tmp_path: Path) -> None:
    path = saved("qlora-8b", tmp_path)
    expected = dict(files_of(job_of(plan_document(plan_values("qlora-8b"))), "skypilot"))
    steps = steps_of(killed(0, tmp_path / "first", "export", str(path), "--to", "skypilot", "--out", str(tmp_path / "first")))
    assert steps >= 2 * len(expected)
    seen = set()
    for at in spread(steps + len(expected) * is_there):
        out = tmp_path / f"at{at}"
        if is_there:
            out.mkdir()
        words = ("export", str(path), "--to", "skypilot", "--out", str(out))
        done = killed(at, out, *words)
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        left = visible(out)
        seen.add(len(left))
        assert all(text == expected[name] for name, text in left.items())  # no file is half
        is_marked = is_there and (out / DRAFTS).is_dir()
        assert len(left) in (0, len(expected)) or is_marked  # the files are whole together, or marked as cut off
        if done.returncode:
            again = main([*words, *(["--force"] if left and not (out / DRAFTS).is_dir() else [])])
            assert again == 0
        assert visible(out) == expected
        assert litter(tmp_path) == []
    assert {0, len(expected)} & seen


def test_what_a_kill_left_is_not_taken_for_room_where_others_have_put_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    (out / DRAFTS).mkdir(parents=True)
    (out / DRAFTS / "task.yaml").write_text("ha")
    (out / "notes.txt").write_text("mine")
    path = saved("qlora-8b", tmp_path)
    words = ["export", str(path), "--to", "skypilot", "--out", str(out)]
    assert main(words) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert litter(tmp_path) == []


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`sky` and `terraform` on the path; gives the file that notes their calls."""
    monkeypatch.setenv("HF_TOKEN", "k")
    return put_on_the_path(tmp_path, STAND_IN, monkeypatch)


def without_run(files: dict[str, str]) -> dict[str, str]:
    """Each start whose server is not there yet begins a run of its own."""
    return {path: text for path, text in files.items() if path != "run.id"}


@pytest.mark.deep
def test_a_launch_killed_between_its_steps_goes_on_with_its_state(tools: Path, tmp_path: Path) -> None:
    path = saved("lora-8b-aws", tmp_path)

    def words(out: Path) -> tuple[str, ...]:
        return ("launch", str(path), "--with", "terraform", "--yes", "--out", str(out))

    steps = steps_of(killed(0, tmp_path / "whole", *words(tmp_path / "whole")))
    expected = without_run(visible(tmp_path / "whole"))
    assert MARK in expected
    calls = set()
    for at in spread(steps):
        tools.unlink(missing_ok=True)
        out = tmp_path / f"at{at}"
        assert killed(at, out, *words(out)).returncode == -signal.SIGKILL
        began = tools.read_text().splitlines() if tools.exists() else []
        calls.add(len(began))
        assert not began or without_run(visible(out)) == expected  # no program is started on half of its files
        if began:
            (out / "terraform.tfstate").write_text("state")
        assert main(list(words(out))) == 0
        called = [
            line for line in tools.read_text().splitlines()[len(began) :] if not line.startswith("terraform output")
        ]  # by wait.sh new
        assert called == ["terraform init -input=false", "terraform apply -input=false"]
        assert (out / "run.id").read_text().strip()
        assert without_run(visible(out)) == expected | ({"terraform.tfstate": "state"} if began else {})
        assert litter(tmp_path) == []
    assert {0, 1} <= calls  # before the first program, and between the two


@pytest.mark.deep
def test_a_managed_job_whose_launch_was_killed_is_not_started_twice_unseen(
    tools: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out = saved("qlora-8b", tmp_path), tmp_path / "out"
    words = ("launch", str(path), "--yes", "--out", str(out))
    steps = steps_of(killed(0, tmp_path / "whole", "launch", str(path), "--yes", "--out", str(tmp_path / "whole")))
    assert tools.read_text().splitlines() == ["sky jobs launch"]
    assert not (tmp_path / "whole" / BEGUN).exists()
    assert killed(steps, out, *words).returncode == -signal.SIGKILL  # after the program, before it was seen to end
    assert len(tools.read_text().splitlines()) == 2
    assert main(list(words)) == 2
    said = capfd.readouterr().err
    assert "its job may run: look with sky jobs queue" in said
    assert said.count("\n") == 1
    assert main([*words, "--lang", "zh"]) == 2
    assert "sky jobs queue" in (told := capfd.readouterr().err)
    assert "被中断" in told
    assert len(tools.read_text().splitlines()) == 2
    (out / BEGUN).unlink()
    assert main(list(words)) == 0
    assert len(tools.read_text().splitlines()) == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB with 8 KiB of room."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        with contextlib.suppress(OSError), (place / "filling").open("wb", buffering=0) as filling:
            for _ in range(14):
                filling.write(bytes(4096))
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=False)


def test_a_disk_that_is_really_full_keeps_nothing_of_an_export_and_then_takes_it(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = saved("qlora-8b", tmp_path), small_disk / "out"
    words = ["export", str(path), "--to", "skypilot", "--out", str(out)]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said == f"error: cannot write {out}: no space left on device\n"
    assert [found.name for found in small_disk.iterdir()] == ["filling"]
    (small_disk / "filling").unlink()
    assert main(words) == 0
    assert visible(out) == dict(files_of(job_of(plan_document(plan_values("qlora-8b"))), "skypilot"))


def test_a_price_book_outlives_a_full_disk(small_disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    book = small_disk / "prices.toml"
    book.write_text('as_of = "2026-11-01"\n' + "# kept\n" * 600)
    before = book.read_text()
    with contextlib.suppress(OSError), (small_disk / "more").open("wb", buffering=0) as more:
        while True:
            more.write(bytes(4096))
    monkeypatch.chdir(small_disk)
    assert main(["prices", "add", "aws/p5.48xlarge", "30", "--price-book", str(book)]) == 2
    assert str(book) in capsys.readouterr().err
    assert book.read_text() == before
    assert sorted(found.name for found in small_disk.iterdir()) == ["filling", "more", "prices.toml"]


def test_files_of_folders_within_a_bundle_are_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for out in (tmp_path / "there", tmp_path / "new" / "deeper"):
        first, second = write_files({"a/run.sh": "#!/bin/sh\n", "b.yaml": "x: 1\n"}, out)
        assert first.stat().st_mode & 0o111
        assert second.read_text() == "x: 1\n"
        assert litter(tmp_path) == []
