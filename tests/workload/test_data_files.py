"""Data of one's own are counted: rows, tokens by characters with their doubt, tables of numbers,
pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rightfit.errors import FileInputError
from rightfit.workload import Workload
from rightfit.workload.data_files import counted, is_data_path

ROW = {"messages": [{"role": "user", "content": "four" * 100}, {"role": "assistant", "content": "好" * 30}]}


def test_json_lines_by_characters(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(ROW) + "\n" for _ in range(50)))
    found = counted(str(file))
    roles = len("user") + len("assistant")
    assert (found.rows, found.how) == (50, "characters")
    assert found.tokens == pytest.approx(50 * ((400 + roles) / 4.0 + 30 / 1.5))
    assert found.low < found.tokens < found.high
    assert Workload(model="7B", task="finetune", data=str(file)).data_tokens == pytest.approx(found.tokens, abs=1)


def test_the_same_rows_in_every_form(tmp_path: Path) -> None:
    rows = [{"text": "some words of a row"} for _ in range(30)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "b.json").write_text(json.dumps(rows))
    (tmp_path / "c.json").write_text(json.dumps({"data": rows}))
    (tmp_path / "d.txt").write_text("\n".join(row["text"] for row in rows))
    (tmp_path / "e.csv").write_text("text\n" + "\n".join(row["text"] for row in rows))
    counts = {counted(str(tmp_path / name)).text for name in ("a.jsonl", "b.json", "c.json", "d.txt", "e.csv")}
    assert len(counts) == 1
    assert counted(str(tmp_path)).rows == 150


def test_tables_and_pictures(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,b,c\n" + "1,2.5,3\n" * 1000)
    assert counted(str(table)).text == "1000rows x 3cols"
    pictures = tmp_path / "pictures"
    (pictures / "cats").mkdir(parents=True)
    for at in range(7):
        (pictures / "cats" / f"{at}.jpg").write_bytes(b"x")
    assert counted(str(pictures)).text == "7 images"


def test_what_is_no_path_is_none(tmp_path: Path) -> None:
    assert not any(is_data_path(text) for text in ("50Mtok", "imdb", "10k", "./absent.jsonl", "a\x00.csv", "", "10万条"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileInputError, match="contains no rows to count"):
        counted(str(tmp_path / "empty"))
