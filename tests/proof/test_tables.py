"""Reading, cleaning and writing tables."""

from __future__ import annotations

import gzip
import math
from typing import NoReturn

import pytest

from rightfit.errors import FileInputError
from rightfit.proof.tables import PREDICTION_COLUMNS, clean_row, read_cases, write_predictions


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (math.nan, ""), (4096.0, "4096"), (0.5, "0.5"), (True, "1"), ("  a ", "a"), (3, "3"), ("x\x00y", "xy")],
)
def test_cells_become_text(value: object, text: str) -> None:
    assert clean_row({"any": value})[0]["any"] == text


@pytest.mark.parametrize("word", ["nan", "NaN", "N/A", "null", "-", "?", ""])
def test_unknown_words_in_number_columns_are_empty(word: str) -> None:
    cells, problem = clean_row({"seq_len": word})
    assert cells["seq_len"] == ""
    assert problem == ""


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("seq_len", "-4096", "greater than 0"),
        ("seq_len", "0", "greater than 0"),
        ("micro_batch", "lots", "not a number"),
        ("params", "-1", "not be negative"),
        ("n_gpus", "inf", "finite"),
        ("n_gpus", "1e300", "largest sensible value"),
        ("zero", "7", "largest sensible value 3"),
    ],
)
def test_impossible_numbers_are_named(column: str, value: str, says: str) -> None:
    _, problem = clean_row({column: value})
    assert problem.startswith(f"{column}: ")
    assert says in problem


def test_a_row_that_is_no_mapping_is_refused() -> None:
    assert clean_row(["a"]) == ({}, "a row must be a mapping of column to value, not list")


def test_read_plain_and_gzip_with_byte_order_mark_and_bad_bytes(tmp_path) -> None:
    data = b"\xef\xbb\xbfid,model\n1,gpt\xff2\n2\n3,a,surplus\n"
    (tmp_path / "a.csv").write_bytes(data)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(data, mtime=0))
    rows = read_cases(tmp_path / "a.csv")
    assert rows == read_cases(tmp_path / "a.csv.gz")
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert clean_row(rows[1])[0]["model"] == ""
    assert clean_row(rows[2])[1] == "the row has more cells than the header has columns"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.csv", b"", "is empty"),
        ("bad.csv.gz", b"not gzip", "cannot read"),
        ("cut.csv.gz", gzip.compress(b"id\n1\n" * 99, mtime=0)[:20], "cannot read"),
    ],
)
def test_unreadable_files_have_one_clear_line(tmp_path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileInputError, match=says) as caught:
        read_cases(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path) -> None:
    with pytest.raises(FileInputError, match="no such file"):
        read_cases(tmp_path / "none.csv")
    with pytest.raises(FileInputError, match="is a folder"):
        read_cases(tmp_path)


def test_written_whole_with_carried_columns(tmp_path) -> None:
    answers = [
        dict.fromkeys(PREDICTION_COLUMNS) | {"id": "1", "predicted": 2.5, "note": "a, b"},
        dict.fromkeys(PREDICTION_COLUMNS) | {"id": "2"},
    ]
    write_predictions(tmp_path / "out.csv", answers)
    rows = read_cases(tmp_path / "out.csv")
    assert list(rows[0])[:3] == ["id", "metric", "predicted"]
    assert rows[0]["note"] == "a, b"
    assert rows[1]["predicted"] == ""
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_writing_where_one_cannot_is_a_clean_error(tmp_path) -> None:
    with pytest.raises(FileInputError, match="cannot write"):
        write_predictions(tmp_path / "no" / "out.csv", [])


def test_a_failed_write_keeps_the_old_file(tmp_path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")

    class Bomb(dict):
        def items(self) -> NoReturn:
            raise KeyboardInterrupt

        get = __getitem__ = lambda *_: Bomb().items()

    with pytest.raises(KeyboardInterrupt):
        write_predictions(target, [Bomb({"id": "1"})])
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
