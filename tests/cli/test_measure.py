"""The commands on real runs: ingest and runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TABLE = "model,gpu,method,micro_batch,seq_len,step_time_s\n7B,A100-SXM-80GB,lora,4,2048,2.31\n"


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIGHTFIT_RUNS", str(tmp_path / "runs.sqlite"))
    monkeypatch.chdir(tmp_path)
    Path("own.csv").write_text(TABLE)
    return tmp_path / "runs.sqlite"


def test_from_a_table_to_a_kept_record_and_back(run: Any) -> None:
    found = run("ingest", "own.csv", "--keep", "--out", "run.json", "--format", "json")
    assert found.code == 0, found.err
    id_ = json.loads(found.out)["id"]
    assert "read as own-table" in found.err
    assert json.loads(Path("run.json").read_text())["steps"]["step_s"]["mid"] == 2.31
    assert id_ in run("runs", "list").out
    shown = run("runs", "show", id_[:5], "--lang", "zh")
    assert "单步时间" in shown.out
    assert run("runs", "delete", id_).code == 0
    assert run("runs", "list").out == ""


def test_two_records_of_one_run_are_merged(run: Any) -> None:
    Path("gpu.csv").write_text("index, memory.used [MiB]\n0, 20480 MiB\n")
    run("ingest", "own.csv", "-o", "a.json")
    run("ingest", "gpu.csv", "-o", "b.json")
    merged = run("runs", "merge", "a.json", "b.json", "--format", "json")
    assert merged.code == 0, merged.err
    assert json.loads(merged.out)["peak_memory_bytes"] == 20 * 2**30
    assert len(run("runs", "list", "-f", "json").out) > 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ingest", "nowhere.json"), "no such file or folder"),
        (("ingest", "own.csv", "--as", "vlm-bench"), "did you mean vllm-bench"),
        (("ingest", "own.csv", "--set", "modell=7B"), "did you mean model?"),
        (("ingest", "own.csv", "--set", "model"), "NAME=VALUE"),
        (("ingest", "own.csv", "--first-token", "both"), "allowed: in, out"),
        (("ingest", "own.csv", "--counter", "rss"), "allowed: allocated, reserved, nvidia-smi"),
        (("runs", "show", "abc"), "unknown run"),
        (("runs", "merge", "abc"), "two records or more"),
        (("runs", "delete", "abc"), "unknown run"),
    ],
)
def test_bad_input_ends_in_one_line_and_exit_code_2(run: Any, arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""
