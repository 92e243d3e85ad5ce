"""What fetches pinned scripts runs the right one alone, hands on its arguments, and goes on from
the newest checkpoint."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

PROGRAM = "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"


def prepared(folder: Path, **facts: Any) -> Path:
    text = resources.files("rightfit.exports").joinpath("scripts/run_pinned.py").read_text(encoding="utf-8")
    (folder / "run_pinned.py").write_text(text, encoding="utf-8")
    (folder / "pinned").mkdir()
    (folder / "pinned.json").write_text(json.dumps({"url": "https://127.0.0.1:1/there/train.py", **facts}), encoding="utf-8")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "run_pinned.py"), str(folder / "pinned.json"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_pinned_file_is_run_with_its_arguments(tmp_path: Path) -> None:
    last = tmp_path / "out" / "last.pth.tar"
    prepared(tmp_path, sha256=hashlib.sha256(PROGRAM.encode()).hexdigest(), resume=["--resume", str(last)])
    (tmp_path / "pinned" / "train.py").write_text(PROGRAM, encoding="utf-8")
    assert json.loads(run(tmp_path, "--epochs", "3").stdout) == ["--epochs", "3"]
    last.parent.mkdir()
    last.write_text("", encoding="utf-8")
    assert json.loads(run(tmp_path, "--epochs", "3").stdout) == ["--epochs", "3", "--resume", str(last)]


def test_another_file_is_not_run(tmp_path: Path) -> None:
    prepared(tmp_path, sha256="0" * 64)
    (tmp_path / "pinned" / "train.py").write_text(PROGRAM, encoding="utf-8")
    ran = run(tmp_path)
    assert ran.returncode != 0  # it is fetched again, from where nothing answers
    assert ran.stdout == ""


def test_a_script_of_an_archive_is_run_and_only_https_is_fetched(tmp_path: Path) -> None:
    prepared(tmp_path, url="http://127.0.0.1:1/archive/abc.tar.gz", script="Program-abc/run.py")
    assert "is not an https address" in run(tmp_path).stderr
    (tmp_path / "pinned" / "Program-abc").mkdir()
    (tmp_path / "pinned" / "Program-abc" / "run.py").write_text(PROGRAM, encoding="utf-8")
    assert json.loads(run(tmp_path, "x").stdout) == ["x"]
