"""Answers to standard output in the format asked for; everything else to standard error."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table
from rightfit.files import safe_cell, write_whole
from rightfit.messages import Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.explain.sheets import Part
    from rightfit.market import Catalog


# ---- Standard output is the answer's, also while code runs that is not ours.

_OUTPUT, _ERRORS = 1, 2  # file descriptors


@contextlib.contextmanager
def printing_aside() -> Iterator[None]:
    """What is printed within goes to standard error, whether Python prints it or C does
    past `sys.stdout`."""
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as after:
        with contextlib.suppress(OSError):  # a stream that the shell has closed (`>&-`) needs no protection
            answer = os.dup(_OUTPUT)
            after.callback(os.close, answer)
            os.dup2(_ERRORS, _OUTPUT)
            after.callback(os.dup2, answer, _OUTPUT)
            after.callback(_flush)
        yield


def _flush() -> None:
    """Write out what waits in buffers while it still goes aside: Python's own stream of the
    process, and those of C."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.__stdout__.flush()  # type: ignore[union-attr]  # None without a console
    import ctypes

    with contextlib.suppress(OSError, TypeError, AttributeError):  # Windows has no library of that name
        ctypes.CDLL(None).fflush(None)


# ---- Tables of plain text that fit the width they get, with Chinese characters counted as two
# columns; Markdown of the same.

PIPED_WIDTH = 120
_GAP = "  "
_SHORTEST_FLEXIBLE = 8
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def output_width() -> int:
    """Columns of the terminal; when piped, COLUMNS or 120."""
    if sys.stdout.isatty():
        import shutil  # it loads every kind of archive

        return shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() and int(given) > 0 else PIPED_WIDTH


def text_width(text: str) -> int:
    """Columns that `text` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def render(table: Table, *, lang: Lang, width: int, styled: bool = False) -> str:
    """The table as lines of at most `width` columns (as long as the columns that
    must stay allow it)."""
    columns, cells = _fit(table, lang=lang, width=width)
    widths = [max(text_width(row[index]) for row in cells) for index in range(len(columns))]
    lines = [_line(row, widths, columns) for row in cells]
    heading = f"{_BOLD}{lines[0]}{_PLAIN}" if styled else lines[0]
    rule = _GAP.join("-" * size for size in widths)
    title = [f"{_BOLD}{table.title}{_PLAIN}" if styled else table.title] if table.title else []
    return "\n".join([*title, heading, rule, *lines[1:]])


def markdown(table: Table, *, lang: Lang) -> str:
    """The table as GitHub Markdown, all columns."""
    cells = _cells(table, table.columns, lang=lang)
    rows = ["| " + " | ".join(_plain_markdown(cell).replace("|", "\\|") for cell in row) + " |" for row in cells]
    rule = "|" + "|".join("---:" if column.right else "---" for column in table.columns) + "|"
    title = [f"**{_plain_markdown(table.title)}**", ""] if table.title else []
    return "\n".join([*title, rows[0], rule, *rows[1:]])


def _plain_markdown(text: str) -> str:
    """A text in which Markdown finds neither HTML nor links, pictures or code: it holds names that
    people gave."""
    text = re.sub(r"[\r\n]+", " ", text).replace("`", "\\`")
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text).replace("](", "]\\(").replace("][", "]\\[")


def wrap(line: str, *, width: int) -> str:
    """Break one line of prose at blanks, or between Chinese characters; what follows keeps the
    indent, and hangs under a "- "."""
    body = line.lstrip(" ")
    indent = " " * (len(line) - len(body) + (2 if body.startswith("- ") else 0))
    lines, current = [], line[: len(line) - len(body)]
    for word in _quantities(_words(body)):
        if current.strip() and text_width(current + word.rstrip()) > width:
            lines.append(current.rstrip())
            current = indent + word.lstrip()
        else:
            current += word
    return "\n".join([*lines, current.rstrip()])


_CLOSING = "，。、；：！？）」】》%"  # begin no line
#: The end of a number, or of "1 x", and what stays on its line: a unit of few letters, "x", or a
#: Chinese measure word.
_NUMBER_ENDS, _UNIT = re.compile(r"(\d|\d x) $"), re.compile(r"(x|[A-Za-z]{1,4}(/s)?)[,.;:)]* ?$|[\u4e00-\u9fff]")
_LONGEST_QUANTITY = 24


def _quantities(pieces: Iterable[str]) -> Iterable[str]:
    """A number stays with its unit: "13.8 s", "1 x A100"."""
    held = ""
    for piece in pieces:
        joins = _NUMBER_ENDS.search(held) and (held.endswith(" x ") or _UNIT.match(piece))
        if held and not (joins and len(held + piece) < _LONGEST_QUANTITY):
            yield held
            held = ""
        held += piece
    if held:
        yield held


def _words(text: str) -> Iterable[str]:
    """Pieces that may stand at the end of a line: words with their blank, single Chinese characters
    with their punctuation."""
    piece = ""
    for char, following in zip(text, f"{text} "[1:], strict=True):
        piece += char
        wide = unicodedata.east_asian_width(char) in "WF"
        if (
            char == " "
            or (wide and following not in _CLOSING)
            or (not wide and unicodedata.east_asian_width(following) == "W" and following not in _CLOSING)
        ):
            yield piece
            piece = ""
    if piece:
        yield piece


def _fit(table: Table, *, lang: Lang, width: int) -> tuple[Sequence[Column], list[list[str]]]:
    columns = list(table.columns)
    cells = _cells(table, columns, lang=lang)
    while _total(cells) > width and any(column.drop for column in columns):
        loser = max(range(len(columns)), key=lambda index: columns[index].drop)
        columns.pop(loser)
        cells = [[cell for index, cell in enumerate(row) if index != loser] for row in cells]
    sizes = [max(map(text_width, column)) for column in zip(*cells, strict=True)]
    for _ in range(_total(cells) - width):
        longest = max((index for index, column in enumerate(columns) if column.flexible), key=sizes.__getitem__, default=0)
        if not columns[longest].flexible or sizes[longest] <= _SHORTEST_FLEXIBLE:
            break
        sizes[longest] -= 1
    cells = [[_cut(cell, size) for cell, size in zip(row, sizes, strict=True)] for row in cells]
    return columns, cells


def _total(cells: list[list[str]]) -> int:
    return sum(max(map(text_width, column)) for column in zip(*cells, strict=True)) + len(_GAP) * (len(cells[0]) - 1)


def _cells(table: Table, columns: Sequence[Column], *, lang: Lang) -> list[list[str]]:
    heading = [label("column", column.key, lang) for column in columns]
    return [heading, *([column.show(record.get(column.key)) for column in columns] for record in table.records)]


def _cut(text: str, width: int) -> str:
    if text_width(text) <= width:
        return text
    kept = ""
    for char in text:
        if text_width(kept + char) > width - 1:
            break
        kept += char
    return kept + "…"


def _line(row: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    parts = []
    for cell, size, column in zip(row, widths, columns, strict=True):
        blank = " " * (size - text_width(cell))
        parts.append(blank + cell if column.right else cell + blank)
    return _GAP.join(parts).rstrip()


class Format(StrEnum):
    """How the answer is written."""

    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"
    markdown = "markdown"
    html = "html"


@dataclass(frozen=True, slots=True)
class View:
    """How the user wants to see answers."""

    format: Format = Format.table
    lang: Lang = "en"
    top: int | None = None
    quiet: bool = False
    verbose: bool = False
    price_book: str | None = None
    is_lang_given: bool = False
    out: Path | None = None  # the file that the answer goes to; standard output otherwise

    @property
    def is_machine(self) -> bool:
        """Whether a program reads the answer: everything is given, unrounded."""
        return self.format in (Format.json, Format.yaml, Format.csv)

    def limit(self, *, default: int) -> int | None:
        """How many records to give: what --top says, else all to programs and
        `default` to people."""
        if self.top is not None:
            return self.top or None
        return None if self.is_machine else default


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found: `data` for json and yaml, `records` for csv, `parts` (prose and tables;
    of html any part of a sheet) for people.

    `figures`: HTML of gauges and charts that follows the choice.
    """

    data: Any
    records: Sequence[Mapping[str, Any]]
    parts: Sequence[Part]
    figures: str = ""


def emit(answer: Answer, view: View) -> None:
    """Write the answer to standard output, or to the file that is named for it."""
    text = _written(answer, view)
    if view.out is not None:
        write_whole(view.out, text)
        key = "answer_json" if view.format is Format.json else "answer"
        return note(label("status", key, view.lang, path=view.out), view)
    if view.top == 0 and sys.stdout.isatty():
        import click

        return click.echo_via_pager(text)
    sys.stdout.write(text)
    return None


def _written(answer: Answer, view: View) -> str:
    """The answer in the format asked for."""
    text = {
        Format.json: lambda: _json(answer.data),
        Format.yaml: lambda: _yaml(answer.data),
        Format.csv: lambda: _csv(answer.records),
        Format.markdown: lambda: "\n\n".join(_markdown(part, view) for part in _plain_parts(answer)),
        Format.html: lambda: _html(answer, view),
        Format.table: lambda: text_of(_plain_parts(answer), view),
    }[view.format]()
    return text.rstrip("\n") + "\n" if text else ""


def note(text: str, view: View) -> None:
    """A remark on standard error, unless --quiet."""
    if not view.quiet:
        sys.stdout.flush()
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def listing(records: Sequence[Mapping[str, Any]], table: Table, view: View, *, total: int | None = None, more: str = "more") -> None:
    """A list of records: people see the first ones and are told of the rest (by the status `more`);
    programs get all unless --top says otherwise."""
    shown = list(records[: view.limit(default=20)])
    count = len(records) if total is None else total
    emit(Answer(shown, shown, [dataclasses.replace(table, records=shown)] if shown else []), view)
    if not records:
        note(label("status", "nothing_found", view.lang), view)
    elif len(shown) < count:
        note(label("status", more, view.lang, shown=len(shown), total=f"{count:,}"), view)


def plain(value: Any) -> Any:
    """Only what JSON can hold: NaN and infinity become null, NumPy numbers and
    enumerations plain ones."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float):
        return None if not math.isfinite(value) else int(value) if value == int(value) and abs(value) < 1e15 else value
    return value


def _json(data: Any) -> str:
    import json

    return json.dumps(plain(data), ensure_ascii=False, indent=2, allow_nan=False)


def _yaml(data: Any) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(plain(data), Dumper=dumper, allow_unicode=True, sort_keys=False, width=1000))


def _csv(records: Sequence[Mapping[str, Any]]) -> str:
    import csv
    import io

    if not records:
        return ""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=list(dict.fromkeys(key for record in records for key in record)), lineterminator="\n")
    writer.writerow({name: safe_cell(name) for name in writer.fieldnames})
    writer.writerows({key: _csv_cell(value) for key, value in record.items()} for record in records)
    return buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, list):
        return safe_cell(";".join(map(str, value)))
    return int(value) if isinstance(value, bool) else safe_cell(value)


def _plain_parts(answer: Answer) -> list[str | Table]:
    return [part for part in answer.parts if isinstance(part, str | Table)]


def _html(answer: Answer, view: View) -> str:
    from rightfit.explain.html import document, sheet_html, title_of

    fragment = sheet_html(answer.parts, view.lang, after_choice=answer.figures)
    return document(fragment, title=title_of(answer.parts), lang=view.lang)


def _markdown(part: str | Table, view: View) -> str:
    """Prose with its indented lines as a list, or a table."""
    if isinstance(part, Table):
        return markdown(part, lang=view.lang)
    lines = [(line.startswith("  "), _plain_markdown(line)) for line in part.splitlines()]
    return "\n".join(f"- {line.strip()}" if is_item else line for is_item, line in lines)


def text_of(parts: Sequence[str | Table], view: View) -> str:
    """Prose and tables as lines that fit the width."""
    width, styled = output_width(), sys.stdout.isatty() and view.format is Format.table
    shown = []
    for part in parts:
        if isinstance(part, Table):
            shown.append(render(part, lang=view.lang, width=width, styled=styled))
        else:
            shown.append("\n".join(wrap(line, width=width) for line in part.splitlines()))
    return "\n\n".join(shown)


# ---- Open the catalog, and say so when that takes a while.


def open_market(view: View) -> Catalog:
    """The catalog, with the price book that was given; its store is built on first use, which takes
    seconds and is announced."""
    from rightfit.market import store
    from rightfit.search.offers import open_priced

    if not store.store_path().exists():
        note(label("catalog", "building", view.lang), view)
    return open_priced(view.price_book)
