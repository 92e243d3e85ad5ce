"""Loading measured tables and keeping rows out by written rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rightfit import facts
from rightfit.errors import FileInputError
from rightfit.proof.tables import (
    TruthRule,
    cell_text,
    implausible,
    read_cases,
    read_corrections,
    read_table,
    read_truth,
    table_name,
    truth_folder,
)

REPOSITORY = Path(__file__).resolve().parents[2]


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_the_repository_holds_the_tables() -> None:
    truth = read_truth(REPOSITORY / "validation" / "truth")
    counts = {name: truth.table.count(name) for name in dict.fromkeys(truth.table)}
    least = {"train_memory": 1594, "train_throughput": 3574, "inference": 7372}  # rows are added, none is lost
    assert all(counts[name] >= number for name, number in least.items())
    counted = [name for name, reason in zip(truth.table, truth.excluded, strict=True) if not reason]
    assert counted.count("train_memory") >= 640
    assert counted.count("train_throughput") >= 1418


def test_every_excluded_row_has_a_reason_and_no_rule_looks_at_predictions() -> None:
    truth = read_truth(REPOSITORY / "validation" / "truth").select(["train_memory"])
    reasons = [reason for reason in truth.excluded if reason]
    assert all(": " in reason for reason in reasons)
    assert len(reasons) >= 954


TABLES = {path.name.removesuffix(".csv.gz"): path for path in sorted((REPOSITORY / "validation" / "truth").glob("*.csv.gz"))}
ADDED = sorted((REPOSITORY / "validation" / "truth").glob("*/*.csv"))


@pytest.mark.parametrize("name", TABLES)
def test_every_measured_row_says_where_it_was_read(name: str) -> None:
    files = [TABLES[name], *(path for path in ADDED if table_name(path) == name)]
    owner: dict[str, str] = {}
    for path in files:
        for row in read_cases(path):
            place = f"validation/truth/{path.relative_to(REPOSITORY / 'validation/truth')}: row {row.get('id') or '?'}"
            lacking = [column for column in ("id", "metric", "source", "source_where", "date") if not cell_text(row.get(column))]
            assert not lacking, f"{place} lacks {', '.join(lacking)}"
            first = owner.setdefault(cell_text(row["id"]), path.name)
            assert first is path.name, f"{place} has an id that {first} has already"


def added_problems(path: Path) -> list[str]:
    """What is wrong with a file of rows that people added, one line each."""
    name, place = table_name(path), f"validation/truth/{path.parent.name}/{path.name}"
    if name not in TABLES:
        return [f"{place}: no table is called {name}; the tables are {', '.join(TABLES)}"]
    rows, known = read_cases(path), read_cases(TABLES[name])
    columns, metrics = set(known[0]), {cell_text(row["metric"]) for row in known}
    lines = [f"{place}: {name} has no column {column!r}" for column in rows[0] if column not in columns]
    for row in rows:
        own = f"{place}: row {row.get('id')}"
        lines += [f"{own}: {implausible(row)}"] if implausible(row) else []
        if row.get("metric") not in metrics:
            lines.append(f"{own}: no row of {name} has the metric {row.get('metric')}; the metrics are {', '.join(sorted(metrics))}")
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", cell_text(row.get("date"))):
            lines.append(f"{own}: date is {row.get('date')!r}; write the whole date on which it was measured or published")
        if name.startswith("train_") and row.get("gpu") not in facts.accelerators():
            lines.append(f"{own}: gpu is {row.get('gpu')!r}; write a name of facts/data/accelerators.csv")
        if name.startswith("train_") and row.get("trust") not in ("A", "B", "C"):
            lines.append(f"{own}: trust is {row.get('trust')!r}; choose A (its code is public), B or C")
    return lines


@pytest.mark.parametrize("path", ADDED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_rows_that_people_added_are_like_those_of_their_table(path: Path) -> None:
    lines = added_problems(path)
    assert not lines, "; ".join(lines)


def test_what_an_added_row_lacks_is_said(tmp_path) -> None:
    write(
        tmp_path / "mine",
        "train_memory.csv",
        "id,metric,measured,source,source_where,date,gpu,trust,sequence\nX1,peak,0.5,me,here,2026,H100,,7\n",
    )
    text = "; ".join(added_problems(tmp_path / "mine" / "train_memory.csv"))
    for said in ("no column 'sequence'", "has the metric peak", "write the whole date", "gpu is 'H100'; write a name", "trust is"):
        assert said in text
    write(tmp_path / "mine", "train_memories.csv", "id,metric,measured\n1,a,2\n")
    assert "no table is called train_memories" in added_problems(tmp_path / "mine" / "train_memories.csv")[0]


def test_rules_compare_as_they_say() -> None:
    rule = TruthRule("r", "t", "flags", "contains", "suspect", "why")
    assert rule.holds("t", {"flags": "a SUSPECT value"})
    assert not rule.holds("other", {"flags": "suspect"})
    assert not rule.holds("t", {})


def test_own_measurements_in_a_folder_of_their_own(tmp_path) -> None:
    write(
        tmp_path / "mine",
        "train_memory.csv",
        "id,metric,measured,usable\n1,peak_mem_gib_per_gpu,12,1\n2,peak_mem_gib_per_gpu,12,0\n3,peak_mem_gib_per_gpu,81920,1\n4,peak_mem_gib_per_gpu,many,1\n",
    )
    write(tmp_path / "mine", "readme.csv", "just,text\n1,2\n")
    truth = read_truth(tmp_path / "mine")
    assert truth.files == ["train_memory.csv"]
    assert truth.excluded[0] == ""
    assert truth.excluded[1] == "not-usable: the table marks the row as not usable"
    assert "wrong unit?" in truth.excluded[2]
    assert "not a number" in truth.excluded[3]


def test_a_rule_without_reason_is_refused(tmp_path) -> None:
    write(tmp_path, "exclusions.csv", "name,table,column,test,value,reason\nr,*,flags,contains,x,\n")
    write(tmp_path, "t.csv", "metric,measured\nmfu,0.4\n")
    with pytest.raises(FileInputError, match="rule r lacks reason"):
        read_truth(tmp_path)


def test_folders_that_do_not_serve(tmp_path, monkeypatch) -> None:
    with pytest.raises(FileInputError, match="no folder of measured tables"):
        truth_folder(tmp_path / "none")
    with pytest.raises(FileInputError, match="holds no table"):
        read_truth(tmp_path)
    monkeypatch.setenv("RIGHTFIT_TRUTH", str(tmp_path))
    assert truth_folder() == tmp_path


def test_corrections_change_the_cells_that_they_name_and_no_others(tmp_path: Path) -> None:
    write(tmp_path / "truth", "t.csv", "id,metric,measured,image_size,flags\n1,m,2,1024,run=a;lora\n2,m,3,1024,run=b;lora\n")
    lines = "table,where,contains,column,value,reason\nt,flags,run=a;,image_size,512,the file says so\nt,flags,run=b;,flags,;streamed,the file says so\n"
    write(tmp_path, "corrections.csv", lines)
    one, two = read_truth(tmp_path / "truth").rows
    assert (one["image_size"], one["flags"]) == ("512", "run=a;lora")
    assert (two["image_size"], two["flags"]) == ("1024", "run=b;lora;streamed")


def test_the_repository_s_corrections_have_reasons_and_touch_rows() -> None:
    corrections = read_corrections(REPOSITORY / "validation")
    tables = {name: read_table(REPOSITORY / "validation" / "truth", name) for name in {found.table for found in corrections}}
    for found in corrections:
        assert len(found.reason) > 20
        assert found.column in tables[found.table][0]
    touched = [found for found in corrections if found.table == "vision_train"]
    assert all(any(found.contains in row[found.where] for row in tables["vision_train"]) for found in touched)
