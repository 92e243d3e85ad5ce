"""Tables of plain text that fit the width they get, with Chinese characters counted as two columns; Markdown of the same."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence

from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.tables import Column, Table

PIPED_WIDTH = 120
_GAP = "  "
_SHORTEST_FLEXIBLE = 10
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
    """The table as lines of at most `width` columns (as long as the columns that must stay allow it)."""
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
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
    rule = "|" + "|".join("---:" if column.right else "---" for column in table.columns) + "|"
    title = [f"**{table.title}**", ""] if table.title else []
    return "\n".join([*title, rows[0], rule, *rows[1:]])


def wrap(line: str, *, width: int) -> str:
    """Break one line of prose at blanks, or between Chinese characters; what follows keeps the indent, and hangs under a "- "."""
    body = line.lstrip(" ")
    indent = " " * (len(line) - len(body) + (2 if body.startswith("- ") else 0))
    lines, current = [], line[: len(line) - len(body)]
    for word in _words(body):
        if current.strip() and text_width(current + word.rstrip()) > width:
            lines.append(current.rstrip())
            current = indent + word.lstrip()
        else:
            current += word
    return "\n".join([*lines, current.rstrip()])


def _words(text: str) -> Iterable[str]:
    """Pieces that may stand at the end of a line: words with their blank, single Chinese characters with their punctuation."""
    piece = ""
    for char, following in zip(text, f"{text} "[1:], strict=True):
        piece += char
        wide = unicodedata.east_asian_width(char) in "WF"
        if (
            char == " "
            or (wide and following not in "，。、；：！？）」】》%")
            or (not wide and unicodedata.east_asian_width(following) == "W")
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
    excess = _total(cells) - width
    for index, column in enumerate(columns):
        if excess > 0 and column.flexible:
            size = max(text_width(row[index]) for row in cells)
            target = max(_SHORTEST_FLEXIBLE, size - excess)
            cells = [[_cut(cell, target) if place == index else cell for place, cell in enumerate(row)] for row in cells]
            excess -= size - target
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
