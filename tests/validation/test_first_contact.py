"""First contact: hidden columns stay hidden, a date and a source are scored once, the figures are
what their README says, and the files are as written."""

from __future__ import annotations

import csv
import datetime
import hashlib
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
sys.path.insert(0, str(VALIDATION))

import first_contact  # noqa: E402
from first_contact import ContactError, Row, make, read_rows  # noqa: E402

DAY = datetime.date(2026, 1, 2)
TRAINING = {
    "id": "lab-a-1", "metric": "peak_mem_gib_per_gpu", "measured": "40", "source": "lab-a", "source_where": "README line 3", "usable": "1", "why_not": "",
    "flags": "", "trust": "high", "notes": "", "model": "meta-llama/Llama-2-7b-hf", "method": "lora", "gpu": "A100-SXM4-80GB", "n_gpus": "1",
    "micro_batch": "2", "seq_len": "1024", "is_oom": "0",
}  # fmt: skip
SERVING = {
    "id": "lab-b-1", "metric": "latency_ms", "measured": "9", "source": "lab-b", "source_where": "table 2", "usable": "1", "why_not": "", "notes": "",
    "model": "bert-base-uncased", "params_b": "0.11", "weights_dtype": "fp16", "engine": "PyTorch", "device": "T4", "n_devices": "1", "input_tokens": "128",
    "output_tokens": "", "batch_or_concurrency": "8", "request_rate": "",
}  # fmt: skip
#: The program reads an image's size from remarks where it is given them.
PASS = {**SERVING, "id": "lab-b-3", "model": "resnet50", "params_b": "0.025", "input_tokens": ""}
VISION = {
    "id": "oom-1", "metric": "does_not_fit", "measured": "1", "source": "lab-c", "source_where": "", "usable": "1", "why_not": "", "notes": "OOM in source",
    "task": "classification", "model": "resnet50", "framework": "PyTorch", "precision": "fp32", "gpu": "T4", "gpu_mem_gib": "16", "n_gpus": "1",
    "batch_per_gpu": "4096", "image_size": "224", "extra_flags": "",
}  # fmt: skip
ROWS = {
    "train_memory": [TRAINING, {**TRAINING, "id": "lab-a-2", "method": "full", "measured": "", "is_oom": "1"}],
    "inference": [
        SERVING,
        PASS,
        {**SERVING, "id": "lab-b-2", "metric": "ttft_ms", "output_tokens": "64", "model": "meta-llama/Llama-2-7b-hf", "params_b": "7"},
    ],
    "vision_oom": [VISION],
}
POISON = (
    "batch 1; fp32 weights; image size 1024x1024; out of memory; p99; concurrency=64; zero3 cpu offload; gradient checkpointing; vLLM 0.12"
)


def write_tables(folder: Path, tables: dict[str, list[Row]]) -> Path:
    """A folder of measured tables."""
    folder.mkdir()
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder


def poisoned(row: Row) -> Row:
    """The row with lies in everything that is said about it, its name and place included; only how
    the score adds up is left alone."""
    return {name: POISON if name in ("id", "notes", "source_where", "why_not", "flags", "trust") else cell for name, cell in row.items()}


def answering(**cells: str) -> Callable[[Sequence[Row]], list[Row]]:
    """A predictor that says the same of every case."""
    return lambda cases: [{"id": case["id"], "low80": "8", "high80": "12", "low95": "5", "high95": "20", **cells} for case in cases]


def test_poisoned_remarks_give_the_same_files(tmp_path: Path) -> None:
    written = []
    for name, change in (("plain", dict), ("poisoned", poisoned)):
        tables = write_tables(tmp_path / name, {table: [change(row) for row in rows] for table, rows in ROWS.items()})
        written.append(make(tables, DAY, tmp_path / f"{name}_out", commit="abc", rows_of="tiny"))
    plain, poison = written
    assert [path.read_bytes() for path in plain] == [path.read_bytes() for path in poison]
    lines = {row["figure"]: row for row in read_rows(plain[0])}
    assert [lines[name]["rows_answered"] for name in ("memory, adapters", "serving, first token")] == ["1", "1"]
    assert lines["memory, full fine-tuning"]["out_of_memory_rows"] == lines["training on samples, fits or not"]["out_of_memory_rows"] == "1"


@pytest.mark.parametrize("column", first_contact.HIDDEN)
@pytest.mark.parametrize("table", ROWS)
def test_no_hidden_column_and_no_name_reaches_the_predictor(table: str, column: str) -> None:
    if (table, column) == ("inference", "flags"):
        return  # settings of the engine, as a user has them; of other tables they are the reader's remarks
    for row in ROWS[table]:
        case = first_contact.case_of({**row, column: POISON}, "1")
        assert column not in case
        assert POISON not in case.values()
        assert row["source"] not in " ".join(case.values())


def test_a_statement_does_not_tell_its_outcome() -> None:
    said = [first_contact.case_of({**VISION, "metric": metric}, "1") for metric in first_contact.STATEMENTS]
    assert said[0] == said[1]
    assert said[0]["metric"] == first_contact.MEMORY_METRIC


def test_remarks_source_place_and_outcome_are_hidden() -> None:
    assert {"notes", "source", "source_where", "usable", "why_not", "measured"} <= set(first_contact.HIDDEN)


def test_figures_are_what_the_readme_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_contact, "ask", answering(predicted="10", fits="1"))
    measured = {"a": ["10", "20", "40"], "b": ["8"]}
    rows = [{**TRAINING, "source": source, "measured": value} for source, values in measured.items() for value in values]
    rows += [{**TRAINING, "measured": "", "is_oom": "1"}, {**TRAINING, "measured": "999", "usable": "0"}]
    scores, by_source = make(write_tables(tmp_path / "tables", {"train_memory": rows}), DAY, tmp_path / "out", commit="abc")
    (line,) = read_rows(scores)
    # |10/10-1|, |10/20-1|, |10/40-1| of a and |10/8-1| of b; inside 5..20 lie three of four: two
    # thirds of a, all of b.
    expected = {
        "rows": 4, "sources": 2, "rows_answered": 4, "rows_refused": 0, "answered": 1, "median_ape": 0.375, "p90_ape": 0.675,
        "median_by_source": (0.5 + 0.25) / 2, "p90_by_source": (0.7 + 0.25) / 2, "in_80": 0.5, "in_80_by_source": (1 / 3 + 1) / 2, "in_95": 0.75,
        "in_95_by_source": (2 / 3 + 1) / 2, "median_factor": (1.25 + 2) / 2, "p90_factor": 3.4, "median_factor_by_source": (2 + 1.25) / 2,
        "out_of_memory_rows": 1, "called_fits": 1, "ran_rows": 4, "ran_called_too_big": 0,
    }  # fmt: skip
    assert {name: float(line[name]) for name in expected} == pytest.approx(expected, abs=6e-4)
    assert [(row["source"], row["rows"]) for row in read_rows(by_source)] == [("a", "3"), ("b", "1"), ("lab-a", "0")]


def test_refusals_are_counted_and_have_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_contact, "ask", answering(predicted="", error="not known"))
    (line,) = read_rows(make(write_tables(tmp_path / "tables", {"train_memory": [TRAINING]}), DAY, tmp_path / "out", commit="abc")[0])
    assert [line[name] for name in ("rows", "rows_answered", "rows_refused", "median_ape")] == ["1", "0", "1", ""]


def test_a_date_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(first_contact, "ask", answering(predicted="10"))
    tables, out = write_tables(tmp_path / "tables", {"train_memory": [TRAINING]}), tmp_path / "out"
    before = [path.read_bytes() for path in make(tables, DAY, out, commit="abc")]
    (tables / "train_memory.csv").write_text("metric,measured,source\npeak_mem_gib_per_gpu,3,another\n", encoding="utf-8")
    assert first_contact.main([str(tables), "--date", DAY.isoformat(), "--out", str(out), "--commit", "def"]) == 2
    assert capsys.readouterr().err.startswith("2026-01-02.csv is there already, and a first contact is never edited;")
    assert [path.read_bytes() for path in sorted(out.glob("*.csv"))] == before


def test_a_source_is_scored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_contact, "ask", answering(predicted="10"))
    out, later = tmp_path / "out", DAY + datetime.timedelta(days=1)
    make(write_tables(tmp_path / "first", {"train_memory": [TRAINING]}), DAY, out, commit="abc")
    with pytest.raises(ContactError, match="no usable row of a source that was not scored before"):
        make(tmp_path / "first", later, out, commit="abc")
    second = write_tables(tmp_path / "second", {"train_memory": [TRAINING, {**TRAINING, "source": "lab-z"}]})
    assert [row["source"] for row in read_rows(make(second, later, out, commit="abc")[1])] == ["lab-z"]


def committed() -> list[Path]:
    """The tables of first contact of this repository."""
    return sorted(first_contact.FOLDER.glob("*.csv"))


def test_no_table_of_first_contact_was_edited() -> None:
    seals = (first_contact.FOLDER / first_contact.SEALS).read_text(encoding="utf-8").splitlines()
    assert sorted(seals) == sorted(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in committed())
    assert "2026-11-22.csv" in {path.name for path in committed()}


def test_every_column_is_explained() -> None:
    text = (first_contact.FOLDER / "README.md").read_text(encoding="utf-8")
    for path in committed():
        assert [name for name in read_rows(path)[0] if f"`{name}`" not in text] == []


def test_first_contact_agrees_with_the_blind_scores_of_the_same_rows() -> None:
    scores = [row for row in read_rows(VALIDATION / "blind" / "scores.csv") if row["rows_of"] == "released to truth/second"]
    # The line of a whole figure comes first, its metrics follow.
    ours = {(row["commit"], row["figure"]): row for path in reversed(committed()) for row in reversed(read_rows(path)) if "sources" in row}
    both = [(row, ours[row["commit"], row["figure"]]) for row in scores if (row["commit"], row["figure"]) in ours]
    assert len(both) == 13
    shared = set(scores[0]) & set(both[0][1])
    assert {"rows", "median_ape", "median_by_source", "in_95_by_source", "called_fits"} <= shared
    assert [(row["figure"], name) for row, our in both for name in shared if row[name] != our[name]] == []


def test_blind_scores_are_complete_and_in_range() -> None:
    folder = VALIDATION / "blind"
    rows, text = read_rows(folder / "scores.csv"), (folder / "README.md").read_text(encoding="utf-8")
    assert [name for name in rows[0] if f"`{name}`" not in text] == []
    assert {row["rows_of"] for row in rows} >= {"blind, all", "blind, first contact", "blind, scored before"}
    for row in rows:
        assert f"`{row['rows_of']}`" in text
        assert datetime.date.fromisoformat(row["date"])
        assert int(row["rows"]) >= int(row["sources"]) > 0
        assert all(0 <= float(row[name]) <= 1 for name in ("answered", "in_80", "in_95", "in_95_by_source"))
        assert all(math.isfinite(float(row[name])) and float(row[name]) > 0 for name in ("median_ape", "p90_ape", "median_by_source"))
        assert float(row["median_ape"]) <= float(row["p90_ape"])
        assert int(row["called_fits"] or 0) <= int(row["out_of_memory_rows"] or 0)
    assert len({(row["commit"], row["rows_of"], row["figure"]) for row in rows}) == len(rows)
