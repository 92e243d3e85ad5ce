"""The words that people write: every line of every table is whole, and every list is used."""

from __future__ import annotations

import ast
import csv
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from source import nodes_of

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.facts import tables
from rightfit.facts.tables import DATA, occurs

TABLES = sorted(path.stem for path in (DATA / "words").glob("*.csv"))
COLUMNS = ["list", "word", "edges", "language", "meaning", "note"]
EDGES = {"both", "start", "end", "open", "name", "whole"}
HAN = re.compile("[\u4e00-\u9fff]")


def lines(name: str) -> Iterator[dict[str, str]]:
    with (DATA / "words" / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


@pytest.mark.parametrize("name", TABLES)
def test_every_line_is_whole(name: str) -> None:
    found = list(lines(name))
    assert list(found[0]) == COLUMNS
    for row in found:
        assert all(row[column] for column in ("list", "word", "meaning")), row
        assert row["edges"] in EDGES, row
        assert row["language"] in ("en", "zh", "any"), row
        assert (row["language"] == "zh") == bool(HAN.search(row["word"])), row
        if row["language"] == "zh":
            assert row["edges"] in ("open", "whole"), row


@pytest.mark.parametrize("name", TABLES)
def test_every_word_is_a_pattern_of_one_word(name: str) -> None:
    for chosen, words in tables.lists(name).items():
        for word in words:
            assert not re.search(r"^[^(\[]*\|", word.word), f"{chosen}: two words on one line: {word.word}"
            re.compile(tables.spelled(name, word.pattern))


@pytest.mark.parametrize("name", TABLES)
def test_no_list_has_a_word_twice(name: str) -> None:
    for chosen, words in tables.lists(name).items():
        written = [(word.word, word.edges) for word in words]
        assert len(set(written)) == len(written), chosen


_ASKS = re.compile(r"\b(?:tables\.\w+|shape|says|senses|words|listed|meanings?|number_in|_?spelled\w*)\(")


@functools.cache
def askers() -> tuple[str, frozenset[str]]:
    """The texts that may ask for a list, as `{list}` or in quotes, and the names that remarks.toml
    has. A module that asks for no words has other things between braces and quotes."""
    root = Path(tables.__file__).parents[1]
    rooms = (root, Path(__file__).parents[2] / "validation")
    modules = (path.read_text(encoding="utf-8") for room in rooms for path in sorted(room.rglob("*.py")))
    rules = (path.read_text(encoding="utf-8") for path in sorted((root / "workload" / "data").glob("*.toml")))
    remarks = re.findall(r"\w+", (root / "proof" / "data" / "remarks.toml").read_text(encoding="utf-8"))
    return "\n".join((*filter(_ASKS.search, modules), *rules)), frozenset(remarks)


@pytest.mark.parametrize("name", TABLES)
def test_every_list_is_used(name: str) -> None:
    asking, remarks = askers()
    text = "\n".join((asking, *(row["word"] for row in lines(name))))
    unused = [
        chosen
        for chosen in tables.lists(name)
        if not (remarks & {chosen, chosen.removesuffix("_remarks")} or f"{{{chosen}}}" in text or f'"{chosen}"' in text)
    ]
    assert not unused, f"nobody asks for these lists of {name}"


def test_edges_say_where_a_word_stands() -> None:
    both, start, end, part, name = (tables.Word("ram", edges, "en", "") for edges in ("both", "start", "end", "open", "name"))
    texts = ("ram", "ramp", "dram", "dramp")
    found = {word.edges: [bool(re.search(word.pattern, text)) for text in texts] for word in (both, start, end, part, name)}
    assert found == {
        "both": [True, False, False, False],
        "start": [True, True, False, False],
        "end": [True, False, True, False],
        "open": [True, True, True, True],
        "name": [True, False, False, False],
    }
    assert re.fullmatch(tables.name_pattern("on demand"), "on-demand")
    assert re.search(tables.name_pattern("按需"), "要按需的")


def test_a_list_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="list of words 'short_units'"):
        tables.words("quantities", "short_units")


def test_meanings_follow_the_order_of_the_lines() -> None:
    assert tables.meaning("choices", "operation_zh", "文本去重") == "dedup-text"
    assert tables.meaning("choices", "operation_zh", "去重") == "dedup"
    assert tables.meaning("choices", "operation_zh", "无") == ""
    values = [meaning for _, meaning in tables.meanings("quantities", "deadline")]
    assert values == ["12h", "48h", "24h", "12h", "7d", "30min", "1h", "30d", "12h", "72h"]


READERS = ("workload", "estimate", "proof")
# Alternations of words that stay in code, and why.
SYNTAX = {
    "num_|max_": "the two beginnings that one setting of gradient boosting has",
    "export|local|readonly|declare": "keywords of the shell",
}
_PLAIN = re.compile(r"\\[a-zA-Z]|\{\w+\}|\(\?P<\w+>|\[[^\]]*\]")


def alternations(text: str) -> Iterator[str]:
    """Pieces of a text between brackets in which two or more plain words (two letters or more)
    stand beside one another, divided by bars."""
    for piece in re.split(r"[()]", _PLAIN.sub("0", text)):
        parts = piece.removeprefix("?:").split("|")
        if sum(bool(re.fullmatch(r"[^*+\d/]*[A-Za-z\u4e00-\u9fff]{2,}[^*+\d/]*", part)) for part in parts) >= 2:
            yield piece.removeprefix("?:")


def constants(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of a module, without what documents it."""
    documents = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.lineno, node.value


def test_no_alternation_of_words_is_left_in_code() -> None:
    root = Path(tables.__file__).parents[1]
    left = [
        f"{path.relative_to(root)}:{line}: {piece}"
        for package in READERS
        for path in sorted((root / package).rglob("*.py"))
        for line, text in constants(path)
        if "|" in text
        for piece in alternations(text)
        if piece not in SYNTAX
    ]
    assert not left, "words belong to facts/data/words, one a line:\n" + "\n".join(left)


def test_an_alternation_of_words_is_seen() -> None:
    assert list(alternations(r"(\d+)\s*(?:images|pictures)")) == ["images|pictures"]
    assert list(alternations(r"(\d+)\s*{sample}|@ (\d+)")) == []
    assert list(alternations("去重|清洗数据")) == ["去重|清洗数据"]


@pytest.mark.parametrize(("table", "column"), [("speed_kernels", "words"), ("speed_quantizations", "words"), ("dtypes", "match")])
def test_plain_words_of_tables_occur_where_the_expression_does(table: str, column: str) -> None:
    """Words without signs of expressions are looked for without compiling one: on every row's
    words, and texts made of them, both say the same."""
    cells = [row[column] for row in facts.table(table)]
    patterns = [part for cell in cells for part in ([cell] if "(" in cell else (cell, *cell.split("|"))) if part]
    texts = [
        f"{before}{text}{after}"
        for text in (*patterns, "", "fp16", "flash attention 2", "a+b")
        for before, after in (("", ""), ("x ", "-y"), ("b", "b"))
    ]
    for pattern in patterns:
        assert [occurs(pattern, text) for text in texts] == [re.search(pattern, text) is not None for text in texts], pattern
