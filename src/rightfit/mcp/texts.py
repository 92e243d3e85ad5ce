"""An answer as a few lines that an assistant can quote: the sheet that every face draws, cut to what matters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.sheets import Breakdown, Choice, Lines, Part
from rightfit.explain.tables import Table

#: The lists of a sheet that are worth quoting; the rest is in the structured answer.
QUOTED = frozenset({"why", "warnings", "standing", "refused", "advice", "assumed", "load"})
_MOST_LINES, _MOST_ROWS, _LONGEST = 6, 5, 4000


def sheet_text(parts: Iterable[Part], lang: Lang) -> str:
    """The parts worth quoting as plain text."""
    shown = [text for part in parts if (text := _part_text(part, lang))]
    text = "\n".join(shown)
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition("\n")[0] + "\n..."


def _part_text(part: Part, lang: Lang) -> str:
    if isinstance(part, Choice):
        return "\n".join(line for line in (part.heading, part.headline, *part.lines) if line)
    if isinstance(part, Lines):
        return "\n".join([part.heading, *_list(part.lines)]) if part.name in QUOTED else ""
    if isinstance(part, Table):
        return table_text(part, lang)
    return "" if isinstance(part, Breakdown) else part


def _list(lines: Sequence[str]) -> list[str]:
    shown = [line if line.startswith("  ") else f"- {line}" for line in lines[:_MOST_LINES]]
    return [*shown, f"- ... ({len(lines) - _MOST_LINES})"] if len(lines) > _MOST_LINES else shown


def table_text(table: Table, lang: Lang) -> str:
    """The first rows of a table, cells separated by bars."""
    rows = [[column.show(record.get(column.key)) for column in table.columns] for record in table.records[:_MOST_ROWS]]
    heading = [label("column", column.key, lang) for column in table.columns]
    return "\n".join([*([table.title] if table.title else []), *(" | ".join(row) for row in (heading, *rows))])
