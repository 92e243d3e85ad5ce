"""A case is what its columns say: no engine reads remarks, and every column that one
reads is documented."""

from __future__ import annotations

import ast
import csv
import random
import re
import string
from pathlib import Path

import pytest
from loaded import load_module
from source import nodes_of

import rightfit
from rightfit.errors import UnknownNameError
from rightfit.proof.case_columns import TABLES, case_columns, unread, visible
from rightfit.proof.predict import predict
from rightfit.proof.tables import COLUMNS_FROM_NOTES, ids_in, raw_table, read_table

REPOSITORY = Path(__file__).resolve().parents[2]
VALIDATION = REPOSITORY / "validation"
#: Never read: remarks, where a row was read, what became of it, and what only scoring needs.
HIDDEN = ("notes", "source", "source_where", "usable", "why_not", "corrections", "place", "flags", "trust", "measured")
#: Words that have switched something on when notes were read.
TEMPTING = (
    "static batch", "torch peak, sum over GPUs", "512px 50 steps", "MLPerf closed offline", "XLA; torch.compile", "autocast Matmult-BF16", "channels_last",
    "nvidia-smi", "reserved", "gradient checkpointing", "p4d.24xlarge", "20 ms", "rounded to whole GB", "one-hot sparse", "NVDEC", "300 epochs", "fp8 KV cache",
)  # fmt: skip
FIGURES = ("predicted", "low80", "high80", "low95", "high95", "fits", "p_fits", "error", "assumptions")
MEASURED_TABLES = [name for names in TABLES.values() for name in names]


def poisoned(row: dict[str, str], chance: random.Random) -> dict[str, str]:
    """The row with words in every column that nobody may read, and in one that nobody knows."""
    columns = [*(name for name in HIDDEN if name in row), "whatever"]
    known = {one.column for one in case_columns(table_of_row(row))}
    noise = lambda: f"{chance.choice(TEMPTING)} {''.join(chance.choices(string.ascii_letters + string.digits, k=9))}"  # noqa: E731
    return row | {name: noise() for name in columns if name not in known}


def table_of_row(row: dict[str, str]) -> str:
    from rightfit.proof.predict import table_of

    return table_of(visible(row))


@pytest.mark.parametrize("table", MEASURED_TABLES)
def test_poison_in_hidden_columns_changes_no_number(table: str) -> None:
    chance = random.Random(table)
    rows = read_table(VALIDATION / "truth", table)
    rows = [dict(row) for row in chance.sample(rows, min(400, len(rows)))]
    bare = [{name: cell for name, cell in row.items() if name in {one.column for one in case_columns(table)}} for row in rows]
    plain, stripped, poison = predict(rows), predict(bare), predict([poisoned(row, chance) for row in rows])
    assert any(answer["predicted"] for answer in plain)
    for name in FIGURES:
        assert [answer[name] for answer in poison] == [answer[name] for answer in plain] == [answer[name] for answer in stripped], name


def test_hidden_columns_are_not_among_those_that_are_read() -> None:
    read = {(one.table, one.column) for one in case_columns()}
    named = {(table, name) for table in TABLES for name in HIDDEN}
    assert read & named == {("inference", "flags")}  # of a service they are settings; of measured training rows the reader's remarks


def test_every_column_that_an_engine_asks_for_is_documented() -> None:
    """Each `row.get("x")`, `word(row, "x")`, `number_of(row, "x")` of the readers of cases names a
    documented column."""
    documented = {one.column for one in case_columns()}
    package = Path(rightfit.__file__).parent
    readers = [
        *package.glob("proof/*predict.py"),
        *package.glob("proof/cases/*.py"),
    ]
    asked: set[str] = set()
    for path in readers:
        for call in (node for node in nodes_of(path) if isinstance(node, ast.Call)):
            words = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            names = [arg.id for arg in call.args if isinstance(arg, ast.Name)]
            function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            of_row = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "row" and function == "get"
            if words and words[0] and (of_row or (function in ("word", "number", "word_in", "number_of") and "row" in names)):
                asked.add(words[0])
    assert len(asked) > 60
    assert asked <= documented, sorted(asked - documented)


def test_columns_are_told_in_both_languages_and_once() -> None:
    found = [(one.table, one.column) for one in case_columns()]
    assert len(found) == len(set(found))
    for one in case_columns():
        assert one.meaning
        assert re.search(r"[\u4e00-\u9fff]", one.meaning_zh), one
    with pytest.raises(UnknownNameError, match="inference"):
        case_columns("inferense")


def test_the_converted_columns_are_what_the_notes_say() -> None:
    module = load_module(VALIDATION / "columns_from_notes.py")
    assert (VALIDATION / COLUMNS_FROM_NOTES).read_text(encoding="utf-8") == module.text(), "run validation/columns_from_notes.py"


def test_converted_columns_never_hold_the_measured_value() -> None:
    """A timing in a note ("step 185.8 ms") is an outcome, not a fact of the case."""
    with (VALIDATION / COLUMNS_FROM_NOTES).open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert {(line["table"], line["column"]) for line in lines} <= {
        (table, one.column) for kind, tables in TABLES.items() for one in case_columns(kind) for table in tables
    }
    measured = {name: {row["id"]: row["measured"] for row in raw_table(VALIDATION / "truth", name)} for name in MEASURED_TABLES}
    equal = [(line["table"], name) for line in lines for name in ids_in(line["ids"]) if line["value"] == measured[line["table"]][name]]
    assert not [name for name in equal if "." in measured[name[0]][name[1]]]  # whole numbers meet by chance: 6 categories, 1 GiB


def test_runs_of_names() -> None:
    assert list(ids_in("a-0009..11 b-1")) == ["a-0009", "a-0010", "a-0011", "b-1"]


def test_columns_that_are_not_read_are_told_with_the_nearest() -> None:
    assert unread(["id", "metric", "seq_length", "notes", "source", "zorblax"]) == [("seq_length", "seq_len"), ("zorblax", "")]
    assert unread(["framework", "flags", "image_size"]) == []
    for table in MEASURED_TABLES:
        header = list(raw_table(VALIDATION / "truth", table)[0])
        assert unread(header) == [], table


def test_a_long_table_is_worked_out_in_parts_with_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from rightfit.proof import predict as engine

    rows = [row for rows in TABLES.values() for row in rows[:6]] if isinstance(TABLES, dict) else []
    rows += [{"model": "7B", "gpu": "A100-SXM-80GB", "method": "lora", "micro_batch": str(number)} for number in range(1, 20)]
    whole = engine.predict(rows)
    sizes: list[int] = []
    answered = engine.answered
    monkeypatch.setattr(engine, "answered", lambda part: sizes.append(len(part)) or answered(part))
    monkeypatch.setattr(engine, "ROWS_AT_ONCE", 7)
    assert engine.predict(rows) == whole
    assert max(sizes) == 7
    assert engine.predict([]) == []
