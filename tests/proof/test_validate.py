"""The accuracy page and the gate that keeps it: on small truth folders of its own."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from rightfit.errors import FileInputError
from rightfit.proof import accuracy_page
from rightfit.proof.accuracy import write_plots
from rightfit.proof.left_out import predict_left_out, read_folds, substituted
from rightfit.proof.predict import predict
from rightfit.proof.tables import read_cases
from rightfit.proof.validate import check, regressions, repository_paths, told_on_terminal, validate, write

TRUTH = Path(__file__).resolve().parents[2] / "validation" / "truth"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with forty measured rows of each kind."""
    folder = tmp_path / "validation" / "truth"
    folder.mkdir(parents=True)
    for name in ("train_memory", "train_throughput"):
        rows = [row for row in read_cases(TRUTH / f"{name}.csv.gz") if row["usable"] == "1"][::17][:40]
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    shutil.copy(TRUTH / "peers_training_scores.md", folder)
    return tmp_path


def test_page_headline_and_gate(checkout: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = checkout / "validation" / "truth"
    paths = repository_paths(folder)
    parts: list[str] = []
    result = validate(folder, progress=parts.append)
    assert parts
    assert all("run `rightfit validate" in problem for problem in check(result, paths))
    assert len(check(result, paths)) == 2
    written = write(result, paths)
    assert [path.relative_to(checkout).as_posix() for path in written] == [
        "validation/headline.json",
        "src/rightfit/web/data/accuracy.json",
        "docs/accuracy.md",
        "docs/accuracy/predicted_measured.svg",
        "docs/accuracy/error_by_source.svg",
        "docs/accuracy/coverage.svg",
    ]
    assert check(validate(folder), paths) == []
    text = paths.page.read_text()
    tables = json.loads(paths.tables.read_text(encoding="utf-8"))
    assert [cells[0] for cells in tables[:3]] == [["figure", *tables[0][0][1:]], ["figure", *tables[1][0][1:]], ["rows", *tables[2][0][1:]]]
    assert all("| " + " | ".join(row) + " |" in text for rows in tables for row in rows)
    paths.tables.write_text("[]")
    assert [problem.partition(" is ")[0] for problem in check(result, paths)] == [str(paths.tables)]
    assert "| memory, full |" in text
    assert "| **rightfit** (the usable rows of these tables) |" in text
    assert "SimuMax" in text
    assert "rule: 16 bytes a parameter (the same rows)" in text
    assert "## Serving of language models" not in text  # no such rows in these tables
    first = written[3].read_bytes()
    write(result, paths)
    assert written[3].read_bytes() == first


def test_a_headline_that_got_worse_fails(checkout: Path) -> None:
    folder = checkout / "validation" / "truth"
    paths = repository_paths(folder)
    result = validate(folder)
    better = {name: value * 0.9 for name, value in result.headline.items()}
    paths.headline.write_text(json.dumps(better))
    problems = check(result, paths)
    assert any(problem.startswith("worse by more than 5 %: memory") for problem in problems)


def test_what_counts_as_worse() -> None:
    assert regressions({"a": 0.105}, {"a": 0.1}) == []
    assert regressions({"a": 0.106}, {"a": 0.1}) == ["a: 0.1000 -> 0.1060"]
    assert regressions({"a": 0.001}, {"a": 0.0}) == []
    assert regressions({}, {"a": 0.1}) == ["a: 0.1000 -> nan"]


@pytest.fixture
def inference(tmp_path: Path) -> Path:
    """A checkout with measured rows of inference alone, thinned out, and the
    folds of the real one."""
    folder = tmp_path / "validation" / "truth"
    folder.mkdir(parents=True)
    rows = read_cases(TRUTH / "inference.csv.gz")[::29]
    with (folder / "inference.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    shutil.copytree(TRUTH.parent / "folds", folder.parent / "folds")
    return tmp_path


def test_tables_of_inference_have_their_headlines_intervals_and_plots(inference: Path) -> None:
    pytest.importorskip("matplotlib")
    result = validate(inference / "validation" / "truth")
    assert result.left_out
    assert [found.family.name for found in result.families] == ["serving", "passes"]
    written = [path.name for path in write_plots(result.families[1:], inference / "docs")]
    assert written == ["passes_predicted_measured.svg", "passes_error_by_source.svg", "passes_coverage.svg"]
    text = result.text
    for name in ("serving, time per token", "serving, throughput", "serving, first token at low load", "passes, latency and throughput"):
        assert f"| {name} |" in text
        assert 0 < result.headline[f"{name}: median APE"] < 1
    assert all(f"(accuracy/{name})" in text for name in written)
    assert "### Without the engine's name" in text
    for words in ("#### By card class", "#### By engine", "#### By load"):
        assert words in text
    assert len(result.tables()) == 3  # what is left out, errors, intervals; nothing tells fits from does not fit


def test_a_figure_of_inference_that_got_worse_fails(inference: Path) -> None:
    folder = inference / "validation" / "truth"
    paths = repository_paths(folder)
    result = validate(folder)
    name = "serving, throughput: median APE"
    paths.headline.write_text(json.dumps({**result.headline, name: result.headline[name] * 0.9}))
    assert [problem for problem in check(result, paths) if "worse" in problem] == [
        f"worse by more than 5 %: {name}: {result.headline[name] * 0.9:.4f} -> {result.headline[name]:.4f}"
    ]


def test_every_source_of_inference_is_predicted_under_its_own_fold(inference: Path) -> None:
    folder = inference / "validation" / "truth"
    left_out = validate(folder)
    shutil.rmtree(folder.parent / "folds")
    fitted = validate(folder)
    assert not fitted.left_out
    for name in ("serving, throughput", "passes, latency and throughput"):
        assert left_out.headline[f"{name}: median APE"] != fitted.headline[f"{name}: median APE"]


def test_a_folder_without_known_rows(tmp_path: Path) -> None:
    (tmp_path / "loading.csv").write_text("metric,measured,loader\nimages_per_s,3,dali\n")
    with pytest.raises(FileInputError, match="no row that is predicted: training of language models; serving"):
        validate(tmp_path)


def test_left_out_coefficients_act_and_are_forgotten() -> None:
    row = {
        "metric": "step_time_s",
        "model": "meta-llama/Meta-Llama-3-8B",
        "gpu": "A100-SXM-80GB",
        "method": "full",
        "micro_batch": "1",
        "seq_len": "4096",
    }
    before = predict([row])[0]["predicted"]
    slow = {"compute": {"gemm_fraction.ampere-hbm": 0.05}}
    with substituted(slow):
        assert predict([row])[0]["predicted"] > 2 * before
    assert predict([row])[0]["predicted"] == before
    answers = predict_left_out([{**row, "source": "a"}, {**row, "source": "b"}, {**row, "source": "a"}], {"a": slow})
    assert answers[0]["predicted"] == answers[2]["predicted"] > 2 * answers[1]["predicted"]
    assert answers[1]["predicted"] == before


def test_folds_of_several_files_are_joined(tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text('{"s": {"memory": {"x": 1}}}')
    (tmp_path / "speed.json").write_text('{"s": {"compute": {"y": 2}}, "t": {"compute": {"y": 3}}}')
    assert read_folds(tmp_path) == {"s": {"memory": {"x": 1}, "compute": {"y": 2}}, "t": {"compute": {"y": 3}}}
    assert read_folds(tmp_path / "none") == {}
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(FileInputError, match=r"cannot read .*broken\.json"):
        read_folds(tmp_path)


def test_markdown_cells_cannot_break_a_table() -> None:
    assert accuracy_page.table(("a", "b"), [["x|y", "1"]]) == "| a | b |\n| --- | --- |\n| x/y | 1 |\n"


def test_rivals_are_read_from_their_page() -> None:
    text = (TRUTH / "peers_training_scores.md").read_text()
    memory, time = accuracy_page.rival_rows(text, "Peak memory"), accuracy_page.rival_rows(text, "Throughput")
    assert memory[0][0] == time[0][0] == "tool"
    assert any(row[0] == "llm-analysis" and row[2].startswith("41.5 %") for row in memory)
    assert any("SimuMax, B200" in row[0] for row in time)


def test_each_part_is_told_as_it_begins(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal alone: a log or a pipe gets the result."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    told_on_terminal("Memory: 10 rows")
    assert capsys.readouterr().err == "Memory: 10 rows ...\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    told_on_terminal("Memory: 10 rows")
    assert capsys.readouterr().err == ""
