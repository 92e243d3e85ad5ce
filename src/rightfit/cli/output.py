"""Answers to standard output in the format asked for; everything else to standard error."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

from rightfit.cells import safe_cell
from rightfit.cli.tables import markdown, output_width, render, wrap
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.tables import Table
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.explain.sheets import Part


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

    @property
    def is_machine(self) -> bool:
        """Whether a program reads the answer: everything is given, unrounded."""
        return self.format in (Format.json, Format.yaml, Format.csv)

    def limit(self, *, default: int) -> int | None:
        """How many records to give: what --top says, else all to programs and `default` to people."""
        if self.top is not None:
            return self.top or None
        return None if self.is_machine else default


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found: `data` for json and yaml, `records` for csv, `parts` (prose and tables; of html any part of a sheet) for
    people.

    `figures`: HTML of gauges and charts that follows the choice.
    """

    data: Any
    records: Sequence[Mapping[str, Any]]
    parts: Sequence[Part]
    figures: str = ""


def emit(answer: Answer, view: View) -> None:
    """Write the answer to standard output."""
    text = {
        Format.json: lambda: _json(answer.data),
        Format.yaml: lambda: _yaml(answer.data),
        Format.csv: lambda: _csv(answer.records),
        Format.markdown: lambda: "\n\n".join(_markdown(part, view) for part in _plain_parts(answer)),
        Format.html: lambda: _html(answer, view),
        Format.table: lambda: text_of(_plain_parts(answer), view),
    }[view.format]()
    text = text.rstrip("\n") + "\n" if text else ""
    if view.top == 0 and sys.stdout.isatty():
        import click

        return click.echo_via_pager(text)
    sys.stdout.write(text)
    return None


def note(text: str, view: View) -> None:
    """A remark on standard error, unless --quiet."""
    if not view.quiet:
        sys.stdout.flush()
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def listing(records: Sequence[Mapping[str, Any]], table: Table, view: View, *, total: int | None = None) -> None:
    """A list of records: people see the first ones and are told of the rest; programs get all unless --top says otherwise."""
    shown = list(records[: view.limit(default=20)])
    count = len(records) if total is None else total
    emit(Answer(shown, shown, [dataclasses.replace(table, records=shown)] if shown else []), view)
    if not records:
        note(label("status", "nothing_found", view.lang), view)
    elif len(shown) < count:
        note(label("status", "more", view.lang, shown=len(shown), total=f"{count:,}"), view)


def plain(value: Any) -> Any:
    """Only what JSON can hold: NaN and infinity become null, NumPy numbers and enumerations plain ones."""
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
    return "\n".join(f"- {line.strip()}" if line.startswith("  ") else line for line in part.splitlines())


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
