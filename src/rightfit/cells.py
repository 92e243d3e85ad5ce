"""Cells of a CSV file that is opened as a sheet: text that a spreadsheet would run as a formula
is told to be text."""

from __future__ import annotations

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\n")


def safe_cell(value: Any) -> Any:
    """The value, with an apostrophe before text that begins like a formula; numbers written as text
    stay as they are. A carriage return becomes a line feed: Python's writer leaves it bare, and a
    reader ends the row there. Source: OWASP, "CSV Injection"."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n") if "\r" in value else value
    return "'" + text if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
