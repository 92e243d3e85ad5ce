"""Loading measured tables and keeping rows out by written rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from rightfit.errors import FileInputError
from rightfit.estimate.truth import Rule, read_corrections, read_table, read_truth, truth_folder

REPOSITORY = Path(__file__).resolve().parents[2]


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_the_repository_holds_the_tables() -> None:
    truth = read_truth(REPOSITORY / "validation" / "truth")
    counts = {name: truth.table.count(name) for name in dict.fromkeys(truth.table)}
    assert counts["train_memory"] == 1594
    assert counts["train_throughput"] == 3574
    assert counts["inference"] == 7372
    counted = [name for name, reason in zip(truth.table, truth.excluded, strict=True) if not reason]
    assert counted.count("train_memory") == 640
    assert counted.count("train_throughput") == 1418


def test_every_excluded_row_has_a_reason_and_no_rule_looks_at_predictions() -> None:
    truth = read_truth(REPOSITORY / "validation" / "truth").select(["train_memory"])
    reasons = [reason for reason in truth.excluded if reason]
    assert all(": " in reason for reason in reasons)
    assert len(reasons) == 954


def test_rules_compare_as_they_say() -> None:
    rule = Rule("r", "t", "flags", "contains", "suspect", "why")
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
